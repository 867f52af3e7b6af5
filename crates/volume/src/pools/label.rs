//! Label of a device, read before anything is opened: whose pool it is, or whose not.
//!
//! Reads the two superblocks at the device's start and nothing else. Which of several devices is
//! which pool is told by their labels, not by the order in which somebody lists them.

use crate::format::{Membership, Superblock, is_damaged_superblock, is_superblock};
use crate::sizes::BLOCK_BYTES;
use thermocline_units::{Bytes, PoolId, with_one_bit_changed};

/// Bytes at a device's start that say what is on it.
pub const LABEL_BYTES: usize = 2 * BLOCK_BYTES;

/// Content of a device's start.
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
    /// Identity of the group that it belongs to.
    pub identity: u64,
    /// Its number among the group's pools.
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
    /// Reads the first [`LABEL_BYTES`] of a device; fewer are as good as none. Where neither
    /// superblock is whole, and one flipped bit is all that is wrong with one, the device is known
    /// by it nevertheless: opening the group will say what is damaged.
    pub fn read(head: &[u8]) -> Label {
        let blocks = || head.chunks_exact(BLOCK_BYTES).take(2).filter(|block| is_superblock(block));
        let newest = |found: &mut dyn Iterator<Item = Superblock>| {
            found.filter(Superblock::fits_its_pools).max_by_key(|superblock| superblock.sequence)
        };
        let corrected = |block: &[u8]| with_one_bit_changed(block, Superblock::decode);
        let whole = newest(&mut blocks().filter_map(Superblock::decode));
        let damaged = || blocks().filter(|block| is_damaged_superblock(block));
        match whole.or_else(|| newest(&mut damaged().filter_map(corrected))) {
            Some(superblock) => Label::Pool(PoolLabel::of(&superblock)),
            None if blocks().next().is_some() => Label::Unreadable,
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
