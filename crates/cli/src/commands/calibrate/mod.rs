//! `thermocline calibrate`: measures a device, or the medium under a folder, into a profile.
//!
//! Reads only, unless told that contents may be destroyed; in a folder it makes a file of its own,
//! fills it, measures both, and removes it. What was not measured is said. The measured figures
//! stand beside those of the fitted model.

mod report;
mod scratch;

use crate::error::CliError;
use crate::in_use::refuse_used;
use crate::output;
use crate::progress::{Progress, Unit};
use scratch::Scratch;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Instant;
use thermocline_engine::probe::Contents;
use thermocline_ports::calibration::{Access, Subject, calibrate};
use thermocline_ports::pattern::{Load, Outcome, Pattern};
use thermocline_ports::{Device, Payload};
use thermocline_ports_os::{Budget, FileDevice, LoadError, OpenOptions, Patience, run_load};
use thermocline_units::{Bytes, Nanos, Rng};

const EXAMPLES: &str = "\
Examples:
  thermocline calibrate /mnt/pool                       the medium under a folder
  thermocline calibrate /dev/nvme1n1 --out nvme1.toml   reads only
  thermocline calibrate /dev/nvme1n1 --destroy-contents --out nvme1.toml
  thermocline lab volume web.csv.gz --pools pools.toml  with profile = \"nvme1.toml\"

docs/guides/calibrate.md tells what is measured, what is assumed, and how far to trust it.";

/// Less than this cannot be measured.
const SIZE_MIN: Bytes = Bytes::from_mib(64);
/// Bytes that writes take their contents from.
const CONTENTS: usize = 4 << 20;

/// Options of the measurement.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A block device, a file, or a folder.
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Bytes of it; 1 GiB in a folder, all of a device or a file when not given.
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// Measure writes, too. Everything on the device or in the file is lost.
    #[arg(long)]
    destroy_contents: bool,
    /// Longest that one load is run.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    time: Nanos,
    /// Write the profile to this file; it is printed when not given.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write over a file that exists.
    #[arg(long, requires = "out")]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    if let Some(out) = args.out.as_ref().filter(|out| out.exists() && !args.force) {
        let text = format!("{} exists; choose another name or --force", out.display());
        return Err(CliError::input(text));
    }
    if args.time < Nanos::from_micros(1_000) {
        return Err(CliError::input("--time is at least 1ms a load"));
    }
    let (mut bench, access) = prepare(&args)?;
    let about = format!("{}, measured by thermocline calibrate", bench.name);
    let mut progress = None;
    let calibration = calibrate(&mut bench, access, &about, |name, index, count| {
        let bar = progress
            .get_or_insert_with(|| Progress::bar(Some(count as u64), Unit::Things, "measuring"));
        bar.label(name.to_string());
        bar.at(index as u64);
    });
    drop(progress);
    let calibration = calibration
        .map_err(|error| CliError::failed(format!("{}: {error}", args.path.display())))?;
    let profile = report::profile_file(&calibration);
    if let Some(out) = &args.out {
        output::write_text(out, &profile, args.force)?;
    }
    if args.json {
        let value = report::as_json(&calibration, &bench.notes);
        let text = serde_json::to_string_pretty(&value).map_err(CliError::failed)?;
        return output::print(&(text + "\n"));
    }
    let mut text = report::as_text(&calibration, &bench.notes);
    match &args.out {
        Some(out) => text.push_str(&format!("\nprofile written to {}\n", out.display())),
        None => text.push_str(&format!("\n{profile}")),
    }
    output::print(&text)
}

/// The device under test.
struct Bench {
    device: FileDevice,
    size: Bytes,
    time: Nanos,
    started: Instant,
    seed: u64,
    contents: Payload,
    name: String,
    notes: Vec<String>,
    /// Removed when all is over.
    _scratch: Option<Scratch>,
}

/// Opens what is to be measured, and says what may be done to it.
fn prepare(args: &Args) -> Result<(Bench, Access), CliError> {
    let path = &args.path;
    let failed = |error| CliError::input(format!("{}: {error}", path.display()));
    let metadata = std::fs::metadata(path).map_err(failed)?;
    let contents = contents();
    if metadata.is_dir() {
        if args.destroy_contents {
            let text = "a folder is measured with a file of its own; leave --destroy-contents out";
            return Err(CliError::input(text));
        }
        let size = args.size.unwrap_or(Bytes::from_gib(1));
        let scratch = Scratch::make(path, size.max(SIZE_MIN), &contents)?;
        let options = OpenOptions { create: None, buffered: false, patience: Patience::DEFAULT };
        let device = FileDevice::open(&scratch.path(), options).map_err(CliError::failed)?;
        let bench = Bench::new(args, device, contents, Some(scratch))?;
        return Ok((bench, Access::Destructive));
    }
    if !args.destroy_contents {
        if !metadata.file_type().is_block_device() && metadata.blocks() * 512 < metadata.len() / 2 {
            let text = format!(
                "{} is mostly holes, which cost nothing to read; give its folder instead",
                path.display()
            );
            return Err(CliError::input(text));
        }
        let device = FileDevice::open_to_read(path).map_err(CliError::failed)?;
        return Ok((Bench::new(args, device, contents, None)?, Access::ReadOnly));
    }
    refuse_what_is_used(path)?;
    let options = OpenOptions { create: None, buffered: false, patience: Patience::DEFAULT };
    let device = FileDevice::open(path, options).map_err(CliError::failed)?;
    Ok((Bench::new(args, device, contents, None)?, Access::Destructive))
}

/// Refuses a device that somebody uses, and one of this program's own: a flag destroys neither.
fn refuse_what_is_used(path: &Path) -> Result<(), CliError> {
    let name = path.display();
    refuse_used(path, "measure another device")?;
    let contents = Contents::of_path(path);
    match contents.map_err(|error| CliError::failed(format!("{name}: {error}")))? {
        Contents::Blank | Contents::Foreign(_) => Ok(()),
        ours => Err(CliError::input(format!(
            "{name} is {ours}; if it is not needed any more, erase its first 128 KiB"
        ))),
    }
}

/// Bytes that no device can make smaller.
fn contents() -> Payload {
    let mut rng = Rng::seeded(1);
    let words = (0..CONTENTS / 8).flat_map(|_| rng.next_u64().to_le_bytes());
    let mut aligned = thermocline_ports_os::Aligned::zeroed(CONTENTS);
    aligned.as_mut_slice().iter_mut().zip(words).for_each(|(to, from)| *to = from);
    Payload::Bytes(aligned.freeze())
}

impl Bench {
    fn new(
        args: &Args,
        device: FileDevice,
        contents: Payload,
        scratch: Option<Scratch>,
    ) -> Result<Bench, CliError> {
        let whole = device.geometry().size;
        let size = args.size.unwrap_or(whole).min(whole);
        let size = Bytes(size.0 / (1 << 20) * (1 << 20));
        if size < SIZE_MIN {
            let text = format!("{size} is too little to be measured; at least {SIZE_MIN}");
            return Err(CliError::input(text));
        }
        let mut notes = Vec::new();
        if !device.is_direct() {
            notes.push(
                "through the page cache: the file system does not allow to go past it; these are \
                 figures of memory"
                    .to_string(),
            );
        }
        if scratch.is_some() {
            notes.push(format!(
                "measured with a file of {size}: seeks and cleaning of the whole medium do not show"
            ));
        }
        let name = args.path.display().to_string();
        let started = Instant::now();
        let (time, seed) = (args.time, 0);
        Ok(Bench { device, size, time, started, seed, contents, name, notes, _scratch: scratch })
    }
}

impl Subject for Bench {
    type Error = LoadError;

    fn size(&self) -> Bytes {
        self.size
    }

    fn discard_zeroes(&self) -> bool {
        self.device.geometry().discard_zeroes
    }

    fn run(&mut self, pattern: &Pattern, from: Bytes) -> Result<Outcome, LoadError> {
        self.seed += 1;
        let started = self.started;
        let clock = || Nanos(u64::try_from(started.elapsed().as_nanos()).expect("584 years"));
        let load = Load::new(pattern, clock(), u64::MAX, self.seed).beginning_at(from);
        let load = load.writing(self.contents.clone());
        run_load(&mut self.device, load, Budget { time: self.time }, clock)
    }
}
