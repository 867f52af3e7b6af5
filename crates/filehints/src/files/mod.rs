//! Files of a mounted file system as ranges of the volume below it.
//!
//! [`mounts`] knows what is mounted where, [`device`] follows a device down to what a client of the
//! engine made of a volume, [`extents`] asks where a file's bytes lie on the device. [`Place`] puts
//! them together. Nothing here reads or changes the contents of files.

pub mod device;
pub mod extents;
pub mod mounts;

use crate::HintError;
use device::{Ground, Sys};
use mounts::{Mount, Mounts};
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use thermocline_admin::client::Client;
use thermocline_engine::api::{HintLevel, NewHint, Volume};
use thermocline_units::Bytes;

/// A mounted file system whose volume is known.
#[derive(Debug, Clone)]
pub struct Place {
    /// Mount of it.
    pub mount: Mount,
    /// The number of its device, as files say it.
    pub device: u64,
    /// The volume's name.
    pub volume: String,
    /// Offset of the device on the volume, bytes.
    offset: u64,
    /// End of the volume, bytes.
    end: u64,
}

impl Place {
    /// A file system on a volume of its size.
    #[cfg(test)]
    pub fn on_its_own(mount: Mount, device: u64) -> Place {
        Place { mount, device, volume: "v0".to_string(), offset: 0, end: u64::MAX }
    }

    /// The file system that holds `path`, and the volume below it: the one that is named, else the
    /// one that the device's file is called after, else the engine's only one.
    ///
    /// # Errors
    /// When there is no such path, its device cannot be followed, or the volume is not clear.
    pub fn of(path: &Path, client: &Client, named: Option<&str>) -> Result<Place, HintError> {
        let failed = |error: io::Error| HintError::Input(format!("{}: {error}", path.display()));
        let full = path.canonicalize().map_err(failed)?;
        let device = full.metadata().map_err(failed)?.dev();
        let mount = Mounts::read()?.holding(&full)?;
        let number = numbers(device);
        let ground = Sys::of_this_system()?
            .ground(number, &mount.kind)
            .map_err(|error| HintError::Input(format!("{}: {error}", path.display())))?;
        let volumes: Vec<Volume> = client.get("/v1/volumes")?;
        let volume = choose(&ground, &volumes, named)?;
        let end = ground.offset.saturating_add(ground.length).min(volume.size_bytes);
        Ok(Place { mount, device, volume: volume.name.clone(), offset: ground.offset, end })
    }

    /// Ranges of the device as ranges of the volume; what lies beyond its end is left out.
    pub fn on_volume(&self, device: &[Range<u64>]) -> Vec<Range<u64>> {
        let shifted = device.iter().map(|range| {
            let start = range.start.saturating_add(self.offset);
            start..range.end.saturating_add(self.offset).min(self.end)
        });
        shifted.filter(|range| !range.is_empty()).collect()
    }

    /// Hints that say `saying` of these ranges of a file, with what is known of the file.
    pub fn hints(
        &self,
        level: HintLevel,
        saying: &NewHint,
        file: &FileFacts,
        ranges: &[Range<u64>],
    ) -> Vec<NewHint> {
        let hint = |range: &Range<u64>| NewHint {
            level: Some(level),
            volume: Some(self.volume.clone()),
            offset_bytes: range.start,
            length_bytes: Some(range.end - range.start),
            file_size_bytes: saying.file_size_bytes.or(Some(file.size)),
            directory: Some(file.directory.clone()),
            file_name: Some(file.name.clone()),
            ..saying.clone()
        };
        ranges.iter().map(hint).collect()
    }
}

/// A whole block device as bytes of a volume: the volume's name, and where on it the device lies.
///
/// # Errors
/// When `path` is no block device, cannot be followed, or its volume is not clear.
pub fn device_on_volume(
    path: &Path,
    client: &Client,
    named: Option<&str>,
) -> Result<(String, Range<u64>), HintError> {
    let wrong = |text: &dyn fmt::Display| HintError::Input(format!("{}: {text}", path.display()));
    let status = path.metadata().map_err(|error| wrong(&error))?;
    if !status.file_type().is_block_device() {
        return Err(wrong(&"no block device; of a mounted file system speak with --mount"));
    }
    let number = numbers(status.rdev());
    let ground =
        Sys::of_this_system()?.ground(number, "a device").map_err(|error| wrong(&error))?;
    let volumes: Vec<Volume> = client.get("/v1/volumes")?;
    let volume = choose(&ground, &volumes, named)?;
    let end = ground.offset.saturating_add(ground.length).min(volume.size_bytes);
    Ok((volume.name.clone(), ground.offset..end))
}

/// Facts about a file by its hints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFacts {
    /// Its size, bytes.
    pub size: u64,
    /// Its directory, from the file system's root.
    pub directory: String,
    /// Its name.
    pub name: String,
}

impl FileFacts {
    /// Facts about a file by its full path; `None` when it is not below the mount.
    pub fn new(mount: &Mount, path: &Path, size: u64) -> Option<FileFacts> {
        let inside = mount.inside(path)?;
        let name = inside.file_name()?.to_string_lossy().into_owned();
        let directory = inside.parent()?.to_string_lossy().into_owned();
        Some(FileFacts { size, directory, name })
    }
}

/// Ranges of all of a file's bytes on the volume, as far as they have a place.
///
/// # Errors
/// When the file system cannot say.
pub fn ranges_of(
    place: &Place,
    file: impl AsFd,
    within: Range<u64>,
) -> io::Result<(Vec<Range<u64>>, extents::LeftOut)> {
    let found = extents::of(file, within)?;
    Ok((place.on_volume(&found.ranges), found.left_out))
}

fn numbers(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

/// The volume that a device is made of.
fn choose<'a>(
    ground: &Ground,
    volumes: &'a [Volume],
    named: Option<&str>,
) -> Result<&'a Volume, HintError> {
    let names = || volumes.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    let find = |name: &str| volumes.iter().find(|volume| volume.name == name);
    let below = ground.below.display();
    let found = match named {
        Some(name) => find(name).ok_or_else(|| {
            HintError::Input(format!("there is no volume {name}; volumes are: {}", names()))
        })?,
        None if !ground.of_client => {
            return Err(HintError::Input(format!(
                "nothing says that {below} is a volume; name it with --volume (one of: {})",
                names()
            )));
        }
        None => {
            let file = ground.below.file_name().map(|name| name.to_string_lossy().into_owned());
            let only = if let [only] = volumes { Some(only) } else { None };
            file.as_deref().and_then(find).or(only).ok_or_else(|| {
                HintError::Input(format!(
                    "nothing says which volume {below} is; name it with --volume (one of: {})",
                    names()
                ))
            })?
        }
    };
    let needed = ground.offset.saturating_add(ground.length);
    if needed > found.size_bytes {
        return Err(HintError::Input(format!(
            "{below} reaches to {}, volume {} has {}: they are not the same; name another with \
             --volume",
            Bytes(needed),
            found.name,
            Bytes(found.size_bytes)
        )));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
