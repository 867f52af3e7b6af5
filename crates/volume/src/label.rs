//! What a device says about itself, before anything is opened: whose pool it is, or whose not.
//!
//! Reads the two superblocks at the device's start and nothing else. Which of several devices is
//! which pool is told by their labels, not by the order in which somebody lists them.

use crate::format::{BLOCK_BYTES, Membership, Superblock, is_superblock};
use crate::layout;
use thermocline_units::{Bytes, PoolId};

/// Bytes at a device's start that say what is on it.
pub const LABEL_BYTES: usize = 2 * BLOCK_BYTES;

/// What stands at a device's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Label {
    /// No pool's superblock.
    Nothing,
    /// A superblock that is torn, rotten, or of another version of the layout.
    Unreadable,
    /// A pool of a volume group.
    Pool(PoolLabel),
}

/// A pool's newest whole superblock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolLabel {
    /// Which group it belongs to.
    pub identity: u64,
    /// Which of the group's pools it is.
    pub pool: PoolId,
    /// Counts superblocks: the device with the highest number knows the group as it is.
    pub sequence: u64,
    /// The group's unit of placement.
    pub chunk_size: Bytes,
    /// All pools that the group has or had, by id.
    pub members: Vec<MemberLabel>,
}

/// A pool of the group, as a superblock tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberLabel {
    /// Its name.
    pub name: String,
    /// True if the group needs its device.
    pub wanted: bool,
    /// Bytes that its device must have.
    pub bytes: Bytes,
}

impl Label {
    /// Reads the first [`LABEL_BYTES`] of a device; fewer are as good as none.
    pub fn read(head: &[u8]) -> Label {
        let blocks = || head.chunks_exact(BLOCK_BYTES).take(2);
        let whole = blocks().filter_map(Superblock::decode).filter(layout::holds);
        match whole.max_by_key(|superblock| superblock.sequence) {
            Some(superblock) => Label::Pool(PoolLabel::of(&superblock)),
            None if blocks().any(is_superblock) => Label::Unreadable,
            None => Label::Nothing,
        }
    }
}

impl PoolLabel {
    fn of(superblock: &Superblock) -> PoolLabel {
        let chunk_size = u64::from(superblock.chunk_size);
        let members = superblock.pools.iter().map(|pool| MemberLabel {
            name: pool.name.clone(),
            wanted: matches!(pool.membership, Membership::Active | Membership::Draining),
            bytes: Bytes(pool.first_slot.saturating_add(u64::from(pool.slots) * chunk_size)),
        });
        PoolLabel {
            identity: superblock.identity,
            pool: superblock.this_pool,
            sequence: superblock.sequence,
            chunk_size: Bytes(chunk_size),
            members: members.collect(),
        }
    }
}
