//! What is logged, and how.

use clap::Args;

/// What is logged, and how.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Logs")]
pub(crate) struct LoggingOptions {
    /// Log lines: text or json.
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    pub(crate) logging_format: String,

    /// Verbosity, as in klog: 2 adds syncs and their steps, 4 what the libraries say, 6 and above everything.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    pub(crate) verbosity: u8,
}
