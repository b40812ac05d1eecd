//! A small scheduler, and the worked example of how to build on `machinery`.
//!
//! It gives each pod of the default scheduler to the node with the fewest pods. It respects readiness, cordons and `allocatable.pods`, and
//! nothing else: no resources, no affinity, no taints. For tests and demonstrations that is plenty, and it costs next to nothing.
//!
//! # How to build on `machinery`, step by step
//!
//! 1. **A lean object and its decoder** ([`crate::pod`], [`crate::node`]): what decisions read, and nothing else. The type implements
//!    `model::Object`, so that a store can index it. The decoder implements `model::Decode` and picks the form on the wire: protobuf where there
//!    are many objects and bytes count (a field nobody asks for is stepped over), JSON with serde where there are few.
//! 2. **A store for each resource**: `store()` makes the reading half, which is cheap to clone, and the one writing half.
//! 3. **A handler** (`impl Handler<Pod> for Binder`) is told of each change after the store shows it, in the source's own task. It must be
//!    quick: it keeps counts, and puts keys into the queue. `Change::Added { initial: true }` is the first list: those keys go
//!    behind real news. Add all handlers before the source starts.
//! 4. **A source for each resource** ([`Fleet::start`](crate::Fleet::start), [`Scheduler::start`]) lists and watches and feeds the store's writer.
//!    It never ends by itself; lost connections, 410s and unreadable objects are its business.
//! 5. **Wait until all stores have synced** before working: a decision on half a list is a wrong one.
//! 6. **A work queue and workers**: `get().await` hands out a key, and nobody else gets that key before `Taken` is dropped. The
//!    worker reads the *newest* object from the store: a key says only that something happened. The ways out are
//!    - done: `forget` the key's failures;
//!    - failed: `add_rate_limited`, with the queue's back-off;
//!    - it cannot go on before something else happens: [park](Taken::park) it, which frees the worker, and `unpark` it when that comes. It may
//!      have come while you decided: look once more after parking (`Binder::park` compares a count).
//! 7. **Decide purely**: `Cluster` knows neither IO nor time, and so its tests need neither. What was decided but not seen yet is
//!    *assumed*, so that the next decision does not rest on a store that is behind.
//! 8. **Write with preconditions, and read errors by their effect**: the binding carries the pod's UID. A request that was
//!    [lost](CallError::Lost) may have worked: the assumption is kept, and the same node is asked for again.

mod cluster;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use machinery::client::{ApiClient, CallError};
use machinery::clock::Clock;
use machinery::queue::{Taken, WorkQueue};
use machinery::source::SourceMetrics;
use machinery::store::{Change, Handler, Store, store};
use model::Uid;
use model::plan::PODS;
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::api::{self, Verb};
use crate::fleet::clients;
use crate::informer::Informers;
use crate::node::{NODES, Node, NodeDecoder};
use crate::pod::{Pod, PodDecoder};
use cluster::{Assumed, Cluster};

/// How the scheduler works.
#[derive(Clone, Debug)]
pub struct SchedulerOptions {
    /// Bindings under way at the same time.
    pub workers: usize,
}

/// A scheduler on informers of its own, for clusters whose nodes are somebody else's. A fleet runs one on its own informers instead:
/// [`FleetOptions::scheduler`](crate::FleetOptions::scheduler). Dropping it stops it at once.
#[derive(Debug)]
pub struct Scheduler {
    binder: Arc<Binder>,
    tasks: TaskTracker,
    stop: DropGuard,
}

/// The scheduler's core, on anybody's stores.
pub(crate) struct Binder {
    pods: Store<Pod>,
    nodes: Store<Node>,
    queue: WorkQueue<Uid>,
    cluster: Mutex<Cluster>,
    /// Pods that are parked for want of room, the longest-waiting first. Some may be gone.
    waiting: Mutex<VecDeque<Uid>>,
    client: ApiClient,
    bindings: AtomicU64,
}

// === impl SchedulerOptions ===

impl Default for SchedulerOptions {
    fn default() -> Self {
        Self { workers: 16 }
    }
}

// === impl Scheduler ===

impl Scheduler {
    /// Begins to schedule.
    pub fn start(config: &kube::Config, options: &SchedulerOptions) -> Result<Self> {
        let registry = Registry::new();
        let clients = clients(config, &registry)?;
        let informers = Informers {
            client: clients.watches,
            metrics: SourceMetrics::register(&registry)?,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        };
        let (pods, pod_writer) = store::<Pod>();
        let (nodes, node_writer) = store::<Node>();
        let binder = Binder::new(&pods, &nodes, clients.writes, Clock::system(), &registry)?;
        informers.start(&NODES, None, NodeDecoder, node_writer);
        informers.start(&PODS, None, PodDecoder::new(), pod_writer);
        binder.start(options, &informers);
        Ok(Self { binder, tasks: informers.tasks, stop: informers.stop.drop_guard() })
    }

    /// Pods bound so far.
    pub fn bindings(&self) -> u64 {
        self.binder.bindings()
    }

    /// Stops it.
    pub async fn shutdown(self) {
        drop(self.stop);
        self.tasks.close();
        self.tasks.wait().await;
    }
}

// === impl Binder ===

impl Binder {
    /// A binder that hears of all changes of the two stores.
    pub(crate) fn new(pods: &Store<Pod>, nodes: &Store<Node>, client: ApiClient, clock: Clock, registry: &Registry) -> Result<Arc<Self>> {
        let binder = Arc::new(Self {
            queue: WorkQueue::new("scheduler", clock, registry)?,
            pods: pods.clone(),
            nodes: nodes.clone(),
            cluster: Mutex::default(),
            waiting: Mutex::default(),
            client,
            bindings: AtomicU64::new(0),
        });
        pods.add_handler(binder.clone());
        nodes.add_handler(binder.clone());
        Ok(binder)
    }

    /// Starts the workers.
    pub(crate) fn start(self: &Arc<Self>, options: &SchedulerOptions, informers: &Informers) {
        for _ in 0..options.workers.max(1) {
            let (binder, stop) = (Arc::clone(self), informers.stop.clone());
            informers.tasks.spawn(async move { stop.run_until_cancelled(binder.work()).await });
        }
    }

    pub(crate) fn bindings(&self) -> u64 {
        self.bindings.load(Ordering::Relaxed)
    }

    /// Works until the queue is shut down.
    pub(crate) async fn work(&self) {
        self.nodes.synced().await;
        self.pods.synced().await;
        while let Some(taken) = self.queue.get().await {
            self.schedule(taken).await;
        }
    }

    async fn schedule(&self, taken: Taken<Uid>) {
        let uid = *taken.key();
        let Some(pod) = self.pods.get_by_uid(uid).filter(|pod| is_unscheduled(pod)) else {
            self.queue.forget(&uid);
            return;
        };
        let assumed = self.cluster.lock().assume(uid);
        let node = match assumed {
            Assumed::Node(node) => node,
            Assumed::Bound => return self.queue.forget(&uid),
            Assumed::NoRoom(gains) => return self.park(taken, gains),
        };
        match self.bind(&pod, &node).await {
            Ok(()) => {
                self.cluster.lock().confirm(uid);
                self.queue.forget(&uid);
                self.bindings.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                if !matches!(error, CallError::Lost(_)) {
                    self.cluster.lock().give_up(uid);
                }
                // 404: the pod is gone. 409: somebody else bound it, or another pod has its name. The watch is about to say so. 0: no answer,
                // and the sources say that.
                if matches!(error.error().code, 0 | 404 | 409) {
                    debug!(namespace = &*pod.namespace, name = &*pod.name, %error, "pod was not bound");
                } else {
                    warn!(namespace = &*pod.namespace, name = &*pod.name, %error, "binding failed and is tried again");
                }
                self.queue.add_rate_limited(uid);
            }
        }
    }

    /// Puts a pod aside that no node has room for.
    fn park(&self, taken: Taken<Uid>, gains: u64) {
        let uid = *taken.key();
        taken.park();
        self.waiting.lock().push_back(uid);
        // Room that was gained since the decision woke nobody.
        if self.cluster.lock().gains() != gains {
            self.wake(1);
        }
    }

    /// Room was gained, for so many pods at most.
    fn wake(&self, count: usize) {
        let mut waiting = self.waiting.lock();
        let mut woken = 0;
        while woken < count
            && let Some(uid) = waiting.pop_front()
        {
            woken += usize::from(self.queue.unpark(&uid));
        }
    }

    async fn bind(&self, pod: &Pod, node: &str) -> Result<(), CallError> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": &*pod.namespace, "uid": pod.uid.to_string()},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        api::send(&self.client, Verb::Create, &pod.path("/binding"), binding.to_string()).await.map(drop)
    }

    fn freed(&self, uid: Uid) {
        if self.cluster.lock().remove(uid) {
            self.wake(1);
        }
    }
}

fn is_unscheduled(pod: &Pod) -> bool {
    pod.node.is_none() && pod.schedulable && pod.deletion.is_none() && !pod.is_finished()
}

impl Handler<Pod> for Binder {
    fn on_change(&self, change: Change<'_, Pod>) {
        let pod = change.object();
        let gone = matches!(change, Change::Deleted { .. });
        if gone || pod.is_finished() {
            self.freed(pod.uid);
        } else if let Some(node) = &pod.node {
            self.cluster.lock().place(pod.uid, node);
        }
        let replayed = matches!(change, Change::Added { initial: true, .. } | Change::Resync { .. });
        let left = matches!(change, Change::Updated { old, .. } if old.node.is_none() && pod.node.is_some());
        if gone || left {
            // If it was parked, a worker will find nothing to do, and the queue forgets the key.
            self.queue.unpark(&pod.uid);
        } else if !is_unscheduled(pod) {
            // Somebody else's.
        } else if replayed {
            self.queue.add_low_priority(pod.uid);
        } else {
            self.queue.add(pod.uid);
        }
    }
}

impl Handler<Node> for Binder {
    fn on_change(&self, change: Change<'_, Node>) {
        let node = change.object();
        let gone = matches!(change, Change::Deleted { .. });
        let (open, capacity) = if gone { (false, 0) } else { (node.open, node.capacity) };
        if self.cluster.lock().set_node(&node.name, open, capacity) {
            self.wake(capacity as usize);
        }
    }
}

impl fmt::Debug for Binder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binder").field("bindings", &self.bindings()).finish_non_exhaustive()
    }
}
