//! The cluster, and how its pods are looked at.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use e2e::node::{Cluster, Image, ours};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use tokio::sync::Mutex;

use crate::static_pod;
use crate::support::scenarios::Context;
use crate::workloads::{IMAGE, NEXT_IMAGE};

/// The release's name and namespace.
pub(crate) const RELEASE: &str = "workloads-controller-manager";
pub(crate) const NAMESPACE: &str = "kube-system";

/// A cluster on which kube-controller-manager runs everything at first.
pub(crate) struct World(pub(crate) Mutex<Cluster>);

impl Context for World {
    async fn start() -> Result<Self> {
        let images = [Image::Busybox(IMAGE.to_owned(), ""), Image::Busybox(NEXT_IMAGE.to_owned(), ""), ours()?];
        Ok(Self(Mutex::new(Cluster::start(&images, &[], &[static_pod::USER]).await?)))
    }

    async fn stop(&mut self) -> Result<()> {
        self.0.get_mut().ensure_running()
    }
}

/// What makes a pod the one it is, and tells whether its containers went on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Life {
    uid: String,
    /// Of the pod and of its containers.
    started: Vec<String>,
    restarts: i32,
}

/// All pods of a namespace that are not about to end, by name.
pub(crate) async fn lives(cluster: &Cluster, namespace: &str) -> Result<BTreeMap<String, Life>> {
    let pods: Api<Pod> = Api::namespaced(cluster.plane().admin().clone(), namespace);
    let pods = pods.list(&ListParams::default()).await?;
    let pods = pods.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    pods.map(|pod| Ok((name_of(&pod)?, life(&pod)?))).collect()
}

fn life(pod: &Pod) -> Result<Life> {
    let status = pod.status.as_ref().context("a pod without a status")?;
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let running = containers.iter().filter_map(|container| container.state.as_ref()?.running.as_ref()?.started_at.as_ref());
    let started = status.start_time.iter().chain(running).map(|time| time.0.to_string()).collect();
    Ok(Life {
        uid: pod.metadata.uid.clone().context("a pod without a UID")?,
        started,
        restarts: containers.iter().map(|container| container.restart_count).sum(),
    })
}

/// The pods of our release that are not about to end, by name.
pub(crate) async fn our_pods(cluster: &Cluster) -> Result<BTreeMap<String, Pod>> {
    let pods: Api<Pod> = Api::namespaced(cluster.plane().admin().clone(), NAMESPACE);
    let selector = format!("app.kubernetes.io/instance={RELEASE},app.kubernetes.io/name=workloads-controller-manager");
    let pods = pods.list(&ListParams::default().labels(&selector)).await?;
    let pods = pods.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    pods.map(|pod| Ok((name_of(&pod)?, pod))).collect()
}

/// The only pod of our release.
pub(crate) async fn our_pod(cluster: &Cluster) -> Result<Pod> {
    let pods = our_pods(cluster).await?;
    ensure!(pods.len() == 1, "pods of ours: {:?}", pods.keys());
    pods.into_values().next().context("no pod")
}

pub(crate) fn name_of(pod: &Pod) -> Result<String> {
    pod.metadata.name.clone().context("a pod without a name")
}

/// Does something and prints how long it took.
pub(crate) async fn step<T>(what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    let began = Instant::now();
    let done = work.await.with_context(|| what.to_owned())?;
    println!("  {what}: {:.1?}", began.elapsed());
    Ok(done)
}

/// The folder of the chart.
pub(crate) fn chart() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/chart"))
}
