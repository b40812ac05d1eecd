//! Runs Kubernetes' own integration tests against `workloads-controller-manager` in a process of its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use e2e::upstream::{
    Choice, Outcome, Outside, Package, Prepared, Results, Suite, is_recorded_for, passed_by_reference, record, run_behind_faults,
};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};

/// Kubernetes' own integration tests of the controllers, against a program instead of in-process controllers.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Options {
    /// Kubernetes release, one of those pinned.
    #[arg(long)]
    release: Option<String>,
    /// Package of tests; can be repeated. Two run at a time.
    #[arg(long = "package", default_values_t = ["deployment", "replicaset", "statefulset"].map(str::to_owned))]
    packages: Vec<String>,
    /// Only tests whose name matches this expression.
    #[arg(long)]
    run: Option<String>,
    /// Put the fault proxy between the program and the API server; without --run, only the tests that kube-controller-manager passes there.
    #[arg(long)]
    faults: bool,
    /// The program to test; by default the one that cargo has built beside this one.
    #[arg(long, conflicts_with = "reference")]
    binary: Option<PathBuf>,
    /// Test kube-controller-manager instead, to see that the tests themselves work.
    #[arg(long)]
    reference: bool,
    /// Run everything so often, and write down which tests kube-controller-manager has passed every time.
    #[arg(long, value_name = "RUNS", requires = "reference", requires = "faults", conflicts_with = "run")]
    record: Option<usize>,
    /// Only build the tests.
    #[arg(long)]
    build_only: bool,
    /// Minutes that one package may take.
    #[arg(long, default_value_t = 20)]
    timeout: u64,
    #[command(subcommand)]
    command: Option<Command>,
    /// More arguments for the program under test.
    #[arg(last = true)]
    flags: Vec<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a program behind the fault proxy; upstream's tests start it like this.
    #[command(hide = true)]
    BehindFaults {
        /// The program and its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if let Some(Command::BehindFaults { command }) = &options.command {
        return run_behind_faults(command).await;
    }
    let packages = options.packages.iter().map(|name| Package::named(name)).collect::<Result<Vec<_>>>()?;
    let choice = match &options.run {
        Some(expression) => Choice::Matching(expression.clone()),
        None if options.faults && options.record.is_none() => Choice::PassedByReference,
        None => Choice::Matching(".".to_owned()),
    };
    let listed = matches!(choice, Choice::PassedByReference);
    let suite = Suite {
        release: options.release,
        outside: if options.reference { Outside::Reference } else { Outside::Ours(options.binary) },
        flags: options.flags,
        faults: options.faults,
        choice,
        timeout: Duration::from_mins(options.timeout),
    };
    let suite = Rc::new(tokio::task::block_in_place(|| suite.prepare())?);
    // One after the other: they share a folder.
    for package in &packages {
        let program = tokio::task::block_in_place(|| suite.build(package))?;
        if options.build_only {
            println!("{}", program.display());
        }
    }
    if options.build_only {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(runs) = options.record {
        return record_passed(&suite, &packages, runs).await;
    }
    let mut report = Report::default();
    for (package, results) in run(&suite, &packages).await? {
        report.add(&suite, package, &results)?;
        if listed && is_recorded_for(suite.release()?) {
            report.expect(package, &results)?;
        }
    }
    print!("{}", report.table);
    println!("{} passed, {} failed, {} skipped", report.passed, report.failed, report.skipped);
    // No test at all is a mistake in --run or in the patches.
    Ok(if report.failed == 0 && report.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// So many packages run at the same time: most of it is waiting, but a test's API server that takes too long to start is an error there.
const AT_ONCE: usize = 2;

/// Runs the packages.
async fn run(suite: &Rc<Prepared>, packages: &[&'static Package]) -> Result<Vec<(&'static Package, Results)>> {
    let local = LocalSet::new();
    let mut running = JoinSet::new();
    let turns = Rc::new(Semaphore::new(AT_ONCE));
    for &package in packages {
        let (suite, turns) = (Rc::clone(suite), Rc::clone(&turns));
        let run = async move {
            let _turn = turns.acquire().await?;
            suite.run(package).await.map(|results| (package, results)).context(package.name())
        };
        running.spawn_local_on(run, &local);
    }
    let mut results = local.run_until(running.join_all()).await.into_iter().collect::<Result<Vec<_>>>()?;
    results.sort_by_key(|(package, _)| package.name());
    Ok(results)
}

async fn record_passed(suite: &Rc<Prepared>, packages: &[&'static Package], runs: usize) -> Result<ExitCode> {
    let mut passed: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..runs {
        for (package, results) in run(suite, packages).await? {
            for (test, outcome) in results.tests() {
                *passed.entry(format!("{}/{test}", package.name())).or_default() += usize::from(outcome == Outcome::Pass);
            }
        }
    }
    for (test, count) in &passed {
        println!("{count} of {runs}: {test}");
    }
    let always: Vec<_> = passed.into_iter().filter(|(_, count)| *count == runs).map(|(test, _)| test).collect();
    println!("{} tests are in {}", always.len(), record(suite.release()?, runs, &always)?.display());
    Ok(ExitCode::SUCCESS)
}

/// The table so far. Tests that may fail count as skipped when they do.
#[derive(Default)]
struct Report {
    table: String,
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Report {
    fn add(&mut self, suite: &Prepared, package: &Package, results: &Results) -> Result<()> {
        let before = self.failed;
        for (test, outcome) in results.tests() {
            let expected = package.expected_failure(test);
            let remark = match (outcome, expected) {
                (Outcome::Fail, Some(reason)) => format!("  (may fail: {reason})"),
                (Outcome::Pass, Some(_)) => "  (no longer fails: take it off the list)".to_owned(),
                _ => String::new(),
            };
            writeln!(self.table, "{outcome} {}/{test}{remark}", package.name())?;
            match (outcome, expected) {
                (Outcome::Pass, _) => self.passed += 1,
                (Outcome::Fail, None) => self.failed += 1,
                (Outcome::Fail, Some(_)) | (Outcome::Skip, _) => self.skipped += 1,
            }
            if outcome == Outcome::Fail {
                let inside = |name: &str| name.strip_prefix(test).is_some_and(|rest| rest.starts_with('/'));
                for (name, _) in results.iter().filter(|(name, outcome)| inside(name) && *outcome == Outcome::Fail) {
                    writeln!(self.table, "     FAIL {name}")?;
                }
            }
        }
        if !results.complete() {
            self.failed += 1;
            writeln!(self.table, "FAIL {} ended early: there may be tests that never ran", package.name())?;
        }
        if self.failed > before {
            let (tests, program) = suite.logs(package);
            writeln!(self.table, "     logs: {} and {}", tests.display(), program.display())?;
        }
        Ok(())
    }

    /// Every test of the list must have run.
    fn expect(&mut self, package: &Package, results: &Results) -> Result<()> {
        for test in passed_by_reference(package) {
            if !results.tests().any(|(name, _)| name == test) {
                self.failed += 1;
                writeln!(self.table, "FAIL {}/{test} did not run", package.name())?;
            }
        }
        Ok(())
    }
}
