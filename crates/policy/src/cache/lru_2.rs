//! LRU-2 (O'Neil, O'Neil & Weikum, SIGMOD 1993): evict the line whose last access but one is
//! longest ago.
//!
//! Time counts accesses. A line has HIST1 and HIST2, the times of its last two uncorrelated
//! accesses, and LAST, that of its last access of any kind.
//! 1. A hit no more than `correlated` accesses after LAST is part of the same use: only LAST moves.
//!    Any other hit shifts: HIST2 := LAST (the paper's HIST1 plus the length of the correlated
//!    period), HIST1 := LAST := now.
//! 2. A miss of a full cache evicts, among lines whose LAST is more than `correlated` ago, that
//!    with the oldest HIST2. Lines without one go first, the least recently used of them foremost.
//!    Where the paper leaves open what to do when every line is too fresh, the one with the oldest
//!    LAST goes.
//! 3. The missed line enters with HIST1 := LAST := now, and HIST2 := its former HIST1 if that is
//!    still remembered. The paper remembers for a Retained Information Period; here the number of
//!    evicted lines remembered is bounded instead (`history`), the one evicted longest ago being
//!    forgotten first, so that memory is known beforehand.
//!
//! With no history and nothing correlated the misses are those of libCacheSim 0.3.5's LRUK, which
//! has neither. On traces whose accesses come in bursts `correlated` decides: on the ARC paper's
//! OLTP with 1,000 pages it lifts the hit ratio from 33 % to 41 % at 500 accesses.
//!
//! Lines that may be evicted are in a binary heap; those too fresh wait in order of their accesses;
//! remembered ones are a list through the fields that only residents need.
//!
//! Times have 32 bits. When they are used up, [`Lru2::renumber`] gives all of them smaller ones in
//! the same order, and with the same distances where those still matter: once in four thousand
//! million accesses.
//!
//! State: 24 B a cached line, 20 B a remembered one (so 44 B a cached line with the default
//! history), and 8 B for each of `correlated` accesses; 4 B a distinct line. O(log lines) an
//! access: the paper's price, too.

use super::{Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, SettingsError};
use std::collections::VecDeque;
use thermocline_units::{LineId, prefetch};

pub(crate) const ENTRY: Entry = Entry {
    name: "lru-2",
    summary: "evicts the line whose last access but one is longest ago",
    source: "O'Neil, O'Neil & Weikum, SIGMOD 1993",
    settings: &[
        Setting {
            name: "correlated",
            default: "0",
            unit: "accesses",
            help: "accesses to a line that follow one another this closely count as one",
        },
        Setting {
            name: "history",
            default: "1",
            unit: "fraction of the cache",
            help: "evicted lines whose last access is remembered",
        },
    ],
    build: Build::Cache(|geometry, settings| {
        let correlated = settings.count("correlated", 0, CORRELATED_MAX)?;
        let history = settings.number("history", 0.0, 8.0)?;
        let lines_max = (f64::from(RECORDS_MAX) / (1.0 + history)) as u32;
        if geometry.lines > lines_max {
            let (policy, lines) = ("lru-2".to_string(), geometry.lines);
            return Err(SettingsError::Capacity { policy, lines, lines_max });
        }
        let history = (f64::from(geometry.lines) * history) as u32;
        Ok(Box::new(Lru2::new(geometry.lines, correlated as u32, history)))
    }),
};

/// Bounds the queue of accesses that are still correlated.
const CORRELATED_MAX: u64 = 100_000_000;
/// Lines resident and remembered at most. Each has three times at most, and renumbering, which
/// makes that many of them small, must gain much.
const RECORDS_MAX: u32 = 1 << 29;
const _: () = assert!(3 * RECORDS_MAX as u64 + CORRELATED_MAX < u32::MAX as u64 / 2);
/// No record, or no place in the heap.
const NONE: u32 = u32::MAX;

/// One resident or remembered line, or a free record. Times start at 1; 0 is "never".
#[derive(Debug, Clone, Copy)]
struct Record {
    /// 0 unless the line is resident.
    last: u32,
    hist1: u32,
    /// The last access but one; of a remembered line: the record of the one evicted after it, or
    /// [`NONE`].
    hist2_or_newer: u32,
    line: LineId,
    /// Place of a resident in the heap, or [`NONE`]; of a remembered line: the record of the one
    /// evicted before it, or [`NONE`]; of a free record: the next free one.
    heap_at_or_older: u32,
}

/// The ends of the list of remembered lines.
#[derive(Debug, Clone, Copy)]
struct History {
    oldest: u32,
    newest: u32,
    len: u32,
    max: u32,
}

/// LRU-2.
#[derive(Debug)]
pub(crate) struct Lru2 {
    /// One more than the record of each line; 0 for none.
    index: Vec<u32>,
    records: Vec<Record>,
    /// The first free record, or [`NONE`].
    free: u32,
    /// Records that may be evicted, least (HIST2, LAST) on top.
    heap: Vec<u32>,
    /// (record, time) of the last `correlated` accesses.
    fresh: VecDeque<(u32, u32)>,
    history: History,
    now: u32,
    resident: u32,
    capacity: u32,
    correlated: u32,
}

impl Lru2 {
    /// An empty cache of `capacity` ≥ 1 lines, which remembers `history_max` more.
    pub(crate) fn new(capacity: u32, correlated: u32, history_max: u32) -> Lru2 {
        assert!(capacity > 0, "a cache holds at least one line");
        assert!(capacity <= RECORDS_MAX - history_max, "more lines than records");
        Lru2 {
            index: Vec::new(),
            records: Vec::new(),
            free: NONE,
            heap: Vec::new(),
            fresh: VecDeque::new(),
            history: History { oldest: NONE, newest: NONE, len: 0, max: history_max },
            now: 0,
            resident: 0,
            capacity,
            correlated,
        }
    }

    /// The last time there is. In unit tests it comes soon.
    fn time_max(&self) -> u32 {
        if cfg!(test) {
            4 * (self.capacity + self.history.max) + 2 * self.correlated + 100
        } else {
            u32::MAX
        }
    }

    /// Lowers all times. Those of accesses that may still be correlated with the next one keep
    /// their distances from now; older ones become 1, 2, 3, … in order, far enough back.
    #[cold]
    fn renumber(&mut self) {
        let base = self.now.saturating_sub(self.correlated + 1);
        let times = self.records.iter().flat_map(|record| record.times());
        let mut old: Vec<u32> = times.filter(|time| (1..=base).contains(time)).collect();
        old.sort_unstable();
        old.dedup();
        let olds = old.len() as u32;
        let lower = |time: &mut u32| {
            if *time > base {
                *time = *time - base + olds;
            } else if *time > 0 {
                *time = old.partition_point(|other| *other <= *time) as u32;
            }
        };
        for record in &mut self.records {
            record.times_mut().into_iter().flatten().for_each(lower);
        }
        self.fresh.iter_mut().for_each(|(_, at)| lower(at));
        lower(&mut self.now);
    }

    /// Lets accesses that are no longer correlated with this one make their lines evictable.
    fn ripen(&mut self) {
        while let Some(&(slot, at)) = self.fresh.front()
            && self.now - at > self.correlated
        {
            self.fresh.pop_front();
            if self.is_latest(slot, at) {
                make_room(&mut self.heap, self.capacity);
                self.heap.push(slot);
                self.rise(self.heap.len() - 1);
            }
        }
    }

    /// True if a record that a line has is a resident's.
    fn is_resident(&self, slot: u32) -> bool {
        self.records[slot as usize].last > 0
    }

    /// True if the record is of a resident line last accessed at `at`, a time.
    fn is_latest(&self, slot: u32, at: u32) -> bool {
        self.records[slot as usize].last == at
    }

    fn hit(&mut self, slot: u32) {
        let record = &mut self.records[slot as usize];
        if self.now - record.last > self.correlated {
            record.hist2_or_newer = record.last;
            record.hist1 = self.now;
        }
        record.last = self.now;
        self.leave_heap(slot);
        self.fresh.push_back((slot, self.now));
    }

    /// Takes the line to evict out of the heap or, when all are fresh, out of their queue.
    fn victim(&mut self) -> u32 {
        if let Some(&slot) = self.heap.first() {
            self.leave_heap(slot);
            return slot;
        }
        loop {
            let (slot, at) = self.fresh.pop_front().expect("a resident line is ripe or fresh");
            if self.is_latest(slot, at) {
                return slot;
            }
        }
    }

    /// Evicts a line and remembers it, at the cost of the one evicted longest ago.
    fn evict(&mut self) -> LineId {
        let slot = self.victim();
        let older = self.history.newest;
        let record = &mut self.records[slot as usize];
        record.last = 0;
        (record.hist2_or_newer, record.heap_at_or_older) = (NONE, older);
        let line = record.line;
        match self.records.get_mut(older as usize) {
            Some(older) => older.hist2_or_newer = slot,
            None => self.history.oldest = slot,
        }
        self.history.newest = slot;
        self.history.len += 1;
        self.resident -= 1;
        if self.history.len > self.history.max {
            let oldest = self.history.oldest;
            self.leave_history(oldest);
            self.release(oldest);
        }
        line
    }

    /// Takes a remembered line's record out of the list.
    fn leave_history(&mut self, slot: u32) {
        let record = self.records[slot as usize];
        let (older, newer) = (record.heap_at_or_older, record.hist2_or_newer);
        match self.records.get_mut(older as usize) {
            Some(older) => older.hist2_or_newer = newer,
            None => self.history.oldest = newer,
        }
        match self.records.get_mut(newer as usize) {
            Some(newer) => newer.heap_at_or_older = older,
            None => self.history.newest = older,
        }
        self.history.len -= 1;
    }

    /// Forgets a record that is in no list.
    fn release(&mut self, slot: u32) {
        let record = &mut self.records[slot as usize];
        self.index[record.line.index()] = 0;
        // With no time, what the queue of fresh accesses still says of it is no longer true.
        (record.last, record.hist1, record.heap_at_or_older) = (0, 0, self.free);
        self.free = slot;
    }

    /// Makes `line` resident in the record it was remembered by, if any.
    fn admit(&mut self, line: LineId, remembered: Option<u32>) {
        let (last, hist1) = (self.now, self.now);
        let mut record = Record { last, hist1, hist2_or_newer: 0, line, heap_at_or_older: NONE };
        let slot = match remembered {
            Some(slot) => {
                record.hist2_or_newer = self.records[slot as usize].hist1;
                slot
            }
            None if self.free != NONE => {
                let slot = self.free;
                self.free = self.records[slot as usize].heap_at_or_older;
                slot
            }
            None => {
                let records_max = self.capacity + self.history.max + 1;
                make_room(&mut self.records, records_max);
                self.records.push(record);
                self.records.len() as u32 - 1
            }
        };
        self.records[slot as usize] = record;
        self.index[line.index()] = slot + 1;
        self.fresh.push_back((slot, self.now));
        self.resident += 1;
    }

    fn key(&self, at: usize) -> (u32, u32) {
        let record = &self.records[self.heap[at] as usize];
        (record.hist2_or_newer, record.last)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.records[self.heap[a] as usize].heap_at_or_older = a as u32;
        self.records[self.heap[b] as usize].heap_at_or_older = b as u32;
    }

    fn rise(&mut self, mut at: usize) {
        self.records[self.heap[at] as usize].heap_at_or_older = at as u32;
        while at > 0 && self.key(at) < self.key((at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let children = (2 * at + 1..self.heap.len()).take(2);
            match children.min_by_key(|c| self.key(*c)) {
                Some(child) if self.key(child) < self.key(at) => {
                    self.swap(at, child);
                    at = child;
                }
                _ => return,
            }
        }
    }

    fn leave_heap(&mut self, slot: u32) {
        let place = &mut self.records[slot as usize].heap_at_or_older;
        let at = std::mem::replace(place, NONE) as usize;
        if at == NONE as usize {
            return;
        }
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            self.rise(at);
            self.sink(at);
        }
    }
}

impl Record {
    /// Its times, 0 where it has none.
    fn times(&self) -> [u32; 3] {
        let hist2 = if self.last > 0 { self.hist2_or_newer } else { 0 };
        [self.last, self.hist1, hist2]
    }

    fn times_mut(&mut self) -> [Option<&mut u32>; 3] {
        let hist2 = (self.last > 0).then_some(&mut self.hist2_or_newer);
        [Some(&mut self.last), Some(&mut self.hist1), hist2]
    }
}

/// Room for one more in `vec`, which never holds more than `len_max`: doubled, but not beyond.
fn make_room<T>(vec: &mut Vec<T>, len_max: u32) {
    let len = vec.len();
    if len == vec.capacity() {
        vec.reserve_exact(len.max(64).min(len_max as usize - len));
    }
}

impl Replacement for Lru2 {
    fn reserve(&mut self, universe: u32) {
        super::grow(&mut self.index, universe);
    }

    fn access(&mut self, line: LineId) -> Outcome {
        if self.now == self.time_max() {
            self.renumber();
        }
        self.now += 1;
        self.ripen();
        let slot = self.index[line.index()].checked_sub(1);
        if let Some(slot) = slot {
            if self.is_resident(slot) {
                self.hit(slot);
                return Outcome::HIT;
            }
            self.leave_history(slot);
        }
        let mut outcome = Outcome::ADMITTED;
        if self.resident == self.capacity {
            outcome = Outcome::evicting(self.evict());
        }
        self.admit(line, slot);
        outcome
    }

    fn contains(&self, line: LineId) -> bool {
        let slot = self.index[line.index()].checked_sub(1);
        slot.is_some_and(|slot| self.is_resident(slot))
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        let resident = self.contains(line);
        if resident {
            let slot = self.index[line.index()] - 1;
            self.leave_heap(slot);
            self.release(slot);
            self.resident -= 1;
        }
        resident
    }

    fn resident(&self) -> u32 {
        self.resident
    }

    fn footprint(&self) -> Footprint {
        let records = self.records.capacity() * size_of::<Record>();
        let fresh = self.fresh.capacity() * size_of::<(u32, u32)>();
        Footprint {
            resident: (records + self.heap.capacity() * size_of::<u32>() + fresh) as u64,
            index: self.index.len() as u64 * 4,
        }
    }

    #[inline]
    fn prefetch_far(&self, line: LineId) {
        prefetch(&self.index, line.index());
    }

    #[inline]
    fn prefetch_near(&self, line: LineId) {
        if let Some(slot) = self.index[line.index()].checked_sub(1) {
            prefetch(&self.records, slot as usize);
        }
    }
}

#[cfg(test)]
mod tests;
