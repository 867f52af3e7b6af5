//! Ledger of what every sector of a volume may hold, so that nothing lost and nothing foreign goes
//! unnoticed.
//!
//! Invariants:
//! - a sector that is written carries the run's seed, its own number and the number of its write,
//!   and what follows from them to its last byte: contents from elsewhere, of another time, or torn
//!   within a sector are recognised;
//! - no two requests that are under way touch the same sector, so that the order of its writes is
//!   known;
//! - after a crash a sector holds what was durable (answered with FUA, or answered before a flush
//!   was sent that was answered), or a write that was sent later. What was read after a crash is
//!   durable: later crashes may not bring back what was there before.
//!
//! 16 bytes a sector, and a bit of bookkeeping. Knows neither sockets nor processes.

use std::ops::Range;

/// Bytes of a sector, the unit that is old or new.
pub(crate) const SECTOR: usize = 512;
const WORDS: usize = SECTOR / 8;

/// A generator of numbers that look random: SplitMix64 (Steele et al. 2014).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Effect of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Written,
    Zeroed,
    /// Zeroes or what was there.
    Discarded,
}

/// Flaw of a sector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Durable contents, or contents just answered, that are not there any more: (sector, wanted,
    /// found).
    Lost(u64, u32, u32),
    /// Contents that were never written there.
    Wrong(u64, String),
}

impl std::fmt::Display for Flaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Flaw::Lost(sector, wanted, found) => {
                write!(f, "sector {sector}: lost: write {wanted} is durable, {found} is there")
            }
            Flaw::Wrong(sector, what) => write!(f, "sector {sector}: wrong: {what}"),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Sector {
    /// The write that clients see; 0: zeroes.
    seen: u32,
    /// The write that is durable.
    durable: u32,
    /// Writes with larger numbers may have replaced it.
    since: u32,
    /// The last write that leaves zeroes, or may.
    zeroed: u32,
}

/// Contents that sectors may have.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    seed: u64,
    sectors: Vec<Sector>,
    busy: Vec<bool>,
    /// Number of the last write.
    writes: u32,
    /// Answered and not yet known to be durable, in the order of answers: range, write, contents.
    answered: Vec<(Range<u64>, u32, u32)>,
    /// Number of `answered` that left it.
    forgotten: usize,
    /// Sectors compared.
    pub(crate) compared: u64,
}

impl Ledger {
    /// A ledger of a volume that reads as zeroes.
    pub(crate) fn new(seed: u64, bytes: u64) -> Ledger {
        let sectors = (bytes / SECTOR as u64) as usize;
        Ledger {
            seed,
            sectors: vec![Sector::default(); sectors],
            busy: vec![false; sectors],
            writes: 0,
            answered: Vec::new(),
            forgotten: 0,
            compared: 0,
        }
    }

    pub(crate) fn sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    /// Takes a range for one request; `false` when another one is under way there.
    pub(crate) fn take(&mut self, range: &Range<u64>) -> bool {
        let busy = &mut self.busy[range.start as usize..range.end as usize];
        let free = busy.iter().all(|busy| !busy);
        if free {
            busy.fill(true);
        }
        free
    }

    pub(crate) fn give_back(&mut self, range: &Range<u64>) {
        self.busy[range.start as usize..range.end as usize].fill(false);
    }

    /// A change is about to be sent: its number.
    pub(crate) fn sent(&mut self, range: &Range<u64>, change: Change) -> u32 {
        self.writes += 1;
        if change != Change::Written {
            for sector in &mut self.sectors[range.start as usize..range.end as usize] {
                sector.zeroed = self.writes;
            }
        }
        self.writes
    }

    /// A change was answered; `forced`: it is durable.
    pub(crate) fn done(&mut self, range: &Range<u64>, write: u32, change: Change, forced: bool) {
        let contents = if change == Change::Zeroed { 0 } else { write };
        if change != Change::Discarded {
            for sector in &mut self.sectors[range.start as usize..range.end as usize] {
                sector.seen = contents;
            }
            if forced {
                self.make_durable(range, write, contents);
            } else {
                self.answered.push((range.clone(), write, contents));
            }
        }
        self.give_back(range);
    }

    fn make_durable(&mut self, range: &Range<u64>, write: u32, contents: u32) {
        for sector in &mut self.sectors[range.start as usize..range.end as usize] {
            if write > sector.since {
                (sector.durable, sector.since) = (contents, write);
            }
        }
    }

    /// A flush is about to be sent: what it covers.
    pub(crate) fn mark(&self) -> usize {
        self.forgotten + self.answered.len()
    }

    /// The flush was answered.
    pub(crate) fn flushed(&mut self, mark: usize) {
        let count = mark.saturating_sub(self.forgotten);
        let durable: Vec<_> = self.answered.drain(..count).collect();
        self.forgotten += count;
        for (range, write, contents) in durable {
            self.make_durable(&range, write, contents);
        }
    }

    /// The contents of a write.
    pub(crate) fn contents(&self, range: &Range<u64>, write: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize * SECTOR);
        for sector in range.clone() {
            for word in stamp(self.seed, sector, write) {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        bytes
    }

    /// Holds what was read while the engine ran against what was answered; the range is taken.
    pub(crate) fn compare(&mut self, range: &Range<u64>, bytes: &[u8]) -> Vec<Flaw> {
        self.compared += range.end - range.start;
        let mut flaws = Vec::new();
        for (at, bytes) in range.clone().zip(bytes.chunks_exact(SECTOR)) {
            let sector = self.sectors[at as usize];
            match self.parse(at, bytes) {
                Err(what) => flaws.push(Flaw::Wrong(at, what)),
                Ok(found) if found == sector.seen => {}
                // A discard after it may have left zeroes.
                Ok(0) if sector.zeroed > sector.seen => {}
                Ok(found) => flaws.push(Flaw::Lost(at, sector.seen, found)),
            }
        }
        flaws
    }

    /// The engine is gone: nothing is under way any more. `durable`: it ended in good order.
    pub(crate) fn ended(&mut self, durable: bool) {
        if durable {
            self.flushed(self.mark());
        }
        self.forgotten += self.answered.len();
        self.answered.clear();
        self.busy.fill(false);
    }

    /// Holds what was read after an end against what may be there; that, and nothing else, is there
    /// from now on.
    pub(crate) fn settle(&mut self, range: &Range<u64>, bytes: &[u8]) -> Vec<Flaw> {
        self.compared += range.end - range.start;
        let mut flaws = Vec::new();
        for (at, bytes) in range.clone().zip(bytes.chunks_exact(SECTOR)) {
            let sector = self.sectors[at as usize];
            let found = match self.parse(at, bytes) {
                Err(what) => {
                    flaws.push(Flaw::Wrong(at, what));
                    continue;
                }
                Ok(found) => found,
            };
            let new = if found == 0 { sector.zeroed } else { found };
            if found != sector.durable && new <= sector.since {
                flaws.push(Flaw::Lost(at, sector.durable, found));
            }
            let (seen, durable, since) = (found, found, self.writes);
            self.sectors[at as usize] = Sector { seen, durable, since, zeroed: sector.zeroed };
        }
        flaws
    }

    /// Number of the write that a sector holds; 0 for zeroes.
    fn parse(&self, sector: u64, bytes: &[u8]) -> Result<u32, String> {
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        }
        if words == [0; WORDS] {
            return Ok(0);
        }
        let write = words[2] as u32;
        if words == stamp(self.seed, sector, write) && write != 0 && write <= self.writes {
            return Ok(write);
        }
        if words[0] == self.seed && words == stamp(self.seed, words[1], write) {
            return Err(format!("holds write {write} of sector {}", words[1]));
        }
        Err(format!("holds what nobody wrote: {:016x} {:016x} …", words[0], words[1]))
    }
}

/// The words of a sector.
fn stamp(seed: u64, sector: u64, write: u32) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    let mut dice = Dice(seed ^ mix(sector ^ (u64::from(write) << 40)));
    words.fill_with(|| dice.next());
    words[..3].copy_from_slice(&[seed, sector, u64::from(write)]);
    words
}

#[cfg(test)]
mod tests;
