//! Rights that a test adds to those of the program, and tokens of others.

use anyhow::Result;
use http::Method;
use serde_json::{Value, json};

use super::Space;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const PROGRAM: &str = "workloads-controller-manager";

/// The name that a controller writes in with `--use-service-account-credentials`.
pub fn account_of(controller: &str) -> String {
    format!("system:serviceaccount:kube-system:{controller}-controller")
}

impl Space {
    /// The namespace of the control plane itself.
    pub fn system(&self) -> Self {
        Self { namespace: "kube-system".to_owned(), ..self.clone() }
    }

    /// Lets the program ask for tokens of the controllers' service accounts.
    pub async fn let_program_ask_for_tokens(&self) -> Result<()> {
        let name = format!("{PROGRAM}:tokens");
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": ["serviceaccounts", "serviceaccounts/token"], "verbs": ["create"]}],
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": PROGRAM, "namespace": "kube-system"}],
        });
        let system = self.system();
        system.request(Method::POST, RBAC, "roles", &role).await?;
        system.request(Method::POST, RBAC, "rolebindings", &binding).await.map(drop)
    }

    /// A token of a service account of this namespace, as the request's `spec` wants it.
    pub async fn token_of(&self, account: &str, spec: &Value) -> Result<String> {
        let wanted = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        let made = self.request(Method::POST, "/api/v1", &format!("serviceaccounts/{account}/token"), &wanted).await?;
        super::text(&made, "/status/token").map(str::to_owned)
    }
}
