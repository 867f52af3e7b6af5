//! `thermocline migrate`: operations on a range of a running engine's volume.

use super::EngineArgs;
use crate::error::CliError;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use hyper::Method;
use std::fmt::Write;
use std::time::Duration;
use thermocline_engine::api::{Job, Kind, NewJob};
use thermocline_units::Bytes;
use thermocline_volume::Refusal;

const EXAMPLES: &str = "\
Examples:
  thermocline migrate v0 --to ssd                               all of v0 to the pool ssd
  thermocline migrate v0 --offset 256MiB --length 64MiB --to scm --wait
  thermocline migrate v0 --do replicate --to hdd                a copy of every chunk
  thermocline migrate v0 --do mirror --to ssd                   share its requests with a pool
  thermocline migrate v0 --length 16MiB --do pin                keep placements from moving it";

/// Kinds of jobs.
const KINDS: [&str; 7] = ["migrate", "replicate", "prefetch", "redirect", "mirror", "pin", "unpin"];

/// Time between two looks at a job.
const LOOK: Duration = Duration::from_millis(200);

/// Migrate, replicate, prefetch, redirect, mirror, pin or unpin a range of a volume.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The volume.
    #[arg(value_parser = super::volume_name)]
    volume: String,
    /// The pool to move to, by name or number.
    #[arg(long, value_name = "POOL")]
    to: Option<String>,
    /// Kind of job.
    #[arg(
        long = "do",
        value_name = "WHAT",
        default_value = "migrate",
        value_parser = PossibleValuesParser::new(KINDS).try_map(|text| kind(&text))
    )]
    kind: Kind,
    /// From where on; every chunk that the range touches is meant.
    #[arg(long, value_name = "SIZE", default_value = "0")]
    offset: Bytes,
    /// Length in bytes; to the end when not given.
    #[arg(long, value_name = "SIZE")]
    length: Option<Bytes>,
    /// Return when it is done; exit status 1 when a chunk failed, was cancelled or found no room.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Reads a kind by the name that it has in the API.
fn kind(text: &str) -> Result<Kind, serde_json::Error> {
    serde_json::from_value(serde_json::Value::from(text))
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let client = args.engine.client();
    let wish = NewJob {
        kind: args.kind,
        volume: args.volume,
        offset_bytes: args.offset.0,
        length_bytes: args.length.map(|length| length.0),
        pool: args.to,
    };
    let mut job: Job = client.send(Method::POST, "/v1/operations", &wish)?;
    while args.wait && !job.over {
        std::thread::sleep(LOOK);
        job = client.get(&format!("/v1/operations/{}", job.id))?;
    }
    args.engine.answer(&job, text)?;
    if job.failed > 0 {
        return Err(CliError::failed(format!(
            "{} chunks failed; they are where they were",
            job.failed
        )));
    }
    let no_room = job.skipped.get(&Refusal::NoRoom.to_string()).copied().unwrap_or(0);
    match job.cancelled + no_room {
        0 => {}
        left => {
            let text = format!("{left} chunks were cancelled or found no room");
            return Err(CliError::failed(text));
        }
    }
    Ok(())
}

fn text(job: &Job) -> String {
    let mut out = format!("job {}: {} of {} chunks dealt with", job.id, job.ended, job.chunks);
    let _ = write!(out, ", {} done", job.done);
    if job.cancelled > 0 {
        let _ = write!(out, ", {} cancelled", job.cancelled);
    }
    out.push('\n');
    for (reason, count) in &job.skipped {
        let _ = writeln!(out, "  {count} skipped: {reason}");
    }
    if !job.over {
        out.push_str("it goes on; `thermocline status` or the dashboard show how far it is\n");
    }
    out
}
