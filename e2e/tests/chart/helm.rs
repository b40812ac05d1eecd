//! Helm, and what it makes of the chart.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, anyhow, ensure};
use e2e::controlplane::source_folder;
use serde_json::Value;

/// The Kubernetes releases that the chart is for.
pub(crate) const RELEASES: [&str; 4] = ["1.34.4", "1.35.4", "1.36.3", "1.37.2"];

/// Where the tests install it.
pub(crate) const NAMESPACE: &str = "kube-system";

/// The name of the release that is rendered.
pub(crate) const RELEASE: &str = "wcm";

/// What a run of Helm printed.
pub(crate) struct Printed {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The folder of the chart.
pub(crate) fn chart() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/chart"))
}

/// The values files of the modes, by name.
pub(crate) fn modes() -> Result<Vec<(String, PathBuf)>> {
    let mut modes = Vec::new();
    for entry in std::fs::read_dir(chart().join("ci"))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix("-values.yaml")).context("ci/NAME-values.yaml")?;
        modes.push((name.to_owned(), path));
    }
    modes.sort();
    ensure!(!modes.is_empty(), "no values files");
    Ok(modes)
}

/// Runs Helm, well or not. Nothing of the machine's own settings has a part in it.
pub(crate) fn helm(arguments: &[&str]) -> Result<Printed> {
    let home = tempfile::tempdir()?;
    let mut command = Command::new(program()?);
    command.args(arguments).env("HELM_DATA_HOME", home.path()).env("HELM_CONFIG_HOME", home.path()).env("HELM_CACHE_HOME", home.path());
    let output = command.env_remove("KUBECONFIG").output().context("run helm")?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).context("what helm printed");
    Ok(Printed { success: output.status.success(), stdout: text(output.stdout)?, stderr: text(output.stderr)? })
}

/// The manifests of the chart with these values, `key=value` as JSON, over those of a file.
pub(crate) fn rendered(kubernetes: &str, values: Option<&Path>, set: &[&str]) -> Result<String> {
    let printed = try_rendered(kubernetes, values, set)?;
    ensure!(printed.success, "helm template {values:?} {set:?}: {}", printed.stderr);
    Ok(printed.stdout)
}

/// The same, well or not.
pub(crate) fn try_rendered(kubernetes: &str, values: Option<&Path>, set: &[&str]) -> Result<Printed> {
    let chart = chart().display().to_string();
    let mut arguments = vec!["template", RELEASE, &chart, "--namespace", NAMESPACE, "--kube-version", kubernetes];
    let values = values.map(|path| path.display().to_string());
    arguments.extend(values.iter().flat_map(|values| ["--values", values.as_str()]));
    arguments.extend(set.iter().flat_map(|set| ["--set-json", *set]));
    helm(&arguments)
}

/// The documents of a YAML text.
pub(crate) fn documents(yaml: &str) -> Result<Vec<Value>> {
    let all: Vec<Value> = serde_saphyr::from_multiple(yaml).map_err(|error| anyhow!("{error}"))?;
    Ok(all.into_iter().filter(|document| !document.is_null()).collect())
}

/// Built from its module, if it is not there yet.
fn program() -> Result<&'static Path> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let build = || -> Result<PathBuf> {
        let output = Command::new(source_folder().join("build.sh")).arg("helm").stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "build.sh helm failed ({}); see its messages above", output.status);
        Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()).join("helm"))
    };
    PROGRAM.get_or_init(|| build().map_err(|error| format!("{error:#}"))).as_deref().map_err(|error| anyhow!("{error}"))
}
