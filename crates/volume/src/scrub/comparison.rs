//! One chunk held against its checksums, and its copies against each other.
//!
//! 1. Piece by piece the same range is read from all copies. For tables alone, pieces whose sums
//!    are known in memory are not read.
//! 2. Block by block: the right contents are those with the block's checksum, in the table or in
//!    memory; without one, those that most copies have. Without a majority nothing is right.
//! 3. A copy that is wrong or unreadable where there is a right one is written again, in place.
//!    Writes of clients to the chunk wait meanwhile, and no slot of it is given to others. Then the
//!    piece is read once more: a copy that is wrong again is dropped, and made anew elsewhere.
//! 4. Where nothing is right, nothing is changed: it is told.
//! 5. At the end: tables that differ from what the journal means are written again; a chunk without
//!    tables gets them, if nobody wrote to it meanwhile.

use super::Scrub;
use crate::below::Below;
use crate::finding::FindingKind;
use crate::format::{decode_table, encode_table};
use crate::group_state::GroupState;
use crate::group_state::effect::Effect;
use crate::map::Table;
use crate::map::block_checksums::BlockChecksums;
use crate::map::block_checksums::table::{can_have_tables, table_name};
use crate::map::copies::copy_failed;
use crate::map::place::Place;
use crate::pools::flight::Owner;
use crate::settings::BLOCK;
use std::ops::Range;
use thermocline_policy::migration::Held;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{ChunkId, Nanos};

/// Purpose of a look at a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A chunk that came to rest and gets tables of checksums.
    Tables,
    /// Somebody read wrong contents.
    Repair,
    /// A scrub came by.
    Scrub,
}

/// Stage of a comparison: requests on devices, or the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Reading,
    Repairing,
    /// Tables are read, to be held against the one that is known.
    Tables,
    /// Tables that were wrong are written again.
    Restoring,
    /// Tables are written for the first time.
    WritingTables,
}

/// A chunk under comparison.
#[derive(Debug)]
pub(crate) struct Comparison {
    chunk: ChunkId,
    purpose: Purpose,
    places: Vec<Place>,
    stage: Stage,
    /// The piece under way.
    range: Range<u32>,
    /// Contents read, in the order of `places`.
    found: Vec<Option<Result<Payload, DeviceError>>>,
    outstanding: u32,
    /// True if a write to the chunk began since the piece was sent for.
    spoiled: bool,
    /// True if a write to the chunk began since the comparison did, or something is unknown.
    touched: bool,
    /// Checksums of the pieces so far.
    sums: Vec<u32>,
    /// True if anything was read.
    reads: bool,
    /// True if something is wrong that cannot be repaired.
    damaged: bool,
    /// Copies that were written again in this piece: one bit each.
    repaired: u64,
    /// Repairs under way: copy, bytes.
    repairs: Vec<(usize, Range<u32>)>,
    /// True if a table could not be written; its checksum.
    table_failed: bool,
    table: u32,
    held_since: Option<Nanos>,
}

/// Verdict on the copies of a piece.
#[derive(Debug, Default)]
struct Verdict {
    /// The sum of each block; none: nothing says what it is.
    sums: Vec<Option<u32>>,
    /// (copy, bytes of the piece, the copy that has them right), runs of blocks.
    wrong: Vec<(usize, Range<u32>, usize)>,
    /// Runs whose sums are known, and that nothing has right.
    unrepairable: Vec<Range<u32>>,
    /// Runs whose sums are not known, and that no copy can be read of.
    unreadable: Vec<Range<u32>>,
    /// Runs in which copies differ and no sum is known.
    undecided: Vec<Range<u32>>,
    /// Blocks with other contents than their sums, by copy.
    errors: Vec<u32>,
}

impl Comparison {
    pub(crate) fn is_of(&self, chunk: ChunkId) -> bool {
        self.chunk == chunk
    }

    pub(crate) fn is_on_devices(&self) -> bool {
        self.outstanding > 0
    }

    /// A write to the chunk begins.
    pub(crate) fn disturb(&mut self) {
        self.spoiled = true;
        self.touched = true;
    }
}

impl Scrub {
    fn comparison(&mut self) -> &mut Comparison {
        self.current.as_mut().expect("a chunk is being compared")
    }

    /// Takes the next step; false when something holds it back.
    pub(crate) fn compare_on(&mut self, below: &mut Below) -> bool {
        let current = self.current.as_ref().expect("a chunk is being compared");
        assert_eq!(current.outstanding, 0, "every copy has answered");
        let (chunk, read) = (current.chunk, current.range.end == below.group.pools.chunk_bytes());
        if !still_there(below.group, chunk, &current.places) {
            self.end_comparison(below, false);
            return true;
        }
        match current.stage {
            Stage::Reading if read => self.data_compared(below),
            Stage::Reading => self.compare_piece(below),
            Stage::Repairing => unreachable!("its writes are on devices"),
            Stage::Tables => {
                self.judge_tables(below);
                true
            }
            Stage::Restoring | Stage::WritingTables => {
                self.end_comparison(below, true);
                true
            }
        }
    }

    /// Sends the reads of the next piece; false when something holds them back.
    fn compare_piece(&mut self, below: &mut Below) -> bool {
        let current = self.current.as_ref().expect("a chunk is being compared");
        let (chunk, start, purpose) = (current.chunk, current.range.end, current.purpose);
        let held_since = current.held_since;
        if !below.has_table_at_hand(chunk) {
            return false; // Its arrival leads back here.
        }
        let current = self.current.as_ref().expect("a chunk is being compared");
        let pools: Vec<_> = current.places.iter().map(|place| place.pool).collect();
        let piece = below.group.pools.piece_among(&below.group.settings.copying, &pools);
        let range = start..start + piece.min(below.group.pools.chunk_bytes() - start);
        assert!(range.start < range.end && range.start % BLOCK == 0, "pieces are whole blocks");
        if below.group.writes_under_way(chunk, &range) {
            return false; // The write's end leads back here.
        }
        let known =
            below.checksums.sums(chunk).and_then(|sums| sums.of(&range)).map(<[u32]>::to_vec);
        if let Some(known) = known.filter(|_| purpose == Purpose::Tables) {
            let current = self.comparison();
            current.sums.extend(known);
            current.range = range;
            return true;
        }
        let held = below.copy_throttle.hold_back(
            below.group,
            below.now,
            &pools,
            range.end - range.start,
            held_since,
        );
        let current = self.comparison();
        current.held_since = held.since();
        if held != Held::Free {
            return false;
        }
        current.range = range.clone();
        current.spoiled = false;
        current.reads = true;
        self.read_all(below, |group, place| {
            let offset =
                group.pools[place.pool].address(place, range.start, group.pools.chunk_bytes());
            Some(Io::Read { offset, length: range.end - range.start })
        });
        true
    }

    /// Sends a read to every copy that has something to be read.
    fn read_all(&mut self, below: &mut Below, read: impl Fn(&GroupState, Place) -> Option<Io>) {
        let places = self.comparison().places.clone();
        let reads: Vec<Option<Io>> = places.iter().map(|&place| read(below.group, place)).collect();
        let current = self.comparison();
        assert_eq!(current.outstanding, 0, "one piece is read at a time");
        current.found = vec![None; places.len()];
        current.outstanding = reads.iter().flatten().count() as u32;
        for (index, (place, io)) in places.into_iter().zip(reads).enumerate() {
            let Some(io) = io else { continue };
            below.group.pools.send(
                below.now,
                place.pool,
                Owner::Scrub { copy: index as u8 },
                io,
                false,
            );
        }
    }

    /// The chunk's contents were looked at from end to end: its tables are next.
    fn data_compared(&mut self, below: &mut Below) -> bool {
        let current = self.current.as_ref().expect("a chunk is being compared");
        let (chunk, purpose) = (current.chunk, current.purpose);
        let touched = current.touched && !mutant("checksums_though_written");
        let pools: Vec<_> = current.places.iter().map(|place| place.pool).collect();
        let checks = matches!(below.group.map.entry(chunk).table(), Table::Summed(_))
            && below.checksums.sums(chunk).is_some();
        // One that is still being watched gets its tables when it has rested.
        let rests = purpose == Purpose::Tables || !below.group.map.entry(chunk).is_watched();
        let gets_tables = !touched && rests && may_get_tables(below.group, chunk);
        if !checks && !gets_tables {
            self.end_comparison(below, true);
            return true;
        }
        let bytes = crate::pools::layout::table_bytes(below.group.pools.chunk_bytes()) as u32;
        let held = below.copy_throttle.hold_back(
            below.group,
            below.now,
            &pools,
            bytes,
            current.held_since,
        );
        self.comparison().held_since = held.since();
        if held != Held::Free {
            return false;
        }
        if gets_tables {
            let sums = std::mem::take(&mut self.comparison().sums);
            let blocks = below.group.pools.chunk_bytes() / BLOCK;
            assert_eq!(sums.len() as u32, blocks, "each block was looked at once");
            let (outstanding, table) =
                below.checksums.write_tables(below.group, below.now, chunk, &sums);
            let current = self.comparison();
            (current.stage, current.outstanding) = (Stage::WritingTables, outstanding);
            (current.sums, current.table) = (sums, table);
        } else {
            self.comparison().stage = Stage::Tables;
            self.read_all(below, |group, place| {
                let offset = group.pools.table_address(place);
                group.pools[place.pool].checksums.then_some(Io::Read { offset, length: bytes })
            });
        }
        true
    }

    /// The tables were read: those that are not as the journal means are written again.
    fn judge_tables(&mut self, below: &mut Below) {
        let current = self.comparison();
        let (chunk, places) = (current.chunk, current.places.clone());
        let found = std::mem::take(&mut current.found);
        assert_eq!(found.len(), places.len(), "each copy has a table, or none");
        let table = below.group.map.entry(chunk).table();
        let name = table_name(below.group, chunk);
        let sums = below.checksums.sums(chunk).and_then(|sums| sums.whole()).map(<[u32]>::to_vec);
        let expected = sums.map(|sums| encode_table(name, &sums, below.group.pools.chunk_bytes()));
        let Some((right, _)) = expected.filter(|(_, sum)| table == Table::Summed(*sum)) else {
            return self.end_comparison(below, true); // A write has begun.
        };
        let mut outstanding = 0;
        for (&place, found) in places.iter().zip(found) {
            let Some(found) = found else { continue }; // It has no room for one.
            let bytes = found.map(|bytes| bytes.to_vec()).unwrap_or_default();
            if decode_table(name, table, &bytes, below.group.pools.chunk_bytes()).is_none() {
                below.checksums.write_table(below.group, below.now, place, right.clone());
                self.counts.tables_repaired += 1;
                outstanding += 1;
            }
        }
        let current = self.comparison();
        (current.stage, current.outstanding) = (Stage::Restoring, outstanding);
    }

    /// The chunk was looked at from end to end, or has moved.
    fn end_comparison(&mut self, below: &mut Below, whole: bool) {
        let current = self.current.take().expect("a chunk is being compared");
        assert_eq!(current.outstanding, 0, "every copy has answered");
        let chunk = current.chunk;
        let writes_tables = current.stage == Stage::WritingTables;
        self.counts.chunks += u64::from(whole && current.reads);
        if whole && current.damaged {
            self.note_damaged(chunk);
        } else if whole && !current.touched {
            self.note_well(chunk);
        }
        let touched = current.touched && !mutant("checksums_though_written");
        let gets_tables = whole && writes_tables && !touched && !current.table_failed;
        if gets_tables && may_get_tables(below.group, chunk) {
            below.checksums.table_is_written(
                below.group,
                chunk,
                &current.sums,
                current.table,
                !current.reads,
            );
        } else if below.group.map.has(chunk) && !(whole && current.damaged) {
            below.checksums.watch(below.group, below.now, chunk);
        }
        if !whole && current.purpose != Purpose::Tables {
            self.mend(chunk, 0); // It comes again when it is whole.
        }
    }

    /// A table of the chunk under comparison was written, or could not be.
    pub(crate) fn table_written(&mut self, written: bool) {
        let current = self.comparison();
        assert!(current.outstanding > 0, "each request of a comparison is answered once");
        current.outstanding -= 1;
        current.table_failed |= !written;
    }

    /// A copy's piece or table was read, or could not be.
    pub(crate) fn scrub_io_done(
        &mut self,
        below: &mut Below,
        copy: u8,
        bytes: u32,
        result: Result<Payload, DeviceError>,
    ) {
        self.counts.read.0 += u64::from(bytes);
        let current = self.comparison();
        current.found[usize::from(copy)] = Some(result);
        assert!(current.outstanding > 0, "each request of a comparison is answered once");
        current.outstanding -= 1;
        if current.outstanding > 0 || current.stage != Stage::Reading {
            return;
        }
        let current = self.current.as_ref().expect("still there");
        if still_there(below.group, current.chunk, &current.places) {
            self.judge(below);
        }
    }

    /// Says of each block of the piece what is right, and repairs the copies that are not.
    fn judge(&mut self, below: &mut Below) {
        let current = self.comparison();
        let found: Vec<_> = std::mem::take(&mut current.found).into_iter().flatten().collect();
        let (chunk, range) = (current.chunk, current.range.clone());
        if std::mem::replace(&mut current.spoiled, false) {
            current.range.end = current.range.start; // Once more.
            return;
        }
        let (places, repaired) = (current.places.clone(), current.repaired);
        assert_eq!(found.len(), places.len(), "every copy was read, or could not be");
        let verdict = verdict(below.checksums, chunk, &range, &found);
        for (place, &errors) in places.iter().zip(&verdict.errors) {
            below.group.pools[place.pool].counters.checksum_errors += u64::from(errors);
            self.counts.checksum_errors += u64::from(errors);
        }
        self.counts.unreadable += found.iter().filter(|found| found.is_err()).count() as u64;
        // A copy that was repaired and is wrong again will not be right the next time either.
        let hopeless = verdict.wrong.iter().map(|(copy, ..)| *copy);
        let hopeless: Vec<usize> = hopeless.filter(|copy| repaired >> copy & 1 == 1).collect();
        if let Some(&copy) = hopeless.first() {
            return self.give_up_copy(below, chunk, copy, &range);
        }
        if !verdict.wrong.is_empty() {
            return self.repair(below, &found, &verdict);
        }
        self.note_verdict(below, chunk, range.start, &verdict);
    }

    /// Nothing is to be repaired in the piece: tells what could not be, and goes on.
    fn note_verdict(&mut self, below: &mut Below, chunk: ChunkId, start: u32, verdict: &Verdict) {
        let shifted = |run: &Range<u32>| start + run.start..start + run.end;
        let blocks = |runs: &[Range<u32>]| -> u64 {
            runs.iter().map(|run| u64::from((run.end - run.start) / BLOCK)).sum()
        };
        // What cannot be read at rest is looked at again, and told when somebody wants to read it.
        let resting = self.comparison().purpose == Purpose::Tables;
        let unreadable: &[Range<u32>] = if resting { &[] } else { &verdict.unreadable };
        self.counts.unrepairable += blocks(&verdict.unrepairable) + blocks(unreadable);
        self.counts.undecided += blocks(&verdict.undecided);
        for run in verdict.unrepairable.iter().chain(unreadable) {
            below.group.findings.note(
                FindingKind::Unrepairable,
                (chunk, below.group.pools.chunk_bytes()),
                &shifted(run),
                None,
            );
        }
        for run in &verdict.undecided {
            below.group.findings.note(
                FindingKind::Undecided,
                (chunk, below.group.pools.chunk_bytes()),
                &shifted(run),
                None,
            );
        }
        let current = self.comparison();
        let judged = verdict.sums.len() as u32 * BLOCK;
        assert_eq!(current.range, start..start + judged, "each block of the piece was judged");
        current.repaired = 0;
        current.damaged |= !verdict.unrepairable.is_empty()
            || !unreadable.is_empty()
            || !verdict.undecided.is_empty();
        // What has no checksum cannot be told from rot later: the chunk gets no table this time.
        let unknown = verdict.sums.contains(&None) && !mutant("checksums_though_unreadable");
        current.touched |= unknown;
        current.sums.extend(verdict.sums.iter().map(|sum| sum.unwrap_or(0)));
    }

    /// Writes copies again where they are wrong; the piece is read once more afterwards.
    fn repair(
        &mut self,
        below: &mut Below,
        found: &[Result<Payload, DeviceError>],
        verdict: &Verdict,
    ) {
        let current = self.comparison();
        let (chunk, places, start) = (current.chunk, current.places.clone(), current.range.start);
        current.range.end = start;
        current.stage = Stage::Repairing;
        current.repairs.clear();
        for (copy, run, right) in &verdict.wrong {
            let place = places[*copy];
            let contents = found[*right].as_ref().expect("right contents were read");
            let bytes = start + run.start..start + run.end;
            let offset = below.group.pools[place.pool].address(
                place,
                bytes.start,
                below.group.pools.chunk_bytes(),
            );
            let io = Io::Write { offset, data: contents.slice(run.clone()), fua: false };
            let current = self.comparison();
            let index = current.repairs.len() as u32;
            current.repairs.push((*copy, bytes));
            current.repaired |= 1 << copy;
            current.outstanding += 1;
            below.group.pools.send(below.now, place.pool, Owner::Repair { index }, io, false);
        }
        // Nobody writes to the chunk meanwhile, and no slot of it is given to others.
        let piece = start..start + verdict.sums.len() as u32 * BLOCK;
        assert!(!below.group.writes_under_way(chunk, &piece), "nobody writes what is mended");
        below.group.busy_chunk_of(chunk).begin_repair();
        forget_lines(below.group, chunk);
        below.group.map.hold(chunk.volume);
    }

    /// A copy was written again, or could not be.
    pub(crate) fn repair_done(
        &mut self,
        below: &mut Below,
        index: u32,
        result: &Result<Payload, DeviceError>,
    ) {
        let current = self.comparison();
        let (copy, bytes) = current.repairs[index as usize].clone();
        let (chunk, pool) = (current.chunk, current.places[copy].pool);
        assert!(current.outstanding > 0, "each request of a comparison is answered once");
        current.outstanding -= 1;
        let last = current.outstanding == 0;
        if result.is_ok() {
            self.counts.repaired += u64::from((bytes.end - bytes.start) / BLOCK);
            below.group.findings.note(
                FindingKind::Repaired,
                (chunk, below.group.pools.chunk_bytes()),
                &bytes,
                Some(pool),
            );
        } else {
            self.give_up_copy(below, chunk, copy, &bytes);
        }
        if last {
            self.comparison().stage = Stage::Reading;
            below.group.busy_chunk_of(chunk).end_repair();
            forget_lines(below.group, chunk);
            below.group.map.let_go(chunk.volume);
            below.group.emit(Effect::Eased(chunk));
        }
    }

    /// A copy cannot be repaired in place: it is dropped, and made anew.
    fn give_up_copy(&mut self, below: &mut Below, chunk: ChunkId, copy: usize, bytes: &Range<u32>) {
        let pool = self.comparison().places[copy].pool;
        self.counts.dropped += 1;
        below.group.findings.note(
            FindingKind::Dropped,
            (chunk, below.group.pools.chunk_bytes()),
            bytes,
            Some(pool),
        );
        let place = self.comparison().places[copy];
        forget_lines(below.group, chunk);
        copy_failed(below.group, below.checksums, chunk, pool);
        let stays: Vec<Place> = below.group.map.copies(chunk).map(|copy| copy.place).collect();
        assert!(stays.len() == 1 || !stays.contains(&place), "it goes, if others stay");
    }
}

/// A copy of a chunk is wrong: lines may have been filled from it, and reads of it that are under
/// way must not fill others.
fn forget_lines(group: &mut GroupState, chunk: ChunkId) {
    assert!(group.map.has(chunk), "what is compared holds something");
    met_if(group.lines.lent() > 0, "wrong copy dropped beside lines");
    group.lines.void(chunk, &(0..group.pools.chunk_bytes()));
    let begun = group.sub_requests_begun;
    // Where nobody is on the chunk, no read is under way.
    if let Some(busy) = group.busy_chunk_mut(chunk) {
        busy.note_write(begun);
    }
}

/// The chunk's comparison; none when its copies are not all of it.
pub(super) fn comparison_of(
    group: &GroupState,
    chunk: ChunkId,
    purpose: Purpose,
) -> Option<Comparison> {
    if !is_whole(group, chunk) {
        return None;
    }
    let places: Vec<Place> = group.map.copies(chunk).map(|copy| copy.place).collect();
    let lives = places.iter().all(|place| group.pools[place.pool].is_alive());
    (lives && !places.is_empty()).then(|| Comparison {
        chunk,
        purpose,
        places,
        stage: Stage::Reading,
        range: 0..0,
        found: Vec::new(),
        outstanding: 0,
        spoiled: false,
        touched: false,
        sums: Vec::new(),
        reads: false,
        damaged: false,
        repaired: 0,
        repairs: Vec::new(),
        table_failed: false,
        table: 0,
        held_since: None,
    })
}

fn still_there(group: &GroupState, chunk: ChunkId, places: &[Place]) -> bool {
    is_whole(group, chunk)
        && group.map.copies(chunk).map(|copy| copy.place).eq(places.iter().copied())
        && places.iter().all(|place| group.pools[place.pool].is_alive())
}

/// True if the chunk's copies hold all of it: no operation is under way, nothing redirected.
fn is_whole(group: &GroupState, chunk: ChunkId) -> bool {
    group.map.has(chunk)
        && group.operation_on(chunk).is_none()
        && group.map.overlay(chunk).is_none()
}

/// True if a chunk may get tables: it has none, nobody is on it, it is here, and there is room.
fn may_get_tables(group: &GroupState, chunk: ChunkId) -> bool {
    let entry = group.map.entry(chunk);
    let idle = !group.map.is_busy(chunk) && !entry.has_checksums();
    idle && can_have_tables(group, chunk)
}

/// Verdict on the copies of a piece.
fn verdict(
    checksums: &BlockChecksums,
    chunk: ChunkId,
    range: &Range<u32>,
    found: &[Result<Payload, DeviceError>],
) -> Verdict {
    let hashes: Vec<Option<Vec<u32>>> =
        found.iter().map(|found| found.as_ref().ok().map(crate::map::sums::checksums)).collect();
    let known = checksums.sums(chunk);
    let mut verdict = Verdict { errors: vec![0; found.len()], ..Verdict::default() };
    for block in 0..(range.end - range.start) / BLOCK {
        let known = known.filter(|_| !mutant("scrub_ignores_checksums"));
        let expected = known.and_then(|sums| sums.of_block(range.start / BLOCK + block));
        let hash = |copy: usize| hashes[copy].as_ref().map(|hashes| hashes[block as usize]);
        let hashes: Vec<Option<u32>> = (0..found.len()).map(hash).collect();
        verdict.add(block, expected, &hashes);
    }
    verdict
}

impl Verdict {
    /// Judges the next block: its sum where one is known, and what each copy has.
    fn add(&mut self, block: u32, expected: Option<u32>, hashes: &[Option<u32>]) {
        let sum = expected.or_else(|| most_common(hashes));
        let right = sum.and_then(|sum| hashes.iter().position(|hash| *hash == Some(sum)));
        let run = block * BLOCK..(block + 1) * BLOCK;
        assert_eq!(self.sums.len(), block as usize, "blocks are judged in their order");
        self.sums.push(sum);
        for (copy, hash) in hashes.iter().enumerate() {
            let mismatch = expected.is_some() && hash.is_some() && *hash != expected;
            self.errors[copy] += u32::from(mismatch);
            if let Some(right) = right.filter(|_| *hash != sum) {
                self.push_wrong(copy, run.clone(), right);
            }
        }
        if right.is_none() {
            let readable = hashes.iter().any(Option::is_some);
            let runs = match (expected, readable) {
                (Some(_), _) => &mut self.unrepairable,
                (None, true) => &mut self.undecided,
                (None, false) => &mut self.unreadable,
            };
            match runs.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => runs.push(run),
            }
        }
    }

    fn push_wrong(&mut self, copy: usize, run: Range<u32>, right: usize) {
        assert_ne!(copy, right, "a copy is mended from another one");
        let same = |(of, last, from): &&mut (usize, Range<u32>, usize)| {
            *of == copy && *from == right && last.end == run.start
        };
        match self.wrong.iter_mut().find(same) {
            Some((_, last, _)) => last.end = run.end,
            None => self.wrong.push((copy, run, right)),
        }
    }
}

/// The contents that more copies have than any others; none when there is a tie.
fn most_common(hashes: &[Option<u32>]) -> Option<u32> {
    let votes = |hash: u32| hashes.iter().filter(|other| **other == Some(hash)).count();
    let best = hashes.iter().flatten().copied().max_by_key(|&hash| votes(hash))?;
    let rivals = hashes.iter().flatten().any(|&hash| hash != best && votes(hash) == votes(best));
    (!rivals).then_some(best)
}

#[cfg(test)]
mod tests;
