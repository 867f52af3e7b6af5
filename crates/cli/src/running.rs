//! An engine of a configuration: devices opened or made, volumes, policy, listeners; then its loop,
//! and what is kept for the next start. `up` runs one alone, a storage server one
//! beside itself.

use crate::config::{Config, Origin, VolumeConfig, table_of_classes};
use crate::deciding::DecidingArgs;
use crate::error::CliError;
use crate::handed::HandedSockets;
use crate::listeners::{self, LogFormat};
use crate::origin;
use crate::recording::Recording;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::fmt::Write;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use thermocline_admin::api::Event;
use thermocline_admin::http::{Http, HttpListeners, TcpListen};
use thermocline_admin::tls::tls;
use thermocline_admin::unix_socket;
use thermocline_blockcache::{LINE, PoolDevice};
use thermocline_engine::learnt::{self, Kept};
use thermocline_engine::pools::{
    self, AddedPools, DataFolder, DeviceConfig, Permission, Started, is_on_tmpfs,
};
use thermocline_engine::surveys;
use thermocline_engine::{Engine, Listeners, watch_room};
use thermocline_ports::Device;
use thermocline_ports_os::Disk;
use thermocline_units::Bytes;

/// An engine that is ready to serve.
pub(crate) struct RunningEngine {
    engine: Engine,
    kept: Kept,
    recording: Option<Recording>,
    /// Until listeners are opened.
    handed: HandedSockets,
    http: Option<Http>,
    pools_told: String,
    _folder: DataFolder,
}

impl RunningEngine {
    /// Opens the devices of a configuration, or makes them, and brings the engine into service.
    /// Nobody comes in before [`RunningEngine::open_listeners`].
    ///
    /// # Errors
    /// When the data folder is in use, or is of a configuration that is not given; when an address
    /// to listen on is taken; when a device, a volume or the policy cannot be had.
    pub(crate) fn start(
        config: &Config,
        may: Permission<'_>,
        handed: HandedSockets,
        deciding: &DecidingArgs,
        log: LogFormat,
    ) -> Result<RunningEngine, CliError> {
        allow_open_files();
        let is_new = !config.data.exists();
        let folder = DataFolder::lock(&config.data)?;
        if let Err(error) = origin::check(config).and_then(|()| check_addresses(config, &handed)) {
            if is_new {
                let _ = std::fs::remove_dir(&config.data); // It is empty.
            }
            return Err(error);
        }
        let Started { group, disks, names, clock } =
            pools::start(config.group(), may, listeners::say)?;
        origin::note(config);
        if let Some(note) = config.other_chunk_size(group.chunk_size()) {
            listeners::say(&note);
        }
        let pools_told = tell_pools(&disks, &names, config);
        let is_damaged = group.salvage().is_some();
        let log = Box::new(move |event: &Event| listeners::tell(log, event));
        let mut engine = Engine::start(group, disks, clock, log).map_err(CliError::failed)?;
        tell_losses(&engine);
        engine.keep_pools(Arc::new(AddedPools::of(&config.data)));
        // What a damaged group has lost is not made anew: that would look like what was there.
        if !is_damaged {
            make_volumes(&mut engine, config)?;
        }
        set_slas(&mut engine, config)?;
        begin_hints(&mut engine, config)?;
        engine.admin().schedule_scrubs(config.scrub.every, config.data.join("scrubbed"));
        watch_room(engine.mailbox()).map_err(CliError::failed)?;
        let kept = Kept::of(&config.data);
        engine.admin().recall_hints(&kept.hints);
        let recording = deciding.begin(&mut engine, config.policy.as_ref(), &kept.learnt)?;
        learnt::keep(engine.mailbox(), kept.clone()).map_err(CliError::failed)?;
        let (http, _folder) = (None, folder);
        Ok(RunningEngine { engine, kept, recording, handed, http, pools_told, _folder })
    }

    /// The engine, to be looked at.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The engine.
    pub(crate) fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// A line for each pool, and what its owner should know.
    pub(crate) fn pools_told(&self) -> &str {
        &self.pools_told
    }

    /// Lets clients and administrators in; how the API and the page are reached.
    ///
    /// # Errors
    /// When a socket cannot be made.
    pub(crate) fn open_listeners(&mut self, config: &Config) -> Result<String, CliError> {
        match open(&mut self.engine, config, std::mem::take(&mut self.handed)) {
            Ok((http, told)) => {
                self.http = Some(http);
                Ok(told)
            }
            Err(error) => {
                // Nobody came in; the same command would be refused because of its own recording.
                self.recording.take().into_iter().for_each(Recording::discard);
                Err(error)
            }
        }
    }

    /// Serves until `stop` is readable; calls `stopping` then, and makes everything durable. The
    /// end of a recording, as it is told.
    ///
    /// # Errors
    /// When the group falls out of service.
    pub(crate) fn serve(
        self,
        stop: &UnixStream,
        stopping: impl FnOnce(),
    ) -> Result<String, CliError> {
        let RunningEngine { mut engine, kept, recording, http, _folder, .. } = self;
        let served = engine.serve(stop).map_err(CliError::failed);
        stopping();
        drop(http);
        keep(&mut engine, &kept);
        drop(engine); // And the recorder with it: nothing more is recorded.
        let recorded = recording.map_or(String::new(), Recording::finish);
        served.map(|()| recorded)
    }
}

/// Keeps what the policy has learnt, and hints, for the next start.
fn keep(engine: &mut Engine, kept: &Kept) {
    let (learnt, hints) = (engine.admin().learnt(), engine.admin().kept_hints());
    if let Err(error) = kept.write(learnt.as_deref(), hints.as_deref()) {
        listeners::say(&format!("{error}; it will not be known after the next start"));
    }
}

/// Tells on stderr what the start of a damaged group has lost.
fn tell_losses(engine: &Engine) {
    let Some(salvage) = engine.group().salvage() else { return };
    let corrected = salvage.corrected;
    listeners::say(&format!("{corrected} damaged blocks of metadata were set right"));
    for loss in pools::losses(engine.group(), salvage) {
        listeners::say(&loss);
    }
}

/// Gives volumes the SLAs of the configuration. Those of others end.
fn set_slas(engine: &mut Engine, config: &Config) -> Result<(), CliError> {
    for volume in &config.volumes {
        if is_there(engine, volume) {
            engine.admin().set_sla(&volume.name, volume.sla).map_err(CliError::input)?;
        }
    }
    Ok(())
}

/// Makes the volumes of the configuration: all of them when there is none yet, afterwards those
/// with a name of their own that are missing. Others may have been deleted in the running engine.
fn make_volumes(engine: &mut Engine, config: &Config) -> Result<(), CliError> {
    let is_first = engine.exports().is_empty();
    for volume in &config.volumes {
        if (is_first || volume.named) && !is_there(engine, volume) {
            let made = engine.admin().create_volume(Some(&volume.name), volume.size);
            made.map_err(CliError::input)?;
        }
    }
    Ok(())
}

fn is_there(engine: &Engine, volume: &VolumeConfig) -> bool {
    engine.exports().iter().any(|export| export.name == volume.name)
}

/// Finds out whether the addresses to listen on are free, before a first start makes anything.
fn check_addresses(config: &Config, handed: &HandedSockets) -> Result<(), CliError> {
    for socket in [&config.nbd.socket, &config.http.socket] {
        if handed.has_unix(socket) {
            continue;
        }
        let failed = |error| CliError::failed(format!("{}: {error}", socket.display()));
        unix_socket::listen(socket).map(drop).map_err(failed)?;
    }
    let page = config.http.tcp.iter().map(|(address, _)| address);
    // Without a configuration any other port does as well.
    let page = page.filter(|_| config.origin != Origin::Standard);
    let own = config.nbd.tcp.iter().chain(page).filter(|address| !handed.has_tcp(**address));
    for address in own {
        let failed = |error| CliError::failed(format!("{address}: {error}"));
        TcpListener::bind(address).map(drop).map_err(failed)?;
    }
    Ok(())
}

/// Lets clients in; how the API and the page are reached.
fn open(
    engine: &mut Engine,
    config: &Config,
    mut handed: HandedSockets,
) -> Result<(Http, String), CliError> {
    let encryption = config.nbd.tls.as_ref().map(tls).transpose().map_err(CliError::input)?;
    let nbd = Listeners { tls: encryption.clone(), ..nbd_listeners(config, &mut handed) };
    let handed_unix = handed.unix(&config.http.socket);
    let handed_tcp = config.http.tcp.as_ref().and_then(|(address, _)| handed.tcp(*address));
    engine.open_listeners(&nbd).map_err(CliError::failed)?;
    let mut tcp = None;
    let mut page = None;
    if let Some((address, token_file)) = &config.http.tcp {
        let token = listeners::token(token_file)?;
        let tls = encryption.filter(|_| !address.ip().is_loopback());
        let scheme = if tls.is_some() { "https" } else { "http" };
        page = Some((scheme, token.clone()));
        let any_port = config.origin == Origin::Standard;
        tcp = Some(TcpListen { address: *address, any_port, token, tls });
    }
    let unix = Some(config.http.socket.clone());
    let listeners = HttpListeners { unix, tcp, handed_unix, handed_tcp };
    let http = thermocline_engine::http::serve_admin(listeners, &engine.mailbox())
        .map_err(CliError::failed)?;
    let mut text = format!("API: {}\n", config.http.socket.display());
    if let (Some(address), Some((scheme, token))) = (http.address, page) {
        text += &listeners::dashboard(scheme, address, &token);
    } else {
        text.push_str("no dashboard: `tcp` and `token-file` under [http] in the configuration\n");
    }
    Ok((http, text))
}

/// Listeners for NBD clients: those that were handed over, and others anew.
fn nbd_listeners(config: &Config, handed: &mut HandedSockets) -> Listeners {
    let mut listeners = Listeners { limits: config.nbd.limits, ..Listeners::default() };
    let socket = config.nbd.socket.clone();
    match handed.unix(&socket) {
        Some(listener) => listeners.handed_unix.push((socket, listener)),
        None => listeners.unix.push(socket),
    }
    for &address in &config.nbd.tcp {
        match handed.tcp(address) {
            Some(listener) => listeners.handed_tcp.push(listener),
            None => listeners.tcp.push(address),
        }
    }
    listeners
}

/// Sorts hints and bounds pins as the configuration says, and lets file systems be surveyed.
fn begin_hints(engine: &mut Engine, config: &Config) -> Result<(), CliError> {
    engine.admin().set_pin_share(config.hints.pins);
    if let Some(path) = &config.hints.classes {
        let table = table_of_classes(path).map_err(CliError::input)?;
        let taken = engine.admin().set_hint_classes(&table);
        taken.map_err(|refused| CliError::input(refused.message))?;
    }
    match config.hints.survey {
        None => Ok(()),
        Some(every) => surveys::begin(engine.mailbox(), every).map_err(CliError::failed),
    }
}

/// Allows as many open files as the system lets this process have: each client is one. What is too
/// little even so is told when a connection cannot be accepted.
fn allow_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// A line for each pool, and what its owner should know.
fn tell_pools(disks: &[Option<PoolDevice<Disk>>], names: &[String], config: &Config) -> String {
    let mut text = String::new();
    for (disk, name) in disks.iter().zip(names) {
        let Some(disk) = disk else { continue };
        let path = disk.main().path();
        let pool = config.pools.iter().find(|pool| pool.device.path == path);
        let size = disk.geometry().size;
        let way = manner(disk.main(), pool.map(|pool| &pool.device));
        let _ = writeln!(text, "pool {name}, {size}{way}: {}", path.display());
        if let (Some(fast), Some(status)) = (disk.fast(), disk.cache_status()) {
            let cache = pool.and_then(|pool| pool.cache.as_ref());
            let way = manner(fast, cache.map(|cache| &cache.device));
            let room = Bytes(u64::from(status.lines) * u64::from(LINE));
            let at = fast.path().display();
            let _ = writeln!(text, "  behind a block cache of {room}{way}: {at}");
        }
        if disk.devices().any(|disk| is_on_tmpfs(disk.path())) {
            let _ = writeln!(
                text,
                "  WARNING: {name} is in memory; a reboot loses it with every chunk that is only there"
            );
        }
    }
    text
}

/// Manner in which a device is used.
fn manner(disk: &Disk, config: Option<&DeviceConfig>) -> String {
    let slowed = config.and_then(|device| device.emulate.as_ref());
    let slowed =
        slowed.map_or(String::new(), |emulation| format!(", as slow as {}", emulation.name));
    let buffered = !disk.is_direct() && disk.bucket_status().is_none();
    let way = if buffered { ", through the page cache" } else { "" };
    slowed + way
}
