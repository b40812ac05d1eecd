//! Simulated nodes and the scheduler against a real API server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::ControlPlane;
use e2e::wait;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, PodStatus};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use nodes::behaviour::Matching;
use nodes::{Behaviour, Fate, Fleet, FleetOptions, Scheduler, SchedulerOptions};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(1);

struct World {
    plane: ControlPlane,
    fleet: Fleet,
    namespace: String,
    pods: Api<Pod>,
}

impl World {
    /// A fleet with the scheduler on board.
    async fn start(options: FleetOptions) -> Result<Self> {
        Self::with(FleetOptions { scheduler: Some(SchedulerOptions::default()), ..options }).await
    }

    async fn with(options: FleetOptions) -> Result<Self> {
        let plane = ControlPlane::builder().start().await?;
        let fleet = Fleet::start(&config(&plane).await?, options).await?;
        let namespace = plane.namespace("nodes").await?;
        let pods = Api::namespaced(plane.admin().clone(), &namespace);
        Ok(Self { plane, fleet, namespace, pods })
    }

    /// A pod with an annotation for its behaviour, or none.
    async fn create(&self, name: &str, behaviour: Option<&str>) -> Result<()> {
        let annotations = behaviour.map(|words| json!({"nodes.wcm.dev/behaviour": words}));
        let pod = json!({
            "metadata": {"name": name, "annotations": annotations, "labels": {"app": "demo"}},
            "spec": {"containers": [{"name": "main", "image": "demo:1"}, {"name": "side", "image": "side:2"}]},
        });
        self.pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await.with_context(|| format!("create {name}"))?;
        Ok(())
    }

    /// Waits until `check` says of a pod's status what it is to say.
    async fn shows(&self, name: &str, what: &str, check: impl Fn(&PodStatus) -> bool) -> Result<Pod> {
        wait::object(&self.pods, name, &format!("{name} to be {what}"), PATIENCE, |pod| {
            let status = pod.status.clone().unwrap_or_default();
            ensure!(check(&status), "{}", json!(status));
            Ok(pod.clone())
        })
        .await
    }

    async fn gone(&self, name: &str) -> Result<()> {
        wait::until(&format!("{name} to go"), PATIENCE, async || {
            let found = self.pods.get_opt(name).await?;
            ensure!(found.is_none(), "it is there");
            Ok(())
        })
        .await
    }
}

async fn config(plane: &ControlPlane) -> Result<kube::Config> {
    let kubeconfig = Kubeconfig::read_from(plane.admin_kubeconfig())?;
    Ok(kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

fn phase(status: &PodStatus) -> &str {
    status.phase.as_deref().unwrap_or_default()
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a str> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind).map(|condition| condition.status.as_str())
}

fn is_ready(status: &PodStatus) -> bool {
    phase(status) == "Running" && condition(status, "Ready") == Some("True")
}

/// Processor time of this whole process: the test's own requests included.
fn cpu() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit_once(") ").context("no stat")?.1.split(' ').collect();
    let ticks: u64 = fields.get(11..13).context("short stat")?.iter().map(|ticks| ticks.parse().unwrap_or(0)).sum();
    Ok(Duration::from_millis(ticks * 10))
}

/// Every pod tells all that a kubelet tells, has an address of its own, and no node has more of them than another.
fn assert_spread(pods: &[Pod]) -> Result<()> {
    let (mut by_node, mut addresses) = (BTreeMap::<_, usize>::new(), BTreeSet::new());
    for pod in pods {
        let (spec, status) = (pod.spec.as_ref().context("no spec")?, pod.status.as_ref().context("no status")?);
        *by_node.entry(spec.node_name.clone()).or_default() += 1;
        addresses.insert(status.pod_ip.clone().context("no address")?);
        assert!(status.start_time.is_some() && status.host_ip.is_some());
        for kind in ["PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"] {
            assert_eq!(condition(status, kind), Some("True"), "{kind}");
        }
        let containers: Vec<_> = status.container_statuses.iter().flatten().map(|one| (one.name.as_str(), one.ready)).collect();
        assert_eq!(containers, [("main", true), ("side", true)]);
    }
    assert_eq!(addresses.len(), pods.len());
    assert_eq!(by_node.values().copied().collect::<Vec<_>>(), [pods.len() / 10; 10], "{by_node:?}");
    Ok(())
}

#[tokio::test]
async fn two_hundred_pods_live_and_die() -> Result<()> {
    const PODS: usize = 200;
    let world = World::start(FleetOptions { count: 10, ..FleetOptions::default() }).await?;
    let (before, started) = (cpu()?, Instant::now());
    for number in 0..PODS {
        world.create(&format!("pod-{number}"), None).await?;
    }
    let ready = wait::list(&world.pods, &ListParams::default(), "all to be ready", PATIENCE, |pods| {
        let ready = pods.iter().filter(|pod| pod.status.as_ref().is_some_and(is_ready)).count();
        ensure!(ready == PODS, "{ready} of {PODS} are");
        Ok(pods.to_vec())
    })
    .await?;
    println!("{PODS} pods ready after {:?}, {:?} of CPU with the test's own", started.elapsed(), cpu()?.saturating_sub(before));

    assert_spread(&ready)?;
    let statistics = world.fleet.statistics();
    assert_eq!((statistics.pods, statistics.running, statistics.ready), (200, 200, 200));
    assert_eq!((statistics.patches, statistics.bindings), (200, 200), "one write a pod each");

    let started = Instant::now();
    world.pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    wait::list(&world.pods, &ListParams::default(), "all to go", PATIENCE, |pods| {
        ensure!(pods.is_empty(), "{} are there", pods.len());
        Ok(())
    })
    .await?;
    println!("{PODS} pods gone after {:?}", started.elapsed());
    wait::until("the statistics", PATIENCE, async || {
        let statistics = world.fleet.statistics();
        ensure!((statistics.pods, statistics.running, statistics.ready) == (0, 0, 0), "{statistics:?}");
        Ok(())
    })
    .await?;
    assert_eq!(world.fleet.statistics().deletes, 200);

    let nodes: Api<Node> = Api::all(world.plane.admin().clone());
    let leases: Api<Lease> = Api::namespaced(world.plane.admin().clone(), "kube-node-lease");
    assert_eq!(nodes.list(&ListParams::default()).await?.items.len(), 10);
    assert_eq!(leases.list(&ListParams::default()).await?.items.len(), 10);
    world.fleet.shutdown().await?;
    assert!(nodes.list(&ListParams::default()).await?.items.is_empty());
    assert!(leases.list(&ListParams::default()).await?.items.is_empty());
    Ok(())
}

#[tokio::test]
async fn pods_behave_as_they_are_told() -> Result<()> {
    let world = World::start(FleetOptions::default()).await?;
    let (fleet, namespace) = (&world.fleet, &world.namespace);

    for (name, words) in [
        ("fails", "fail"),
        ("evicted", "evict"),
        ("rejected", "reject=SysctlForbidden"),
        ("succeeds", "succeed"),
        ("stuck", "stuck-terminating"),
        ("unstarted", "never-start"),
        ("slow", "start-after=2s,ready-after=1s"),
    ] {
        world.create(name, Some(words)).await?;
    }
    world.shows("fails", "failed", |status| phase(status) == "Failed").await?;
    world.shows("succeeds", "done", |status| phase(status) == "Succeeded").await?;
    let evicted = world.shows("evicted", "evicted", |status| status.reason.as_deref() == Some("Evicted")).await?;
    assert_eq!(evicted.status.as_ref().and_then(|status| condition(status, "DisruptionTarget")), Some("True"));
    let refused = |status: &PodStatus| phase(status) == "Failed" && status.reason.as_deref() == Some("SysctlForbidden");
    world.shows("rejected", "rejected", refused).await?;
    world.shows("slow", "creating", |status| phase(status) == "Pending" && status.start_time.is_some()).await?;
    world.shows("slow", "ready", is_ready).await?;
    let unstarted = world.pods.get_status("unstarted").await?.status.unwrap_or_default();
    assert_eq!((phase(&unstarted), condition(&unstarted, "Ready")), ("Pending", Some("False")));

    // A stuck pod is released through its annotation, as a user would do it.
    world.shows("stuck", "ready", is_ready).await?;
    world.pods.delete("stuck", &DeleteParams::default()).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(world.pods.get("stuck").await?.metadata.deletion_timestamp.is_some());
    let annotation: Value = json!({"metadata": {"annotations": {"nodes.wcm.dev/behaviour": null}}});
    world.pods.patch("stuck", &PatchParams::default(), &Patch::Merge(annotation)).await?;
    world.gone("stuck").await?;

    // Readiness and restarts, by the API.
    world.create("flaps", None).await?;
    world.shows("flaps", "ready", is_ready).await?;
    fleet.set_pod(namespace, "flaps", Some(Behaviour::of(Fate::Unready)));
    world.shows("flaps", "unready", |status| phase(status) == "Running" && condition(status, "Ready") == Some("False")).await?;
    fleet.set_pod(namespace, "flaps", None);
    world.shows("flaps", "ready again", is_ready).await?;
    fleet.set_matching(Matching::namespace(namespace), Some(Behaviour { restarts: 3, ..Behaviour::default() })).await;
    let restarted = |status: &PodStatus| is_ready(status) && status.container_statuses.iter().flatten().all(|one| one.restart_count == 3);
    world.shows("flaps", "restarted", restarted).await?;
    let ready = world.pods.get("flaps").await?.status.unwrap_or_default();
    let reason = ready.conditions.iter().flatten().find(|condition| condition.type_ == "Ready").and_then(|ready| ready.reason.clone());
    assert_eq!(reason, None, "a ready pod needs no excuse");

    world.fleet.set_default(Behaviour::of(Fate::Evict)).await;
    world.shows("unstarted", "left alone", |status| phase(status) == "Pending").await?;
    Ok(())
}

#[tokio::test]
async fn nodes_stop_cordon_and_fill_up() -> Result<()> {
    let options = FleetOptions { count: 2, pods_per_node: 2, ..FleetOptions::default() };
    let world = World::start(options).await?;
    let nodes: Api<Node> = Api::all(world.plane.admin().clone());
    let cordon = async |cordoned: bool| {
        let patch = json!({"spec": {"unschedulable": cordoned}});
        nodes.patch("node-0", &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
    };
    cordon(true).await?;
    wait::object(&nodes, "node-0", "the cordon", PATIENCE, |node| {
        ensure!(node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)), "not yet");
        Ok(())
    })
    .await?;
    // The scheduler's watch may be a moment behind our read.
    tokio::time::sleep(Duration::from_millis(500)).await;
    for number in 0..5 {
        world.create(&format!("pod-{number}"), None).await?;
    }
    let bound = async |count: usize, what: &str| {
        wait::list(&world.pods, &ListParams::default(), what, PATIENCE, |pods| {
            let bound = pods.iter().filter(|pod| pod.status.as_ref().is_some_and(is_ready)).count();
            ensure!(bound == count, "{bound} are ready");
            Ok(())
        })
        .await
    };
    bound(2, "one node's room").await?;
    cordon(false).await?;
    bound(4, "the other node's room").await?;

    world.fleet.stop_node("node-1")?;
    assert_eq!(world.fleet.statistics().nodes, 1);
    let on_node = ListParams::default().fields("spec.nodeName=node-1");
    let victim = world.pods.list(&on_node).await?.items.first().and_then(|pod| pod.metadata.name.clone()).context("nothing on node-1")?;
    world.pods.delete(&victim, &DeleteParams::default()).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(world.pods.get_opt(&victim).await?.is_some(), "nobody looks after it");
    world.fleet.start_node("node-1").await?;
    world.gone(&victim).await?;
    bound(4, "the last pod in the room that was freed").await
}

#[tokio::test]
async fn a_restarting_server_is_waited_out() -> Result<()> {
    let mut world = World::with(FleetOptions { count: 2, keep_nodes: true, ..FleetOptions::default() }).await?;
    let scheduler = Scheduler::start(&config(&world.plane).await?, &SchedulerOptions::default())?;
    world.create("before", Some("ready-after=3s")).await?;
    world.shows("before", "running", |status| phase(status) == "Running").await?;
    world.plane.kill9_api_server(0)?;
    // The pod becomes ready while nobody can be told.
    tokio::time::sleep(Duration::from_secs(4)).await;
    world.plane.start_api_server(0).await?;
    world.shows("before", "ready", is_ready).await?;
    for number in 0..20 {
        world.create(&format!("after-{number}"), None).await?;
    }
    for number in 0..20 {
        world.shows(&format!("after-{number}"), "ready", is_ready).await?;
    }
    assert_eq!(scheduler.bindings(), 21);
    scheduler.shutdown().await;
    world.fleet.shutdown().await?;
    let nodes: Api<Node> = Api::all(world.plane.admin().clone());
    assert_eq!(nodes.list(&ListParams::default()).await?.items.len(), 2, "they were to be kept");

    // Another fleet takes nodes and pods over without a write.
    let fleet = Fleet::start(&config(&world.plane).await?, FleetOptions { count: 2, ..FleetOptions::default() }).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let statistics = fleet.statistics();
    assert_eq!((statistics.pods, statistics.ready, statistics.patches), (21, 21, 0));
    fleet.shutdown().await
}
