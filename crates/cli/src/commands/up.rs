//! `thermocline up`: tiered volumes on pools, served over NBD.
//!
//! With a configuration file what that says, without one a volume on three files that are slowed to
//! what they are called. Makes files and volumes the first time, opens what is there the next.
//! Stops on SIGTERM or Ctrl-C: everything acknowledged is durable then, and the same command brings
//! it up again.

use crate::config::{Config, Standard};
use crate::deciding::DecidingArgs;
use crate::error::CliError;
use crate::handed::HandedSockets;
use crate::listeners::{self, LogFormat};
use crate::output;
use crate::recording::Recording;
use crate::running::RunningEngine;
use crate::service::{self, State};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fmt::Write;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use thermocline_engine::Engine;
use thermocline_engine::pools::{self, Permission};
use thermocline_units::Bytes;
use thermocline_units::text::counted;

const EXAMPLES: &str = "\
Examples:
  thermocline up                                a volume of 1 GiB under ./thermocline-data
  thermocline up --data /mnt/pools --size 20GiB
  thermocline up /etc/thermocline.toml          what the file says; docs/formats/configuration.md
  thermocline up --policy baseline:k=200 --epoch 1m --record today.tcr
  nbdinfo 'nbd+unix:///v0?socket=thermocline-data/nbd.sock'

Without a configuration the pools are files: scm.pool, ssd.pool and hdd.pool, slowed to
storage-class memory, a SATA SSD and a disk of 7,200 rpm; what is already slower stays as slow as
it is.";

/// Size of the volume that is made without a configuration.
const SIZE: Bytes = Bytes::from_gib(1);

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
    /// Size of the volume, when it is made; 1GiB when not given.
    #[arg(long, value_name = "SIZE", conflicts_with = "config")]
    size: Option<Bytes>,
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
            size: self.size.unwrap_or(SIZE),
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
    let handed = HandedSockets::take()?; // Before anything else opens files.
    let stop = stop_signal().map_err(CliError::failed)?;
    args.deciding.check()?;
    let mut config = match &args.config {
        Some(path) => Config::load(path).map_err(CliError::input)?,
        None => args.standard.config()?,
    };
    config = config.with_added_pools().map_err(CliError::input)?;
    config.settings = args.deciding.settings(config.settings);
    if let Some(record) = args.deciding.record() {
        Recording::check_place(record, &config.data)?;
    }
    if args.config.is_some() {
        config.check_secrets().map_err(CliError::input)?;
    }
    handed.check(&config)?;
    let damage = pools::Damage::from(args.salvage);
    let may = Permission { degraded: args.degraded, damage, erase: &args.erase };
    let mut running = RunningEngine::start(&config, may, handed, &args.deciding, args.log)?;
    let listeners_told = running.open_listeners(&config)?;
    let engine = running.engine();
    let (volumes, attaching) = (tell_volumes(engine, &config), tell_attaching(engine, &config));
    let nobody = tell_nobody(&args, &config) + &tell_size(engine, args.standard.size);
    // Clients are let in already: a full disk behind the standard output does not send them away.
    if let Err(error) = output::print(&format!(
        "{}{volumes}{nobody}{listeners_told}{attaching}",
        running.pools_told()
    )) {
        listeners::say(&error.to_string());
    }
    let volumes = running.engine().exports().len() as u64;
    let status = format!("serving {}", counted(volumes, "volume"));
    service::tell(State::Ready { status: &status });
    let recorded = running.serve(&stop, || service::tell(State::Stopping))?;
    output::print(&format!("closed; everything is durable\n{recorded}"))
}

/// Readable when somebody wants the engine to stop.
fn stop_signal() -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

/// Tells that nobody decides about moves where nobody said so: few who write a configuration with
/// several pools mean that.
fn tell_nobody(args: &Args, config: &Config) -> String {
    match &args.config {
        Some(path)
            if config.policy.is_none()
                && !args.deciding.names_policy()
                && config.pools.len() > 1 =>
        {
            format!(
                "no [policy] in {}: no data moves by itself; with `name = \"auto\"` there, or \
                 --policy auto, hot data moves to faster pools\n",
                path.display()
            )
        }
        _ => String::new(),
    }
}

/// Tells that a size was asked for and the volume, which was there, has another.
fn tell_size(engine: &Engine, size: Option<Bytes>) -> String {
    let first = engine.exports().first();
    match (first, size) {
        (Some(first), Some(size)) if first.size != size.0 => format!(
            "--size {size} is for a volume that is made, and {} has {}; `thermocline volume grow` \
             makes it larger\n",
            first.name,
            Bytes(first.size)
        ),
        _ => String::new(),
    }
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
fn tell_attaching(engine: &Engine, config: &Config) -> String {
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
