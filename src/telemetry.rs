//! Log lines: constant text with fields, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging. `RUST_LOG` overrides the verbosity.
pub(crate) fn start(verbosity: u8, format: &str) {
    let directives = match verbosity {
        0 | 1 => "info",
        2 | 3 => "info,machinery=debug,workloads_controller_manager=debug",
        4 | 5 => "debug,h2=info,hyper_util=info",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(directives));
    let colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    if format == "json" { lines.json().init() } else { lines.init() }
}
