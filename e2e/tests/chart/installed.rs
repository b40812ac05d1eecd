//! The chart's rights on a real API server, and the program with them: as its service account, with the arguments of the chart's pods.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};
use e2e::endpoint::Endpoint;
use e2e::process::Launch;
use e2e::{ControlPlane, Server, wait};
use http::Request;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use serde_json::{Value, json};

use crate::helm::{NAMESPACE, RELEASES, documents, rendered};
use crate::rights::Right;
use crate::support::PATIENCE;

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// An installation: its objects, its account, and how its pods would be started.
pub(crate) struct Installed {
    /// The account, as audit logs name it.
    pub(crate) user: String,
    pub(crate) name: String,
    objects: Vec<Value>,
    kubeconfig: PathBuf,
    arguments: Vec<String>,
}

/// Its processes: those that have ended are started again.
#[derive(Clone)]
pub(crate) struct Running(Rc<RefCell<Vec<(Launch, Server)>>>);

// === impl Installed ===

impl Installed {
    /// Renders the chart under a name of its own, and makes its service account. Nothing is granted yet.
    pub(crate) async fn new(plane: &ControlPlane, name: &str, set: &[&str]) -> Result<Self> {
        let full_name = format!("fullnameOverride={}", json!(name));
        let lease = format!("leaderElection.resourceName={}", json!(name));
        let mut all = vec![full_name.as_str(), &lease, "tests.enabled=false"];
        all.extend(set);
        let objects = documents(&rendered(RELEASES[3], None, &all)?)?;
        let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
        let account = objects.iter().find(|object| object["kind"] == "ServiceAccount").context("no service account")?;
        post(plane, &accounts, account).await?;
        let kubeconfig = kubeconfig(plane, name).await?;
        let daemon_set = objects.iter().find(|object| object["kind"] == "DaemonSet").context("no DaemonSet")?;
        let arguments = daemon_set.pointer("/spec/template/spec/containers/0/args").and_then(Value::as_array).context("no arguments")?;
        let arguments = arguments.iter().filter_map(|argument| Some(argument.as_str()?.to_owned())).collect();
        let user = format!("system:serviceaccount:{NAMESPACE}:{name}");
        Ok(Self { user, name: name.to_owned(), objects, kubeconfig, arguments })
    }

    /// Makes its roles and bindings.
    pub(crate) async fn grant(&self, plane: &ControlPlane) -> Result<()> {
        let is_account = |object: &&Value| object["kind"] == "ServiceAccount";
        apply_rights(plane, self.objects.iter().filter(|object| !is_account(object))).await
    }

    /// What its own roles grant. Each right is granted once: to take one rule away is to take the right away.
    pub(crate) fn rights(&self) -> Result<BTreeSet<Right>> {
        let mut all = BTreeSet::new();
        for role in self.objects.iter().filter(|object| matches!(object["kind"].as_str(), Some("Role" | "ClusterRole"))) {
            for rule in role["rules"].as_array().context("a role without rules")? {
                for right in Right::of_rules(&json!([rule])) {
                    ensure!(all.insert(right.clone()), "{} grants {right} once more", role["metadata"]["name"]);
                }
            }
        }
        Ok(all)
    }

    /// Rules that are for one name or one namespace, where the program knows which.
    pub(crate) fn ensure_narrow(&self) -> Result<()> {
        for role in self.objects.iter().filter(|object| matches!(object["kind"].as_str(), Some("Role" | "ClusterRole"))) {
            for rule in role["rules"].as_array().context("a role without rules")? {
                let about = |resource: &str| rule["resources"].as_array().is_some_and(|all| all.iter().any(|it| it == resource));
                let verbs: Vec<_> = rule["verbs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                let is_narrow = role["kind"] == "Role" && rule["resourceNames"].is_array();
                for resource in ["leases", "configmaps", "serviceaccounts", "serviceaccounts/token"] {
                    // A right to create an object cannot be one for a name.
                    let may_be_any = verbs == ["create"] && resource != "serviceaccounts/token" && role["kind"] == "Role";
                    ensure!(!about(resource) || is_narrow || may_be_any, "{} is too wide: {rule}", role["metadata"]["name"]);
                }
                ensure!(!rule.to_string().contains('*'), "{} has a wildcard: {rule}", role["metadata"]["name"]);
            }
        }
        Ok(())
    }

    /// Waits until whoever holds its lease has renewed it, if there is one: that comes seconds after everything else.
    pub(crate) async fn renewed(&self, plane: &ControlPlane) -> Result<()> {
        if !self.rights()?.iter().any(|right| right.resource == "leases") {
            return Ok(());
        }
        let leases: Api<Lease> = Api::namespaced(plane.admin().clone(), NAMESPACE);
        wait::until("the lease to be renewed", PATIENCE, async || {
            let spec = leases.get(&self.name).await?.spec.context("no spec")?;
            ensure!(spec.renew_time > spec.acquire_time, "{spec:?}");
            Ok(())
        })
        .await
    }

    /// Starts it as often: of several, one works.
    pub(crate) fn start(&self, plane: &ControlPlane, replicas: usize) -> Result<Running> {
        let mut running = Vec::new();
        for _ in 0..replicas {
            let kubeconfig = self.kubeconfig.display();
            let launch = plane.launch().kubeconfig(&self.kubeconfig).leader_elect().rate(1000, 1000);
            // In a pod, its account is who asks about others.
            let launch = launch.flag(format!("--authentication-kubeconfig={kubeconfig}"));
            let launch = launch.flag(format!("--authorization-kubeconfig={kubeconfig}"));
            // Rights that have just been given are not to be waited for, nor whoever was killed.
            let launch = launch.flag("--authorization-webhook-cache-unauthorized-ttl=0s");
            let own = |argument: &&String| !argument.starts_with("--secure-port=") && !argument.starts_with("--bind-address=");
            let launch = self.arguments.iter().filter(own).fold(launch, Launch::flag);
            let server = launch.spawn()?;
            running.push((launch, server));
        }
        Ok(Running(Rc::new(RefCell::new(running))))
    }
}

// === impl Running ===

impl Running {
    /// Starts again what has ended: what is forbidden may be fatal.
    pub(crate) fn keep_up(&self) -> Result<()> {
        for (launch, server) in self.0.borrow_mut().iter_mut() {
            if server.process_mut().exited()?.is_some() {
                *server = launch.spawn()?;
            }
        }
        Ok(())
    }

    /// Somebody with a token reads the metrics of the first.
    pub(crate) async fn read_by(&self, token: &str) -> Result<()> {
        wait::until("the metrics to be read", PATIENCE * 5, async || {
            let url = self.0.borrow().first().map(|(_, server)| server.endpoint().url().to_owned()).context("nobody runs")?;
            Endpoint::new(&url, None, Some(token))?.text("/metrics").await.map(drop)
        })
        .await
    }

    /// Ends all in order.
    pub(crate) async fn stop(self) -> Result<()> {
        for (_, mut server) in self.0.take() {
            let status = server.terminate().await?;
            ensure!(status.success(), "it ended with {status}: {}", server.printed()?);
        }
        Ok(())
    }
}

/// Makes the service accounts, the roles and the bindings among these objects.
pub(crate) async fn apply_rights(plane: &ControlPlane, objects: impl IntoIterator<Item = &Value>) -> Result<()> {
    for object in objects {
        let (group, resource) = match object["kind"].as_str().unwrap_or_default() {
            "ServiceAccount" => ("/api/v1".to_owned(), "serviceaccounts"),
            "ClusterRole" => (format!("/apis/{RBAC}"), "clusterroles"),
            "ClusterRoleBinding" => (format!("/apis/{RBAC}"), "clusterrolebindings"),
            "Role" => (format!("/apis/{RBAC}"), "roles"),
            "RoleBinding" => (format!("/apis/{RBAC}"), "rolebindings"),
            _ => continue,
        };
        let path = match object.pointer("/metadata/namespace").and_then(Value::as_str) {
            Some(namespace) => format!("{group}/namespaces/{namespace}/{resource}"),
            None => format!("{group}/{resource}"),
        };
        post(plane, &path, object).await?;
    }
    Ok(())
}

/// A kubeconfig with a token of a service account.
pub(crate) async fn kubeconfig(plane: &ControlPlane, account: &str) -> Result<PathBuf> {
    let token = token(plane, NAMESPACE, account).await?;
    let file = plane.folder().join(format!("{account}.kubeconfig"));
    let admin = std::fs::read_to_string(plane.admin_kubeconfig())?;
    let mut config: Value = serde_json::from_str(&admin).context("the administrator's kubeconfig")?;
    config["users"][0]["user"] = json!({"token": token});
    std::fs::write(&file, config.to_string())?;
    Ok(file)
}

/// A service account that may read metrics, and its token.
pub(crate) async fn reader(plane: &ControlPlane, namespace: &str) -> Result<String> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}});
    post(plane, &format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account).await?;
    let name = format!("reader-{namespace}");
    let role = json!({
        "apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    });
    post(plane, &format!("/apis/{RBAC}/clusterroles"), &role).await?;
    let subject = json!({"kind": "ServiceAccount", "name": "reader", "namespace": namespace});
    post(plane, &format!("/apis/{RBAC}/clusterrolebindings"), &binding(&name, &subject)).await?;
    token(plane, namespace, "reader").await
}

/// A binding of the cluster role of that name.
pub(crate) fn binding(name: &str, subject: &Value) -> Value {
    json!({
        "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": name}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
    })
}

/// Creates something as the administrator.
pub(crate) async fn post(plane: &ControlPlane, path: &str, body: &Value) -> Result<Value> {
    let request = Request::post(path).header("content-type", "application/json").body(body.to_string().into_bytes())?;
    plane.admin().request(request).await.with_context(|| format!("POST {path}: {body}"))
}

/// Replaces something as the administrator.
pub(crate) async fn put(plane: &ControlPlane, path: &str, body: &Value) -> Result<Value> {
    let request = Request::put(path).header("content-type", "application/json").body(body.to_string().into_bytes())?;
    plane.admin().request(request).await.with_context(|| format!("PUT {path}: {body}"))
}

async fn token(plane: &ControlPlane, namespace: &str, account: &str) -> Result<String> {
    let wanted = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let made = post(plane, &path, &wanted).await?;
    Ok(made.pointer("/status/token").and_then(Value::as_str).context("no token")?.to_owned())
}
