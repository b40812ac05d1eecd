//! Nodes and their leases: made at the start, kept alive, and taken away at the end.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _, TryStreamExt as _};
use machinery::client::{ApiClient, CallError};
use machinery::clock::Clock;
use model::{Time, Timestamp};
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;
use tracing::{debug, warn};

use crate::api::{self, Verb};
use crate::node::NODES;

/// One simulated node.
#[derive(Debug)]
pub(crate) struct SimulatedNode {
    pub(crate) name: Arc<str>,
    /// Out of 198.18.0.0/15, which is set aside for benchmarks (RFC 2544): nobody there answers for this node.
    pub(crate) address: Ipv4Addr,
    /// It is switched off: no lease is renewed, no pod is looked after.
    pub(crate) stopped: AtomicBool,
    /// Its status is to be written with the next renewal.
    report_due: AtomicBool,
}

/// All nodes of a fleet, and what it takes to register them.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub(crate) by_name: HashMap<Arc<str>, SimulatedNode>,
    /// In the order of their numbers.
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) client: ApiClient,
    pub(crate) clock: Clock,
    /// `status.allocatable.pods`.
    pub(crate) capacity: u32,
    /// Keeps ordinary pods off (`nodes.wcm.dev/simulated:NoSchedule`).
    pub(crate) taint: bool,
    pub(crate) renewals: AtomicU64,
}

/// How often a lease is renewed (upstream kubelet: a quarter of `nodeLeaseDurationSeconds`).
const RENEW_EVERY: Duration = Duration::from_secs(10);
const LEASE_SECONDS: u32 = 40;
/// Every so many renewals the status is written, too: upstream's `nodeStatusReportFrequency`, five minutes.
const STATUS_EVERY: u64 = 30;
/// Nodes registered at the same time.
const AT_ONCE: usize = 32;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const SIMULATED: &str = "nodes.wcm.dev/simulated";

// === impl SimulatedNode ===

impl SimulatedNode {
    pub(crate) fn new(name: Arc<str>, number: u32) -> Self {
        let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 1)).wrapping_add(number));
        Self { name, address, stopped: AtomicBool::new(false), report_due: AtomicBool::new(false) }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn path(&self, below: &str) -> String {
        format!("{}/{}{below}", NODES.path(None), self.name)
    }
}

// === impl Nodes ===

impl Nodes {
    /// Makes what is missing of the namespace for leases, the nodes and their leases.
    pub(crate) async fn register_all(&self) -> Result<(), CallError> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-node-lease"}});
        api::create(&self.client, "/api/v1/namespaces", namespace.to_string()).await?;
        futures::stream::iter(self.by_name.values().map(|node| self.register(node))).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Makes a node and its lease, or takes those over that are there.
    pub(crate) async fn register(&self, node: &SimulatedNode) -> Result<(), CallError> {
        let now = self.clock.wall();
        if api::create(&self.client, &NODES.path(None), self.node(node, now).to_string()).await? {
            // Admission taints every new node as not ready, and only upstream's node controller, which may not run, would take that away.
            let patch = json!({"spec": {"taints": self.taints()}}).to_string();
            api::send(&self.client, Verb::MergePatch, &node.path(""), patch).await?;
        } else {
            self.report(node).await?;
        }
        let metadata = json!({"name": node.name, "namespace": "kube-node-lease"});
        let spec = json!({"holderIdentity": node.name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": micro_time(now)});
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec});
        if !api::create(&self.client, LEASES, lease.to_string()).await? {
            self.renew(node).await?;
        }
        Ok(())
    }

    /// Takes nodes and leases away, as far as they are there; the first error is told.
    pub(crate) async fn deregister_all(&self) -> Result<(), CallError> {
        let paths = self.names.iter().flat_map(|name| [format!("{}/{name}", NODES.path(None)), format!("{LEASES}/{name}")]);
        let deletes = futures::stream::iter(paths.map(|path| async move { api::delete(&self.client, &path, String::new()).await }));
        let results: Vec<_> = deletes.buffer_unordered(AT_ONCE).collect().await;
        results.into_iter().collect()
    }

    /// Renews all leases, one node after the other so that each has its turn every ten seconds. Ends only by being dropped.
    pub(crate) async fn keep_alive(&self) {
        let count = u32::try_from(self.names.len().max(1)).unwrap_or(u32::MAX);
        let mut turns = tokio::time::interval((RENEW_EVERY / count).max(Duration::from_micros(100)));
        // After a stall every node is late, and the order of turns matters more than their times.
        turns.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut renewing = FuturesUnordered::new();
        // Each node's status has another turn, for they would all be due at once.
        for (turn, name) in (0_u64..).zip(self.names.iter().cycle()) {
            loop {
                tokio::select! {
                    _ = turns.tick() => break,
                    Some(()) = renewing.next() => {}
                }
            }
            let Some(node) = self.by_name.get(name).filter(|node| !node.is_stopped()) else { continue };
            let (round, number) = (turn / u64::from(count), turn % u64::from(count));
            if (round + number) % STATUS_EVERY == STATUS_EVERY - 1 {
                node.report_due.store(true, Ordering::Relaxed);
            }
            renewing.push(self.heartbeat(node));
        }
    }

    async fn heartbeat(&self, node: &SimulatedNode) {
        let result = match self.renew(node).await {
            Ok(()) if node.report_due.swap(false, Ordering::Relaxed) => self.report(node).await,
            other => other,
        };
        match result {
            Ok(()) => debug!(node = &*node.name, "lease renewed"),
            Err(error) if error.error().code == 404 => {
                warn!(node = &*node.name, "node or lease is gone, registering again");
                if let Err(error) = self.register(node).await {
                    warn!(node = &*node.name, %error, "registering failed");
                }
            }
            Err(error) => {
                // Without an answer, the sources say so once, and not a thousand nodes.
                if error.error().code == 0 {
                    debug!(node = &*node.name, %error, "heartbeat had no answer");
                } else {
                    warn!(node = &*node.name, %error, "heartbeat failed");
                }
                // Late renewals may have had the node declared dead, which only its status takes back.
                node.report_due.store(true, Ordering::Relaxed);
            }
        }
    }

    async fn renew(&self, node: &SimulatedNode) -> Result<(), CallError> {
        let patch = json!({"spec": {"holderIdentity": node.name, "renewTime": micro_time(self.clock.wall())}});
        api::send(&self.client, Verb::MergePatch, &format!("{LEASES}/{}", node.name), patch.to_string()).await?;
        self.renewals.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Writes the node's status.
    async fn report(&self, node: &SimulatedNode) -> Result<(), CallError> {
        let patch = json!({"status": self.status(node, self.clock.wall())}).to_string();
        api::send(&self.client, Verb::StrategicPatch, &node.path("/status"), patch).await.map(drop)
    }

    fn node(&self, node: &SimulatedNode, now: Time) -> Value {
        let labels = json!({
            "kubernetes.io/hostname": node.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", SIMULATED: "true",
        });
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": node.name, "labels": labels},
            "spec": {"taints": self.taints()},
            "status": self.status(node, now),
        })
    }

    fn taints(&self) -> Value {
        if self.taint { json!([{"key": SIMULATED, "effect": "NoSchedule"}]) } else { Value::Null }
    }

    fn status(&self, node: &SimulatedNode, now: Time) -> Value {
        let now = now.timestamp().map(|now: Timestamp| now.to_string());
        let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": "simulated", "lastHeartbeatTime": now, "lastTransitionTime": now});
        let resources = json!({"cpu": "1000", "memory": "1Ti", "ephemeral-storage": "10Ti", "pods": self.capacity.to_string()});
        json!({
            "capacity": resources, "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": node.address}, {"type": "Hostname", "address": node.name}],
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                condition("Ready", "True", "KubeletReady"),
            ],
            "nodeInfo": {
                "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "simulated", "osImage": "simulated",
                "containerRuntimeVersion": "simulated://0", "kubeletVersion": "v0.0.0-simulated", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64",
            },
        })
    }
}

/// `meta/v1` `MicroTime`: exactly six digits.
fn micro_time(now: Time) -> String {
    let at = jiff::Timestamp::from_nanosecond(now.0.into()).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renew_times_have_six_digits() {
        assert_eq!(micro_time(Time(1_700_000_000_000_000_000)), "2023-11-14T22:13:20.000000Z");
        assert_eq!(micro_time(Time(1_700_000_000_123_456_789)), "2023-11-14T22:13:20.123456Z");
    }

    #[test]
    fn addresses_are_of_the_range_for_benchmarks() {
        let address = |number| SimulatedNode::new("n".into(), number).address;
        assert_eq!(address(0), Ipv4Addr::new(198, 18, 0, 1));
        assert_eq!(address(100_000), Ipv4Addr::new(198, 19, 134, 161));
    }
}
