//! `thermocline store serve`: a storage server that runs until somebody stops it.

use super::beside::{Beside, OnVolume, Wanted};
use crate::config::HttpConfig;
use crate::config::hosting::{
    LOOKUP, MEMORY, STORE_PORT, STORE_SOCKET, StorePlace, StoreServe, load_store, protocol,
    store_defaults,
};
use crate::error::CliError;
use crate::in_use::refuse_used;
use crate::listeners::{self, LogFormat};
use crate::output;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use thermocline_content::Settings;
use thermocline_hostcache::Protocol;
use thermocline_hosting::{
    HostingError, Notes, StoreConfig, StoreDevice, StoreServer, serve_store,
};
use thermocline_policy::tactics::StoreTactics;
use thermocline_ports_os::{Disk, OpenOptions};
use thermocline_units::{Bytes, Nanos};

/// Address of the page when there is no configuration.
const PAGE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7680);

const EXAMPLES: &str = "\
Examples:
  thermocline store serve store.img
  thermocline store serve --config store.toml
  thermocline store serve --engine thermocline.toml --volume content

Without a configuration hosts of this machine alone can come in. A configuration with keys lets
others in: docs/formats/hosting.md.";

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The store's file or block device.
    #[arg(required_unless_present_any = ["config", "engine"],
        conflicts_with_all = ["config", "engine"])]
    device: Option<PathBuf>,
    #[command(flatten)]
    on_volume: OnVolume,
    /// A configuration file instead of what follows.
    #[arg(long, value_name = "FILE", conflicts_with = "engine")]
    config: Option<PathBuf>,
    /// Address where hosts come in.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "config",
        default_value_t = SocketAddr::from(([127, 0, 0, 1], STORE_PORT)))]
    listen: SocketAddr,
    /// Protocol: what is done to send less; hosts must have the same.
    #[arg(long, value_name = "PROTOCOL", conflicts_with = "config", default_value = "manifest",
        value_parser = protocol)]
    protocol: Protocol,
    /// Choice of who sends a block that several have, by its name in `thermocline policies`.
    #[arg(long, value_name = "POLICY", conflicts_with = "config",
        default_value = LOOKUP)]
    lookup: String,
    /// Memory for blocks.
    #[arg(long, value_name = "SIZE", conflicts_with = "config", default_value_t = MEMORY)]
    memory: Bytes,
    /// Time for which a host has a volume without a word.
    #[arg(long, value_name = "TIME", conflicts_with = "config", default_value = "10s",
        value_parser = lease)]
    lease: Nanos,
    /// Unix socket of the API.
    #[arg(long, value_name = "PATH", conflicts_with = "config", default_value = STORE_SOCKET)]
    socket: PathBuf,
    /// Form in which events are told on stderr.
    #[arg(long, value_name = "FORM", default_value = "text")]
    log: LogFormat,
}

fn lease(text: &str) -> Result<Nanos, String> {
    let lease: Nanos = text.parse().map_err(|error| format!("{error}"))?;
    let fits = (Nanos::from_secs(1)..=Nanos::from_secs(600)).contains(&lease);
    if fits { Ok(lease) } else { Err("give 1s to 10m".to_string()) }
}

impl Args {
    fn wanted(&self) -> Result<StoreServe, CliError> {
        let device = self.device.clone().map(StorePlace::Device);
        let place = device.or_else(|| self.on_volume.place().map(StorePlace::Volume));
        match (&self.config, place) {
            (Some(path), _) => load_store(path).map_err(CliError::input),
            (None, Some(place)) => {
                let mut config = store_defaults(self.listen);
                config.protocol = self.protocol;
                config.lookup.clone_from(&self.lookup);
                config.memory = self.memory;
                config.lease = self.lease;
                let admin = HttpConfig { socket: self.socket.clone(), tcp: None };
                Ok(StoreServe { place, config, tactics: StoreTactics::default(), admin })
            }
            (None, None) => {
                Err(CliError::input("name the store's file or block device, or a volume"))
            }
        }
    }
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let StoreServe { place, config, tactics, admin } = args.wanted()?;
    let page = args.config.is_none().then_some(PAGE);
    let stop = stop().map_err(CliError::failed)?;
    let (device, engine) = open(place, args.log)?;
    // Names of blocks that were read need not be found out again.
    let settings = Settings { known_blocks: 1 << 20, tactics, ..Settings::default() };
    let store = (device, settings);
    let served = serve(store, config, (&admin, page), (stop, args.log), engine.as_ref());
    // The engine ends after the store that stands on it, however that ended.
    let ended = engine.map_or(Ok(()), Beside::end);
    ended.and(served)?;
    listeners::say("stopped; everything that was answered is durable");
    Ok(())
}

/// Opens the device of a store; for a volume, with the engine around it.
fn open(place: StorePlace, log: LogFormat) -> Result<(StoreDevice, Option<Beside>), CliError> {
    match place {
        StorePlace::Device(path) => {
            refuse_used(&path, "stop that first")?;
            let disk = Disk::open(&path, OpenOptions::default(), None).map_err(CliError::input)?;
            Ok((Box::new(disk), None))
        }
        StorePlace::Volume(place) => {
            let (device, engine) = Beside::start(place, Wanted::Serve, log)?;
            Ok((Box::new(device), Some(engine)))
        }
    }
}

fn serve(
    (device, settings): (StoreDevice, Settings),
    config: StoreConfig,
    (admin, page): (&HttpConfig, Option<SocketAddr>),
    (stop, log): (UnixStream, LogFormat),
    engine: Option<&Beside>,
) -> Result<(), CliError> {
    let notes = notes(log);
    let name = hosting_name(config.protocol);
    let server = StoreServer::start(config, device, settings, notes).map_err(start_error)?;
    let (listeners, token) = listeners::admin_ways(admin, page)?;
    let http = serve_store(listeners, server.admin()).map_err(CliError::failed)?;
    let ways = listeners::tell_ways(&http, admin, token);
    let engine = engine.map_or("", |engine| &engine.told);
    output::print(&format!(
        "{engine}listening on {}, protocol {name}\n{ways}stop with Ctrl-C or SIGTERM\n",
        server.address()
    ))?;
    let ended = server.run(stop).map_err(CliError::failed);
    drop(http);
    ended
}

/// A protocol's name.
pub(crate) fn hosting_name(protocol: Protocol) -> &'static str {
    let known = Protocol::ALL.iter().find(|(_, known)| *known == protocol);
    known.map_or("unknown", |(name, _)| name)
}

/// Tells events on stderr.
pub(crate) fn notes(log: LogFormat) -> Notes {
    Notes::new(move |event| listeners::tell(log, event))
}

/// Error of a start: what was wrong in the configuration is the user's to mend.
pub(crate) fn start_error(error: HostingError) -> CliError {
    match error {
        HostingError::Meet(_) | HostingError::Settings(_) => CliError::input(error),
        HostingError::Store { .. } | HostingError::Nbd { .. } | HostingError::System(_) => {
            CliError::failed(error)
        }
    }
}

/// Readable when SIGTERM or Ctrl-C has come; the second one does not wait for anything.
pub(crate) fn stop() -> io::Result<UnixStream> {
    let (wakeup, ring) = UnixStream::pair()?;
    let is_told = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, is_told.clone())?;
        signal_hook::flag::register(signal, is_told.clone())?;
        signal_hook::low_level::pipe::register(signal, ring.try_clone()?)?;
    }
    Ok(wakeup)
}
