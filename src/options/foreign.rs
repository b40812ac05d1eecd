//! What kube-controller-manager can be told and this program cannot: the flags and feature gates of its other controllers. A command
//! line that was written for it is taken with `--ignore-foreign-flags`.

use clap::{Arg, ArgAction, ArgMatches, Args, Command};

use super::boolean::go_bool;

/// What is done with them.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Other flags of kube-controller-manager")]
pub(crate) struct ForeignOptions {
    /// Take flags and feature gates of kube-controller-manager that this program does not have, and ignore them but for a warning about
    /// each. Without this they are errors.
    #[arg(long, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    pub(crate) ignore_foreign_flags: bool,
}

/// A flag that is not ours.
struct Flag {
    name: &'static str,
    takes_value: bool,
}

/// What an error about one of them ends with.
pub(crate) const HINT: &str = "; it is kube-controller-manager's and means nothing here: --ignore-foreign-flags takes it all the same";

/// `flag NAME bool|value` and `gate NAME`, one a line.
const LIST: &str = include_str!("foreign.txt");

fn flags() -> impl Iterator<Item = Flag> {
    LIST.lines().filter_map(|line| {
        let (name, takes) = line.strip_prefix("flag ")?.split_once(' ')?;
        Some(Flag { name, takes_value: takes == "value" })
    })
}

/// Whether a feature gate is one of kube-controller-manager's that nothing here reads.
pub(crate) fn is_gate(name: &str) -> bool {
    LIST.lines().any(|line| line.strip_prefix("gate ") == Some(name))
}

/// The command with those flags in it, out of sight.
pub(crate) fn with_flags(command: Command) -> Command {
    command.args(flags().map(|Flag { name, takes_value }| {
        let flag = Arg::new(name).long(name).hide(true).action(ArgAction::Append);
        if takes_value {
            // As upstream's parser, whatever comes next is the value.
            flag.num_args(1).allow_hyphen_values(true)
        } else {
            flag.num_args(0..=1).require_equals(true).default_missing_value("true")
        }
    }))
}

/// Those that were given, as they are written.
pub(crate) fn given(matches: &ArgMatches) -> Vec<String> {
    flags().filter(|flag| matches.contains_id(flag.name)).map(|flag| format!("--{}", flag.name)).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::options::Options;

    #[test]
    fn none_of_them_is_ours() {
        with_flags(Options::command()).debug_assert();
        let ours: Vec<_> = Options::command().get_arguments().filter_map(|argument| argument.get_long().map(str::to_owned)).collect();
        for Flag { name, .. } in flags() {
            assert!(!ours.iter().any(|flag| flag == name), "--{name} is in foreign.txt, but ours");
        }
        assert!(LIST.lines().skip(2).all(|line| line.starts_with("flag ") || line.starts_with("gate ")));
    }
}
