//! `thermocline tunnel keys`: a key for an end.

use crate::error::CliError;
use crate::output;
use std::path::PathBuf;
use thermocline_gateway::{Made, make_keys};

const EXAMPLES: &str = "\
Examples:
  thermocline tunnel keys enter      near the clients; bring enter.pub to the servers
  thermocline tunnel keys exit       near the servers; bring exit.pub to the clients

If only NAME.pub was lost, it is written again from NAME.key.";

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Name of the files, without an ending.
    #[arg(value_name = "NAME")]
    name: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let made = make_keys(&args.name).map_err(CliError::input)?;
    let Made { private, public, fingerprint, was_there } = made;
    let (private, public) = (private.display(), public.display());
    output::print(&match was_there {
        false => format!(
            "{private}: for this end alone\n{public}: for the other end, which names it with --peer\n{fingerprint}\n"
        ),
        true => format!(
            "{public}: written again from {private}, which was there already\n{fingerprint}\n"
        ),
    })
}
