//! Block checksums: a CRC-32C for every block of 4 KiB. Those of a chunk that is not being written
//! stand in a table at each of its slots.
//!
//! 1. What is written is hashed on the way, and so is what operations copy: the sums are known in
//!    memory ([`crate::sums`]), and reads are held against them.
//! 2. A chunk that was not written for a while gets its tables: the scrub reads what is not known,
//!    all copies of it, and compares; the tables are written; then a record says that they are
//!    right, with the checksum of the table itself. The commit cycle of the record flushes data and
//!    tables first. In an open region ([`crate::regions`]) the record waits until that is closed.
//! 3. Reads of such a chunk are verified block by block, those of operations too. A copy that does
//!    not agree does not count: another one serves, and the scrub mends it.
//! 4. Before the first write to such a chunk a record says durably that its tables are not right
//!    any more, and with it those of its neighbours ([`crate::regions`]). So no crash leaves a
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

use crate::finding::FindingKind;
use crate::foreground::bit;
use crate::format::Record;
use crate::group::Group;
use crate::journal::Waiter;
use crate::layout::seal_bytes;
use crate::map::{ChunkCopy, ChunkMap, ChunkState, NONE, Place, Table};
use crate::pools::flight::Owner;
use crate::pools::pool::PoolState;
use crate::regions::{Region, Regions};
use crate::settings::BLOCK;
use crate::sums::{SumStore, Sums};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{Bytes, ChunkId, Nanos, Slab};

/// Memory for the sums of chunks with tables: 64 GiB of data in chunks of 1 MiB.
const TABLES_BYTES_MAX: u64 = 64 << 20;
/// Memory for the sums of chunks that are being written: 16 GiB of data.
const KNOWN_BYTES_MAX: u64 = 16 << 20;
/// A chunk gets its tables when it was not written for so long.
const QUIET: Nanos = Nanos(10_000_000_000);
/// Chunks that one round of housekeeping looks at.
const WATCHED_PER_ROUND: usize = 256;
/// Regions that one round of housekeeping looks at.
const LOOKS_PER_ROUND: usize = 64;

const TABLE_MAGIC: &[u8; 4] = b"TCSM";
/// Magic 4, CRC 4, group 8, volume 4, chunk 4, volume's identity 8, zero 8.
const TABLE_HEADER_BYTES: usize = 40;

/// Counts of tables of checksums since the group was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChecksumStatus {
    /// Chunks that got their tables.
    pub sealed: u64,
    /// Of these, chunks of which nothing had to be read for it.
    pub unread: u64,
    /// Tables that ceased to be right by writes and moves.
    pub broken: u64,
    /// Tables that could not be read, were damaged, or are not where they were written.
    pub lost: u64,
}

/// Owner of a table of checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableName {
    pub(crate) group: u64,
    pub(crate) chunk: ChunkId,
    /// The volume's identity, which no other volume of the group ever has.
    pub(crate) volume: u64,
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
    /// Of chunks whose tables are right.
    tables: SumStore,
    /// Of others.
    known: SumStore,
    loads: Slab<Load>,
    loading: BTreeMap<ChunkId, u32>,
    /// Chunks whose tables are lost, until the journal knows that they have none.
    tableless: BTreeSet<ChunkId>,
    /// Chunks without a table, longest quiet first.
    watched: VecDeque<Watched>,
    status: ChecksumStatus,
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

    /// A write begins; so many parts have been begun.
    pub(crate) fn write_begins(&mut self, chunk: ChunkId, range: &Range<u32>, begun: u64) {
        if let Some(sums) = self.known.sums_of_mut(chunk) {
            sums.forget(range, begun);
        }
    }

    /// A write succeeded on all copies; so many parts have been begun.
    pub(crate) fn written(&mut self, chunk: ChunkId, at: u32, payload: &Payload, begun: u64) {
        if let Some(sums) = self.known.sums_of_mut(chunk) {
            sums.written(at, payload, begun);
        }
    }

    /// An operation copied blocks from byte `at` on, and nobody wrote to them meanwhile; so many
    /// parts have been begun.
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

/// A table as stored, and the checksum of it.
pub(crate) fn encode_table(name: TableName, sums: &[u32], chunk_size: u32) -> (Payload, u32) {
    let mut bytes = Vec::with_capacity(seal_bytes(chunk_size) as usize);
    bytes.extend_from_slice(TABLE_MAGIC);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&name.group.to_le_bytes());
    bytes.extend_from_slice(&name.chunk.volume.0.to_le_bytes());
    bytes.extend_from_slice(&name.chunk.index.to_le_bytes());
    bytes.extend_from_slice(&name.volume.to_le_bytes());
    bytes.resize(TABLE_HEADER_BYTES, 0);
    bytes.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
    bytes.resize(seal_bytes(chunk_size) as usize, 0);
    let crc = crc32c::crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    (Payload::from(bytes), crc)
}

/// The sums in a stored table; `None` when it is damaged or not the one that the journal means.
pub(crate) fn decode_table(
    name: TableName,
    table: Table,
    bytes: &[u8],
    chunk_size: u32,
) -> Option<Box<[u32]>> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let blocks = (chunk_size / BLOCK) as usize;
    match table {
        Table::None => None,
        Table::Plain => {
            let whole = word(0)? == crc32c::crc32c(bytes.get(4..)?);
            let own = word(4)? == name.chunk.index;
            let sums = (0..blocks).map(|block| word(8 + 4 * block)).collect::<Option<_>>();
            sums.filter(|_| whole && own)
        }
        Table::Summed(sum) => {
            let sums = (0..blocks).map(|block| word(TABLE_HEADER_BYTES + 4 * block));
            let sums: Vec<u32> = sums.collect::<Option<_>>()?;
            let (again, _) = encode_table(name, &sums, chunk_size);
            let whole = word(4)? == sum && crc32c::crc32c(bytes.get(8..)?) == sum;
            (whole && again.to_vec() == bytes).then(|| sums.into_boxed_slice())
        }
    }
}

impl Group {
    /// Counts of tables of checksums since the group was opened.
    pub fn checksum_status(&self) -> ChecksumStatus {
        self.checksums.status
    }

    /// Blocks of contents that stand at byte `at` of a chunk and are not what was written; what a
    /// part of this number read while somebody wrote is not judged.
    pub(crate) fn wrong_blocks(&self, chunk: ChunkId, at: u32, found: &Payload, order: u64) -> u32 {
        let first = found.slice(0..found.len().min(BLOCK));
        let found = if mutant("first_block_verified_only") { &first } else { found };
        let sums = self.checksums.sums(chunk).filter(|sums| sums.verifies(order));
        sums.map_or(0, |sums| sums.differing(at, found))
    }

    /// True if a read of `range` can be verified, and so is to be made by whole blocks.
    pub(crate) fn can_verify(&self, chunk: ChunkId, range: &Range<u32>) -> bool {
        self.checksums.sums(chunk).is_some_and(|sums| sums.of(range).is_some())
    }

    /// Owner of a chunk's table.
    pub(crate) fn table_name(&self, chunk: ChunkId) -> TableName {
        let volume = self.map.volume(chunk.volume).map_or(0, |volume| volume.identity);
        TableName { group: self.journal.identity(), chunk, volume }
    }

    pub(crate) fn seal_address(&self, place: Place) -> Bytes {
        self.pools[place.pool].tables.offset(place.slot)
    }

    /// True if a chunk's checksums are in memory, where it has any; fetches them if not. Writes
    /// wait for them too: what they leave of the chunk stays known.
    pub(crate) fn seal_is_at_hand(&mut self, now: Nanos, chunk: ChunkId) -> bool {
        if self.checksums.loading.contains_key(&chunk) {
            return false;
        }
        let table = self.map.entry(chunk).table();
        let known = self.checksums.tables.has(chunk) || self.checksums.tableless.contains(&chunk);
        if table == Table::None || known {
            return true;
        }
        if !self.table_places(chunk).any(|place| self.pools[place.pool].is_alive()) {
            return true; // There is nothing to be read.
        }
        let load = self.checksums.loads.insert(Load { chunk, table, tried: 0 });
        self.checksums.loading.insert(chunk, load);
        self.load_seal(now, load);
        !self.checksums.loading.contains_key(&chunk)
    }

    /// Reads the table at the next copy, or gives it up.
    fn load_seal(&mut self, now: Nanos, load: u32) {
        let Load { chunk, tried, .. } = self.checksums.loads[load];
        let able =
            |place: &Place| tried & bit(place.pool) == 0 && self.pools[place.pool].is_alive();
        let untried = self.table_places(chunk).find(able);
        match untried {
            Some(place) => {
                self.checksums.loads[load].tried |= bit(place.pool);
                let offset = self.seal_address(place);
                let io = Io::Read { offset, length: seal_bytes(self.pools.chunk_bytes()) as u32 };
                self.send(now, place.pool, Owner::SealRead { load }, io);
            }
            None => {
                self.checksums.end_load(load);
                self.checksums.status.lost += 1;
                self.findings.note(
                    FindingKind::ChecksumsLost,
                    (chunk, self.pools.chunk_bytes()),
                    &(0..self.pools.chunk_bytes()),
                    None,
                );
                // Reads go on unverified; writes wait until the journal knows of it.
                self.checksums.tableless.insert(chunk);
                self.announce_writes(chunk);
            }
        }
    }

    /// A table was read, or could not be.
    pub(crate) fn seal_read(
        &mut self,
        now: Nanos,
        load: u32,
        result: Result<Payload, DeviceError>,
    ) {
        let Load { chunk, table, tried } = self.checksums.loads[load];
        if !self.map.has(chunk) || self.map.entry(chunk).first().is_none() {
            self.checksums.end_load(load);
        } else {
            let bytes = result.map(|payload| payload.to_vec()).unwrap_or_default();
            match decode_table(self.table_name(chunk), table, &bytes, self.pools.chunk_bytes()) {
                Some(sums) => {
                    self.checksums.end_load(load);
                    // No write has begun since: they wait for this.
                    let sealed = self.map.entry(chunk).is_sealed();
                    let BlockChecksums { tables, known, .. } = &mut self.checksums;
                    let store = if sealed { tables } else { known };
                    let (most, map) = (self.settings.limits.seals_cached, &self.map);
                    store.put(chunk, Sums::of_all(sums), most, |other| map.is_busy(other));
                    if tried.count_ones() > 1 {
                        self.mend(chunk);
                    }
                }
                None if self.map.entry(chunk).is_sealed() => {
                    if mutant("seal_sought_once") {
                        self.checksums.loads[load].tried = u64::MAX;
                    }
                    self.load_seal(now, load);
                }
                None => self.checksums.end_load(load),
            }
        }
        if self.map.has(chunk) && self.map.entry(chunk).traffic != NONE {
            self.traffic_eased(now, chunk);
        }
    }

    /// The journal knows that the tables count no more. What they said stays known: contents change
    /// by writes only, and those say so.
    pub(crate) fn break_seal(&mut self, now: Nanos, chunk: ChunkId) {
        if !self.keeps_checksums() {
            return;
        }
        self.checksums.tableless.remove(&chunk);
        if self.map.entry(chunk).is_sealed() {
            self.map.entry_mut(chunk).set_table(Table::None);
            self.checksums.status.broken += 1;
            if let Some(sums) = self.checksums.tables.take(chunk) {
                let (most, map) = (self.settings.limits.seals_cached, &self.map);
                self.checksums.known.put(chunk, sums, most, |other| map.is_busy(other));
            }
        }
        self.watch(now, chunk);
    }

    /// Notes a chunk that may get its tables when it has been quiet.
    pub(crate) fn watch(&mut self, now: Nanos, chunk: ChunkId) {
        let keeps = self.keeps_checksums();
        let entry = self.map.entry_mut(chunk);
        if keeps && !entry.is_sealed() && !entry.set_watched(true) {
            self.checksums.watched.push_back(Watched { chunk, since: now, looked_at: false });
        }
    }

    /// Hands chunks that were not written for a while to the scrub, which makes their tables.
    pub(crate) fn seal_quiet_chunks(&mut self, now: Nanos) {
        if !self.keeps_checksums() {
            return;
        }
        for _ in 0..WATCHED_PER_ROUND {
            let Some(&Watched { chunk, since, looked_at }) = self.checksums.watched.front() else {
                break;
            };
            if now.saturating_sub(since) < QUIET && looked_at {
                break;
            }
            self.checksums.watched.pop_front();
            if !self.map.has(chunk) {
                continue;
            }
            let entry = self.map.entry_mut(chunk);
            entry.set_watched(false);
            let quiet = !entry.take_written() && entry.traffic == NONE && looked_at;
            if entry.first().is_none() || entry.is_sealed() {
                continue;
            }
            if !quiet {
                entry.set_watched(true);
                self.checksums.watched.push_back(Watched { chunk, since: now, looked_at: true });
            } else if self.can_have_tables(chunk) {
                self.scrub.request_tables(chunk);
            }
        }
    }

    /// True if some pool has tables of checksums: sums are made and verified then.
    pub(crate) fn keeps_checksums(&self) -> bool {
        self.pools.iter().any(|pool| pool.checksums && pool.state != PoolState::Removed)
    }

    /// The copies of a chunk that have room for a table.
    pub(crate) fn table_places(&self, chunk: ChunkId) -> impl Iterator<Item = Place> + '_ {
        let places = self.map.copies(chunk).map(|copy| copy.place);
        let anywhere = mutant("table_where_there_is_no_room");
        places.filter(move |place| self.pools[place.pool].checksums || anywhere)
    }

    /// True if a table of the chunk has room at one of its copies, and all of them are here.
    pub(crate) fn can_have_tables(&self, chunk: ChunkId) -> bool {
        let far = self.map.copies(chunk).any(|copy| self.pools[copy.place.pool].is_far());
        !far && self.table_places(chunk).next().is_some()
    }

    /// Copies of a chunk are gone: where none of those that stay has room for a table, there is no
    /// table any more. What it said stays known.
    pub(crate) fn drop_orphaned_table(&mut self, chunk: ChunkId, state: &mut ChunkState) {
        let has_room = |copy: &ChunkCopy| self.pools[copy.place.pool].checksums;
        let orphaned = state.table != Table::None && !state.copies.iter().any(has_room);
        if orphaned && !mutant("table_outlives_its_copies") {
            met("table of checksums went with its last copy");
            state.table = Table::None;
            self.break_seal(self.now, chunk);
        }
    }

    /// Writes a chunk's tables, to be told of as the scrub's; how many, and their checksum.
    pub(crate) fn write_seals(&mut self, now: Nanos, chunk: ChunkId, sums: &[u32]) -> (u32, u32) {
        let (payload, sum) = encode_table(self.table_name(chunk), sums, self.pools.chunk_bytes());
        let places: Vec<Place> = self.table_places(chunk).collect();
        assert!(!places.is_empty(), "a chunk without room for a table gets none");
        let bare = places.len() < self.map.copies(chunk).count();
        met_if(bare, "table written beside a bare copy");
        if bare && mutant("no_table_beside_a_bare_copy") {
            return (0, sum);
        }
        for &place in &places {
            self.write_table(now, place, payload.clone());
        }
        (places.len() as u32, sum)
    }

    pub(crate) fn write_table(&mut self, now: Nanos, place: Place, data: Payload) {
        let offset = self.seal_address(place);
        self.send(now, place.pool, Owner::SealWrite, Io::Write { offset, data, fua: false });
    }

    /// The tables are written, and nobody wrote to the chunk meanwhile.
    pub(crate) fn seal(&mut self, chunk: ChunkId, sums: &[u32], table: u32, unread: bool) {
        self.map.entry_mut(chunk).set_table(Table::Summed(table));
        let known = self.checksums.known.take(chunk).filter(|known| known.whole() == Some(sums));
        let mut all = known.unwrap_or_else(|| Sums::of_all(sums.into()));
        all.rest();
        let (most, map) = (self.settings.limits.seals_cached, &self.map);
        self.checksums.tables.put(chunk, all, most, |other| map.is_busy(other));
        self.checksums.status.sealed += 1;
        self.checksums.status.unread += u64::from(unread);
        if self.regions.has(self.region_of(chunk)) {
            met("table without a record");
            return self.map.entry_mut(chunk).set_unsaid(true);
        }
        let state = self.durable_state(chunk);
        self.journal.change(&Record::Chunk(chunk, state), chunk, &[]);
    }

    fn region_of(&self, chunk: ChunkId) -> Region {
        Regions::of(chunk, self.pools.chunk_bytes(), self.settings.limits.region_chunks)
    }

    fn chunks_of(&self, region: Region) -> impl Iterator<Item = ChunkId> + use<> {
        let volume = self.map.volume(region.volume());
        region.chunks(volume.map_or(0, |volume| volume.entries.len() as u32))
    }

    /// Opens the region of a chunk whose writes are being announced, for the other chunks in it,
    /// and regions ahead of it.
    pub(crate) fn open_regions(&mut self, now: Nanos, chunk: ChunkId) {
        let region = self.region_of(chunk);
        let ahead = self.regions.ahead_of(region);
        self.open_region(now, region, Some(chunk));
        for region in ahead {
            if !self.records_pile_up() && self.chunks_of(region).next().is_some() {
                met("region opened ahead");
                self.open_region(now, region, None);
            }
        }
    }

    /// Opens a region for all its chunks but the one whose writes have been announced.
    fn open_region(&mut self, now: Nanos, region: Region, announced: Option<ChunkId>) {
        if !self.regions.begin(region, now, self.settings.limits.regions_open) {
            return;
        }
        for other in self.chunks_of(region) {
            let has_table = Some(other) != announced && self.map.entry(other).is_sealed();
            if has_table && !self.records_pile_up() {
                met("region opened for more than one chunk");
                self.map.entry_mut(other).set_unsaid(true);
                if !mutant("region_opened_for_one_chunk") {
                    self.announce_only(other);
                }
            }
        }
        self.journal.join(Waiter::Region(region));
    }

    /// Lets writes go on that waited for a region: its commit is durable. Another commit follows
    /// soon, so that damage to this one is not taken for the journal's end.
    pub(crate) fn region_opened(&mut self, now: Nanos, region: Region) {
        let mut chunks = self.chunks_of(region);
        let chunk = chunks.find(|&chunk| self.map.entry(chunk).first().is_some());
        if let Some(chunk) = chunk.filter(|_| !self.records_pile_up()) {
            self.announce_only(chunk);
        }
        for chunk in self.regions.opened(region) {
            if self.map.is_busy(chunk) {
                self.traffic_eased(now, chunk);
            }
        }
    }

    /// True if a write to the chunk must wait until its region is open; it is told then.
    pub(crate) fn waits_for_region(&mut self, chunk: ChunkId) -> bool {
        if !self.map.entry(chunk).is_unsaid() || mutant("written_before_its_region_is_open") {
            return false;
        }
        let waits = self.regions.awaits(self.region_of(chunk), chunk);
        met_if(waits, "write waited for its region");
        waits
    }

    /// Makes the table of a chunk in an open region count no more: a write begins.
    pub(crate) fn take_table(&mut self, now: Nanos, chunk: ChunkId) {
        if self.map.entry(chunk).is_unsaid() {
            met("write without an announcement of its own");
            self.break_seal(now, chunk);
        }
    }

    /// Closes regions in which nobody has written for a while.
    pub(crate) fn close_quiet_regions(&mut self, now: Nanos) {
        for _ in 0..LOOKS_PER_ROUND {
            let Some(region) = self.regions.due(now) else { return };
            let mut written = false;
            for chunk in self.chunks_of(region) {
                written |= self.map.entry_mut(chunk).take_region_written();
            }
            if !written && !self.close_region(region) {
                return; // It comes again when there is room for its records.
            }
            self.regions.looked_at(region, now, !written);
        }
    }

    /// Closes regions as far as there is room for their records: the group closes.
    pub(crate) fn close_regions(&mut self) {
        while let Some(region) = self.regions.first() {
            if !self.close_region(region) {
                return;
            }
            self.regions.looked_at(region, self.now, true);
        }
    }

    /// Tells the journal which tables of the region are right; false while it is being opened, or
    /// the journal has no room.
    fn close_region(&mut self, region: Region) -> bool {
        if !self.regions.may_close(region) {
            return false;
        }
        for chunk in self.chunks_of(region) {
            if !self.map.entry(chunk).is_unsaid() {
                continue;
            }
            if self.records_half_pile_up() {
                met("region closed in parts");
                self.want_commit_of_changes();
                return false;
            }
            self.map.entry_mut(chunk).set_unsaid(false);
            let state = self.durable_state(chunk);
            self.journal.change(&Record::Chunk(chunk, state), chunk, &[]);
        }
        met("region closed");
        true
    }
}

#[cfg(test)]
mod tests;
