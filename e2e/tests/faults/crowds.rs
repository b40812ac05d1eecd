//! Many pods, and many Deployments at once: what a rollout costs.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::proxy::Match;
use e2e::wait;
use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use serde_json::json;

use crate::deployments::{end, fleet, start};
use crate::rig::{Rig, Shared};

/// For everything at once, on a busy machine of two cores.
const LONG: Duration = Duration::from_mins(8);

async fn syncs(rig: &Rig) -> Result<f64> {
    let sample = r#"workqueue_work_duration_seconds_count{name="deployment"}"#;
    rig.program()?.endpoint().metric(sample).await?.context("no such metric")
}

/// Writes of ReplicaSets that were carried out.
fn changes_of_sets(rig: &Rig) -> usize {
    let writes = rig.proxy.requests_of(&Match::writes("replicasets"));
    writes.iter().filter(|write| write.status.is_some_and(|status| status < 300)).count()
}

pub async fn dep_36_a_deployment_is_synced_for_its_sets_and_not_for_its_pods(planes: Shared) -> Result<()> {
    const PODS: usize = 500;
    let rig = start(&planes).await?;
    let fleet = fleet(&rig, 3).await?;
    rig.create_deployment("web", i32::try_from(PODS)?, json!("25%"), 125).await?;
    rig.complete("web", LONG).await?;
    let (before, synced) = (changes_of_sets(&rig), syncs(&rig).await?);
    rig.set_version("web", 2).await?;
    rig.complete("web", LONG).await?;
    let changes = u32::try_from(changes_of_sets(&rig) - before)?;
    let syncs = syncs(&rig).await? - synced;
    println!("dep_36: {syncs} syncs for {changes} changes of ReplicaSets, {PODS} pods replaced");
    // Each change, and each status of its own.
    assert!(syncs <= f64::from(2 * changes + 10), "{syncs} syncs for {changes} changes of ReplicaSets");
    assert_eq!((rig.creates(), rig.deletes()), (2 * PODS, PODS));
    fleet.shutdown().await?;
    end(rig, &planes).await
}

/// The row's 3,000 Deployments and 10,000 pods are more than two cores bear; what must not happen shows with fewer.
pub async fn ctl_10_a_rollout_of_everything_at_once_takes_no_memory(planes: Shared) -> Result<()> {
    const DEPLOYMENTS: usize = 200;
    const PODS: usize = 3 * DEPLOYMENTS;
    /// As many pods and ReplicaSets again, at a kilobyte each, are less than 1 MiB; the rest is for what is under way, and for the allocator.
    const GROWTH: u64 = 16 << 20;
    let rig = start(&planes).await?;
    let fleet = fleet(&rig, 3).await?;
    let names: Vec<_> = (0..DEPLOYMENTS).map(|n| format!("web-{n}")).collect();
    for name in &names {
        rig.create_deployment(name, 3, json!("25%"), 0).await?;
    }
    all_complete(&rig, 1).await?;
    let before = rig.program()?.usage()?;
    for name in &names {
        rig.set_version(name, 2).await?;
    }
    all_complete(&rig, 2).await?;
    let after = rig.program()?.usage()?;
    println!(
        "ctl_10: {} KiB before, {} KiB at most, {:?} of processor time",
        before.peak >> 10,
        after.peak >> 10,
        after.cpu.saturating_sub(before.cpu)
    );
    assert!(after.peak < before.peak + GROWTH, "{} KiB, from {} KiB", after.peak >> 10, before.peak >> 10);
    assert_eq!((rig.creates(), rig.deletes()), (2 * PODS, PODS), "no pod too many");
    assert_eq!(rig.proxy.seen(&Match::creates("replicasets")), 2 * DEPLOYMENTS);
    let repeated = rig.proxy.requests_of(&Match::of("replicasets").method(Method::GET).subresource(""));
    let reads = repeated.iter().filter(|read| !read.target.list && !read.target.watch).count();
    assert_eq!(reads, 0, "nothing is looked up live");
    fleet.shutdown().await?;
    end(rig, &planes).await
}

async fn all_complete(rig: &Rig, revision: i64) -> Result<()> {
    wait::list(&rig.deployments(), &ListParams::default(), &format!("revision {revision} of all"), LONG, |all: &[Deployment]| {
        let is_complete = |it: &&Deployment| {
            let status = it.status.clone().unwrap_or_default();
            let counts = [status.replicas, status.updated_replicas, status.available_replicas];
            let annotations = it.metadata.annotations.clone().unwrap_or_default();
            let seen = annotations.get("deployment.kubernetes.io/revision").and_then(|text| text.parse().ok());
            counts == [Some(3); 3] && status.observed_generation == it.metadata.generation && seen == Some(revision)
        };
        let complete = all.iter().filter(is_complete).count();
        ensure!(complete == all.len(), "{complete} of {}", all.len());
        Ok(())
    })
    .await
}
