//! The comparison as text.

use std::fmt;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::Scenario;
use super::summary::{Row, Target, Unit};

/// Where it was measured, and what.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Processors that may be used.
    pub cores: usize,
    /// Memory in bytes.
    pub memory: u64,
    /// The load before the first run; others at work make every number worse.
    pub load: String,
    /// The version of the kernel.
    pub kernel: String,
    /// Our version.
    pub ours: &'static str,
    /// Kubernetes' release.
    pub kubernetes: String,
}

impl Machine {
    /// This machine (Linux only).
    pub fn here(kubernetes: &str) -> Result<Self> {
        let read = |file: &str| std::fs::read_to_string(file).with_context(|| format!("read {file}"));
        Ok(Self {
            cores: std::thread::available_parallelism()?.get(),
            memory: memory(&read("/proc/meminfo")?)?,
            load: read("/proc/loadavg")?.split(' ').next().unwrap_or_default().to_owned(),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            ours: env!("CARGO_PKG_VERSION"),
            kubernetes: kubernetes.to_owned(),
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cores, memory, load, kernel, ours, kubernetes } = self;
        let memory = *memory as f64 / GIB;
        write!(
            f,
            "{cores} cores, {memory:.1} GiB, Linux {kernel}, load {load}; workloads-controller-manager {ours}, Kubernetes {kubernetes}"
        )
    }
}

fn memory(meminfo: &str) -> Result<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).context("no MemTotal")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
const MIB: f64 = 1024.0 * 1024.0;

/// The table of one scenario.
#[derive(Debug)]
pub struct Report<'a> {
    /// What was asked of both.
    pub title: String,
    /// How often.
    pub runs: usize,
    /// What came of it.
    pub rows: &'a [Row],
    /// For which size the targets are meant.
    pub meant_for: &'static str,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { title, runs, rows, meant_for } = self;
        writeln!(f, "{title}")?;
        writeln!(f, "{}\n", if *runs == 1 { "one run of each".to_owned() } else { format!("medians of {runs} runs of each") })?;
        writeln!(f, "{:<34} {:>11} {:>11} {:>9}   {:<12}", "", "ours", "KCM", "ours/KCM", "target")?;
        for row in *rows {
            let ratio = row.ratio.map_or_else(|| "-".to_owned(), show_ratio);
            let (target, verdict) = (row.target.map(|target| show_target(target, row.unit)).unwrap_or_default(), show_verdict(row));
            let line = format!(
                "{:<34} {:>11} {:>11} {ratio:>9}   {target:<12} {verdict}",
                row.name,
                show(row.ours, row.unit),
                show(row.kcm, row.unit)
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        let (met, all) = (rows.iter().filter(|row| row.met == Some(true)).count(), rows.iter().filter(|row| row.target.is_some()).count());
        writeln!(f, "\n{met} of {all} targets met (they are meant for {meant_for})")
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pods, replicas, namespaces, single } = self;
        write!(f, "{pods} pods in ReplicaSets of {replicas}, {namespaces} namespaces; then one ReplicaSet of {single}")
    }
}

fn show(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => format!("{:.1} MiB", value / MIB),
        Unit::Seconds if value < 0.01 => format!("{:.3} ms", value * 1000.0),
        Unit::Seconds => format!("{value:.2} s"),
        Unit::PerSecond => format!("{value:.0} /s"),
        Unit::PerPod => format!("{value:.3}"),
        Unit::Pieces => format!("{value:.0}"),
    }
}

/// A ratio below one as a fraction: 1/43 says more than 0.0233.
fn show_ratio(ratio: f64) -> String {
    if ratio > 0.0 && ratio < 0.8 { format!("1/{:.1}", 1.0 / ratio) } else { format!("{ratio:.2}") }
}

fn show_target(target: Target, unit: Unit) -> String {
    match target {
        Target::RatioAtMost(ratio) if ratio >= 1.0 => format!("<= {ratio}"),
        Target::RatioAtMost(ratio) => format!("<= 1/{:.0}", 1.0 / ratio),
        Target::RatioAtLeast(ratio) => format!(">= {ratio:.0}"),
        Target::AtMost(limit) => format!("<= {}", show(limit, unit)),
    }
}

fn show_verdict(row: &Row) -> &'static str {
    match (row.target, row.met) {
        (None, _) => "",
        (Some(_), Some(true)) => "met",
        (Some(_), Some(false)) => "MISSED",
        (Some(_), None) => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_with_their_unit() {
        assert_eq!(show(12.0 * MIB, Unit::Bytes), "12.0 MiB");
        assert_eq!(show(0.000_78, Unit::Seconds), "0.780 ms");
        assert_eq!(show(15.0, Unit::Seconds), "15.00 s");
        assert_eq!(show_ratio(1.0 / 43.0), "1/43.0");
        assert_eq!(show_ratio(0.97), "0.97");
        assert_eq!(show_ratio(0.0), "0.00");
        assert_eq!(show_target(Target::RatioAtMost(1.0 / 40.0), Unit::Bytes), "<= 1/40");
        assert_eq!(show_target(Target::AtMost(12.0 * MIB), Unit::Bytes), "<= 12.0 MiB");
    }

    #[test]
    fn reads_the_machines_memory() {
        assert_eq!(memory("MemTotal:       24576000 kB\nMemFree: 1 kB\n").unwrap(), 24_576_000 << 10);
        assert!(memory("").is_err());
    }
}
