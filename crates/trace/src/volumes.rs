//! Volume names to dense ids, in order of first sight.
//!
//! Invariants: an id, once given, keeps its name; at most [`VOLUMES_MAX`] names of at most
//! [`NAME_BYTES_MAX`] bytes are held, so that a damaged input cannot grow memory without end. In
//! front of the map is a small table of names seen lately, by a hash that may be poor because a
//! miss there costs only the map's look-up.

use crate::formats::Problem;
use crate::numbers::Excerpt;
use std::collections::BTreeMap;
use thermocline_units::VolumeId;

/// Volumes one trace may have; the largest published traces have some thousands.
pub(crate) const VOLUMES_MAX: usize = 1 << 20;

/// Bytes a volume's name may have.
pub(crate) const NAME_BYTES_MAX: usize = 512;

/// Names seen lately; a power of two.
const RECENT: usize = 4096;

/// The volumes of one trace.
#[derive(Debug)]
pub(crate) struct Volumes {
    names: Vec<String>,
    ids: BTreeMap<Box<[u8]>, VolumeId>,
    recent: Box<[u32; RECENT]>,
}

impl Default for Volumes {
    fn default() -> Volumes {
        Volumes { names: Vec::new(), ids: BTreeMap::new(), recent: Box::new([0; RECENT]) }
    }
}

/// Slot of a name in the table of recent ones: its first and last bytes, mixed.
#[inline(always)]
fn slot_of(name: &[u8]) -> usize {
    let (first, last) = match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => match (name.first_chunk::<4>(), name.last_chunk::<4>()) {
            (Some(first), Some(last)) => {
                (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into())
            }
            _ => name.iter().fold((0, 0), |(sum, _), byte| (sum << 8 | u64::from(*byte), 0)),
        },
    };
    let mixed = (first ^ last.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (64 - RECENT.trailing_zeros())) as usize
}

impl Volumes {
    /// The id of `name`, looked up only when `known` does not hold it yet.
    #[inline(always)]
    pub(crate) fn id_once(
        &mut self,
        known: &mut Option<VolumeId>,
        name: &[u8],
    ) -> Result<VolumeId, Problem> {
        match *known {
            Some(id) => Ok(id),
            None => Ok(*known.insert(self.id_of(name)?)),
        }
    }

    /// All names; the index is the id.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The id of the volume called `name`, a new one when it was not seen before.
    #[inline(never)] // The map's search would take registers from the loops that scan lines.
    pub(crate) fn id_of(&mut self, name: &[u8]) -> Result<VolumeId, Problem> {
        let slot = slot_of(name);
        let likely = self.recent.get(slot).copied().unwrap_or_default();
        if self.names.get(likely as usize).is_some_and(|known| known.as_bytes() == name) {
            return Ok(VolumeId(likely));
        }
        let id = match self.ids.get(name) {
            Some(id) => *id,
            None => self.add(name)?,
        };
        if let Some(place) = self.recent.get_mut(slot) {
            *place = id.0;
        }
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
