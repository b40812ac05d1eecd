//! A fleet of simulated nodes in one process.
//!
//! One watch of the pods serves all nodes, one task renews all leases, and one work queue of pods serves all kubelets; a handful of tasks
//! works on it. Each pod that becomes ready costs one write.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use machinery::client::{ClientMetrics, ClientOptions, Clients};
use machinery::clock::Clock;
use machinery::queue::WorkQueue;
use machinery::source::SourceMetrics;
use machinery::store::{StoreWriter, store};
use model::ObjectKey;
use model::plan::PODS;
use prometheus::Registry;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::behaviour::{Behaviour, Matching, Rulebook};
use crate::informer::Informers;
use crate::kubelet::Kubelets;
use crate::node::{NODES, Node, NodeDecoder};
use crate::pod::{Pod, PodDecoder};
use crate::registration::{Nodes, SimulatedNode};
use crate::scheduler::{Binder, SchedulerOptions};

/// What a fleet is like.
#[derive(Clone, Debug)]
pub struct FleetOptions {
    /// How many nodes.
    pub count: u32,
    /// Their names are this, a hyphen and a number from zero.
    pub prefix: String,
    /// Pods that each node has room for.
    pub pods_per_node: u32,
    /// How pods behave that nobody says anything else about.
    pub behaviour: Behaviour,
    /// Writes of pods at the same time.
    pub workers: usize,
    /// Gives the nodes the taint `nodes.wcm.dev/simulated:NoSchedule`, so that a cluster's ordinary pods do not end up there.
    pub taint: bool,
    /// Leaves the Node objects and their leases there at the end.
    pub keep_nodes: bool,
    /// Runs the scheduler, on the fleet's own informers.
    pub scheduler: Option<SchedulerOptions>,
}

/// Running nodes. Dropping it stops them at once; [`Fleet::shutdown`] takes them away in order.
pub struct Fleet {
    kubelets: Arc<Kubelets>,
    binder: Option<Arc<Binder>>,
    keep_nodes: bool,
    /// Everything but the deregistration.
    tasks: TaskTracker,
    stop: DropGuard,
}

/// How a fleet is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Nodes that are not stopped.
    pub nodes: usize,
    /// Pods on the nodes.
    pub pods: i64,
    /// Of these, in phase Running.
    pub running: i64,
    /// Of these, ready.
    pub ready: i64,
    /// Status patches of pods that were made.
    pub patches: u64,
    /// Pods that were deleted for good.
    pub deletes: u64,
    /// Writes of pods that failed and were tried again.
    pub retries: u64,
    /// Leases renewed.
    pub renewals: u64,
    /// Pods that the scheduler bound.
    pub bindings: u64,
}

// === impl FleetOptions ===

impl Default for FleetOptions {
    fn default() -> Self {
        Self {
            count: 1,
            prefix: "node".to_owned(),
            pods_per_node: 110,
            behaviour: Behaviour::default(),
            // Enough to keep an API server busy, and below the 80 requests that a connection takes.
            workers: 32,
            taint: false,
            keep_nodes: false,
            scheduler: None,
        }
    }
}

// === impl Fleet ===

impl Fleet {
    /// Registers the nodes, and lives their pods' lives from now on. Pods that are there already are taken over.
    pub async fn start(config: &kube::Config, options: FleetOptions) -> Result<Self> {
        let (registry, clock) = (Registry::new(), Clock::system());
        let clients = clients(config, &registry)?;
        let informers = Informers {
            client: clients.watches,
            metrics: SourceMetrics::register(&registry)?,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        };
        let stop = informers.stop.clone().drop_guard();
        let nodes = Arc::new(Nodes::new(&options, clients.lease, clock.clone()));
        nodes.register_all().await.context("register nodes")?;

        let (pods, pod_writer) = store::<Pod>();
        let queue = WorkQueue::new("pods", clock.clone(), &registry)?;
        let rules = Rulebook::new(options.behaviour);
        let kubelets = Kubelets::new(Arc::clone(&nodes), pods.clone(), queue, rules, clients.writes.clone(), clock.clone());
        let kubelets = Arc::new(kubelets);
        pods.add_handler(kubelets.clone());
        let binder = match &options.scheduler {
            Some(scheduler) => {
                let (node_store, node_writer) = store::<Node>();
                let binder = Binder::new(&pods, &node_store, clients.writes, clock, &registry)?;
                informers.start(&NODES, None, NodeDecoder, node_writer);
                binder.start(scheduler, &informers);
                Some(binder)
            }
            None => None,
        };
        start_pods(&informers, pod_writer, binder.is_some());
        pods.synced().await;
        for _ in 0..options.workers.max(1) {
            let (kubelets, stop) = (Arc::clone(&kubelets), informers.stop.clone());
            informers.tasks.spawn(async move { kubelets.work(stop).await });
        }
        let stopped = informers.stop.clone();
        informers.tasks.spawn(async move { stopped.run_until_cancelled(nodes.keep_alive()).await });
        Ok(Self { kubelets, binder, keep_nodes: options.keep_nodes, tasks: informers.tasks, stop })
    }

    /// Stops all nodes, and takes the Node objects away unless they are to be kept. Their pods stay as they are.
    pub async fn shutdown(self) -> Result<()> {
        drop(self.stop);
        self.tasks.close();
        self.tasks.wait().await;
        if !self.keep_nodes {
            self.kubelets.nodes.deregister_all().await.context("take nodes away")?;
        }
        Ok(())
    }

    /// The nodes' names.
    pub fn node_names(&self) -> &[Arc<str>] {
        &self.kubelets.nodes.names
    }

    /// Sets how a pod behaves, which need not exist yet; `None` takes it back.
    pub fn set_pod(&self, namespace: &str, name: &str, behaviour: Option<Behaviour>) {
        self.kubelets.rules.set_pod(ObjectKey::new(namespace, name), behaviour);
        if let Some(pod) = self.kubelets.pods.get_by_name(namespace, name) {
            self.kubelets.queue.add(pod.uid);
        }
    }

    /// Sets how matching pods behave, those to come included; `None` takes it back.
    pub async fn set_matching(&self, matching: Matching, behaviour: Option<Behaviour>) {
        self.kubelets.rules.set_matching(matching, behaviour);
        self.kubelets.pods.resync().await;
    }

    /// Sets how pods behave that nobody says anything else about.
    pub async fn set_default(&self, behaviour: Behaviour) {
        self.kubelets.rules.set_default(behaviour);
        self.kubelets.pods.resync().await;
    }

    /// Switches a node off: its lease runs out, and its pods stay as they are.
    pub fn stop_node(&self, name: &str) -> Result<()> {
        self.node(name)?.stopped.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Switches a node on again. It says so at once, and looks after its pods.
    pub async fn start_node(&self, name: &str) -> Result<()> {
        let node = self.node(name)?;
        node.stopped.store(false, Ordering::Relaxed);
        self.kubelets.nodes.register(node).await.with_context(|| format!("register node {name}"))?;
        self.kubelets.pods.resync().await;
        Ok(())
    }

    /// How the fleet is doing.
    pub fn statistics(&self) -> Statistics {
        let (counts, nodes) = (&self.kubelets.counts, &self.kubelets.nodes);
        Statistics {
            nodes: nodes.by_name.values().filter(|node| !node.is_stopped()).count(),
            pods: counts.pods.load(Ordering::Relaxed),
            running: counts.running.load(Ordering::Relaxed),
            ready: counts.ready.load(Ordering::Relaxed),
            patches: counts.patches.load(Ordering::Relaxed),
            deletes: counts.deletes.load(Ordering::Relaxed),
            retries: counts.retries.load(Ordering::Relaxed),
            renewals: nodes.renewals.load(Ordering::Relaxed),
            bindings: self.binder.as_ref().map_or(0, |binder| binder.bindings()),
        }
    }

    fn node(&self, name: &str) -> Result<&SimulatedNode> {
        self.kubelets.nodes.by_name.get(name).with_context(|| format!("no node {name} in this fleet"))
    }
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}

/// Clients without a rate limit: a hundred kubelets have none in common either.
pub(crate) fn clients(config: &kube::Config, registry: &Registry) -> Result<Clients> {
    let user_agent = concat!("nodes/", env!("CARGO_PKG_VERSION")).to_owned();
    let options = ClientOptions { qps: 0.0, user_agent, ..ClientOptions::default() };
    Ok(Clients::new(config, &options, &ClientMetrics::register(registry)?)?)
}

/// Kubelets need no unassigned pods, a scheduler needs all.
fn start_pods(informers: &Informers, writer: StoreWriter<Pod>, all: bool) {
    let assigned = (!all).then_some("spec.nodeName!=");
    informers.start(&PODS, assigned, PodDecoder::new(), writer);
}

// === impl Nodes ===

impl Nodes {
    pub(crate) fn new(options: &FleetOptions, client: machinery::client::ApiClient, clock: Clock) -> Self {
        let names: Vec<Arc<str>> = (0..options.count).map(|number| format!("{}-{number}", options.prefix).into()).collect();
        let node = |(number, name): (u32, &Arc<str>)| (Arc::clone(name), SimulatedNode::new(Arc::clone(name), number));
        let by_name: HashMap<_, _> = (0..).zip(&names).map(node).collect();
        let (capacity, taint) = (options.pods_per_node, options.taint);
        Self { by_name, names, client, clock, capacity, taint, renewals: AtomicU64::new(0) }
    }
}
