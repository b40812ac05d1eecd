//! Log lines: constant text with fields, on standard error.

mod klog;

use std::sync::Arc;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::JsonFields;

use self::klog::Klog;

/// Changes what is logged while the process runs. Clones change the same.
#[derive(Clone)]
pub(crate) struct Verbosity(Arc<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>);

/// Starts logging. `RUST_LOG` overrides the verbosity, until somebody changes it.
pub(crate) fn start(verbosity: u8, format: &str) -> Verbosity {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| filter(verbosity.into()));
    let format = if format == "json" { Klog::Json } else { Klog::Text };
    // The fields of spans are kept as JSON, whatever is made of them.
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).fmt_fields(JsonFields::new());
    let lines = lines.event_format(format).with_filter_reloading();
    let handle = lines.reload_handle();
    lines.init();
    Verbosity(Arc::new(move |filter| handle.reload(filter).map_err(|error| error.to_string())))
}

fn filter(verbosity: u32) -> EnvFilter {
    EnvFilter::new(match verbosity {
        0 | 1 => "info",
        2 | 3 => "info,machinery=debug,workloads_controller_manager=debug",
        4 | 5 => "debug,h2=info,hyper_util=info",
        _ => "trace",
    })
}

// === impl Verbosity ===

impl Verbosity {
    /// From now on, as `-v` would have it.
    pub(crate) fn set(&self, verbosity: u32) -> Result<(), String> {
        (self.0)(filter(verbosity))
    }
}
