//! Status of a group: volumes, pools, chunks, operations, journal. Read-only; nothing here changes
//! what the machine does.

use crate::epoch::slas::SlaRecord;
use crate::finding::Finding;
use crate::fsck::Flaw;
use crate::group::Group;
use crate::lines::LinesStatus;
use crate::map::block_checksums::ChecksumStatus;
use crate::map::overlay::Side;
use crate::map::place::{ChunkCopy, Role};
use crate::moves::Proposed;
use crate::moves::operation::{MovesDropped, OperationStatus};
use crate::opening::replicas::DamagedReplica;
use crate::opening::salvage::Salvage;
use crate::pools::pool::{PoolState, PoolStatus};
use crate::scrub::ScrubStatus;
use thermocline_policy::placement::shadow::Shadows;
use thermocline_policy::placement::{Account, Pattern, PoolTraits, Route};
use thermocline_units::{Bytes, ChunkId, Latencies, Nanos, PoolId, VolumeId};

/// A volume, as `volumes` tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeStatus {
    /// Its number; another volume may have it once this one is deleted.
    pub id: VolumeId,
    /// Never used again, whatever becomes of the volume.
    pub identity: u64,
    /// The name by which clients ask for it.
    pub name: String,
    /// Its size.
    pub size: Bytes,
    /// Its SLA, and how well it was kept.
    pub sla: Option<SlaRecord>,
}

/// State of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkStatus {
    /// Whole copies, the first one first; none: the chunk reads as zeroes.
    pub copies: Vec<ChunkCopy>,
    /// Pool of the redirected part, when there is one.
    pub redirected_to: Option<PoolId>,
    /// Pool of the other side, when the chunk is mirrored.
    pub mirrored_on: Option<PoolId>,
    /// Reads in this epoch.
    pub reads: u32,
    /// Writes in this epoch.
    pub writes: u32,
    /// True if placements leave the chunk where it is.
    pub pinned: bool,
}

impl ChunkStatus {
    /// Pool whose copy a move to a faster pool left behind.
    pub fn kept_on(&self) -> Option<PoolId> {
        let kept = self.copies.iter().find(|copy| copy.role == Role::Kept);
        kept.map(|copy| copy.place.pool)
    }
}

/// Chunks in two parts, mirrored or redirected, and who answers for mirrored ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartsStatus {
    /// Number of chunks in two parts.
    pub chunks: usize,
    /// Number that there may be: the map has room for no more.
    pub most: usize,
    /// Last word of the placement's router; `None`: none is asked.
    pub route: Option<Route>,
}

/// Fill of the journal's ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalStatus {
    /// Blocks of 4 KiB of the ring.
    pub blocks: u64,
    /// Blocks of these that a recovery would replay.
    pub used: u64,
    /// Blocks written since the group was made.
    pub written: u64,
}

/// Latencies of client requests on a pool's device, from submission to completion.
#[derive(Debug, Clone, Copy)]
pub struct PoolLatencies<'a> {
    /// Latencies of reads.
    pub reads: &'a Latencies,
    /// Latencies of writes, discards and zeroes.
    pub writes: &'a Latencies,
}

impl Group {
    /// State of a pool.
    pub fn pool_status(&self, id: PoolId) -> Option<PoolStatus> {
        let rank = self.machines.state.pools.ranks().rank_of(id).0;
        Some(self.machines.state.pools.find(id)?.status(rank))
    }

    /// Bytes at a pool's start that hold no chunk: superblocks, the metadata region where it has
    /// one, checksum tables. They must have room whatever happens: a pool whose metadata cannot be
    /// written is given up.
    pub fn pool_head(&self, id: PoolId) -> Option<Bytes> {
        Some(Bytes(self.machines.state.pools.find(id)?.first_slot))
    }

    /// Pools that there are or were, fastest first; those that were removed have no rank.
    pub fn pools_by_rank(&self) -> &[PoolId] {
        self.machines.state.pools.ranks().order()
    }

    /// Pools that were not removed, fastest first: those that placements know, by rank.
    pub fn pools_there(&self) -> &[PoolId] {
        self.machines.state.pools.ranks().there()
    }

    /// The first pool, by rank, that is known to be slower than what has these traits; `None`: none
    /// is. Latencies of random reads are compared, by which media differ most. Pools of which
    /// nothing was said are passed over.
    pub fn first_slower(&self, traits: &PoolTraits) -> Option<PoolId> {
        let latency = |traits: &PoolTraits| traits.of(Pattern::RandomRead).latency;
        let slower = |id: &&PoolId| {
            let pool = &self.machines.state.pools[**id];
            pool.traits.is_some_and(|known| latency(&known) > latency(traits))
        };
        self.machines.state.pools.ranks().there().iter().find(slower).copied()
    }

    /// A random read's time on a pool of which something was said; see [`Group::set_traits`].
    pub fn random_read_latency(&self, pool: PoolId) -> Option<Nanos> {
        let pool = self.machines.state.pools.find(pool)?;
        pool.traits.map(|traits| traits.of(Pattern::RandomRead).latency)
    }

    /// Number of pools that there are or were; ids are below this.
    pub fn pool_count(&self) -> u16 {
        self.machines.state.pools.count() as u16
    }

    /// The volume of this name, unless it is being deleted.
    pub fn volume_named(&self, name: &str) -> Option<VolumeId> {
        self.machines.state.map.volume_named(name)
    }

    /// Volumes that exist, by ascending id.
    pub fn volumes(&self) -> impl Iterator<Item = VolumeStatus> + '_ {
        (0..self.machines.state.map.volume_count()).map(VolumeId).filter_map(|id| {
            let volume = self.machines.state.map.living(id)?;
            let sla = self.machines.requests.slas.of(id).copied();
            let (identity, name) = (volume.identity(), volume.name().to_string());
            Some(VolumeStatus { id, identity, name, size: volume.size(), sla })
        })
    }

    /// True if a chunk of a volume holds nothing yet: its first write chooses a place for it.
    pub fn is_unwritten(&self, chunk: ChunkId) -> bool {
        let map = &self.machines.state.map;
        map.has(chunk) && map.copies(chunk).next().is_none()
    }

    /// State of a chunk; `None` when its volume ends before it.
    pub fn locate(&self, chunk: ChunkId) -> Option<ChunkStatus> {
        if !self.machines.state.map.has(chunk) {
            return None;
        }
        let overlay = self.machines.state.map.overlay(chunk);
        let above = |mirrors| {
            let overlay = overlay.filter(|overlay| overlay.blocks.is_mirror() == mirrors);
            overlay.map(|overlay| overlay.place.pool)
        };
        let (reads, writes) = self.machines.epochs.heat_of(&self.machines.state, chunk);
        Some(ChunkStatus {
            copies: self.machines.state.map.copies(chunk).collect(),
            redirected_to: above(false),
            mirrored_on: above(true),
            reads,
            writes,
            pinned: self.machines.state.map.entry(chunk).is_pinned(),
        })
    }

    /// True if a pool has all of a chunk as it was last written.
    pub fn is_whole_on(&self, chunk: ChunkId, pool: PoolId) -> bool {
        if !self.machines.state.map.has(chunk) {
            return false;
        }
        let Some(overlay) = self.machines.state.map.overlay(chunk) else {
            return self.machines.state.map.copies(chunk).any(|copy| copy.place.pool == pool);
        };
        [Side::Base, Side::Above].into_iter().any(|side| {
            self.machines.state.map.place_on(chunk, side).pool == pool
                && overlay.blocks.is_whole_on(side)
        })
    }

    /// Chunks with tables of checksums, and chunks that hold something. O(chunks).
    pub fn chunks_with_checksums(&self) -> (u64, u64) {
        let mapped = self
            .machines
            .state
            .map
            .chunks()
            .filter(|&chunk| self.machines.state.map.entry(chunk).first().is_some());
        mapped.fold((0, 0), |(with, all), chunk| {
            (with + u64::from(self.machines.state.map.entry(chunk).has_checksums()), all + 1)
        })
    }

    /// The pool of a chunk's first copy; `None` when the chunk holds nothing, or its volume ends
    /// before it. O(1), without allocation.
    pub fn pool_of(&self, chunk: ChunkId) -> Option<PoolId> {
        self.machines.state.pool_of(chunk)
    }

    /// The placement's proposal since this was last asked; none: there was none. Only the last
    /// proposal is kept.
    pub fn take_proposed(&mut self) -> Option<Proposed> {
        self.machines.moves.take_proposed()
    }

    /// Moves that the placement has proposed and that have not ended.
    pub fn moves_pending(&self) -> usize {
        self.machines.moves.pending(&self.machines.state)
    }

    /// Everything that is wrong with the state in memory; empty when all is well. O(chunks +
    /// slots).
    pub fn fsck(&self) -> Vec<Flaw> {
        crate::fsck::fsck(&self.machines.state, &self.machines.requests)
    }

    /// The shadows.
    pub fn shadows(&self) -> &Shadows {
        self.machines.epochs.shadows()
    }

    /// Reasons for a chunk's place, in the words of the placement (see [`Placement::explain`]);
    /// `None` when nobody decides.
    ///
    /// [`Placement::explain`]: thermocline_policy::placement::Placement::explain
    pub fn explain(&self, chunk: ChunkId) -> Option<Vec<String>> {
        Some(self.machines.epochs.placement()?.explain(chunk))
    }

    /// The placement's account of what its moves have saved and cost; `None`: nobody decides, or it
    /// keeps none.
    pub fn placement_account(&self) -> Option<Account> {
        self.machines.epochs.placement()?.account()
    }

    /// All that the placement has learnt, and its name with all its settings.
    pub fn learnt(&self) -> Option<(&str, Vec<u8>)> {
        let epochs = &self.machines.epochs;
        Some((epochs.placement_name(), epochs.placement()?.learnt()?))
    }

    /// State of scrubs, and counts of findings.
    pub fn scrub_status(&self) -> ScrubStatus {
        self.machines.scrub.status()
    }

    /// Counts of tables of checksums since the group was opened.
    pub fn checksum_status(&self) -> ChecksumStatus {
        self.machines.checksums.status()
    }

    /// State of lines of 4 KiB, and their counts since the group was opened. O(slots lent).
    pub fn lines(&self) -> LinesStatus {
        self.machines.state.lines.status()
    }

    /// Bytes that one chunk takes on a pool.
    pub fn chunk_size(&self) -> Bytes {
        self.machines.state.chunk_size()
    }

    /// Memory that the chunk map holds.
    pub fn map_memory(&self) -> Bytes {
        self.machines.state.map.memory()
    }

    /// Chunks in two parts.
    pub fn parts(&self) -> PartsStatus {
        let (chunks, room) =
            (self.machines.state.map.overlays(), self.machines.state.overlay_room());
        PartsStatus { chunks, most: chunks + room, route: self.machines.routing.route() }
    }

    /// Bytes a second that operations may copy on a pool now; `None`: no limit.
    pub fn copy_rate(&self) -> Option<Bytes> {
        self.machines.copy_throttle.rate(&self.machines.state.settings.copying)
    }

    /// Proposed moves that were given up, since opening.
    pub fn moves_dropped(&self) -> MovesDropped {
        self.machines.moves.dropped()
    }

    /// Bytes that clients' reads brought to where chunks move, since opening.
    pub fn moves_fed(&self) -> Bytes {
        self.machines.moves.fed()
    }

    /// Operations queued and under way, with the moves that a placement still wants.
    pub fn operations_pending(&self) -> usize {
        self.machines.moves.count() + self.machines.moves.proposed()
    }

    /// Operations under way, then those queued, at most `limit`; moves that a placement still
    /// wants are not among them.
    pub fn operations(&self, limit: usize) -> Vec<OperationStatus> {
        let going = self.machines.state.operations.iter().map(|(_, copy)| copy.status());
        going.chain(self.machines.moves.queued()).take(limit).collect()
    }

    /// Latencies on a pool since the group was opened.
    pub fn pool_latencies(&self, id: PoolId) -> Option<PoolLatencies<'_>> {
        let pool = self.machines.state.pools.find(id)?;
        let [reads, writes] = &pool.latencies;
        Some(PoolLatencies { reads, writes })
    }

    /// Pools whose metadata was damaged when the group was opened, while others had it whole. Pools
    /// that are dead may lack what came later.
    pub fn damaged_replicas(&self) -> impl Iterator<Item = (PoolId, DamagedReplica)> + '_ {
        let lives = |pool: PoolId| {
            let state = self.machines.state.pools.find(pool).map(|pool| pool.state);
            !matches!(state, None | Some(PoolState::Dead | PoolState::Removed))
        };
        self.damaged_replicas.iter().filter(move |(pool, _)| lives(*pool))
    }

    /// Outcome of opening a damaged group; `None` if it was opened as a whole one.
    pub fn salvage(&self) -> Option<&Salvage> {
        self.salvage.as_deref()
    }

    /// Appends what verifying has found since this was last called; of floods only the first.
    pub fn take_findings(&mut self, out: &mut Vec<Finding>) {
        self.machines.state.findings.take(out);
    }

    /// Findings that nobody will be told of, because too many came at once.
    pub fn findings_untold(&self) -> u64 {
        self.machines.state.findings.untold()
    }

    /// The number that no other group has.
    pub fn identity(&self) -> u64 {
        self.machines.state.journal.identity()
    }

    /// Fill of the journal.
    pub fn journal(&self) -> JournalStatus {
        JournalStatus {
            blocks: u64::from(self.machines.state.settings.journal_blocks),
            used: self.machines.state.journal.used(),
            written: self.machines.state.journal.written(),
        }
    }
}
