//! `make bench`: workloads-controller-manager beside kube-controller-manager, in one run.
//!
//! A missed target is printed and is no error: only what breaks is.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use e2e::bench::{Machine, Measurement, Report, Rollout, Scenario, Stateful, measure, measure_rollout, measure_stateful, summary};
use e2e::controlplane::{Binaries, Program};
use serde_json::json;

/// Measures workloads-controller-manager beside kube-controller-manager.
#[derive(Parser)]
struct Arguments {
    /// Pods to create; without it the environment's PODS, else 10,000.
    #[arg(long)]
    pods: Option<u64>,
    /// Deployments to roll; without it the environment's DEPLOYMENTS, else 1,000. 0 leaves the rolling update out.
    #[arg(long)]
    deployments: Option<u64>,
    /// Pods of the StatefulSet that is made all at once; without it the environment's STATEFUL, else 2,000. 0 leaves StatefulSets out.
    #[arg(long)]
    stateful: Option<u64>,
    /// Runs of each, of which the median counts; without it the environment's RUNS, else 3, or 1 for more than 10,000 pods.
    #[arg(long)]
    runs: Option<usize>,
    /// Writes every measurement and every row of the table to this file, as lines of JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    // Dropping the run on the way out ends every child, whichever way that is.
    let ended = tokio::select! {
        ended = run(Arguments::parse()) => ended,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    ensure!(!cfg!(debug_assertions), "only the release build is worth measuring: run `make bench`");
    let pods = arguments.pods.map_or_else(|| number("PODS"), |pods| Ok(Some(pods)))?.unwrap_or(10_000);
    let deployments = arguments.deployments.map_or_else(|| number("DEPLOYMENTS"), |count| Ok(Some(count)))?.unwrap_or(1_000);
    let stateful = arguments.stateful.map_or_else(|| number("STATEFUL"), |count| Ok(Some(count)))?.unwrap_or(2_000);
    let runs = arguments.runs.map_or_else(|| number("RUNS"), |runs| Ok(Some(runs)))?;
    let runs = runs.unwrap_or(if pods <= 10_000 { 3 } else { 1 });
    ensure!(pods > 0 && runs > 0, "nothing to measure with {pods} pods and {runs} runs");
    let mut lines = arguments.json.map(|file| File::create(&file).with_context(|| format!("create {}", file.display()))).transpose()?;
    let mut record = |line: serde_json::Value| lines.as_mut().map_or(Ok(()), |lines| writeln!(lines, "{line}"));

    let programs = [Program::Etcd, Program::ApiServer, Program::ControllerManager];
    let binaries = tokio::task::spawn_blocking(move || Binaries::build(None, &programs)).await??;
    let machine = Machine::here(binaries.release()?)?;
    println!("{machine}");
    println!("release builds, limiter open (5000/s), a fresh control plane for each run");
    record(json!({ "machine": machine }))?;

    let scenario = Scenario::of(pods);
    let started = Instant::now();
    let measurements = measure(scenario, runs, &binaries, |it| {
        progress(it, started);
        Ok(record(json!({ "measurement": it }))?)
    })
    .await?;
    let pod = measurements.first().map_or(0, |it| it.pod_bytes);
    let title = format!("\nthe ReplicaSet controller alone, no kubelets: {scenario}; a pod is {:.1} KB of JSON", pod as f64 / 1000.0);
    report(title, runs, &summary::rows(&measurements), "100,000 pods", &mut record)?;
    if deployments > 0 {
        let rollout = Rollout::of(deployments);
        let measurements = measure_rollout(rollout, runs, &binaries, |it| {
            let (time, cpu) = (it.seconds, it.cpu);
            eprintln!("{:>5.0} s  rolling update {} of {}: {time:.1} s with {cpu:.2} CPU s", seconds(started), it.run, it.contender);
            Ok(record(json!({ "rollout": it }))?)
        })
        .await?;
        let title = format!("the Deployment and ReplicaSet controllers: {rollout}");
        report(title, runs, &summary::rows(&measurements), "1,000 Deployments", &mut record)?;
    }
    if stateful > 0 {
        let sets = Stateful::of(stateful);
        let measurements = measure_stateful(sets, runs, &binaries, |it| {
            let (made, rolled) = (it.parallel, it.ordered);
            eprintln!(
                "{:>5.0} s  StatefulSets {} of {}: made in {:.1} s with {:.2} CPU s, rolled in {:.1} s with {:.2} CPU s",
                seconds(started),
                it.run,
                it.contender,
                made.seconds,
                made.cpu,
                rolled.seconds,
                rolled.cpu
            );
            Ok(record(json!({ "stateful": it }))?)
        })
        .await?;
        let title = format!("the StatefulSet controller: {sets}");
        report(title, runs, &summary::rows(&measurements), "2,000 pods", &mut record)?;
    }
    Ok(())
}

/// Prints a table, and records its rows.
fn report(
    title: String,
    runs: usize,
    rows: &[summary::Row],
    meant_for: &'static str,
    record: &mut impl FnMut(serde_json::Value) -> std::io::Result<()>,
) -> Result<()> {
    println!("{}", Report { title, runs, rows, meant_for });
    rows.iter().try_for_each(|row| Ok(record(json!({ "row": row }))?))
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

/// A line on standard error for whoever waits.
fn progress(it: &Measurement, started: Instant) {
    let (creation, cold, single) = (&it.creation, &it.cold_start, &it.single);
    eprintln!(
        "{:>5.0} s  run {} of {}: {:.0} pods/s with {:.2} CPU s, cold start {:.2} s with {:.2} CPU s, one ReplicaSet {:.0} pods/s with {:.2} CPU s",
        started.elapsed().as_secs_f64(),
        it.run,
        it.contender,
        creation.rate(),
        creation.cpu,
        cold.probe.seconds,
        cold.probe.cpu,
        single.rate(),
        single.cpu
    );
}

/// A number from the environment: `make bench` takes none on its command line.
fn number<T: std::str::FromStr<Err: std::error::Error + Send + Sync + 'static>>(variable: &str) -> Result<Option<T>> {
    match std::env::var(variable) {
        Ok(text) if !text.is_empty() => text.parse().map(Some).with_context(|| format!("{variable}={text}")),
        _ => Ok(None),
    }
}
