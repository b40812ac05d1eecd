//! ReplicaSets without a Deployment: upstream's end-to-end tests of them.

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use http::Method;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::history::History;
use crate::rig::{Shared, image_of_pod, image_of_set};
use crate::scaling::scale_subresource;
use crate::support::{PATIENCE, Space, controller_of, name_of, pod_spec};

/// Waits until a condition of the set `web` is there, or is not.
async fn failure(space: &Space, there: bool) -> Result<()> {
    wait::object(&space.sets(), "web", "ReplicaFailure to come or go", PATIENCE, |set: &ReplicaSet| {
        let status = set.status.as_ref().context("no status")?;
        ensure!(status.observed_generation == set.metadata.generation, "an older generation is observed");
        let conditions = status.conditions.as_deref().unwrap_or_default();
        ensure!(conditions.iter().any(|one| one.type_ == "ReplicaFailure") == there, "{conditions:?}");
        Ok(())
    })
    .await
}

/// That a container serves is left out: none runs.
pub(crate) async fn should_serve_a_basic_image_on_each_replica(cluster: Shared) -> Result<()> {
    let space = cluster.space("basic").await?;
    space.create_set("web", 3).await?;
    for pod in space.ready_pods("web", 3).await? {
        let status = pod.status.context("no status")?;
        assert_eq!(status.phase.as_deref(), Some("Running"));
        assert!(status.pod_ip.is_some(), "it has an address to be asked at");
    }
    Ok(())
}

pub(crate) async fn should_adopt_matching_pods_on_creation_and_release_no_longer_matching_pods(cluster: Shared) -> Result<()> {
    let space = cluster.space("release").await?;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "found", "labels": {"app": "web"}}, "spec": pod_spec()});
    space.create("pods", &pod).await?;
    space.create_set("web", 1).await?;
    let owned = space.ready_pods("web", 1).await?;
    assert_eq!(name_of(&owned[0]), "found", "none was made beside it");

    space.patch_pod("found", json!({"metadata": {"labels": {"app": "not-matching"}}})).await?;
    wait::object(&space.pods(), "found", "it to be released", PATIENCE, |pod| {
        ensure!(controller_of(pod).is_none(), "it is owned");
        Ok(())
    })
    .await?;
    let replaced = space.ready_pods("web", 1).await?;
    assert_ne!(name_of(&replaced[0]), "found");
    Ok(())
}

pub(crate) async fn replicaset_should_have_a_working_scale_subresource(cluster: Shared) -> Result<()> {
    let space = cluster.space("scale").await?;
    space.create_set("web", 1).await?;
    space.settled("web", 1).await?;
    scale_subresource(&space, "replicasets").await?;
    space.settled("web", 4).await?;
    space.ready_pods("web", 4).await?;
    Ok(())
}

pub(crate) async fn replace_and_patch_tests(cluster: Shared) -> Result<()> {
    let space = cluster.space("replace").await?;
    space.create_set("web", 1).await?;
    let first = name_of(&space.ready_pods("web", 1).await?[0]);

    wait::until("a PUT without a conflict", PATIENCE, async || {
        let mut set = space.apps(Method::GET, "replicasets/web", &Value::Null).await?;
        set["spec"]["replicas"] = json!(2);
        space.apps(Method::PUT, "replicasets/web", &set).await
    })
    .await?;
    space.ready_pods("web", 2).await?;

    let patch = json!({
        "metadata": {"labels": {"test": "patched"}},
        "spec": {"replicas": 3, "template": {"spec": {
            "terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "registry.example/app:2"}],
        }}},
    });
    let patched = space.patch_set("web", patch).await?;
    assert_eq!(image_of_set(&patched), Some("registry.example/app:2"));
    let pods = space.ready_pods("web", 3).await?;
    // Only pods that are made from now on have the new template: a ReplicaSet replaces none.
    let new = pods.iter().filter(|pod| image_of_pod(pod) == Some("registry.example/app:2")).count();
    assert!(new == 1 && pods.iter().any(|pod| name_of(pod) == first));
    wait::object(&space.sets(), "web", "three ready and available pods", PATIENCE, |set: &ReplicaSet| {
        let status = set.status.as_ref().context("no status")?;
        ensure!((status.ready_replicas, status.available_replicas) == (Some(3), Some(3)), "{}", json!(status));
        ensure!(set.metadata.labels.as_ref().is_some_and(|labels| labels["test"] == "patched"), "the label is gone");
        Ok(())
    })
    .await
}

pub(crate) async fn should_list_and_delete_a_collection_of_replica_sets(cluster: Shared) -> Result<()> {
    let space = cluster.space("collection").await?;
    let selector = format!("collection={}", space.namespace);
    for (name, label) in [("web", space.namespace.as_str()), ("kept", "another")] {
        space.create_set_with(name, 3, |set| set["metadata"]["labels"] = json!({"collection": label})).await?;
        space.ready_pods(name, 3).await?;
    }
    let everywhere: Api<ReplicaSet> = Api::all(space.client.clone());
    let found = everywhere.list(&ListParams::default().labels(&selector)).await?.items;
    assert_eq!(found.iter().map(|set| set.metadata.name.as_deref()).collect::<Vec<_>>(), [Some("web")]);

    space.delete_all("replicasets", &selector).await?;
    assert!(everywhere.list(&ListParams::default().labels(&selector)).await?.items.is_empty());
    wait::until("its pods to go", PATIENCE * 2, async || {
        let left = space.all_pods().await?;
        ensure!(left.len() == 3 && left.iter().all(|pod| controller_of(pod).as_deref() == Some("kept")), "{} pods", left.len());
        Ok(())
    })
    .await
}

pub(crate) async fn should_validate_replicaset_status_endpoints(cluster: Shared) -> Result<()> {
    let space = cluster.space("status").await?;
    let history = History::start(space.sets()).await?;
    space.create_set("web", 1).await?;
    space.ready_pods("web", 1).await?;
    space.settled("web", 1).await?;
    let read = space.apps(Method::GET, "replicasets/web/status", &Value::Null).await?;
    assert_eq!(read["status"]["replicas"], 1);

    let stranger = json!({"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "set by a test"});
    space.put_condition("replicasets/web", &stranger).await?;
    let patch = json!({"status": {"conditions": [{"type": "StatusPatched", "status": "True"}]}});
    space.apps(Method::PATCH, "replicasets/web/status", &patch).await?;
    let changes = history.so_far().await?;
    for kind in ["StatusUpdate", "StatusPatched"] {
        let shows = |set: &ReplicaSet| set.status.iter().flat_map(|status| status.conditions.iter().flatten()).any(|one| one.type_ == kind);
        assert!(changes.iter().any(|change| shows(change.object())), "no watch has shown {kind}");
    }
    // What the controller writes afterwards leaves it alone.
    space.scale("web", 2).await?;
    space.settled("web", 2).await?;
    let read = space.apps(Method::GET, "replicasets/web/status", &Value::Null).await?;
    assert_eq!(read["status"]["conditions"], json!([{"type": "StatusPatched", "status": "True", "lastTransitionTime": null}]));
    Ok(())
}

pub(crate) async fn should_surface_a_failure_condition_on_a_common_issue_like_exceeded_quota(cluster: Shared) -> Result<()> {
    let space = cluster.space("quota").await?;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}});
    space.create("resourcequotas", &quota).await?;
    wait::until("the quota", PATIENCE, async || {
        let quota = space.request(Method::GET, "/api/v1", "resourcequotas/few", &Value::Null).await?;
        ensure!(quota["status"]["hard"]["pods"] == "2", "{}", quota["status"]);
        Ok(())
    })
    .await?;
    space.create_set("web", 3).await?;
    failure(&space, true).await?;
    space.scale("web", 2).await?;
    failure(&space, false).await?;
    space.ready_pods("web", 2).await?;
    Ok(())
}
