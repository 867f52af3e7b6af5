//! `thermocline trace plot`: where and when a trace goes, as a picture.

use crate::error::CliError;
use crate::output;
use crate::progress::{Progress, Unit as Counted};
use crate::source::SourceArgs;
use std::path::PathBuf;
use thermocline_charts::Chart;
use thermocline_sim::popularity::Popularity;
use thermocline_sim::workload::{Cut, Unit, Workload};
use thermocline_trace::stat::BIN_TEXT;
use thermocline_units::{Bytes, Nanos};

const EXAMPLES: &str = "\
Examples:
  thermocline trace plot web.csv.gz --output web.html
  thermocline trace plot web.csv.gz --output map.svg --chunk 16MiB --interval 1h

A name that ends in .svg gets the map of popularity alone; .html gets the map, the working set and
the chunks of each interval, the request rates and the sizes on one self-contained page.";

/// Options of a plot.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// The picture: NAME.html or NAME.svg.
    #[arg(long, short, value_name = "OUT")]
    output: PathBuf,
    /// Bytes of a chunk, the unit of popularity (the sources' bin).
    #[arg(long, value_name = "SIZE", default_value = BIN_TEXT)]
    chunk: Bytes,
    /// Length of an interval of time; chosen when not given.
    #[arg(long, value_name = "TIME")]
    interval: Option<Nanos>,
    /// Write over a file that exists.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let svg = match args.output.extension().and_then(|ending| ending.to_str()) {
        Some("svg") => true,
        Some("html" | "htm") => false,
        _ => {
            let name = args.output.display();
            return Err(CliError::input(format!("{name}: name the picture .html or .svg")));
        }
    };
    if args.chunk.0 < 4096 || !args.chunk.0.is_power_of_two() {
        let chunk = args.chunk;
        return Err(CliError::input(format!("--chunk {chunk}: use a power of two from 4KiB up")));
    }
    let cut = Cut { unit: Unit::Lines(Bytes::from_kib(4)), chunk: Some(args.chunk) };
    let mut reader = args.source.open()?;
    let bar = Progress::bar(args.source.size_bytes(), Counted::Bytes, "reading");
    let workload = Workload::read(&mut *reader, cut, &|bytes| bar.at(bytes));
    let workload = workload.map_err(CliError::input)?;
    drop(bar);
    let popularity = Popularity::of(&workload, args.interval).map_err(CliError::input)?;
    let picture = if svg {
        popularity.map().to_svg()
    } else {
        let sources = args.source.sources();
        let traces: Vec<String> = sources.iter().map(ToString::to_string).collect();
        let command = output::command_line();
        popularity.to_html(&traces.join(", "), env!("CARGO_PKG_VERSION"), &command)
    };
    output::write_text(&args.output, &picture, args.force)
}
