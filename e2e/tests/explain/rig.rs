//! What the scenarios share: a control plane with our three controllers at work on it, simulated nodes, and who may ask.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};
use e2e::access::Authority;
use e2e::controlplane::{ControlPlane, ControllerManager};
use e2e::endpoint::Endpoint;
use e2e::{Server, process, wait};
use http::Method;
use nodes::Fleet;
use serde_json::{Value, json};

use crate::support::kubectl::Kubectl;
use crate::support::pods::fleet;
use crate::support::scenarios::Context;
use crate::support::{PATIENCE, Space, pod_spec};

const CONTROLLERS: [&str; 3] = ["deployment-controller", "replicaset-controller", "statefulset-controller"];

/// The annotation that says how a pod behaves on a simulated node.
const BEHAVIOUR: &str = "nodes.wcm.dev/behaviour";

/// What all scenarios share.
pub(crate) struct Cluster {
    // Fields are dropped in this order: clients end before their servers.
    server: Server,
    _fleet: Fleet,
    plane: ControlPlane,
    /// Signs the program's certificate and its clients'.
    authority: Authority,
    master: Endpoint,
    folder: tempfile::TempDir,
}

/// Shortens the scenarios' signatures.
pub(crate) type Shared = Rc<Cluster>;

impl Context for Cluster {
    async fn start() -> Result<Self> {
        process::binary()?;
        let beside = ControllerManager::default().with("resourcequota-controller").unlimited();
        let plane = ControlPlane::builder().controller_manager(beside).start().await?;
        let (authority, folder) = (Authority::create("explaining")?, tempfile::tempdir()?);
        let file = |name: &str| folder.path().join(name);
        authority.server()?.write(folder.path(), "server")?;
        std::fs::write(file("ca.crt"), authority.pem())?;
        let flag = |flag: &str, name: &str| format!("{flag}={}", file(name).display());
        let launch = plane.launch().controllers(CONTROLLERS).rate(1000, 1000);
        let launch = launch.flag(flag("--tls-cert-file", "server.crt")).flag(flag("--tls-private-key-file", "server.key"));
        let server = launch.flag(flag("--client-ca-file", "ca.crt")).spawn()?;
        let identity = authority.client("master", Some("system:masters"))?;
        let master = Endpoint::secure(server.endpoint().url(), &authority.der(), Some(&identity))?;
        wait::until("the program to be ready", PATIENCE, async || master.text("/readyz").await.map(drop)).await?;
        let fleet = fleet(&plane).await?;
        Ok(Self { server, _fleet: fleet, plane, authority, master, folder })
    }

    async fn stop(&mut self) -> Result<()> {
        let status = self.server.terminate().await?;
        ensure!(status.success(), "the program ended with {status}");
        Ok(())
    }
}

impl Kubectl for Cluster {
    fn plane(&self) -> &ControlPlane {
        &self.plane
    }
}

impl Cluster {
    pub(crate) async fn space(&self, prefix: &str) -> Result<Space> {
        Space::new(&self.plane, prefix).await
    }

    /// What is told of an object, `deployments/web`.
    pub(crate) async fn told(&self, space: &Space, object: &str) -> Result<Value> {
        let (resource, name) = object.split_once('/').context("RESOURCE/NAME")?;
        Ok(serde_json::from_str(&self.master.text(&format!("/explain/{resource}/{}/{name}", space.namespace)).await?)?)
    }

    /// Waits until an object waits for these rules and no others, in that order, and nothing is done to it; then what is told.
    pub(crate) async fn waits_for(&self, space: &Space, object: &str, rules: &[&str]) -> Result<Value> {
        let verdict = if rules.is_empty() { "settled" } else { "waits" };
        wait::until(&format!("{object} to wait for {rules:?}"), PATIENCE, async || {
            let told = self.told(space, object).await?;
            let seen: Vec<_> = told["waits"].as_array().into_iter().flatten().filter_map(|wait| wait["rule"].as_str()).collect();
            ensure!(told["verdict"] == verdict && seen == rules && told["queue"]["place"] == "idle", "{told:#}");
            Ok(told)
        })
        .await
    }

    /// A kubeconfig whose user has a client certificate of this group; its own name is its user's.
    pub(crate) fn kubeconfig(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let path = |name: &str| self.folder.path().join(name);
        let file = path(&format!("{user}.kubeconfig"));
        // Somebody may be reading it.
        if file.exists() {
            return Ok(file);
        }
        self.authority.client(user, group)?.write(self.folder.path(), user)?;
        let (certificate, key) = (path(&format!("{user}.crt")), path(&format!("{user}.key")));
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority": path("ca.crt")}}],
            "users": [{"name": "c", "user": {"client-certificate": certificate, "client-key": key}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        });
        std::fs::write(&file, config.to_string())?;
        Ok(file)
    }

    /// `explain` as somebody, with these arguments behind it.
    pub(crate) fn explain(&self, user: &str, group: Option<&str>, args: &[&str]) -> Result<Command> {
        let mut command = Command::new(process::binary()?);
        command.arg("explain").arg("--server").arg(self.server.endpoint().url());
        command.arg("--kubeconfig").arg(self.kubeconfig(user, group)?).args(args);
        Ok(command)
    }

    /// Runs `explain` as somebody who may ask for everything.
    pub(crate) async fn ask(&self, args: &[&str]) -> Result<String> {
        let output = finished(self.explain("asker", Some("system:masters"), args)?).await?;
        ensure!(output.status.success(), "explain {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// Runs a command to its end.
pub(crate) async fn finished(mut command: Command) -> Result<Output> {
    command.stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output()).await?.context("run the program")
}

/// The wait of that rule.
pub(crate) fn wait_of<'a>(told: &'a Value, rule: &str) -> Result<&'a Value> {
    told["waits"].as_array().into_iter().flatten().find(|wait| wait["rule"] == rule).with_context(|| format!("no {rule}: {told:#}"))
}

/// Its numbers, by name.
pub(crate) fn figures(wait: &Value) -> Vec<(&str, i64)> {
    let figures = wait["figures"].as_array().into_iter().flatten();
    figures.filter_map(|figure| Some((figure["name"].as_str()?, figure["value"].as_i64()?))).collect()
}

// === objects ===

/// An object whose selector and template have the label `app`, its own name.
pub(crate) fn object(kind: &str, name: &str, replicas: i32, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec()},
        },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    object
}

/// A template that differs: how its pods behave.
pub(crate) fn behaving(words: &str) -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": {BEHAVIOUR: words}}}}})
}

impl Space {
    pub(crate) async fn make(&self, resource: &str, object: &Value) -> Result<Value> {
        self.apps(Method::POST, resource, object).await
    }

    /// A merge patch of `deployments/web` and the like.
    pub(crate) async fn change(&self, object: &str, patch: &Value) -> Result<Value> {
        self.apps(Method::PATCH, object, patch).await
    }

    pub(crate) async fn read(&self, object: &str) -> Result<Value> {
        self.apps(Method::GET, object, &Value::Null).await
    }
}
