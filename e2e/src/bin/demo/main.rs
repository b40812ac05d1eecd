//! `make demo`: a real control plane, simulated nodes and our program. A Deployment comes up, is rolled, is given an image that never starts
//! until its progress deadline is over, and is rolled back; a StatefulSet comes up in order, is rolled in order, has a canary, and is freed from
//! a revision that wedges it. Live in the terminal. With a terminal everything then stays up to be played with until Ctrl-C.

mod deployment;
mod show;
mod statefulset;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::show::Show;

/// Shows the workload controllers at work on a control plane of their own.
#[derive(Parser)]
struct Arguments {
    /// Simulated nodes.
    #[arg(long, default_value_t = 10)]
    nodes: u32,
    /// Ends after the show, as without a terminal.
    #[arg(long)]
    once: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Dropping the show on the way out ends every child, whichever way that is.
    let ended = tokio::select! {
        ended = run(&arguments) => ended,
        _ = tokio::signal::ctrl_c() => {
            println!("\nstopping");
            Ok(())
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<()> {
    let terminal = std::io::stdout().is_terminal();
    let mut show = Show::start(arguments.nodes, terminal).await?;
    deployment::play(&mut show).await?;
    statefulset::play(&mut show).await?;
    if terminal && !arguments.once {
        show.invite();
        show.stay().await?;
    }
    show.end().await
}
