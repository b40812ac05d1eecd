//! What the chart makes of its values, without a cluster.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::process;
use serde_json::Value;

use crate::helm::{NAMESPACE, RELEASES, chart, documents, helm, modes, rendered, try_rendered};
use crate::rig::Shared;

/// Values that the schema refuses: what is set, and what is said about it.
const REFUSED: &[(&str, &str)] = &[
    ("replicas=3", "additional properties 'replicas' not allowed"),
    (r#"workload.kind="StatefulSet""#, "at '/workload/kind': value must be one of 'DaemonSet', 'Deployment', 'External'"),
    ("workload.replicas=0", "at '/workload/replicas': minimum: got 0, want 1"),
    (r#"workload.maxUnavailable="half""#, "at '/workload/maxUnavailable'"),
    (r#"workload.nodes="all""#, "at '/workload': additional properties 'nodes' not allowed"),
    (r#"mode="dry-run""#, "at '/mode': value must be one of 'active', 'observe'"),
    ("controllers=[]", "at '/controllers': minItems: got 0, want 1"),
    (r#"controllers=["*"]"#, "at '/controllers/0': value must be one of 'deployment-controller'"),
    (r#"controllers=["deployment-controller","deployment-controller"]"#, "at '/controllers': items at 0 and 1 are equal"),
    (r#"featureGates={"MaxUnavailableStatefulSet":"yes"}"#, "at '/featureGates/MaxUnavailableStatefulSet': got string, want boolean"),
    (r#"image.tag="one two""#, "at '/image/tag': 'one two' does not match pattern"),
    (r#"image.digest="sha256:abc""#, "at '/image/digest': 'sha256:abc' does not match pattern"),
    (r#"image.pullPolicy="Sometimes""#, "at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'"),
    (r#"image.pullSecrets=["a"]"#, "at '/image/pullSecrets/0': got string, want object"),
    (r#"leaderElection.leaseDuration="15""#, "at '/leaderElection/leaseDuration': '15' does not match pattern"),
    ("leaderElection.retryPeriod=2", "at '/leaderElection/retryPeriod': got number, want string"),
    (r#"logging.format="xml""#, "at '/logging/format': value must be one of 'text', 'json'"),
    (r#"extraArgs=["-v"]"#, "at '/extraArgs/0': '-v' does not match pattern"),
    (r#"extraArgs="--v=2""#, "at '/extraArgs': got string, want array"),
    (r#"apiServer.host="https://api:6443""#, "at '/apiServer/host': 'https://api:6443' does not match pattern"),
    (r#"apiServer.port="6443""#, "at '/apiServer/port': got string, want integer"),
    ("port=443", "at '/port': minimum: got 443, want 1,024"),
    (r#"bindAddress="localhost""#, "at '/bindAddress': 'localhost' does not match pattern"),
    (r#"hostNetwork="yes""#, "at '/hostNetwork': got string, want null or boolean"),
    (r#"rbac.mode="none""#, "at '/rbac/mode': value must be one of 'builtin', 'explicit'"),
    (
        r#"rbac.subjects=[{"kind":"Robot","name":"a"}]"#,
        "at '/rbac/subjects/0/kind': value must be one of 'User', 'Group', 'ServiceAccount'",
    ),
    (r#"resources.cpu="1""#, "at '/resources': additional properties 'cpu' not allowed"),
    ("livenessProbe.httpGet={}", "at '/livenessProbe': additional properties 'httpGet' not allowed"),
    (r#"tolerations="all""#, "at '/tolerations': got string, want null or array"),
    (r#"serviceMonitor.interval="often""#, "at '/serviceMonitor/interval': 'often' does not match pattern"),
    ("podDisruptionBudget.minAvailable=1", "at '/podDisruptionBudget': additional properties 'minAvailable' not allowed"),
    (r#"commonLabels={"a":1}"#, "at '/commonLabels/a': got number, want string"),
    (r#"tests.timeout="soon""#, "at '/tests/timeout': 'soon' does not match pattern"),
    // What no schema can say.
    (r#"workload.kind="Deployment""#, "workload.kind=Deployment: in the cluster whose Deployments it is to run"),
    (r#"workload.kind="External""#, "rbac.subjects: with workload.kind=External somebody must be named"),
    (r#"rbac.subjects=[{"kind":"User","name":"a"}]"#, "rbac.subjects: only with workload.kind=External"),
    ("podDisruptionBudget.enabled=true", "podDisruptionBudget.enabled: only with workload.kind=Deployment"),
    (
        r#"topologySpreadConstraints=[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"DoNotSchedule"}]"#,
        "topologySpreadConstraints: only with workload.kind=Deployment",
    ),
    ("networkPolicy.enabled=true", "networkPolicy.enabled: network policies do not reach pods on the host's network"),
    ("leaderElection.enabled=false", "leaderElection.enabled=false: the release's pods would work beside each other"),
    (
        r#"leaderElection.resourceName="kube-controller-manager""#,
        "leaderElection.resourceName: kube-system/kube-controller-manager is the lease",
    ),
    (r#"extraArgs=["--secure-port=1"]"#, "extraArgs: --secure-port follows from the value port"),
    (r#"extraArgs=["--leader-elect"]"#, "extraArgs: --leader-elect follows from the value leaderElection.enabled"),
];

pub(crate) async fn bad_values_are_refused_and_named(_: Shared) -> Result<()> {
    for (set, said) in REFUSED {
        let printed = try_rendered(RELEASES[3], None, &[set])?;
        ensure!(!printed.success && printed.stderr.contains(said), "{set} should be refused with {said:?}: {}", printed.stderr);
    }
    let both = ["serviceMonitor.enabled=true", "podMonitor.enabled=true"];
    let printed = try_rendered(RELEASES[3], None, &both)?;
    ensure!(!printed.success && printed.stderr.contains("serviceMonitor.enabled and podMonitor.enabled"), "{}", printed.stderr);
    for monitor in ["serviceMonitor", "podMonitor", "networkPolicy"] {
        let set = [r#"workload.kind="External""#, "rbac.create=false", &format!("{monitor}.enabled=true")];
        let printed = try_rendered(RELEASES[3], None, &set)?;
        ensure!(!printed.success && printed.stderr.contains(&format!("{monitor}.enabled: with")), "{}", printed.stderr);
    }
    Ok(())
}

pub(crate) async fn other_releases_are_refused(_: Shared) -> Result<()> {
    let printed = try_rendered("1.33.9", None, &[])?;
    ensure!(!printed.success && printed.stderr.contains("requires kubeVersion: >=1.34.0-0"), "{}", printed.stderr);
    for kubernetes in ["1.34.0-rc.1", "1.37.2+k3s1", "1.38.0"] {
        rendered(kubernetes, None, &[])?;
    }
    Ok(())
}

pub(crate) async fn helm_finds_nothing_to_complain_about(_: Shared) -> Result<()> {
    let folder = chart().display().to_string();
    for (mode, values) in modes()? {
        let printed = helm(&["lint", "--strict", &folder, "--namespace", NAMESPACE, "--values", &values.display().to_string()])?;
        ensure!(printed.success, "{mode}: {}{}", printed.stdout, printed.stderr);
    }
    Ok(())
}

/// `GOLDEN=write` writes the files.
pub(crate) async fn every_mode_is_rendered_as_in_its_golden_file_on_every_release(_: Shared) -> Result<()> {
    let mut known = BTreeSet::new();
    for (mode, values) in modes()? {
        let text = shortened(&rendered(RELEASES[0], Some(&values), &[])?);
        for release in &RELEASES[1..] {
            ensure!(shortened(&rendered(release, Some(&values), &[])?) == text, "{mode} is another one on {release}");
        }
        let file = golden().join(format!("{mode}.yaml"));
        ensure_written(&file, &text)?;
        known.insert(file);
    }
    for entry in fs::read_dir(golden())? {
        let file = entry?.path();
        ensure!(known.contains(&file), "{}: there is no such mode", file.display());
    }
    Ok(())
}

/// Files that are also elsewhere: the chart has copies, since a package has no other files. `GOLDEN=write` copies them.
pub(crate) async fn dashboards_and_alerts_are_those_of_the_repository(_: Shared) -> Result<()> {
    for (from, to, ending) in [("dashboards", "files/dashboards", ".json"), ("alerts", "files/alerts", ".yaml")] {
        let (from, to) = (chart().join("..").join(from), chart().join(to));
        let of = |folder: &Path| -> Result<BTreeSet<String>> {
            let names =
                fs::read_dir(folder).with_context(|| folder.display().to_string())?.map(|entry| Ok(entry?.file_name().into_string()));
            let names = names.collect::<Result<Vec<_>>>()?.into_iter().flatten();
            // Tests of the rules are beside them.
            Ok(names.filter(|name| name.ends_with(ending) && !name.contains("test")).collect())
        };
        let names = of(&from)?;
        ensure!(!names.is_empty(), "{} is empty", from.display());
        for name in &names {
            ensure_written(&to.join(name), &fs::read_to_string(from.join(name))?)?;
        }
        ensure!(of(&to)? == names, "{} has files that {} has not", to.display(), from.display());
    }
    Ok(())
}

pub(crate) async fn the_chart_is_of_the_programs_release(_: Shared) -> Result<()> {
    let about = documents(&fs::read_to_string(chart().join("Chart.yaml"))?)?;
    for field in ["version", "appVersion"] {
        ensure!(about[0][field] == env!("CARGO_PKG_VERSION"), "{field}: {}, not {}", about[0][field], env!("CARGO_PKG_VERSION"));
    }
    let images = about[0].pointer("/annotations/artifacthub.io~1images").and_then(Value::as_str).unwrap_or_default();
    ensure!(images.contains(&format!("workloads-controller-manager:{}", env!("CARGO_PKG_VERSION"))), "{images}");
    Ok(())
}

/// Every value has a default, which is where its comment is, and the schema knows every value.
pub(crate) async fn the_schema_knows_the_values_and_no_others(_: Shared) -> Result<()> {
    let schema: Value = serde_json::from_str(&fs::read_to_string(chart().join("values.schema.json"))?)?;
    let values = documents(&fs::read_to_string(chart().join("values.yaml"))?)?;
    same_keys("", &schema, &values[0])
}

fn same_keys(path: &str, schema: &Value, values: &Value) -> Result<()> {
    let (Some(properties), Some(values)) = (schema["properties"].as_object(), values.as_object()) else { return Ok(()) };
    ensure!(schema["additionalProperties"] == false, "{path}: anything may be added");
    for (key, value) in values {
        let schema = properties.get(key).with_context(|| format!("{path}/{key} is not in the schema"))?;
        same_keys(&format!("{path}/{key}"), schema, value)?;
    }
    // Helm's own, and what has no default.
    let optional = |key: &str| key == "global" || path.ends_with("Probe") || path == "/resources";
    let missing = properties.keys().find(|key| !values.contains_key(*key) && !optional(key));
    ensure!(missing.is_none(), "{path}/{} has no default", missing.context("a key")?);
    Ok(())
}

/// The program knows every flag that the chart's pods are started with, and takes its value.
pub(crate) async fn the_program_takes_the_arguments_of_the_pods(_: Shared) -> Result<()> {
    for (mode, values) in modes()? {
        for object in documents(&rendered(RELEASES[3], Some(&values), &[])?)? {
            let paths = ["/spec/template/spec/containers/0/args", "/spec/containers/0/args"];
            let Some(arguments) = paths.iter().find_map(|path| object.pointer(path)?.as_array()) else { continue };
            let arguments: Vec<_> = arguments.iter().filter_map(Value::as_str).collect();
            // Asked for help at the end, it has looked at all that comes before.
            let end = arguments.iter().position(|argument| *argument == "--").unwrap_or(arguments.len());
            let output = Command::new(process::binary()?).args(&arguments[..end]).arg("--help").output()?;
            let error = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{mode}: {} does not take {arguments:?}: {error}", object["kind"]);
        }
    }
    Ok(())
}

/// Without the contents of files.
fn shortened(text: &str) -> String {
    let mut lines = Vec::new();
    let (mut from_file, mut inside) = (false, false);
    for line in text.lines() {
        if line == "---" {
            (from_file, inside) = (false, false);
        }
        from_file |= line.ends_with("templates/dashboards.yaml") || line.ends_with("templates/prometheusrules.yaml");
        if !inside {
            lines.push(line.trim_end());
        }
        if from_file && matches!(line, "data:" | "spec:") {
            lines.push("  # …");
            inside = true;
        }
    }
    lines.join("\n") + "\n"
}

fn golden() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chart/golden"))
}

fn ensure_written(file: &Path, text: &str) -> Result<()> {
    if std::env::var("GOLDEN").as_deref() == Ok("write") {
        fs::create_dir_all(file.parent().context("a folder")?)?;
        return fs::write(file, text).with_context(|| file.display().to_string());
    }
    let written = fs::read_to_string(file).with_context(|| format!("{}: GOLDEN=write writes it", file.display()))?;
    let differs = written.lines().zip(text.lines()).find(|(written, now)| written != now);
    ensure!(written == text, "{} says otherwise; GOLDEN=write writes it anew; first here: {differs:#?}", file.display());
    Ok(())
}
