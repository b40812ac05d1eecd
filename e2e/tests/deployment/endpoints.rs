//! What users write, through every door, stays written; what the controller owns it puts right again.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::history::{Change, History};
use crate::rig::{Shared, condition_of, deployment, ensure_complete, image_of_deployment};

pub(crate) async fn should_run_the_lifecycle_of_a_deployment(cluster: Shared) -> Result<()> {
    let space = cluster.space("lifecycle").await?;
    let history = History::start(space.deployments()).await?;
    let labelled = |object: &mut Value| {
        object["metadata"]["labels"] = json!({"static": "true"});
        object["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(1);
    };
    let created = space.create_deployment_with("web", 2, labelled).await?;
    space.complete("web").await?;

    let patch = json!({
        "metadata": {"labels": {"test": "patched"}},
        "spec": {"replicas": 1, "template": {"spec": {
            "terminationGracePeriodSeconds": 2, "containers": [{"name": "main", "image": "registry.example/app:2"}],
        }}},
    });
    let patched = space.patch_deployment("web", patch).await?;
    assert!(version(&patched)? > version(&created)?);
    let done = space.complete("web").await?;
    serves(&done, 1, "registry.example/app:2")?;
    let everywhere: Api<Deployment> = Api::all(space.client.clone());
    let found = everywhere.list(&ListParams::default().labels("static=true")).await?.items;
    assert!(found.iter().any(|it| it.metadata.uid == created.metadata.uid));

    // A PUT of what the user has at home, without a version.
    let mut update = deployment("web", 2);
    labelled(&mut update);
    update["metadata"]["labels"]["test"] = json!("updated");
    update["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example/app:3");
    space.apps(Method::PUT, "deployments/web", &update).await?;
    let status = space.apps(Method::GET, "deployments/web/status", &Value::Null).await?;
    assert_eq!(status["spec"]["template"]["spec"]["containers"][0]["image"], "registry.example/app:3");
    assert_eq!(status["metadata"]["labels"]["test"], "updated");
    serves(&space.complete("web").await?, 2, "registry.example/app:3")?;

    // The controller counts for itself.
    let zero = json!({"status": {"readyReplicas": 0, "availableReplicas": 0}});
    let zeroed: Deployment = serde_json::from_value(space.apps(Method::PATCH, "deployments/web/status", &zero).await?)?;
    serves(&space.complete("web").await?, 2, "registry.example/app:3")?;
    let changes = history.so_far().await?;
    let seen = changes.iter().find(|change| change.object().metadata.resource_version == zeroed.metadata.resource_version);
    let ready = seen.context("the patch was never seen")?.object().status.as_ref().and_then(|status| status.ready_replicas);
    assert_eq!(ready.unwrap_or(0), 0);

    space.delete_all("deployments", "static=true").await?;
    space.all_gone().await?;
    assert!(matches!(history.so_far().await?.last(), Some(Change::Deleted(_))));
    Ok(())
}

fn version(it: &Deployment) -> Result<u64> {
    Ok(it.metadata.resource_version.as_deref().context("no version")?.parse()?)
}

/// So many pods of that image, all of them ready.
fn serves(it: &Deployment, replicas: i32, image: &str) -> Result<()> {
    ensure_complete(it)?;
    let status = it.status.as_ref().context("no status")?;
    assert_eq!((status.ready_replicas, status.updated_replicas), (Some(replicas), Some(replicas)));
    assert_eq!(status.unavailable_replicas.unwrap_or(0), 0);
    assert_eq!(image_of_deployment(it), Some(image));
    Ok(())
}

pub(crate) async fn should_validate_deployment_status_endpoints(cluster: Shared) -> Result<()> {
    let space = cluster.space("status").await?;
    let history = History::start(space.deployments()).await?;
    space.create_deployment("web", 1).await?;
    space.complete("web").await?;
    space.condition("web", "Progressing", "NewReplicaSetAvailable").await?;
    let read = space.apps(Method::GET, "deployments/web/status", &Value::Null).await?;
    assert_eq!(read["status"]["conditions"].as_array().map(Vec::len), Some(2));

    // A stranger's condition is kept, whatever the controller writes afterwards.
    let stranger = json!({"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "set by a test"});
    space.put_condition("deployments/web", &stranger).await?;
    space.scale_deployment("web", 2).await?;
    let done = space.complete("web").await?;
    let kept = condition_of(&done, "StatusUpdate").context("it is gone")?;
    assert_eq!((kept.reason.as_deref(), kept.message.as_deref()), (Some("E2E"), Some("set by a test")));

    // The patch takes the controller's own away; it puts them back.
    let patch = json!({"status": {"conditions": [{"type": "StatusPatched", "status": "True"}]}});
    let patched: Deployment = serde_json::from_value(space.apps(Method::PATCH, "deployments/web/status", &patch).await?)?;
    assert!(condition_of(&patched, "Available").is_none() && condition_of(&patched, "StatusPatched").is_some());
    space.condition("web", "Progressing", "NewReplicaSetAvailable").await?;
    let whole = space.condition("web", "Available", "MinimumReplicasAvailable").await?;
    assert_eq!((whole.status.as_str(), whole.message.as_deref()), ("True", Some("Deployment has minimum availability.")));
    space
        .deployment_shows("web", "the three conditions", |it| {
            let kinds: Vec<_> =
                it.status.iter().flat_map(|status| status.conditions.iter().flatten()).map(|one| one.type_.as_str()).collect();
            ensure!(kinds.len() == 3 && kinds[0] == "StatusPatched", "{kinds:?}");
            Ok(())
        })
        .await?;
    let changes = history.so_far().await?;
    for kind in ["StatusUpdate", "StatusPatched"] {
        assert!(changes.iter().any(|change| condition_of(change.object(), kind).is_some()), "no watch has shown {kind}");
    }
    Ok(())
}
