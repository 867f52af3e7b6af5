//! `thermocline trace …`: characterise, convert, picture and make block traces.

mod chunks;
mod convert;
mod plot;
mod stat;
mod synth;
mod target;

use crate::error::CliError;
use clap::Subcommand;

/// Work on traces.
#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // One value in a run.
pub(crate) enum Command {
    /// Say what traces are like: amounts, working set, popularity, order, sizes, arrivals.
    Stat(stat::Args),
    /// Draw where and when traces go: popularity over address and time, working sets, sizes.
    Plot(plot::Args),
    /// Say what chunks are like, window by window, as ChewAnalyzer sees them: patterns, classes.
    Chunks(chunks::Args),
    /// Convert traces, or parts of them, to Parquet, CSV or a fio log.
    Convert(convert::Args),
    /// Make a trace from stated parameters, seeded.
    Synth(synth::Args),
}

pub(crate) fn run(command: Command) -> Result<(), CliError> {
    match command {
        Command::Stat(args) => stat::run(args),
        Command::Plot(args) => plot::run(args),
        Command::Chunks(args) => chunks::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Synth(args) => synth::run(args),
    }
}
