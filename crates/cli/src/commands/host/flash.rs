//! The device of an agent's second level: opened, or made, and never one that holds something else.

use crate::config::hosting::FlashPlace;
use crate::error::CliError;
use crate::in_use::refuse_used;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use thermocline_engine::probe::{Contents, check_size};
use thermocline_hosting::{FLASH_LABEL, label_flash};
use thermocline_ports::Device;
use thermocline_ports_os::{Disk, LiveDevice, OpenOptions, Patience};
use thermocline_units::Nanos;

/// Bytes of the block that has the label, and zeroes behind it.
const LABEL_BLOCK: usize = 4096;
/// The store answers in milliseconds what a stuck device does not.
const PATIENCE: Patience =
    Patience { suspect_after: Nanos::from_secs(1), fail_after: Nanos::from_secs(5) };

/// Opens the device; a file that is not there is made.
///
/// # Errors
/// When it cannot be opened, has another size than it should, or holds something else.
pub(super) fn open(place: &FlashPlace) -> Result<Box<dyn LiveDevice>, CliError> {
    let path: &Path = &place.path;
    let is_new = !path.exists();
    if is_new && place.size.is_none() {
        let text = format!("{}: there is no such file; give its size to make it", path.display());
        return Err(CliError::input(text));
    }
    refuse_used(path, "name another file")?;
    let create = place.size.filter(|_| is_new);
    let options = OpenOptions { create, patience: PATIENCE, ..OpenOptions::default() };
    let mut disk = Disk::open(path, options, None).map_err(CliError::input)?;
    if !is_new {
        check_size(path, disk.geometry().size, place.size).map_err(CliError::input)?;
        let failed = |error| CliError::failed(format!("{}: {error}", path.display()));
        if !is_labelled(path).map_err(failed)?
            && Contents::of_path(path).map_err(failed)? != Contents::Blank
        {
            let text = format!(
                "{} holds something that is not the second level of a host's cache; name a blank \
                 device or another file",
                path.display()
            );
            return Err(CliError::input(text));
        }
    }
    label_flash(&mut disk).map_err(CliError::failed)?;
    Ok(Box::new(disk))
}

/// True if the first block is the label's, as a whole: a table of partitions may have been written
/// behind the label.
fn is_labelled(path: &Path) -> std::io::Result<bool> {
    let mut start = [0; LABEL_BLOCK];
    let mut file = File::open(path)?;
    match file.read_exact(&mut start) {
        Ok(()) => {
            let rest = start.strip_prefix(FLASH_LABEL);
            Ok(rest.is_some_and(|rest| rest.iter().all(|&byte| byte == 0)))
        }
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
