//! `thermocline pool replace`: a pool's chunks, and its place among the others, go to a new device.
//!
//! The engine knows nothing of replacing. This is a row of its operations, each of which is durable
//! by itself and says whether it is done:
//!
//! 1. The new pool is added right before the old one, unless a pool on that path is there already.
//!    It is refused when it has no room for what the old one holds.
//! 2. The old pool is drained. Its chunks go to the pool that is next to it in speed, which is the
//!    new one while it has room.
//! 3. The old pool is removed.
//!
//! Broken off at any point, clients notice nothing: both pools are in the group, and a drain that
//! has begun goes on in the engine. The same command goes on with the first step that is not done.

use super::super::EngineArgs;
use super::device::NewDevice;
use super::{LOOK, find};
use crate::error::CliError;
use crate::progress::{Progress, Unit};
use hyper::Method;
use thermocline_admin::client::{Client, segment};
use thermocline_engine::api::{NewPool, Pool, TAKE_OUT};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Name or number of the pool that goes.
    old: String,
    #[command(flatten)]
    device: NewDevice,
    /// Name of the new pool; no other pool may have it. Not needed to go on.
    #[arg(long)]
    name: Option<String>,
    /// Return when the old pool is removed; without it the drain is begun, and a pool that is
    /// drained already is removed.
    #[arg(long)]
    wait: bool,
}

pub(super) fn run(engine: &EngineArgs, args: Args) -> Result<(), CliError> {
    let client = engine.client();
    let wait = args.wait;
    let (old, new) = both(&client, args)?;
    let mut old = drain(&client, old, &new)?;
    if wait {
        old = drained(&client, old, &new)?;
    }
    if matches!(old.state.as_str(), "drained" | "dead") {
        client.order(Method::DELETE, &format!("/v1/pools/{}", segment(&old.name)))?;
        old = find(&client, old.id)?;
    }
    while wait && old.state == "removing" {
        std::thread::sleep(LOOK);
        old = find(&client, old.id)?;
    }
    engine.answer(&old, |old| told(old, &new))
}

/// Sentence about how far it has come.
fn told(old: &Pool, new: &Pool) -> String {
    let (old_name, new_name) = (&old.name, &new.name);
    match old.state.as_str() {
        "removed" => {
            format!("{old_name} is replaced by {new_name}; {TAKE_OUT}\n")
        }
        "removing" => format!("{old_name} is replaced by {new_name}, and is being removed\n"),
        state => format!(
            "{old_name} is {state}: {} chunks are left to go to {new_name}; the same command goes \
             on, with --wait to the end\n",
            old.chunks_used
        ),
    }
}

/// The pool that goes and the one that comes, which is added unless it is there.
fn both(client: &Client, args: Args) -> Result<(Pool, Pool), CliError> {
    let path = args.device.path();
    let pools: Vec<Pool> = client.get("/v1/pools")?;
    let living = || pools.iter().filter(|pool| !pool.is_removed());
    let by_path = living().find(|pool| pool.path.as_ref() == Some(&path)).cloned();
    let called = |pool: &&Pool| pool.name == args.old;
    let numbered = |pool: &&Pool| args.old == pool.id.to_string();
    let Some(old) = living().find(called).or_else(|| living().find(numbered)).cloned() else {
        let hint = match by_path {
            Some(new) => format!("pool {} is on {path} already: it is replaced", new.name),
            None => format!("there are: {}", names(living())),
        };
        return Err(CliError::input(format!("there is no pool {}; {hint}", args.old)));
    };
    match by_path {
        Some(new) if new.id == old.id => Err(CliError::input(format!(
            "{path} is the device of {} itself; name another",
            old.name
        ))),
        Some(new) if new.rank + 1 == old.rank => {
            check_that_it_goes_on(&args, &old, &new)?;
            Ok((old, new))
        }
        Some(new) => Err(CliError::input(format!(
            "{path} is pool {}, which does not stand right before {}; drain {} instead, or name \
             another device",
            new.name, old.name, old.name
        ))),
        None if matches!(old.state.as_str(), "removing" | "joining") => {
            Err(CliError::input(format!("{} is {}; wait until that is over", old.name, old.state)))
        }
        None => {
            let name = args.name.ok_or_else(|| {
                CliError::input("the new pool needs a name of its own: --name NAME")
            })?;
            // By its name: another pool may be called as this one is numbered.
            let replaces = Some(old.name.clone());
            let wish = NewPool { replaces, ..args.device.pool(name) };
            let new = client.send(Method::POST, "/v1/pools", &wish)?;
            Ok((old, new))
        }
    }
}

/// Refuses to take a pool that is there for the new one of a command that was interrupted, where
/// nothing says that it is.
fn check_that_it_goes_on(args: &Args, old: &Pool, new: &Pool) -> Result<(), CliError> {
    let is_named = args.name.as_ref().is_some_and(|name| *name == new.name);
    let is_leaving = old.state != "active" && args.name.is_none();
    if is_named || is_leaving {
        return Ok(());
    }
    Err(CliError::input(format!(
        "{} is the device of pool {} already. If an interrupted command added it to replace {}, \
         give its name: --name {}; else name another device",
        args.device.path(),
        new.name,
        old.name,
        new.name
    )))
}

fn names<'a>(pools: impl Iterator<Item = &'a Pool>) -> String {
    pools.map(|pool| pool.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Lets the old pool's chunks go, once the new one takes them.
fn drain(client: &Client, mut old: Pool, new: &Pool) -> Result<Pool, CliError> {
    while find(client, new.id)?.state == "joining" {
        std::thread::sleep(LOOK);
    }
    if !matches!(old.state.as_str(), "draining" | "drained" | "dead" | "removing") {
        old = client.send(Method::POST, &format!("/v1/pools/{}/drain", segment(&old.name)), &())?;
    }
    Ok(old)
}

/// The old pool, once its last chunk has left it.
fn drained(client: &Client, mut old: Pool, new: &Pool) -> Result<Pool, CliError> {
    let label = format!("chunks from {} to {}", old.name, new.name);
    let all = old.chunks_used;
    let progress = Progress::bar(Some(all), Unit::Things, &label);
    while matches!(old.state.as_str(), "draining" | "suspect") {
        progress.at(all.saturating_sub(old.chunks_used));
        std::thread::sleep(LOOK);
        old = find(client, old.id)?;
    }
    match old.state.as_str() {
        "active" => Err(CliError::failed(format!(
            "somebody has taken the drain of {} back; both pools stay",
            old.name
        ))),
        _ => Ok(old),
    }
}
