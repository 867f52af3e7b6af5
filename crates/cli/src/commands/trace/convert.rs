//! `thermocline trace convert`: any trace, or a part of it, as Parquet, CSV or a fio log.

use super::target::{TargetArgs, show};
use crate::error::CliError;
use crate::progress::{Progress, Unit};
use crate::source::SourceArgs;
use thermocline_sim::synth::Count;
use thermocline_trace::{Filter, Op, Selection, TraceReader};
use thermocline_units::{Bytes, Nanos};

const EXAMPLES: &str = "\
Examples:
  thermocline trace convert web.csv.gz -o web.parquet
  thermocline trace convert hm_0.csv usr_1.csv -o two-vms.parquet --from 1h --until 2h --align 4KiB
  zstdcat big.csv.zst | thermocline trace convert - -o reads.fio --op read --first 1M";

/// Options of a conversion.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    part: PartArgs,
    #[command(flatten)]
    target: TargetArgs,
}

/// Part of the trace.
#[derive(clap::Args)]
#[command(next_help_heading = "Part")]
struct PartArgs {
    /// Leave out what comes before this time, which becomes time zero.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    from: Nanos,
    /// Leave out what comes at this time or later.
    #[arg(long, value_name = "TIME")]
    until: Option<Nanos>,
    /// Only these volumes, by name.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    volume: Vec<String>,
    /// Only these operations: read, write, flush, trim.
    #[arg(long, value_name = "OPS", value_delimiter = ',', value_parser = op)]
    op: Vec<Op>,
    /// Round offsets down and ends up to multiples of this.
    #[arg(long, value_name = "SIZE", value_parser = alignment)]
    align: Option<Bytes>,
    /// Only so many requests, the first that are left.
    #[arg(long, value_name = "N")]
    first: Option<Count>,
}

fn op(word: &str) -> Result<Op, String> {
    match word {
        "read" => Ok(Op::Read),
        "write" => Ok(Op::Write),
        "flush" => Ok(Op::Flush),
        "trim" => Ok(Op::Trim),
        _ => Err("it is read, write, flush or trim".to_string()),
    }
}

fn alignment(text: &str) -> Result<Bytes, String> {
    match text.parse() {
        Ok(Bytes(0)) => Err("nothing can be aligned to zero bytes".to_string()),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(error.to_string()),
    }
}

impl PartArgs {
    fn selection(&self) -> Result<Selection, CliError> {
        if self.until.is_some_and(|until| until <= self.from) {
            return Err(CliError::input("--until lies before --from: nothing would be left"));
        }
        Ok(Selection {
            from: self.from,
            until: self.until,
            volumes: self.volume.clone(),
            ops: self.op.clone(),
            align: self.align,
            first: self.first.map(|first| first.0),
        })
    }

    /// The options that were given, as they may be written again.
    fn words(&self) -> String {
        let mut words = Vec::new();
        if self.from != Nanos(0) {
            words.push(format!("--from {}", self.from).replace(' ', ""));
        }
        words.extend(self.until.map(|until| format!("--until {until}")));
        words.extend(self.volume.iter().map(|name| format!("--volume {name}")));
        words.extend(self.op.iter().map(|op| format!("--op {op:?}").to_lowercase()));
        words.extend(self.align.map(|align| format!("--align {align}")));
        words.extend(self.first.map(|first| format!("--first {}", first.0)));
        words.join(" ")
    }
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let mut filter = Filter::new(args.source.open()?, args.part.selection()?);
    let total = args.source.size_bytes();
    let unit = if total.is_some() { Unit::Bytes } else { Unit::Things };
    let bar = Progress::bar(total, unit, "converting");
    let about = about(&args, &filter);
    let written = args.target.copy(&mut filter, about, &show(&bar, total));
    drop(bar);
    let written = written?;
    if let [missing, ..] = filter.missing_volumes()[..] {
        let names = filter.input_volumes().join(", ");
        return Err(CliError::input(format!(
            "there is no volume `{missing}` in this part of the trace; there are: {names}"
        )));
    }
    args.target.finish(written, &filter.repairs())
}

/// Facts about where the output comes from.
fn about(args: &Args, reader: &Filter) -> Vec<(String, String)> {
    let sources: Vec<String> = args.source.sources().iter().map(ToString::to_string).collect();
    let mut about = reader.about();
    about.retain(|(key, _)| key != SOURCE_KEY && key != PART_KEY);
    about.push((SOURCE_KEY.to_string(), sources.join(", ")));
    let part = args.part.words();
    if !part.is_empty() {
        about.push((PART_KEY.to_string(), part));
    }
    about
}

/// Metadata keys: the traces converted, and the options that chose a part.
const SOURCE_KEY: &str = "thermocline.source";
const PART_KEY: &str = "thermocline.part";
