//! StatefulSets that wait for a pod, or for somebody.

use anyhow::{Context as _, Result};
use serde_json::json;

use super::rig::{Shared, behaving, figures, object, wait_of};
use crate::support::kubectl::Kubectl as _;

pub(crate) async fn a_rollout_that_a_broken_pod_stalls_and_the_command_that_ends_it(cluster: Shared) -> Result<()> {
    let space = cluster.space("stalled").await?;
    space.make("statefulsets", &object("StatefulSet", "db", 3, &json!({"serviceName": "dbs"}))).await?;
    cluster.waits_for(&space, "statefulsets/db", &[]).await?;
    space.change("statefulsets/db", &behaving("unready")).await?;
    // Of the revision that is wanted: it may become ready yet.
    let told = cluster.waits_for(&space, "statefulsets/db", &["pod-not-available"]).await?;
    assert_eq!(wait_of(&told, "pod-not-available")?["on"], "db-2");

    space.change("statefulsets/db", &behaving("ready-after=0s")).await?;
    let told = cluster.waits_for(&space, "statefulsets/db", &["rollout-stalled"]).await?;
    let stalled = wait_of(&told, "rollout-stalled")?;
    assert_eq!(stalled["on"], "db-2");
    let command = stalled["detail"].as_str().context("no command")?;
    assert_eq!(command, format!("kubectl delete pod db-2 --namespace {}", space.namespace));
    let arguments: Vec<_> = command.split(' ').skip(1).collect();
    cluster.kubectl(&space, &arguments).await?;
    cluster.waits_for(&space, "statefulsets/db", &[]).await?;
    let status = space.read("statefulsets/db").await?["status"].clone();
    assert_eq!((&status["updatedReplicas"], &status["currentRevision"]), (&json!(3), &status["updateRevision"]));
    Ok(())
}

pub(crate) async fn pods_that_a_partition_or_a_hand_keeps(cluster: Shared) -> Result<()> {
    let space = cluster.space("kept").await?;
    let partition = json!({"serviceName": "dbs", "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
    let by_hand = json!({"serviceName": "dbs", "podManagementPolicy": "Parallel", "updateStrategy": {"type": "OnDelete"}});
    for (name, spec) in [("canary", partition), ("hand", by_hand)] {
        space.make("statefulsets", &object("StatefulSet", name, 3, &spec)).await?;
        cluster.waits_for(&space, &format!("statefulsets/{name}"), &[]).await?;
        space.change(&format!("statefulsets/{name}"), &behaving("ready-after=0s")).await?;
    }
    let told = cluster.waits_for(&space, "statefulsets/canary", &["partition"]).await?;
    assert_eq!(figures(wait_of(&told, "partition")?), [("partition", 2), ("outdated", 2)]);
    let told = cluster.waits_for(&space, "statefulsets/hand", &["on-delete"]).await?;
    assert_eq!(figures(wait_of(&told, "on-delete")?), [("outdated", 3)]);
    Ok(())
}
