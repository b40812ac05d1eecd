//! `workloads-controller-manager generate`: manifests, printed.

mod rights;
mod static_pod;

use clap::{Args, Subcommand};

use self::static_pod::StaticPodOptions;

/// Prints manifests.
#[derive(Args, Clone, Debug)]
pub(crate) struct GenerateOptions {
    #[command(subcommand)]
    what: Generate,
}

/// What can be printed.
#[derive(Subcommand, Clone, Debug)]
enum Generate {
    StaticPod(Box<StaticPodOptions>),
}

/// Prints it.
///
/// # Errors
/// When flags that are to be passed on cannot be used.
pub(crate) fn run(options: &GenerateOptions) -> anyhow::Result<()> {
    let Generate::StaticPod(options) = &options.what;
    print!("{}", static_pod::generate(options)?);
    Ok(())
}
