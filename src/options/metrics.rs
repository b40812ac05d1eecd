//! Which metrics are shown.

use clap::Args;

/// Which metrics are shown (upstream component-base `metrics/options.go`).
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Metrics")]
pub(crate) struct MetricsOptions {
    /// Metrics that are not shown, by their full names: a way out when one misbehaves.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) disabled_metrics: Vec<String>,
}
