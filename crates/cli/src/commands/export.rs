//! `thermocline export`: a volume's contents as an image file, without an engine.
//!
//! 1. Devices are opened for reading and locked, and the group is recovered in memory, as `check`
//!    does it: nothing on them changes. With `--salvage` damaged metadata is passed over.
//! 2. The volume is read from its beginning to its end. Zeroes become holes.
//! 3. What no copy gives is read again in blocks of 4 KiB; blocks that cannot be read are zeroes
//!    in the image, and are named.

use crate::config::{Config, Origin, Standard};
use crate::error::CliError;
use crate::origin;
use crate::output::{self, OutputFile, Readers};
use crate::progress::{Progress, Unit};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use thermocline_engine::pools::{
    self, Arranged, Damage, DeviceOpener, Found, Inspection, PoolConfig, is_same_place,
    refuse_own_file,
};
use thermocline_engine::probe::Contents;
use thermocline_ports::Payload;
use thermocline_units::{Bytes, VolumeId};
use thermocline_volume::{Fragment, Group, Service, VolumeStatus};

const EXAMPLES: &str = "\
Examples:
  thermocline export v0 -o v0.img                       the volume of `thermocline up`
  thermocline export db /etc/thermocline.toml -o db.img
  thermocline export db /etc/thermocline.toml -o db.img --salvage   from damaged metadata

Nothing on the pools changes: an image on one of them, or on a device in use, is refused. The image
can be read by its owner alone. Exit status: 0 the image is the volume, 1 a part is missing (the
image is written, with zeroes there) or nothing could be read, 2 the command line or the
configuration is wrong.";

/// Blocks that are read alone where a longer read fails; runs of zeroes that become holes.
const BLOCK: u32 = 4096;

/// Bytes of a read, and bytes that are read at once.
const READ: u32 = 1 << 20;
const WINDOW: u64 = 32 << 20;

/// Ranges that are named one by one.
const RANGES_TOLD: usize = 20;

/// Options of the export.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The volume.
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// The configuration, a TOML file; the standard pools in a folder when not given.
    #[arg(value_name = "CONFIG")]
    config: Option<PathBuf>,
    /// Folder of the standard pools.
    #[arg(long, value_name = "DIR", default_value = "thermocline-data", conflicts_with = "config")]
    data: PathBuf,
    /// Image to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace a file that exists, or write into a block device.
    #[arg(long)]
    force: bool,
    /// Read what can be saved of a group whose metadata is damaged.
    #[arg(long)]
    salvage: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let config = match &args.config {
        Some(path) => Config::load(path),
        None => {
            let data = args.data.clone();
            Standard { data, size: Bytes::from_gib(1), socket: None, emulation: true }.config()
        }
    };
    let config = config.and_then(Config::with_added_pools).map_err(CliError::input)?;
    origin::check(&config)?;
    refuse_own_device(&config, &args.output)?;
    let opener = DeviceOpener::to_look();
    let members = match pools::arrange(pools::open_all(&config.pools, &opener, &[])?)? {
        Arranged::Group(members) => members,
        Arranged::Fresh(found) => return Err(no_group(&found)),
    };
    let missing = members.missing.clone();
    let settings = pools::at_rest(config.settings.clone());
    let damage = Damage::from(args.salvage);
    let mut inspection = Inspection::open(settings, &opener, members, damage)?;
    if let Service::Failed(error) = inspection.group().service() {
        let why = missing.iter().chain([&error.to_string()]).cloned().collect::<Vec<_>>();
        return Err(CliError::failed(why.join("; ")));
    }
    let volume = named(inspection.group(), &args.volume)?;
    let mut losses = missing;
    if let Some(salvage) = inspection.group().salvage() {
        losses.extend(pools::losses(inspection.group(), salvage));
    }
    let mut image = Image::begin(args, volume.size)?;
    let progress = Progress::bar(Some(volume.size.0), Unit::Bytes, "reading");
    for start in (0..volume.size.0).step_by(WINDOW as usize) {
        let window = start..volume.size.0.min(start + WINDOW);
        copy(&mut inspection, volume.id, window, READ, &mut image)?;
        progress.at(start);
    }
    drop(progress);
    let unread = image.finish()?;
    tell(args, &volume, &losses, &unread)
}

/// Refuses to write over a device of the configuration, which may be one that nobody could read.
fn refuse_own_device(config: &Config, output: &Path) -> Result<(), CliError> {
    if let Origin::File(path) = &config.origin
        && is_same_place(path, output)
    {
        let text = format!("{} is the configuration; name another output", output.display());
        return Err(CliError::input(text));
    }
    refuse_own_file(&config.data, output).map_err(CliError::input)?;
    let mut own = config.pools.iter().flat_map(PoolConfig::paths);
    match own.find(|path| is_same_place(path, output)) {
        None => Ok(()),
        Some(path) => Err(CliError::input(format!(
            "{} is a device of the group itself ({}); name another output",
            output.display(),
            path.display()
        ))),
    }
}

/// Error where no device says that it is a pool, with what there is instead.
fn no_group<D>(found: &[Found<'_, D>]) -> CliError {
    let holds = |found: &Found<'_, D>| match &found.device {
        Ok((_, Contents::Blank)) | Err(_) => None,
        Ok((_, contents)) => {
            Some(format!("{} holds {contents}", found.config.device.path.display()))
        }
    };
    let there: Vec<String> = found.iter().filter_map(holds).collect();
    CliError::failed(match &there[..] {
        [] => "there is no volume group yet; `thermocline up` makes it".to_string(),
        there => format!("no volume group can be read: {}", there.join("; ")),
    })
}

fn named(group: &Group, name: &str) -> Result<VolumeStatus, CliError> {
    group.volumes().find(|volume| volume.name == name).ok_or_else(|| {
        let names: Vec<String> = group.volumes().map(|volume| volume.name).collect();
        CliError::input(format!("no volume is called {name}; there are {}", names.join(", ")))
    })
}

/// Copies a range; what a long read does not bring is read by blocks.
fn copy(
    inspection: &mut Inspection<'_>,
    volume: VolumeId,
    range: Range<u64>,
    step: u32,
    image: &mut Image,
) -> Result<(), CliError> {
    let contents = inspection.read(volume, range.clone(), step)?;
    for (start, contents) in range.clone().step_by(step as usize).zip(contents) {
        let part = start..range.end.min(start + u64::from(step));
        match contents {
            Ok(pieces) => image.put(&pieces)?,
            Err(_) if step > BLOCK => copy(inspection, volume, part, BLOCK, image)?,
            Err(_) => image.miss(part)?,
        }
    }
    Ok(())
}

/// The image under way.
struct Image {
    file: OutputFile,
    name: String,
    /// Ranges that no copy gave, in order; neighbours are one.
    unread: Vec<Range<u64>>,
}

impl Image {
    fn begin(args: &Args, size: Bytes) -> Result<Image, CliError> {
        let name = args.output.display().to_string();
        if let Some(room) = room_of_device(&args.output).filter(|&room| room < size) {
            let text = format!("{name} has {room}, and the volume {size}; name a larger device");
            return Err(CliError::input(text));
        }
        let file = OutputFile::create(&args.output, args.force, Readers::Owner)?;
        Ok(Image { file, name, unread: Vec::new() })
    }

    fn put(&mut self, pieces: &[Fragment]) -> Result<(), CliError> {
        let file = &mut self.file;
        let put = pieces.iter().try_for_each(|piece| match &piece.payload {
            Payload::Zeroes(length) => file.skip(u64::from(*length)),
            Payload::Bytes(bytes) => bytes.chunks(BLOCK as usize).try_for_each(|block| {
                if block.iter().all(|&byte| byte == 0) {
                    file.skip(block.len() as u64)
                } else {
                    file.write_all(block)
                }
            }),
        });
        put.map_err(|error| CliError::failed(format!("{}: {error}", self.name)))
    }

    fn miss(&mut self, range: Range<u64>) -> Result<(), CliError> {
        self.put(&[Fragment {
            at: 0,
            payload: Payload::Zeroes((range.end - range.start) as u32),
        }])?;
        match self.unread.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.unread.push(range),
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<Range<u64>>, CliError> {
        self.file.finish()?;
        Ok(self.unread)
    }
}

/// Bytes of a block device; `None` of everything else.
fn room_of_device(path: &Path) -> Option<Bytes> {
    let is_one = std::fs::metadata(path).is_ok_and(|met| met.file_type().is_block_device());
    let mut device = is_one.then(|| File::open(path).ok())??;
    device.seek(SeekFrom::End(0)).ok().map(Bytes)
}

/// Says what became of it; an error when the image is not the whole volume.
fn tell(
    args: &Args,
    volume: &VolumeStatus,
    losses: &[String],
    unread: &[Range<u64>],
) -> Result<(), CliError> {
    let mut text = format!("{}: volume {}, {}\n", args.output.display(), volume.name, volume.size);
    for loss in losses {
        let _ = writeln!(text, "{loss}");
    }
    for range in unread.iter().take(RANGES_TOLD) {
        let length = Bytes(range.end - range.start);
        let _ = writeln!(text, "{length} at byte {} could not be read: zeroes here", range.start);
    }
    if let Some(more @ 1..) = unread.len().checked_sub(RANGES_TOLD) {
        let _ = writeln!(text, "{more} further ranges could not be read: zeroes here");
    }
    output::print(&text)?;
    if losses.is_empty() && unread.is_empty() {
        return Ok(());
    }
    let bytes = Bytes(unread.iter().map(|range| range.end - range.start).sum());
    Err(CliError::failed(match unread {
        [] => "the image may lack what is said above".to_string(),
        _ => format!("{bytes} of the volume could not be read; see above"),
    }))
}
