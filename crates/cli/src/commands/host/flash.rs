//! The device of an agent's second level: opened, or made, and never one that holds something else.

use crate::config::hosting::FlashPlace;
use crate::error::CliError;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use thermocline_engine::probe::{Contents, check_size};
use thermocline_hosting::{FLASH_LABEL, label_flash};
use thermocline_ports::Device;
use thermocline_ports_os::{Disk, LiveDevice, OpenOptions};

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
    let create = place.size.filter(|_| is_new);
    let options = OpenOptions { create, ..OpenOptions::default() };
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

fn is_labelled(path: &Path) -> std::io::Result<bool> {
    let mut start = [0; FLASH_LABEL.len()];
    let mut file = File::open(path)?;
    match file.read_exact(&mut start) {
        Ok(()) => Ok(start == *FLASH_LABEL),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
