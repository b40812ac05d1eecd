//! The command line: kube-controller-manager's flag names and defaults. One struct for each group of `--help`.

mod connection;
mod controllers;
mod duration;
mod leader_election;
mod logging;
mod mode;
mod serving;
mod tls;

use std::collections::BTreeMap;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

pub(crate) use connection::ConnectionOptions;
pub(crate) use controllers::{ControllerName, ControllerOptions};
pub(crate) use duration::{format_go_duration, go_duration};
pub(crate) use leader_election::LeaderElectionOptions;
pub(crate) use logging::LoggingOptions;
pub(crate) use mode::{Mode, ModeOptions};
pub(crate) use serving::{AuthenticationOptions, AuthorizationOptions, ServingOptions};
pub(crate) use tls::TlsVersion;

use crate::explain::command::ExplainOptions;
use crate::gates::FeatureGates;
use crate::verify::VerifyOptions;

/// Runs Kubernetes' workload controllers in place of kube-controller-manager's.
#[derive(Parser, Clone, Debug)]
// As with upstream's flags, the last of several wins.
#[command(
    name = "workloads-controller-manager",
    version,
    max_term_width = 120,
    args_override_self = true,
    args_conflicts_with_subcommands = true
)]
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
    pub(crate) serving: ServingOptions,
    #[command(flatten)]
    pub(crate) authentication: AuthenticationOptions,
    #[command(flatten)]
    pub(crate) authorization: AuthorizationOptions,
    #[command(flatten)]
    pub(crate) logging: LoggingOptions,

    /// Feature gates, as Name=true or Name=false, separated by commas.
    #[arg(long, value_name = "GATES", default_value = "", help_heading = "Features")]
    pub(crate) feature_gates: FeatureGates,

    /// What to do instead of running the controllers.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Every flag by its name, with the text of its value.
    #[arg(skip)]
    pub(crate) given: BTreeMap<String, String>,
}

/// What can be done besides running the controllers.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Command {
    Explain(Box<ExplainOptions>),
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
        let matches = Self::command().get_matches();
        let mut options = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        options.given = given(&matches);
        options
    }

    /// What no parser of a single flag can see.
    ///
    /// # Errors
    /// A sentence that names the flag.
    pub(crate) fn validate(&self) -> Result<(), String> {
        self.leader_election.validate()?;
        self.controllers.enabled().map(|_| ())
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ControllerName::{Deployment, ReplicaSet, StatefulSet};

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        let all = ["workloads-controller-manager", "--leader-elect=false"].iter().chain(arguments);
        let options = Options::try_parse_from(all).map_err(|error| error.to_string())?;
        options.validate().map(|()| options)
    }

    #[test]
    fn the_first_entry_that_names_a_controller_wins() {
        for (list, expected) in [
            ("*", &[Deployment, ReplicaSet, StatefulSet][..]),
            ("replicaset-controller", &[ReplicaSet]),
            ("replicaset", &[ReplicaSet]),
            ("*,-replicaset-controller,replicaset", &[Deployment, StatefulSet]),
            ("replicaset,-replicaset-controller", &[ReplicaSet]),
            ("-deployment-controller,*", &[ReplicaSet, StatefulSet]),
            ("statefulset", &[StatefulSet]),
            ("*,bootstrapsigner,tokencleaner", &[Deployment, ReplicaSet, StatefulSet]),
            ("bootstrapsigner,tokencleaner", &[]),
        ] {
            let got = parse(&["--controllers", list]).and_then(|options| options.controllers.enabled());
            assert_eq!(got.unwrap_or_default(), expected, "{list}");
        }
    }

    #[test]
    fn bad_flags_are_named() {
        for (arguments, names) in [
            (&["--controllers", "nonsense"][..], "nonsense"),
            (&["--controllers", "-replicaset"], "no controller is left"),
            (&["--leader-elect=true", "--leader-elect-lease-duration=5s"], "--leader-elect-lease-duration"),
            (&["--kube-api-qps", "0"], "--kube-api-qps"),
            (&["--concurrent-replicaset-syncs", "0"], "--concurrent-replicaset-syncs"),
            (&["--min-resync-period", "12"], "--min-resync-period"),
            (&["--bind-address", "localhost"], "--bind-address"),
            (&["--tls-cert-file", "c"], "--tls-private-key-file"),
            (&["--tls-min-version", "VersionTLS11"], "VersionTLS11"),
            (&["--tls-cipher-suites", "TLS_RSA_WITH_RC4_128_SHA"], "TLS_RSA_WITH_RC4_128_SHA"),
            (&["--authorization-always-allow-paths", "/a*b"], "--authorization-always-allow-paths"),
            (&["--requestheader-allowed-names", "a, "], "--requestheader-allowed-names"),
            (&["--port", "0"], "--port"),
            (&["--feature-gates", "Nope=true"], "Nope"),
            (&["--mode", "watch"], "--mode"),
            (&["--observe-overdue-after", "0"], "--observe-overdue-after"),
        ] {
            let mut all = vec!["wcm", "--leader-elect=false"];
            all.extend(arguments);
            let error = Options::try_parse_from(all).map_err(|error| error.to_string()).and_then(|options| options.validate()).unwrap_err();
            assert!(error.contains(names), "{error} should contain {names}");
        }
    }

    #[test]
    fn flags_may_be_repeated_as_upstreams() {
        let options =
            parse(&["--kube-api-burst=5", "--kube-api-burst=7", "--controllers=bootstrapsigner", "--controllers=replicaset"]).unwrap();
        assert_eq!(options.connection.kube_api_burst, 7);
        assert_eq!(options.controllers.controllers, ["bootstrapsigner", "replicaset"]);
    }

    #[test]
    fn leader_election_is_on_unless_turned_off_as_upstream() {
        let options = Options::try_parse_from(["wcm"]).unwrap();
        options.validate().unwrap();
        assert!(options.leader_election.leader_elect);
    }
}
