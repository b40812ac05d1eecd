//! Log lines: constant text with fields, on standard error.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Starts logging. `RUST_LOG` overrides the verbosity.
pub(crate) fn start(verbosity: u8, format: &str) {
    let directives = match verbosity {
        0 | 1 => "info",
        2 | 3 => "info,machinery=debug,workloads_controller_manager=debug",
        4 | 5 => "debug,h2=info,hyper_util=info",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(directives));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_span_events(FmtSpan::NONE);
    if format == "json" { lines.json().init() } else { lines.init() }
}
