//! `thermocline trace …`: characterise, convert, picture and make block traces.

use crate::error::CliError;
use clap::Subcommand;

/// What to do with traces.
#[derive(Subcommand)]
pub(crate) enum Command {}

pub(crate) fn run(command: Command) -> Result<(), CliError> {
    match command {}
}
