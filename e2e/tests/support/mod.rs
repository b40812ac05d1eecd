//! What tests put on a control plane, and how they look at it.
#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "support of tests, which fail by panicking"
)]

pub mod history;
pub mod identities;
pub mod kubectl;
pub mod looking;
pub mod planes;
pub mod pods;
pub mod scenarios;
pub mod subject;
pub mod templates;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::{AuditLog, AuditedRequest, ControlPlane, SERVICE_ACCOUNT_USER};
use e2e::wait;
use http::{Method, Request};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube_runtime::wait::await_condition;
use serde_json::{Value, json};

/// How long anything may take on a busy machine of two cores.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Patches an object. A server that is busy with its writes may give a patch up after a minute; the same patch can be sent again.
pub async fn patched<K>(api: &Api<K>, name: &str, patch: &Patch<Value>) -> Result<K>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    const GATEWAY_TIMEOUT: u16 = 504;
    for _ in 0..3 {
        match api.patch(name, &PatchParams::default(), patch).await {
            Err(kube::Error::Api(status)) if status.code == GATEWAY_TIMEOUT => {}
            answer => return Ok(answer?),
        }
    }
    Ok(api.patch(name, &PatchParams::default(), patch).await?)
}

/// A namespace of its own on a shared control plane, with the administrator's rights.
#[derive(Clone)]
pub struct Space {
    pub client: Client,
    pub namespace: String,
    audit: Option<AuditLog>,
}

impl Space {
    pub async fn new(plane: &ControlPlane, prefix: &str) -> Result<Self> {
        Ok(Self { client: plane.admin().clone(), namespace: plane.namespace(prefix).await?, audit: plane.audit().ok() })
    }

    pub fn sets(&self) -> Api<ReplicaSet> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn events(&self) -> Api<Event> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A request to a resource of this namespace, answered in JSON. `path` follows the namespace: `pods/a/status`.
    pub async fn request(&self, method: Method, group: &str, path: &str, body: &Value) -> Result<Value> {
        let request = Request::builder().method(method.clone()).uri(format!("{group}/namespaces/{}/{path}", self.namespace));
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = request.header("content-type", kind).body(body.to_string().into_bytes())?;
        self.client.request(request).await.with_context(|| format!("{method} {path}"))
    }

    /// A request to the group `apps`, answered in JSON: the way for fields that the typed client does not know.
    pub async fn apps(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        self.request(method, "/apis/apps/v1", path, body).await
    }

    /// Deletes all of a kind of the group `apps` that have a label, with a grace period of a second.
    pub async fn delete_all(&self, resource: &str, selector: &str) -> Result<()> {
        let path = format!("/apis/apps/v1/namespaces/{}/{resource}?labelSelector={selector}&gracePeriodSeconds=1", self.namespace);
        let request = Request::delete(path).body(Vec::new())?;
        self.client.request::<Value>(request).await.with_context(|| format!("delete all {resource}"))?;
        Ok(())
    }

    /// Appends a condition through a PUT of `status`, as often as somebody else comes between. `path` is that of an object of the group
    /// `apps`.
    pub async fn put_condition(&self, path: &str, condition: &Value) -> Result<Value> {
        wait::until("a PUT of the status without a conflict", PATIENCE, async || {
            let mut object = self.apps(Method::GET, path, &Value::Null).await?;
            let conditions = object.pointer_mut("/status").and_then(Value::as_object_mut).context("no status")?.entry("conditions");
            conditions.or_insert(json!([])).as_array_mut().context("no conditions")?.push(condition.clone());
            self.apps(Method::PUT, &format!("{path}/status"), &object).await
        })
        .await
    }

    /// Creates any object of the core group.
    pub async fn create(&self, resource: &str, body: &Value) -> Result<Value> {
        self.request(Method::POST, "/api/v1", resource, body).await
    }

    pub async fn create_set(&self, name: &str, replicas: i32) -> Result<ReplicaSet> {
        self.create_set_with(name, replicas, |_| {}).await
    }

    pub async fn create_set_with(&self, name: &str, replicas: i32, change: impl FnOnce(&mut Value)) -> Result<ReplicaSet> {
        let mut set = replica_set(name, replicas);
        change(&mut set);
        // Not through the typed client, which knows fewer fields than the server.
        let made = self.request(Method::POST, "/apis/apps/v1", "replicasets", &set).await?;
        Ok(serde_json::from_value(made)?)
    }

    pub async fn scale(&self, name: &str, replicas: i32) -> Result<()> {
        self.patch_set(name, json!({"spec": {"replicas": replicas}})).await.map(drop)
    }

    pub async fn patch_set(&self, name: &str, patch: Value) -> Result<ReplicaSet> {
        patched(&self.sets(), name, &Patch::Merge(patch)).await
    }

    pub async fn patch_pod(&self, name: &str, patch: Value) -> Result<Pod> {
        patched(&self.pods(), name, &Patch::Merge(patch)).await
    }

    pub async fn patch_pod_status(&self, name: &str, status: Value) -> Result<Pod> {
        let patch = Patch::Merge(json!({"status": status}));
        Ok(self.pods().patch_status(name, &PatchParams::default(), &patch).await?)
    }

    pub async fn delete_pod(&self, name: &str) -> Result<()> {
        self.pods().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    pub async fn delete_set(&self, name: &str, params: &DeleteParams) -> Result<()> {
        self.sets().delete(name, params).await?;
        Ok(())
    }

    /// Marks a pod as running and ready since so many seconds ago.
    pub async fn make_ready(&self, name: &str, seconds_ago: i64) -> Result<()> {
        self.patch_pod_status(name, ready_status(seconds_ago)).await.map(drop)
    }

    pub async fn all_pods(&self) -> Result<Vec<Pod>> {
        Ok(self.pods().list(&ListParams::default()).await?.items)
    }

    /// The active pods that a set controls, by name.
    pub async fn active_pods(&self, set: &str) -> Result<Vec<Pod>> {
        let mut pods = self.all_pods().await?;
        pods.retain(|pod| is_active(pod) && controller_of(pod).as_deref() == Some(set));
        pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        Ok(pods)
    }

    /// Waits until the set has exactly so many active pods, and its status says so of this generation.
    pub async fn settled(&self, set: &str, replicas: usize) -> Result<Vec<Pod>> {
        wait::until(&format!("{set} to have {replicas} pods"), PATIENCE, async || {
            let pods = self.active_pods(set).await?;
            ensure!(pods.len() == replicas, "it has {} active pods", pods.len());
            let object = self.sets().get(set).await?;
            let status = object.status.context("it has no status")?;
            ensure!(status.replicas == i32::try_from(replicas)?, "its status says {} replicas", status.replicas);
            ensure!(status.observed_generation == object.metadata.generation, "its status is of another generation");
            Ok(pods)
        })
        .await
    }

    /// Waits until the status of the set `web`, as JSON, satisfies `check`.
    pub async fn status<T>(&self, what: &str, mut check: impl FnMut(&Value) -> Result<T>) -> Result<T> {
        wait::until(what, PATIENCE, async || {
            let object = self.request(Method::GET, "/apis/apps/v1", "replicasets/web", &Value::Null).await?;
            let status = object.get("status").unwrap_or(&Value::Null);
            check(status).with_context(|| format!("status {status}"))
        })
        .await
    }

    /// Waits until an object is gone.
    pub async fn set_gone(&self, set: &str) -> Result<()> {
        let gone = await_condition(self.sets(), set, |set: Option<&ReplicaSet>| set.is_none());
        tokio::time::timeout(PATIENCE, gone).await.with_context(|| format!("{set} is still there"))??;
        Ok(())
    }

    /// How many requests of ours `which` accepts, in this namespace.
    pub fn our_requests(&self, which: impl Fn(&AuditedRequest) -> bool) -> Result<usize> {
        let audit = self.audit.as_ref().context("no audit log was asked for")?;
        audit.count(|request| request.kind.user == SERVICE_ACCOUNT_USER && request.namespace == self.namespace && which(request))
    }

    /// How many requests of ours to pods had that verb and that answer.
    pub fn pod_requests(&self, verb: &str, code: u16) -> Result<usize> {
        self.our_requests(|request| {
            let kind = &request.kind;
            kind.resource == "pods" && kind.verb == verb && kind.code == code
        })
    }
}

/// The Kubernetes release that is tested, 37 for 1.37.
pub fn minor_release() -> u32 {
    let release = std::env::var("K8S_VERSION").unwrap_or_default();
    release.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(37)
}

/// A status of a pod that is running and ready since so many seconds ago.
pub fn ready_status(seconds_ago: i64) -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": ago(seconds_ago)}]})
}

/// The time so many seconds ago, as the API writes it.
pub fn ago(seconds: i64) -> String {
    let at = k8s_openapi::jiff::Timestamp::now() - k8s_openapi::jiff::SignedDuration::from_secs(seconds);
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A ReplicaSet whose selector and template have the label `app`, its own name.
pub fn replica_set(name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec()},
        },
    })
}

pub fn pod_spec() -> Value {
    json!({"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "registry.example/app:1"}]})
}

/// The text at a place of an object.
pub fn text<'a>(object: &'a Value, pointer: &str) -> Result<&'a str> {
    object.pointer(pointer).and_then(Value::as_str).with_context(|| format!("no {pointer} in {object}"))
}

pub fn name_of(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}

pub fn is_active(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Failed" | "Succeeded"))
}

pub fn controller_of(pod: &Pod) -> Option<String> {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.name.clone())
}
