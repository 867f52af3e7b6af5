//! Names and identities of volumes.
//!
//! A volume has a number, which is free again when it is deleted; a name, by which clients ask for
//! it; and an identity, which is never used again. What is kept beyond a volume's life, or apart
//! from it, refers to it by its identity.

use crate::map::ChunkMap;
use crate::settings::VOLUME_NAME_BYTES_MAX;
use thermocline_units::VolumeId;

/// True for 1 to [`VOLUME_NAME_BYTES_MAX`] letters, digits, dots, hyphens and underscores that do
/// not begin with a dot or a hyphen: a name that is a path, an address or an option nowhere.
pub fn is_volume_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    (1..=VOLUME_NAME_BYTES_MAX).contains(&name.len())
        && name.chars().all(plain)
        && !name.starts_with(['.', '-'])
}

impl ChunkMap {
    /// The volume of this name, unless it is being deleted.
    pub(crate) fn volume_named(&self, name: &str) -> Option<VolumeId> {
        (0..self.volume_count()).map(VolumeId).find(|&id| {
            let volume = self.living(id);
            volume.is_some_and(|volume| volume.name == name)
        })
    }

    /// The name that a volume gets when nobody gives it one: its number after a `v`, or the first
    /// such name that is free.
    pub(crate) fn default_name(&self, id: VolumeId) -> String {
        let mut names = (id.0..).map(|number| format!("v{number}"));
        names.find(|name| self.volume_named(name).is_none()).expect("there are fewer volumes")
    }

    /// Gives volumes of older layouts the names and identities that they lack. They are durable
    /// with the checkpoint that ends the recovery.
    pub(crate) fn name_old_volumes(&mut self) {
        for id in (0..self.volume_count()).map(VolumeId) {
            if self.volume(id).is_some_and(|volume| volume.identity == 0) {
                let name = self.default_name(id);
                let identity = self.take_identity();
                assert!(is_volume_name(&name) && identity > 0, "a name and an identity of its own");
                self.name_volume(id, identity, name);
            }
        }
    }
}

#[cfg(test)]
mod tests;
