//! Queues written as logs: entries in order of arrival, found again by position.
//!
//! A linked list pays for every move with loads and stores at random places. A log appends instead:
//! 1. Every arrival takes the next *position* in a ring of slots, a power of two many. One bit a
//!    slot says "lives"; a whole word of bits is set when the head enters it, so an arrival sets
//!    none.
//! 2. Whatever leaves from the middle only loses its bit. The oldest entry is the next set bit at
//!    or after the lower bound: a scan of 64 entries a step through memory that is read in order.
//! 3. Whoever leaves at the old end costs nothing: an entry is inside while its position has not
//!    fallen below the bound, and positions are never used again, so the index from line to
//!    position need not even be told.
//! 4. When the ring is full of holes, [`Arrivals::pack`] appends every live entry again, in order,
//!    with the index words it will write fetched ahead. The owner states how many slots more than
//!    entries there shall be; with twice as many that is at most one move an arrival, amortised.
//! 5. Positions have 31 bits. Close to their end [`rebase`] subtracts a constant from all of them:
//!    once in a thousand million arrivals.
//!
//! Position 0 means "not here". State: 4 B + 1 bit a slot, 2 bits with marks.

use crate::registry::SettingsError;
use thermocline_units::{LineId, prefetch};

/// Slots in a ring at most; far enough below [`POSITION_END`] that a rebase gains much.
const SLOTS_MAX: u64 = 1 << 29;
/// From this position on a log asks for a [`rebase`].
const REBASE_AT: u32 = 3 << 29;
/// Laps of the ring after which it asks, in unit tests.
const LAPS_IN_TESTS: u32 = 5;
/// Positions are below; the bit above is the owner's.
pub(crate) const POSITION_END: u32 = 1 << 31;
const _: () = assert!(REBASE_AT as u64 + SLOTS_MAX <= POSITION_END as u64, "packing stays below");

/// Number of slots ahead of a scan for which index words are asked.
const AHEAD: usize = 16;

/// Entries in order of arrival, with holes.
#[derive(Debug)]
pub(crate) struct Arrivals {
    lines: Vec<u32>,
    /// Bits below the tail and at or above the head mean nothing.
    live: Vec<u64>,
    /// One bit an entry for its owner, clear on arrival; empty in a log without marks.
    marks: Vec<u64>,
    /// Slots − 1.
    mask: u32,
    /// The position of the next arrival.
    head: u32,
    /// No live entry is below.
    tail: u32,
}

/// Checks that a cache of `lines` lines can have `slack` slots for each of them in one log.
///
/// # Errors
/// When positions would not suffice.
pub(crate) fn check_capacity(policy: &str, lines: u32, slack: f64) -> Result<(), SettingsError> {
    let lines_max = ((SLOTS_MAX - 128) as f64 / slack) as u32;
    if lines <= lines_max {
        return Ok(());
    }
    Err(SettingsError::Capacity { policy: policy.to_string(), lines, lines_max })
}

impl Arrivals {
    /// An empty log in which at most `live` entries live at once, with at least `slack` > 1 times
    /// as many slots.
    pub(crate) fn new(live: u32, slack: f64) -> Arrivals {
        assert!(
            slack > 1.0 && f64::from(live) * slack + 128.0 <= SLOTS_MAX as f64,
            "a ring has at most {SLOTS_MAX} slots"
        );
        let slots = ((f64::from(live) * slack) as usize + 128).next_power_of_two();
        Arrivals {
            lines: vec![0; slots],
            live: vec![0; slots / 64],
            marks: Vec::new(),
            mask: slots as u32 - 1,
            head: slots as u32,
            tail: slots as u32,
        }
    }

    /// The same with a mark an entry.
    pub(crate) fn with_marks(self) -> Arrivals {
        Arrivals { marks: vec![0; self.live.len()], ..self }
    }

    /// The position of the next arrival.
    #[inline(always)]
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    /// No live entry is below.
    #[inline(always)]
    pub(crate) fn tail(&self) -> u32 {
        self.tail
    }

    /// Raises the lower bound: entries below have left.
    #[inline(always)]
    pub(crate) fn raise_tail(&mut self, tail: u32) {
        debug_assert!(self.tail <= tail && tail <= self.head);
        self.tail = tail;
    }

    /// The slot of a position from `tail` to `head`.
    #[inline(always)]
    pub(crate) fn slot(&self, position: u32) -> usize {
        (position & self.mask) as usize
    }

    /// The line at `position`.
    #[inline(always)]
    pub(crate) fn line(&self, position: u32) -> LineId {
        LineId(self.lines[self.slot(position)])
    }

    /// True if the entry at `position`, from `tail` to `head` − 1, still lives.
    #[inline(always)]
    pub(crate) fn lives(&self, position: u32) -> bool {
        let slot = self.slot(position);
        self.live[slot / 64] >> (slot % 64) & 1 == 1
    }

    /// True if the next arrival enters a new word; [`Arrivals::open_word`] comes before it.
    #[inline(always)]
    pub(crate) fn at_word_end(&self) -> bool {
        self.head.is_multiple_of(64)
    }

    /// True if a new word must wait for a pack or a rebase.
    pub(crate) fn is_full(&self) -> bool {
        self.head - self.tail > self.mask - 63 || self.must_rebase()
    }

    /// True if positions are running out.
    pub(crate) fn must_rebase(&self) -> bool {
        self.head >= if cfg!(test) { LAPS_IN_TESTS * (self.mask + 1) } else { REBASE_AT }
    }

    /// Readies the bits of the next 64 arrivals. The log is not full.
    pub(crate) fn open_word(&mut self) {
        let slot = self.slot(self.head);
        self.live[slot / 64] = !0;
        if let Some(marks) = self.marks.get_mut(slot / 64) {
            *marks = 0;
        }
    }

    /// Appends `line`; its position. At a word's end the word has been opened.
    #[inline(always)]
    pub(crate) fn push(&mut self, line: LineId) -> u32 {
        let position = self.head;
        let slot = self.slot(position);
        self.lines[slot] = line.0;
        self.head += 1;
        position
    }

    /// The entry at `position` leaves from wherever it is.
    #[inline(always)]
    pub(crate) fn kill(&mut self, position: u32) {
        let slot = self.slot(position);
        self.live[slot / 64] &= !(1 << (slot % 64));
    }

    /// Marks the entry at `position`.
    #[inline(always)]
    pub(crate) fn mark(&mut self, position: u32) {
        let slot = self.slot(position);
        self.marks[slot / 64] |= 1 << (slot % 64);
    }

    /// True if the entry at `position` is marked.
    #[inline(always)]
    pub(crate) fn is_marked(&self, position: u32) -> bool {
        let slot = self.slot(position);
        self.marks[slot / 64] >> (slot % 64) & 1 == 1
    }

    /// The first live position at or after `from`. There is one.
    #[inline(always)]
    pub(crate) fn first_live(&self, from: u32) -> u32 {
        let slot = self.slot(from);
        let found = self.live[slot / 64] >> (slot % 64);
        if found != 0 {
            return from + found.trailing_zeros();
        }
        self.first_live_after_word(from)
    }

    /// The same where few entries live: looks at 64 positions first, out of two words, because a
    /// scan that looks at the rest of one word only has to go on far more often, unforeseeably for
    /// the processor.
    #[inline(always)]
    pub(crate) fn first_live_of_few(&self, from: u32) -> u32 {
        let slot = self.slot(from);
        let (word, bit) = (slot / 64, slot % 64);
        let following = self.slot(from + 64) / 64;
        let found = self.live[word] >> bit | (self.live[following] << 1) << (63 - bit);
        if found != 0 {
            return from + found.trailing_zeros();
        }
        self.first_live_after_word(from)
    }

    #[inline(always)]
    fn first_live_after_word(&self, from: u32) -> u32 {
        let mut start = from & !63;
        loop {
            start += 64;
            let found = self.live[self.slot(start) / 64];
            if found != 0 {
                return start + found.trailing_zeros();
            }
        }
    }

    /// Live bits of the positions from `from` to below the head, 64 a step.
    fn live_words(&self, from: u32) -> impl Iterator<Item = u64> {
        let first = from & !63;
        (first..self.head).step_by(64).map(move |start| {
            let mut bits = self.live[self.slot(start) / 64];
            if start < from {
                bits &= !0 << (from % 64);
            }
            if self.head - start < 64 {
                bits &= (1 << (self.head % 64)) - 1;
            }
            bits
        })
    }

    /// True if any entry lives at or after `from`.
    pub(crate) fn any_live_from(&self, from: u32) -> bool {
        self.live_words(from).any(|bits| bits != 0)
    }

    /// Number of entries that live at or after `from`.
    pub(crate) fn live_from(&self, from: u32) -> u32 {
        self.live_words(from).map(u64::count_ones).sum()
    }

    /// Finds what [`Arrivals::first_unmarked`] does when it is within the word of `from`, which is
    /// below the head; otherwise nothing, and nothing is cleared.
    #[inline(always)]
    pub(crate) fn first_unmarked_in_word(&mut self, from: u32) -> Option<u32> {
        let slot = self.slot(from);
        let (word, bit) = (slot / 64, slot % 64);
        let found = (self.live[word] & !self.marks[word]) >> bit;
        let position = from + found.trailing_zeros();
        // Bits at or above the head mean nothing: they read as alive.
        if found == 0 || position >= self.head {
            return None;
        }
        let passed = (found & found.wrapping_neg()) - 1;
        self.marks[word] &= !(passed << bit);
        Some(position)
    }

    /// The first position from `from` to below the head that lives and is not marked. Marks passed
    /// on the way are cleared.
    pub(crate) fn first_unmarked(&mut self, from: u32) -> Option<u32> {
        let mut start = from & !63;
        let mut within = !0 << (from % 64);
        while start < self.head {
            let word = self.slot(start) / 64;
            if self.head - start < 64 {
                within &= (1 << (self.head % 64)) - 1;
            }
            let found = self.live[word] & !self.marks[word] & within;
            if found != 0 {
                let below = found & found.wrapping_neg();
                self.marks[word] &= !(within & (below - 1));
                return Some(start + found.trailing_zeros());
            }
            self.marks[word] &= !within;
            within = !0;
            start += 64;
        }
        None
    }

    /// Appends the `count` live entries again, in order and with their marks, so that no hole is
    /// left: they then are at the last `count` positions. Writes each new position, with the bits
    /// `tag`, into `index`.
    ///
    /// In place: what is written never overtakes what is read, and a word's bits are copied out
    /// before anything enters its slots.
    #[cold]
    pub(crate) fn pack(&mut self, count: u32, index: &mut [u32], tag: u32) {
        let mut start = self.tail & !63;
        let (mut bits, mut marks) = self.word_at(start);
        bits &= !0 << (self.tail % 64);
        for _ in 0..count {
            while bits == 0 {
                start += 64;
                (bits, marks) = self.word_at(start);
            }
            let bit = bits.trailing_zeros();
            bits &= bits - 1;
            let slot = self.slot(start + bit);
            prefetch(index, self.lines[(slot + AHEAD) & self.mask as usize] as usize);
            if self.at_word_end() {
                self.open_word();
            }
            let line = LineId(self.lines[slot]);
            let position = self.push(line);
            index[line.index()] = tag | position;
            if marks >> bit & 1 == 1 {
                self.mark(position);
            }
        }
        self.tail = self.head - count;
    }

    /// Live bits and marks of the 64 positions from `start`, a multiple of 64.
    fn word_at(&self, start: u32) -> (u64, u64) {
        let word = self.slot(start) / 64;
        (self.live[word], self.marks.get(word).copied().unwrap_or(0))
    }

    /// Lowers all positions by a multiple of the ring; how much.
    fn lower(&mut self) -> u32 {
        let slots = self.mask + 1;
        let by = (self.head & !self.mask) - slots;
        self.head -= by;
        self.tail -= by;
        by
    }

    /// Asks for the index word of the line some way after `position`.
    #[inline(always)]
    pub(crate) fn prefetch_index(&self, position: u32, index: &[u32]) {
        prefetch(index, self.lines[(self.slot(position) + AHEAD) & self.mask as usize] as usize);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.lines.len() as u64 * 4 + (self.live.len() + self.marks.len()) as u64 * 8
    }
}

/// Lowers the positions of all logs that share `index`, where `logs[0]`'s carry no mark and
/// `logs[1]`'s the bit [`POSITION_END`]. Every log's further bounds go down by what is returned for
/// it. O(distinct lines).
#[cold]
pub(crate) fn rebase(index: &mut [u32], logs: [Option<&mut Arrivals>; 2]) -> [u32; 2] {
    let by = logs.map(|log| log.map_or(0, Arrivals::lower));
    for word in index {
        let by = by[(*word >= POSITION_END) as usize];
        let position = *word % POSITION_END;
        *word = if position < by { 0 } else { *word - by };
    }
    by
}
