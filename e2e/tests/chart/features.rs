//! Everything that the controllers do and need a right for, in one namespace.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use http::Method;
use serde_json::{Value, json};

use crate::support::{Space, pod_spec};

/// While rights are granted one after the other, each may be waited for through a back-off or two.
const PATIENCE: Duration = Duration::from_mins(5);

/// Has all of it done, and waits for it.
pub(crate) async fn all(space: &Space) -> Result<()> {
    tokio::try_join!(deployments(space), replica_sets(space), stateful_sets(space))?;
    Ok(())
}

/// Rollouts, a rollback, sizes, adoption and release of a ReplicaSet, the end of the history.
async fn deployments(space: &Space) -> Result<()> {
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template("web")},
    });
    space.apps(Method::POST, "deployments", &web).await?;
    complete(space, "deployments/web", 2).await?;
    patch(space, "deployments/web", turn("2")).await?;
    complete(space, "deployments/web", 2).await?;
    patch(space, "deployments/web", json!({"metadata": {"annotations": {ROLLBACK: "1"}}})).await?;
    shows(space, "deployments/web", "the rollback", |web| {
        ensure!(web.pointer("/metadata/annotations").and_then(|all| all.get(ROLLBACK)).is_none(), "it is still asked for");
        ensure!(web.pointer("/spec/template/metadata/annotations/turn") == Some(&json!("1")), "its template is another one");
        Ok(())
    })
    .await?;
    // The second time, the events are known already: they are counted.
    for size in [3, 2, 3, 2] {
        patch(space, "deployments/web", json!({"spec": {"replicas": size}})).await?;
        complete(space, "deployments/web", size).await?;
    }
    // Of another template, so that it is one of the old ones.
    let stray = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-stray", "labels": {"app": "web", "stray": "yes"}},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web", "stray": "yes"}}, "template": {
            "metadata": {"labels": {"app": "web", "stray": "yes"}}, "spec": pod_spec(),
        }},
    });
    space.apps(Method::POST, "replicasets", &stray).await?;
    owned(space, "/apis/apps/v1", "replicasets/web-stray", Some("web")).await?;
    patch(space, "replicasets/web-stray", json!({"metadata": {"labels": {"app": "other"}}})).await?;
    owned(space, "/apis/apps/v1", "replicasets/web-stray", None).await?;
    patch(space, "deployments/web", json!({"spec": {"revisionHistoryLimit": 0}})).await?;
    one_left(space, "replicasets", "app=web").await
}

const ROLLBACK: &str = "deprecated.deployment.rollback.to";

/// Sizes, adoption and release of a pod, and pods that are refused.
async fn replica_sets(space: &Space) -> Result<()> {
    let stray =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare-stray", "labels": {"app": "bare"}}, "spec": pod_spec()});
    space.create("pods", &stray).await?;
    let bare = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "bare"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "bare"}}, "template": template("bare")},
    });
    space.apps(Method::POST, "replicasets", &bare).await?;
    owned(space, "/api/v1", "pods/bare-stray", Some("bare")).await?;
    available(space, "replicasets/bare", 2).await?;
    space.request(Method::PATCH, "/api/v1", "pods/bare-stray", &json!({"metadata": {"labels": {"app": "other"}}})).await?;
    owned(space, "/api/v1", "pods/bare-stray", None).await?;
    available(space, "replicasets/bare", 2).await?;
    patch(space, "replicasets/bare", json!({"spec": {"replicas": 1}})).await?;
    available(space, "replicasets/bare", 1).await?;

    let mut refused = bare;
    refused["metadata"]["name"] = json!("refused");
    for path in ["/spec/selector/matchLabels/app", "/spec/template/metadata/labels/app"] {
        *refused.pointer_mut(path).context(path)? = json!("refused");
    }
    refused["spec"]["template"]["spec"]["priorityClassName"] = json!("there-is-no-such-class");
    space.apps(Method::POST, "replicasets", &refused).await?;
    // The same refusal again is the same event again.
    wait::until("a refusal that is counted", PATIENCE, async || {
        let path = "events?fieldSelector=reason%3DFailedCreate%2CinvolvedObject.name%3Drefused";
        let events = space.request(Method::GET, "/api/v1", path, &Value::Null).await?;
        let counts: Vec<_> = items(&events).iter().map(|event| event["count"].as_u64().unwrap_or_default()).collect();
        ensure!(counts.iter().any(|count| *count > 1), "counts {counts:?}");
        Ok(())
    })
    .await?;
    patch(space, "replicasets/refused", json!({"spec": {"replicas": 0}})).await?;
    available(space, "replicasets/refused", 0).await
}

/// Rollouts there and back, claims that go with their pod or their set, adoption of a pod and of a revision, the end of the history.
async fn stateful_sets(space: &Space) -> Result<()> {
    let stray = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "db-stray", "labels": {"app": "db"}},
        "data": {"spec": "of nobody"}, "revision": 1,
    });
    space.apps(Method::POST, "controllerrevisions", &stray).await?;
    let mut pods = template("db");
    pods["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let db = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": 2, "serviceName": "db", "podManagementPolicy": "Parallel", "selector": {"matchLabels": {"app": "db"}},
            "template": pods, "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            }}],
        },
    });
    space.apps(Method::POST, "statefulsets", &db).await?;
    owned(space, "/apis/apps/v1", "controllerrevisions/db-stray", Some("db")).await?;
    complete(space, "statefulsets/db", 2).await?;
    for other in ["2", "1"] {
        patch(space, "statefulsets/db", turn(other)).await?;
        complete(space, "statefulsets/db", 2).await?;
    }
    // data-db-1 becomes its pod's, data-db-0 its set's.
    patch(space, "statefulsets/db", json!({"spec": {"replicas": 1}})).await?;
    complete(space, "statefulsets/db", 1).await?;
    wait::until("the claim of db-1 to go with its pod", PATIENCE, async || {
        let path = "persistentvolumeclaims?fieldSelector=metadata.name%3Ddata-db-1";
        let claims = space.request(Method::GET, "/api/v1", path, &Value::Null).await?;
        ensure!(items(&claims).iter().all(|claim| claim.pointer("/metadata/deletionTimestamp").is_some()), "it stays");
        Ok(())
    })
    .await?;
    let policy = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
    patch(space, "statefulsets/db", json!({"spec": {"persistentVolumeClaimRetentionPolicy": policy}})).await?;
    owned(space, "/api/v1", "persistentvolumeclaims/data-db-0", Some("db")).await?;
    // Adopted, and one too many.
    let surplus = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-1", "labels": {"app": "db"}}, "spec": pod_spec()});
    space.create("pods", &surplus).await?;
    wait::until("the pod that is one too many to go", PATIENCE, async || {
        let pods = space.request(Method::GET, "/api/v1", "pods?fieldSelector=metadata.name%3Ddb-1", &Value::Null).await?;
        ensure!(items(&pods).is_empty(), "it is there");
        Ok(())
    })
    .await?;
    patch(space, "statefulsets/db", json!({"spec": {"revisionHistoryLimit": 0}})).await?;
    one_left(space, "controllerrevisions", "app=db").await
}

/// A template of the first turn.
fn template(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}, "annotations": {"turn": "1"}}, "spec": pod_spec()})
}

/// Another turn's template.
fn turn(turn: &str) -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": {"turn": turn}}}}})
}

async fn patch(space: &Space, path: &str, change: Value) -> Result<()> {
    space.apps(Method::PATCH, path, &change).await.map(drop)
}

async fn shows(space: &Space, path: &str, what: &str, mut check: impl FnMut(&Value) -> Result<()>) -> Result<()> {
    wait::until(&format!("{path}: {what}"), PATIENCE, async || check(&space.apps(Method::GET, path, &Value::Null).await?)).await
}

/// Waits until all pods are of the newest template and available, and no others are left.
async fn complete(space: &Space, path: &str, replicas: u64) -> Result<()> {
    shows(space, path, "complete", |object| {
        let number = |path: &str| object.pointer(path).and_then(Value::as_u64).unwrap_or_default();
        ensure!(number("/status/observedGeneration") >= number("/metadata/generation"), "not observed yet");
        let seen = ["replicas", "updatedReplicas", "availableReplicas"].map(|field| number(&format!("/status/{field}")));
        ensure!(seen == [replicas; 3], "in all, updated, available: {seen:?}");
        ensure!(object.pointer("/status/currentRevision") == object.pointer("/status/updateRevision"), "not all of one revision");
        Ok(())
    })
    .await
}

async fn available(space: &Space, path: &str, replicas: u64) -> Result<()> {
    shows(space, path, "available", |object| {
        let number = |path: &str| object.pointer(path).and_then(Value::as_u64).unwrap_or_default();
        ensure!(number("/status/observedGeneration") >= number("/metadata/generation"), "not observed yet");
        let seen = [number("/status/replicas"), number("/status/availableReplicas")];
        ensure!(seen == [replicas; 2], "in all, available: {seen:?}");
        Ok(())
    })
    .await
}

/// Waits until an object is controlled by that one, or by none.
async fn owned(space: &Space, group: &str, path: &str, owner: Option<&str>) -> Result<()> {
    wait::until(&format!("{path} to be owned by {owner:?}"), PATIENCE, async || {
        let object = space.request(Method::GET, group, path, &Value::Null).await?;
        let owners = object.pointer("/metadata/ownerReferences/0/name").and_then(Value::as_str);
        ensure!(owners == owner, "it is by {owners:?}");
        Ok(())
    })
    .await
}

async fn one_left(space: &Space, resource: &str, selector: &str) -> Result<()> {
    wait::until(&format!("one of the {resource} to be left"), PATIENCE, async || {
        let path = format!("{resource}?labelSelector={}", selector.replace('=', "%3D"));
        let left = items(&space.apps(Method::GET, &path, &Value::Null).await?).len();
        ensure!(left == 1, "{left} are");
        Ok(())
    })
    .await
}

fn items(list: &Value) -> Vec<Value> {
    list["items"].as_array().cloned().unwrap_or_default()
}
