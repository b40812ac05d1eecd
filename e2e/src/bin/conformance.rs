//! Kubernetes' conformance tests of our three kinds, on a real node with our controllers installed by the Helm chart: `make conformance`.
//!
//! `SUBJECT=kube-controller-manager` leaves the controllers there instead. Arguments go to upstream's test program.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::node::{self, CONTROLLERS, Cluster, Image, Programs, TESTS, sandbox};
use serde_json::Value;

/// Which of upstream's tests.
const FOCUS: &str = r"\[sig-apps\] (Deployment|ReplicaSet|StatefulSet) .*\[Conformance\]";

/// How many these are, at least: fewer would mean that they are named differently.
const TESTS_AT_LEAST: u32 = 22;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if sandbox::inside() {
        return runtime.block_on(inside());
    }
    if let Some(reason) = sandbox::refusal()? {
        bail!("{reason}");
    }
    runtime.block_on(async {
        node::build().await?;
        Programs::build_all(&TESTS).await
    })?;
    match sandbox::enter()? {}
}

async fn inside() -> Result<()> {
    let ours = std::env::var_os("SUBJECT").is_none_or(|subject| subject != "kube-controller-manager");
    let programs = Programs::build_all(&TESTS).await?;
    let mut images = images(&programs)?;
    if ours {
        images.push(node::ours()?);
    }
    let cluster = Cluster::start(&images, if ours { &CONTROLLERS } else { &[] }, &[]).await?;
    if ours {
        cluster.install().await?;
    }
    let kubectl = node::build().await?.join("kubectl");
    test(&programs.path("e2e.test")?, cluster.plane().admin_kubeconfig(), &kubectl)
}

/// Stand-ins for upstream's images by their names.
fn images(programs: &Programs) -> Result<Vec<Image>> {
    let listed = Command::new(programs.path("e2e.test")?).arg("--list-images").output().context("run e2e.test --list-images")?;
    let listed = String::from_utf8(listed.stdout).context("what e2e.test printed")?;
    let agnhost = programs.path("agnhost")?;
    let images = listed.lines().filter_map(|name| {
        let (repository, _) = name.rsplit_once(':')?;
        match repository.rsplit_once('/')?.1 {
            // It can do what pause does.
            "agnhost" | "pause" => Some(Image::Agnhost(name.to_owned(), agnhost.clone())),
            "busybox" => Some(Image::Busybox(name.to_owned(), "sh")),
            _ => None,
        }
    });
    let images: Vec<_> = images.collect();
    ensure!(images.len() >= 3, "e2e.test --list-images lists {listed:?}");
    Ok(images)
}

fn test(program: &Path, kubeconfig: &Path, kubectl: &Path) -> Result<()> {
    let report = kubeconfig.with_file_name("conformance.json");
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(kubeconfig).arg("--kubectl-path").arg(kubectl).arg("--provider=skeleton");
    command
        .args(["--ginkgo.focus", FOCUS, "--ginkgo.no-color", "--ginkgo.succinct", "--ginkgo.silence-skips"])
        .arg(format!("--ginkgo.json-report={}", report.display()));
    let status = command.args(std::env::args_os().skip(1)).status().context("run e2e.test")?;
    let (passed, failed) = results(&report)?;
    println!("{passed} passed, {} failed", failed.len());
    ensure!(status.success() && failed.is_empty(), "e2e.test failed ({status}): {failed:#?}");
    ensure!(passed >= TESTS_AT_LEAST, "only {passed} tests ran; there are {TESTS_AT_LEAST}");
    Ok(())
}

/// How many tests passed, and the names of those that failed, from ginkgo's report.
fn results(report: &Path) -> Result<(u32, Vec<String>)> {
    let text = std::fs::read(report).with_context(|| report.display().to_string())?;
    let suites: Value = serde_json::from_slice(&text).context("ginkgo's report")?;
    let (mut passed, mut failed) = (0, Vec::new());
    let specs = suites.as_array().into_iter().flatten().filter_map(|suite| suite["SpecReports"].as_array()).flatten();
    for spec in specs.filter(|spec| spec["LeafNodeType"] == "It") {
        let kind = spec.pointer("/ContainerHierarchyTexts/0").and_then(Value::as_str).unwrap_or_default();
        let name = || format!("{kind} {}", spec["LeafNodeText"].as_str().unwrap_or_default());
        match spec["State"].as_str() {
            Some("passed") => {
                println!("ok      {:6.1} s  {}", spec["RunTime"].as_f64().unwrap_or_default() / 1e9, name());
                passed += 1;
            }
            Some("skipped" | "pending") => {}
            _ => failed.push(name()),
        }
    }
    Ok((passed, failed))
}
