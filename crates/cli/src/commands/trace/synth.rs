//! `thermocline trace synth`: make a trace from stated parameters.

use super::target::{TargetArgs, show};
use crate::error::CliError;
use crate::output;
use crate::progress::{Progress, Unit};
use std::path::{Path, PathBuf};
use thermocline_sim::synth::{self, Count};
use thermocline_trace::synth::presets::PRESETS;
use thermocline_trace::synth::{Synth, SynthSpec};

/// Metadata key: the workload as TOML, which `--spec` reads again.
const SPEC_KEY: &str = "thermocline.synth";

/// Options of a made workload.
#[derive(clap::Args)]
#[command(after_help = examples())]
pub(crate) struct Args {
    /// A ready-made kind of workload; see below.
    #[arg(long, value_name = "NAME", default_value = "mixed")]
    preset: String,
    /// A workload described in TOML; `--print-spec` shows one.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["preset", "vms"])]
    spec: Option<PathBuf>,
    /// Number of VMs of the preset [default: 4].
    #[arg(long, value_name = "N")]
    vms: Option<usize>,
    /// Number of requests [default: 1M, or what the TOML says].
    #[arg(long, value_name = "N")]
    requests: Option<Count>,
    /// Seed of everything random [default: 1, or what the TOML says].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    target: Option<TargetArgs>,
    /// Print the workload as TOML and make nothing.
    #[arg(long, conflicts_with = "output")]
    print_spec: bool,
}

fn examples() -> String {
    let mut text = "\
Examples:
  thermocline trace synth --vms 4 --seed 1 --requests 1M --preset mixed -o mixed.parquet
  thermocline trace synth --preset oltp --print-spec > mine.toml
  thermocline trace synth --spec mine.toml -o mine.parquet

Presets:
"
    .to_string();
    for preset in &PRESETS {
        text.push_str(&format!("  {:<8} {}\n", preset.name, preset.summary));
    }
    text
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let spec = specification(&args)?;
    if args.print_spec {
        return output::print(&synth::to_toml(&spec));
    }
    let Some(target) = &args.target else {
        return Err(CliError::input("where to? add -o OUT.parquet, or --print-spec"));
    };
    let mut reader = Synth::new(&spec).map_err(CliError::input)?;
    let about = vec![(SPEC_KEY.to_string(), synth::to_toml(&spec))];
    let bar = Progress::bar(Some(spec.requests), Unit::Things, "making requests");
    let written = target.copy(&mut reader, about, &show(&bar, None));
    drop(bar);
    target.finish(written?, &[])
}

fn specification(args: &Args) -> Result<SynthSpec, CliError> {
    let mut spec = match &args.spec {
        Some(path) => read(path)?,
        None => {
            let vms = args.vms.unwrap_or(synth::VMS_DEFAULT);
            let (requests, seed) = (synth::REQUESTS_DEFAULT, synth::SEED_DEFAULT);
            synth::from_preset(&args.preset, vms, requests, seed).map_err(CliError::input)?
        }
    };
    spec.requests = args.requests.map_or(spec.requests, |requests| requests.0);
    spec.seed = args.seed.unwrap_or(spec.seed);
    spec.check().map_err(CliError::input)?;
    Ok(spec)
}

fn read(path: &Path) -> Result<SynthSpec, CliError> {
    let in_file =
        |error: &dyn std::fmt::Display| CliError::input(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| in_file(&error))?;
    synth::from_toml(&text).map_err(|error| in_file(&error))
}
