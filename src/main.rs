//! Kubernetes' workload controllers in one small process: a drop-in for those of kube-controller-manager.

mod app;
mod caches;
mod deployment;
mod doctor;
mod explain;
mod gates;
mod generate;
mod handlers;
mod kubeconfig;
mod leader;
mod metrics;
mod observe;
mod options;
mod replicaset;
mod serve;
mod statefulset;
mod takeover;
mod tally;
mod telemetry;
mod verify;
mod wiring;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use parking_lot::Mutex;

use crate::options::{Command, Ignored, Options, Version};

fn main() -> ExitCode {
    let options = Options::read();
    if options.version != Version::No {
        println!("{}", options.version);
        return ExitCode::SUCCESS;
    }
    match options.command.clone() {
        None => serve(options),
        Some(Command::Explain(asked)) => told(run(explain::command::run(*asked))),
        Some(Command::Doctor(asked)) => examined(run(doctor::run(*asked))),
        Some(Command::Generate(asked)) => told(generate::run(&asked)),
        Some(Command::Verify(asked)) => told(run(verify::run(*asked))),
        Some(Command::Pause) => told(run(verify::pause())),
        Some(Command::Completion { shell }) => {
            print!("{}", options::completion(shell));
            ExitCode::SUCCESS
        }
    }
}

/// Runs the controllers.
fn serve(options: Options) -> ExitCode {
    let logs = match telemetry::start(&options.logging) {
        Ok(logs) => logs,
        Err(error) => return told(Err(error)),
    };
    warn_of(&options);
    match run(app::run(options, logs.verbosity())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "Ending");
            ExitCode::FAILURE
        }
    }
}

/// Says what of the command line has no effect.
fn warn_of(options: &Options) {
    for ignored in &options.ignored {
        match ignored {
            Ignored::Flag(flag) => tracing::warn!(flag, "Ignoring a flag that only kube-controller-manager has"),
            Ignored::Gate(gate) => tracing::warn!(gate, "Ignoring a feature gate that only kube-controller-manager has"),
        }
    }
    if options.debugging.contention_profiling {
        tracing::warn!(flag = "--contention-profiling", "There are no profiles here");
    }
}

/// What a command that is asked for by a person comes to.
fn told(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What an examination comes to: it has exit codes of its own, and one that could not be made is neither a good sign nor a bad one.
fn examined(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}

/// A wake-up costs more than what it is for, and a busy API server sends each event by itself: the next one comes no sooner than this. What
/// comes alone is served at once.
const REST: Duration = Duration::from_millis(2);

/// One thread carries a hundred thousand pods with ease; more of them spend their time on waking each other, and each brings an allocator
/// arena of its own.
fn run<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let parked = Mutex::new(Instant::now());
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.on_thread_park(move || rest(&parked));
    runtime.enable_all().build().context("starting the async runtime")?.block_on(work)
}

/// Lets events gather, if the thread has just been woken.
fn rest(parked: &Mutex<Instant>) {
    let mut parked = parked.lock();
    if let Some(rest) = REST.checked_sub(parked.elapsed()) {
        std::thread::sleep(rest);
    }
    *parked = Instant::now();
}
