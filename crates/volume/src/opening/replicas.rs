//! Damage to some replicas of the metadata, found while a group is opened.
//!
//! The group needs one whole copy of each block, so such damage loses nothing, and the checkpoint
//! that ends the recovery writes all replicas anew. It is told nevertheless: the next flipped bit
//! could be in the last whole copy, and a medium that flips one will flip others.
//!
//! 1. A replica that the superblock names has every block of its checkpoint, and every block of the
//!    journal that was durable; where another replica has the block whole, it is damaged here.
//! 2. A pool that is dead when the journal is replayed may lack blocks, and is not looked at.
//!
//! Does not tell a torn superblock from a damaged one: a crash tears them.

use crate::format::BlockKind;
use std::collections::BTreeMap;
use std::fmt;
use thermocline_units::PoolId;

/// Blocks that are damaged on one pool, and whole on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DamagedReplica {
    /// Damaged blocks of the checkpoint in force.
    pub checkpoint_blocks: u32,
    /// Damaged blocks of the journal, among those that were durable.
    pub journal_blocks: u32,
}

impl fmt::Display for DamagedReplica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DamagedReplica { checkpoint_blocks, journal_blocks } = self;
        write!(f, "{checkpoint_blocks} blocks of the checkpoint, {journal_blocks} of the journal")
    }
}

/// Damaged metadata replicas by pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DamagedReplicas(BTreeMap<PoolId, DamagedReplica>);

impl DamagedReplicas {
    /// The damaged replicas, by pool.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PoolId, DamagedReplica)> + '_ {
        self.0.iter().map(|(pool, damaged)| (*pool, *damaged))
    }

    /// Takes note of the pools that do not have a block whole, which another one has.
    pub(crate) fn note(&mut self, kind: BlockKind, pools: &[PoolId]) {
        let is_first = |(index, pool): (usize, &PoolId)| !pools[..index].contains(pool);
        assert!(pools.iter().enumerate().all(is_first), "a replica has one copy of a block");
        for pool in pools {
            let damaged = self.0.entry(*pool).or_default();
            match kind {
                BlockKind::Checkpoint => damaged.checkpoint_blocks += 1,
                BlockKind::Journal => damaged.journal_blocks += 1,
            }
        }
    }
}
