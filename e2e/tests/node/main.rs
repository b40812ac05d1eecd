//! The Helm chart with our image on a real node: it takes over what kube-controller-manager runs, and gives it back.
//!
//! Needs root and namespaces. A machine that has neither says so, and the test counts as skipped; with `NODE=required` that is a failure.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests, which fail by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod rig;
mod scrape;
mod static_pod;
mod story;
mod workloads;

use std::process::ExitCode;

use anyhow::Result;
use e2e::node::{self, sandbox};
use e2e::prometheus::Programs;

use rig::World;
use support::scenarios::{Scenario, run};

const SCENARIOS: &[Scenario<World>] = scenarios! {
    story::{the_chart_takes_over_and_gives_back},
};

fn main() -> ExitCode {
    if sandbox::inside() || std::env::args().any(|argument| argument == "--list") {
        return run(SCENARIOS);
    }
    match enter() {
        Ok(Some(reason)) => {
            println!("test node ... skipped: {reason}");
            if std::env::var_os("NODE").is_some_and(|value| value == "required") { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Ok(None) => unreachable!("this process is another one now"),
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs this program in a sandbox, or says why there cannot be one.
fn enter() -> Result<Option<String>> {
    if let Some(reason) = sandbox::refusal()? {
        return Ok(Some(reason));
    }
    // Inside nothing can be downloaded.
    tokio::runtime::Runtime::new()?.block_on(async { tokio::try_join!(node::build(), Programs::find()) })?;
    match sandbox::enter()? {}
}
