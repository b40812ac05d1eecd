//! A real control plane on loopback: etcd, API servers with TLS and RBAC, and on request upstream's controllers and scheduler.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use e2e::controlplane::{ControlPlane, ControllerManager};
//!
//! let control_plane = ControlPlane::builder().controller_manager(ControllerManager::default()).audit().start().await?;
//! let namespace = control_plane.namespace("rollout").await?;
//! let ours = control_plane.launch().controllers(["replicaset-controller"]).start().await?;
//! # Ok(())
//! # }
//! ```
//!
//! There are two users: an administrator for the test, and the service account that `workloads-controller-manager` runs as, which has only the
//! rights it needs. All processes end when the [`ControlPlane`] is dropped; its folder goes too, unless the test panicked or `WCM_KEEP` is
//! set: then the logs stay.

mod access;
mod audit;
mod binaries;
mod builder;
mod components;
mod credentials;
mod folder;
mod store;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use serde_json::{Value, json};

pub use audit::{AuditLog, AuditedRequest, RequestKind};
pub use binaries::{Binaries, Program, source_folder};
pub use builder::Builder;
pub use components::ControllerManager;
pub(crate) use components::{etcd, gates};
pub use credentials::{ADMIN_USER, SERVICE_ACCOUNT_USER, User};
pub use store::Backup;

use crate::child::Child;
use crate::endpoint::{Endpoint, client};
use crate::process::Launch;
use crate::{Server, ports};
use builder::START;
use credentials::Credentials;
use folder::Folder;

/// A running control plane.
pub struct ControlPlane {
    // Fields are dropped in this order: clients end before their servers, and the folder goes last.
    controller_manager: Option<Server>,
    scheduler: Option<Server>,
    api_servers: Vec<ApiServer>,
    etcd: Child,
    etcd_command: Command,
    admin: Client,
    /// The first API server's.
    kubeconfigs: [PathBuf; 2],
    credentials: Credentials,
    binaries: Binaries,
    audited: bool,
    folder: Folder,
}

/// One API server, running or stopped.
struct ApiServer {
    server: Option<Server>,
    endpoint: Endpoint,
    command: Command,
    admin: Client,
    /// The administrator's and the service account's.
    kubeconfigs: [PathBuf; 2],
    log: PathBuf,
    audit_log: PathBuf,
}

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlPlane").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl ApiServer {
    fn start(n: usize, port: u16, command: Command, audit_log: PathBuf, credentials: &Credentials, folder: &Folder) -> Result<Self> {
        let url = format!("https://127.0.0.1:{port}");
        let token = Some(credentials.token(User::Admin));
        let kubeconfigs = [folder.join(format!("admin-{n}.kubeconfig")), folder.join(format!("service-account-{n}.kubeconfig"))];
        for (user, file) in [User::Admin, User::ServiceAccount].into_iter().zip(&kubeconfigs) {
            credentials.write_kubeconfig(user, &url, file)?;
        }
        let mut this = Self {
            server: None,
            endpoint: Endpoint::new(&url, Some(credentials.ca()), token)?,
            command,
            admin: client(&url, Some(credentials.ca()), token)?,
            kubeconfigs,
            log: folder.join(format!("kube-apiserver-{n}.log")),
            audit_log,
        };
        this.spawn()?;
        Ok(this)
    }

    fn spawn(&mut self) -> Result<()> {
        ensure!(self.server.is_none(), "{} is running", self.endpoint.url());
        let process = Child::spawn("kube-apiserver", &self.command, &self.log)?;
        self.server = Some(Server::new(process, self.endpoint.clone()));
        Ok(())
    }

    async fn ready(&mut self) -> Result<()> {
        self.server.as_mut().context("the API server is stopped")?.ready("/readyz", START).await
    }
}

impl ControlPlane {
    /// What to start.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The administrator's client of the first API server.
    pub fn admin(&self) -> &Client {
        &self.admin
    }

    /// The administrator's client of another API server.
    pub fn admin_of(&self, n: usize) -> Result<&Client> {
        Ok(&self.api_server(n)?.admin)
    }

    /// A client with only the service account's rights.
    pub fn service_account(&self) -> Result<Client> {
        self.service_account_of(0)
    }

    /// A client of another API server with only the service account's rights.
    pub fn service_account_of(&self, n: usize) -> Result<Client> {
        let token = self.credentials.token(User::ServiceAccount);
        client(self.api_server(n)?.endpoint.url(), Some(self.credentials.ca()), Some(token))
    }

    /// The administrator's kubeconfig for the first API server.
    pub fn admin_kubeconfig(&self) -> &Path {
        &self.kubeconfigs[0]
    }

    /// The service account's kubeconfig for the first API server.
    pub fn service_account_kubeconfig(&self) -> &Path {
        &self.kubeconfigs[1]
    }

    /// A user's kubeconfig for any API server.
    pub fn kubeconfig_of(&self, n: usize, user: User) -> Result<&Path> {
        let [admin, service_account] = &self.api_server(n)?.kubeconfigs;
        Ok(match user {
            User::Admin => admin,
            User::ServiceAccount => service_account,
        })
    }

    /// Writes a kubeconfig for one of the users that the builder was told of, for the first API server.
    pub fn write_kubeconfig(&self, user: &str, file: &Path) -> Result<()> {
        self.credentials.write_kubeconfig_of(user, self.api_server(0)?.endpoint.url(), file)
    }

    /// A file of the credentials: `ca.crt`, `ca.key`, `server.crt`, `server.key`.
    pub fn credential(&self, file: &str) -> PathBuf {
        self.credentials.file(file)
    }

    /// The address of an API server, for its metrics and health.
    pub fn api_server_endpoint(&self, n: usize) -> Result<&Endpoint> {
        Ok(&self.api_server(n)?.endpoint)
    }

    /// The folder with logs and kubeconfigs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The programs in use.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// Creates a namespace with a name of its own, so that tests can share a control plane.
    pub async fn namespace(&self, prefix: &str) -> Result<String> {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": format!("{prefix}-")}});
        let made: Value = self.admin.request(access::post("/api/v1/namespaces", &body)?).await.context("create a namespace")?;
        Ok(made.pointer("/metadata/name").and_then(Value::as_str).context("a namespace without a name")?.to_owned())
    }

    /// Runs kubectl as the administrator and returns what it prints.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        let mut command = self.kubectl_command().await?;
        command.args(args);
        let output = tokio::task::spawn_blocking(move || command.output()).await?.context("run kubectl")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {} failed ({}): {}", args.join(" "), output.status, errors.trim_end());
        String::from_utf8(output.stdout).context("what kubectl printed")
    }

    /// A kubectl command for the administrator, still without a verb: for callers that write to it or leave it running.
    pub async fn kubectl_command(&self) -> Result<Command> {
        if self.binaries.path(Program::Kubectl).is_err() {
            let release = self.binaries.release()?.to_owned();
            tokio::task::spawn_blocking(move || Binaries::build(Some(&release), &[Program::Kubectl])).await??;
        }
        let mut command = Command::new(self.binaries.path(Program::Kubectl)?);
        command.arg("--kubeconfig").arg(self.admin_kubeconfig()).arg("--cache-dir").arg(self.folder.join("kubectl-cache"));
        Ok(command)
    }

    /// The requests so far; the builder's `audit` must have been asked for.
    pub fn audit(&self) -> Result<AuditLog> {
        ensure!(self.audited, "the control plane was started without an audit log");
        Ok(AuditLog::new(self.api_servers.iter().map(|server| server.audit_log.clone()).collect()))
    }

    /// Our program, as the service account, with its log in this control plane's folder.
    pub fn launch(&self) -> Launch {
        Launch::new(self.service_account_kubeconfig(), self.folder.new_log("workloads-controller-manager"))
    }

    /// The kube-controller-manager that the builder started.
    pub fn controller_manager(&mut self) -> Result<&mut Server> {
        self.controller_manager.as_mut().context("no kube-controller-manager was asked for")
    }

    /// Runs one more kube-controller-manager, owned by the caller: the reference for ours, or a stage of a handover.
    pub async fn run_controller_manager(&self, options: &ControllerManager) -> Result<Server> {
        let mut server = self.spawn_controller_manager(options)?;
        server.ready("/healthz", START).await?;
        Ok(server)
    }

    /// The same without waiting: for starts that are watched.
    pub fn spawn_controller_manager(&self, options: &ControllerManager) -> Result<Server> {
        let port = ports::free()?;
        let command = options.command(&self.binaries, &self.credentials, self.admin_kubeconfig(), port)?;
        self.spawn("kube-controller-manager", &command, port)
    }

    async fn run_scheduler(&self) -> Result<Server> {
        let port = ports::free()?;
        let command = components::scheduler(&self.binaries, &self.credentials, self.admin_kubeconfig(), port)?;
        let mut server = self.spawn("kube-scheduler", &command, port)?;
        server.ready("/healthz", START).await?;
        Ok(server)
    }

    fn spawn(&self, name: &str, command: &Command, port: u16) -> Result<Server> {
        let process = Child::spawn(name, command, self.folder.new_log(name))?;
        let token = self.credentials.token(User::Admin);
        let endpoint = Endpoint::new(&format!("https://127.0.0.1:{port}"), Some(self.credentials.ca()), Some(token))?;
        Ok(Server::new(process, endpoint))
    }

    async fn await_api_servers(&mut self) -> Result<()> {
        for server in self.api_servers.iter_mut().filter(|server| server.server.is_some()) {
            // Without etcd an API server only complains about etcd.
            self.etcd.ensure_running()?;
            server.ready().await?;
        }
        Ok(())
    }

    fn api_server(&self, n: usize) -> Result<&ApiServer> {
        self.api_servers.get(n).with_context(|| format!("no API server {n}"))
    }

    fn api_server_mut(&mut self, n: usize) -> Result<&mut ApiServer> {
        self.api_servers.get_mut(n).with_context(|| format!("no API server {n}"))
    }

    /// The process of an API server, to freeze it or to look at its use of the machine.
    pub fn api_server_process(&mut self, n: usize) -> Result<&mut Child> {
        Ok(self.api_server_mut(n)?.server.as_mut().context("the API server is stopped")?.process_mut())
    }

    /// etcd's process.
    pub fn etcd_process(&mut self) -> &mut Child {
        &mut self.etcd
    }

    /// Stops an API server in order (SIGTERM): it ends its watches first.
    pub async fn stop_api_server(&mut self, n: usize) -> Result<()> {
        let server = self.api_server_mut(n)?.server.take();
        server.context("the API server is stopped already")?.terminate().await?;
        Ok(())
    }

    /// Kills an API server (SIGKILL).
    pub fn kill9_api_server(&mut self, n: usize) -> Result<()> {
        let server = self.api_server_mut(n)?.server.take();
        server.context("the API server is stopped already")?.kill9()?;
        Ok(())
    }

    /// Starts a stopped API server on its old port and waits until it is ready.
    pub async fn start_api_server(&mut self, n: usize) -> Result<()> {
        let server = self.api_server_mut(n)?;
        server.spawn()?;
        server.ready().await
    }

    /// Stops an API server in order and starts it again.
    pub async fn restart_api_server(&mut self, n: usize) -> Result<()> {
        self.stop_api_server(n).await?;
        self.start_api_server(n).await
    }
}
