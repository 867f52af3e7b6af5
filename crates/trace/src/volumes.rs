//! Volume names to dense ids, in order of first sight.
//!
//! Invariants: an id, once given, keeps its name; at most [`VOLUMES_MAX`] names of at most
//! [`NAME_BYTES_MAX`] bytes are held, so that a damaged input cannot grow memory without end. The
//! map is only looked up, never walked, so its order cannot matter; its hasher has fixed keys.

use crate::formats::Problem;
use crate::numbers::Excerpt;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use thermocline_units::VolumeId;

/// Volumes one trace may have; the largest published traces have some thousands.
pub(crate) const VOLUMES_MAX: usize = 1 << 20;

/// Bytes a volume's name may have.
pub(crate) const NAME_BYTES_MAX: usize = 512;

/// The volumes of one trace.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    names: Vec<String>,
    ids: HashMap<Box<[u8]>, VolumeId, BuildHasherDefault<DefaultHasher>>,
    last: (Vec<u8>, VolumeId),
}

impl Volumes {
    /// All names; the index is the id.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The id of the volume called `name`, a new one when it was not seen before.
    #[inline]
    pub(crate) fn id_of(&mut self, name: &[u8]) -> Result<VolumeId, Problem> {
        if self.last.0 == name && !self.names.is_empty() {
            return Ok(self.last.1);
        }
        let id = match self.ids.get(name) {
            Some(id) => *id,
            None => self.add(name)?,
        };
        self.last.0.clear();
        self.last.0.extend_from_slice(name);
        self.last.1 = id;
        Ok(id)
    }

    #[cold]
    fn add(&mut self, name: &[u8]) -> Result<VolumeId, Problem> {
        if self.names.len() >= VOLUMES_MAX {
            return Err(Problem::new(format!(
                "this is volume number {}; more than {VOLUMES_MAX} are not believed",
                self.names.len() + 1
            )));
        }
        if name.is_empty() {
            return Err(Problem::new("the volume has no name".to_string()));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(Problem::new(format!(
                "the volume name `{}` has {} bytes; at most {NAME_BYTES_MAX} are taken",
                Excerpt(name),
                name.len()
            )));
        }
        let text = match std::str::from_utf8(name) {
            Ok(text) if !text.chars().any(char::is_control) => text,
            _ => {
                return Err(Problem::new(format!(
                    "the volume name `{}` is not printable UTF-8 text",
                    Excerpt(name)
                )));
            }
        };
        let id = VolumeId(self.names.len() as u32);
        self.names.push(text.to_string());
        self.ids.insert(name.into(), id);
        Ok(id)
    }
}
