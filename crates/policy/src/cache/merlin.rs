//! Merlin: lines start in a filter, prove themselves in a staging queue, and stay in a core; how
//! many hits count as proof (the *guard*) follows from how many lines have that many.
//!
//! 1. Four FIFO queues: *filter* (10 %), *staging* (5 %), *core* (the rest), and *ghosts* (numbers
//!    and counts of lines that left filter or staging). A line's count is of its hits, at most 7.
//! 2. Besides, *residencies* are counted for every line: how often it was sent from queue to queue,
//!    not its accesses. They are halved every `fade` epochs, an epoch being as many evictions as
//!    the cache has lines.
//! 3. Hit: count + 1. Miss of a ghost: the ghost's count + 1; if that reaches the guard the line
//!    enters core with that count and the ghost is dropped, otherwise it enters staging with count
//!    0, and the ghost stays. Other misses enter the filter. While filter and staging are both
//!    empty (warm-up), every miss enters core.
//! 4. An eviction first moves the guard: up while more lines (ghosts included) have that many hits
//!    than core holds, down while fewer than core holds have one hit less; it stays in 1 to 7.
//! 5. If the filter is at its share, its oldest lines go to core while their counts reach the
//!    guard. The first that does not duels the oldest of staging: it takes its place, and leaves a
//!    ghost, if that one has count 0 and fewer residencies (and the newcomer at most 32); staging's
//!    oldest is evicted then. Otherwise the filter's line is evicted and becomes a ghost.
//! 6. If the filter is below its share: core over its share sends its oldest to staging; staging's
//!    oldest with hits go back to core (a hit less, ghost dropped); the first without is evicted.
//! 7. The oldest ghosts beyond the cache's number of lines are dropped.
//!
//! Source: "Merlin: an efficient adaptive cache eviction algorithm via fine-grained
//! characterization", OSDI 2026, after its artifact (TELOS-syslab/MerlinOSDI26AE). Differences: the
//! guard is bounded by 7, the largest count, where the artifact's search has no bound; a rule-6
//! eviction that finds no staging line takes the filter's oldest; residencies are counted exactly,
//! where the artifact has a counting Bloom filter of about 14 counters a line, which the
//! residencies of 32 epochs overfill. Hit ratios are within 0.0003 of the artifact's on the traces
//! at hand.
//!
//! State: 13.9 B a cached line (8.9 B for filter, staging and core, of which the last two may each
//! grow to the whole cache, and 5 B × `ghost`), 12 B a distinct line. O(1) amortised: a line
//! re-enters core at most 7 times for each time it enters, and fading is done when a count is read.

use super::log::{Log, Words, room_for, share};
use super::{Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::LineId;

pub(crate) const ENTRY: Entry = Entry {
    name: "merlin",
    summary: "filter, staging and core queues with a self-adjusting promotion guard",
    source: "Merlin, OSDI 2026, and its artifact",
    settings: &[
        Setting {
            name: "filter",
            default: "0.1",
            unit: "fraction of the cache",
            help: "share of the filter queue; at least one line",
        },
        Setting {
            name: "staging",
            default: "0.05",
            unit: "fraction of the cache",
            help: "share of the staging queue; at least one line",
        },
        Setting {
            name: "ghost",
            default: "1",
            unit: "multiple of the cache",
            help: "how many lines that left are remembered; 0 to 4",
        },
        Setting {
            name: "guard",
            default: "2",
            unit: "hits",
            help: "hits that lead to core, at the start; 1 to 7",
        },
        Setting {
            name: "fade",
            default: "32",
            unit: "epochs of one cache-full of evictions",
            help: "epochs between halvings of the residency counts",
        },
    ],
    build: Build::Cache(|geometry, settings| {
        Ok(Box::new(Merlin::new(&Shape::read(geometry.lines, settings)?)))
    }),
};

/// Place and count of a resident line.
const FLAGS: u32 = 5;
const PLACE: u32 = 0b00011;
const FILTER: u32 = 1;
const STAGING: u32 = 2;
const CORE: u32 = 3;
const COUNT_SHIFT: u32 = 2;
/// Presence and count of a ghost.
const GHOST_FLAGS: u32 = 4;
const GHOST: u32 = 1;
const GHOST_COUNT_SHIFT: u32 = 1;

const COUNT_MAX: u32 = 7;
/// A line with more residencies than this wins no duel.
const RESIDENCIES_MAX: u32 = 32;

/// Sizes in lines.
struct Shape {
    capacity: u32,
    filter: u32,
    staging: u32,
    ghost: u32,
    guard: u32,
    fade: u64,
}

impl Shape {
    fn read(capacity: u32, settings: &Settings) -> Result<Shape, SettingsError> {
        let ghost = settings.number("ghost", 0.0, 4.0)?;
        room_for::<FLAGS>("merlin", capacity, 1.25)?;
        room_for::<GHOST_FLAGS>("merlin", capacity, ghost.max(1.0) * 1.5)?;
        Ok(Shape {
            capacity,
            filter: share(capacity, settings.number("filter", 0.0, 1.0)?).max(1),
            staging: share(capacity, settings.number("staging", 0.0, 1.0)?).max(1),
            ghost: share(capacity, ghost),
            guard: settings.count("guard", 1, COUNT_MAX.into())? as u32,
            fade: settings.count("fade", 1, 1 << 20)?,
        })
    }
}

/// Number of times each line was sent from queue to queue, halved now and then. A word holds the
/// count and the number of halvings when it was last written; those missed since are applied when
/// it is read.
#[derive(Debug, Default)]
struct Residencies {
    words: Vec<u32>,
    halvings: u32,
}

impl Residencies {
    const COUNT_BITS: u32 = 6;
    const COUNT_MAX: u32 = (1 << Self::COUNT_BITS) - 1;

    fn reserve(&mut self, universe: u32) {
        if self.words.len() < universe as usize {
            self.words.resize(universe as usize, 0);
        }
    }

    #[inline]
    fn of(&self, line: LineId) -> u32 {
        let word = self.words[line.index()];
        let missed = self.halvings - (word >> Self::COUNT_BITS);
        (word & Self::COUNT_MAX).checked_shr(missed).unwrap_or(0)
    }

    #[inline]
    fn count(&mut self, line: LineId) {
        let count = (self.of(line) + 1).min(Self::COUNT_MAX);
        self.words[line.index()] = self.halvings << Self::COUNT_BITS | count;
    }

    /// Halves every count.
    fn fade(&mut self) {
        // 2²⁶ halvings are 2³¹ cache-fulls of evictions with the defaults; after those, counts
        // stay.
        self.halvings = (self.halvings + 1).min(u32::MAX >> Self::COUNT_BITS);
    }

    fn bytes(&self) -> u64 {
        self.words.len() as u64 * 4
    }
}

const _: () = assert!(RESIDENCIES_MAX < Residencies::COUNT_MAX, "a full count must lose");

/// Merlin.
#[derive(Debug)]
pub(crate) struct Merlin {
    words: Words<FLAGS>,
    filter: Log<FLAGS>,
    staging: Log<FLAGS>,
    core: Log<FLAGS>,
    ghost_words: Words<GHOST_FLAGS>,
    ghosts: Log<GHOST_FLAGS>,
    residencies: Residencies,
    /// Number of tracked lines that have each count; a line both resident and ghost counts twice.
    with_count: [u64; COUNT_MAX as usize + 1],
    guard: u32,
    evictions: u64,
    capacity: u32,
    filter_share: u32,
    core_share: u32,
    ghost_share: u32,
    fade_evictions: u64,
}

impl Merlin {
    fn new(shape: &Shape) -> Merlin {
        assert!(shape.capacity > 0, "a cache holds at least one line");
        let log = |live: u32, place| Log::new(live + 2, live / 16 + 16, PLACE, &[place]);
        let filter = shape.filter.min(shape.capacity);
        Merlin {
            words: Words::new(),
            filter: log(filter, FILTER),
            staging: log(shape.capacity, STAGING),
            core: log(shape.capacity, CORE),
            ghost_words: Words::new(),
            ghosts: Log::new(shape.ghost + 2, shape.ghost / 4 + 16, GHOST, &[GHOST]),
            residencies: Residencies::default(),
            with_count: [0; COUNT_MAX as usize + 1],
            guard: shape.guard,
            evictions: 0,
            capacity: shape.capacity,
            filter_share: filter,
            core_share: shape.capacity.saturating_sub(filter + shape.staging),
            ghost_share: shape.ghost,
            fade_evictions: shape.fade.saturating_mul(shape.capacity.into()),
        }
    }

    fn count_of(&self, line: LineId) -> u32 {
        self.words.flags(line) >> COUNT_SHIFT
    }

    /// Puts `line`, which is in no resident queue, into `place` with `count`.
    #[inline]
    fn enter(&mut self, line: LineId, place: u32, count: u32) {
        let flags = count << COUNT_SHIFT | place;
        let queue = match place {
            FILTER => &mut self.filter,
            STAGING => &mut self.staging,
            _ => &mut self.core,
        };
        queue.push(&mut self.words, line, flags);
        self.with_count[count as usize] += 1;
    }

    /// `line`, popped from its queue, is no longer resident or about to enter another; its count.
    #[inline]
    fn leave(&mut self, line: LineId) -> u32 {
        let count = self.count_of(line);
        self.with_count[count as usize] -= 1;
        self.words.clear(line);
        count
    }

    fn become_ghost(&mut self, line: LineId, count: u32) {
        self.drop_ghost(line);
        self.ghosts.push(&mut self.ghost_words, line, count << GHOST_COUNT_SHIFT | GHOST);
        self.with_count[count as usize] += 1;
        while self.ghosts.len() > self.ghost_share {
            let forgotten = self.ghosts.pop(&self.ghost_words).expect("more than its share");
            self.uncount_ghost(forgotten);
        }
    }

    fn drop_ghost(&mut self, line: LineId) {
        if self.ghost_words.flags(line) != 0 {
            self.ghosts.forget();
            self.uncount_ghost(line);
        }
    }

    fn uncount_ghost(&mut self, line: LineId) {
        self.with_count[(self.ghost_words.flags(line) >> GHOST_COUNT_SHIFT) as usize] -= 1;
        self.ghost_words.clear(line);
    }

    /// A ghost is asked for again: its new count.
    fn touch_ghost(&mut self, line: LineId) -> u32 {
        let count = self.ghost_words.flags(line) >> GHOST_COUNT_SHIFT;
        let raised = (count + 1).min(COUNT_MAX);
        self.with_count[count as usize] -= 1;
        self.with_count[raised as usize] += 1;
        self.ghost_words.set_flags(line, raised << GHOST_COUNT_SHIFT | GHOST);
        raised
    }

    /// Tracked lines with at least `count` hits.
    fn with_at_least(&self, count: u32) -> u64 {
        self.with_count[count as usize..].iter().sum()
    }

    fn move_guard(&mut self) {
        let core = u64::from(self.core.len());
        if self.with_at_least(self.guard) > core {
            while self.guard < COUNT_MAX && self.with_at_least(self.guard) > core {
                self.guard += 1;
            }
        } else {
            while self.guard > 1 && self.with_at_least(self.guard - 1) < core {
                self.guard -= 1;
            }
        }
    }

    fn evict(&mut self) -> LineId {
        self.evictions += 1;
        if self.evictions.is_multiple_of(self.fade_evictions) {
            self.residencies.fade();
        }
        self.move_guard();
        if self.filter.len() >= self.filter_share
            && let Some(victim) = self.evict_from_filter()
        {
            return victim;
        }
        self.evict_from_staging()
    }

    /// Rule 5; `None` when the whole filter went to core.
    fn evict_from_filter(&mut self) -> Option<LineId> {
        loop {
            let line = self.filter.pop(&self.words)?;
            let count = self.leave(line);
            if count >= self.guard {
                self.enter(line, CORE, 0);
                self.residencies.count(line);
                continue;
            }
            let rival = self.staging.oldest(&self.words);
            let won = rival.filter(|rival| self.wins_over(line, *rival));
            self.residencies.count(line);
            if let Some(rival) = won {
                self.enter(line, STAGING, 0);
                self.staging.pop(&self.words);
                self.leave(rival);
            }
            self.become_ghost(line, count);
            return Some(won.unwrap_or(line));
        }
    }

    fn wins_over(&self, line: LineId, rival: LineId) -> bool {
        let residencies = self.residencies.of(line);
        self.count_of(rival) == 0
            && residencies <= RESIDENCIES_MAX
            && residencies > self.residencies.of(rival)
    }

    /// Rule 6.
    fn evict_from_staging(&mut self) -> LineId {
        loop {
            let core_gives = self.core.len() > self.core_share || self.staging.is_empty();
            if core_gives && let Some(line) = self.core.pop(&self.words) {
                let count = self.leave(line);
                self.enter(line, STAGING, count);
                continue;
            }
            let Some(line) = self.staging.pop(&self.words) else {
                return self.evict_oldest_of_filter();
            };
            let count = self.leave(line);
            if count == 0 {
                return line;
            }
            self.drop_ghost(line);
            self.enter(line, CORE, count - 1);
            self.residencies.count(line);
        }
    }

    fn evict_oldest_of_filter(&mut self) -> LineId {
        let line = self.filter.pop(&self.words).expect("a full cache has lines");
        let count = self.leave(line);
        self.residencies.count(line);
        self.become_ghost(line, count);
        line
    }

    #[inline]
    fn hit(&mut self, line: LineId, flags: u32) {
        let count = flags >> COUNT_SHIFT;
        if count < COUNT_MAX {
            self.with_count[count as usize] -= 1;
            self.with_count[count as usize + 1] += 1;
            self.words.set_flags(line, flags + (1 << COUNT_SHIFT));
        }
    }
}

impl Replacement for Merlin {
    fn reserve(&mut self, universe: u32) {
        self.words.reserve(universe);
        self.ghost_words.reserve(universe);
        self.residencies.reserve(universe);
    }

    #[inline]
    fn access(&mut self, line: LineId) -> Outcome {
        let flags = self.words.flags(line);
        if flags != 0 {
            self.hit(line, flags);
            return Outcome::HIT;
        }
        let ghost = (self.ghost_words.flags(line) != 0).then(|| self.touch_ghost(line));
        let to_core = ghost.filter(|count| *count >= self.guard);
        let mut outcome = Outcome::ADMITTED;
        if Replacement::resident(self) == self.capacity {
            outcome = Outcome::evicting(self.evict());
        }
        if self.filter.is_empty() && self.staging.is_empty() {
            self.enter(line, CORE, 0);
        } else if let Some(count) = to_core {
            self.drop_ghost(line);
            self.enter(line, CORE, count);
        } else if ghost.is_some() {
            self.residencies.count(line);
            self.enter(line, STAGING, 0);
        } else {
            self.enter(line, FILTER, 0);
        }
        outcome
    }

    fn contains(&self, line: LineId) -> bool {
        self.words.flags(line) != 0
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        match self.words.flags(line) & PLACE {
            FILTER => self.filter.forget(),
            STAGING => self.staging.forget(),
            CORE => self.core.forget(),
            _ => return false,
        }
        self.leave(line);
        true
    }

    #[inline]
    fn resident(&self) -> u32 {
        self.filter.len() + self.staging.len() + self.core.len()
    }

    fn footprint(&self) -> Footprint {
        let logs = self.filter.bytes() + self.staging.bytes() + self.core.bytes();
        Footprint {
            resident: logs + self.ghosts.bytes(),
            index: self.words.bytes() + self.ghost_words.bytes() + self.residencies.bytes(),
        }
    }

    #[inline]
    fn prefetch_far(&self, line: LineId) {
        self.words.prefetch(line);
    }

    #[inline]
    fn prefetch_near(&self, line: LineId) {
        if self.words.flags(line) == 0 {
            self.ghost_words.prefetch(line);
        }
    }
}

#[cfg(test)]
mod tests;
