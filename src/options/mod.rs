//! The command line: kube-controller-manager's flag names and defaults. One struct for each group of `--help`.

mod boolean;
mod completion;
mod connection;
mod controllers;
mod duration;
mod features;
pub(crate) mod foreign;
mod leader_election;
mod logging;
mod metrics;
mod mode;
mod serving;
#[cfg(test)]
mod tests;
mod tls;
mod version;

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

pub(crate) use boolean::go_bool;
pub(crate) use completion::completion;
pub(crate) use connection::ConnectionOptions;
pub(crate) use controllers::{ControllerName, ControllerOptions};
pub(crate) use duration::{format_go_duration, go_duration};
pub(crate) use features::FeatureOptions;
pub(crate) use foreign::ForeignOptions;
pub(crate) use leader_election::{LeaderElectionOptions, LeaderMigrationOptions};
pub(crate) use logging::{LoggingOptions, ModuleLevel};
pub(crate) use metrics::MetricsOptions;
pub(crate) use mode::{Mode, ModeOptions};
pub(crate) use serving::{AuthenticationOptions, AuthorizationOptions, DEFAULT_PORT, DebuggingOptions, NamedPair, ServingOptions};
pub(crate) use tls::{Curve, TlsVersion};
pub(crate) use version::Version;

use crate::doctor::DoctorOptions;
use crate::explain::command::ExplainOptions;
use crate::gates::FeatureGates;
use crate::generate::GenerateOptions;
use crate::verify::VerifyOptions;

/// Runs Kubernetes' workload controllers in place of kube-controller-manager's.
#[derive(Parser, Clone, Debug)]
// As with upstream's flags, the last of several wins.
#[command(name = "workloads-controller-manager", max_term_width = 120, args_override_self = true, args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) connection: ConnectionOptions,
    #[command(flatten)]
    pub(crate) mode: ModeOptions,
    #[command(flatten)]
    pub(crate) controllers: ControllerOptions,
    #[command(flatten)]
    pub(crate) leader_election: LeaderElectionOptions,
    #[command(flatten)]
    pub(crate) leader_migration: LeaderMigrationOptions,
    #[command(flatten)]
    pub(crate) serving: ServingOptions,
    #[command(flatten)]
    pub(crate) debugging: DebuggingOptions,
    #[command(flatten)]
    pub(crate) authentication: AuthenticationOptions,
    #[command(flatten)]
    pub(crate) authorization: AuthorizationOptions,
    #[command(flatten)]
    pub(crate) logging: LoggingOptions,
    #[command(flatten)]
    pub(crate) metrics: MetricsOptions,
    #[command(flatten)]
    pub(crate) features: FeatureOptions,
    #[command(flatten)]
    pub(crate) foreign: ForeignOptions,

    /// Print the version and end; raw prints all that is known of the build.
    #[arg(help_heading = "Global", short = 'V', long, value_name = "true|false|raw", default_value = "false", hide_default_value = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) version: Version,

    /// What to do instead of running the controllers.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// The gates of [`FeatureOptions`].
    #[arg(skip)]
    pub(crate) gates: FeatureGates,

    /// What was given of [`ForeignOptions`]: flags and gates that mean nothing here.
    #[arg(skip)]
    pub(crate) ignored: Vec<Ignored>,

    /// Every flag by its name, with the text of its value.
    #[arg(skip)]
    pub(crate) given: BTreeMap<String, String>,
}

/// What is taken and ignored, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ignored {
    /// `--name`.
    Flag(String),
    /// The gate's name.
    Gate(String),
}

/// What can be done besides running the controllers.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Command {
    Explain(Box<ExplainOptions>),
    Doctor(Box<DoctorOptions>),
    Generate(Box<GenerateOptions>),
    Verify(Box<VerifyOptions>),
    /// Does nothing until it is told to end: what the pods of verify run.
    Pause,
    /// Prints the completion script of a shell.
    Completion {
        /// Which shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

// === impl Options ===

impl Options {
    /// Reads the command line; what is wrong with it ends the process.
    pub(crate) fn read() -> Self {
        Self::of(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    /// Reads these arguments, the program's name first.
    ///
    /// # Errors
    /// What is wrong with them, by the flag's name.
    pub(crate) fn of<S: Into<OsString>>(arguments: impl IntoIterator<Item = S>) -> Result<Self, clap::Error> {
        let mut command = foreign::with_flags(Self::command());
        let arguments = arguments.into_iter().map(Into::into).map(with_dashes);
        let matches = command.try_get_matches_from_mut(arguments)?;
        let mut options = Self::from_arg_matches(&matches)?;
        options.given = given(&matches);
        // Who asks for the version gets it, whatever else is said.
        if options.version == Version::No {
            options.complete(&matches).map_err(|problem| command.error(ErrorKind::ValueValidation, problem))?;
        }
        Ok(options)
    }

    /// What no parser of a single flag can see.
    ///
    /// # Errors
    /// A sentence that names the flag.
    fn complete(&mut self, matches: &ArgMatches) -> Result<(), String> {
        let ignore = self.foreign.ignore_foreign_flags;
        let flags = foreign::given(matches);
        if let Some(flag) = flags.first().filter(|_| !ignore) {
            return Err(format!("unexpected argument '{flag}'{}", foreign::HINT));
        }
        let (gates, others) = FeatureGates::new(&self.features.feature_gates, ignore, self.features.emulated_version)?;
        self.gates = gates;
        self.ignored = flags.into_iter().map(Ignored::Flag).chain(others.into_iter().map(Ignored::Gate)).collect();
        self.logging.validate(&self.gates)?;
        self.leader_election.validate()?;
        self.leader_migration.validate(&self.leader_election)?;
        self.controllers.enabled().map(|_| ())
    }
}

/// Flags may be written with underscores (component-base `cli/flag` `WordSepNormalizeFunc`).
fn with_dashes(argument: OsString) -> OsString {
    let Some(text) = argument.to_str().filter(|text| text.starts_with("--")) else { return argument };
    let end = text.find('=').unwrap_or(text.len());
    let (name, value) = text.split_at(end);
    format!("{}{value}", name.replace('_', "-")).into()
}

/// The flags and their values, as they were written; of lists all parts.
fn given(matches: &ArgMatches) -> BTreeMap<String, String> {
    let command = Options::command();
    let flags = command.get_arguments().filter_map(|argument| Some((argument.get_long()?.to_owned(), argument.get_id())));
    let value = |id: &clap::Id| {
        let parts = matches.get_raw(id.as_str()).into_iter().flatten().map(|part| part.to_string_lossy());
        parts.collect::<Vec<_>>().join(",")
    };
    flags.map(|(flag, id)| (flag, value(id))).collect()
}
