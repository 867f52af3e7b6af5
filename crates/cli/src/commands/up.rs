//! `thermocline up`: a tiered volume on three files, served over NBD on a unix socket.
//!
//! Makes the files and a volume the first time, opens what is there the next. Stops on SIGTERM or
//! Ctrl-C: everything acknowledged is durable then, and the same command brings it up again.

use crate::deciding::DecidingArgs;
use crate::doors::{self, LogFormat};
use crate::error::CliError;
use crate::output;
use crate::recording::Recording;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fmt::Write;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use thermocline_policy::registry::PolicySpec;
use thermocline_ports::Device;
use thermocline_ports_os::{Disk, OpenOptions};
use thermocline_serve::api::Event;
use thermocline_serve::http::{self, HttpDoors, TcpDoor};
use thermocline_serve::{Doors, Engine};
use thermocline_units::Bytes;
use thermocline_volume::{Group, PoolSpec, Settings};

const EXAMPLES: &str = "\
Examples:
  thermocline up                                a volume of 1 GiB under ./thermocline-data
  thermocline up --data /mnt/pools --size 20GiB
  thermocline up --policy baseline:k=200 --epoch 1m --record today.tcr
  nbdinfo 'nbd+unix:///v0?socket=thermocline-data/nbd.sock'

The pools are files: scm.pool, ssd.pool and hdd.pool, fastest first. To put one on its own medium, make
the file there and a symbolic link to it in the folder before the first start.";

/// A tiered volume in one command.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the pools and the socket; made when it is missing.
    #[arg(long, value_name = "DIR", default_value = "thermocline-data")]
    data: PathBuf,
    /// Size of the volume, when it is made.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    size: Bytes,
    /// Where to listen; nbd.sock in the folder when not given.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    deciding: DecidingArgs,
}

/// Who decides when nobody is named.
const POLICY: &str = "baseline";

/// The pools by name, with their sizes as shares of the volume in sixteenths.
const POOLS: [(&str, u64); 3] = [("scm", 1), ("ssd", 4), ("hdd", 16)];
/// Where the dashboard listens, when the port is free.
const PAGE_PORT: u16 = 8787;
/// No pool is made smaller.
const POOL_BYTES_MIN: Bytes = Bytes::from_mib(32);

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let stop = stop_signal().map_err(CliError::failed)?;
    let socket = args.socket.clone().unwrap_or_else(|| args.data.join("nbd.sock"));
    args.deciding.check()?;
    let (group, disks) = bring_up(&args)?;
    let disks = disks.into_iter().map(Some).collect();
    let log = Box::new(|event: &Event| doors::tell(LogFormat::Text, event));
    let mut engine = Engine::start(group, disks, log).map_err(CliError::failed)?;
    if engine.exports().is_empty() {
        engine.desk().create_volume(args.size).map_err(CliError::input)?;
    }
    let otherwise = PolicySpec::parse(POLICY).expect("it is in the registry");
    let recording = args.deciding.begin(&mut engine, Some(&otherwise))?;
    let doors = Doors { unix: vec![socket.clone()], ..Doors::default() };
    engine.open_doors(&doors).map_err(CliError::failed)?;
    let token = doors::token(&args.data.join("token"))?;
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], PAGE_PORT));
    let tcp = Some(TcpDoor { address, any_port: true, token: token.clone(), tls: None });
    let api = HttpDoors { unix: Some(args.data.join("api.sock")), tcp };
    let http = http::serve(api, &engine.orders()).map_err(CliError::failed)?;
    let page = http.address.map(|address| format!("dashboard: http://{address}/#token={token}\n"));
    output::print(&(welcome(&engine, &socket) + &page.unwrap_or_default()))?;
    let served = engine.serve(&stop).map_err(CliError::failed);
    drop(engine); // And the recorder with it: nothing more is recorded.
    let recorded = recording.map_or(String::new(), Recording::finish);
    served?;
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

/// Opens the pools, makes those that are missing, and opens or makes the group on them.
fn bring_up(args: &Args) -> Result<(Group, Vec<Disk>), CliError> {
    std::fs::create_dir_all(&args.data)
        .map_err(|error| CliError::failed(format!("{}: {error}", args.data.display())))?;
    let paths = POOLS.map(|(name, _)| args.data.join(format!("{name}.pool")));
    let there: Vec<bool> = paths.iter().map(|path| has_contents(path)).collect();
    let fresh = there.iter().all(|&there| !there);
    if let Some(missing) = paths.iter().zip(&there).find(|(_, there)| !fresh && !**there) {
        let text = format!(
            "{} is missing or empty, its companions are not; bring it back, or start in another folder",
            missing.0.display()
        );
        return Err(CliError::input(text));
    }
    let mut devices = Vec::new();
    for (path, (_, sixteenths)) in paths.iter().zip(POOLS) {
        let bytes = Bytes(args.size.0 / 16 * sixteenths + args.size.0 / 16).max(POOL_BYTES_MIN);
        let options = OpenOptions { create: Some(bytes), buffered: false };
        devices.push(Disk::open(path, options, None).map_err(CliError::failed)?);
    }
    let group = if fresh {
        let specs: Vec<PoolSpec> = devices
            .iter()
            .zip(POOLS)
            .map(|(device, (name, _))| PoolSpec {
                name: name.to_string(),
                geometry: device.geometry(),
                zeroed: true,
                reserve_chunks: 0,
            })
            .collect();
        let settings = args.deciding.settings(Settings::default());
        Group::create(settings, &specs, doors::random()?).map_err(CliError::input)?
    } else {
        let devices: Vec<_> = devices.iter().map(|device| Some(device.geometry())).collect();
        Group::open(args.deciding.settings(Settings::default()), &devices)
    };
    Ok((group, devices))
}

fn has_contents(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
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
