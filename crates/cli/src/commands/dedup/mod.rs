//! `thermocline dedup …`: how much of some data repeats itself.

mod estimate;

use crate::error::CliError;
use clap::Subcommand;

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Say what a tunnel would save of these files, by chunking and chunk size.
    Estimate(estimate::Args),
}

pub(crate) fn run(command: Command) -> Result<(), CliError> {
    match command {
        Command::Estimate(args) => estimate::run(args),
    }
}
