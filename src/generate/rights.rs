//! The rights that the user of kubeadm's `controller-manager.conf` lacks.
//!
//! It may list and watch everything, tell events, review clients, make service accounts and their tokens, and read and write the leases of
//! `kube-system` (`plugin/pkg/auth/authorizer/rbac/bootstrappolicy`: the role `system:kube-controller-manager` in `policy.go`, and
//! `system::leader-locking-kube-controller-manager` in `namespace_policy.go`).

use serde_json::{Value, json};

use crate::options::{ControllerName, Mode, Options};

/// kubeadm's user.
const USER: &str = "system:kube-controller-manager";
const GROUP: &str = "rbac.authorization.k8s.io";
/// Where it has its rights to leases.
const GRANTED: &str = "kube-system";
const NAME: &str = "workloads-controller-manager";

/// The objects that give it what the program, started with these options, needs besides; none if it needs nothing.
pub(super) fn objects(options: &Options, controllers: &[ControllerName]) -> Vec<Value> {
    if options.mode.mode == Mode::Observe {
        // Decisions read some objects live.
        let resources = ["controllerrevisions", "deployments", "replicasets", "statefulsets"];
        let rules = json!([
            {"apiGroups": ["apps"], "resources": resources, "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get"]},
        ]);
        let name = format!("{NAME}:observe");
        return vec![role("ClusterRole", &name, None, &rules), binding(&name, "ClusterRole", &name, None)];
    }
    let mut objects = Vec::new();
    if let Some((namespace, lease)) = options.leader_election.lease().filter(|(namespace, _)| namespace != GRANTED) {
        let rules = json!([
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [lease], "verbs": ["get", "update"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        ]);
        let name = format!("{NAME}:leader-election");
        objects.push(role("Role", &name, Some(&namespace), &rules));
        objects.push(binding(&name, "Role", &name, Some(&namespace)));
    }
    if !options.connection.use_service_account_credentials {
        for controller in controllers {
            let role = format!("system:controller:{}", controller.as_str());
            objects.push(binding(&format!("{NAME}:{}", controller.as_str()), "ClusterRole", &role, None));
        }
    }
    objects
}

fn role(kind: &str, name: &str, namespace: Option<&str>, rules: &Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": metadata(name, namespace), "rules": rules})
}

fn binding(name: &str, kind: &str, role: &str, namespace: Option<&str>) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": if namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" },
        "metadata": metadata(name, namespace),
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [{"kind": "User", "name": USER, "apiGroup": GROUP}],
    })
}

fn metadata(name: &str, namespace: Option<&str>) -> Value {
    match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace}),
        None => json!({"name": name}),
    }
}
