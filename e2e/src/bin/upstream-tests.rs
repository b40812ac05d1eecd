//! Runs Kubernetes' own integration tests against `workloads-controller-manager` in a process of its own.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use e2e::upstream::{Outcome, Outside, Package, Results, Suite};

/// Kubernetes' own integration tests of the controllers, against a program instead of in-process controllers.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Kubernetes release, one of those pinned.
    #[arg(long)]
    release: Option<String>,
    /// Package of tests; can be repeated.
    #[arg(long = "package", default_values_t = ["deployment", "replicaset", "statefulset"].map(str::to_owned))]
    packages: Vec<String>,
    /// Only tests whose name matches this expression.
    #[arg(long, default_value = ".")]
    run: String,
    /// The program to test; by default the one that cargo has built beside this one.
    #[arg(long, conflicts_with = "reference")]
    binary: Option<PathBuf>,
    /// Test kube-controller-manager instead, to see that the tests themselves work.
    #[arg(long)]
    reference: bool,
    /// Only build the tests.
    #[arg(long)]
    build_only: bool,
    /// Minutes that one package may take.
    #[arg(long, default_value_t = 20)]
    timeout: u64,
    /// More arguments for the program under test.
    #[arg(last = true)]
    flags: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let packages = options.packages.iter().map(|name| Package::named(name)).collect::<Result<Vec<_>>>()?;
    let suite = Suite {
        release: options.release,
        outside: if options.reference { Outside::Reference } else { Outside::Ours(options.binary) },
        flags: options.flags,
        run: options.run,
        timeout: Duration::from_mins(options.timeout),
    };
    let suite = tokio::task::block_in_place(|| suite.prepare())?;
    let mut report = Report::default();
    for package in packages {
        if options.build_only {
            println!("{}", tokio::task::block_in_place(|| suite.build(package))?.display());
            continue;
        }
        let results = suite.run(package).await?;
        let before = report.failed;
        report.add(package, &results)?;
        if !results.complete() {
            report.failed += 1;
            writeln!(report.table, "FAIL {} ended early: there may be tests that never ran", package.name())?;
        }
        if report.failed > before {
            let (tests, program) = suite.logs(package);
            writeln!(report.table, "     logs: {} and {}", tests.display(), program.display())?;
        }
    }
    if options.build_only {
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", report.table);
    println!("{} passed, {} failed, {} skipped", report.passed, report.failed, report.skipped);
    // No test at all is a mistake in --run or in the patches.
    Ok(if report.failed == 0 && report.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
    fn add(&mut self, package: &Package, results: &Results) -> Result<()> {
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
        Ok(())
    }
}
