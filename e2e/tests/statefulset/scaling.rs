//! More pods and fewer, in order or not.

use anyhow::{Context as _, Result};
use http::Method;
use nodes::Fate;
use serde_json::json;

use crate::history::History;
use crate::looking::until_changed;
use crate::rig::{Shared, ensure_made_in_order, names, parallel, removed, uids};

pub(crate) async fn scaling_should_happen_in_predictable_order_and_halt_if_any_stateful_pod_is_unhealthy(cluster: Shared) -> Result<()> {
    let space = cluster.space("scaling").await?;
    let pods = History::start(space.pods()).await?;
    space.create_stateful_set("web", 1).await?;
    space.complete("web").await?;

    cluster.pods_become(&space, Some(Fate::Unready)).await;
    space.counts("web", "no ready pod", |status| status.ready_replicas.unwrap_or(0) == 0).await?;
    space.scale_stateful_set("web", 3).await?;
    space.looked_at("web").await?;
    space.pods_are(&["web-0"]).await?;
    cluster.pods_become(&space, None).await;
    space.complete("web").await?;
    assert_eq!(names(&pods.added().await?), ["web-0", "web-1", "web-2"]);
    ensure_made_in_order(&pods).await?;

    cluster.pods_become(&space, Some(Fate::Unready)).await;
    space.counts("web", "no ready pod", |status| status.ready_replicas.unwrap_or(0) == 0).await?;
    space.scale_stateful_set("web", 0).await?;
    space.looked_at("web").await?;
    space.pods_are(&["web-0", "web-1", "web-2"]).await?;
    cluster.pods_become(&space, None).await;
    space.complete("web").await?;
    space.pods_are(&[]).await?;
    assert_eq!(names(&pods.deleted().await?), ["web-2", "web-1", "web-0"]);
    Ok(())
}

pub(crate) async fn burst_scaling_should_run_to_completion_even_with_unhealthy_pods(cluster: Shared) -> Result<()> {
    let space = cluster.space("burst").await?;
    space.create_stateful_set_with("web", 1, parallel).await?;
    space.complete("web").await?;
    cluster.pods_become(&space, Some(Fate::Unready)).await;
    space.counts("web", "no ready pod", |status| status.ready_replicas.unwrap_or(0) == 0).await?;
    space.scale_stateful_set("web", 3).await?;
    space.pods_are(&["web-0", "web-1", "web-2"]).await?;
    space.counts("web", "three pods", |status| status.replicas == 3 && status.ready_replicas.unwrap_or(0) == 0).await?;
    cluster.pods_become(&space, None).await;
    space.complete("web").await?;

    cluster.pods_become(&space, Some(Fate::Unready)).await;
    space.counts("web", "no ready pod", |status| status.ready_replicas.unwrap_or(0) == 0).await?;
    space.scale_stateful_set("web", 0).await?;
    space.pods_are(&[]).await?;
    space.complete("web").await.map(drop)
}

pub(crate) async fn should_recreate_evicted_statefulset(cluster: Shared) -> Result<()> {
    let space = cluster.space("evicted").await?;
    cluster.pod_becomes(&space, "web-0", Some(Fate::Reject("NodePorts".into())));
    let pods = History::start(space.pods()).await?;
    space.create_stateful_set("web", 1).await?;
    removed(&space, &pods, 1).await?;
    cluster.pod_becomes(&space, "web-0", None);
    space.complete("web").await?;
    let gone = uids(&pods.deleted().await?);
    assert!(!gone.contains(&space.pods_of("web").await?[0].metadata.uid));
    Ok(())
}

pub(crate) async fn should_have_a_working_scale_subresource(cluster: Shared) -> Result<()> {
    let space = cluster.space("scale").await?;
    space.create_stateful_set("web", 1).await?;
    space.complete("web").await?;
    let mut scale = space.apps(Method::GET, "statefulsets/web/scale", &serde_json::Value::Null).await?;
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(1), &json!(1)));
    assert_eq!(scale["status"]["selector"], "app=web");
    scale["spec"]["replicas"] = json!(2);
    scale["metadata"].as_object_mut().context("no metadata")?.remove("resourceVersion");
    space.apps(Method::PUT, "statefulsets/web/scale", &scale).await?;
    space.complete("web").await?;
    space.apps(Method::PATCH, "statefulsets/web/scale", &json!({"spec": {"replicas": 4}})).await?;
    let done = space.complete("web").await?;
    assert_eq!(done.spec.and_then(|spec| spec.replicas), Some(4));
    until_changed(&space.stateful_sets(), "the scale's status", async || {
        let scale = space.apps(Method::GET, "statefulsets/web/scale", &serde_json::Value::Null).await?;
        anyhow::ensure!(scale["status"]["replicas"] == 4, "{scale}");
        Ok(())
    })
    .await
}
