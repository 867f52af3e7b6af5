//! `thermocline up`: tiered volumes on pools, served over NBD.
//!
//! With a configuration file what that says, without one a volume on three files that are slowed to
//! what they are called. Makes files and volumes the first time, opens what is there the next.
//! Stops on SIGTERM or Ctrl-C: everything acknowledged is durable then, and the same command brings
//! it up again.

use crate::config::{Config, DeviceConfig, Standard, VolumeConfig};
use crate::deciding::DecidingArgs;
use crate::error::CliError;
use crate::listeners::{self, LogFormat};
use crate::output;
use crate::pools::{self, AddedPools, DataFolder, Permission, Started, is_on_tmpfs};
use crate::recording::Recording;
use crate::service::{self, State};
use rustix::process::{Resource, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fmt::Write;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use thermocline_admin::api::Event;
use thermocline_admin::http::{Http, HttpListeners, TcpListen};
use thermocline_admin::tls::{TlsFiles, tls};
use thermocline_blockcache::{LINE, PoolDevice};
use thermocline_engine::learnt::{self, Kept};
use thermocline_engine::surveys;
use thermocline_engine::{Engine, Listeners, watch_room};
use thermocline_ports::Device;
use thermocline_ports_os::Disk;
use thermocline_units::Bytes;

const EXAMPLES: &str = "\
Examples:
  thermocline up                                a volume of 1 GiB under ./thermocline-data
  thermocline up --data /mnt/pools --size 20GiB
  thermocline up /etc/thermocline.toml          what the file says; docs/formats/configuration.md
  thermocline up --policy baseline:k=200 --epoch 1m --record today.tcr
  nbdinfo 'nbd+unix:///v0?socket=thermocline-data/nbd.sock'

Without a configuration the pools are files: scm.pool, ssd.pool and hdd.pool, slowed to storage-class
memory, a SATA SSD and a disk of 7,200 rpm; what is already slower stays as slow as it is.";

/// Tiered volumes in one command.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Configuration, a TOML file; one volume on three files when not given.
    #[arg(value_name = "CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    standard: StandardArgs,
    #[command(flatten)]
    deciding: DecidingArgs,
    /// Start although pools are missing: they are given up for good, and chunks that were only
    /// there answer with I/O errors.
    #[arg(long)]
    degraded: bool,
    /// Open a group whose metadata is damaged, and lose what cannot be read; `thermocline check
    /// --salvage` says what that is, and changes nothing.
    #[arg(long)]
    salvage: bool,
    /// Destroy what is on this device of the configuration when a pool, or a block cache, is made
    /// there; without it a device that holds something is refused, with what it holds.
    #[arg(long, value_name = "DEVICE")]
    erase: Vec<PathBuf>,
    /// Format of events on stderr.
    #[arg(long, value_name = "FORM", default_value = "text")]
    log: LogFormat,
}

/// Options without a configuration.
#[derive(clap::Args)]
#[command(next_help_heading = "Without a configuration")]
struct StandardArgs {
    /// Folder of the pools and the sockets; made when it is missing.
    #[arg(long, value_name = "DIR", default_value = "thermocline-data", conflicts_with = "config")]
    data: PathBuf,
    /// Size of the volume, when it is made.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", conflicts_with = "config")]
    size: Bytes,
    /// Socket to listen on; nbd.sock in the folder when not given.
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    socket: Option<PathBuf>,
    /// Leave the pools as fast as they are.
    #[arg(long, conflicts_with = "config")]
    no_emulation: bool,
    /// Make the fastest pool in memory (tmpfs): faster than a file, and lost at a reboot with every
    /// chunk that is only there.
    #[arg(long, conflicts_with = "config")]
    scm_on_tmpfs: bool,
}

impl StandardArgs {
    fn config(&self) -> Result<Config, CliError> {
        let standard = Standard {
            data: self.data.clone(),
            size: self.size,
            socket: self.socket.clone(),
            emulation: !self.no_emulation,
        };
        let config = standard.config().map_err(CliError::input)?;
        if self.scm_on_tmpfs {
            pools::link_to_tmpfs(&config.data, &config.pools[0].device.path)?;
        }
        Ok(config)
    }
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let stop = stop_signal().map_err(CliError::failed)?;
    allow_open_files();
    args.deciding.check()?;
    let mut config = match &args.config {
        Some(path) => Config::load(path).map_err(CliError::input)?,
        None => args.standard.config()?,
    };
    config = config.with_added_pools().map_err(CliError::input)?;
    config.settings = args.deciding.settings(config.settings);
    let is_standard = args.config.is_none();
    if !is_standard {
        config.check_secrets().map_err(CliError::input)?;
    }
    let damage = pools::Damage::from(args.salvage);
    let may = Permission { degraded: args.degraded, damage, erase: &args.erase };
    let _folder = DataFolder::lock(&config.data)?;
    let Started { group, disks, names, clock } = pools::start(&config, may)?;
    let told = tell_pools(&disks, &names, &config);
    let is_damaged = group.salvage().is_some();
    let log = Box::new(move |event: &Event| listeners::tell(args.log, event));
    let mut engine = Engine::start(group, disks, clock, log).map_err(CliError::failed)?;
    tell_losses(&engine);
    engine.keep_pools(Arc::new(AddedPools::of(&config.data)));
    // What a damaged group has lost is not made anew: that would look like what was there.
    if !is_damaged {
        make_volumes(&mut engine, &config)?;
    }
    set_slas(&mut engine, &config)?;
    begin_hints(&mut engine, &config)?;
    engine.admin().schedule_scrubs(config.scrub.every, config.data.join("scrubbed"));
    watch_room(engine.mailbox()).map_err(CliError::failed)?;
    let kept = Kept::of(&config.data);
    engine.admin().recall_hints(&kept.hints);
    let recording = args.deciding.begin(&mut engine, config.policy.as_ref(), &kept.learnt)?;
    learnt::keep(engine.mailbox(), kept.clone()).map_err(CliError::failed)?;
    let (http, doors_told) = open_listeners(&mut engine, &config, is_standard)?;
    let told = told + &tell_volumes(&engine, &config) + &doors_told + &tell_ways(&engine, &config);
    output::print(&told)?;
    let status = format!("serving {} volume(s)", engine.exports().len());
    service::tell(State::Ready { status: &status });
    let served = engine.serve(&stop).map_err(CliError::failed);
    service::tell(State::Stopping);
    drop(http);
    keep(&mut engine, &kept);
    drop(engine); // And the recorder with it: nothing more is recorded.
    let recorded = recording.map_or(String::new(), Recording::finish);
    served?;
    output::print(&format!("closed; everything is durable\n{recorded}"))
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

/// Lets clients in; how the API and the page are reached.
fn open_listeners(
    engine: &mut Engine,
    config: &Config,
    is_standard: bool,
) -> Result<(Http, String), CliError> {
    let files = config.nbd.tls.as_ref().map(|files| TlsFiles {
        certificate: files.cert.clone(),
        key: files.key.clone(),
        client_authority: files.client_ca.clone(),
    });
    let encryption = files.as_ref().map(tls).transpose().map_err(CliError::input)?;
    let listeners = Listeners {
        unix: vec![config.nbd.socket.clone()],
        tcp: config.nbd.tcp.clone(),
        tls: encryption.clone(),
        limits: config.nbd.limits,
    };
    engine.open_listeners(&listeners).map_err(CliError::failed)?;
    let mut tcp = None;
    let mut page = None;
    if let Some((address, token_file)) = &config.http.tcp {
        let token = listeners::token(token_file)?;
        let tls = encryption.filter(|_| !address.ip().is_loopback());
        let scheme = if tls.is_some() { "https" } else { "http" };
        page = Some((scheme, token.clone()));
        tcp = Some(TcpListen { address: *address, any_port: is_standard, token, tls });
    }
    let unix = Some(config.http.socket.clone());
    let http =
        thermocline_engine::http::serve_admin(HttpListeners { unix, tcp }, &engine.mailbox())
            .map_err(CliError::failed)?;
    let mut text = format!("API: {}\n", config.http.socket.display());
    if let (Some(address), Some((scheme, token))) = (http.address, page) {
        let _ = writeln!(text, "dashboard: {scheme}://{address}/#token={token}");
    }
    Ok((http, text))
}

/// Sorts hints as the configuration says, and lets file systems be surveyed.
fn begin_hints(engine: &mut Engine, config: &Config) -> Result<(), CliError> {
    if let Some(path) = &config.hints.classes {
        let wrong = |what: String| CliError::input(format!("{}: {what}", path.display()));
        let table = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let taken = engine.admin().set_hint_classes(&table);
        taken.map_err(|refused| wrong(refused.message))?;
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

/// Readable when somebody wants the engine to stop.
fn stop_signal() -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
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

/// Tells which volumes clients may attach.
fn tell_volumes(engine: &Engine, config: &Config) -> String {
    let socket = config.nbd.socket.display();
    let scheme = if config.nbd.tls.is_some() { "nbds" } else { "nbd" };
    let mut text = String::new();
    for export in engine.exports() {
        let (name, size) = (&export.name, Bytes(export.size));
        let _ = writeln!(text, "volume {name}, {size}: nbd+unix:///{name}?socket={socket}");
        for address in engine.tcp_addresses() {
            let _ = writeln!(text, "  also {scheme}://{address}/{name}");
        }
    }
    text
}

/// Tells how clients attach a volume.
fn tell_ways(engine: &Engine, config: &Config) -> String {
    let Some(export) = engine.exports().first() else { return String::new() };
    let (name, socket) = (&export.name, config.nbd.socket.display());
    format!(
        "\nattach it with one of\n  \
         qemu-img info 'nbd+unix:///{name}?socket={socket}'\n  \
         nbdfuse /mnt/point 'nbd+unix:///{name}?socket={socket}'\n  \
         nbd-client -unix {socket} -N {name} /dev/nbd0\n\
         stop with Ctrl-C or SIGTERM\n"
    )
}
