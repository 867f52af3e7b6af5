//! `thermocline trace stat`: what a workload and each of its volumes are like.

mod json;
mod text;

use crate::error::CliError;
use crate::output;
use crate::progress::{Progress, Unit};
use crate::source::SourceArgs;
use thermocline_trace::TraceReader;
use thermocline_trace::stat::{Characterisation, Characteristics, WorkloadCharacteristics};

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

/// All that is reported.
struct Report {
    /// The traces, as the command line names them.
    traces: Vec<String>,
    /// Repairs by the readers.
    repairs: Vec<String>,
    /// Names of the volumes, by id.
    names: Vec<String>,
    found: WorkloadCharacteristics,
}

impl Report {
    /// Volumes that have requests, with their names.
    fn volumes(&self) -> impl Iterator<Item = (&str, &Characteristics)> {
        let names = self.names.iter().map(String::as_str);
        names.zip(&self.found.volumes).filter(|(_, volume)| volume.requests() > 0)
    }
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let mut reader = args.source.open()?;
    let bar = Progress::bar(args.source.size_bytes(), Unit::Bytes, "characterising");
    let found = Characterisation::read(&mut *reader, &|bytes| bar.at(bytes));
    drop(bar);
    let report = Report {
        found: found.map_err(CliError::input)?,
        traces: args.source.sources().iter().map(ToString::to_string).collect(),
        repairs: reader.repairs(),
        names: reader.volumes().to_vec(),
    };
    if args.output.json {
        return output::print(&json::json(&report)?);
    }
    let several = 2..=VOLUMES_SHOWN_MAX;
    let volumes = args.output.volumes || several.contains(&report.found.whole.volumes);
    output::print(&text::text(&report, volumes))
}
