//! Deployments: a rolling update of all of them on simulated nodes, and a start beside all their old ReplicaSets.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use http::Request;
use http::header::CONTENT_TYPE;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use nodes::scheduler::SchedulerOptions;
use nodes::{Fleet, FleetOptions};
use serde::Serialize;
use serde_json::{Value, json};

use super::scenario::{annotations, count_pods, create_namespace, for_all, pod_spec, post};
use super::{Contender, Moment, Writes};
use crate::controlplane::{Binaries, ControlPlane};
use crate::{Server, wait};

/// What both run.
const CONTROLLERS: &[&str] = &["deployment-controller", "replicaset-controller"];
const NAMESPACES: u64 = 10;
const NODES: u32 = 100;
const PROBE: &str = "bench-probe";
/// How long one phase may take for each pod, and at least.
const EACH: Duration = Duration::from_millis(150);
const LEAST: Duration = Duration::from_mins(2);

/// How many Deployments, of which size, with how many old ReplicaSets.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Rollout {
    /// Deployments.
    pub deployments: u64,
    /// Pods of each.
    pub replicas: u64,
    /// Old ReplicaSets of each, at the second start.
    pub history: u64,
}

/// What one contender took for it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct RolloutMeasurement {
    /// Whose.
    pub contender: Contender,
    /// Which of the repetitions, from 1.
    pub run: usize,
    /// From the first new template until every Deployment was complete.
    pub seconds: f64,
    /// The controllers' processor time for it.
    pub cpu: f64,
    /// What they wrote.
    pub writes: Writes,
    /// The most memory that the process had resident until then.
    pub peak_rss: u64,
    /// A start with all old ReplicaSets there, until a pod that was missing was made.
    pub cold_start: Moment,
    /// The most memory that the process had resident until then.
    pub cold_start_peak_rss: u64,
}

/// A contender at work. Ends before the control plane that it talks to.
struct Run {
    contender: Contender,
    controller: Server,
    fleet: Fleet,
    plane: ControlPlane,
    rollout: Rollout,
}

impl fmt::Display for Rollout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deployments, replicas, history } = self;
        write!(f, "{deployments} Deployments of {replicas} on {NODES} simulated nodes, {history} old ReplicaSets each at the cold start")
    }
}

// === impl Rollout ===

impl Rollout {
    /// Of so many Deployments.
    pub fn of(deployments: u64) -> Self {
        Self { deployments, replicas: 10, history: 10 }
    }

    /// Takes one measurement. All processes have ended when this returns.
    pub async fn measure(self, contender: Contender, run: usize, binaries: &Binaries) -> Result<RolloutMeasurement> {
        let plane = ControlPlane::builder().binaries(binaries.folder()).start().await?;
        for n in 0..NAMESPACES {
            create_namespace(plane.admin(), &namespace(n)).await?;
        }
        create_namespace(plane.admin(), PROBE).await?;
        let file = Kubeconfig::read_from(plane.admin_kubeconfig())?;
        let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        // Room for all pods and their surge.
        let options = FleetOptions {
            count: NODES,
            pods_per_node: u32::try_from(self.pods() * 2 / u64::from(NODES)).unwrap_or(u32::MAX).max(110),
            scheduler: Some(SchedulerOptions::default()),
            ..FleetOptions::default()
        };
        let fleet = Fleet::start(&config, options).await?;
        let controller = contender.spawn(&plane, CONTROLLERS)?;
        let mut at_work = Run { contender, controller, fleet, plane, rollout: self };
        let measurement = at_work.phases(run).await?;
        contender.stop(&mut at_work.controller).await?;
        at_work.fleet.shutdown().await?;
        Ok(measurement)
    }

    fn pods(self) -> u64 {
        self.deployments * self.replicas
    }

    fn patience(self) -> Duration {
        LEAST + EACH * u32::try_from(self.pods()).unwrap_or(u32::MAX)
    }
}

// === impl Run ===

impl Run {
    async fn phases(&mut self, run: usize) -> Result<RolloutMeasurement> {
        let client = self.plane.admin().clone();
        let numbers: Vec<u64> = (0..self.rollout.deployments).collect();
        let (creator, replicas) = (client.clone(), self.rollout.replicas);
        for_all(&numbers, move |n| {
            let client = creator.clone();
            async move { post(&client, &path(n, "deployments"), &deployment(n, replicas)).await }
        })
        .await?;
        self.until_complete("1").await?;

        let before = self.spent().await?;
        let started = Instant::now();
        let changer = client.clone();
        for_all(&numbers, move |n| {
            let client = changer.clone();
            async move { set_version(&client, n, "2").await }
        })
        .await?;
        self.until_complete("2").await?;
        let seconds = started.elapsed().as_secs_f64();
        let after = self.spent().await?;
        let peak_rss = self.controller.usage()?.peak;

        self.make_history(&client, &numbers).await?;
        let cold_start = self.cold_start(&client).await?;
        Ok(RolloutMeasurement {
            contender: self.contender,
            run,
            seconds,
            cpu: after.0 - before.0,
            writes: after.1 - before.1,
            peak_rss,
            cold_start,
            cold_start_peak_rss: self.controller.usage()?.peak,
        })
    }

    /// Waits until every Deployment says that all its pods are of that version and available, and no others are there. One after the other:
    /// what is complete stays so, and to list all of them again and again would be most of what the API server does.
    async fn until_complete(&mut self, version: &str) -> Result<()> {
        let client = self.plane.admin().clone();
        let (mut done, wanted) = (0, self.rollout.deployments);
        wait::until(&format!("every Deployment at version {version}"), self.rollout.patience(), async || {
            self.controller.process_mut().ensure_running().map_err(wait::give_up)?;
            while done < wanted {
                let path = format!("{}/{}", path(done, "deployments"), name(done));
                let deployment: Value = client.request(Request::get(path).body(Vec::new())?).await?;
                ensure!(is_complete(&deployment, version), "the first {done} of {wanted} are complete, and perhaps later ones");
                done += 1;
            }
            Ok(())
        })
        .await
    }

    /// The old ReplicaSets that so many more rollouts would have left; without the time that those would take.
    async fn make_history(&mut self, client: &Client, numbers: &[u64]) -> Result<()> {
        let (maker, more) = (client.clone(), self.rollout.history.saturating_sub(1));
        for_all(numbers, move |n| {
            let client = maker.clone();
            async move {
                let owner: Value =
                    client.request(Request::get(format!("{}/{}", path(n, "deployments"), name(n))).body(Vec::new())?).await?;
                for old in 0..more {
                    post(&client, &path(n, "replicasets"), &old_set(&owner, n, old)).await?;
                }
                Ok(())
            }
        })
        .await?;
        let wanted = self.rollout.deployments * (self.rollout.history + 1);
        wait::until("every old ReplicaSet's status", self.rollout.patience(), async || {
            self.controller.process_mut().ensure_running().map_err(wait::give_up)?;
            let list: Value = client.request(Request::get("/apis/apps/v1/replicasets").body(Vec::new())?).await?;
            let all = list.pointer("/items").and_then(Value::as_array).context("a list without items")?;
            let observed = all.iter().filter(|set| set.pointer("/status/observedGeneration").is_some()).count();
            ensure!(observed as u64 == wanted, "{observed} of {wanted} are observed");
            Ok(())
        })
        .await
    }

    async fn cold_start(&mut self, client: &Client) -> Result<Moment> {
        self.contender.stop(&mut self.controller).await?;
        post(client, &format!("/apis/apps/v1/namespaces/{PROBE}/deployments"), &deployment(0, 1)).await?;
        let started = Instant::now();
        self.controller = self.contender.spawn(&self.plane, CONTROLLERS)?;
        wait::until("the pod that was missing", self.rollout.patience(), async || {
            self.controller.process_mut().ensure_running().map_err(wait::give_up)?;
            ensure!(count_pods(client, Some(PROBE)).await? == 1, "no pod");
            Ok(())
        })
        .await?;
        Ok(Moment { seconds: started.elapsed().as_secs_f64(), cpu: self.controller.usage()?.cpu.as_secs_f64() })
    }

    async fn spent(&mut self) -> Result<(f64, Writes)> {
        let page = self.plane.api_server_endpoint(0)?.text("/metrics").await?;
        Ok((self.controller.usage()?.cpu.as_secs_f64(), Writes::in_rollout(&page)))
    }
}

fn namespace(n: u64) -> String {
    format!("bench-{}", n % NAMESPACES)
}

fn name(n: u64) -> String {
    format!("web-{n}")
}

fn path(n: u64, resource: &str) -> String {
    format!("/apis/apps/v1/namespaces/{}/{resource}", namespace(n))
}

async fn set_version(client: &Client, n: u64, version: &str) -> Result<()> {
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {"version": version}}}}});
    let request = Request::patch(format!("{}/{}", path(n, "deployments"), name(n))).header(CONTENT_TYPE, "application/merge-patch+json");
    client.request::<Value>(request.body(patch.to_string().into_bytes())?).await.map(drop).with_context(|| format!("change {}", name(n)))
}

fn is_complete(deployment: &Value, version: &str) -> bool {
    let number = |path| deployment.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    let wanted = number("/spec/replicas");
    deployment.pointer("/spec/template/metadata/annotations/version").and_then(Value::as_str) == Some(version)
        && number("/status/observedGeneration") >= number("/metadata/generation")
        && ["/status/replicas", "/status/updatedReplicas", "/status/availableReplicas"].iter().all(|path| number(path) == wanted)
}

fn template(n: u64, version: &str, labels: &Value) -> Value {
    let name = name(n);
    let mut annotations = annotations(&name);
    set(&mut annotations, "version", json!(version));
    let mut spec = pod_spec(&name);
    // So that the nodes need not delete what the controllers have deleted.
    set(&mut spec, "terminationGracePeriodSeconds", json!(0));
    json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec})
}

fn set(object: &mut Value, field: &str, value: Value) {
    object.as_object_mut().map(|fields| fields.insert(field.to_owned(), value));
}

fn deployment(n: u64, replicas: u64) -> Value {
    let labels = json!({"app.kubernetes.io/name": name(n), "app.kubernetes.io/part-of": "bench"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name(n)},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app.kubernetes.io/name": name(n)}}, "template": template(n, "1", &labels),
            "revisionHistoryLimit": 20,
        },
    })
}

/// As an earlier rollout left it.
fn old_set(owner: &Value, n: u64, old: u64) -> Value {
    let hash = format!("old{old}");
    let labels = json!({"app.kubernetes.io/name": name(n), "app.kubernetes.io/part-of": "bench", "pod-template-hash": hash});
    let replicas = owner.pointer("/spec/replicas").map_or_else(String::new, Value::to_string);
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", name(n)), "labels": labels,
            "annotations": {
                // Below those of the two that are there already: they are to stay what they are.
                "deployment.kubernetes.io/revision": "0",
                "deployment.kubernetes.io/desired-replicas": replicas,
                "deployment.kubernetes.io/max-replicas": "13",
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "Deployment", "name": name(n), "uid": owner.pointer("/metadata/uid"),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "replicas": 0, "template": template(n, &hash, &labels),
            "selector": {"matchLabels": {"app.kubernetes.io/name": name(n), "pod-template-hash": hash}},
        },
    })
}
