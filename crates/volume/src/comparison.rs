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

use crate::block_checksums::{decode_table, encode_table};
use crate::finding::FindingKind;
use crate::group::Group;
use crate::map::{Place, Table};
use crate::pools::flight::Owner;
use crate::settings::BLOCK;
use crate::sums::checksums;
use std::ops::Range;
use thermocline_policy::migration::Held;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::{ChunkId, Nanos};

/// Bytes read at a time from copies across a network.
const FAR_PIECE: u32 = 8 << 20;

/// Purpose of a look at a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It has come to rest, and gets tables of checksums.
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
    Sealing,
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
    seal_failed: bool,
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

impl Group {
    /// The chunk's comparison; none when its copies are not all of it.
    pub(crate) fn comparison_of(&self, chunk: ChunkId, purpose: Purpose) -> Option<Comparison> {
        if !self.is_whole(chunk) {
            return None;
        }
        let places: Vec<Place> = self.map.copies(chunk).map(|copy| copy.place).collect();
        let lives = places.iter().all(|place| self.pools[place.pool].is_alive());
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
            seal_failed: false,
            table: 0,
            held_since: None,
        })
    }

    fn comparison(&mut self) -> &mut Comparison {
        self.scrub.current.as_mut().expect("a chunk is being compared")
    }

    /// Takes the next step; false when something holds it back.
    pub(crate) fn compare_on(&mut self, now: Nanos) -> bool {
        let current = self.scrub.current.as_ref().expect("a chunk is being compared");
        let (chunk, read) = (current.chunk, current.range.end == self.pools.chunk_bytes());
        if !self.still_there(chunk, &current.places) {
            self.end_comparison(now, false);
            return true;
        }
        match current.stage {
            Stage::Reading if read => self.data_compared(now),
            Stage::Reading => self.compare_piece(now),
            Stage::Repairing => unreachable!("its writes are on devices"),
            Stage::Tables => {
                self.judge_tables(now);
                true
            }
            Stage::Restoring | Stage::Sealing => {
                self.end_comparison(now, true);
                true
            }
        }
    }

    /// Sends the reads of the next piece; false when something holds them back.
    fn compare_piece(&mut self, now: Nanos) -> bool {
        let current = self.scrub.current.as_ref().expect("a chunk is being compared");
        let (chunk, start, purpose) = (current.chunk, current.range.end, current.purpose);
        let held_since = current.held_since;
        if !self.seal_is_at_hand(now, chunk) {
            return false; // Its arrival leads back here.
        }
        let current = self.scrub.current.as_ref().expect("a chunk is being compared");
        let pools: Vec<_> = current.places.iter().map(|place| place.pool).collect();
        let far = pools.iter().any(|&pool| self.pools[pool].is_far());
        let piece = (self.settings.copying.piece.0 as u32).max(if far { FAR_PIECE } else { 0 });
        let range = start..start + piece.min(self.pools.chunk_bytes() - start);
        if self.writes_under_way(chunk, &range) {
            return false; // The write's end leads back here.
        }
        let known =
            self.checksums.sums(chunk).and_then(|sums| sums.of(&range)).map(<[u32]>::to_vec);
        if let Some(known) = known.filter(|_| purpose == Purpose::Tables) {
            let current = self.comparison();
            current.sums.extend(known);
            current.range = range;
            return true;
        }
        let held = self.hold_back(now, &pools, range.end - range.start, held_since);
        let current = self.comparison();
        current.held_since = held.since();
        if held != Held::Free {
            return false;
        }
        current.range = range.clone();
        current.spoiled = false;
        current.reads = true;
        self.read_all(now, |group, place| {
            let offset =
                group.pools[place.pool].address(place, range.start, group.pools.chunk_bytes());
            Some(Io::Read { offset, length: range.end - range.start })
        });
        true
    }

    /// Sends a read to every copy that has something to be read.
    fn read_all(&mut self, now: Nanos, read: impl Fn(&Group, Place) -> Option<Io>) {
        let places = self.comparison().places.clone();
        let reads: Vec<Option<Io>> = places.iter().map(|&place| read(self, place)).collect();
        let current = self.comparison();
        current.found = vec![None; places.len()];
        current.outstanding = reads.iter().flatten().count() as u32;
        for (index, (place, io)) in places.into_iter().zip(reads).enumerate() {
            let Some(io) = io else { continue };
            self.send(now, place.pool, Owner::Scrub { copy: index as u8 }, io);
        }
    }

    /// The chunk's contents were looked at from end to end: its tables are next.
    fn data_compared(&mut self, now: Nanos) -> bool {
        let current = self.scrub.current.as_ref().expect("a chunk is being compared");
        let (chunk, purpose) = (current.chunk, current.purpose);
        let touched = current.touched && !mutant("sealed_though_written");
        let pools: Vec<_> = current.places.iter().map(|place| place.pool).collect();
        let checks = matches!(self.map.entry(chunk).table(), Table::Summed(_))
            && self.checksums.sums(chunk).is_some();
        // One that is still being watched gets its tables when it has rested.
        let rests = purpose == Purpose::Tables || !self.map.entry(chunk).is_watched();
        let seals = !touched && rests && self.may_get_tables(chunk);
        if !checks && !seals {
            self.end_comparison(now, true);
            return true;
        }
        let bytes = crate::layout::seal_bytes(self.pools.chunk_bytes()) as u32;
        let held = self.hold_back(now, &pools, bytes, current.held_since);
        self.comparison().held_since = held.since();
        if held != Held::Free {
            return false;
        }
        if seals {
            let sums = std::mem::take(&mut self.comparison().sums);
            let (outstanding, table) = self.write_seals(now, chunk, &sums);
            let current = self.comparison();
            (current.stage, current.outstanding) = (Stage::Sealing, outstanding);
            (current.sums, current.table) = (sums, table);
        } else {
            self.comparison().stage = Stage::Tables;
            self.read_all(now, |group, place| {
                let offset = group.seal_address(place);
                group.pools[place.pool].checksums.then_some(Io::Read { offset, length: bytes })
            });
        }
        true
    }

    /// The tables were read: those that are not as the journal means are written again.
    fn judge_tables(&mut self, now: Nanos) {
        let current = self.comparison();
        let (chunk, places) = (current.chunk, current.places.clone());
        let found = std::mem::take(&mut current.found);
        let table = self.map.entry(chunk).table();
        let name = self.table_name(chunk);
        let sums = self.checksums.sums(chunk).and_then(|sums| sums.whole()).map(<[u32]>::to_vec);
        let expected = sums.map(|sums| encode_table(name, &sums, self.pools.chunk_bytes()));
        let Some((right, _)) = expected.filter(|(_, sum)| table == Table::Summed(*sum)) else {
            return self.end_comparison(now, true); // A write has begun.
        };
        let mut outstanding = 0;
        for (&place, found) in places.iter().zip(found) {
            let Some(found) = found else { continue }; // It has no room for one.
            let bytes = found.map(|bytes| bytes.to_vec()).unwrap_or_default();
            if decode_table(name, table, &bytes, self.pools.chunk_bytes()).is_none() {
                self.write_table(now, place, right.clone());
                self.scrub.status.tables_repaired += 1;
                outstanding += 1;
            }
        }
        let current = self.comparison();
        (current.stage, current.outstanding) = (Stage::Restoring, outstanding);
    }

    /// The chunk was looked at from end to end, or has moved.
    fn end_comparison(&mut self, now: Nanos, whole: bool) {
        let current = self.scrub.current.take().expect("a chunk is being compared");
        let chunk = current.chunk;
        let sealing = current.stage == Stage::Sealing;
        self.scrub.status.chunks += u64::from(whole && current.reads);
        if whole && current.damaged {
            self.scrub.note_damaged(chunk);
        } else if whole && !current.touched {
            self.scrub.note_well(chunk);
        }
        let touched = current.touched && !mutant("sealed_though_written");
        let seals = whole && sealing && !touched && !current.seal_failed;
        if seals && self.may_get_tables(chunk) {
            self.seal(chunk, &current.sums, current.table, !current.reads);
        } else if self.map.has(chunk) && !(whole && current.damaged) {
            self.watch(now, chunk);
        }
        if !whole && current.purpose != Purpose::Tables {
            self.mend(chunk); // It comes again when it is whole.
        }
    }

    /// A table of the chunk under comparison was written, or could not be.
    pub(crate) fn seal_written(&mut self, written: bool) {
        let current = self.comparison();
        assert!(current.outstanding > 0, "each request of a comparison is answered once");
        current.outstanding -= 1;
        current.seal_failed |= !written;
    }

    fn still_there(&self, chunk: ChunkId, places: &[Place]) -> bool {
        self.is_whole(chunk)
            && self.map.copies(chunk).map(|copy| copy.place).eq(places.iter().copied())
            && places.iter().all(|place| self.pools[place.pool].is_alive())
    }

    /// True if the chunk's copies hold all of it: no operation is under way, nothing redirected.
    fn is_whole(&self, chunk: ChunkId) -> bool {
        self.map.has(chunk)
            && self.operation_on(chunk).is_none()
            && self.map.overlay(chunk).is_none()
    }

    /// A copy's piece or table was read, or could not be.
    pub(crate) fn scrub_io_done(
        &mut self,
        now: Nanos,
        copy: u8,
        bytes: u32,
        result: Result<Payload, DeviceError>,
    ) {
        self.scrub.status.read.0 += u64::from(bytes);
        let current = self.comparison();
        current.found[usize::from(copy)] = Some(result);
        assert!(current.outstanding > 0, "each request of a comparison is answered once");
        current.outstanding -= 1;
        if current.outstanding > 0 || current.stage != Stage::Reading {
            return;
        }
        let current = self.scrub.current.as_ref().expect("still there");
        if self.still_there(current.chunk, &current.places) {
            self.judge(now);
        }
    }

    /// Says of each block of the piece what is right, and repairs the copies that are not.
    fn judge(&mut self, now: Nanos) {
        let current = self.comparison();
        let found: Vec<_> = std::mem::take(&mut current.found).into_iter().flatten().collect();
        let (chunk, range) = (current.chunk, current.range.clone());
        if std::mem::replace(&mut current.spoiled, false) {
            current.range.end = current.range.start; // Once more.
            return;
        }
        let (places, repaired) = (current.places.clone(), current.repaired);
        let verdict = self.verdict(chunk, &range, &found);
        for (place, &errors) in places.iter().zip(&verdict.errors) {
            self.pools[place.pool].counters.checksum_errors += u64::from(errors);
            self.scrub.status.checksum_errors += u64::from(errors);
        }
        self.scrub.status.unreadable += found.iter().filter(|found| found.is_err()).count() as u64;
        // A copy that was repaired and is wrong again will not be right the next time either.
        let hopeless = verdict.wrong.iter().map(|(copy, ..)| *copy);
        let hopeless: Vec<usize> = hopeless.filter(|copy| repaired >> copy & 1 == 1).collect();
        if let Some(&copy) = hopeless.first() {
            return self.give_up_copy(chunk, copy, &range);
        }
        if !verdict.wrong.is_empty() {
            return self.repair(now, &found, &verdict);
        }
        self.note_verdict(chunk, range.start, &verdict);
    }

    /// Verdict on the copies of a piece.
    fn verdict(
        &self,
        chunk: ChunkId,
        range: &Range<u32>,
        found: &[Result<Payload, DeviceError>],
    ) -> Verdict {
        let hashes: Vec<Option<Vec<u32>>> =
            found.iter().map(|found| found.as_ref().ok().map(checksums)).collect();
        let known = self.checksums.sums(chunk);
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

    /// Nothing is to be repaired in the piece: tells what could not be, and goes on.
    fn note_verdict(&mut self, chunk: ChunkId, start: u32, verdict: &Verdict) {
        let shifted = |run: &Range<u32>| start + run.start..start + run.end;
        let blocks = |runs: &[Range<u32>]| -> u64 {
            runs.iter().map(|run| u64::from((run.end - run.start) / BLOCK)).sum()
        };
        // What cannot be read at rest is looked at again, and told when somebody wants to read it.
        let resting = self.comparison().purpose == Purpose::Tables;
        let unreadable: &[Range<u32>] = if resting { &[] } else { &verdict.unreadable };
        self.scrub.status.unrepairable += blocks(&verdict.unrepairable) + blocks(unreadable);
        self.scrub.status.undecided += blocks(&verdict.undecided);
        for run in verdict.unrepairable.iter().chain(unreadable) {
            self.findings.note(
                FindingKind::Unrepairable,
                (chunk, self.pools.chunk_bytes()),
                &shifted(run),
                None,
            );
        }
        for run in &verdict.undecided {
            self.findings.note(
                FindingKind::Undecided,
                (chunk, self.pools.chunk_bytes()),
                &shifted(run),
                None,
            );
        }
        let current = self.comparison();
        current.repaired = 0;
        current.damaged |= !verdict.unrepairable.is_empty()
            || !unreadable.is_empty()
            || !verdict.undecided.is_empty();
        // What has no checksum cannot be told from rot later: the chunk gets no table this time.
        let unknown = verdict.sums.contains(&None) && !mutant("sealed_though_unreadable");
        current.touched |= unknown;
        current.sums.extend(verdict.sums.iter().map(|sum| sum.unwrap_or(0)));
    }

    /// Writes copies again where they are wrong; the piece is read once more afterwards.
    fn repair(&mut self, now: Nanos, found: &[Result<Payload, DeviceError>], verdict: &Verdict) {
        let current = self.comparison();
        let (chunk, places, start) = (current.chunk, current.places.clone(), current.range.start);
        current.range.end = start;
        current.stage = Stage::Repairing;
        current.repairs.clear();
        for (copy, run, right) in &verdict.wrong {
            let place = places[*copy];
            let contents = found[*right].as_ref().expect("right contents were read");
            let bytes = start + run.start..start + run.end;
            let offset =
                self.pools[place.pool].address(place, bytes.start, self.pools.chunk_bytes());
            let io = Io::Write { offset, data: contents.slice(run.clone()), fua: false };
            let current = self.comparison();
            let index = current.repairs.len() as u32;
            current.repairs.push((*copy, bytes));
            current.repaired |= 1 << copy;
            current.outstanding += 1;
            self.send(now, place.pool, Owner::Repair { index }, io);
        }
        // Nobody writes to the chunk meanwhile, and no slot of it is given to others.
        let traffic = self.traffic_of(chunk);
        self.traffic[traffic].repairing = true;
        self.map.hold(chunk.volume);
    }

    /// A copy was written again, or could not be.
    pub(crate) fn repair_done(
        &mut self,
        now: Nanos,
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
            self.scrub.status.repaired += u64::from((bytes.end - bytes.start) / BLOCK);
            self.findings.note(
                FindingKind::Repaired,
                (chunk, self.pools.chunk_bytes()),
                &bytes,
                Some(pool),
            );
        } else {
            self.give_up_copy(chunk, copy, &bytes);
        }
        if last {
            self.comparison().stage = Stage::Reading;
            let traffic = self.traffic_of(chunk);
            self.traffic[traffic].repairing = false;
            self.map.let_go(chunk.volume);
            self.traffic_eased(now, chunk);
        }
    }

    /// A copy cannot be repaired in place: it is dropped, and made anew.
    fn give_up_copy(&mut self, chunk: ChunkId, copy: usize, bytes: &Range<u32>) {
        let pool = self.comparison().places[copy].pool;
        self.scrub.status.dropped += 1;
        self.findings.note(
            FindingKind::Dropped,
            (chunk, self.pools.chunk_bytes()),
            bytes,
            Some(pool),
        );
        self.copy_failed(chunk, pool);
    }
}

impl Verdict {
    /// Judges the next block: its sum where one is known, and what each copy has.
    fn add(&mut self, block: u32, expected: Option<u32>, hashes: &[Option<u32>]) {
        let sum = expected.or_else(|| most_common(hashes));
        let right = sum.and_then(|sum| hashes.iter().position(|hash| *hash == Some(sum)));
        let run = block * BLOCK..(block + 1) * BLOCK;
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
