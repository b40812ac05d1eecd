//! A real API server takes what the chart makes, without making it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use e2e::{ControlPlane, wait};
use serde_json::{Value, json};

use crate::helm::{RELEASES, documents, modes, rendered};
use crate::installed::post;
use crate::rig::Shared;
use crate::support::PATIENCE;

/// Prometheus' operator, whose module has the definitions of its resources; and the module's checksum, as go.sum has it.
const OPERATOR: [&str; 2] =
    ["github.com/prometheus-operator/prometheus-operator@v0.85.0", "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="];

pub(crate) async fn the_api_server_takes_every_mode(world: Shared) -> Result<()> {
    let plane = world.turn().await;
    define_monitors(&plane).await?;
    for namespace in ["monitoring"] {
        namespace_of(&plane, namespace, "privileged").await?;
    }
    for (mode, values) in modes()? {
        let manifests = rendered(RELEASES[3], Some(&values), &[])?;
        apply(&plane, &["--dry-run=server"], &manifests).await.with_context(|| mode)?;
    }
    Ok(())
}

/// Pods are as restricted as the standard of that name wants, but for the host's network.
pub(crate) async fn pods_are_restricted(world: Shared) -> Result<()> {
    let plane = world.turn().await;
    let namespace = "restricted";
    namespace_of(&plane, namespace, "restricted").await?;
    for (mode, values) in modes()? {
        for object in documents(&rendered(RELEASES[3], Some(&values), &[])?)? {
            let pod = match object["kind"].as_str().unwrap_or_default() {
                "DaemonSet" | "Deployment" => &object["spec"]["template"],
                "Pod" => &object,
                _ => continue,
            };
            let on_host = pod["spec"]["hostNetwork"] == true;
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "labels": pod["metadata"]["labels"]}, "spec": pod["spec"],
            });
            let answer = post(&plane, &format!("/api/v1/namespaces/{namespace}/pods?dryRun=All"), &pod).await;
            match answer {
                Ok(_) => ensure!(!on_host, "{mode}: the host's network should be noticed"),
                Err(error) => {
                    let said = format!("{:#}", error.root_cause());
                    let violations = said.split_once("violates PodSecurity").with_context(|| format!("{mode}: {said}"))?.1;
                    let others = ["allowPrivilegeEscalation", "capabilities", "runAsNonRoot", "seccompProfile", "Volume", "runAsUser"];
                    let other = others.iter().find(|other| violations.contains(**other));
                    ensure!(on_host && other.is_none(), "{mode}: {said}");
                }
            }
        }
    }
    Ok(())
}

async fn namespace_of(plane: &ControlPlane, name: &str, standard: &str) -> Result<()> {
    let labels = json!({"pod-security.kubernetes.io/enforce": standard});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    post(plane, "/api/v1/namespaces", &namespace).await.map(drop)
}

/// The resources of Prometheus' operator.
async fn define_monitors(plane: &ControlPlane) -> Result<()> {
    let [module, sum] = OPERATOR;
    let mut download = Command::new("go");
    download.args(["mod", "download", "-json", module]).env("GOFLAGS", "-mod=mod").current_dir(e2e::controlplane::source_folder());
    let output = tokio::task::spawn_blocking(move || download.output()).await?.context("run go")?;
    let told: Value = serde_json::from_slice(&output.stdout).with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    ensure!(told["Sum"] == sum, "{module}: {told}");
    let folder = told["Dir"].as_str().context("a folder")?;
    for kind in ["servicemonitors", "podmonitors", "prometheusrules"] {
        let file = format!("{folder}/example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml");
        apply(plane, &[], &std::fs::read_to_string(&file).with_context(|| file)?).await?;
        wait::until(&format!("{kind} to be served"), PATIENCE, async || {
            plane.kubectl(&["get", &format!("{kind}.monitoring.coreos.com"), "--all-namespaces"]).await.map(drop)
        })
        .await?;
    }
    Ok(())
}

/// `kubectl apply --server-side`.
async fn apply(plane: &ControlPlane, flags: &[&str], manifests: &str) -> Result<()> {
    let mut command = plane.kubectl_command().await?;
    command.args(["apply", "--server-side", "--filename=-"]).args(flags);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let manifests = manifests.to_owned();
    let run = move || -> Result<_> {
        let mut child = command.spawn().context("start kubectl")?;
        child.stdin.take().context("no standard input")?.write_all(manifests.as_bytes())?;
        child.wait_with_output().context("run kubectl")
    };
    let output = tokio::task::spawn_blocking(run).await??;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
