//! The command line: what of kube-controller-manager's it takes, what it says of itself, where the log goes, which metrics there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::{Binaries, Program};
use e2e::{process, wait};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::PATIENCE;
use crate::{Shared, life};

/// What is taken and ignored, as the program has it compiled in.
const FOREIGN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../src/options/foreign.txt");

/// Flags with whether they take a value, and feature gates.
#[derive(Default)]
struct Surface {
    flags: BTreeMap<String, bool>,
    gates: BTreeSet<String>,
}

fn run(arguments: &[&str]) -> Result<Output> {
    Ok(Command::new(process::binary()?).args(arguments).output()?)
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

/// The flag that a line of a help text is about, with what follows its name.
fn flag(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    // `-v, --v Level`
    let line = if line.starts_with("--") { line } else { line.split_once(", ").map_or(line, |(_, long)| long) };
    let name = line.strip_prefix("--")?;
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(name.len());
    Some(name.split_at(end))
}

/// kube-controller-manager's, from its `--help`: a type stands behind a flag that takes a value.
fn theirs(program: &Path) -> Result<Surface> {
    let output = Command::new(program).arg("--help").output()?;
    let mut surface = Surface::default();
    for line in text(&output.stdout).lines() {
        if let Some((name, rest)) = flag(line) {
            surface.flags.insert(name.to_owned(), rest.starts_with(' ') && !rest.starts_with("  "));
        }
        if let Some((gate, _)) = line.trim_start().strip_prefix("kube:").and_then(|gate| gate.split_once("=true|false")) {
            surface.gates.insert(gate.to_owned());
        }
    }
    ensure!(surface.flags.len() > 100 && surface.gates.len() > 100, "the help of {} is not understood", program.display());
    Ok(surface)
}

/// Ours; nothing is said of what they take.
fn ours() -> Result<Surface> {
    let help = text(&run(&["--help"])?.stdout);
    let flags = help.lines().filter_map(flag).map(|(name, _)| (name.to_owned(), false)).collect();
    let refusal = text(&run(&["--feature-gates=NoSuchGate=true"])?.stderr);
    let known = refusal.split_once("known here: ").context("no gates are told")?.1;
    let gates =
        known.split_whitespace().map(|gate| gate.trim_matches(',').to_owned()).take_while(|gate| gate.starts_with(char::is_uppercase));
    Ok(Surface { flags, gates: gates.collect() })
}

fn foreign() -> Result<Surface> {
    let mut surface = Surface::default();
    for line in fs::read_to_string(FOREIGN)?.lines() {
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["flag", name, kind] => drop(surface.flags.insert((*name).to_owned(), *kind == "value")),
            ["gate", name] => drop(surface.gates.insert((*name).to_owned())),
            _ => ensure!(line.starts_with('#'), "{line}"),
        }
    }
    Ok(surface)
}

/// kube-controller-manager of each release that has been built.
fn releases() -> Result<BTreeMap<String, PathBuf>> {
    let here = Binaries::build(None, &[Program::ControllerManager])?;
    let all = here.folder().parent().context("no folder of releases")?;
    let mut releases = BTreeMap::new();
    for folder in fs::read_dir(all)? {
        let binaries = Binaries::at(folder?.path());
        if let (Ok(release), Ok(program)) = (binaries.release(), binaries.path(Program::ControllerManager)) {
            releases.insert(release.to_owned(), program);
        }
    }
    Ok(releases)
}

/// Writes [`FOREIGN`] anew with `KCM_FLAGS=write` in the environment, for which all releases must have been built.
pub(crate) async fn every_flag_of_kube_controller_manager_is_ours_or_foreign(_: Shared) -> Result<()> {
    let (releases, ours) = (releases()?, ours()?);
    if std::env::var("KCM_FLAGS").is_ok_and(|wish| wish == "write") {
        write(&releases, &ours)?;
    }
    let foreign = foreign()?;
    for (release, program) in &releases {
        let theirs = theirs(program)?;
        for (name, takes_value) in &theirs.flags {
            let known = foreign.flags.get(name);
            assert!(ours.flags.contains_key(name) != known.is_some(), "--{name} of {release} has to be either ours or in foreign.txt");
            assert!(known.is_none_or(|known| known == takes_value), "--{name} of {release}: foreign.txt is wrong about what it takes");
        }
        for gate in &theirs.gates {
            assert!(
                ours.gates.contains(gate) != foreign.gates.contains(gate),
                "{gate} of {release} has to be either ours or in foreign.txt"
            );
        }
    }
    println!("compared with {:?}", releases.keys());
    Ok(())
}

fn write(releases: &BTreeMap<String, PathBuf>, ours: &Surface) -> Result<()> {
    let mut all = Surface::default();
    for program in releases.values() {
        let theirs = theirs(program)?;
        all.flags.extend(theirs.flags.into_iter().filter(|(name, _)| !ours.flags.contains_key(name)));
        all.gates.extend(theirs.gates.into_iter().filter(|gate| !ours.gates.contains(gate)));
    }
    let (first, last) = (releases.keys().next().context("no release")?, releases.keys().next_back().context("no release")?);
    let mut lines = vec![
        format!("# Flags and feature gates that kube-controller-manager of {first} to {last} lists in its --help, and that this program does not have."),
        "# A flag is followed by what it takes: nothing (a bool) or a value. Made by KCM_FLAGS=write cargo test -p e2e --test program -- foreign".to_owned(),
    ];
    let kind = |takes_value: &bool| if *takes_value { "value" } else { "bool" };
    lines.extend(all.flags.iter().map(|(name, takes_value)| format!("flag {name} {}", kind(takes_value))));
    lines.extend(all.gates.iter().map(|gate| format!("gate {gate}")));
    fs::write(FOREIGN, lines.join("\n") + "\n").with_context(|| format!("writing {FOREIGN}"))
}

/// What kubeadm starts kube-controller-manager with, but for our own flags.
const KUBEADM: &[&str] = &[
    "--allocate-node-cidrs=true",
    "--cluster-cidr=10.244.0.0/16",
    "--cluster-name=kind",
    "--cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt",
    "--cluster-signing-key-file=/etc/kubernetes/pki/ca.key",
    "--enable-hostpath-provisioner=true",
    "--root-ca-file=/etc/kubernetes/pki/ca.crt",
    "--service-account-private-key-file=/etc/kubernetes/pki/sa.key",
    "--service-cluster-ip-range=10.96.0.0/16",
];

pub(crate) async fn flags_of_other_controllers_are_refused_or_warned_of(_: Shared) -> Result<()> {
    let output = run(KUBEADM)?;
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("--allocate-node-cidrs") && error.contains("--ignore-foreign-flags"), "{error}");
    // It gets no further than the kubeconfig.
    let rest = ["--ignore_foreign_flags", "--kubeconfig=/no/such/file", "--feature-gates=HPAScaleToZero=true"];
    let output = run(&[KUBEADM, &rest].concat())?;
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{log}");
    for flag in KUBEADM {
        let name = flag.split('=').next().unwrap_or_default();
        let lines = log.lines().filter(|line| line.starts_with('W') && line.contains(&format!("flag=\"{name}\""))).count();
        assert_eq!(lines, 1, "{name} in {log}");
    }
    assert!(log.contains("gate=\"HPAScaleToZero\"") && log.contains("/no/such/file"), "{log}");
    Ok(())
}

pub(crate) async fn version_and_completion_are_told(_: Shared) -> Result<()> {
    let version = |argument: &str| -> Result<String> {
        let output = run(&[argument])?;
        ensure!(output.status.success(), "{}", text(&output.stderr));
        Ok(text(&output.stdout))
    };
    assert!(version("--version")?.starts_with("workloads-controller-manager "));
    assert_eq!(version("--version")?, version("-V")?);
    assert!(version("--version=raw")?.starts_with("version.Info{Major:\""), "{}", version("--version=raw")?);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(&run(&["completion", shell])?.stdout);
        for word in ["explain", "leader-elect-lease-duration", "ignore-foreign-flags"] {
            assert!(script.contains(word), "{shell} knows nothing of {word}");
        }
        assert!(!script.contains("cluster-signing-key-file"), "{shell} offers what is ignored");
    }
    let program = process::binary()?;
    let completed = |words: &str, last: &str| -> Result<String> {
        let script = format!(
            "eval \"$({} completion bash)\"; COMP_WORDS=({words} {last}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _workloads__controller__manager workloads-controller-manager {last} ''; echo \"${{COMPREPLY[*]}}\"",
            program.display()
        );
        let output = Command::new("bash").args(["--norc", "-c", &script]).output()?;
        Ok(text(&output.stdout).trim().to_owned() + &text(&output.stderr))
    };
    assert_eq!(completed("workloads-controller-manager", "expl")?, "explain");
    assert_eq!(completed("workloads-controller-manager", "--leader-elect-lease")?, "--leader-elect-lease-duration");
    assert_eq!(completed("workloads-controller-manager explain", "--names")?, "--namespace");
    Ok(())
}

pub(crate) async fn log_lines_can_be_kept_apart_and_buffered(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let folder = tempfile::tempdir()?;
    let (infos, errors) = (folder.path().join("out"), folder.path().join("err"));
    let mut command = Command::new(process::binary()?);
    command.arg("--kubeconfig").arg(plane.service_account_kubeconfig());
    command.args(["--leader-elect=false", "--secure-port=0", "--feature-gates=LoggingAlphaOptions=true", "--log-text-split-stream"]);
    command.args(["--log-text-info-buffer-size=64Ki", "--log-flush-frequency=300ms", "--vmodule=app=2", "--contention-profiling"]);
    let mut program = command.stdout(File::create(&infos)?).stderr(File::create(&errors)?).spawn()?;
    let read = |file: &Path| fs::read_to_string(file).unwrap_or_default();
    // Far less than the buffer holds: the time has brought it here.
    let seen = wait::until("the start to be in the log", PATIENCE, async || {
        let log = read(&infos);
        ensure!(log.contains("Controllers started"), "{log}");
        Ok(())
    })
    .await;
    let pid = Pid::from_raw(i32::try_from(program.id())?).context("no process")?;
    kill_process(pid, Signal::TERM)?;
    let status = program.wait()?;
    seen?;
    let (infos, errors) = (read(&infos), read(&errors));
    assert!(status.success() && infos.ends_with("\"Stopped\"\n"), "what waited at the end is missing: {infos}");
    assert!(infos.lines().all(|line| line.starts_with('I')), "{infos}");
    assert!(errors.contains("There are no profiles here") && errors.lines().all(|line| !line.starts_with('I')), "{errors}");
    assert!(infos.contains("\"A cache has synced\""), "one file is to say more than the others: {infos}");
    let others = infos.lines().filter(|line| line.contains("hyper") || line.contains("queue")).count();
    assert_eq!(others, 0, "{infos}");
    Ok(())
}

/// Labels of a metric that is there from the start, at zero where it counts.
const METRICS: &[&str] = &[
    "workqueue_depth{name=\"deployment\"}",
    "workqueue_depth{name=\"replicaset\"}",
    "workqueue_depth{name=\"statefulset\"}",
    "workqueue_adds_total{name=\"deployment\"}",
    "workqueue_retries_total{name=\"deployment\"}",
    "workqueue_queue_duration_seconds_count{name=\"deployment\"}",
    "workqueue_work_duration_seconds_count{name=\"deployment\"}",
    "workqueue_unfinished_work_seconds{name=\"deployment\"}",
    "workqueue_longest_running_processor_seconds{name=\"deployment\"}",
    "leader_election_master_status{name=\"workloads-controller-manager\"}",
    "leader_election_slowpath_total{name=\"workloads-controller-manager\"}",
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_max_fds",
    "process_start_time_seconds",
    "replicaset_controller_sorting_deletion_age_ratio_count",
    "replicaset_controller_stale_sync_skips_total{group=\"apps\",resource=\"replicasets\"}",
    "statefulset_controller_stale_sync_skips_total{group=\"apps\",resource=\"statefulsets\"}",
    "kubernetes_feature_enabled{name=\"PodDeletionCost\",stage=\"BETA\"}",
    "kubernetes_feature_enabled{name=\"LoggingAlphaOptions\",stage=\"ALPHA\"}",
    "informer_store_resource_version{group=\"\",name=\"workloads-controller-manager\",resource=\"pods\",version=\"v1\"}",
    "workloads_controller_manager_cached_objects{resource=\"pods\"}",
    "workloads_controller_manager_cached_bytes{resource=\"pods\"}",
    "workloads_controller_manager_cached_bytes{resource=\"controllerrevisions\"}",
    "workloads_controller_manager_cache_synced{resource=\"pods\"}",
    "workloads_controller_manager_watch_failing_seconds{resource=\"pods\"}",
    "workloads_controller_manager_syncs_total{controller=\"statefulset\",outcome=\"settled\"}",
    "workloads_controller_manager_waiting_objects{controller=\"deployment\",rule=\"paused\"}",
    "workloads_controller_manager_longest_wait_seconds{controller=\"deployment\",rule=\"paused\"}",
    "workloads_controller_manager_failing_objects{controller=\"replicaset\"}",
    "workloads_controller_manager_longest_failure_seconds{controller=\"replicaset\"}",
    "workloads_controller_manager_writes_total{controller=\"replicaset\",rule=\"too-few-replicas\"}",
    "workloads_controller_manager_writes_refused_total{controller=\"replicaset\",reason=\"Forbidden\",resource=\"pods\"}",
    "workloads_controller_manager_writes_refused_total{controller=\"statefulset\",reason=\"Invalid\",resource=\"persistentvolumeclaims\"}",
    "workloads_controller_manager_owners{children=\"2-10\",owner=\"deployments\",resource=\"replicasets\"}",
    "workloads_controller_manager_owners{children=\"1001-\",owner=\"replicasets\",resource=\"pods\"}",
    "workloads_controller_manager_owners{children=\"1\",owner=\"statefulsets\",resource=\"controllerrevisions\"}",
    "workloads_controller_manager_most_children{owner=\"statefulsets\",resource=\"pods\"}",
    "workloads_controller_manager_below_desired_objects{for_seconds=\"0\",resource=\"deployments\"}",
    "workloads_controller_manager_below_desired_objects{for_seconds=\"3600\",resource=\"statefulsets\"}",
    "workloads_controller_manager_longest_below_desired_seconds{resource=\"replicasets\"}",
];

pub(crate) async fn every_metric_is_there_from_the_start(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let mut program = plane.launch().leader_elect().start().await?;
    wait::until("all metrics", PATIENCE, async || {
        let page = program.endpoint().text("/metrics").await?;
        let missing: Vec<_> = METRICS.iter().filter(|metric| !page.lines().any(|line| line.starts_with(&format!("{metric} ")))).collect();
        ensure!(missing.is_empty(), "missing: {missing:#?}");
        Ok(())
    })
    .await?;
    life::ensure_ended(&mut program).await?;
    let hidden = "--disabled-metrics=workloads_controller_manager_owners,workqueue_depth";
    let mut program = plane.launch().flag(hidden).start().await?;
    let adds = async || program.endpoint().metric("workqueue_adds_total{name=\"deployment\"}").await?.context("not there yet");
    wait::until("the others", PATIENCE, adds).await?;
    let page = program.endpoint().text("/metrics").await?;
    assert!(!page.contains("workloads_controller_manager_owners") && !page.contains("workqueue_depth"), "{page}");
    life::ensure_ended(&mut program).await
}

/// A ReplicaSet whose pods nobody makes ready, and one whose pods are refused: the numbers say so.
pub(crate) async fn numbers_of_children_and_missing_replicas_are_true(plane: Shared) -> Result<()> {
    use serde_json::json;

    let plane = plane.0.lock().await;
    let space = crate::Space::new(&plane, "numbers").await?;
    let mut program = plane.launch().start().await?;
    space.create_set("web", 12).await?;
    space.settled("web", 12).await?;
    // Its pods are refused, which nobody asks of the ReplicaSet.
    space.create_set_with("refused", 1, |set| set["spec"]["template"]["spec"]["priorityClassName"] = json!("none")).await?;
    let metric = async |name: &str| -> Result<f64> {
        let sample = format!("workloads_controller_manager_{name}");
        program.endpoint().metric(&sample).await?.with_context(|| format!("{sample} is not there"))
    };
    wait::until("the numbers", PATIENCE, async || {
        let owners = metric("owners{children=\"11-100\",owner=\"replicasets\",resource=\"pods\"}").await?;
        let most = metric("most_children{owner=\"replicasets\",resource=\"pods\"}").await?;
        let below = metric("below_desired_objects{for_seconds=\"0\",resource=\"replicasets\"}").await?;
        let longest = metric("longest_below_desired_seconds{resource=\"replicasets\"}").await?;
        let refused = metric("writes_refused_total{controller=\"replicaset\",reason=\"Forbidden\",resource=\"pods\"}").await?;
        let bytes = metric("cached_bytes{resource=\"pods\"}").await?;
        ensure!(owners >= 1.0 && most >= 12.0, "{owners} owners, at most {most} children");
        ensure!(below >= 1.0 && longest > 0.0 && refused >= 1.0, "{below} below for {longest} s, {refused} refused");
        ensure!(bytes > 12.0 * 100.0 && bytes < 1e6, "{bytes} bytes");
        Ok(())
    })
    .await?;
    life::ensure_ended(&mut program).await
}
