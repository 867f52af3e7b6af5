//! `thermocline policies`: every policy with its source and settings.

use crate::error::CliError;

/// What to list.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only policies whose name or summary contains this word.
    word: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let _ = (args.word, args.json);
    Err(CliError::failed("not built yet"))
}
