//! `thermocline trace stat`: what a workload and each of its volumes are like.

mod text;

use crate::error::CliError;
use crate::output;
use crate::progress::Bars;
use crate::source::SourceArgs;
use thermocline_sim::stat::StatReport;

const EXAMPLES: &str = "\
Examples:
  thermocline trace stat web.csv.gz
  thermocline trace stat hm_0.csv.gz usr_1.csv.gz --volumes
  zstdcat big.csv.zst | thermocline trace stat - --json

docs/guides/traces.md defines every row.";

/// Volumes up to which they are shown without being asked for.
const VOLUMES_SHOWN_MAX: u64 = 8;

/// Options of a characterisation.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    output: Output,
}

/// Destinations of the results.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
struct Output {
    /// Show each volume too, however many; without it only where there are 2 to 8.
    #[arg(long)]
    volumes: bool,
    /// Print JSON instead of tables, always with each volume.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let bars = Bars::default();
    let report = StatReport::read(&args.source.traces(), &bars).map_err(CliError::input)?;
    drop(bars);
    if args.output.json {
        let text = serde_json::to_string_pretty(&report.to_json()).map_err(CliError::failed)?;
        return output::print(&(text + "\n"));
    }
    let several = 2..=VOLUMES_SHOWN_MAX;
    let volumes = args.output.volumes || several.contains(&report.found.whole.volumes);
    output::print(&text::text(&report, volumes))
}
