//! Who of several replicas works.

use clap::Args;

/// Who of several replicas works.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct LeaderElectionOptions {
    /// Take part in leader election. Not available yet: false is the only value that can be served.
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) leader_elect: bool,
}
