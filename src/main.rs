//! Kubernetes' workload controllers in one small process: a drop-in for those of kube-controller-manager.

mod app;
mod caches;
mod deployment;
mod gates;
mod handlers;
mod leader;
mod options;
mod replicaset;
mod serve;
mod statefulset;
mod takeover;
mod telemetry;
mod wiring;

use std::process::ExitCode;

use clap::CommandFactory;

use crate::options::Options;

fn main() -> ExitCode {
    let options = Options::read();
    if let Err(problem) = options.validate() {
        Options::command().error(clap::error::ErrorKind::ValueValidation, problem).exit();
    }
    let verbosity = telemetry::start(options.logging.verbosity, &options.logging.logging_format);
    // One thread carries a hundred thousand pods with ease; more of them spend their time on waking each other, and each brings an
    // allocator arena of its own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(app::run(options, verbosity)),
        Err(error) => Err(anyhow::Error::new(error).context("starting the async runtime")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "Ending");
            ExitCode::FAILURE
        }
    }
}
