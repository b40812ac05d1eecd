//! Completion scripts of shells.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::Options;

/// The script of a shell.
pub(crate) fn completion(shell: Shell) -> String {
    let mut command = Options::command();
    let (name, mut script) = (command.get_name().to_owned(), Vec::new());
    clap_complete::generate(shell, &mut command, &name, &mut script);
    let script = String::from_utf8_lossy(&script);
    // clap_complete 4.6.12 spells the hyphens of a program's name in two ways in bash's script, which then knows no flag of a subcommand.
    script.replace(&name.replace('-', "__subcmd__"), &name.replace('-', "__"))
}
