//! LRU caches of many sizes in one pass, exact.
//!
//! LRU has the inclusion property: a larger cache holds everything that a smaller one does. So one
//! log of last accesses (`arrivals.rs`) serves all sizes:
//! 1. Cache k holds exactly the lines whose last access is at or above its *edge*, a position.
//! 2. An access hits in cache k when the line's position is at or above edge k: the sizes that miss
//!    are the smallest ones, and one comparison with each edge counts them.
//! 3. Where it misses and the cache is full, the victim is the first live entry from the edge, and
//!    the edge moves past it. Nothing else is touched.
//! 4. The line moves to the newest end once, for all sizes.
//!
//! State: a ring of the next power of two above 2 slots a line of the *largest* cache, 8.25–16.5 B
//! a line; 12 B a size; 4 B a distinct line. O(sizes that miss) an access, amortised.

use super::arrivals::{Arrivals, check_capacity, rebase};
use crate::Footprint;
use crate::registry::SettingsError;
use thermocline_units::{LineId, prefetch};

/// Slots a line of the largest cache: at most one entry is moved an arrival.
const SLACK: f64 = 2.0;

/// LRU caches of several sizes over the same accesses.
///
/// ```
/// use thermocline_policy::cache::LruSweep;
/// use thermocline_units::LineId;
///
/// let mut sweep = LruSweep::new(&[1, 2, 4]).expect("small caches fit");
/// sweep.reserve(10);
/// let mut evicted = Vec::new();
/// let accesses = [1, 2, 3, 2].map(LineId);
/// let mut missed = [0; 4];
/// sweep.access_batch(&accesses, &mut missed, |access, size, victim| {
///     evicted.push((access, size, victim.0));
/// });
/// assert_eq!(missed, [3, 3, 3, 1]); // line 2 was still in the caches of 2 and of 4 lines
/// assert_eq!(evicted, [(1, 0, 1), (2, 0, 2), (2, 1, 1), (3, 0, 3)]);
/// ```
#[derive(Debug)]
pub struct LruSweep {
    index: Vec<u32>,
    log: Arrivals,
    /// The caches, smallest first; edges fall with the size.
    levels: Vec<Level>,
}

/// One of the caches.
#[derive(Debug)]
struct Level {
    /// No line below this position is held.
    edge: u32,
    resident: u32,
    capacity: u32,
}

impl LruSweep {
    /// Sizes in one sweep at most.
    pub const SIZES_MAX: usize = 64;

    /// Empty caches of `capacities` lines: at least one, at most [`LruSweep::SIZES_MAX`], strictly
    /// ascending, each ≥ 1.
    ///
    /// # Errors
    /// When the largest has more lines than positions suffice for.
    ///
    /// # Panics
    /// When `capacities` is not as described.
    pub fn new(capacities: &[u32]) -> Result<LruSweep, SettingsError> {
        assert!(matches!(capacities.len(), 1..=LruSweep::SIZES_MAX), "1 to 64 sizes");
        assert!(capacities[0] > 0, "a cache holds at least one line");
        assert!(capacities.windows(2).all(|pair| pair[0] < pair[1]), "sizes ascend");
        let largest = capacities[capacities.len() - 1];
        check_capacity("lru", largest, SLACK)?;
        let log = Arrivals::new(largest, SLACK);
        let level = |capacity: &u32| Level { edge: log.tail(), resident: 0, capacity: *capacity };
        Ok(LruSweep { index: Vec::new(), levels: capacities.iter().map(level).collect(), log })
    }

    /// The sizes in lines, ascending.
    pub fn capacities(&self) -> impl ExactSizeIterator<Item = u32> {
        self.levels.iter().map(|level| level.capacity)
    }

    /// Lines below `universe` may be named from now on. Never shrinks.
    pub fn reserve(&mut self, universe: u32) {
        super::grow(&mut self.index, universe);
    }

    /// Accesses the lines in order. `missed[i]` becomes the number of sizes in which access i
    /// missed: the smallest ones. `evicted(i, k, line)` is called for each line that access i
    /// evicted from the cache of size k, in order of i, then k.
    ///
    /// # Panics
    /// When `lines` and `missed` differ in length, or a line was not reserved.
    pub fn access_batch(
        &mut self,
        lines: &[LineId],
        missed: &mut [u8],
        mut evicted: impl FnMut(usize, usize, LineId),
    ) {
        assert!(lines.len() == missed.len(), "one count a line");
        for (i, (&line, missed)) in lines.iter().zip(missed).enumerate() {
            if let Some(&coming) = lines.get(i + super::PREFETCH_FAR) {
                prefetch(&self.index, coming.index());
            }
            *missed = self.access(line, |size, victim| evicted(i, size, victim));
        }
    }

    /// One access; same meaning as a batch of one.
    #[inline(always)]
    pub fn access(&mut self, line: LineId, mut evicted: impl FnMut(usize, LineId)) -> u8 {
        if self.log.at_word_end() {
            self.make_room();
        }
        let position = self.index[line.index()];
        let mut missed = 0;
        for level in &mut self.levels {
            if position >= level.edge {
                self.log.kill(position);
                break;
            }
            if level.resident < level.capacity {
                level.resident += 1;
            } else {
                let victim = self.log.first_live_of_few(level.edge);
                level.edge = victim + 1;
                evicted(missed, self.log.line(victim));
            }
            missed += 1;
        }
        self.index[line.index()] = self.log.push(line);
        missed as u8
    }

    /// Drops `line` from every cache; in how many sizes, the smallest ones, it was not resident.
    pub fn invalidate(&mut self, line: LineId) -> u8 {
        let position = std::mem::take(&mut self.index[line.index()]);
        let missed = self.levels.iter().take_while(|level| position < level.edge).count();
        if missed < self.levels.len() {
            self.log.kill(position);
        }
        self.levels[missed..].iter_mut().for_each(|level| level.resident -= 1);
        missed as u8
    }

    /// Lines resident now, a size.
    pub fn resident(&self) -> impl ExactSizeIterator<Item = u32> {
        self.levels.iter().map(|level| level.resident)
    }

    /// Memory in use now.
    pub fn footprint(&self) -> Footprint {
        Footprint {
            resident: self.log.bytes() + (self.levels.len() * size_of::<Level>()) as u64,
            index: self.index.len() as u64 * 4,
        }
    }

    /// Makes room for arrivals. The largest cache bounds what lives.
    #[cold]
    fn make_room(&mut self) {
        let largest = &self.levels[self.levels.len() - 1];
        let live = largest.resident;
        self.log.raise_tail(largest.edge);
        if self.log.must_rebase() {
            let [by, _] = rebase(&mut self.index, [Some(&mut self.log), None]);
            self.levels.iter_mut().for_each(|level| level.edge -= by);
        }
        if self.log.is_full() {
            self.log.pack(live, &mut self.index, 0);
            for level in &mut self.levels {
                level.edge = self.log.head() - level.resident;
            }
        }
        if self.log.at_word_end() {
            self.log.open_word();
        }
    }
}

#[cfg(test)]
mod tests;
