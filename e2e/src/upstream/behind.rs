//! The program under test behind the fault proxy.
//!
//! `external.go` starts the program by a command line that it gets. Behind faults that is the runner of the tests itself, which starts the
//! proxy, and then the program with a kubeconfig that leads there.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

use crate::child::Child;
use crate::proxy::{Ending, EventMatch, Fault, Loss, Match, Moment, Point, Proxy, Refusal, Rule, WatchFault, When};

/// What every list of tests and every run behind faults has in common: with it, each test has its own faults, always the same.
pub(super) const SEED: u64 = 7;

const KUBECONFIG: &str = "--kubeconfig=";
/// How often the program's end is looked for.
const EVERY: Duration = Duration::from_millis(20);
/// What the three controllers read and write.
const RESOURCES: [&str; 6] = ["deployments", "replicasets", "statefulsets", "pods", "controllerrevisions", "persistentvolumeclaims"];

/// Runs a program behind the proxy until it ends, and ends as it does. SIGTERM goes to the program; its output to the file that
/// `EXTERNAL_LOG` names. The faults are those of the test that `EXTERNAL_TEST` names.
pub async fn run_behind_faults(command: &[String]) -> Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let log = std::env::var_os("EXTERNAL_LOG").context("EXTERNAL_LOG is not set")?;
    let test = std::env::var("EXTERNAL_TEST").context("EXTERNAL_TEST is not set")?;
    let (program, arguments) = command.split_first().context("no program to run")?;
    let kubeconfig = arguments.iter().rev().find_map(|argument| argument.strip_prefix(KUBECONFIG)).context("no --kubeconfig=FILE")?;
    let proxy = Proxy::start_seeded(Path::new(kubeconfig), seed_of(&test)).await?;
    proxy.lend_token()?;
    for rule in mild_faults() {
        proxy.add(rule);
    }
    let mut behind = Command::new(program);
    behind.args(arguments.iter().filter(|argument| !argument.starts_with(KUBECONFIG)));
    behind.arg(format!("{KUBECONFIG}{}", proxy.kubeconfig().display()));
    let mut child = Child::spawn("the program", &behind, PathBuf::from(log))?;
    loop {
        if let Some(status) = child.exited()? {
            return Ok(as_it_ended(status));
        }
        tokio::select! {
            _ = terminate.recv() => child.signal(Signal::TERM)?,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// What happens on a bad day: requests and answers that are late, refused or lost, watches that lag and end.
fn mild_faults() -> Vec<Rule> {
    let soon = Duration::from_millis(50);
    let mut rules = vec![
        Rule::new(Match::of("leases"), Fault::Slow(soon)).when(When::chance(0.2)),
        Rule::new(Match::writes("leases"), Fault::Refuse(Moment::Before, Refusal::unavailable())).when(When::chance(0.05)),
    ];
    for resource in RESOURCES {
        let writes = [
            (Fault::Delay(soon), 0.2),
            (Fault::Slow(soon), 0.2),
            (Fault::Refuse(Moment::Before, Refusal::too_many_requests().retry_after(1)), 0.02),
            (Fault::Refuse(Moment::Before, Refusal::internal()), 0.02),
            (Fault::Refuse(Moment::Before, Refusal::unavailable()), 0.01),
            (Fault::Lose(Moment::Before, Loss::Stream), 0.02),
            (Fault::Lose(Moment::After, Loss::Stream), 0.02),
            (Fault::Lose(Moment::After, Loss::Connection), 0.005),
        ];
        rules.extend(writes.map(|(fault, chance)| Rule::new(Match::writes(resource), fault).when(When::chance(chance))));
        let watches = [
            (WatchFault::Lag(soon), 1.0),
            (WatchFault::Cut(Ending::Close, Point::After(EventMatch::any())), 0.005),
            (WatchFault::Cut(Ending::Reset, Point::Inside(EventMatch::any())), 0.005),
        ];
        rules.extend(watches.map(|(fault, chance)| Rule::new(Match::watches(resource), Fault::Watch(fault)).when(When::chance(chance))));
    }
    rules
}

/// FNV-1a of the test's name, so that a test meets its own faults whichever others run.
fn seed_of(test: &str) -> u64 {
    test.bytes().fold(SEED ^ 0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

fn as_it_ended(status: ExitStatus) -> ExitCode {
    match status.code() {
        Some(code) => u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from),
        None => ExitCode::FAILURE,
    }
}
