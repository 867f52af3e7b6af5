//! Block checksums: a CRC-32C for every block of 4 KiB. Those of a chunk that is not being written
//! stand in a table at each of its slots.
//!
//! 1. What is written is hashed on the way, and so is what operations copy: the sums are known in
//!    memory ([`crate::map::sums`]), and reads are held against them.
//! 2. A chunk that was not written for a while gets its tables: the scrub reads what is not known,
//!    all copies of it, and compares; the tables are written; then a record says that they are
//!    right, with the checksum of the table itself. The group commit of the record flushes data and
//!    tables first. In an open region ([`crate::map::regions`]) the record waits until that is
//!    closed.
//! 3. Reads of such a chunk are verified block by block, those of operations too. A copy that does
//!    not agree does not count: another one serves, and the scrub mends it.
//! 4. Before the first write to such a chunk a record says durably that its tables are not right
//!    any more, and with it those of its neighbours ([`crate::map::regions`]). So no crash leaves a
//!    right table beside contents that it does not know. What the table said stays known in memory,
//!    but for what is written.
//!
//! The record has the table's checksum, and the table names its group, volume and chunk: a table
//! that was written elsewhere, or never, is not taken for this one. What is open: contents that
//! rot, or get lost, before the tables are written, and whose sums are not in memory any more.
//!
//! Chunks with a copy across a network get no table: a bucket has checksums of its own.
//!
//! Pools of a group that was made without checksums have no room for tables; those that are added
//! later have it. A chunk with a copy on such a pool gets its table there, and the sums are held
//! against all its copies. When its last copy there goes, so does the table.

mod announced;
pub(crate) mod table;

use crate::finding::FindingKind;
use crate::format::{Record, decode_table, encode_table};
use crate::group_state::GroupState;
use crate::group_state::effect::Effect;
use crate::io::busy_chunk::bit;
use crate::map::place::{ChunkCopy, Place};
use crate::map::regions::Regions;
use crate::map::sums::{SumStore, Sums};
use crate::map::{ChunkMap, ChunkState, NONE, Table};
use crate::pools::flight::Owner;
use crate::pools::layout::table_bytes;
use crate::settings::BLOCK;
use announced::region_of;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use table::{can_have_tables, table_name, table_places};
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{ChunkId, Nanos, Slab};

/// Memory for the sums of chunks with tables: 64 GiB of data in chunks of 1 MiB.
const TABLES_BYTES_MAX: u64 = 64 << 20;
/// Memory for the sums of chunks that are being written: 16 GiB of data.
const KNOWN_BYTES_MAX: u64 = 16 << 20;
/// A chunk gets its tables when it was not written for so long.
const QUIET: Nanos = Nanos(10_000_000_000);
/// Chunks that one round of housekeeping looks at.
const WATCHED_PER_ROUND: usize = 256;

/// Counts of tables of checksums since the group was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChecksumStatus {
    /// Chunks that got their tables.
    pub checksummed: u64,
    /// Chunks of these of which nothing had to be read for it.
    pub unread: u64,
    /// Tables that ceased to be right by writes and moves.
    pub broken: u64,
    /// Tables that could not be read, were damaged, or are not where they were written.
    pub lost: u64,
}

/// A table on its way into memory.
#[derive(Debug, Clone, Copy)]
struct Load {
    chunk: ChunkId,
    /// The journal's word on it when it was asked for.
    table: Table,
    /// Pools whose table was not good, one bit each: copies come and go while it is sought.
    tried: u64,
}

/// A chunk without a table.
#[derive(Debug, Clone, Copy)]
struct Watched {
    chunk: ChunkId,
    since: Nanos,
    /// True if its writes have been looked for since then.
    looked_at: bool,
}

/// Tables of checksums in memory, and the chunks that may get one.
#[derive(Debug)]
pub(crate) struct BlockChecksums {
    /// Blocks of chunks whose tables are right.
    tables: SumStore,
    /// Blocks of other chunks.
    known: SumStore,
    loads: Slab<Load>,
    loading: BTreeMap<ChunkId, u32>,
    /// Chunks whose tables are lost, until the journal knows that they have none.
    tableless: BTreeSet<ChunkId>,
    /// Chunks without a table, longest quiet first.
    watched: VecDeque<Watched>,
    status: ChecksumStatus,
    regions: Regions,
}

impl Default for BlockChecksums {
    fn default() -> BlockChecksums {
        BlockChecksums {
            tables: SumStore::new(TABLES_BYTES_MAX),
            known: SumStore::new(KNOWN_BYTES_MAX),
            loads: Slab::default(),
            loading: BTreeMap::new(),
            tableless: BTreeSet::new(),
            watched: VecDeque::new(),
            status: ChecksumStatus::default(),
            regions: Regions::default(),
        }
    }
}

impl BlockChecksums {
    pub(crate) fn has_watched(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Counts tables that went with their last copy while the group was opened.
    pub(crate) fn note_broken(&mut self, tables: u64) {
        self.status.broken += tables;
    }

    /// Checksums of a chunk's blocks, as far as they are known.
    pub(crate) fn sums(&self, chunk: ChunkId) -> Option<&Sums> {
        self.tables.sums_of(chunk).or_else(|| self.known.sums_of(chunk))
    }

    /// A chunk reads as zeroes from now on; what is known is kept of so many chunks at most.
    pub(crate) fn opened(&mut self, chunk: ChunkId, chunk_size: u32, most: usize, map: &ChunkMap) {
        self.known.put(chunk, Sums::zeroes(chunk_size), most, |other| map.is_busy(other));
    }

    /// A write begins; so many sub-requests have been begun.
    pub(crate) fn write_begins(&mut self, chunk: ChunkId, range: &Range<u32>, begun: u64) {
        if let Some(sums) = self.known.sums_of_mut(chunk) {
            sums.forget(range, begun);
        }
    }

    /// A write succeeded on all copies; so many sub-requests have been begun.
    pub(crate) fn written(&mut self, chunk: ChunkId, at: u32, payload: &Payload, begun: u64) {
        if let Some(sums) = self.known.sums_of_mut(chunk) {
            sums.written(at, payload, begun);
        }
    }

    /// An operation copied blocks from byte `at` on, and nobody wrote to them meanwhile; so many
    /// sub-requests have been begun.
    pub(crate) fn copied(&mut self, chunk: ChunkId, at: u32, sums: &[u32], begun: u64) {
        if let Some(known) = self.known.sums_of_mut(chunk) {
            known.read(at, sums, begun);
        }
    }

    /// An operation begins to read the chunk: what it copies is to be known.
    pub(crate) fn is_copied(
        &mut self,
        chunk: ChunkId,
        chunk_size: u32,
        most: usize,
        map: &ChunkMap,
    ) {
        if self.sums(chunk).is_none() {
            self.known.put(chunk, Sums::none(chunk_size), most, |other| map.is_busy(other));
        }
    }

    /// The chunk's contents are gone.
    pub(crate) fn forget(&mut self, chunk: ChunkId) {
        self.tables.take(chunk);
        self.known.take(chunk);
        self.tableless.remove(&chunk);
    }

    fn end_load(&mut self, load: u32) {
        let Load { chunk, .. } = self.loads.remove(load);
        self.loading.remove(&chunk);
    }
}

impl BlockChecksums {
    /// Counts of tables of checksums since the group was opened.
    pub(crate) fn status(&self) -> ChecksumStatus {
        self.status
    }

    /// Blocks of contents that stand at byte `at` of a chunk and are not what was written; what a
    /// part of this number read while somebody wrote is not judged.
    pub(crate) fn wrong_blocks(&self, chunk: ChunkId, at: u32, found: &Payload, order: u64) -> u32 {
        let first = found.slice(0..found.len().min(BLOCK));
        let found = if mutant("first_block_verified_only") { &first } else { found };
        let sums = self.sums(chunk).filter(|sums| sums.verifies(order));
        sums.map_or(0, |sums| sums.differing(at, found))
    }

    /// True if a read of `range` can be verified, and so is to be made by whole blocks.
    pub(crate) fn can_verify(&self, chunk: ChunkId, range: &Range<u32>) -> bool {
        self.sums(chunk).is_some_and(|sums| sums.of(range).is_some())
    }

    /// True if a chunk's checksums are in memory, where it has any; fetches them if not. Writes
    /// wait for them too: what they leave of the chunk stays known.
    pub(crate) fn table_is_at_hand(
        &mut self,
        group: &mut GroupState,
        now: Nanos,
        chunk: ChunkId,
    ) -> bool {
        if self.loading.contains_key(&chunk) {
            return false;
        }
        let table = group.map.entry(chunk).table();
        let known = self.tables.has(chunk) || self.tableless.contains(&chunk);
        if table == Table::None || known {
            return true;
        }
        if !table_places(group, chunk).any(|place| group.pools[place.pool].is_alive()) {
            return true; // There is nothing to be read.
        }
        let load = self.loads.insert(Load { chunk, table, tried: 0 });
        self.loading.insert(chunk, load);
        self.load_table(group, now, load);
        assert_eq!(self.loads.len(), self.loading.len(), "each load is of a chunk of its own");
        !self.loading.contains_key(&chunk)
    }

    /// Reads the table at the next copy, or gives it up.
    fn load_table(&mut self, group: &mut GroupState, now: Nanos, load: u32) {
        let Load { chunk, tried, .. } = self.loads[load];
        let able =
            |place: &Place| tried & bit(place.pool) == 0 && group.pools[place.pool].is_alive();
        let untried = table_places(group, chunk).find(able);
        match untried {
            Some(place) => {
                assert!(group.map.entry(chunk).has_checksums(), "a table is sought that is right");
                self.loads[load].tried |= bit(place.pool);
                let offset = group.pools.table_address(place);
                let io = Io::Read { offset, length: table_bytes(group.pools.chunk_bytes()) as u32 };
                group.pools.send(now, place.pool, Owner::TableRead { load }, io, false);
            }
            None => {
                self.end_load(load);
                self.status.lost += 1;
                group.findings.note(
                    FindingKind::ChecksumsLost,
                    (chunk, group.pools.chunk_bytes()),
                    &(0..group.pools.chunk_bytes()),
                    None,
                );
                // Reads go on unverified; writes wait until the journal knows of it.
                self.tableless.insert(chunk);
                group.announce_writes(chunk);
            }
        }
    }

    /// A table was read, or could not be.
    pub(crate) fn table_read(
        &mut self,
        group: &mut GroupState,
        now: Nanos,
        load: u32,
        result: Result<Payload, DeviceError>,
    ) {
        let Load { chunk, table, tried } = self.loads[load];
        if !group.map.has(chunk) || group.map.entry(chunk).first().is_none() {
            self.end_load(load);
        } else {
            let bytes = result.map(|payload| payload.to_vec()).unwrap_or_default();
            match decode_table(table_name(group, chunk), table, &bytes, group.pools.chunk_bytes()) {
                Some(sums) => {
                    self.end_load(load);
                    // No write has begun since: they wait for this.
                    let checksummed = group.map.entry(chunk).has_checksums();
                    let BlockChecksums { tables, known, .. } = &mut *self;
                    let store = if checksummed { tables } else { known };
                    let (most, map) = (group.settings.limits.tables_cached, &group.map);
                    store.put(chunk, Sums::of_all(sums), most, |other| map.is_busy(other));
                    if tried.count_ones() > 1 {
                        group.emit(Effect::Mend { chunk, blocks: 0 });
                    }
                }
                None if group.map.entry(chunk).has_checksums() => {
                    if mutant("table_sought_once") {
                        self.loads[load].tried = u64::MAX;
                    }
                    self.load_table(group, now, load);
                }
                None => self.end_load(load),
            }
        }
        assert_eq!(self.loads.len(), self.loading.len(), "each load is of a chunk of its own");
        if group.map.is_busy(chunk) {
            group.emit(Effect::Eased(chunk));
        }
    }

    /// The journal knows that the tables count no more. What they said stays known: contents change
    /// by writes only, and those say so.
    pub(crate) fn void_checksums(&mut self, group: &mut GroupState, now: Nanos, chunk: ChunkId) {
        if !group.pools.keep_checksums() {
            return;
        }
        self.tableless.remove(&chunk);
        if group.map.entry(chunk).has_checksums() {
            group.map.entry_mut(chunk).set_table(Table::None);
            self.status.broken += 1;
            if let Some(sums) = self.tables.take(chunk) {
                let (most, map) = (group.settings.limits.tables_cached, &group.map);
                self.known.put(chunk, sums, most, |other| map.is_busy(other));
            }
        }
        assert!(!group.map.entry(chunk).has_checksums(), "its table is right no more");
        assert!(!self.tables.has(chunk), "what is known of it is no table");
        self.watch(group, now, chunk);
    }

    /// Notes a chunk that may get its tables when it has been quiet.
    pub(crate) fn watch(&mut self, group: &mut GroupState, now: Nanos, chunk: ChunkId) {
        let keeps = group.pools.keep_checksums();
        let entry = group.map.entry_mut(chunk);
        if keeps && !entry.has_checksums() && !entry.set_watched(true) {
            self.watched.push_back(Watched { chunk, since: now, looked_at: false });
        }
        let listed = || self.watched.iter().any(|watched| watched.chunk == chunk);
        debug_assert!(!group.map.entry(chunk).is_watched() || listed(), "it will be looked at");
    }

    /// Hands chunks that were not written for a while to the scrub, which makes their tables.
    pub(crate) fn checksum_quiet_chunks(&mut self, group: &mut GroupState, now: Nanos) {
        if !group.pools.keep_checksums() {
            return;
        }
        for _ in 0..WATCHED_PER_ROUND {
            let Some(&Watched { chunk, since, looked_at }) = self.watched.front() else {
                break;
            };
            if now.saturating_sub(since) < QUIET && looked_at {
                break;
            }
            self.watched.pop_front();
            if !group.map.has(chunk) {
                continue;
            }
            let entry = group.map.entry_mut(chunk);
            entry.set_watched(false);
            let quiet = !entry.take_written() && entry.busy == NONE && looked_at;
            if entry.first().is_none() || entry.has_checksums() {
                continue;
            }
            if !quiet {
                let listed = entry.set_watched(true);
                assert!(!listed, "a chunk stands in the list once");
                self.watched.push_back(Watched { chunk, since: now, looked_at: true });
            } else if can_have_tables(group, chunk) {
                group.emit(Effect::Tables(chunk));
            }
        }
    }

    /// Copies of a chunk are gone: where none of those that stay has room for a table, there is no
    /// table any more. What it said stays known.
    pub(crate) fn drop_orphaned_table(
        &mut self,
        group: &mut GroupState,
        chunk: ChunkId,
        state: &mut ChunkState,
    ) {
        let has_room = |copy: &ChunkCopy| group.pools[copy.place.pool].checksums;
        let orphaned = state.table != Table::None && !state.copies.iter().any(has_room);
        if orphaned && !mutant("table_outlives_its_copies") {
            met("table of checksums went with its last copy");
            state.table = Table::None;
            self.void_checksums(group, group.now, chunk);
        }
        let has_room = |copy: &ChunkCopy| group.pools[copy.place.pool].checksums;
        let kept = state.table == Table::None || state.copies.iter().any(has_room);
        assert!(kept || mutant("table_outlives_its_copies"), "a table stands at some copy");
    }

    /// Writes a chunk's tables, to be told of as the scrub's; how many, and their checksum.
    pub(crate) fn write_tables(
        &mut self,
        group: &mut GroupState,
        now: Nanos,
        chunk: ChunkId,
        sums: &[u32],
    ) -> (u32, u32) {
        let (payload, sum) =
            encode_table(table_name(group, chunk), sums, group.pools.chunk_bytes());
        let places: Vec<Place> = table_places(group, chunk).collect();
        assert!(!places.is_empty(), "a chunk without room for a table gets none");
        let bare = places.len() < group.map.copies(chunk).count();
        met_if(bare, "table written beside a bare copy");
        if bare && mutant("no_table_beside_a_bare_copy") {
            return (0, sum);
        }
        for &place in &places {
            self.write_table(group, now, place, payload.clone());
        }
        (places.len() as u32, sum)
    }

    pub(crate) fn write_table(
        &mut self,
        group: &mut GroupState,
        now: Nanos,
        place: Place,
        data: Payload,
    ) {
        let offset = group.pools.table_address(place);
        assert!(group.pools[place.pool].checksums, "the pool has room for tables");
        assert_eq!(u64::from(data.len()), table_bytes(group.pools.chunk_bytes()), "a table");
        group.pools.send(
            now,
            place.pool,
            Owner::TableWrite,
            Io::Write { offset, data, fua: false },
            false,
        );
    }

    /// The tables are written, and nobody wrote to the chunk meanwhile.
    pub(crate) fn table_is_written(
        &mut self,
        group: &mut GroupState,
        chunk: ChunkId,
        sums: &[u32],
        table: u32,
        unread: bool,
    ) {
        assert_eq!(sums.len() as u32, group.pools.chunk_bytes() / BLOCK, "each block has a sum");
        assert!(!group.map.entry(chunk).has_checksums(), "a chunk that was written gets its table");
        group.map.entry_mut(chunk).set_table(Table::Summed(table));
        let known = self.known.take(chunk).filter(|known| known.whole() == Some(sums));
        let mut all = known.unwrap_or_else(|| Sums::of_all(sums.into()));
        all.rest();
        let (most, map) = (group.settings.limits.tables_cached, &group.map);
        self.tables.put(chunk, all, most, |other| map.is_busy(other));
        self.status.checksummed += 1;
        self.status.unread += u64::from(unread);
        if self.regions.has(region_of(group, chunk)) {
            met("table without a record");
            return group.map.entry_mut(chunk).set_unsaid(true);
        }
        let state = group.durable_state(chunk);
        group.journal.change(&Record::Chunk(chunk, state), chunk, &[]);
    }
}

#[cfg(test)]
mod tests;
