//! What the service account of `workloads-controller-manager` may do.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::wait;

const NAME: &str = "workloads-controller-manager";
const NAMESPACE: &str = "kube-system";

/// The rules of the cluster role: nothing beyond these may be needed.
fn rules() -> Value {
    json!([
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch", "update"]},
        {"apiGroups": ["apps"], "resources": ["deployments/status", "deployments/finalizers"], "verbs": ["update"]},
        {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]},
        {"apiGroups": ["apps"], "resources": ["replicasets/status", "replicasets/finalizers"], "verbs": ["update"]},
        {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["apps"], "resources": ["statefulsets/status", "statefulsets/finalizers"], "verbs": ["update"]},
        {"apiGroups": ["apps"], "resources": ["controllerrevisions"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get", "list", "watch", "create", "update"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "watch", "create", "update"]},
    ])
}

/// Makes what the API server makes only some time after it says that it is ready. `admin` is any API server's.
pub(super) async fn system_namespaces(admin: &Client) -> Result<()> {
    for namespace in [NAMESPACE, "default"] {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        create(admin, "/api/v1/namespaces", &body).await?;
    }
    Ok(())
}

/// Makes the service account with its role. `admin` is any API server's.
pub(super) async fn grant(admin: &Client) -> Result<()> {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": NAME}, "rules": rules()});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
    });
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}});
    create(admin, &format!("{rbac}/clusterroles"), &role).await?;
    create(admin, &format!("{rbac}/clusterrolebindings"), &binding).await?;
    create(admin, &format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"), &account).await
}

/// Waits until an API server's authorizer has seen the role and its binding. `client` is the service account's.
pub(super) async fn granted(client: &Client) -> Result<()> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "default"}},
    });
    wait::until("the service account's rights", Duration::from_secs(20), async || {
        let answer: Value = client.request(post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review)?).await?;
        ensure!(answer.pointer("/status/allowed") == Some(&Value::Bool(true)), "{}", answer.pointer("/status").unwrap_or(&answer));
        Ok(())
    })
    .await
}

/// A POST of `body`.
pub(super) fn post(path: &str, body: &Value) -> Result<Request<Vec<u8>>> {
    let request = Request::post(path).header(http::header::CONTENT_TYPE, "application/json");
    request.body(body.to_string().into_bytes()).with_context(|| format!("POST {path}"))
}

/// Creates an object, or leaves the one that is there.
async fn create(client: &Client, path: &str, body: &Value) -> Result<()> {
    match client.request::<Value>(post(path, body)?).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        answer => answer.map(drop).with_context(|| format!("create {body}")),
    }
}
