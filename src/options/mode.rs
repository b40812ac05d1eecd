//! Whether the controllers work or only look on, and beside whom they may work.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::boolean::go_bool;
use super::duration::go_duration;

/// Whether the controllers work or only look on, and beside whom they may work.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Mode")]
pub(crate) struct ModeOptions {
    /// Whether to work, or only to look on.
    #[arg(long, value_name = "MODE", default_value = "active", value_enum)]
    pub(crate) mode: Mode,

    /// When observing: what has been called for so long, and done by nobody, is reported as a difference; a Go duration.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = overdue_after)]
    pub(crate) observe_overdue_after: Duration,

    /// Work although a kube-controller-manager is alive that runs the same controllers. Two writers undo each other's work.
    #[arg(long, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, action = clap::ArgAction::Set)]
    pub(crate) allow_other_writers: bool,
}

/// What the process does with what it decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Carry it out.
    Active,
    /// Decide, report, and write nothing, not even a lease: any number may run, beside whoever does the work.
    Observe,
}

fn overdue_after(text: &str) -> Result<Duration, String> {
    match go_duration(text)? {
        duration if duration.is_zero() => Err("must be greater than zero".to_owned()),
        duration => Ok(duration),
    }
}
