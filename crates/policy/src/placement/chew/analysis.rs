//! Analysis of chunks window by window, without placing them: ChewAnalyzer's classification alone.
//!
//! 1. Accesses are counted by chunk as `chew` counts them (see `activity`).
//! 2. At a window's end every chunk that was accessed is told: its counts, the rules of a library
//!    that it fits, level by level, and its classes by the four taxonomy rules of Table 3.2.
//!
//! Source: Ge 2017 §3.2. The source leaves open where a class begins: a chunk is *sequential* when
//! less than half of its accesses are random, and *written* when more than half of its bytes are;
//! it is *overwritten* when more than half of its writes are. These are the bounds of the case
//! study's library. Rule 1's third class, chunks without access, is not told: they have no counts.
//!
//! State: 58 B a chunk that was ever accessed, and 32 B for each MiB of one that was written in the
//! window. O(1) an access, O(chunks met × rules) a window.

use super::classify::profile;
use super::library::{LEVELS_MAX, Library, LibraryError};
use super::taxonomy::Taxonomy;
use crate::placement::ChunkAccess;
use crate::placement::activity::{Activity, Counts};
use thermocline_units::{Bytes, ChunkId, Nanos};

/// Accesses in a window from which on a chunk is active (Ge 2017 §3.2.3: "inactive means less than
/// 2").
pub(crate) const ACTIVE_FROM: u64 = 2;
/// The share above which what something mostly is, it is.
const MOST: f64 = 0.5;

/// Taxonomy rule 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Less than half of the accesses are random.
    Sequential,
    /// The others.
    Random,
}

/// Taxonomy rule 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// Sequential, as in rule 2.
    Sequential,
    /// Random, and half of the bytes or more are read.
    RandomRead,
    /// Random, and more than half of the bytes are written.
    RandomWrite,
}

/// Taxonomy rule 4, of chunks of whose bytes more than half are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// More than half of the writes overwrite.
    Overwritten,
    /// Sequential, as in rule 2.
    Sequential,
    /// The others.
    FullyRandom,
}

/// A chunk in a window in which it was accessed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChunkWindow {
    /// The chunk.
    pub chunk: ChunkId,
    /// Reads, and writes.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: Bytes,
    /// Bytes written.
    pub written_bytes: Bytes,
    /// Share of random ones among its accesses, 0 to 1.
    pub random: f64,
    /// Share of overwrites among its writes, 0 to 1; 0 without any.
    pub overwritten: f64,
    /// Units of the library a second.
    pub intensity: f64,
    /// Rules that it fits, by level, counted from 0.
    rules: [u16; LEVELS_MAX],
}

impl ChunkWindow {
    /// The rule of a level of the library that it fits; both counted from 0.
    ///
    /// # Panics
    /// When `level` is no level of any library.
    pub fn rule(&self, level: usize) -> usize {
        usize::from(self.rules[level])
    }

    /// Taxonomy rule 1: whether it is active, and not only accessed.
    pub fn is_active(&self) -> bool {
        self.reads + self.writes >= ACTIVE_FROM
    }

    /// Taxonomy rule 2.
    pub fn order(&self) -> Order {
        if self.random < MOST { Order::Sequential } else { Order::Random }
    }

    /// Taxonomy rule 3.
    pub fn mix(&self) -> Mix {
        match self.order() {
            Order::Sequential => Mix::Sequential,
            Order::Random if self.is_written() => Mix::RandomWrite,
            Order::Random => Mix::RandomRead,
        }
    }

    /// Taxonomy rule 4; `None`: it is not mostly written.
    pub fn writing(&self) -> Option<Writing> {
        self.is_written().then(|| match self.order() {
            _ if self.overwritten > MOST => Writing::Overwritten,
            Order::Sequential => Writing::Sequential,
            Order::Random => Writing::FullyRandom,
        })
    }

    fn is_written(&self) -> bool {
        self.written_bytes > self.read_bytes
    }
}

/// Classifies chunks window by window, without placing them.
#[derive(Debug)]
pub struct Analyzer {
    taxonomy: Taxonomy,
    activity: Activity,
}

impl Analyzer {
    /// An analyzer of chunks of this size, a power of two.
    ///
    /// # Errors
    /// When the library cannot be used.
    pub fn new(library: Library, chunk: Bytes) -> Result<Analyzer, LibraryError> {
        library.check()?;
        let mut activity = Activity::default();
        activity.set_chunk_size(chunk);
        Ok(Analyzer { taxonomy: Taxonomy::new(library), activity })
    }

    /// Takes an access in; they come in the order of time.
    #[inline]
    pub fn observe(&mut self, access: &ChunkAccess) {
        self.activity.record(access);
    }

    /// Ends a window that was so long, above 0, and shows every chunk that was accessed in it, in
    /// the order of their first access ever.
    pub fn end_window(&mut self, length: Nanos, visit: &mut dyn FnMut(&ChunkWindow)) {
        self.activity.catch_up();
        for number in self.activity.touched() {
            visit(&self.window(number, length));
        }
        self.activity.advance();
    }

    fn window(&self, number: u32, length: Nanos) -> ChunkWindow {
        let counts: &Counts = self.activity.counts(number);
        let unit = self.taxonomy.library().unit;
        let profile = profile(counts, unit, 1.0 / length.as_secs_f64());
        let mut rules = [0; LEVELS_MAX];
        for (level, rule) in rules.iter_mut().enumerate().take(self.taxonomy.level_count()) {
            *rule = self.taxonomy.rule_number(&profile, level) as u16;
        }
        let written = counts.bytes_written();
        ChunkWindow {
            chunk: self.activity.chunks.id(number),
            reads: counts.accesses() - counts.writes(),
            writes: counts.writes(),
            read_bytes: Bytes(counts.bytes() - written),
            written_bytes: Bytes(written),
            random: profile.random.into(),
            overwritten: profile.overwritten.into(),
            intensity: profile.intensity.into(),
            rules,
        }
    }
}

#[cfg(test)]
mod tests;
