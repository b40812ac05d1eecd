//! The program as a static pod, as kubeadm runs kube-controller-manager.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::node::{Cluster, MANIFESTS, NODE};
use e2e::{process, wait};
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;

use crate::rig::NAMESPACE;
use crate::support::PATIENCE;

/// kubeadm's user.
pub(crate) const USER: &str = "system:kube-controller-manager";

/// Puts the manifest in place, with that user's kubeconfig.
pub(crate) fn start(cluster: &Cluster) -> Result<()> {
    let folder = cluster.sandbox().folder().join("kubernetes");
    std::fs::create_dir_all(&folder)?;
    let kubeconfig = folder.join("controller-manager.conf");
    cluster.plane().write_kubeconfig(USER, &kubeconfig)?;
    let files =
        [format!("--kubeconfig={}", kubeconfig.display()), format!("--host-path={}", cluster.plane().credential("ca.crt").display())];
    let lacking = generate(files.iter().map(String::as_str).chain(["--print-rbac"]))?;
    ensure!(lacking.starts_with("# The user has every right"), "{lacking}");
    std::fs::write(manifest(), generate(files.iter().map(String::as_str))?).context("write the manifest")
}

/// Waits until the kubelet shows the pod, and that it is ready.
pub(crate) async fn ready(cluster: &Cluster) -> Result<()> {
    wait::until("the static pod to be ready", PATIENCE, async || {
        let status = pod(cluster).await?.context("no pod")?.status.context("no status")?;
        let conditions = status.conditions.unwrap_or_default();
        ensure!(conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"), "{conditions:?}");
        Ok(())
    })
    .await
}

/// Takes the manifest away again, and waits for the end of the pod.
pub(crate) async fn end(cluster: &Cluster) -> Result<()> {
    std::fs::remove_file(manifest())?;
    wait::until("the end of the static pod", PATIENCE, async || {
        ensure!(pod(cluster).await?.is_none(), "it is there");
        Ok(())
    })
    .await
}

async fn pod(cluster: &Cluster) -> Result<Option<Pod>> {
    let pods: Api<Pod> = Api::namespaced(cluster.plane().admin().clone(), NAMESPACE);
    Ok(pods.get_opt(&format!("workloads-controller-manager-{NODE}")).await?)
}

fn manifest() -> std::path::PathBuf {
    Path::new(MANIFESTS).join("workloads-controller-manager.yaml")
}

fn generate<'a>(flags: impl Iterator<Item = &'a str>) -> Result<String> {
    let output = Command::new(process::binary()?).args(["generate", "static-pod"]).args(flags).output()?;
    ensure!(output.status.success(), "generate: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
