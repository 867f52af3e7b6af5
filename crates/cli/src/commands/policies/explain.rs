//! `thermocline policies explain`: why a chunk is where it is, told by the placement that decided,
//! after a trace in virtual time or a live volume's recording.
//!
//! The live engine answers the same question by `thermocline policy explain`.

use crate::commands::lab::{volume, volume_replay};
use crate::config::library;
use crate::error::CliError;
use crate::output;
use crate::progress::{Progress, Unit};
use crate::source::SourceArgs;
use serde_json::json;
use std::cell::Cell;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use thermocline_policy::registry::PolicySpec;
use thermocline_sim::machine::{self, MachineOptions};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

const EXAMPLES: &str = "\
Examples:
  thermocline policies explain chew --chunk 17 --trace web.csv.gz --pools pools.toml
  thermocline policies explain chew:library=mine.toml --chunk 17 --synth oltp,vms=2 --volume 1
  thermocline policies explain --replay today.tcr --chunk 17      the placement that was recorded
  thermocline policies explain edt --replay today.tcr --chunk 17  another one, told the same

Chunk N is the one from N times the chunk's size on. `lab volume` tells what pools.toml is.";

/// Options of the question: placement, what it shall see, and the chunk.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The placement, with settings if wanted; that of the recording when not given.
    #[arg(required_unless_present = "replay")]
    policy: Option<String>,
    /// The chunk's number in its volume, counted from 0.
    #[arg(long, short = 'n', value_name = "N")]
    chunk: u32,
    /// The volume, counted from 0 in the order of the trace.
    #[arg(long, value_name = "V", default_value_t = 0)]
    volume: u32,
    /// Instead of running a trace: what this recording told a placement.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["traces", "more", "synth", "pools", "chunk_size", "epoch"]
    )]
    replay: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    /// Pools, a TOML file as for `lab volume`.
    #[arg(long, value_name = "FILE")]
    pools: Option<PathBuf>,
    /// Bytes of a chunk: a power of two from 64KiB to 1GiB; 1MiB when not given.
    #[arg(long, value_name = "SIZE")]
    chunk_size: Option<Bytes>,
    /// Time between two decisions of the placement; 5m when not given.
    #[arg(long, value_name = "TIME")]
    epoch: Option<Nanos>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Place of the chunk, and the reasons.
struct Answer {
    policy: String,
    chunk: ChunkId,
    chunk_size: Option<Bytes>,
    home: Option<PoolId>,
    /// The pools' names, where they are known.
    pools: Vec<String>,
    reasons: Vec<String>,
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let spec = args.policy.as_deref().map(library::policy).transpose().map_err(CliError::input)?;
    let chunk = ChunkId { volume: VolumeId(args.volume), index: args.chunk };
    let answer = match (&args.replay, spec) {
        (Some(path), rival) => replayed(path, rival.as_ref(), chunk)?,
        (None, Some(spec)) => args.ran(&spec, chunk)?,
        (None, None) => unreachable!("a policy is required without a recording"),
    };
    match args.json {
        true => {
            let text = serde_json::to_string_pretty(&answer.json()).map_err(CliError::failed)?;
            output::print(&(text + "\n"))
        }
        false => output::print(&answer.text()),
    }
}

impl Args {
    fn ran(&self, spec: &PolicySpec, chunk: ChunkId) -> Result<Answer, CliError> {
        let pools = volume::pool_plans(self.pools.as_deref())?;
        let plain = MachineOptions::default();
        let options = MachineOptions {
            chunk: self.chunk_size.unwrap_or(plain.chunk),
            epoch: self.epoch.unwrap_or(plain.epoch),
            ..plain
        };
        let load = volume::read_load(&self.source)?;
        let account = {
            let bar =
                Progress::bar(Some(load.demands.len() as u64), Unit::Things, "running requests");
            let done = Cell::new(0);
            let progress = |count| bar.at(done.replace(done.get() + count) + count);
            machine::explain(&load, &pools, spec, &options, chunk, &progress)
                .map_err(CliError::input)?
        };
        Ok(Answer {
            policy: spec.label.clone(),
            chunk,
            chunk_size: Some(options.chunk),
            home: account.home,
            pools: pools.into_iter().map(|pool| pool.name).collect(),
            reasons: account.reasons,
        })
    }
}

fn replayed(path: &Path, rival: Option<&PolicySpec>, chunk: ChunkId) -> Result<Answer, CliError> {
    let (mut replay, size) = volume_replay::open(path, rival)?;
    let bar = Progress::bar(Some(size), Unit::Bytes, "replaying");
    while replay.next_epoch().map_err(CliError::input)?.is_some() {
        bar.at(replay.bytes_read());
    }
    drop(bar);
    volume_replay::note(replay.torn().as_deref());
    let (home, reasons) = replay.explain(chunk);
    let policy = match rival {
        Some(rival) => rival.label.clone(),
        None => volume_replay::shown(replay.placement()),
    };
    Ok(Answer { policy, chunk, chunk_size: replay.chunk_size(), home, pools: Vec::new(), reasons })
}

impl Answer {
    fn json(&self) -> serde_json::Value {
        json!({
            "policy": self.policy,
            "volume": self.chunk.volume.0,
            "chunk": self.chunk.index,
            "chunk_bytes": self.chunk_size.map(|size| size.0),
            "pool": self.home.map(|pool| pool.0),
            "reasons": self.reasons,
        })
    }

    fn text(&self) -> String {
        let ChunkId { volume, index } = self.chunk;
        let mut out = format!("chunk {index} of {volume}");
        if let Some(size) = self.chunk_size {
            let from = size.0.saturating_mul(index.into());
            let _ = write!(out, " ({} to {})", Bytes(from), Bytes(from.saturating_add(size.0)));
        }
        let _ = match self.home {
            None => writeln!(out, " holds nothing and reads as zeroes"),
            Some(pool) => match self.pools.get(usize::from(pool.0)) {
                Some(name) => writeln!(out, " lives on pool {}, {name}", pool.0),
                None => writeln!(out, " lives on pool {}", pool.0),
            },
        };
        let policy = &self.policy;
        if self.reasons.is_empty() {
            let _ = writeln!(
                out,
                "{policy} gives no reasons, or no epoch has ended since the chunk was accessed first"
            );
            return out;
        }
        let _ = writeln!(out, "{policy}, when it was last asked:");
        for reason in &self.reasons {
            let _ = writeln!(out, "  {reason}");
        }
        out
    }
}
