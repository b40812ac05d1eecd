//! Rows of the bug corpus about the pods of a set.

use anyhow::{Result, ensure};
use kube::api::{DeleteParams, ListParams};
use nodes::Fate;
use serde_json::json;

use crate::history::History;
use crate::looking::until_changed;
use crate::rig::{Shared, came_back, comings_and_goings, ensure_made_in_order, is_ready, names, parallel, status_of, uids};
use crate::support::Space;

pub(crate) async fn sts_28_pods_beyond_the_size_go_although_others_cannot_be_made(cluster: Shared) -> Result<()> {
    // Upstream ends the sync with the first pod that cannot be made, and so never frees the quota.
    if !cluster.is_ours() {
        return Ok(());
    }
    let space = cluster.space("sts-28").await?;
    space.create_stateful_set_with("web", 6, parallel).await?;
    space.complete("web").await?;
    space.limit_pods(5).await?;
    space.delete_pod("web-1").await?;
    space.pods_are(&["web-0", "web-2", "web-3", "web-4", "web-5"]).await?;
    let said = space.messages("StatefulSet", "web", "FailedCreate", 1).await?;
    assert!(said[0].contains("exceeded quota"), "{said:?}");
    space.scale_stateful_set("web", 3).await?;
    space.pods_are(&["web-0", "web-1", "web-2"]).await?;
    space.complete("web").await.map(drop)
}

/// A pod that ends in that way is replaced, once, and the others stay. Ours says why.
async fn replaced(cluster: &Shared, space: &Space, fate: Fate, reason: &str, how: &str) -> Result<()> {
    space.create_stateful_set("web", 2).await?;
    space.complete("web").await?;
    let pods = History::start(space.pods()).await?;
    let phase = if fate == Fate::Fail { "Failed" } else { "Succeeded" };
    space.patch_pod_status("web-0", json!({"phase": phase, "conditions": []})).await?;
    came_back(space, &pods, 1).await?;
    space.complete("web").await?;
    assert_eq!(comings_and_goings(&pods).await?, ["-web-0", "+web-0"]);
    space.messages("StatefulSet", "web", "SuccessfulDelete", 1).await?;
    if cluster.is_ours() {
        let said = space.messages("StatefulSet", "web", reason, 1).await?;
        assert_eq!(said, [format!("StatefulSet {}/web is recreating {how} Pod web-0", space.namespace)]);
    }
    Ok(())
}

pub(crate) async fn sts_31_a_pod_that_has_succeeded_is_replaced(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-31").await?;
    replaced(&cluster, &space, Fate::Succeed, "RecreatingTerminatedPod", "terminated").await
}

pub(crate) async fn sts_39_a_failed_pod_is_replaced_and_somebody_says_so(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-39").await?;
    replaced(&cluster, &space, Fate::Fail, "RecreatingFailedPod", "failed").await
}

pub(crate) async fn sts_33_nothing_comes_before_the_one_that_goes_is_gone(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-33").await?;
    space.create_stateful_set("web", 3).await?;
    space.complete("web").await?;
    let before = uids(&space.pods_of("web").await?);
    space.hold(&["web-1".to_owned()]).await?;
    let pods = History::start(space.pods()).await?;
    space.delete_pod("web-1").await?;
    space.terminating(1).await?;
    // More pods are wanted, and another template.
    space.scale_stateful_set("web", 4).await?;
    space.set_image("web", crate::rig::NEXT).await?;
    space.looked_at("web").await?;
    assert_eq!(comings_and_goings(&pods).await?, Vec::<String>::new());
    assert_eq!(uids(&space.pods_of("web").await?), before);
    space.let_go("web-1").await?;
    space.complete("web").await?;
    let steps = ["-web-1", "+web-1", "+web-3", "-web-2", "+web-2", "-web-0", "+web-0"];
    // The one that came back is of the new template if its ordinal is not among those that are still of the old one.
    let mut seen = comings_and_goings(&pods).await?;
    if seen.iter().filter(|step| *step == "-web-1").count() == 2 {
        let again = seen.iter().rposition(|step| step == "-web-1").unwrap_or(0);
        seen.drain(again..again + 2);
    }
    assert_eq!(seen, steps);
    Ok(())
}

pub(crate) async fn sts_34_pods_removed_by_force_come_back_one_after_the_other(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-34").await?;
    space.create_stateful_set("web", 3).await?;
    space.complete("web").await?;
    let pods = History::start(space.pods()).await?;
    space.pods().delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await?;
    came_back(&space, &pods, 3).await?;
    space.complete("web").await?;
    ensure_made_in_order(&pods).await?;
    assert_eq!(names(&pods.added().await?), ["web-0", "web-1", "web-2"]);
    Ok(())
}

pub(crate) async fn sts_36_the_status_is_true_when_a_quota_refuses_pods(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-36").await?;
    space.limit_pods(1).await?;
    space.create_stateful_set("web", 3).await?;
    space.messages("StatefulSet", "web", "FailedCreate", 1).await?;
    let one = space.counts("web", "one ready pod", |status| (status.replicas, status.ready_replicas) == (1, Some(1))).await?;
    let status = status_of(&one);
    assert_eq!((status.updated_replicas, status.available_replicas), (Some(1), Some(1)));
    space.looked_at("web").await?;
    space.limit_pods(3).await?;
    // Somebody has to look: until then it is a matter of the back-off.
    space.looked_at("web").await?;
    space.complete("web").await.map(drop)
}

pub(crate) async fn sts_42_a_pod_that_does_not_go_stops_nobody_in_parallel(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-42").await?;
    space.create_stateful_set_with("web", 5, parallel).await?;
    space.complete("web").await?;
    space.hold(&["web-1".to_owned()]).await?;
    space.patch_pod_status("web-1", json!({"phase": "Failed", "conditions": []})).await?;
    assert_eq!(space.terminating(1).await?, ["web-1"]);
    space.scale_stateful_set("web", 7).await?;
    until_changed(&space.pods(), "six ready pods", async || {
        let ready: Vec<_> = space.pods_of("web").await?.into_iter().filter(is_ready).collect();
        ensure!(names(&ready) == ["web-0", "web-2", "web-3", "web-4", "web-5", "web-6"], "{:?}", names(&ready));
        Ok(())
    })
    .await?;
    space.counts("web", "six ready of seven", |status| (status.replicas, status.ready_replicas) == (7, Some(6))).await?;
    space.let_go("web-1").await?;
    space.complete("web").await.map(drop)
}
