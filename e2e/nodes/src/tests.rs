//! Kubelets and scheduler against an API server that is a function.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use machinery::client::{ApiClient, ClientMetrics, ClientOptions};
use machinery::clock::Clock;
use machinery::queue::WorkQueue;
use machinery::source::{Sink as _, SourceEvent};
use machinery::store::{StoreWriter, store};
use model::pod::Phase;
use model::{ResourceVersion, Timestamp};
use parking_lot::Mutex;
use prometheus::Registry;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::behaviour::{Behaviour, Rulebook};
use crate::fleet::FleetOptions;
use crate::kubelet::Kubelets;
use crate::lifecycle::tests::pod;
use crate::pod::Pod;
use crate::registration::Nodes;

/// The requests so far: when, what.
type Log = Arc<Mutex<Vec<(Duration, String)>>>;

struct World {
    kubelets: Arc<Kubelets>,
    writer: StoreWriter<Pod>,
    log: Log,
    seen: usize,
    stop: CancellationToken,
}

/// An API server that answers the first requests with these codes and a body, and all others with 200 and version 100.
fn server(answers: &[u16]) -> (ApiClient, Log) {
    let (log, start) = (Log::default(), Instant::now());
    let (requests, answers) = (Arc::clone(&log), answers.to_vec());
    let service = tower::service_fn(move |request: Request<Body>| {
        let mut log = requests.lock();
        let code = answers.get(log.len()).copied().unwrap_or(200);
        log.push((start.elapsed(), format!("{} {}", request.method(), request.uri().path())));
        let body = r#"{"metadata":{"resourceVersion":"100"},"message":"as told"}"#;
        let response =
            Response::builder().status(code).header("content-type", "application/json").body(Body::from(body.as_bytes().to_vec()));
        async move { response }
    });
    let options = ClientOptions { qps: 0.0, ..ClientOptions::default() };
    let metrics = ClientMetrics::register(&Registry::new()).unwrap();
    let client = ApiClient::over(kube::Client::new(service, "default"), &"http://server".parse().unwrap(), &options, &metrics).unwrap();
    (client, log)
}

fn world(behaviour: &str, answers: &[u16]) -> World {
    let (client, log) = server(answers);
    let nodes = Arc::new(Nodes::new(&FleetOptions::default(), client.clone(), Clock::system()));
    let (pods, writer) = store::<Pod>();
    let queue = WorkQueue::new("pods", Clock::system(), &Registry::new()).unwrap();
    let rules = Rulebook::new(behaviour.parse::<Behaviour>().unwrap());
    let kubelets = Arc::new(Kubelets::new(nodes, pods.clone(), queue, rules, client, Clock::system()));
    pods.add_handler(kubelets.clone());
    let stop = CancellationToken::new();
    for _ in 0..4 {
        let (kubelets, stop) = (Arc::clone(&kubelets), stop.clone());
        tokio::spawn(async move { kubelets.work(stop).await });
    }
    World { kubelets, writer, log, seen: 0, stop }
}

impl World {
    fn show(&mut self, pod: &Pod) {
        self.writer.apply(SourceEvent::Applied(pod.clone()));
    }

    /// The requests since the last call, after so many more seconds.
    async fn requests(&mut self, seconds: u64) -> Vec<String> {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let log = self.log.lock();
        let known = std::mem::replace(&mut self.seen, log.len());
        log.iter().skip(known).map(|(_, what)| what.clone()).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn running(version: u64) -> Pod {
    Pod { phase: Phase::Running, ready: true, started: Timestamp::from_seconds(1), resource_version: ResourceVersion(version), ..pod() }
}

const PATCH: &str = "PATCH /api/v1/namespaces/shop/pods/web-0/status";
const DELETE: &str = "DELETE /api/v1/namespaces/shop/pods/web-0";

#[tokio::test(start_paused = true)]
async fn a_life_is_one_patch_and_one_delete() {
    let mut world = world("", &[]);
    world.show(&pod());
    assert_eq!(world.requests(1).await, [PATCH]);
    // The store has not seen the write yet: what it shows is no reason to write again.
    world.show(&Pod { resource_version: ResourceVersion(99), ..pod() });
    assert!(world.requests(1).await.is_empty());
    world.show(&running(100));
    assert!(world.requests(1).await.is_empty());
    let dying = Pod { deletion: Timestamp::from_seconds(1), deletion_grace: Some(30), ..running(101) };
    world.show(&dying);
    assert_eq!(world.requests(1).await, [DELETE]);
    let counts = world.kubelets.counts.pods.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(counts, 1, "it is there until the watch says otherwise");
    world.writer.apply(SourceEvent::Deleted(dying));
    assert!(world.requests(1).await.is_empty());
    assert_eq!(world.kubelets.counts.pods.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn failed_writes_are_repeated_with_a_growing_delay() {
    let mut world = world("", &[500, 503, 409]);
    world.show(&pod());
    assert_eq!(world.requests(5).await, [PATCH; 4]);
    let times: Vec<_> = world.log.lock().iter().map(|(at, _)| at.as_millis() / 10 * 10).collect();
    assert_eq!(times, [0, 100, 300, 700]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_is_let_go() {
    let mut world = world("", &[404]);
    world.show(&pod());
    assert_eq!(world.requests(60).await, [PATCH]);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_node_does_nothing_until_it_is_started() {
    let mut world = world("", &[]);
    let stopped =
        |world: &World, stopped| world.kubelets.nodes.by_name["node-0"].stopped.store(stopped, std::sync::atomic::Ordering::Relaxed);
    stopped(&world, true);
    world.show(&pod());
    assert!(world.requests(5).await.is_empty());
    stopped(&world, false);
    world.kubelets.pods.resync().await;
    assert_eq!(world.requests(5).await, [PATCH]);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_pod_dies_when_it_is_released() {
    let mut world = world("stuck-terminating", &[]);
    world.show(&Pod { deletion: Timestamp::from_seconds(1), deletion_grace: Some(30), ..running(7) });
    assert!(world.requests(300).await.is_empty());
    world.kubelets.rules.set_default(Behaviour::default());
    world.kubelets.pods.resync().await;
    assert_eq!(world.requests(1).await, [DELETE]);
}

#[tokio::test(start_paused = true)]
async fn delays_are_kept() {
    let mut world = world("start-after=5s", &[]);
    world.show(&pod());
    assert_eq!(world.requests(4).await, [PATCH], "ContainerCreating");
    world.show(&Pod { started: Timestamp::from_seconds(1), resource_version: ResourceVersion(100), ..pod() });
    assert!(world.requests(0).await.is_empty());
    assert_eq!(world.requests(2).await, [PATCH], "Running");
}

#[tokio::test(start_paused = true)]
async fn pods_of_other_nodes_are_not_ours() {
    let mut world = world("", &[]);
    world.show(&Pod { node: Some("node-1".into()), ..pod() });
    world.show(&Pod { node: None, name: "web-1".into(), uid: model::Uid(2), ..pod() });
    assert!(world.requests(5).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_in_turn_but_not_of_stopped_nodes() {
    let (client, log) = server(&[]);
    let nodes = Nodes::new(&FleetOptions { count: 2, ..FleetOptions::default() }, client, Clock::system());
    let lease = |number| format!("PATCH /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-{number}");
    let beat = async |seconds| drop(tokio::time::timeout(Duration::from_secs(seconds), nodes.keep_alive()).await);
    beat(19).await;
    let seen: Vec<_> = log.lock().drain(..).map(|(at, what)| (at.as_secs(), what)).collect();
    assert_eq!(seen, [(0, lease(0)), (5, lease(1)), (10, lease(0)), (15, lease(1))]);
    nodes.by_name["node-0"].stopped.store(true, std::sync::atomic::Ordering::Relaxed);
    beat(19).await;
    let seen: Vec<_> = log.lock().drain(..).map(|(_, what)| what).collect();
    assert_eq!(seen, [lease(1), lease(1)]);
    beat(301).await;
    let reports = log.lock().iter().filter(|(_, what)| what == "PATCH /api/v1/nodes/node-1/status").count();
    assert_eq!(reports, 1, "the status every five minutes");
}

mod scheduler {
    use super::*;
    use crate::node::{Node, NodeDecoder};
    use crate::scheduler::Binder;
    use model::{Decode as _, Uid};
    use serde_json::json;

    const BIND: &str = "POST /api/v1/namespaces/shop/pods/web-0/binding";

    struct World {
        pods: StoreWriter<Pod>,
        nodes: StoreWriter<Node>,
        log: Log,
    }

    fn world(answers: &[u16]) -> World {
        let (client, log) = server(answers);
        let ((pods, pod_writer), (nodes, node_writer)) = (store::<Pod>(), store::<Node>());
        let binder = Binder::new(&pods, &nodes, client, Clock::system(), &Registry::new()).unwrap();
        for _ in 0..4 {
            let binder = Arc::clone(&binder);
            tokio::spawn(async move { binder.work().await });
        }
        World { pods: pod_writer, nodes: node_writer, log }
    }

    fn node(version: u64, pods: &str, cordoned: bool) -> Node {
        let node = json!({
            "metadata": {"name": "node-0", "uid": Uid(9).to_string(), "resourceVersion": version.to_string()},
            "spec": {"unschedulable": cordoned},
            "status": {"allocatable": {"pods": pods}, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        NodeDecoder.decode(node.to_string().as_bytes()).unwrap()
    }

    fn unassigned(number: u128) -> Pod {
        Pod { node: None, uid: Uid(number), name: format!("web-{number}").into(), ..pod() }
    }

    impl World {
        async fn settle(&self) -> usize {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.log.lock().len()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_bound_before_both_lists_are_complete() {
        let mut world = world(&[]);
        world.nodes.apply(SourceEvent::Listed(node(1, "5", false)));
        world.pods.apply(SourceEvent::Listed(unassigned(0)));
        world.pods.apply(SourceEvent::Synced(ResourceVersion(7)));
        assert_eq!(world.settle().await, 0);
        world.nodes.apply(SourceEvent::Synced(ResourceVersion(7)));
        assert_eq!(world.settle().await, 1);
        assert_eq!(world.log.lock()[0].1, BIND);
    }

    #[tokio::test(start_paused = true)]
    async fn pods_wait_for_room_and_get_it() {
        let mut world = world(&[]);
        world.nodes.apply(SourceEvent::Applied(node(1, "1", false)));
        world.nodes.apply(SourceEvent::Synced(ResourceVersion(1)));
        world.pods.apply(SourceEvent::Synced(ResourceVersion(1)));
        for number in 0..4 {
            world.pods.apply(SourceEvent::Applied(unassigned(number)));
        }
        assert_eq!(world.settle().await, 1);
        world.nodes.apply(SourceEvent::Applied(node(2, "2", false)));
        assert_eq!(world.settle().await, 2, "the node has grown by one");
        world.nodes.apply(SourceEvent::Applied(node(3, "2", true)));
        world.pods.apply(SourceEvent::Deleted(unassigned(0)));
        assert_eq!(world.settle().await, 2, "there is room, but a cordon");
        world.nodes.apply(SourceEvent::Applied(node(4, "2", false)));
        assert_eq!(world.settle().await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_binding_is_tried_again_and_a_confirmed_one_is_not() {
        let mut world = world(&[500, 503]);
        world.nodes.apply(SourceEvent::Applied(node(1, "1", false)));
        world.nodes.apply(SourceEvent::Synced(ResourceVersion(1)));
        world.pods.apply(SourceEvent::Synced(ResourceVersion(1)));
        world.pods.apply(SourceEvent::Applied(unassigned(0)));
        assert_eq!(world.settle().await, 3);
        world.pods.apply(SourceEvent::Applied(Pod { resource_version: ResourceVersion(50), ..unassigned(0) }));
        assert_eq!(world.settle().await, 3, "it is bound, though the watch is late");
    }
}
