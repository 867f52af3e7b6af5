//! Order kept by appending: queues as rings of lines, with one packed word a distinct line.
//!
//! 1. A [`Words`] table holds, for each distinct line, which queue it is in (its *place*), a few
//!    bits that the policy owns, and the position of its entry in that queue.
//! 2. A [`Log`] is one queue: a ring of lines, oldest first. An entry is *live* when the word of
//!    its line says "this queue, this position". Moving a line to the newest end appends a second
//!    entry and leaves the first one *stale*; so does taking a line out of the middle.
//! 3. Stale entries are skipped when they reach the oldest end. A ring that is full of entries is
//!    compacted in place, which visits every entry once; because a ring has room for more entries
//!    than may be live, that costs O(1) amortised an append.
//!
//! Against linked lists: an access writes one word and one entry at the end of a ring, and no
//! neighbours; the words that an eviction reads are known in advance and are prefetched. State: 4 B
//! a distinct line, and 4 B times the room of the ring.
//!
//! A log does not know what its places mean and keeps no order among equal appends but theirs.

use crate::registry::SettingsError;
use thermocline_units::{LineId, prefetch};

/// Number of entries ahead for which a scan asks for the words of coming lines.
const AHEAD: u32 = 12;

/// The share of `capacity` lines that a setting asks for, rounded down as libCacheSim does.
pub(crate) fn share(capacity: u32, fraction: f64) -> u32 {
    (f64::from(capacity) * fraction) as u32
}

/// Checks that logs of `factor` entries a line have positions that fit beside `FLAGS` bits.
pub(crate) fn room_for<const FLAGS: u32>(
    policy: &str,
    capacity: u32,
    factor: f64,
) -> Result<(), SettingsError> {
    // A few entries are added to every log for caches of a handful of lines.
    let lines_max = ((Words::<FLAGS>::ROOM_MAX - 1024) as f64 / factor) as u32;
    if capacity <= lines_max {
        return Ok(());
    }
    Err(SettingsError::Capacity { policy: policy.to_string(), lines: capacity, lines_max })
}

/// One packed word a distinct line: the low `FLAGS` bits belong to the policy, the rest is a
/// position. A word of zero means "nowhere"; policies give place 0 that meaning.
#[derive(Debug, Default)]
pub(crate) struct Words<const FLAGS: u32> {
    words: Vec<u32>,
}

impl<const FLAGS: u32> Words<FLAGS> {
    /// The largest ring whose positions fit beside the flags.
    pub(crate) const ROOM_MAX: u64 = 1 << (32 - FLAGS);
    const FLAG_MASK: u32 = (1 << FLAGS) - 1;

    pub(crate) fn new() -> Words<FLAGS> {
        Words { words: Vec::new() }
    }

    pub(crate) fn reserve(&mut self, universe: u32) {
        super::grow(&mut self.words, universe);
    }

    /// The flags of `line`.
    #[inline]
    pub(crate) fn flags(&self, line: LineId) -> u32 {
        self.words[line.index()] & Self::FLAG_MASK
    }

    /// The position of `line` in the queue that its place names.
    #[inline]
    pub(crate) fn position(&self, line: LineId) -> u32 {
        self.words[line.index()] >> FLAGS
    }

    /// Changes the flags of `line` and keeps its position.
    #[inline]
    pub(crate) fn set_flags(&mut self, line: LineId, flags: u32) {
        let word = &mut self.words[line.index()];
        *word = *word & !Self::FLAG_MASK | flags;
    }

    /// `line` is nowhere.
    #[inline]
    pub(crate) fn clear(&mut self, line: LineId) {
        self.words[line.index()] = 0;
    }

    #[inline]
    fn set(&mut self, line: LineId, flags: u32, position: u32) {
        self.words[line.index()] = position << FLAGS | flags;
    }

    #[inline]
    pub(crate) fn prefetch(&self, line: LineId) {
        prefetch(&self.words, line.index());
    }

    /// Bytes that grow with the distinct lines.
    pub(crate) fn bytes(&self) -> u64 {
        self.words.len() as u64 * 4
    }
}

/// One queue, oldest entry first.
#[derive(Debug)]
pub(crate) struct Log<const FLAGS: u32> {
    ring: Box<[LineId]>,
    /// Ring position of the oldest entry.
    head: u32,
    /// Entries, live and stale.
    entries: u32,
    /// Entries ever taken off the oldest end, by eviction, skipping or compaction.
    passed: u64,
    /// Live entries.
    live: u32,
    /// The bits of the flags that are the place.
    place_mask: u32,
    /// Bit p is set when lines of place p live in this log.
    places: u32,
}

impl<const FLAGS: u32> Log<FLAGS> {
    /// An empty log for at most `live` live entries and `spare` stale ones between compactions. It
    /// holds the lines whose flags, under `place_mask`, are one of `places`.
    ///
    /// # Panics
    /// When the positions do not fit beside the flags; builders check [`Words::ROOM_MAX`] first.
    pub(crate) fn new(live: u32, spare: u32, place_mask: u32, places: &[u32]) -> Log<FLAGS> {
        let room = u64::from(live) + u64::from(spare) + 1;
        assert!(room <= Words::<FLAGS>::ROOM_MAX, "positions must fit beside the flags");
        Log {
            ring: vec![LineId(0); room as usize].into_boxed_slice(),
            head: 0,
            entries: 0,
            passed: 0,
            live: 0,
            place_mask,
            places: places.iter().fold(0, |set, place| set | 1 << place),
        }
    }

    /// Live entries.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.live
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Appends `line` as the newest; its word gets `flags`, whose place must be one of this log's.
    /// The caller has said [`Log::forget`] if the line was live here already.
    #[inline]
    pub(crate) fn push(&mut self, words: &mut Words<FLAGS>, line: LineId, flags: u32) {
        if self.entries as usize == self.ring.len() {
            self.compact(words, line);
        }
        let position = self.wrap(self.head + self.entries);
        self.ring[position as usize] = line;
        words.set(line, flags, position);
        debug_assert!(self.is_live(words, line, position));
        self.entries += 1;
        self.live += 1;
    }

    /// One live entry has become stale, or is about to: its line left for another place, or is
    /// pushed again.
    #[inline]
    pub(crate) fn forget(&mut self) {
        debug_assert!(self.live > 0);
        self.live -= 1;
    }

    /// True if `line`, live here, is the newest entry.
    #[inline]
    pub(crate) fn is_newest(&self, words: &Words<FLAGS>, line: LineId) -> bool {
        words.position(line) == self.wrap(self.head + self.entries - 1)
    }

    /// True if `line`, live here, is the oldest entry.
    #[inline]
    pub(crate) fn is_oldest(&self, words: &Words<FLAGS>, line: LineId) -> bool {
        words.position(line) == self.head
    }

    /// The oldest live line; stale entries before it are dropped.
    #[inline]
    pub(crate) fn oldest(&mut self, words: &Words<FLAGS>) -> Option<LineId> {
        while self.entries > 0 {
            let line = self.ring[self.head as usize];
            if self.is_live(words, line, self.head) {
                return Some(line);
            }
            self.drop_head(words);
        }
        None
    }

    /// Takes the oldest live line out; the caller gives its word another place.
    #[inline]
    pub(crate) fn pop(&mut self, words: &Words<FLAGS>) -> Option<LineId> {
        let line = self.oldest(words)?;
        self.drop_head(words);
        self.live -= 1;
        Some(line)
    }

    /// The oldest live line of `place` whose ordinal is at least `from`, and its ordinal. Ordinals
    /// count entries from the beginning; a compaction raises the ordinals of the lines that stay,
    /// and never lowers one, so a lower bound of an ordinal remains one. O(entries looked at).
    pub(crate) fn find_from(
        &self,
        words: &Words<FLAGS>,
        from: u64,
        place: u32,
    ) -> Option<(u64, LineId)> {
        let mut offset = from.saturating_sub(self.passed).min(u64::from(self.entries)) as u32;
        while offset < self.entries {
            let position = self.wrap(self.head + offset);
            words.prefetch(self.ring[self.wrap(position + AHEAD.min(self.spread())) as usize]);
            let line = self.ring[position as usize];
            let flags = words.flags(line);
            if words.position(line) == position && flags & self.place_mask == place {
                return Some((self.passed + u64::from(offset), line));
            }
            offset += 1;
        }
        None
    }

    /// Bytes of the ring.
    pub(crate) fn bytes(&self) -> u64 {
        self.ring.len() as u64 * 4
    }

    #[inline]
    fn is_live(&self, words: &Words<FLAGS>, line: LineId, position: u32) -> bool {
        let place = words.flags(line) & self.place_mask;
        words.position(line) == position && self.places >> place & 1 == 1
    }

    #[inline]
    fn drop_head(&mut self, words: &Words<FLAGS>) {
        words.prefetch(self.ring[self.wrap(self.head + AHEAD.min(self.spread())) as usize]);
        self.head = self.wrap(self.head + 1);
        self.entries -= 1;
        self.passed += 1;
    }

    /// The largest distance that [`Log::wrap`] can bring back into the ring.
    #[inline]
    fn spread(&self) -> u32 {
        self.ring.len() as u32 - 1
    }

    /// A position at most one turn too far, brought back into the ring.
    #[inline]
    fn wrap(&self, position: u32) -> u32 {
        let room = self.ring.len() as u32;
        if position >= room { position - room } else { position }
    }

    /// Closes the gaps of stale entries. `coming` is about to be pushed, so its entry goes too.
    #[cold]
    fn compact(&mut self, words: &mut Words<FLAGS>, coming: LineId) {
        let mut kept = 0;
        for offset in 0..self.entries {
            let from = self.wrap(self.head + offset);
            words.prefetch(self.ring[self.wrap(from + AHEAD.min(self.spread())) as usize]);
            let line = self.ring[from as usize];
            if line != coming && self.is_live(words, line, from) {
                let to = self.wrap(self.head + kept);
                self.ring[to as usize] = line;
                words.set(line, words.flags(line), to);
                kept += 1;
            }
        }
        assert!(kept == self.live, "a log counts its live entries");
        assert!((kept as usize) < self.ring.len(), "a policy bounds how many lines it tracks");
        self.passed += u64::from(self.entries - kept);
        self.entries = kept;
    }
}

#[cfg(test)]
mod tests;
