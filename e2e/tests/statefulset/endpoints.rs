//! What users write, through every door, stays written; what the controller owns it puts right again.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetCondition};
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::history::History;
use crate::looking::until_changed;
use crate::rig::{NEXT, Shared, ensure_all_at, revision_in, status_of};

pub(crate) async fn should_list_patch_and_delete_a_collection_of_stateful_sets(cluster: Shared) -> Result<()> {
    let space = cluster.space("collection").await?;
    space.create_stateful_set("web", 1).await?;
    space.complete("web").await?;
    let patch = json!({
        "metadata": {"labels": {"test-set": &space.namespace}},
        "spec": {"replicas": 2, "template": {"spec": {
            "terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": NEXT}],
        }}},
    });
    space.patch_stateful_set("web", patch).await?;
    let done = space.complete("web").await?;
    assert_eq!(status_of(&done).replicas, 2);
    ensure_all_at(&space, "web", NEXT, &revision_in(&done)).await?;

    let selector = format!("test-set={}", space.namespace);
    let everywhere: Api<StatefulSet> = Api::all(space.client.clone());
    assert_eq!(everywhere.list(&ListParams::default().labels(&selector)).await?.items.len(), 1);
    space.delete_all("statefulsets", &selector).await?;
    assert!(everywhere.list(&ListParams::default().labels(&selector)).await?.items.is_empty());
    space.pods_are(&[]).await?;
    // Its revisions go with it.
    until_changed(&space.revisions(), "the revisions to be gone", async || {
        let left = space.revisions().list(&ListParams::default()).await?.items.len();
        ensure!(left == 0, "{left} are there");
        Ok(())
    })
    .await
}

fn condition_of(it: &StatefulSet, kind: &str) -> Option<StatefulSetCondition> {
    status_of(it).conditions.into_iter().flatten().find(|condition| condition.type_ == kind)
}

pub(crate) async fn should_validate_statefulset_status_endpoints(cluster: Shared) -> Result<()> {
    let space = cluster.space("status").await?;
    let history = History::start(space.stateful_sets()).await?;
    space.create_stateful_set("web", 1).await?;
    space.complete("web").await?;
    let read = space.apps(Method::GET, "statefulsets/web/status", &Value::Null).await?;
    assert_eq!((&read["status"]["readyReplicas"], &read["status"]["conditions"]), (&json!(1), &Value::Null));

    let stranger = json!({"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "set by a test"});
    space.put_condition("statefulsets/web", &stranger).await?;
    let patch = json!({"status": {"conditions": [{"type": "StatusPatched", "status": "True"}]}});
    let patched: StatefulSet = serde_json::from_value(space.apps(Method::PATCH, "statefulsets/web/status", &patch).await?)?;
    assert!(condition_of(&patched, "StatusUpdate").is_none() && condition_of(&patched, "StatusPatched").is_some());
    let changes = history.so_far().await?;
    for kind in ["StatusUpdate", "StatusPatched"] {
        assert!(changes.iter().any(|change| condition_of(change.object(), kind).is_some()), "no watch has shown {kind}");
    }

    // The controller counts for itself.
    space.apps(Method::PATCH, "statefulsets/web/status", &json!({"status": {"readyReplicas": 0, "availableReplicas": 0}})).await?;
    space.complete("web").await?;
    // Whatever it writes, a stranger's condition is kept; up to 1.36 upstream loses it.
    space.scale_stateful_set("web", 2).await?;
    let done = space.complete("web").await?;
    if cluster.is_ours() || crate::support::minor_release() >= 37 {
        condition_of(&done, "StatusPatched").context("it is gone")?;
    }
    Ok(())
}
