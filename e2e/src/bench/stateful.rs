//! StatefulSets: a large one that is made all at once, and one that is rolled pod by pod on simulated nodes.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use http::Request;
use http::header::CONTENT_TYPE;
use kube::config::{KubeConfigOptions, Kubeconfig};
use nodes::scheduler::SchedulerOptions;
use nodes::{Fleet, FleetOptions};
use serde::Serialize;
use serde_json::{Value, json};

use super::scenario::{annotations, create_namespace, pod_spec, post};
use super::{Contender, Moment, Writes};
use crate::controlplane::{Binaries, ControlPlane};
use crate::{Server, wait};

/// What both run.
const CONTROLLERS: &[&str] = &["statefulset-controller"];
const NAMESPACE: &str = "bench-stateful";
const NODES: u32 = 50;
/// How long one phase may take for each pod, and at least.
const EACH: Duration = Duration::from_millis(500);
const LEAST: Duration = Duration::from_mins(2);

/// How large the sets are.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Stateful {
    /// Pods of the set that is made all at once.
    pub parallel: u64,
    /// Pods of the set that is rolled one by one.
    pub ordered: u64,
}

/// What one contender took for it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct StatefulMeasurement {
    /// Whose.
    pub contender: Contender,
    /// Which of the repetitions, from 1.
    pub run: usize,
    /// From the set's creation until its status says that every pod is ready.
    pub parallel: Moment,
    /// What was written for it.
    pub parallel_writes: Writes,
    /// From the new template until every pod has it and is ready.
    pub ordered: Moment,
    /// What was written for it.
    pub ordered_writes: Writes,
    /// The most memory that the process had resident.
    pub peak_rss: u64,
}

/// A contender at work. Ends before the control plane that it talks to.
struct Run {
    contender: Contender,
    controller: Server,
    fleet: Fleet,
    plane: ControlPlane,
    sets: Stateful,
}

/// Time, processor seconds and writes so far.
struct Spent {
    at: Instant,
    cpu: f64,
    writes: Writes,
}

impl fmt::Display for Stateful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { parallel, ordered } = self;
        write!(f, "one Parallel set of {parallel} made, one OrderedReady set of {ordered} rolled, on {NODES} simulated nodes")
    }
}

// === impl Stateful ===

impl Stateful {
    /// The large one of so many pods.
    pub fn of(parallel: u64) -> Self {
        Self { parallel, ordered: 100 }
    }

    /// Takes one measurement. All processes have ended when this returns.
    pub async fn measure(self, contender: Contender, run: usize, binaries: &Binaries) -> Result<StatefulMeasurement> {
        let plane = ControlPlane::builder().binaries(binaries.folder()).start().await?;
        create_namespace(plane.admin(), NAMESPACE).await?;
        let file = Kubeconfig::read_from(plane.admin_kubeconfig())?;
        let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        let options = FleetOptions {
            count: NODES,
            pods_per_node: u32::try_from((self.parallel + self.ordered) * 2 / u64::from(NODES)).unwrap_or(u32::MAX).max(110),
            scheduler: Some(SchedulerOptions::default()),
            ..FleetOptions::default()
        };
        let fleet = Fleet::start(&config, options).await?;
        let controller = contender.spawn(&plane, CONTROLLERS)?;
        let mut at_work = Run { contender, controller, fleet, plane, sets: self };
        let measurement = at_work.phases(run).await?;
        contender.stop(&mut at_work.controller).await?;
        at_work.fleet.shutdown().await?;
        Ok(measurement)
    }
}

// === impl Run ===

impl Run {
    async fn phases(&mut self, run: usize) -> Result<StatefulMeasurement> {
        let Stateful { parallel, ordered } = self.sets;
        let before = self.spent().await?;
        post(self.plane.admin(), &path(), &set("parallel", parallel, "Parallel")).await?;
        self.until_ready("parallel", parallel, "1").await?;
        let made = self.spent().await?;

        post(self.plane.admin(), &path(), &set("ordered", ordered, "OrderedReady")).await?;
        self.until_ready("ordered", ordered, "1").await?;
        let rolling = self.spent().await?;
        self.set_version("ordered", "2").await?;
        self.until_ready("ordered", ordered, "2").await?;
        let rolled = self.spent().await?;
        Ok(StatefulMeasurement {
            contender: self.contender,
            run,
            parallel: made.since(&before),
            parallel_writes: made.writes - before.writes,
            ordered: rolled.since(&rolling),
            ordered_writes: rolled.writes - rolling.writes,
            peak_rss: self.controller.usage()?.peak,
        })
    }

    /// Waits until a set says that all its pods are of that version and ready.
    async fn until_ready(&mut self, name: &str, pods: u64, version: &str) -> Result<()> {
        let client = self.plane.admin().clone();
        let patience = LEAST + EACH * u32::try_from(pods).unwrap_or(u32::MAX);
        wait::until(&format!("{pods} pods of {name} at version {version}"), patience, async || {
            self.controller.process_mut().ensure_running().map_err(wait::give_up)?;
            let set: Value = client.request(Request::get(format!("{}/{name}", path())).body(Vec::new())?).await?;
            ensure!(is_complete(&set), "{}", set.pointer("/status").unwrap_or(&Value::Null));
            Ok(())
        })
        .await
    }

    async fn set_version(&self, name: &str, version: &str) -> Result<()> {
        let patch = json!({"spec": {"template": {"metadata": {"annotations": {"version": version}}}}});
        let request = Request::patch(format!("{}/{name}", path())).header(CONTENT_TYPE, "application/merge-patch+json");
        let request = request.body(patch.to_string().into_bytes())?;
        self.plane.admin().request::<Value>(request).await.map(drop).with_context(|| format!("change {name}"))
    }

    async fn spent(&mut self) -> Result<Spent> {
        let page = self.plane.api_server_endpoint(0)?.text("/metrics").await?;
        Ok(Spent { at: Instant::now(), cpu: self.controller.usage()?.cpu.as_secs_f64(), writes: Writes::of_sets(&page) })
    }
}

// === impl Spent ===

impl Spent {
    fn since(&self, earlier: &Self) -> Moment {
        Moment { seconds: self.at.duration_since(earlier.at).as_secs_f64(), cpu: self.cpu - earlier.cpu }
    }
}

fn path() -> String {
    format!("/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets")
}

fn is_complete(set: &Value) -> bool {
    let number = |path| set.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    let wanted = number("/spec/replicas");
    let revision = |which: &str| set.pointer(&format!("/status/{which}")).and_then(Value::as_str);
    number("/status/observedGeneration") >= number("/metadata/generation")
        && ["/status/replicas", "/status/updatedReplicas", "/status/readyReplicas"].iter().all(|path| number(path) == wanted)
        && revision("currentRevision") == revision("updateRevision")
}

fn set(name: &str, replicas: u64, policy: &str) -> Value {
    let labels = json!({"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "bench"});
    let mut spec = pod_spec(name);
    // So that the nodes need not delete what the controllers have deleted.
    spec.as_object_mut().map(|fields| fields.insert("terminationGracePeriodSeconds".to_owned(), json!(0)));
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "serviceName": name, "podManagementPolicy": policy, "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "template": {"metadata": {"labels": labels, "annotations": annotations(name)}, "spec": spec},
        },
    })
}
