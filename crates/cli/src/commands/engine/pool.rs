//! `thermocline pool`: pools of a running engine.

mod device;
mod replace;

use super::{EngineArgs, status};
use crate::error::CliError;
use crate::output;
use device::NewDevice;
use hyper::Method;
use std::time::Duration;
use thermocline_admin::client::{Client, segment};
use thermocline_engine::api::{GrownPool, NewPool, Pool, PoolGrowth, Status, TAKE_OUT};
use thermocline_units::Bytes;

const EXAMPLES: &str = "\
Examples:
  thermocline pool list
  thermocline pool add archive /mnt/big/archive.pool --size 2TiB
  thermocline pool add fast /dev/nvme1n1 --erase --before ssd
  thermocline pool replace hdd /dev/sdc --name disk --wait
  thermocline pool grow archive --size 4TiB
  thermocline pool drain ssd --wait && thermocline pool remove ssd

Where nothing is said, a pool that is added goes before the first from which on all take at least
twice its time for a random read of 4 KiB, measured as it joins (--before POOL and --slowest say
another place; a pool that is slowed to a profile has the profile's). The data folder keeps a
record of it (added-pools.toml), so that the next start finds it.";

/// Time between two looks at something that takes time.
const LOOK: Duration = Duration::from_millis(200);

/// Pools: list, add, grow, drain, undrain, replace, remove.
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
    /// Pools, fastest first.
    List,
    /// Add a file or block device of the engine's machine. One that is in use is refused, and so is
    /// one that holds something, unless --erase is said.
    Add {
        /// For people; 1 to 16 bytes, and no other pool's.
        name: String,
        #[command(flatten)]
        device: NewDevice,
        /// A pool that it is faster than; it is slower than those before that one.
        #[arg(long, value_name = "POOL")]
        before: Option<String>,
        /// Make it slower than all others; its speed is not measured.
        #[arg(long, conflicts_with = "before")]
        slowest: bool,
    },
    /// Let a pool grow: its file is made larger, or its device has become so.
    Grow {
        /// Its name or number.
        name: String,
        /// Make its file so large. Without it, the file or block device was made larger already.
        #[arg(long, value_name = "SIZE")]
        size: Option<Bytes>,
    },
    /// Move everything off a pool, and let nothing new onto it.
    Drain {
        /// Its name or number.
        name: String,
        /// Return when it is empty.
        #[arg(long)]
        wait: bool,
        /// Let its chunks go to pools across a network, too.
        #[arg(long)]
        to_far: bool,
    },
    /// Let a pool that is being drained, or is drained, take chunks again.
    Undrain {
        /// Its name or number.
        name: String,
    },
    /// Replace a pool: add another one in its place, move everything to that, remove it. Given
    /// again, it goes on where it was broken off.
    Replace(replace::Args),
    /// Remove a pool that is drained or dead.
    Remove {
        /// Its name or number.
        name: String,
    },
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let client = args.engine.client();
    let told = |pool: &Pool| format!("{} is {}\n", pool.name, pool.state);
    match args.command {
        Command::List => {
            let state: Status = client.get("/v1/status")?;
            let chunk = state.chunk_bytes;
            args.engine.answer(&state.pools, |pools| status::pools(chunk, pools))
        }
        Command::Add { name, device, before, slowest } => {
            let wish = NewPool { before, slowest, ..device.pool(name) };
            let added: Pool = client.send(Method::POST, "/v1/pools", &wish)?;
            args.engine.answer(&added, told)
        }
        Command::Grow { name, size } => {
            let wish = PoolGrowth { size_bytes: size.map(|size| size.0) };
            let path = format!("/v1/pools/{}/grow", segment(&name));
            let grown: GrownPool = client.send(Method::POST, &path, &wish)?;
            args.engine.answer(&grown, |grown| {
                let (size, added) = (Bytes(grown.size_bytes), Bytes(grown.bytes_added));
                format!("{} is on {size} now, and has {added} more for chunks\n", grown.name)
            })
        }
        Command::Drain { name, wait, to_far } => {
            let path = format!("/v1/pools/{}/drain?to_far={to_far}", segment(&name));
            let mut pool: Pool = client.send(Method::POST, &path, &())?;
            while wait && pool.state == "draining" {
                std::thread::sleep(LOOK);
                pool = find(&client, pool.id)?;
            }
            args.engine.answer(&pool, told)?;
            if wait && !matches!(pool.state.as_str(), "drained" | "removing" | "removed") {
                let text = format!("{} is {}, not drained", pool.name, pool.state);
                return Err(CliError::failed(text));
            }
            Ok(())
        }
        Command::Undrain { name } => {
            let path = format!("/v1/pools/{}/undrain", segment(&name));
            let pool: Pool = client.send(Method::POST, &path, &())?;
            args.engine.answer(&pool, told)
        }
        Command::Replace(replaced) => replace::run(&args.engine, replaced),
        Command::Remove { name } => {
            client.order(Method::DELETE, &format!("/v1/pools/{}", segment(&name)))?;
            output::print(&format!("{name} is being removed; once it is, {TAKE_OUT}\n"))
        }
    }
}

fn find(client: &Client, id: u16) -> Result<Pool, CliError> {
    let pools: Vec<Pool> = client.get("/v1/pools")?;
    let pool = pools.into_iter().find(|pool| pool.id == id);
    pool.ok_or_else(|| CliError::failed(format!("pool {id} has gone away")))
}
