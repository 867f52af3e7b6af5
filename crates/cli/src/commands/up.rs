//! `thermocline up`: tiered volumes on pools, served over NBD.
//!
//! With a configuration file what that says, without one a volume on three files that are slowed to
//! what they are called. Makes files and volumes the first time, opens what is there the next.
//! Stops on SIGTERM or Ctrl-C: everything acknowledged is durable then, and the same command brings
//! it up again.

use crate::config::{Config, Standard};
use crate::error::CliError;
use crate::output;
use crate::pools::{self, Started, is_on_tmpfs};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fmt::Write;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use thermocline_policy::registry::Build;
use thermocline_ports::Device;
use thermocline_ports_os::Disk;
use thermocline_serve::Engine;
use thermocline_units::{Bytes, Nanos};
use thermocline_volume::Group;

const EXAMPLES: &str = "\
Examples:
  thermocline up                                a volume of 1 GiB under ./thermocline-data
  thermocline up --data /mnt/pools --size 20GiB
  thermocline up /etc/thermocline.toml          what the file says; docs/formats/configuration.md
  nbdinfo 'nbd+unix:///v0?socket=thermocline-data/nbd.sock'

Without a configuration the pools are files: scm.pool, ssd.pool and hdd.pool, slowed to storage-class
memory, a SATA SSD and a disk of 7,200 rpm; what is already slower stays as slow as it is.";

/// Tiered volumes in one command.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to run, a TOML file; one volume on three files when not given.
    #[arg(value_name = "CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    standard: StandardArgs,
}

/// What runs without a configuration.
#[derive(clap::Args)]
#[command(next_help_heading = "Without a configuration")]
struct StandardArgs {
    /// Folder of the pools and the sockets; made when it is missing.
    #[arg(long, value_name = "DIR", default_value = "thermocline-data", conflicts_with = "config")]
    data: PathBuf,
    /// Size of the volume, when it is made.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", conflicts_with = "config")]
    size: Bytes,
    /// Where to listen; nbd.sock in the folder when not given.
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
            pools::link_to_tmpfs(&config.data, &config.pools[0].path)?;
        }
        Ok(config)
    }
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let stop = stop_signal().map_err(CliError::failed)?;
    let config = match &args.config {
        Some(path) => Config::load(path).map_err(CliError::input)?,
        None => args.standard.config()?,
    };
    check_doors(&config)?;
    let Started { group, disks, names } = pools::start(&config)?;
    let told = tell_pools(&disks, &names, &config);
    let disks: Option<Vec<Disk>> = disks.into_iter().collect();
    let disks = disks.ok_or_else(|| CliError::failed("a pool of this group was removed"))?;
    let mut prepared = Ok(());
    let mut engine = Engine::start(group, disks, &config.nbd.socket, |group, now| {
        prepared = prepare(&config, group, now);
    })
    .map_err(CliError::failed)?;
    prepared?;
    output::print(&(told + &welcome(&engine, &config.nbd.socket)))?;
    engine.serve(&stop).map_err(CliError::failed)?;
    output::print("closed; everything is durable\n")
}

/// Makes the volumes of a first start, and says who decides about moves.
fn prepare(config: &Config, group: &mut Group, now: Nanos) -> Result<(), CliError> {
    if group.volumes().next().is_none() {
        for &size in &config.volumes {
            group.create_volume(now, size).map_err(CliError::input)?;
        }
    }
    if let Some(spec) = &config.policy {
        let Build::Placement(build) = spec.entry.build else {
            unreachable!("configurations name placements only")
        };
        group.set_placement(Some(build(&spec.settings).map_err(CliError::input)?));
    }
    Ok(())
}

/// What a configuration may ask for and this engine does not have.
fn check_doors(config: &Config) -> Result<(), CliError> {
    config.check_secrets().map_err(CliError::input)?;
    if !config.nbd.tcp.is_empty() || config.nbd.tls.is_some() {
        return Err(CliError::input("NBD over TCP is not served yet; take `tcp` out of [nbd]"));
    }
    if config.http.tcp.is_some() {
        return Err(CliError::input("HTTP is not served yet; take `tcp` out of [http]"));
    }
    Ok(())
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
fn tell_pools(disks: &[Option<Disk>], names: &[String], config: &Config) -> String {
    let mut text = String::new();
    for (disk, name) in disks.iter().zip(names) {
        let Some(disk) = disk else { continue };
        let path = disk.path();
        let slowed = config.pools.iter().find(|pool| pool.path == path);
        let slowed = slowed.and_then(|pool| pool.emulate.as_ref());
        let slowed =
            slowed.map_or(String::new(), |emulation| format!(", as slow as {}", emulation.name));
        let way = if disk.is_direct() { "" } else { ", through the page cache" };
        let size = disk.geometry().size;
        let _ = writeln!(text, "pool {name}, {size}{slowed}{way}: {}", path.display());
        if is_on_tmpfs(path) {
            let _ = writeln!(
                text,
                "  WARNING: {name} is in memory; a reboot loses it with every chunk that is only there"
            );
        }
    }
    text
}

fn welcome(engine: &Engine, socket: &Path) -> String {
    let socket = socket.display();
    let mut text = String::new();
    for export in engine.exports() {
        let (name, size) = (&export.name, Bytes(export.size));
        let _ = writeln!(text, "volume {name}, {size}: nbd+unix:///{name}?socket={socket}");
    }
    let _ = write!(
        text,
        "\nattach it with one of\n  \
         qemu-img info 'nbd+unix:///v0?socket={socket}'\n  \
         nbdfuse /mnt/point 'nbd+unix:///v0?socket={socket}'\n  \
         nbd-client -unix {socket} -N v0 /dev/nbd0\n\
         stop with Ctrl-C or SIGTERM\n"
    );
    text
}
