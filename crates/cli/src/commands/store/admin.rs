//! Commands for administrators of a running store: volumes, clones, garbage collection, status.

use super::{StoreArgs, volume_name};
use crate::error::CliError;
use crate::{output, table};
use hyper::Method;
use std::fmt::Write as _;
use thermocline_hosting::api::{
    Checked, NewClone, NewStoreVolume, QuotaChange, RoomLevel, StoreStatus, StoreVolume, Swept,
};
use thermocline_units::Bytes;
use thermocline_units::text::{count, counted};

/// Volumes: list and create.
#[derive(clap::Args)]
pub(crate) struct VolumeArgs {
    #[command(subcommand)]
    command: VolumeCommand,
}

#[derive(clap::Subcommand)]
enum VolumeCommand {
    /// Volumes, clones, snapshots and images that exist.
    List(StoreArgs),
    /// Make a volume that reads as zeroes.
    Create {
        #[command(flatten)]
        store: StoreArgs,
        /// Its name.
        #[arg(value_parser = volume_name)]
        name: String,
        /// Its size, a multiple of 4 KiB.
        size: Bytes,
        /// Domain: blocks are shared within one, and nobody learns what others hold.
        #[arg(long, value_name = "N", default_value_t = 0)]
        domain: u32,
        /// Bytes that it may hold (zeroes are nothing).
        #[arg(long, value_name = "SIZE")]
        logical_quota: Option<Bytes>,
        /// Bytes of stored blocks that it may be charged: those that it wrote first.
        #[arg(long, value_name = "SIZE")]
        physical_quota: Option<Bytes>,
    },
    /// Change the quotas of a volume, also while a host has it; what is not named stays.
    #[command(group(clap::ArgGroup::new("bound").required(true).multiple(true)))]
    Quota {
        #[command(flatten)]
        store: StoreArgs,
        /// Its name.
        #[arg(value_parser = volume_name)]
        name: String,
        /// Bytes that it may hold (zeroes are nothing), or `none`.
        #[arg(long, value_name = "SIZE", group = "bound", value_parser = quota)]
        logical: Option<Quota>,
        /// Bytes of stored blocks that it may be charged, or `none`.
        #[arg(long, value_name = "SIZE", group = "bound", value_parser = quota)]
        physical: Option<Quota>,
    },
}

/// A quota, or none.
#[derive(Debug, Clone, Copy)]
struct Quota(Option<Bytes>);

fn quota(text: &str) -> Result<Quota, String> {
    if text == "none" {
        return Ok(Quota(None));
    }
    let size: Result<Bytes, _> = text.parse();
    size.map(|size| Quota(Some(size))).map_err(|error| format!("{error}; or say `none`"))
}

/// Arguments of `clone` and `snapshot`.
#[derive(clap::Args)]
pub(crate) struct CloneArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Volume, snapshot or image to make it from.
    #[arg(value_parser = volume_name)]
    from: String,
    /// The new one's name.
    #[arg(value_parser = volume_name)]
    name: String,
}

/// Arguments of `delete`.
#[derive(clap::Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Its name.
    #[arg(value_parser = volume_name)]
    name: String,
    /// Do it: there is no way back.
    #[arg(long)]
    yes: bool,
}

pub(super) fn volume(args: VolumeArgs) -> Result<(), CliError> {
    match args.command {
        VolumeCommand::List(store) => {
            let volumes: Vec<StoreVolume> = store.client().get("/v1/volumes")?;
            store.answer(&volumes, |volumes| table_of(volumes))
        }
        VolumeCommand::Create { store, name, size, domain, logical_quota, physical_quota } => {
            let wish = NewStoreVolume {
                name,
                size_bytes: size.0,
                domain,
                logical_quota_bytes: logical_quota.map(|bytes| bytes.0),
                physical_quota_bytes: physical_quota.map(|bytes| bytes.0),
            };
            let made: StoreVolume = store.client().send(Method::POST, "/v1/volumes", &wish)?;
            store.answer(&made, line)
        }
        VolumeCommand::Quota { store, name, logical, physical } => {
            let bytes = |quota: Quota| quota.0.map(|bytes| bytes.0);
            let wish = QuotaChange {
                logical_quota_bytes: logical.map(bytes),
                physical_quota_bytes: physical.map(bytes),
            };
            let path = format!("/v1/volumes/{name}");
            let changed: StoreVolume = store.client().send(Method::PATCH, &path, &wish)?;
            store.answer(&changed, line)
        }
    }
}

pub(super) fn clone(args: &CloneArgs, read_only: bool) -> Result<(), CliError> {
    let wish = NewClone { name: args.name.clone(), read_only };
    let path = format!("/v1/volumes/{}/clones", args.from);
    let made: StoreVolume = args.store.client().send(Method::POST, &path, &wish)?;
    args.store.answer(&made, line)
}

pub(super) fn delete(args: &DeleteArgs) -> Result<(), CliError> {
    let name = &args.name;
    if !args.yes {
        let text = format!("this deletes {name} and all it holds; say --yes to do it");
        return Err(CliError::input(text));
    }
    args.store.client().order(Method::DELETE, &format!("/v1/volumes/{name}"))?;
    output::print(&format!("{name} is deleted; `thermocline store gc` frees its room at once\n"))
}

pub(super) fn gc(args: &StoreArgs) -> Result<(), CliError> {
    let swept: Swept = args.client().send(Method::POST, "/v1/gc", &())?;
    args.answer(&swept, |swept| format!("{} freed\n", Bytes(swept.freed_bytes)))
}

pub(super) fn check(args: &StoreArgs) -> Result<(), CliError> {
    let checked: Checked = args.client().send(Method::POST, "/v1/check", &())?;
    let text = |checked: &Checked| match checked.flaws.is_empty() {
        true => "everything holds\n".to_string(),
        false => checked.flaws.iter().map(|flaw| format!("{flaw}\n")).collect(),
    };
    args.answer(&checked, text)?;
    match checked.flaws.len() {
        0 => Ok(()),
        flaws => Err(CliError::failed(format!("{flaws} things do not hold"))),
    }
}

pub(super) fn status(args: &StoreArgs) -> Result<(), CliError> {
    let status: StoreStatus = args.client().get("/v1/status")?;
    args.answer(&status, text)
}

pub(super) fn line(volume: &StoreVolume) -> String {
    let kind = if volume.read_only { "snapshot" } else { "volume" };
    let of = volume.origin.as_ref().map_or(String::new(), |of| format!(", of {of}"));
    let charged = volume.physical_quota_bytes.map_or(String::new(), |quota| {
        format!(", charged {}", of_bound(volume.charged_bytes, Some(quota)))
    });
    format!(
        "{}: {kind} of {}{of}, holds {}{charged}\n",
        volume.name,
        Bytes(volume.size_bytes),
        of_bound(volume.mapped_bytes, volume.logical_quota_bytes)
    )
}

/// Bytes in use, with their bound if there is one.
fn of_bound(used: u64, bound: Option<u64>) -> String {
    let bound = bound.map_or(String::new(), |bound| format!(" of {}", Bytes(bound)));
    format!("{}{bound}", Bytes(used))
}

/// Level of use for people.
fn room(level: RoomLevel) -> &'static str {
    match level {
        RoomLevel::Ok => "ok",
        RoomLevel::Warning => "WARNING",
        RoomLevel::Critical => "CRITICAL",
        RoomLevel::Full => "FULL",
    }
}

fn table_of(volumes: &[StoreVolume]) -> String {
    let heading = ["volume", "size", "kind", "of", "domain", "holds", "charged", "quotas", "host"];
    let mut table = table::plain(heading);
    for volume in volumes {
        table.add_row(vec![
            volume.name.clone(),
            Bytes(volume.size_bytes).to_string(),
            if volume.read_only { "snapshot" } else { "volume" }.to_string(),
            volume.origin.clone().unwrap_or("-".to_string()),
            volume.domain.to_string(),
            of_bound(volume.mapped_bytes, volume.logical_quota_bytes),
            of_bound(volume.charged_bytes, volume.physical_quota_bytes),
            match volume.logical_quota_bytes.or(volume.physical_quota_bytes) {
                Some(_) => room(volume.room).to_string(),
                None => "-".to_string(),
            },
            volume.host.map_or("-".to_string(), |host| host.to_string()),
        ]);
    }
    format!("{table}\n")
}

fn text(status: &StoreStatus) -> String {
    let mut text = format!(
        "store {}, hosts come in at {}, protocol {}, runs for {:.0} s\n",
        status.device, status.listen, status.protocol, status.uptime_seconds
    );
    let saved = status.mapped_bytes.saturating_sub(status.stored_bytes);
    let _ = writeln!(
        text,
        "{} of {} stored ({} in no volume); volumes hold {}: {} saved",
        Bytes(status.stored_bytes),
        Bytes(status.capacity_bytes),
        Bytes(status.unreferenced_bytes),
        Bytes(status.mapped_bytes),
        Bytes(saved)
    );
    if status.room > RoomLevel::Ok || status.refused_blocks > 0 {
        let used = status.stored_bytes.saturating_sub(status.unreferenced_bytes);
        let _ = writeln!(
            text,
            "its room is at {:.0} % ({}); {} found none since the start",
            used as f64 / status.capacity_bytes.max(1) as f64 * 100.0,
            room(status.room),
            counted(status.refused_blocks, "written block")
        );
    }
    let _ = writeln!(
        text,
        "written: {} stored, {} were there already; {} damaged",
        counted(status.new_blocks, "block"),
        count(status.deduplicated_blocks),
        count(status.damaged_blocks)
    );
    let _ = writeln!(
        text,
        "to hosts: {} by number alone, {} as bytes, {} by other hosts; from hosts: {} known, {} \
         as bytes",
        counted(status.blocks_by_id, "block"),
        count(status.blocks_by_bytes),
        count(status.blocks_by_peer),
        counted(status.known_writes, "block"),
        count(status.written_blocks)
    );
    for host in &status.hosts {
        let _ = writeln!(
            text,
            "host {} at {}: sent {}, received {}",
            host.host,
            host.from,
            Bytes(host.sent_bytes),
            Bytes(host.received_bytes)
        );
    }
    text + "\n" + &table_of(&status.volumes)
}
