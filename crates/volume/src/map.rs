//! The chunk map: which slots of which pools hold a chunk, and how hot the chunk is.
//!
//! An entry takes 32 bytes whether its chunk is mapped or not. What few chunks need (further
//! copies, a redirected part) stands in a side table.
//!
//! Invariants: the first copy of an entry is the one that survives when copies may differ; an entry
//! without a copy reads as zeroes.

pub(crate) mod block_checksums;
pub(crate) mod copies;
pub(crate) mod losses;
pub(crate) mod naming;
pub(crate) mod overlay;
mod parts;
pub(crate) mod place;
pub(crate) mod presence;
pub(crate) mod regions;
pub(crate) mod sums;

use crate::map::overlay::{Blocks, Overlay, Side};
use crate::map::place::{ChunkCopy, Place};
use crate::settings::{COPIES_MAX, POOLS_MAX, VOLUME_CHUNKS_MAX};
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// The journal's word on the tables of checksums at a chunk's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Table {
    /// There is none, or it is not right.
    #[default]
    None,
    /// A right table, written by layout 1 or 2: it names its chunk's index and nothing else.
    Plain,
    /// A right table, and its checksum, which no other table has, be it an earlier one of the same
    /// chunk or another chunk's.
    Summed(u32),
}

/// Marks an absent index in an entry.
pub(crate) const NONE: u32 = u32::MAX;

/// Bits of an entry: its chunk's table is right; its checksum is known; the chunk stands in the
/// list of those that may get one; the journal does not say that the table is right; the chunk was
/// written since its rest was last looked at, and since that of its region was.
const RIGHT: u8 = 1;
const SUMMED: u8 = 2;
const WATCHED: u8 = 4;
const UNSAID: u8 = 8;
const WRITTEN: u8 = 16;
const REGION_WRITTEN: u8 = 32;

/// One chunk in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    slot: u32,
    extra: u32,
    /// Index of the chunk's state while requests or operations are under way.
    busy: u32,
    /// Reads in `epoch`.
    reads: u32,
    /// Writes in `epoch`.
    writes: u32,
    /// Checksum of the table of checksums, where the bits say so.
    table: u32,
    pool: u8,
    bits: u8,
    /// The epoch that the counts belong to, modulo 2¹⁶.
    epoch: u16,
    /// True if placements leave the chunk where it is.
    pinned: bool,
}

const _: () = assert!(size_of::<Entry>() <= 32, "a chunk's entry must stay far below 64 bytes");
const _: () = assert!(POOLS_MAX <= 256, "an entry has a byte for its pool");

impl Entry {
    const EMPTY: Entry = Entry {
        slot: NONE,
        extra: NONE,
        busy: NONE,
        reads: 0,
        writes: 0,
        table: 0,
        pool: 0,
        bits: 0,
        epoch: 0,
        pinned: false,
    };

    pub(crate) fn first(&self) -> Option<Place> {
        (self.slot != NONE).then_some(Place { pool: PoolId(self.pool.into()), slot: self.slot })
    }

    /// True if placements leave the chunk where it is.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// True if a write to the chunk has come since this was last asked of it.
    fn take_written(&mut self) -> bool {
        let written = self.bits & WRITTEN != 0;
        self.bits &= !WRITTEN;
        written
    }

    /// The same, asked of its region.
    fn take_region_written(&mut self) -> bool {
        let written = self.bits & REGION_WRITTEN != 0;
        self.bits &= !REGION_WRITTEN;
        written
    }

    /// True if the tables of checksums at its slots are right.
    pub(crate) fn has_checksums(&self) -> bool {
        self.bits & RIGHT != 0
    }

    pub(crate) fn table(&self) -> Table {
        match (self.bits & RIGHT, self.bits & SUMMED) {
            (0, _) => Table::None,
            (_, 0) => Table::Plain,
            _ => Table::Summed(self.table),
        }
    }

    /// True if the table is right, but the journal does not say so: it expects writes to the chunk
    /// ([`crate::map::regions`]).
    pub(crate) fn is_unsaid(&self) -> bool {
        self.bits & UNSAID != 0
    }

    /// True if the journal says that the table is right, or is about to.
    pub(crate) fn is_called_right(&self) -> bool {
        self.has_checksums() && !self.is_unsaid()
    }

    /// From now on the journal is told that the table is right, or is not.
    ///
    /// # Panics
    /// When a table that is not right shall be unsaid.
    fn set_unsaid(&mut self, unsaid: bool) {
        assert!(!unsaid || self.has_checksums(), "there is nothing to be left unsaid");
        self.bits = if unsaid { self.bits | UNSAID } else { self.bits & !UNSAID };
    }

    fn set_table(&mut self, table: Table) {
        self.bits &= !(RIGHT | SUMMED);
        if table == Table::None {
            self.bits &= !UNSAID;
        }
        self.bits |= match table {
            Table::None => 0,
            Table::Plain => RIGHT,
            Table::Summed(_) => RIGHT | SUMMED,
        };
        self.table = if let Table::Summed(sum) = table { sum } else { 0 };
        assert!(self.has_checksums() || !self.is_unsaid(), "only what is right is left unsaid");
    }

    /// True if the chunk is on the list of those that may get checksums.
    pub(crate) fn is_watched(&self) -> bool {
        self.bits & WATCHED != 0
    }

    /// Puts the chunk on the list of those that may get checksums, or takes it off; whether it was
    /// on it.
    fn set_watched(&mut self, watched: bool) -> bool {
        let before = self.bits & WATCHED != 0;
        self.bits = if watched { self.bits | WATCHED } else { self.bits & !WATCHED };
        before
    }

    /// Counts an access in `epoch`; counts of earlier epochs are forgotten.
    fn heat(&mut self, epoch: u16, write: bool) {
        if self.epoch != epoch {
            (self.epoch, self.reads, self.writes) = (epoch, 0, 0);
        }
        if write {
            self.bits |= WRITTEN | REGION_WRITTEN;
        }
        let count = if write { &mut self.writes } else { &mut self.reads };
        *count = count.saturating_add(1);
        debug_assert_ne!(self.heat_in(epoch), (0, 0), "the access counts in its epoch");
    }

    /// (Reads, writes) in `epoch`.
    pub(crate) fn heat_in(&self, epoch: u16) -> (u32, u32) {
        if self.epoch == epoch { (self.reads, self.writes) } else { (0, 0) }
    }
}

/// State that few chunks have.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extra {
    /// Copies beside the first.
    others: Vec<ChunkCopy>,
    /// True if the journal says that the copies may differ: set durably before the first write,
    /// cleared when all copies are flushed.
    dirty: bool,
    /// End of the last write to several copies.
    last_write: Nanos,
    /// The part of the chunk that lies over its first copy.
    overlay: Option<Overlay>,
}

/// Everything that the journal says about a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ChunkState {
    pub(crate) copies: Vec<ChunkCopy>,
    pub(crate) dirty: bool,
    /// Word on the tables of checksums at its slots.
    pub(crate) table: Table,
    /// True if the journal shall not say that they are.
    pub(crate) unsaid: bool,
    pub(crate) pinned: bool,
    pub(crate) overlay: Option<(Place, Blocks)>,
}

impl ChunkState {
    /// True if something stands in two places that may differ: whole copies, or shared blocks.
    pub(crate) fn may_differ(&self) -> bool {
        self.copies.len() > 1 || self.overlay.as_ref().is_some_and(|(_, b)| b.any_shared())
    }

    /// Takes away the copies on a dead pool, unless there are no others; says which.
    pub(crate) fn lose_pool(&mut self, pool: PoolId) -> Vec<ChunkCopy> {
        let lost = |copy: &ChunkCopy| copy.place.pool == pool;
        if self.copies.iter().all(lost) {
            return Vec::new();
        }
        let gone = self.copies.iter().copied().filter(lost).collect();
        self.copies.retain(|copy| !lost(copy));
        self.dirty &= self.may_differ();
        assert!(!self.copies.is_empty(), "the last copy is never taken away");
        gone
    }
}

/// One volume's map.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    /// Never used again; 0 until a group of an older layout has been recovered.
    identity: u64,
    name: String,
    size: Bytes,
    entries: Vec<Entry>,
    /// Set when the volume is being deleted: it takes no more requests.
    deleting: bool,
    /// Sub-requests and operations under way.
    busy: u32,
}

/// All volumes of a group.
#[derive(Debug)]
pub(crate) struct ChunkMap {
    volumes: Vec<Option<Volume>>,
    extras: Vec<Extra>,
    extras_free: Vec<u32>,
    /// Identity that the next volume gets.
    next_identity: u64,
    /// True if a chunk was pinned since the group was opened.
    has_pins: bool,
    /// Chunks in two parts.
    overlays: usize,
    /// Those of them with blocks that changed sides since the journal was told.
    unsaved: Vec<ChunkId>,
    /// Chunks whose copies may differ until they have not been written for a while.
    differing: Vec<ChunkId>,
}

impl Volume {
    /// Never used again; 0 until a group of an older layout has been recovered.
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn size(&self) -> Bytes {
        self.size
    }

    /// Number of its chunks.
    pub(crate) fn chunks(&self) -> u32 {
        self.entries.len() as u32
    }

    /// True if it takes no more requests.
    pub(crate) fn is_deleting(&self) -> bool {
        self.deleting
    }

    /// True if sub-requests or operations are under way on it.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy > 0
    }
}

impl ChunkMap {
    /// No volumes; the first one gets this identity.
    pub(crate) fn new(next_identity: u64) -> ChunkMap {
        assert!(next_identity > 0, "0 stands for a volume without an identity");
        ChunkMap {
            volumes: Vec::new(),
            extras: Vec::new(),
            extras_free: Vec::new(),
            next_identity,
            has_pins: false,
            overlays: 0,
            unsaved: Vec::new(),
            differing: Vec::new(),
        }
    }

    /// Identity that the next volume gets: no volume has had it or a higher one.
    pub(crate) fn next_identity(&self) -> u64 {
        self.next_identity
    }

    /// Takes an identity that no volume has had.
    pub(crate) fn take_identity(&mut self) -> u64 {
        self.next_identity += 1;
        self.next_identity - 1
    }

    /// A volume has this identity.
    pub(crate) fn note_identity(&mut self, identity: u64) {
        self.next_identity = self.next_identity.max(identity.saturating_add(1));
    }

    pub(crate) fn volume(&self, id: VolumeId) -> Option<&Volume> {
        self.volumes.get(id.0 as usize)?.as_ref()
    }

    /// The volume, unless it is being deleted.
    pub(crate) fn living(&self, id: VolumeId) -> Option<&Volume> {
        self.volume(id).filter(|volume| !volume.deleting)
    }

    fn volume_mut(&mut self, id: VolumeId) -> Option<&mut Volume> {
        self.volumes.get_mut(id.0 as usize)?.as_mut()
    }

    /// Gives a volume its identity and its name.
    ///
    /// # Panics
    /// When there is no such volume.
    pub(crate) fn name_volume(&mut self, id: VolumeId, identity: u64, name: String) {
        let volume = self.volume_mut(id).expect("callers name volumes that exist");
        (volume.identity, volume.name) = (identity, name);
    }

    /// The volume takes no more requests.
    ///
    /// # Panics
    /// When there is no such volume.
    pub(crate) fn begin_deletion(&mut self, id: VolumeId) {
        self.volume_mut(id).expect("callers name volumes that exist").deleting = true;
    }

    /// Keeps a volume from going away, until [`ChunkMap::let_go`]: a sub-request or an operation
    /// begins.
    ///
    /// # Panics
    /// When there is no such volume.
    pub(crate) fn hold(&mut self, id: VolumeId) {
        self.volume_mut(id).expect("what begins is of a volume that is there").busy += 1;
    }

    /// A sub-request or an operation of the volume has ended.
    ///
    /// # Panics
    /// When it was not held so often.
    pub(crate) fn let_go(&mut self, id: VolumeId) {
        let volume = self.volume_mut(id).expect("volumes that are held stay");
        assert!(volume.busy > 0, "what is let go was held");
        volume.busy -= 1;
    }

    /// Number of volumes, those included that are being deleted.
    pub(crate) fn living_volumes(&self) -> usize {
        self.volumes.iter().flatten().count()
    }

    /// True if there is a volume that is not being deleted.
    pub(crate) fn has_living(&self) -> bool {
        self.volumes.iter().flatten().any(|volume| !volume.deleting)
    }

    /// Ids of all volumes are below this.
    pub(crate) fn volume_count(&self) -> u32 {
        self.volumes.len() as u32
    }

    /// Makes the volume, or gives it a new size; entries beyond a smaller size must be empty.
    pub(crate) fn set_volume(&mut self, id: VolumeId, size: Bytes, chunk_size: u32) {
        let index = id.0 as usize;
        if self.volumes.len() <= index {
            self.volumes.resize_with(index + 1, || None);
        }
        let volume = self.volumes[index].get_or_insert_with(|| Volume {
            identity: 0,
            name: String::new(),
            size,
            entries: Vec::new(),
            deleting: false,
            busy: 0,
        });
        volume.size = size;
        let chunks = size.0.div_ceil(u64::from(chunk_size));
        assert!(chunks <= VOLUME_CHUNKS_MAX, "no volume has more chunks");
        let beyond = volume.entries.iter().skip(chunks as usize);
        let extras: Vec<u32> = beyond.map(|entry| entry.extra).filter(|&e| e != NONE).collect();
        volume.entries.resize(chunks as usize, Entry::EMPTY);
        extras.into_iter().for_each(|extra| self.free_extra(extra));
    }

    /// Forgets a volume whose chunks are all unmapped.
    pub(crate) fn remove_volume(&mut self, id: VolumeId) {
        assert!(
            self.volume(id).is_none_or(|volume| volume.busy == 0),
            "nothing is under way on it"
        );
        let entries = self.volumes[id.0 as usize].take().map_or(Vec::new(), |it| it.entries);
        let extras = entries.iter().map(|entry| entry.extra).filter(|&extra| extra != NONE);
        extras.for_each(|extra| self.free_extra(extra));
    }

    /// True if sub-requests or an operation are under way on a chunk.
    pub(crate) fn is_busy(&self, chunk: ChunkId) -> bool {
        self.has(chunk) && self.entry(chunk).busy != NONE
    }

    /// Index of the state of a chunk on which something is under way.
    pub(crate) fn busy_index(&self, chunk: ChunkId) -> Option<u32> {
        Some(self.entry(chunk).busy).filter(|&index| index != NONE)
    }

    /// Something is under way on the chunk from now on, whose state has this index; or nothing is.
    pub(crate) fn set_busy_index(&mut self, chunk: ChunkId, index: Option<u32>) {
        assert_ne!(index, Some(NONE), "a number that says that there is none");
        let before = std::mem::replace(&mut self.entry_mut(chunk).busy, index.unwrap_or(NONE));
        assert_ne!(before == NONE, index.is_none(), "a chunk is in use, or it is not");
    }

    /// Counts an access to the chunk in `epoch`.
    pub(crate) fn count_access(&mut self, chunk: ChunkId, epoch: u16, write: bool) {
        self.entry_mut(chunk).heat(epoch, write);
    }

    /// The chunk's tables of checksums are not right any more.
    pub(crate) fn forget_table(&mut self, chunk: ChunkId) {
        self.entry_mut(chunk).set_table(Table::None);
    }

    pub(crate) fn has(&self, chunk: ChunkId) -> bool {
        self.volume(chunk.volume).is_some_and(|v| (chunk.index as usize) < v.entries.len())
    }

    /// # Panics
    /// When the chunk does not exist.
    pub(crate) fn entry(&self, chunk: ChunkId) -> &Entry {
        let volume = self.volume(chunk.volume).expect("callers name chunks of volumes that exist");
        &volume.entries[chunk.index as usize]
    }

    /// # Panics
    /// When the chunk does not exist.
    fn entry_mut(&mut self, chunk: ChunkId) -> &mut Entry {
        let volume =
            self.volume_mut(chunk.volume).expect("callers name chunks of volumes that exist");
        &mut volume.entries[chunk.index as usize]
    }

    fn extra(&self, chunk: ChunkId) -> Option<&Extra> {
        let index = self.entry(chunk).extra;
        (index != NONE).then(|| &self.extras[index as usize])
    }

    /// The chunk's second part, where it has one.
    pub(crate) fn overlay(&self, chunk: ChunkId) -> Option<&Overlay> {
        self.extra(chunk)?.overlay.as_ref()
    }

    /// The second part of a chunk in two parts.
    ///
    /// # Panics
    /// When the chunk has none.
    pub(crate) fn overlay_of(&self, chunk: ChunkId) -> &Overlay {
        self.overlay(chunk).expect("called for chunks in two parts")
    }

    /// Place of a side of a chunk in two parts.
    ///
    /// # Panics
    /// When the chunk is not in two parts.
    pub(crate) fn place_on(&self, chunk: ChunkId, side: Side) -> Place {
        match side {
            Side::Above => self.overlay_of(chunk).place,
            Side::Base => self.entry(chunk).first().expect("an overlay lies over a copy"),
        }
    }

    /// The other side of the chunk, where it is mirrored.
    pub(crate) fn mirror(&self, chunk: ChunkId) -> Option<&Overlay> {
        self.overlay(chunk).filter(|overlay| overlay.blocks.is_mirror())
    }

    fn overlay_mut(&mut self, chunk: ChunkId) -> Option<&mut Overlay> {
        let index = self.entry(chunk).extra;
        if index == NONE { None } else { self.extras[index as usize].overlay.as_mut() }
    }

    /// True if something of the chunk stands in two places that may differ.
    pub(crate) fn may_differ(&self, chunk: ChunkId) -> bool {
        self.extra(chunk).is_some_and(|extra| {
            let shared = |overlay: &Overlay| overlay.blocks.any_shared();
            !extra.others.is_empty() || extra.overlay.as_ref().is_some_and(shared)
        })
    }

    /// The chunk's place in the side table, made when it has none.
    fn extra_mut(&mut self, chunk: ChunkId) -> &mut Extra {
        let mut index = self.entry(chunk).extra;
        if index == NONE {
            index = self.extras_free.pop().unwrap_or_else(|| {
                self.extras.push(Extra::default());
                self.extras.len() as u32 - 1
            });
            let extra = &self.extras[index as usize];
            let is_empty = extra.others.is_empty() && extra.overlay.is_none() && !extra.dirty;
            assert!(is_empty, "a place that is free has nothing of another chunk");
            self.entry_mut(chunk).extra = index;
        }
        debug_assert!(!self.extras_free.contains(&index), "a place has one chunk");
        &mut self.extras[index as usize]
    }

    /// Gives up a place of the side table.
    fn free_extra(&mut self, index: u32) {
        let extra = std::mem::take(&mut self.extras[index as usize]);
        self.overlays -= usize::from(extra.overlay.is_some());
        debug_assert!(!self.extras_free.contains(&index), "a place is given up once");
        self.extras_free.push(index);
    }

    /// False if writes to the chunk go to more than one place or by blocks.
    pub(crate) fn is_simple(&self, chunk: ChunkId) -> bool {
        self.entry(chunk).extra == NONE
    }

    /// All whole copies, the first one first.
    pub(crate) fn copies(&self, chunk: ChunkId) -> impl Iterator<Item = ChunkCopy> + '_ {
        let extra = self.extra(chunk);
        let first = self.entry(chunk).first();
        let first = first.map(ChunkCopy::wanted);
        first.into_iter().chain(extra.into_iter().flat_map(|extra| extra.others.iter().copied()))
    }

    /// Pins a chunk where it is, or lets it go.
    pub(crate) fn set_pinned(&mut self, chunk: ChunkId, pinned: bool) {
        self.has_pins |= pinned;
        self.entry_mut(chunk).pinned = pinned;
        assert!(self.has_pins || !pinned, "a pin is known");
    }

    /// False if no chunk was pinned since the group was opened.
    pub(crate) fn has_pins(&self) -> bool {
        self.has_pins
    }

    /// The chunk as the journal would say it.
    pub(crate) fn state(&self, chunk: ChunkId) -> ChunkState {
        let extra = self.extra(chunk);
        ChunkState {
            copies: self.copies(chunk).collect(),
            dirty: extra.is_some_and(|extra| extra.dirty),
            table: self.entry(chunk).table(),
            unsaid: self.entry(chunk).is_unsaid(),
            pinned: self.entry(chunk).is_pinned(),
            overlay: extra
                .and_then(|extra| extra.overlay.as_ref())
                .map(|overlay| (overlay.place, overlay.blocks.clone())),
        }
    }

    /// Makes the chunk what `state` says; heat and state in use stay.
    pub(crate) fn set_state(&mut self, chunk: ChunkId, state: &ChunkState) {
        let no_base = state.copies.is_empty();
        assert!(!no_base || state.overlay.is_none(), "an overlay lies over a copy");
        let first = state.copies.first().copied();
        assert!(state.copies.len() <= COPIES_MAX, "a chunk has no more copies than it may");
        self.set_pinned(chunk, state.pinned);
        let entry = self.entry_mut(chunk);
        entry.set_table(state.table);
        entry.set_unsaid(state.unsaid && state.table != Table::None);
        let place = first.map_or((0, NONE), |c| (c.place.pool.0 as u8, c.place.slot));
        (entry.pool, entry.slot) = place;
        if state.copies.len() <= 1 && state.overlay.is_none() {
            let extra = std::mem::replace(&mut entry.extra, NONE);
            if extra != NONE {
                self.free_extra(extra);
            }
            return;
        }
        let before = self.extra(chunk);
        let last_write = before.map_or(Nanos(0), |extra| extra.last_write);
        // Whoever changes the copies need not have told the journal about the overlay.
        let unsaved = before.and_then(|extra| extra.overlay.as_ref()).is_some_and(|o| o.unsaved)
            && !mutant("change_of_copies_hides_blocks");
        let overlay = state.overlay.as_ref();
        let had_overlay = before.is_some_and(|extra| extra.overlay.is_some());
        self.overlays += usize::from(overlay.is_some());
        self.overlays -= usize::from(had_overlay);
        *self.extra_mut(chunk) = Extra {
            others: state.copies[1..].to_vec(),
            dirty: state.dirty && state.may_differ(),
            last_write,
            overlay: overlay.map(|(place, blocks)| Overlay {
                place: *place,
                blocks: blocks.clone(),
                unsaved,
            }),
        };
    }

    /// Every chunk of every volume, by ascending id.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = ChunkId> + '_ {
        self.volumes.iter().enumerate().flat_map(|(volume, map)| {
            let count = map.as_ref().map_or(0, |map| map.entries.len() as u32);
            let volume = VolumeId(volume as u32);
            (0..count).map(move |index| ChunkId { volume, index })
        })
    }

    /// The same from one of them on, whether that is there or not.
    pub(crate) fn chunks_from(&self, first: ChunkId) -> impl Iterator<Item = ChunkId> + '_ {
        let volumes = self.volumes.iter().enumerate().skip(first.volume.0 as usize);
        volumes.flat_map(move |(volume, map)| {
            let count = map.as_ref().map_or(0, |map| map.entries.len() as u32);
            let volume = VolumeId(volume as u32);
            let from = if volume == first.volume { first.index } else { 0 };
            (from..count).map(move |index| ChunkId { volume, index })
        })
    }

    /// Chunks to which writes go to more than one place or by blocks, by ascending id.
    pub(crate) fn not_simple(&self) -> impl Iterator<Item = ChunkId> + '_ {
        self.chunks().filter(|&chunk| !self.is_simple(chunk))
    }

    /// Bytes of memory that the map holds.
    pub(crate) fn memory(&self) -> Bytes {
        let entries: usize =
            self.volumes.iter().flatten().map(|volume| volume.entries.capacity()).sum();
        Bytes((entries * size_of::<Entry>() + self.extras.capacity() * size_of::<Extra>()) as u64)
    }
}

#[cfg(test)]
mod tests;
