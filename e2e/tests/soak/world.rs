//! Everything that takes part.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::{ControlPlane, ControllerManager};
use e2e::soak::audit::{self, Write};
use e2e::soak::schedule::NODES;
use e2e::wait;
use http::{Method, Request};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use nodes::{Behaviour, Fleet, FleetOptions, SchedulerOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cache::Cache;
use crate::replicas::Replicas;
use crate::sides::Side;

/// Claims have a finalizer, which it takes away.
const CLAIM_PROTECTION: &str = "persistentvolumeclaim-protection-controller";

/// An audit log is in order a moment after the last answer.
const LOGGED: Duration = Duration::from_secs(30);

/// A control plane with nodes, and two processes of ours on it.
pub(crate) struct World {
    // Fields are dropped in this order: programs end before their servers.
    pub(crate) replicas: Replicas,
    pub(crate) fleet: Fleet,
    pub(crate) side: Side,
    _policy: TempDir,
}

impl World {
    /// Two API servers: the first one never ends, so that nothing which happens is missed; ours are behind both.
    pub(crate) async fn start(seed: u64) -> Result<Self> {
        let policy = tempfile::tempdir()?;
        let file = policy.path().join("audit-policy.yaml");
        std::fs::write(&file, audit::POLICY)?;
        let plane = ControlPlane::builder()
            .api_servers(2)
            .audit()
            .api_server_flag(format!("--audit-policy-file={}", file.display()))
            // In megabytes; a log that is turned over would have to be looked for.
            .api_server_flag("--audit-log-maxsize=100000")
            .controller_manager(ControllerManager::default().with(CLAIM_PROTECTION).unlimited())
            .start()
            .await?;
        let cache = Cache::start(plane.admin()).await?;
        let kubeconfig = Kubeconfig::read_from(plane.admin_kubeconfig())?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let behaviour = Behaviour { stop_after: Duration::from_millis(300), ..Behaviour::default() };
        let options = FleetOptions { count: NODES, behaviour, scheduler: Some(SchedulerOptions::default()), ..FleetOptions::default() };
        let fleet = Fleet::start(&config, options).await?;
        let mut replicas = Replicas::new(seed);
        replicas.keep_up(&plane).await?;
        Ok(Self { replicas, fleet, side: Side { name: "ours", plane, cache }, _policy: policy })
    }

    pub(crate) fn client(&self) -> &Client {
        self.side.plane.admin()
    }

    /// A request of the administrator's. What is not there, or there already, is left so.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: &Value) -> Result<()> {
        ask(self.client(), method, path, body).await
    }

    /// All writes so far, of all API servers, once everything that has been answered is in the logs.
    pub(crate) async fn audited(&self) -> Result<Vec<Write>> {
        // A server logs in the order of its answers: behind a write that is marked nothing is missing.
        let mark = format!("mark-{:08x}", fastrand::u32(..));
        let body = json!({"metadata": {"name": mark}});
        let files: Vec<PathBuf> = self.side.plane.audit()?.files().map(PathBuf::from).collect();
        for n in 0..files.len() {
            let path = "/api/v1/namespaces/default/configmaps";
            ask(self.side.plane.admin_of(n)?, Method::POST, path, &body).await?;
            ask(self.side.plane.admin_of(n)?, Method::DELETE, &format!("{path}/{mark}"), &Value::Null).await?;
        }
        let mut writes = Vec::new();
        for file in files {
            let log = wait::until("the audit log to be complete", LOGGED, async || {
                let log = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
                let tail = log.len().saturating_sub(1 << 16);
                let tail = log.get((tail..=log.len()).find(|at| log.is_char_boundary(*at)).unwrap_or_default()..).unwrap_or_default();
                ensure!(tail.contains(&mark), "{} does not have {mark}", file.display());
                Ok(log)
            })
            .await?;
            writes.extend(audit::parse(&log)?);
        }
        Ok(writes)
    }
}

/// Sends a request. What is not there, or there already, is left so.
pub(crate) async fn ask(client: &Client, method: Method, path: &str, body: &Value) -> Result<()> {
    let content = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method.clone()).uri(path).header("content-type", content).body(body)?;
    match client.request::<Value>(request).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        answer => answer.map(drop).with_context(|| format!("{method} {path}")),
    }
}
