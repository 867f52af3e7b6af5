//! Commands for administrators of a running agent: attach, detach, status.

use super::HostArgs;
use crate::commands::store::volume_name;
use crate::error::CliError;
use crate::{output, table};
use hyper::Method;
use std::fmt::Write as _;
use thermocline_hosting::api::HostStatus;
use thermocline_units::Bytes;
use thermocline_units::text::{count, counted};

/// Arguments of `attach`.
#[derive(clap::Args)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    host: HostArgs,
    /// The volume's name.
    #[arg(value_parser = volume_name)]
    name: String,
}

/// Arguments of `detach`.
#[derive(clap::Args)]
pub(crate) struct DetachArgs {
    #[command(flatten)]
    host: HostArgs,
    /// The volume's name.
    #[arg(value_parser = volume_name)]
    name: String,
    /// Number of the host that is to have it next: for the time of a lease no other one gets it.
    #[arg(long, value_name = "HOST")]
    to: Option<u16>,
}

/// Arguments of `status`.
#[derive(clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    host: HostArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn attach(args: &AttachArgs) -> Result<(), CliError> {
    let name = &args.name;
    args.host.client().order(Method::PUT, &format!("/v1/volumes/{name}"))?;
    output::print(&format!("{name} is asked for; `thermocline host status` says when it is here\n"))
}

pub(super) fn detach(args: &DetachArgs) -> Result<(), CliError> {
    let name = &args.name;
    let query = args.to.map_or(String::new(), |host| format!("?to={host}"));
    args.host.client().order(Method::DELETE, &format!("/v1/volumes/{name}{query}"))?;
    let host = args.to.map_or(String::new(), |host| format!(" for host {host}"));
    output::print(&format!("{name} is flushed and given back{host}\n"))
}

pub(super) fn status(args: &StatusArgs) -> Result<(), CliError> {
    let status: HostStatus = args.host.client().get("/v1/status")?;
    output::answer(args.json, &status, text)
}

fn text(status: &HostStatus) -> String {
    let mut text = format!(
        "host {}, store {}, protocol {}, runs for {:.0} s\n",
        status.host, status.store, status.protocol, status.uptime_seconds
    );
    if !status.is_connected {
        let why = status.last_error.as_deref().unwrap_or("it was not reached yet");
        let _ = writeln!(text, "the store is NOT connected: {why}");
    }
    let hits = status.hit_blocks as f64 / status.read_blocks.max(1) as f64 * 100.0;
    let _ = writeln!(
        text,
        "{} read: {hits:.1} % from the cache ({} in it), {} with others under way, {} named by \
         the store and here, {} from other hosts",
        counted(status.read_blocks, "block"),
        counted(status.cached_blocks, "block"),
        count(status.joined_blocks),
        count(status.named_blocks),
        count(status.peer_blocks)
    );
    if let Some(flash) = &status.flash {
        let off = if flash.is_off { "; it was GIVEN UP" } else { "" };
        let _ = writeln!(
            text,
            "{} blocks from flash ({} of {} blocks in it), {} with wrong bytes, {} failures{off}",
            flash.hit_blocks, flash.blocks, flash.slots, flash.damaged_blocks, flash.failures
        );
    }
    let peers: Vec<String> = status.peers.iter().map(u16::to_string).collect();
    let _ = writeln!(
        text,
        "from the store {}, to it {}; from other hosts ({}) {}, {} sent to them; {}",
        Bytes(status.received_bytes),
        Bytes(status.sent_bytes),
        if peers.is_empty() { "none here".to_string() } else { peers.join(", ") },
        Bytes(status.peer_received_bytes),
        counted(status.served_blocks, "block"),
        counted(status.clients as u64, "NBD client")
    );
    let mut table = table::plain(["volume", "state", "size", "lease", "why"]);
    for volume in &status.volumes {
        table.add_row(vec![
            volume.name.clone(),
            volume.state.clone(),
            Bytes(volume.size_bytes).to_string(),
            volume.fence.to_string(),
            volume.why.clone().unwrap_or("-".to_string()),
        ]);
    }
    text += &format!("\n{table}\n");
    for volume in status.volumes.iter().filter(|volume| volume.refused_writes > 0) {
        let _ = writeln!(
            text,
            "{}: {} refused for want of room, at last because {}",
            volume.name,
            counted(volume.refused_writes, "write"),
            volume.last_refusal.as_deref().unwrap_or("there was none")
        );
    }
    text
}
