//! `thermocline store create`: an empty store on a file or a block device that is free.

use super::beside::{Beside, OnVolume, Wanted};
use crate::config::hosting::VolumePlace;
use crate::error::CliError;
use crate::listeners::{LogFormat, random};
use crate::output;
use std::path::{Path, PathBuf};
use thermocline_content::{Settings, Status, check_room};
use thermocline_engine::probe::{self, Contents, Existing, check_free, check_size};
use thermocline_hosting::make_store;
use thermocline_ports::Device;
use thermocline_ports_os::{Disk, OpenOptions, take_back_file};
use thermocline_units::Bytes;

const EXAMPLES: &str = "\
Examples:
  thermocline store create store.img --size 100GiB
  thermocline store create /dev/nvme1n1
  thermocline store create --engine thermocline.toml --volume content --size 2TiB";

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file, which is made if there is none, or the block device.
    #[arg(required_unless_present = "engine", conflicts_with = "engine")]
    device: Option<PathBuf>,
    #[command(flatten)]
    on_volume: OnVolume,
    /// Size of the file or the volume that is made.
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// Bytes of a segment, which is freed as a whole.
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = segment)]
    segment: Segment,
    /// Destroy what the device or the volume holds.
    #[arg(long)]
    destroy_contents: bool,
}

/// Bytes of a segment; `None`: what fits the device.
#[derive(Debug, Clone, Copy)]
struct Segment(Option<Bytes>);

fn segment(text: &str) -> Result<Segment, String> {
    if text == "auto" {
        return Ok(Segment(None));
    }
    let size: Bytes = text.parse().map_err(|error| format!("{error}, or auto"))?;
    let fits = size.0.is_power_of_two() && (1 << 16..=1 << 26).contains(&size.0);
    if fits {
        Ok(Segment(Some(size)))
    } else {
        Err("give a power of two from 64KiB to 64MiB".to_string())
    }
}

/// Segments of which a device has at least as many: fewer are little room to clean.
const SEGMENTS_MIN: u64 = 128;

/// Settings for a device of this size.
fn settings(size: Bytes, segment: Option<Bytes>) -> Settings {
    let mut settings = Settings::default();
    while size.0 / settings.segment.0 < SEGMENTS_MIN && settings.segment > Bytes::from_kib(256) {
        settings.segment.0 /= 2;
    }
    settings.segment = segment.unwrap_or(settings.segment);
    while u64::from(settings.journal_blocks) * 4096 > size.0 / 32 && settings.journal_blocks > 64 {
        settings.journal_blocks /= 2;
    }
    settings
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    if let Some(place) = args.on_volume.place() {
        return on_volume(args, place);
    }
    let Some(path) = &args.device else {
        return Err(CliError::input("name a file or a block device, or a volume of an engine"));
    };
    let is_new = !path.exists();
    if is_new && args.size.is_none() {
        let text = format!("{}: there is no such file; pass --size to make it", path.display());
        return Err(CliError::input(text));
    }
    let made = make(args, path, is_new);
    if made.is_err() && is_new {
        // It was not there; if another process made it meanwhile and uses it, it stays.
        let _ = take_back_file(path, false);
    }
    made
}

/// Makes a store on a volume of an engine, which runs meanwhile.
fn on_volume(args: &Args, place: VolumePlace) -> Result<(), CliError> {
    let wanted = match args.destroy_contents {
        true => Wanted::MakeAnyway(args.size),
        false => Wanted::Make(args.size),
    };
    if let Some(size) = args.size {
        // Before a volume of that size is made.
        check_room(size, &settings(size, args.segment.0)).map_err(CliError::input)?;
    }
    let (config, volume) = (place.config.clone(), place.volume.clone());
    let (device, engine) = Beside::start(place, wanted, LogFormat::Text)?;
    let size = device.geometry().size;
    let settings = settings(size, args.segment.0);
    let made = make_store(Box::new(device), settings.clone(), random()?).map_err(CliError::failed);
    let ended = engine.end();
    let status = made?;
    ended?;
    let serve = format!("--engine {} --volume {volume}", config.display());
    tell(&format!("volume {volume}"), (size, settings.segment), &status, &serve)
}

/// Tells what was made.
fn tell(
    place: &str,
    (size, segment): (Bytes, Bytes),
    status: &Status,
    serve: &str,
) -> Result<(), CliError> {
    let (capacity, segments) = (status.capacity, status.segments.0);
    output::print(&format!(
        "{place}: an empty store of {size}, for {capacity} of blocks, in {segments} segments of \
         {segment}\nserve it with `thermocline store serve {serve}`\n"
    ))
}

fn make(args: &Args, path: &Path, is_new: bool) -> Result<(), CliError> {
    let create = args.size.filter(|_| is_new);
    let options = OpenOptions { create, ..OpenOptions::default() };
    let disk = Disk::open(path, options, None).map_err(CliError::input)?;
    let size = disk.geometry().size;
    if !is_new {
        check_size(path, size, args.size).map_err(CliError::input)?;
        let failed = |error| CliError::failed(format!("{}: {error}", path.display()));
        let contents = Contents::of_path(path).map_err(failed)?;
        let existing = if args.destroy_contents { Existing::Destroy } else { Existing::Keep };
        check_free(path, &contents, existing).map_err(|error| {
            CliError::input(format!("{error}; --destroy-contents makes a store there all the same"))
        })?;
        if contents != Contents::Blank {
            probe::erase(path).map_err(failed)?;
        }
    }
    let settings = settings(size, args.segment.0);
    let status =
        make_store(Box::new(disk), settings.clone(), random()?).map_err(CliError::failed)?;
    let path = path.display().to_string();
    tell(&path, (size, settings.segment), &status, &path)
}
