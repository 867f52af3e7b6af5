//! An engine beside a store in one process, for a store whose device is a volume of the engine.
//!
//! The engine runs on a thread of its own, with everything that `thermocline up` gives it: policy,
//! API, metrics, dashboard, NBD clients of its other volumes. The store holds one volume; the
//! engine ends after the store.

use crate::config::Config;
use crate::config::hosting::VolumePlace;
use crate::deciding::DecidingArgs;
use crate::error::CliError;
use crate::handed::HandedSockets;
use crate::listeners::{self, LogFormat};
use crate::running::RunningEngine;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use thermocline_engine::pools::Permission;
use thermocline_engine::{Engine, VolumeDevice};
use thermocline_units::Bytes;

/// Name of who holds the volume, as the engine tells it.
const HOLDER: &str = "a content store";

/// A volume of an engine, as it is named on the command line.
#[derive(clap::Args, Debug, Clone)]
#[group(id = "on-volume")]
pub(crate) struct OnVolume {
    /// Configuration of an engine that runs beside the store; the store is on a volume of it.
    #[arg(long, value_name = "CONFIG", requires = "volume")]
    engine: Option<PathBuf>,
    /// The volume.
    #[arg(long, value_name = "NAME", requires = "engine")]
    volume: Option<String>,
}

impl OnVolume {
    /// The configuration and the volume, where they were given.
    pub(crate) fn place(&self) -> Option<VolumePlace> {
        let (config, volume) = (self.engine.clone()?, self.volume.clone()?);
        Some(VolumePlace { config, volume })
    }
}

/// Purpose for which the volume is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The store that it holds. Clients and administrators of the engine come in.
    Serve,
    /// An empty store is made there. A volume that does not exist is made in this size, if one is
    /// given; one that holds something is refused.
    Make(Option<Bytes>),
    /// The same, whatever it holds.
    MakeAnyway(Option<Bytes>),
}

/// A running engine.
pub(crate) struct Beside {
    stop: UnixStream,
    thread: JoinHandle<Result<String, CliError>>,
    /// Lines about pools and listeners.
    pub(crate) told: String,
}

type Begun = Result<(VolumeDevice, String), CliError>;

impl Beside {
    /// Starts the engine; its volume is held for the store.
    ///
    /// # Errors
    /// When the engine cannot start, or the volume is no use.
    pub(crate) fn start(
        place: VolumePlace,
        wanted: Wanted,
        log: LogFormat,
    ) -> Result<(VolumeDevice, Beside), CliError> {
        let (stop, stopped) = UnixStream::pair().map_err(CliError::failed)?;
        let (begun, told) = channel();
        let thread = std::thread::Builder::new()
            .name("engine".to_string())
            .spawn(move || run(&place, wanted, log, &begun, &stopped))
            .map_err(CliError::failed)?;
        match told.recv() {
            Ok(Ok((device, told))) => Ok((device, Beside { stop, thread, told })),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(CliError::failed("the engine's thread has ended")),
        }
    }

    /// Stops the engine; everything is durable then.
    ///
    /// # Errors
    /// When the group fell out of service.
    pub(crate) fn end(mut self) -> Result<(), CliError> {
        // An engine that has ended by itself does not hear it.
        let _ = self.stop.write_all(&[1]);
        let ended = self.thread.join().map_err(|_| CliError::failed("the engine panicked"))?;
        ended.map(drop)
    }
}

/// The engine's thread.
fn run(
    place: &VolumePlace,
    wanted: Wanted,
    log: LogFormat,
    begun: &Sender<Begun>,
    stop: &UnixStream,
) -> Result<String, CliError> {
    let (running, device, told) = match begin(place, wanted, log) {
        Ok(begun) => begun,
        Err(error) => {
            let _ = begun.send(Err(error));
            return Ok(String::new());
        }
    };
    let _ = begun.send(Ok((device, told)));
    let served = running.serve(stop, || {});
    if let Err(error) = &served {
        // The store hears of it by its next request at the latest; people hear of it now.
        listeners::say(&format!("the engine beside the store has ended: {error}"));
    }
    served
}

fn begin(
    place: &VolumePlace,
    wanted: Wanted,
    log: LogFormat,
) -> Result<(RunningEngine, VolumeDevice, String), CliError> {
    let config = Config::load(&place.config).map_err(CliError::input)?;
    let config = config.with_added_pools().map_err(CliError::input)?;
    config.check_secrets().map_err(CliError::input)?;
    let (may, deciding) = (Permission::default(), DecidingArgs::default());
    let mut running = RunningEngine::start(&config, may, HandedSockets::default(), &deciding, log)?;
    prepare(running.engine_mut(), &place.volume, wanted)?;
    let held = running.engine_mut().admin().hold_volume(&place.volume, HOLDER);
    let device = held.map_err(CliError::input)?;
    let mut told = running.pools_told().to_string();
    if wanted == Wanted::Serve {
        told += &running.open_listeners(&config)?;
    }
    Ok((running, device, told))
}

/// Makes the volume where it is wanted, and refuses one that holds something.
fn prepare(engine: &mut Engine, name: &str, wanted: Wanted) -> Result<(), CliError> {
    let size = match wanted {
        Wanted::Serve => return Ok(()),
        Wanted::Make(size) | Wanted::MakeAnyway(size) => size,
    };
    match (engine.exports().iter().find(|export| export.name == name), size) {
        (None, None) => {
            let text = format!("there is no volume {name}; pass --size to make it");
            return Err(CliError::input(text));
        }
        (None, Some(size)) => {
            has_room(engine, name, size)?;
            engine.admin().create_volume(Some(name), size).map_err(CliError::input)?;
        }
        (Some(found), Some(size)) if found.size != size.0 => {
            let text = format!("the volume {name} has {}, not {size}", Bytes(found.size));
            return Err(CliError::input(text));
        }
        (Some(found), _) => has_room(engine, name, Bytes(found.size))?,
    }
    let extents = engine.admin().extents(name, 0, None).map_err(CliError::input)?;
    let is_empty = extents.iter().all(|extent| extent.pools.is_empty());
    if !is_empty && !matches!(wanted, Wanted::MakeAnyway(_)) {
        let text = format!(
            "the volume {name} holds something; --destroy-contents makes a store there all the same"
        );
        return Err(CliError::input(text));
    }
    Ok(())
}

/// Refuses a volume that its pools have no room for: a store that finds none while it writes its
/// journal stops.
fn has_room(engine: &mut Engine, name: &str, size: Bytes) -> Result<(), CliError> {
    // Of pools in service only.
    let (_, total) = engine.admin().status().promised_and_room_bytes();
    let others = engine.exports().iter().filter(|other| other.name != name);
    let others: u64 = others.map(|other| other.size).sum();
    let room = total.saturating_sub(others);
    if size.0 <= room {
        return Ok(());
    }
    Err(CliError::input(format!(
        "the volume {name} is to have {size}, and the pools have room for {} beside what other \
         volumes may fill; make it smaller, or add a pool",
        Bytes(room)
    )))
}
