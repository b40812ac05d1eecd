//! What `helm test` runs, with the rights that the chart gives it.

use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::ControllerManager;
use e2e::{ControlPlane, process};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::helm::{RELEASES, documents, rendered};
use crate::installed::{Installed, apply_rights, kubeconfig};
use crate::rig::Shared;

pub(crate) async fn verify_tells_whether_the_controllers_work_and_whose_they_are(world: Shared) -> Result<()> {
    let plane = world.turn().await;
    let (objects, pod) = test(&[])?;
    let account = pod.pointer("/spec/serviceAccountName").and_then(Value::as_str).context("no account")?;
    let is_its = |object: &Value| object.pointer("/metadata/name").and_then(Value::as_str) == Some(account);
    let its: Vec<_> = objects.iter().filter(|object| is_its(object)).cloned().collect();
    apply_rights(&plane, &its).await?;
    let kubeconfig = kubeconfig(&plane, account).await?;
    let run = async |timeout: &str, pod: &Value| -> Result<Output> {
        let arguments = pod.pointer("/spec/containers/0/args").and_then(Value::as_array).context("no arguments")?;
        let arguments: Vec<_> = arguments.iter().filter_map(Value::as_str).collect();
        let mut command = Command::new(process::binary()?);
        let end = arguments.iter().position(|argument| *argument == "--").context("what the pods run")?;
        command.args(&arguments[..end]).arg(format!("--timeout={timeout}")).arg("--kubeconfig").arg(&kubeconfig).args(&arguments[end..]);
        Ok(tokio::task::spawn_blocking(move || command.output()).await??)
    };
    // The last of two values of a flag wins.
    says(&run("1s", &pod).await?, false, "no controller has seen it yet")?;

    let ours = Installed::new(&plane, "verified", &[]).await?;
    ours.grant(&plane).await?;
    let running = ours.start(&plane, 1)?;
    says(&run("5m", &pod).await?, true, "The controllers work.")?;
    running.stop().await?;

    let names = ["deployment-controller", "replicaset-controller", "statefulset-controller"];
    let mut theirs = plane.run_controller_manager(&ControllerManager::only(names).unlimited()).await?;
    says(&run("5m", &pod).await?, false, "written by kube-controller-manager")?;
    theirs.kill9()?;

    // What is left to others is nobody's business here.
    let mut theirs = plane.run_controller_manager(&ControllerManager::only(names[..2].iter().copied()).unlimited()).await?;
    let set = [r#"controllers=["statefulset-controller"]"#];
    let ours = Installed::new(&plane, "verified-sets", &set).await?;
    ours.grant(&plane).await?;
    let running = ours.start(&plane, 1)?;
    says(&run("5m", &test(&set)?.1).await?, true, "The controllers work.")?;
    running.stop().await?;
    theirs.kill9()?;
    ensure_cleaned_up(&plane).await
}

/// All objects of a rendering, and the pod that `helm test` runs.
fn test(set: &[&str]) -> Result<(Vec<Value>, Value)> {
    let objects = documents(&rendered(RELEASES[3], None, set)?)?;
    let pod = objects.iter().find(|object| object["kind"] == "Pod").context("no test")?.clone();
    Ok((objects, pod))
}

pub(crate) async fn what_its_pods_run_waits_for_its_end(_: Shared) -> Result<()> {
    let mut child = Command::new(process::binary()?).arg("pause").spawn()?;
    let pid = Pid::from_child(&child);
    let ended = tokio::task::spawn_blocking(move || child.wait());
    e2e::wait::until("pause to listen", crate::support::PATIENCE, async || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()))?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).context("no SigCgt")?;
        // Bit 14 is signal 15, SIGTERM.
        ensure!(u64::from_str_radix(caught.trim(), 16)? >> 14 & 1 == 1, "it does not");
        Ok(())
    })
    .await?;
    kill_process(pid, Signal::TERM)?;
    let status = ended.await??;
    ensure!(status.success(), "{status}");
    Ok(())
}

fn says(output: &Output, success: bool, what: &str) -> Result<()> {
    let text = String::from_utf8_lossy(if success { &output.stdout } else { &output.stderr });
    let all = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success() == success && text.contains(what), "{} should say {what:?}: {all}", output.status);
    Ok(())
}

async fn ensure_cleaned_up(plane: &ControlPlane) -> Result<()> {
    let left = plane.kubectl(&["get", "deployments,replicasets,statefulsets", "--namespace=kube-system", "--output=name"]).await?;
    ensure!(!left.contains("verify"), "{left}");
    Ok(())
}
