//! S3-FIFO: three plain queues; most lines leave through a small one and never disturb the rest.
//!
//! 1. A hit adds one to the line's count, which stops at 3.
//! 2. A miss enters the *main* queue when the ghost queue remembers the line (which forgets it
//!    then), otherwise the *small* queue; its count is 0.
//! 3. To make room, unless main holds more than its share, take small's oldest lines: a count of
//!    `move` or more sends a line to main with count 0; the first with less is evicted and its
//!    number enters the ghost queue. If main held too much, or all of small went to main, take
//!    main's oldest: a count above 0 is lowered by one and the line re-enters main; the first with
//!    0 is evicted.
//! 4. Warm-up, until the first eviction: with `warmup=main` a miss that finds small at its share
//!    goes to main directly, as in libCacheSim 0.3.5; with `warmup=v0` rule 2 always holds, as in
//!    the paper.
//!
//! Source: Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for cache eviction", SOSP
//! 2023. Shares are rounded down; small's is at least one line. libCacheSim serves nothing from
//! caches of fewer than 20 lines, this does.
//!
//! State: 8.5 B + 5 B × `ghost` a cached line (13 B with the defaults), 4 B a distinct line. O(1)
//! amortised: a line re-enters main at most 3 times for each time it is hit or enters.

use super::log::{Log, Words, room_for, share};
use super::{Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::LineId;

pub(crate) const ENTRY: Entry = Entry {
    name: "s3-fifo",
    summary: "a small queue filters lines seen once; a main queue with counts; a ghost queue",
    source: "Yang et al., SOSP 2023; defaults of libCacheSim 0.3.5",
    settings: &[
        Setting {
            name: "small",
            default: "0.1",
            unit: "fraction of the cache",
            help: "share of the small queue",
        },
        Setting {
            name: "ghost",
            default: "0.9",
            unit: "fraction of the cache",
            help: "how many evicted lines are remembered; 0 to 4",
        },
        Setting {
            name: "move",
            default: "2",
            unit: "hits",
            help: "hits in the small queue that send a line to main; 1 to 3",
        },
        Setting {
            name: "warmup",
            default: "main",
            unit: "main or v0",
            help: "before the first eviction a full small queue overflows into main, or (v0, the \
                   paper) small grows",
        },
    ],
    build: Build::Cache(|geometry, settings| {
        Ok(Box::new(S3Fifo::new(&Shape::read(geometry.lines, settings)?)))
    }),
};

const FLAGS: u32 = 4;
/// The low bits of the flags: where a line is.
const PLACE: u32 = 0b0011;
const SMALL: u32 = 1;
const MAIN: u32 = 2;
const GHOST: u32 = 3;
/// One hit, in the flags.
const ONE: u32 = 0b0100;
/// The highest count, in the flags.
const COUNT: u32 = 0b1100;

/// Lines that an eviction moves from a small queue that is too large since it was retuned: with one
/// the queue would keep its size, because each miss brings one.
const SETTLING: u32 = 4;
/// The default of the setting `ghost`.
const GHOST_SHARE: f64 = 0.9;

/// Parameters that can change while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tuning {
    /// Lines of the small queue.
    small: u32,
    /// Count that moves a line to main, as flags.
    threshold: u32,
}

impl Tuning {
    /// A small queue of `part` of `capacity`, at least one line; `hits` of 1 to 3 move a line.
    pub(super) fn of(capacity: u32, part: f64, hits: u32) -> Tuning {
        Tuning { small: share(capacity, part).max(1), threshold: hits * ONE }
    }
}

/// Sizes in lines.
struct Shape {
    capacity: u32,
    small: u32,
    ghost: u32,
    /// Count that moves a line to main, as flags.
    threshold: u32,
    fill_main_first: bool,
}

impl Shape {
    fn read(capacity: u32, settings: &Settings) -> Result<Shape, SettingsError> {
        let ghost = settings.number("ghost", 0.0, 4.0)?;
        // Both queues and the ghosts, each with an eighth of slack or more.
        room_for::<FLAGS>("s3-fifo", capacity, ghost.max(1.0) * 1.25)?;
        Ok(Shape {
            capacity,
            small: share(capacity, settings.number("small", 0.0, 1.0)?).max(1),
            ghost: share(capacity, ghost),
            threshold: settings.count("move", 1, 3)? as u32 * ONE,
            fill_main_first: settings.choice("warmup", &["main", "v0"])? == 0,
        })
    }
}

/// S3-FIFO.
#[derive(Debug)]
pub(crate) struct S3Fifo {
    words: Words<FLAGS>,
    small: Log<FLAGS>,
    main: Log<FLAGS>,
    ghost: Log<FLAGS>,
    capacity: u32,
    small_share: u32,
    ghost_share: u32,
    threshold: u32,
    /// True if a full small queue overflows into main; ends with the first eviction.
    filling_main: bool,
    /// True if small has lines that belong to main since it was retuned.
    settling: bool,
}

impl S3Fifo {
    fn new(shape: &Shape) -> S3Fifo {
        assert!(shape.capacity > 0, "a cache holds at least one line");
        // Entries become stale here only through `invalidate` (and ghost hits), so little slack
        // keeps compactions rare; main holds one line too many for a moment.
        let log = |live: u32, spare: u32, place| Log::new(live + 1, spare + 16, PLACE, &[place]);
        S3Fifo {
            words: Words::new(),
            small: log(shape.capacity, shape.capacity / 16, SMALL),
            main: log(shape.capacity, shape.capacity / 16, MAIN),
            ghost: log(shape.ghost, shape.ghost / 4, GHOST),
            capacity: shape.capacity,
            small_share: shape.small,
            ghost_share: shape.ghost,
            threshold: shape.threshold,
            filling_main: shape.fill_main_first,
            settling: false,
        }
    }

    /// One with the ghosts and the warm-up of the defaults.
    pub(super) fn tuned(capacity: u32, tuning: Tuning) -> S3Fifo {
        S3Fifo::new(&Shape {
            capacity,
            small: tuning.small,
            ghost: share(capacity, GHOST_SHARE),
            threshold: tuning.threshold,
            fill_main_first: true,
        })
    }

    /// Goes on with another share and threshold. What small has too many goes to main as evictions
    /// need room, four lines each; what main has too many is evicted by rule 3.
    pub(super) fn retune(&mut self, tuning: Tuning) {
        self.small_share = tuning.small;
        self.threshold = tuning.threshold;
        self.settling = true;
    }

    /// Moves the oldest of a small queue that was retuned to main, while there is room for them.
    #[cold]
    fn settle(&mut self) {
        let main_share = self.capacity.saturating_sub(self.small_share);
        for _ in 0..SETTLING {
            self.settling = self.small.len() > self.small_share && self.main.len() < main_share;
            if !self.settling {
                return;
            }
            let line = self.small.pop(&self.words).expect("it has more than its share");
            let count = self.words.flags(line) & COUNT;
            self.main.push(&mut self.words, line, MAIN | count);
        }
    }

    /// That a cache of `capacity` with the ghosts of the defaults can be numbered.
    pub(super) fn check_room(policy: &str, capacity: u32) -> Result<(), SettingsError> {
        room_for::<FLAGS>(policy, capacity, GHOST_SHARE.max(1.0) * 1.25)
    }

    fn evict(&mut self) -> LineId {
        self.filling_main = false;
        if self.settling {
            self.settle();
        }
        let main_share = self.capacity.saturating_sub(self.small_share);
        if self.main.len() <= main_share
            && let Some(victim) = self.evict_small()
        {
            return victim;
        }
        self.evict_main()
    }

    /// Evicts the oldest of small that has not earned a move to main; `None` when all have.
    #[inline]
    fn evict_small(&mut self) -> Option<LineId> {
        loop {
            let line = self.small.pop(&self.words)?;
            if self.words.flags(line) & COUNT < self.threshold {
                self.words.clear(line);
                self.remember(line);
                return Some(line);
            }
            self.main.push(&mut self.words, line, MAIN);
        }
    }

    /// Evicts the oldest of main whose count is 0; lowers the counts of those before it.
    #[inline]
    fn evict_main(&mut self) -> LineId {
        loop {
            let line = self.main.pop(&self.words).expect("a full cache has lines");
            let flags = self.words.flags(line);
            if flags & COUNT == 0 {
                self.words.clear(line);
                return line;
            }
            self.main.push(&mut self.words, line, flags - ONE);
        }
    }

    fn remember(&mut self, line: LineId) {
        if self.ghost_share == 0 {
            return;
        }
        if self.ghost.len() == self.ghost_share {
            let forgotten = self.ghost.pop(&self.words).expect("its share is above zero");
            self.words.clear(forgotten);
        }
        self.ghost.push(&mut self.words, line, GHOST);
    }

    #[cold]
    fn drop_resident(&mut self, line: LineId, place: u32) {
        if place == SMALL {
            self.small.forget()
        } else {
            self.main.forget()
        }
        self.words.clear(line);
    }
}

impl Replacement for S3Fifo {
    fn reserve(&mut self, universe: u32) {
        self.words.reserve(universe);
    }

    #[inline]
    fn access(&mut self, line: LineId) -> Outcome {
        let flags = self.words.flags(line);
        let place = flags & PLACE;
        if place == SMALL || place == MAIN {
            if flags & COUNT != COUNT {
                self.words.set_flags(line, flags + ONE);
            }
            return Outcome::HIT;
        }
        if place == GHOST {
            self.ghost.forget();
            self.words.clear(line);
        }
        let outcome = if Replacement::resident(self) == self.capacity {
            Outcome::evicting(self.evict())
        } else {
            Outcome::ADMITTED
        };
        if place == GHOST || self.filling_main && self.small.len() >= self.small_share {
            self.main.push(&mut self.words, line, MAIN);
        } else {
            self.small.push(&mut self.words, line, SMALL);
        }
        outcome
    }

    fn contains(&self, line: LineId) -> bool {
        matches!(self.words.flags(line) & PLACE, SMALL | MAIN)
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        let place = self.words.flags(line) & PLACE;
        let resident = matches!(place, SMALL | MAIN);
        if resident {
            self.drop_resident(line, place);
        }
        resident
    }

    #[inline]
    fn resident(&self) -> u32 {
        self.small.len() + self.main.len()
    }

    fn footprint(&self) -> Footprint {
        Footprint {
            resident: self.small.bytes() + self.main.bytes() + self.ghost.bytes(),
            index: self.words.bytes(),
        }
    }

    #[inline]
    fn prefetch_far(&self, line: LineId) {
        self.words.prefetch(line);
    }
}

#[cfg(test)]
mod tests;
