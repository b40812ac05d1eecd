//! What the scenarios share: turns on the machine, kube-controller-manager as an installer runs it, and the commands.

use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::ControllerManager;
use e2e::{ControlPlane, Server, process, wait};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::support::scenarios::Context;
use crate::support::{PATIENCE, Space, pod_spec};

pub(crate) const CONTROLLERS: [&str; 3] = ["deployment-controller", "replicaset-controller", "statefulset-controller"];

/// More control planes at a time would only wait for each other's processor time.
const AT_ONCE: usize = 2;

/// What the scenarios share: turns.
pub(crate) struct Machine(Arc<Semaphore>);

/// Shortens the scenarios' signatures.
pub(crate) type Shared = Rc<Machine>;

impl Context for Machine {
    async fn start() -> Result<Self> {
        process::binary()?;
        Ok(Self(Arc::new(Semaphore::new(AT_ONCE))))
    }

    async fn stop(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Machine {
    pub(crate) async fn turn(&self) -> Result<OwnedSemaphorePermit> {
        Ok(Arc::clone(&self.0).acquire_owned().await?)
    }
}

/// As an installer runs it: under its lease. The times are shorter, but not so short that a busy machine loses it.
pub(crate) fn elected(controllers: ControllerManager) -> ControllerManager {
    ["--leader-elect=true", "--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=1s"]
        .into_iter()
        .fold(controllers.unlimited(), ControllerManager::flag)
}

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs our program as a command, to its end.
pub(crate) async fn command(args: &[&str]) -> Result<Printed> {
    let mut command = Command::new(process::binary()?);
    command.args(args).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await?.context("run the program")?;
    let text = |bytes| String::from_utf8(bytes).context("what was printed");
    Ok(Printed { code: output.status.code(), stdout: text(output.stdout)?, stderr: text(output.stderr)? })
}

/// What a doctor found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) code: Option<i32>,
    pub(crate) report: Value,
}

impl Found {
    /// A check: its finding, and everything else that it says.
    pub(crate) fn check(&self, name: &str) -> Result<(String, String)> {
        let checks = self.report["checks"].as_array().context("no checks")?;
        let check = checks.iter().find(|check| check["name"] == name).with_context(|| format!("no {name} in {:#}", self.report))?;
        Ok((check["finding"].as_str().unwrap_or_default().to_owned(), format!("{} {}", check["summary"], check["details"])))
    }

    pub(crate) fn finding(&self, name: &str) -> Result<String> {
        Ok(self.check(name)?.0)
    }
}

/// Asks the doctor. The port is nobody's business here unless an argument says otherwise.
pub(crate) async fn doctor(kubeconfig: &Path, args: &[&str]) -> Result<Found> {
    let kubeconfig = kubeconfig.display().to_string();
    let mut all = vec!["doctor", "-o", "json", "--secure-port=0", "--kubeconfig", &kubeconfig];
    all.extend(args);
    let printed = command(&all).await?;
    let report = serde_json::from_str(&printed.stdout).with_context(|| format!("{printed:?}"))?;
    Ok(Found { code: printed.code, report })
}

/// Waits until the log of a process says something.
pub(crate) async fn logs(server: &Server, text: &str) -> Result<()> {
    wait::until(&format!("the log to say {text:?}"), PATIENCE, async || {
        let printed = server.printed()?;
        ensure!(printed.contains(text), "{printed}");
        Ok(())
    })
    .await
}

/// An object whose selector and template have the label `app`, its own name.
pub(crate) fn object(kind: &str, name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec()},
        },
    })
}

impl Space {
    /// Waits until all of an object's pods (`deployments/web`) are of its last template, and ready.
    pub(crate) async fn rolled_out(&self, path: &str, replicas: i64) -> Result<()> {
        wait::until(&format!("{path} to have {replicas} new pods that are ready"), PATIENCE, async || {
            let object = self.apps(Method::GET, path, &Value::Null).await?;
            let status = &object["status"];
            ensure!(status["observedGeneration"] == object["metadata"]["generation"], "{status}");
            let counts = ["replicas", "readyReplicas", "updatedReplicas"].map(|field| status[field].as_i64());
            // A ReplicaSet has no templates but one.
            let [all, ready, updated] = counts;
            ensure!(all == Some(replicas) && ready == Some(replicas) && updated.is_none_or(|updated| updated == replicas), "{status}");
            Ok(())
        })
        .await
    }

    pub(crate) async fn patch(&self, path: &str, change: Value) -> Result<Value> {
        self.apps(Method::PATCH, path, &change).await
    }

    pub(crate) async fn resize(&self, path: &str, replicas: i64) -> Result<()> {
        self.patch(path, json!({"spec": {"replicas": replicas}})).await.map(drop)
    }
}

/// The same control plane, seen by the administrator in another namespace.
pub(crate) fn system(space: &Space) -> Space {
    let mut system = space.clone();
    "kube-system".clone_into(&mut system.namespace);
    system
}

/// The control plane's requests of our program, by whoever: those that change something.
pub(crate) fn our_writes(plane: &ControlPlane, but: &str) -> Result<Vec<String>> {
    let requests = plane.audit()?.requests()?;
    let ours = requests.iter().filter(|request| request.user_agent.starts_with("workloads-controller-manager") && request.kind.user != but);
    let writes = ours.filter(|request| !matches!(request.kind.verb.as_str(), "get" | "list" | "watch"));
    Ok(writes.map(|request| format!("{} {}", request.kind, request.uri)).collect())
}
