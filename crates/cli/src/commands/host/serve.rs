//! `thermocline host serve`: an agent that runs until somebody stops it.

use super::flash;
use crate::commands::store::serve::{hosting_name, notes, start_error, stop};
use crate::commands::store::volume_name;
use crate::config::HttpConfig;
use crate::config::hosting::{
    FLASH_POLICY, FlashPlace, HOST_SOCKET, HOSTS_MAX, HostServe, MEMORY, NBD_SOCKET, STORE_PORT,
    host_defaults, load_host, protocol,
};
use crate::error::CliError;
use crate::listeners::{self, LogFormat};
use crate::output;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use thermocline_hostcache::{HostId, Protocol};
use thermocline_hosting::{HostAgent, serve_host};
use thermocline_units::Bytes;

/// Address of the page when there is no configuration.
const PAGE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7690);

const EXAMPLES: &str = "\
Examples:
  thermocline host serve --id 1 --volume vm1 --volume vm2
  qemu-system-x86_64 … -drive file=nbd+unix:///vm1?socket=thermocline-host.nbd,format=raw
  thermocline host serve --config host.toml

A configuration with keys reaches a store on another machine, and other hosts:
docs/formats/hosting.md.";

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// This host's number: each host of a store has its own.
    #[arg(long, value_name = "N", required_unless_present = "config", conflicts_with = "config",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(HOSTS_MAX)))]
    id: Option<u32>,
    /// A configuration file instead of what follows.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The storage server.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "config",
        default_value_t = SocketAddr::from(([127, 0, 0, 1], STORE_PORT)))]
    store: SocketAddr,
    /// A volume to attach and export; several may be given.
    #[arg(long, value_name = "NAME", conflicts_with = "config", value_parser = volume_name)]
    volume: Vec<String>,
    /// Unix socket of the NBD exports, one for each volume, under its name.
    #[arg(long, value_name = "PATH", conflicts_with = "config", default_value = NBD_SOCKET)]
    nbd: PathBuf,
    /// Address of this machine where NBD clients come in as well.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "config")]
    nbd_tcp: Option<SocketAddr>,
    /// Protocol: what is done to send less; the store's.
    #[arg(long, value_name = "PROTOCOL", conflicts_with = "config", default_value = "manifest",
        value_parser = protocol)]
    protocol: Protocol,
    /// Memory for blocks, shared by all guests.
    #[arg(long, value_name = "SIZE", conflicts_with = "config", default_value_t = MEMORY)]
    cache: Bytes,
    /// Policy of that memory.
    #[arg(long, value_name = "POLICY", conflicts_with = "config", default_value = "lru")]
    policy: String,
    /// File or block device for blocks that memory gives up: the cache's second level. It is empty
    /// after each start.
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    flash: Option<PathBuf>,
    /// Size of that file, when it is made.
    #[arg(long, value_name = "SIZE", requires = "flash")]
    flash_size: Option<Bytes>,
    /// Policy of the second level.
    #[arg(long, value_name = "POLICY", requires = "flash", default_value = FLASH_POLICY)]
    flash_policy: String,
    /// Unix socket of the API.
    #[arg(long, value_name = "PATH", conflicts_with = "config", default_value = HOST_SOCKET)]
    socket: PathBuf,
    /// Form in which events are told on stderr.
    #[arg(long, value_name = "FORM", default_value = "text")]
    log: LogFormat,
}

impl Args {
    fn wanted(&self) -> Result<HostServe, CliError> {
        if let Some(path) = &self.config {
            return load_host(path).map_err(CliError::input);
        }
        let id = self.id.ok_or_else(|| CliError::input("give this host a number: --id 1"))?;
        let mut config = host_defaults(HostId(id as u16), self.store);
        config.volumes.clone_from(&self.volume);
        config.nbd.clone_from(&self.nbd);
        config.nbd_tcp = self.nbd_tcp;
        config.protocol = self.protocol;
        config.cache = self.cache;
        config.policy.clone_from(&self.policy);
        let size = self.flash_size;
        let flash = self.flash.clone().map(|path| FlashPlace { path, size });
        config.flash_policy.clone_from(&self.flash_policy);
        let admin = HttpConfig { socket: self.socket.clone(), tcp: None };
        Ok(HostServe { config, flash, admin })
    }
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let HostServe { config, flash, admin } = args.wanted()?;
    let page = args.config.is_none().then_some(PAGE);
    let stop = stop().map_err(CliError::failed)?;
    let (nbd, store, host) = (config.nbd.clone(), config.store, config.host);
    let name = hosting_name(config.protocol);
    let flash = flash.map(|place| flash::open(&place)).transpose()?;
    let agent = HostAgent::start(config, flash, notes(args.log)).map_err(start_error)?;
    let (listeners, token) = listeners::admin_ways(&admin, page)?;
    let http = serve_host(listeners, agent.admin()).map_err(CliError::failed)?;
    let mut text = format!("host {}, store {store}, protocol {name}\n", host.0);
    let _ = writeln!(text, "NBD: {}", nbd.display());
    let (tcp, peers) = agent.addresses();
    if let Some(address) = tcp {
        let _ = writeln!(text, "NBD: {address}");
    }
    if let Some(address) = peers {
        let _ = writeln!(text, "other hosts come in at {address}");
    }
    text += &listeners::tell_ways(&http, &admin, token);
    text += "stop with Ctrl-C or SIGTERM\n";
    output::print(&text)?;
    let ended = agent.run(stop).map_err(CliError::failed);
    drop(http);
    ended?;
    listeners::say("stopped; volumes were flushed and given back, as far as the store was there");
    Ok(())
}
