//! Which features are on.

use clap::Args;

use crate::gates::{GateSetting, Release};

/// Which features are on.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Features")]
pub(crate) struct FeatureOptions {
    /// Feature gates, as Name=true or Name=false, separated by commas; `AllAlpha` and `AllBeta` are all of that stage. May be repeated.
    #[arg(long, value_name = "GATES", value_delimiter = ',')]
    pub(crate) feature_gates: Vec<GateSetting>,

    /// Take the gates' defaults from this release (1.34 to 1.37), whatever the server's is; gates that are newer cannot be set then.
    #[arg(long, value_name = "VERSION", value_parser = Release::emulated)]
    pub(crate) emulated_version: Option<Release>,
}
