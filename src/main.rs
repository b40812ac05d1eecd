//! Kubernetes' workload controllers in one small process: a drop-in for those of kube-controller-manager.

mod app;
mod caches;
mod deployment;
mod explain;
mod gates;
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
mod telemetry;
mod verify;
mod wiring;

use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;

use crate::options::{Command, Options};

fn main() -> ExitCode {
    let options = Options::read();
    if let Err(problem) = options.validate() {
        Options::command().error(clap::error::ErrorKind::ValueValidation, problem).exit();
    }
    match options.command.clone() {
        None => serve(options),
        Some(Command::Explain(asked)) => told(run(explain::command::run(*asked))),
        Some(Command::Verify(asked)) => told(run(verify::run(*asked))),
        Some(Command::Pause) => told(run(verify::pause())),
        Some(Command::Completion { shell }) => {
            let mut command = Options::command();
            let name = command.get_name().to_owned();
            clap_complete::generate(shell, &mut command, name, &mut std::io::stdout());
            ExitCode::SUCCESS
        }
    }
}

/// Runs the controllers.
fn serve(options: Options) -> ExitCode {
    let verbosity = telemetry::start(options.logging.verbosity, &options.logging.logging_format);
    match run(app::run(options, verbosity)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "Ending");
            ExitCode::FAILURE
        }
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

/// One thread carries a hundred thousand pods with ease; more of them spend their time on waking each other, and each brings an allocator
/// arena of its own.
fn run(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the async runtime")?.block_on(work)
}
