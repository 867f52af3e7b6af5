//! Checks of the help of every command.

use super::Cli;
use clap::{Command, CommandFactory};

/// Widest line of a help text; wider ones are broken in the middle, at the end of a terminal.
const WIDTH: usize = 100;

fn check(command: &Command, path: &str) {
    let path = format!("{path} {}", command.get_name());
    let texts =
        [command.get_before_help(), command.get_after_help(), command.get_after_long_help()];
    for line in texts.into_iter().flatten().map(ToString::to_string).collect::<String>().lines() {
        let width = line.chars().count();
        assert!(width <= WIDTH, "{path} --help has a line of {width} characters:\n{line}");
    }
    command.get_subcommands().for_each(|command| check(command, &path));
}

/// Examples and notes of `up`, `pool`, `hint` and others were broken in the middle of a line.
#[test]
fn lines_below_the_options_fit_on_a_terminal() {
    check(&Cli::command(), "");
}

#[test]
fn the_commands_are_consistent() {
    Cli::command().debug_assert();
}
