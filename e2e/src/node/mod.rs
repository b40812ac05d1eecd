//! A real one-node cluster on this machine, without Docker: a [control plane](crate::controlplane) with containerd, runc, CNI, kubelet and
//! kube-proxy, all of it in a [`sandbox`].
//!
//! Pods reach each other, services and the API server; there is no DNS, and nothing outside. Images are made from files of this machine
//! (see [`Image`]). Claims are provisioned in a folder of the node.

mod files;
mod images;
mod programs;
pub mod sandbox;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::net::UnixStream;

pub use files::MANIFESTS;
pub use images::{Image, REPOSITORY, ours};
pub use programs::{Programs, TESTS};

use crate::child::Child;
use crate::controlplane::{ControlPlane, ControllerManager, Program};
use crate::{Server, wait};
use sandbox::Sandbox;

/// The controllers that `workloads-controller-manager` stands in for.
pub const CONTROLLERS: [&str; 3] = ["deployment-controller", "replicaset-controller", "statefulset-controller"];

/// The node's name.
pub const NODE: &str = "node1";

/// A loaded machine of two cores makes it within this time; alone it takes ten seconds.
const START: Duration = Duration::from_mins(3);

/// The first address of the range of services: the API server's own.
const API_SERVICE: &str = "10.96.0.1";

/// A running cluster.
pub struct Cluster {
    // Fields are dropped in this order: clients end before their servers.
    controller_manager: Option<Server>,
    proxy: Child,
    kubelet: Child,
    plane: ControlPlane,
    containerd: Child,
    programs: Programs,
    sandbox: Sandbox,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("sandbox", &self.sandbox).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Starts everything in the sandbox that this process is in, and waits until the node is ready. kube-controller-manager runs `without` the
    /// controllers named. The API server knows these `users`, besides the node's own.
    pub async fn start(images: &[Image], without: &[&str], users: &[&str]) -> Result<Self> {
        let sandbox = Sandbox::current()?;
        let programs = Programs::build().await?;
        let (plane, containerd) = tokio::try_join!(control_plane(&sandbox, users), containerd(&sandbox, &programs, images))?;
        let controller_manager = plane.run_controller_manager(&controllers(without)).await.map(Some)?;
        prepare(&plane).await?;
        let kubelet = kubelet(&sandbox, &programs, &plane)?;
        let proxy = proxy(&sandbox, &programs, &plane)?;
        let mut this = Self { controller_manager, proxy, kubelet, plane, containerd, programs, sandbox };
        this.await_node().await?;
        Ok(this)
    }

    /// The control plane.
    pub fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// The sandbox.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Ends kube-controller-manager and runs it `without` other controllers.
    pub async fn restart_controller_manager(&mut self, without: &[&str]) -> Result<()> {
        let mut old = self.controller_manager.take().context("kube-controller-manager is not running")?;
        old.terminate().await?;
        self.controller_manager = Some(self.plane.run_controller_manager(&controllers(without)).await?);
        Ok(())
    }

    /// kube-controller-manager.
    pub fn controller_manager(&mut self) -> Result<&mut Server> {
        self.controller_manager.as_mut().context("kube-controller-manager is not running")
    }

    /// Installs our controllers by the Helm chart, and waits until they are ready.
    pub async fn install(&self) -> Result<()> {
        let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/chart");
        let image = format!("--set=image.repository={REPOSITORY}");
        let arguments = ["install", "workloads-controller-manager", chart, "--namespace=kube-system", &image, "--wait", "--timeout=5m"];
        self.helm(&arguments).await.map(drop)
    }

    /// Runs Helm as the administrator and returns what it prints; none of the machine's own settings has a part in it.
    pub async fn helm(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(self.programs.path("helm")?);
        command.arg("--kubeconfig").arg(self.plane.admin_kubeconfig()).args(arguments);
        for kind in ["DATA", "CONFIG", "CACHE"] {
            command.env(format!("HELM_{kind}_HOME"), self.sandbox.folder().join("tmp/helm"));
        }
        succeeded("helm", command).await
    }

    /// The log of a container, as the node keeps it.
    pub async fn logs(&self, namespace: &str, pod: &str) -> Result<String> {
        self.plane.kubectl(&["logs", "--namespace", namespace, pod, "--all-containers"]).await
    }

    /// An error if anything of the node has ended.
    pub fn ensure_running(&mut self) -> Result<()> {
        self.containerd.ensure_running()?;
        self.kubelet.ensure_running()?;
        self.proxy.ensure_running()
    }

    async fn await_node(&mut self) -> Result<()> {
        let admin = self.plane.admin().clone();
        let path = format!("/api/v1/nodes/{NODE}");
        wait::until("the node to be ready", START, async || {
            self.ensure_running().map_err(wait::give_up)?;
            let node: Value = admin.request(http::Request::get(&path).body(Vec::new())?).await?;
            let conditions = node.pointer("/status/conditions").and_then(Value::as_array).context("no conditions")?;
            let ready = conditions.iter().find(|condition| condition["type"] == "Ready").context("no condition Ready")?;
            ensure!(ready["status"] == "True", "{ready}");
            Ok(())
        })
        .await?;
        // kubelet may not say this of itself.
        let label = json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}});
        let request = http::Request::patch(&path).header("content-type", "application/merge-patch+json");
        self.plane.admin().request::<Value>(request.body(label.to_string().into_bytes())?).await.context("label the node")?;
        Ok(())
    }
}

/// All of kube-controller-manager's controllers without these.
fn controllers(without: &[&str]) -> ControllerManager {
    let mut controllers = vec!["*".to_owned()];
    controllers.extend(without.iter().map(|controller| format!("-{controller}")));
    ControllerManager::only(controllers).flag("--enable-hostpath-provisioner=true")
}

async fn control_plane(sandbox: &Sandbox, users: &[&str]) -> Result<ControlPlane> {
    let address = sandbox.address();
    let builder = ControlPlane::builder().scheduler().ungranted().service_account_admission().admission_plugin("NodeRestriction");
    let builder = [address, API_SERVICE.parse::<IpAddr>()?].into_iter().fold(builder, crate::controlplane::Builder::address);
    let builder = users.iter().fold(builder, |builder, user| builder.user(user, ""));
    builder
        .user("system:node:node1", "system:nodes")
        .user("system:kube-proxy", "")
        // Pods come from other addresses than loopback's.
        .api_server_flag("--bind-address=0.0.0.0")
        .api_server_flag(format!("--advertise-address={address}"))
        .api_server_flag("--endpoint-reconciler-type=lease")
        .api_server_flag("--service-cluster-ip-range=10.96.0.0/16")
        // Beside RBAC.
        .api_server_flag("--authorization-mode=Node")
        .api_server_flag("--allow-privileged=true")
        // Nobody knows the node's name.
        .api_server_flag("--kubelet-preferred-address-types=InternalIP")
        .start()
        .await
}

/// What a cluster has that no program makes by itself.
async fn prepare(plane: &ControlPlane) -> Result<()> {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "kubernetes.io/host-path",
        "metadata": {"name": "hostpath", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    });
    let request = http::Request::post("/apis/storage.k8s.io/v1/storageclasses").header("content-type", "application/json");
    plane.admin().request::<Value>(request.body(class.to_string().into_bytes())?).await.context("create the storage class")?;
    Ok(())
}

/// Starts containerd and gives it the images.
async fn containerd(sandbox: &Sandbox, programs: &Programs, images: &[Image]) -> Result<Child> {
    let config = sandbox.folder().join("containerd.toml");
    std::fs::write(&config, files::containerd()?)?;
    let networks = Path::new(files::NETWORKS);
    std::fs::create_dir_all(networks)?;
    std::fs::write(networks.join("10-node.conflist"), files::network().to_string())?;
    let mut command = Command::new(programs.path("containerd")?);
    // It starts its shims by name.
    command.arg("--config").arg(&config).env("PATH", programs.search_path()?);
    let mut containerd = Child::spawn("containerd", &command, sandbox.log("containerd"))?;
    let archive = images::archive(sandbox, images);
    let (archive, ()) = tokio::try_join!(archive, async {
        wait::until("containerd's socket", START, async || {
            containerd.ensure_running().map_err(wait::give_up)?;
            UnixStream::connect(files::SOCKET).await.map(drop).context(files::SOCKET)
        })
        .await
    })?;
    for archive in archive {
        let mut import = Command::new(programs.path("ctr")?);
        import.args(["--address", files::SOCKET, "--namespace", "k8s.io", "images", "import"]).arg(&archive);
        succeeded("ctr", import).await.with_context(|| format!("import {}", archive.display()))?;
    }
    Ok(containerd)
}

fn kubelet(sandbox: &Sandbox, programs: &Programs, plane: &ControlPlane) -> Result<Child> {
    let kubeconfig = sandbox.folder().join("kubelet.kubeconfig");
    plane.write_kubeconfig("system:node:node1", &kubeconfig)?;
    // An empty one: there is no DNS.
    std::fs::write(files::RESOLV_CONF, "")?;
    std::fs::create_dir_all(MANIFESTS)?;
    let config = sandbox.folder().join("kubelet.json");
    std::fs::write(&config, files::kubelet(sandbox.cgroup()).to_string())?;
    let mut command = Command::new(programs.path("kubelet")?);
    command.arg("--kubeconfig").arg(kubeconfig).arg("--config").arg(config);
    command.arg(format!("--node-ip={}", sandbox.address())).arg(format!("--hostname-override={NODE}"));
    Child::spawn("kubelet", &command, sandbox.log("kubelet"))
}

fn proxy(sandbox: &Sandbox, programs: &Programs, plane: &ControlPlane) -> Result<Child> {
    let kubeconfig = sandbox.folder().join("kube-proxy.kubeconfig");
    plane.write_kubeconfig("system:kube-proxy", &kubeconfig)?;
    let config = sandbox.folder().join("kube-proxy.json");
    std::fs::write(&config, files::proxy(&kubeconfig, sandbox.address()).to_string())?;
    let mut command = Command::new(programs.path("kube-proxy")?);
    command.arg("--config").arg(config).arg(format!("--hostname-override={NODE}"));
    Child::spawn("kube-proxy", &command, sandbox.log("kube-proxy"))
}

/// Runs a command to its end and returns what it printed.
async fn succeeded(name: &str, mut command: Command) -> Result<String> {
    let run = tokio::task::spawn_blocking(move || command.output().map(|output| (command, output)));
    let (command, Output { status, stdout, stderr }) = run.await?.with_context(|| format!("run {name}"))?;
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    ensure!(status.success(), "{name} {} failed ({status}): {stdout}{}", arguments.join(" "), stderr.trim_end());
    Ok(stdout.into_owned())
}

/// Builds what a cluster needs, the control plane's programs included: inside of a sandbox nothing can be downloaded.
pub async fn build() -> Result<PathBuf> {
    Programs::build().await?;
    let binaries = tokio::task::spawn_blocking(|| crate::controlplane::Binaries::build(None, &Program::ALL)).await??;
    Ok(binaries.folder().to_owned())
}
