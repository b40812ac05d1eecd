//! The kubelets' work: carries out what [`lifecycle::next`] says, for the pods of all nodes.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use machinery::client::{ApiClient, CallError};
use machinery::clock::Clock;
use machinery::queue::WorkQueue;
use machinery::store::{Change, Handler, Store};
use model::pod::Phase;
use model::{ResourceVersion, Uid};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::api::{self, Verb};
use crate::behaviour::{Behaviour, Rulebook};
use crate::lifecycle::{self, Memory, Report, Step};
use crate::pod::Pod;
use crate::registration::{Nodes, SimulatedNode};
use crate::status::{self, Place};

/// All kubelets of a fleet. They share everything: a kubelet is a node's name.
pub(crate) struct Kubelets {
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) pods: Store<Pod>,
    pub(crate) queue: WorkQueue<Uid>,
    pub(crate) rules: Rulebook,
    pub(crate) counts: Counts,
    client: ApiClient,
    clock: Clock,
    /// Of pods that have not come to rest.
    active: Mutex<HashMap<Uid, Active>>,
    addresses: AtomicU32,
}

/// A pod that has not come to rest.
#[derive(Clone, Copy)]
struct Active {
    memory: Memory,
    /// What we wrote last; the store may be behind.
    written: ResourceVersion,
    /// We deleted it for good.
    deleted: bool,
    /// Writes in a row that failed.
    failures: u32,
}

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) pods: AtomicI64,
    pub(crate) running: AtomicI64,
    pub(crate) ready: AtomicI64,
    pub(crate) patches: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) retries: AtomicU64,
}

/// Back-off of a pod's writes. Not the work queue's: that one lets ten keys a second through, which is right for controllers, but when a server
/// comes back a fleet's pods should not wait for minutes.
const SHORTEST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

// === impl Kubelets ===

impl Kubelets {
    pub(crate) fn new(
        nodes: Arc<Nodes>,
        pods: Store<Pod>,
        queue: WorkQueue<Uid>,
        rules: Rulebook,
        client: ApiClient,
        clock: Clock,
    ) -> Self {
        let (counts, active, addresses) = (Counts::default(), Mutex::default(), AtomicU32::new(1));
        Self { nodes, pods, queue, rules, counts, client, clock, active, addresses }
    }

    /// Works until `stop`, or until the queue is shut down.
    pub(crate) async fn work(&self, stop: CancellationToken) {
        let work = async {
            while let Some(taken) = self.queue.get().await {
                self.sync(*taken.key()).await;
            }
        };
        stop.run_until_cancelled(work).await;
    }

    async fn sync(&self, uid: Uid) {
        let Some(pod) = self.pods.get_by_uid(uid) else {
            self.active.lock().remove(&uid);
            return;
        };
        let Some(node) = self.node_of(&pod).filter(|node| !node.is_stopped()) else { return };
        let now = self.clock.now();
        match self.next(&pod, now) {
            Some(Step::WaitUntil(at)) => self.queue.add_after(uid, at.saturating_duration_since(now)),
            Some(Step::PatchStatus(report)) => self.patch(&pod, node, &report).await,
            Some(Step::Delete) => self.delete(&pod).await,
            Some(Step::Nothing) | None => {}
        }
    }

    /// `None` while the store has not seen our last write.
    fn next(&self, pod: &Pod, now: Instant) -> Option<Step> {
        let behaviour = self.rules.of(pod).unwrap_or_else(|error| {
            warn!(namespace = &*pod.namespace, name = &*pod.name, %error, "annotation is ignored");
            Behaviour::default()
        });
        let mut all = self.active.lock();
        let active = all.entry(pod.uid).or_insert_with(|| Active::new(now));
        active.memory.note(pod, now);
        if active.deleted || active.written > pod.resource_version {
            return None;
        }
        let step = lifecycle::next(pod, &active.memory, &behaviour, now);
        if step == Step::Nothing {
            all.remove(&pod.uid);
        }
        Some(step)
    }

    async fn patch(&self, pod: &Pod, node: &SimulatedNode, report: &Report) {
        let Some(now) = self.clock.wall().timestamp() else { return };
        let place = Place { host: node.address, pod: self.address() };
        let body = status::patch(pod, report, place, now);
        match api::send(&self.client, Verb::StrategicPatch, &pod.path("/status"), body).await {
            Ok(answer) => {
                self.counts.patches.fetch_add(1, Ordering::Relaxed);
                self.succeeded(pod.uid, |active| active.written = api::version(&answer));
            }
            Err(error) => self.failed(pod, &error),
        }
    }

    async fn delete(&self, pod: &Pod) {
        let options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid.to_string()}});
        match api::send(&self.client, Verb::Delete, &pod.path(""), options.to_string()).await {
            Ok(_) => {
                self.counts.deletes.fetch_add(1, Ordering::Relaxed);
                self.succeeded(pod.uid, |active| active.deleted = true);
            }
            Err(error) => self.failed(pod, &error),
        }
    }

    /// A pod that the watch saw go meanwhile is not remembered again.
    fn succeeded(&self, uid: Uid, change: impl FnOnce(&mut Active)) {
        if let Some(active) = self.active.lock().get_mut(&uid) {
            active.failures = 0;
            change(active);
        }
    }

    fn failed(&self, pod: &Pod, error: &CallError) {
        let said = error.error();
        let mut all = self.active.lock();
        if said.code == 404 {
            // The watch will say so, too.
            all.remove(&pod.uid);
            return;
        }
        let Some(active) = all.get_mut(&pod.uid) else { return };
        active.failures = active.failures.saturating_add(1);
        let delay = backoff(active.failures);
        drop(all);
        self.counts.retries.fetch_add(1, Ordering::Relaxed);
        // A conflict is somebody else's write, or another pod of that name, which the watch is about to tell. Without an answer, the sources say
        // so once, and not a thousand pods.
        if matches!(said.code, 0 | 409) {
            debug!(namespace = &*pod.namespace, name = &*pod.name, %error, ?delay, "write was not confirmed and is tried again");
        } else {
            warn!(namespace = &*pod.namespace, name = &*pod.name, code = said.code, %error, ?delay, "write failed and is tried again");
        }
        self.queue.add_after(pod.uid, delay);
    }

    fn node_of(&self, pod: &Pod) -> Option<&SimulatedNode> {
        self.nodes.by_name.get(pod.node.as_ref()?)
    }

    /// An address out of 10.0.0.0/8.
    fn address(&self) -> Ipv4Addr {
        let number = self.addresses.fetch_add(1, Ordering::Relaxed) & 0x00ff_ffff;
        Ipv4Addr::from(0x0a00_0000 | number)
    }
}

impl Handler<Pod> for Kubelets {
    fn on_change(&self, change: Change<'_, Pod>) {
        let pod = change.object();
        if self.node_of(pod).is_none() {
            return;
        }
        match change {
            Change::Added { new, .. } => self.counts.add(new, 1),
            Change::Updated { old, new } => {
                // A pod that was just bound was nobody's before.
                if self.node_of(old).is_some() {
                    self.counts.add(old, -1);
                }
                self.counts.add(new, 1);
            }
            Change::Deleted { last, .. } => {
                self.counts.add(last, -1);
                self.active.lock().remove(&last.uid);
                return;
            }
            Change::Resync { .. } => {}
        }
        self.queue.add(pod.uid);
    }
}

fn backoff(failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    SHORTEST_BACKOFF.saturating_mul(factor).min(LONGEST_BACKOFF)
}

// === impl Active ===

impl Active {
    fn new(now: Instant) -> Self {
        Self { memory: Memory::new(now), written: ResourceVersion::default(), deleted: false, failures: 0 }
    }
}

// === impl Counts ===

impl Counts {
    fn add(&self, pod: &Pod, weight: i64) {
        self.pods.fetch_add(weight, Ordering::Relaxed);
        if pod.phase == Phase::Running {
            self.running.fetch_add(weight, Ordering::Relaxed);
        }
        if pod.ready {
            self.ready.fetch_add(weight, Ordering::Relaxed);
        }
    }
}
