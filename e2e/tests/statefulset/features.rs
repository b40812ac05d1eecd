//! Availability, and where the ordinals begin.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::history::History;
use crate::rig::{Shared, comings_and_goings, ensure_made_in_order, names};
use crate::support::Space;
use crate::support::kubectl::Kubectl as _;

pub(crate) async fn min_ready_seconds_should_be_honored_when_enabled(cluster: Shared) -> Result<()> {
    let space = cluster.space("min-ready").await?;
    space.create_stateful_set("web", 1).await?;
    space.counts("web", "an available pod", |status| status.available_replicas == Some(1)).await?;
    Ok(())
}

/// When a pod became ready.
fn ready_since(pod: &Pod) -> Option<k8s_openapi::jiff::Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    ready.last_transition_time.as_ref().map(|at| at.0)
}

pub(crate) async fn available_replicas_should_get_updated_accordingly_when_min_ready_seconds_is_enabled(cluster: Shared) -> Result<()> {
    let space = cluster.space("available").await?;
    let patience = async |seconds: i32| space.patch_stateful_set("web", json!({"spec": {"minReadySeconds": seconds}})).await;
    space.create_stateful_set_with("web", 2, |object| object["spec"]["minReadySeconds"] = json!(3600)).await?;
    space.counts("web", "one ready pod", |status| (status.ready_replicas, status.available_replicas.unwrap_or(0)) == (Some(1), 0)).await?;
    space.looked_at("web").await?;
    space.pods_are(&["web-0"]).await?;
    patience(3).await?;
    space.complete("web").await?;
    let pods = space.pods_are(&["web-0", "web-1"]).await?;
    let ready = ready_since(&pods[0]).context("web-0 is not ready")?;
    let made = pods[1].creation_timestamp().context("no time")?.0;
    ensure!(made.as_second() >= ready.as_second() + 3, "web-0 was ready at {ready}, web-1 was made at {made}");

    patience(3600).await?;
    space
        .counts("web", "no available pod", |status| (status.ready_replicas, status.available_replicas.unwrap_or(0)) == (Some(2), 0))
        .await?;
    patience(0).await?;
    space.counts("web", "two available pods", |status| status.available_replicas == Some(2)).await?;
    let shown = cluster.kubectl(&space, &["get", "statefulset", "web", "-o=yaml"]).await?;
    assert!(shown.contains("availableReplicas: 2"), "{shown}");
    Ok(())
}

fn starting_at(object: &mut Value, start: i32) {
    object["spec"]["ordinals"] = json!({"start": start});
}

/// Waits until the set is complete with these pods.
async fn stands(space: &Space, pods: &[&str]) -> Result<()> {
    space.pods_are(pods).await?;
    space.complete("web").await?;
    assert_eq!(names(&space.pods_of("web").await?), pods);
    Ok(())
}

/// Takes a set of two from `before` to `after`, by a patch.
async fn move_window(cluster: &Shared, start: Option<i32>, before: &[&str], patch: Value, after: &[&str]) -> Result<Vec<String>> {
    let space = cluster.space("ordinals").await?;
    let create = |object: &mut Value| {
        if let Some(start) = start {
            starting_at(object, start);
        }
    };
    space.create_stateful_set_with("web", 2, create).await?;
    stands(&space, before).await?;
    let pods = History::start(space.pods()).await?;
    space.patch_stateful_set("web", patch).await?;
    stands(&space, after).await?;
    comings_and_goings(&pods).await
}

pub(crate) async fn setting_start_ordinal(cluster: Shared) -> Result<()> {
    let patch = json!({"spec": {"replicas": 3, "ordinals": {"start": 2}}});
    let steps = move_window(&cluster, None, &["web-0", "web-1"], patch, &["web-2", "web-3", "web-4"]).await?;
    assert_eq!(steps, ["+web-2", "+web-3", "+web-4", "-web-1", "-web-0"], "the new ones come before the old ones go");
    Ok(())
}

pub(crate) async fn increasing_start_ordinal(cluster: Shared) -> Result<()> {
    let patch = json!({"spec": {"ordinals": {"start": 4}}});
    let steps = move_window(&cluster, Some(2), &["web-2", "web-3"], patch, &["web-4", "web-5"]).await?;
    assert_eq!(steps, ["+web-4", "+web-5", "-web-3", "-web-2"]);
    Ok(())
}

pub(crate) async fn decreasing_start_ordinal(cluster: Shared) -> Result<()> {
    let patch = json!({"spec": {"ordinals": {"start": 2}}});
    let steps = move_window(&cluster, Some(3), &["web-3", "web-4"], patch, &["web-2", "web-3"]).await?;
    assert_eq!(steps, ["+web-2", "-web-4"]);
    Ok(())
}

pub(crate) async fn removing_start_ordinal(cluster: Shared) -> Result<()> {
    let patch = json!({"spec": {"ordinals": null}});
    let steps = move_window(&cluster, Some(3), &["web-3", "web-4"], patch, &["web-0", "web-1"]).await?;
    assert_eq!(steps, ["+web-0", "+web-1", "-web-4", "-web-3"]);
    Ok(())
}

/// Counted from the first ordinal, not from zero.
pub(crate) async fn a_partition_counts_from_the_start_ordinal(cluster: Shared) -> Result<()> {
    let space = cluster.space("ordinals").await?;
    let create = |object: &mut Value| {
        starting_at(object, 5);
        crate::rig::partition(object, 1);
    };
    let pods = History::start(space.pods()).await?;
    space.create_stateful_set_with("web", 3, create).await?;
    stands(&space, &["web-5", "web-6", "web-7"]).await?;
    ensure!(ensure_made_in_order(&pods).await.is_err(), "nobody waits for web-0");
    space.set_image("web", crate::rig::NEXT).await?;
    space.counts("web", "two new pods", |status| (status.updated_replicas, status.ready_replicas) == (Some(2), Some(3))).await?;
    assert_eq!(names(&pods.deleted().await?), ["web-7", "web-6"]);
    Ok(())
}
