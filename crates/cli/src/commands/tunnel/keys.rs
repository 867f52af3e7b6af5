//! `thermocline tunnel keys`: a key for an end.

use crate::error::CliError;
use crate::output;
use std::path::PathBuf;
use thermocline_gateway::make_keys;

const EXAMPLES: &str = "\
Examples:
  thermocline tunnel keys enter      near the clients; bring enter.pub to the servers
  thermocline tunnel keys exit       near the servers; bring exit.pub to the clients";

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Name of the files, without an ending.
    #[arg(value_name = "NAME")]
    name: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let (private, public, fingerprint) = make_keys(&args.name).map_err(CliError::input)?;
    output::print(&format!(
        "{}: for this end alone\n{}: for the other end, which names it with --peer\n{fingerprint}\n",
        private.display(),
        public.display()
    ))
}
