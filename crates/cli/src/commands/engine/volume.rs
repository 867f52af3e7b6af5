//! `thermocline volume`: volumes of a running engine.

use super::{EngineArgs, micros, volume_name};
use crate::error::CliError;
use crate::listeners;
use crate::output;
use crate::table;
use hyper::Method;
use thermocline_admin::client::Client;
use thermocline_engine::api::{Extent, NewVolume, Pool, Status, Volume, VolumeSize};
use thermocline_units::Bytes;
use thermocline_units::text::count;

const EXAMPLES: &str = "\
Examples:
  thermocline volume list
  thermocline volume create db 20GiB
  thermocline volume grow db 40GiB
  thermocline volume map db --offset 256MiB --length 64MiB";

/// Volumes: list, create, grow, delete, and where they live.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    engine: EngineArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Volumes that exist.
    List,
    /// Make a volume that reads as zeroes.
    #[command(allow_missing_positional = true)]
    Create {
        /// Its name; `v` and its number when not given, or the next that is free.
        #[arg(value_parser = volume_name)]
        name: Option<String>,
        /// Its size.
        size: Bytes,
    },
    /// Make a volume larger; clients see it when they attach it again.
    Grow {
        /// Its name.
        #[arg(value_parser = volume_name)]
        name: String,
        /// Its new size.
        size: Bytes,
    },
    /// Delete a volume with all it holds.
    Delete {
        /// Its name.
        #[arg(value_parser = volume_name)]
        name: String,
        /// Do it: there is no way back.
        #[arg(long)]
        yes: bool,
    },
    /// Show where a volume lives, chunk by chunk, equal neighbours together.
    Map {
        /// Its name.
        #[arg(value_parser = volume_name)]
        name: String,
        /// From where on.
        #[arg(long, value_name = "SIZE", default_value = "0")]
        offset: Bytes,
        /// Length in bytes; to the end when not given.
        #[arg(long, value_name = "SIZE")]
        length: Option<Bytes>,
    },
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let client = args.engine.client();
    let line = |volume: &Volume| line(volume) + "\n";
    match args.command {
        Command::List => {
            let volumes: Vec<Volume> = client.get("/v1/volumes")?;
            args.engine.answer(&volumes, |volumes| volumes.iter().map(line).collect())
        }
        Command::Create { name, size } => {
            let wish = NewVolume { name, size_bytes: size.0 };
            let made: Volume = client.send(Method::POST, "/v1/volumes", &wish)?;
            args.engine.answer(&made, line)?;
            warn_of_room(&client)
        }
        Command::Grow { name, size } => {
            let wish = VolumeSize { size_bytes: size.0 };
            let path = format!("/v1/volumes/{name}");
            let grown: Volume = client.send(Method::PATCH, &path, &wish)?;
            args.engine.answer(&grown, line)?;
            warn_of_room(&client)
        }
        Command::Delete { name, yes: false } => {
            let text = format!("this deletes {name} and all it holds; say --yes to do it");
            Err(CliError::input(text))
        }
        Command::Delete { name, yes: true } => {
            client.order(Method::DELETE, &format!("/v1/volumes/{name}"))?;
            output::print(&format!("{name} is deleted\n"))
        }
        Command::Map { name, offset, length } => {
            let length =
                length.map_or(String::new(), |length| format!("&length_bytes={}", length.0));
            let path = format!("/v1/volumes/{name}/extents?offset_bytes={}{length}", offset.0);
            let extents: Vec<Extent> = client.get(&path)?;
            let pools: Vec<Pool> = client.get("/v1/pools")?;
            args.engine.answer(&extents, |extents| map(extents, &pools))
        }
    }
}

/// Says that volumes are larger than their pools: whoever fills them would run out of room.
fn warn_of_room(client: &Client) -> Result<(), CliError> {
    let status: Status = client.get("/v1/status")?;
    let (promised, room) = status.promised_and_room_bytes();
    if promised > room {
        listeners::say(&format!(
            "note: all volumes together have {}, and their pools {}: add a pool before they fill up",
            Bytes(promised),
            Bytes(room)
        ));
    }
    Ok(())
}

/// A volume in a line: its size, its identity, and its SLA.
pub(super) fn line(volume: &Volume) -> String {
    let (name, size) = (&volume.name, Bytes(volume.size_bytes));
    let mut line = format!("{name}, {size}, identity {}", volume.identity);
    if let Some(sla) = &volume.sla {
        let share = sla.violations as f64 / sla.answered.max(1) as f64 * 100.0;
        line += &format!(
            ", SLA {} ({}): {} of {} requests later, {share:.2} %",
            micros(sla.latency_us),
            sla.class,
            count(sla.violations),
            count(sla.answered)
        );
        if let Some(excess) = sla.mean_excess_us {
            line += &format!(", by {} on average", micros(excess));
        }
    }
    line
}

fn map(extents: &[Extent], pools: &[Pool]) -> String {
    let name = |id: u16| {
        let pool = pools.iter().find(|pool| pool.id == id);
        pool.map_or_else(|| id.to_string(), |pool| pool.name.clone())
    };
    let mut table = table::plain(["offset", "length", "lives on", "reads", "writes"]);
    for extent in extents {
        let wanted = extent.pools.iter().filter(|&&id| Some(id) != extent.kept_on);
        let mut place: Vec<String> = wanted.map(|&id| name(id)).collect();
        if let Some(pool) = extent.kept_on {
            place.push(format!("old copy kept on {}", name(pool)));
        }
        if place.is_empty() {
            place.push("nothing (zeroes)".to_string());
        }
        if let Some(to) = extent.redirected_to {
            place.push(format!("writes to {}", name(to)));
        }
        if let Some(other) = extent.mirrored_on {
            place.push(format!("mirrored on {}", name(other)));
        }
        if extent.pinned {
            place.push("pinned".to_string());
        }
        table.add_row([
            Bytes(extent.offset_bytes).to_string(),
            Bytes(extent.length_bytes).to_string(),
            place.join(", "),
            count(extent.reads),
            count(extent.writes),
        ]);
    }
    table::align_numbers(&mut table);
    format!("{table}\nreads and writes are those of this epoch\n")
}
