//! `thermocline check`: is the configuration right, and is what it names whole? Changes nothing.
//!
//! 1. The configuration is read; files of the listeners (certificates, tokens) are looked at.
//! 2. Devices are opened for reading and locked: an engine that runs on them refuses this.
//! 3. Before a first start: whether there is room, and the pools make a group. After it:
//!    superblocks, checkpoint and journal are read, recovery runs in memory, and the map is checked
//!    against the slots.
//!
//! What volumes hold is read only when that is asked for: then every copy is held against its
//! checksums, and copies against each other.

use crate::config::{Config, Standard};
use crate::error::CliError;
use crate::origin;
use crate::output;
use crate::table;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use thermocline_blockcache::LINE;
use thermocline_engine::pools::{
    self, Arranged, Damage, DeviceOpener, Found, Inspection, Look, Members, PoolConfig,
};
use thermocline_ports::{Device, ScratchDevice};
use thermocline_ports_os::Disk;
use thermocline_units::text::count;
use thermocline_units::{Bytes, ChunkId, PoolId};
use thermocline_volume::{DamagedReplica, Finding, FindingKind, Group, PoolState, Service};

const EXAMPLES: &str = "\
Examples:
  thermocline check                          what `thermocline up` runs, in ./thermocline-data
  thermocline check --data /mnt/pools
  thermocline check /etc/thermocline.toml --json
  thermocline check /etc/thermocline.toml --salvage   what a damaged group would lose
  thermocline check --scrub                  reads and verifies what volumes hold as well

Exit status: 0 all is well, 1 something is missing, damaged or in use, 2 the configuration is
wrong.";

/// Help for a pool of before its group had block checksums.
const GIVE_THEM: &str = "`thermocline pool replace` moves its chunks to a pool that has them";

/// Options of the check.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration, a TOML file; the standard pools in a folder when not given.
    #[arg(value_name = "CONFIG")]
    config: Option<PathBuf>,
    /// Folder of the standard pools.
    #[arg(long, value_name = "DIR", default_value = "thermocline-data", conflicts_with = "config")]
    data: PathBuf,
    /// Say what could be saved of a group whose metadata is damaged, and what would be lost;
    /// `thermocline up --salvage` does it.
    #[arg(long)]
    salvage: bool,
    /// Read what volumes hold as well, and verify it; pools across a network aside.
    #[arg(long)]
    scrub: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Findings of a check.
#[derive(Default)]
struct Report {
    /// The group's identity and chunk size; none: there is no group yet.
    group: Option<(u64, Bytes)>,
    pools: Vec<PoolLine>,
    volumes: Vec<VolumeLine>,
    /// True if what volumes hold was read.
    contents_read: bool,
    /// Faults: parts that are missing or damaged.
    flaws: Vec<String>,
    /// Notes worth knowing.
    notes: Vec<String>,
}

struct PoolLine {
    name: String,
    state: String,
    path: Option<PathBuf>,
    device: Option<Bytes>,
    slots: Option<(u32, u32)>,
    /// True if chunks get block checksums on it.
    checksums: Option<bool>,
    slowed: Option<String>,
}

struct VolumeLine {
    name: String,
    identity: u64,
    size: Bytes,
    /// Chunks that hold something, and of these, chunks that no pool has any more.
    mapped: u64,
    lost: u64,
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let config = match &args.config {
        Some(path) => Config::load(path),
        None => {
            let data = args.data.clone();
            Standard { data, size: Bytes::from_gib(1), socket: None, emulation: true }.config()
        }
    };
    let config = config.and_then(Config::with_added_pools).map_err(CliError::input)?;
    origin::check(&config)?;
    // The first start without a configuration makes its token.
    let secrets = args.config.as_ref().and_then(|_| config.check_secrets().err());
    let secrets = secrets.map(|error| error.to_string());
    let mut report =
        check(&config, args.salvage.into(), args.scrub).map_err(|error| match &secrets {
            Some(too) => error.with(too),
            None => error,
        })?;
    report.flaws.extend(secrets.iter().flat_map(|errors| errors.lines().map(str::to_string)));
    if args.json {
        let text = serde_json::to_string_pretty(&as_json(&report)).map_err(CliError::failed)?;
        output::print(&(text + "\n"))?;
    } else {
        output::print(&as_text(&report))?;
    }
    match report.flaws.len() {
        0 => Ok(()),
        1 => Err(CliError::failed("1 flaw")),
        count => Err(CliError::failed(format!("{count} flaws"))),
    }
}

fn check(config: &Config, damage: Damage, contents_too: bool) -> Result<Report, CliError> {
    let opener = DeviceOpener::to_look();
    let found = pools::open_all(&config.pools, &opener, &[])?;
    let mut report = match pools::arrange(found)? {
        Arranged::Fresh(found) => before_the_first_start(config, &found)?,
        Arranged::Group(members) => group(config, &opener, members, damage, contents_too)?,
    };
    report.notes.extend(report.group.and_then(|(_, chunk)| config.other_chunk_size(chunk)));
    for pool in config.pools.iter().filter(|pool| pool.paths().any(pools::is_on_tmpfs)) {
        report.notes.push(format!("pool `{}` is in memory: a reboot loses it", pool.name));
    }
    Ok(report)
}

fn before_the_first_start(config: &Config, found: &[Found<'_, Look>]) -> Result<Report, CliError> {
    pools::check_first_start(config.group(), found)?;
    let mut report = Report::default();
    let mut bytes: u64 = 0;
    for found in found {
        let size = pools::expected_size(found);
        bytes = bytes.saturating_add(size.map_or(0, |size| size.0));
        let state = if found.device.is_ok() { "blank" } else { "to be made" };
        report.pools.push(PoolLine {
            name: found.config.name.clone(),
            state: state.to_string(),
            path: Some(found.config.device.path.clone()),
            device: size,
            slots: None,
            checksums: None,
            slowed: found.config.device.emulate.as_ref().map(|emulation| emulation.name.clone()),
        });
        if let (Err(_), Some(size), None) = (&found.device, size, &found.config.device.bucket) {
            report.notes.extend(room_for(&found.config.device.path, size));
        }
    }
    report.notes.push("there is no volume group yet; `thermocline up` makes it".to_string());
    let wanted = config.volume_bytes();
    if wanted.0 > bytes {
        let pools = Bytes(bytes);
        report.notes.push(format!("volumes of {wanted} are larger than their pools, {pools}"));
    }
    Ok(report)
}

/// Note on a file system that has less room than a file on it may take.
fn room_for(path: &Path, size: Bytes) -> Option<String> {
    let folder = path.ancestors().skip(1).find(|folder| folder.is_dir())?;
    let room = rustix::fs::statvfs(folder).ok()?;
    let free = Bytes(room.f_bavail.saturating_mul(room.f_frsize));
    (free < size)
        .then(|| format!("{} may grow to {size}; its file system has {free} left", path.display()))
}

fn group(
    config: &Config,
    opener: &DeviceOpener<ScratchDevice<Disk>>,
    members: Members<'_, Look>,
    damage: Damage,
    contents_too: bool,
) -> Result<Report, CliError> {
    let mut report = Report {
        group: Some((members.label.identity, members.label.chunk_size)),
        flaws: members.missing.clone(),
        notes: [&members.forgotten[..], &members.removed].concat(),
        ..Report::default()
    };
    if members.missing.is_empty() {
        report.flaws.extend(members.strangers.iter().map(|stranger| pools::refusal_of(stranger)));
    }
    for (member, seat) in members.label.members.iter().zip(&members.devices) {
        report.pools.push(PoolLine {
            name: member.name.clone(),
            state: if member.wanted { "missing" } else { "removed" }.to_string(),
            path: seat.as_ref().map(|(_, pool)| pool.device.path.clone()),
            device: seat.as_ref().map(|(device, _)| device.geometry().size),
            slots: None,
            checksums: None,
            slowed: seat
                .as_ref()
                .and_then(|(_, pool)| Some(pool.device.emulate.as_ref()?.name.clone())),
        });
        report.notes.extend(seat.as_ref().and_then(cache_note));
    }
    let settings = pools::at_full_speed(config.settings.clone());
    let mut inspection = Inspection::open(settings, opener, members, damage)?;
    if *inspection.group().service() == Service::Ready && contents_too {
        inspection.scrub()?;
    }
    let mut group = inspection.into_group();
    if let Service::Failed(error) = group.service() {
        report.flaws.push(error.to_string());
        return Ok(report);
    }
    if let Some(salvage) = group.salvage() {
        report.flaws.extend(pools::losses(&group, salvage));
        let corrected = salvage.corrected;
        if corrected > 0 {
            let text = format!("{corrected} blocks with one flipped bit can be set right");
            report.notes.push(text);
        }
    }
    report.flaws.extend(damaged_replicas(&group));
    report.flaws.extend(group.fsck().iter().map(ToString::to_string));
    pools_of(&group, &mut report);
    volumes(&group, &mut report);
    to_be_made(config, &mut report);
    if contents_too {
        contents(&mut group, &mut report);
    }
    match group.operations_pending() {
        0 => {}
        count => report.notes.push(format!("{count} operations go on at the next start")),
    }
    Ok(report)
}

/// Flaws that lose nothing: metadata that is damaged on some pools and whole on others.
fn damaged_replicas(group: &Group) -> Vec<String> {
    let told = |(pool, damaged): (PoolId, DamagedReplica)| {
        let name = group.pool_status(pool).expect("it is one of the group's").name;
        format!(
            "metadata on pool `{name}` is damaged ({damaged}); another pool has it whole, and the \
             next start writes it anew; check the device"
        )
    };
    group.damaged_replicas().map(told).collect()
}

/// Takes down what pools are doing, and what they lack.
fn pools_of(group: &Group, report: &mut Report) {
    for (index, line) in report.pools.iter_mut().enumerate() {
        let Some(status) = group.pool_status(PoolId(index as u16)) else { continue };
        if line.path.is_some() {
            line.state = format!("{:?}", status.state).to_lowercase();
        }
        line.slots = Some((status.slots_used, status.slots_total));
        line.checksums = Some(status.checksums);
        if !status.checksums && status.state != PoolState::Removed {
            let name = &line.name;
            report.notes.push(format!("pool `{name}` has no block checksums: {GIVE_THEM}"));
        }
        if line.path.is_some() && status.state == PoolState::Dead {
            report.flaws.push(format!("pool `{}` was given up: its device failed", line.name));
        }
    }
}

/// Notes the volumes of the configuration that are not there yet.
fn to_be_made(config: &Config, report: &mut Report) {
    let missing = config.volumes.iter().filter(|volume| {
        volume.named && report.volumes.iter().all(|other| other.name != volume.name)
    });
    let notes = missing.map(|volume| format!("the next start makes volume {}", volume.name));
    let notes: Vec<String> = notes.collect();
    report.notes.extend(notes);
}

/// Takes down what reading everything has found.
fn contents(group: &mut Group, report: &mut Report) {
    report.contents_read = true;
    let status = group.scrub_status();
    let skipped = status.run.map_or(0, |run| run.skipped);
    let note =
        format!("{} chunks were read, {}; {skipped} passed over", status.chunks, status.read);
    report.notes.push(note);
    let (with, mapped) = group.chunks_with_checksums();
    if with < mapped {
        let bare = mapped - with;
        let text =
            format!("{bare} of {mapped} chunks have no checksums: copies were compared only");
        report.notes.push(text);
    }
    let mut findings = Vec::new();
    group.take_findings(&mut findings);
    for finding in &findings {
        let Finding { kind, volume, offset, length, pool } = finding;
        let on = pool.and_then(|pool| Some(group.pool_status(pool)?.name)).unwrap_or_default();
        let what = match kind {
            FindingKind::Repaired | FindingKind::Dropped => {
                format!("the copy on {on} is wrong; `thermocline scrub` repairs it")
            }
            FindingKind::Unrepairable => "no copy is as it was written".to_string(),
            FindingKind::Undecided => "copies differ, and nothing says which is right".to_string(),
            FindingKind::ChecksumsLost => "the checksums are lost".to_string(),
        };
        let volume = group.volumes().find(|known| known.id == *volume);
        let volume = volume.map(|volume| volume.name).unwrap_or_default();
        report.flaws.push(format!("volume {volume}, {length} at byte {}: {what}", offset.0));
    }
    match group.findings_untold() {
        0 => {}
        more => report.flaws.push(format!("{more} ranges more are not as they were written")),
    }
}

/// Note on what only the cache in front of a pool has.
fn cache_note((device, pool): &(Look, &PoolConfig)) -> Option<String> {
    let dirty = Bytes(u64::from(device.cache_status()?.dirty) * u64::from(LINE));
    let cache = pool.cache.as_ref()?.device.path.display();
    Some(format!("of pool `{}`, {dirty} are only in its block cache, {cache}", pool.name))
}

/// Counts what volumes hold.
fn volumes(group: &Group, report: &mut Report) {
    let dead: Vec<bool> = (0..group.pool_count())
        .map(|id| group.pool_status(PoolId(id)).is_none_or(|s| s.state == PoolState::Dead))
        .collect();
    for volume in group.volumes() {
        let (name, identity, size) = (volume.name, volume.identity, volume.size);
        let mut line = VolumeLine { name, identity, size, mapped: 0, lost: 0 };
        for index in 0..volume.size.0.div_ceil(group.chunk_size().0) {
            let chunk = ChunkId { volume: volume.id, index: index as u32 };
            let Some(first) = group.pool_of(chunk) else { continue };
            line.mapped += 1;
            if dead[usize::from(first.0)] {
                let copies = group.locate(chunk).map(|status| status.copies).unwrap_or_default();
                let gone = copies.iter().all(|copy| dead[usize::from(copy.place.pool.0)]);
                line.lost += u64::from(gone);
            }
        }
        if line.lost > 0 {
            let (name, lost) = (&line.name, line.lost);
            report.flaws.push(format!("volume {name} has {lost} chunks that no pool has any more"));
        }
        report.volumes.push(line);
    }
}

fn as_text(report: &Report) -> String {
    let mut text = String::new();
    if let Some((identity, chunk)) = report.group {
        let _ = writeln!(text, "volume group {identity:016x}, chunks of {chunk}\n");
    }
    let mut pools =
        table::plain(["pool", "state", "size", "slots used", "slots", "slowed to", "device"]);
    for pool in &report.pools {
        let slots = pool.slots.map(|(used, total)| (count(used.into()), count(total.into())));
        let (used, total) = slots.unwrap_or_default();
        let device = pool.device.map(|size| size.to_string()).unwrap_or_default();
        let path = pool.path.as_ref().map(|path| path.display().to_string());
        let slowed = pool.slowed.clone().unwrap_or_default();
        let row = [
            pool.name.clone(),
            pool.state.clone(),
            device,
            used,
            total,
            slowed,
            path.unwrap_or_default(),
        ];
        pools.add_row(row);
    }
    table::align(&mut pools, 2..5);
    let _ = writeln!(text, "{pools}");
    if !report.volumes.is_empty() {
        let mut volumes =
            table::plain(["volume", "identity", "size", "chunks held", "chunks lost"]);
        for volume in &report.volumes {
            let (mapped, lost) = (count(volume.mapped), count(volume.lost));
            let (name, identity) = (volume.name.clone(), volume.identity.to_string());
            volumes.add_row([name, identity, volume.size.to_string(), mapped, lost]);
        }
        table::align_numbers(&mut volumes);
        let _ = writeln!(text, "\n{volumes}");
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    for flaw in &report.flaws {
        let _ = writeln!(text, "flaw: {flaw}");
    }
    if report.flaws.is_empty() {
        text.push_str(match (report.group, report.contents_read) {
            (None, _) | (_, true) => "no flaws\n",
            _ => "no flaws in the metadata; what volumes hold was not read, `--scrub` does\n",
        });
    }
    text
}

fn as_json(report: &Report) -> Value {
    let pools = report.pools.iter().enumerate().map(|(id, pool)| {
        json!({
            "id": id,
            "name": pool.name,
            "state": pool.state,
            "path": pool.path.as_ref().map(|path| path.display().to_string()),
            "device_bytes": pool.device.map(|size| size.0),
            "slots_used": pool.slots.map(|slots| slots.0),
            "slots_total": pool.slots.map(|slots| slots.1),
            "checksums": pool.checksums,
            "emulate": pool.slowed,
        })
    });
    let volumes = report.volumes.iter().map(|volume| {
        json!({
            "name": volume.name,
            "identity": volume.identity,
            "size_bytes": volume.size.0,
            "chunks_held": volume.mapped,
            "chunks_lost": volume.lost,
        })
    });
    json!({
        "identity": report.group.map(|(identity, _)| format!("{identity:016x}")),
        "chunk_bytes": report.group.map(|(_, chunk)| chunk.0),
        "pools": pools.collect::<Vec<_>>(),
        "volumes": volumes.collect::<Vec<_>>(),
        "contents_read": report.contents_read,
        "flaws": report.flaws,
        "notes": report.notes,
    })
}
