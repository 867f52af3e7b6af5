//! W-TinyLFU: a small LRU window, and a main cache that a line enters only if it is seen more often
//! than the line it would replace.
//!
//! 1. Every access is counted in a sketch (4 counters of 4 bits); after `sample` × capacity counts
//!    all are halved.
//! 2. A miss enters the *window* (LRU). The main cache is an SLRU of *probation* and *protected*.
//! 3. A hit in the window or in protected moves the line to the newest end of its queue; a hit in
//!    probation moves it to protected, whose oldest goes back to probation when protected exceeds
//!    its share.
//! 4. When the window exceeds its share its oldest line is the candidate. While the cache has room
//!    it enters probation. Otherwise the victim is probation's oldest (protected's, if probation is
//!    empty): the more often counted of the two stays, the victim when they are equal.
//! 5. With `adapt=yes` the window's share climbs the hill of the hit ratio: every 10 × capacity
//!    accesses it goes on by a step if the ratio rose, and back by one if it fell. The step
//!    begins at 6.25 % of the cache and shrinks by 2 % each time, until the ratio changes by 5
//!    points: then it is as large as in the beginning. What a step gives to the window, protected
//!    and then probation lose; each access moves four lines of what is to be moved.
//!
//! Source: Einziger, Friedman & Manes, "TinyLFU: a highly efficient cache admission policy", ACM
//! TOS 2017. Rule 5: Einziger, Eytan, Friedman & Manes, "Adaptive Software Cache Management",
//! Middleware 2018, with Caffeine's step, its decay and its restart. By default the window is
//! fixed, which is what other simulators compare. Caffeine moreover admits one candidate in 128 at
//! random; this does not.
//!
//! **Counts of this policy differ between implementations**, because hash functions, sketch sizes
//! and the moment of halving differ: on the same requests libCacheSim 0.3.5 has 88,396 misses where
//! Caffeine's simulator has 89,806. Compare with a tolerance; ours are in the tests.
//!
//! State: 22.3 B a cached line (14.3 B for the queues, whose probation may grow to all of main, and
//! 8 B of counters), 4 B a distinct line. O(1) amortised (halving touches 8 B a line every `sample`
//! × capacity counts).

use super::log::{Log, Words, room_for, share};
use super::sketch::Sketch;
use super::{Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Build, Entry, Geometry, Setting, Settings, SettingsError};
use thermocline_units::LineId;

pub(crate) const ENTRY: Entry = Entry {
    name: "w-tiny-lfu",
    summary: "a small LRU window; main admits by comparing approximate access counts",
    source: "Einziger, Friedman & Manes, TOS 2017; the window of Middleware 2018 as a setting",
    settings: &[
        Setting {
            name: "window",
            default: "0.01",
            unit: "fraction of the cache",
            help: "share of the LRU window; at least one line",
        },
        Setting {
            name: "protected",
            default: "0.8",
            unit: "fraction of the main cache",
            help: "share of the protected queue",
        },
        Setting {
            name: "sample",
            default: "10",
            unit: "multiple of the cache",
            help: "accesses counted before all counts are halved; 1 to 100",
        },
        Setting {
            name: "adapt",
            default: "no",
            unit: "yes or no",
            help: "whether the window's share follows the hit ratio by hill climbing",
        },
    ],
    build: Build::Cache(|geometry, settings| {
        Ok(Box::new(WTinyLfu::new(&Shape::read(geometry, settings)?)))
    }),
};

const FLAGS: u32 = 2;
/// All flags are the place.
const PLACE: u32 = 0b11;
const WINDOW: u32 = 1;
const PROBATION: u32 = 2;
const PROTECTED: u32 = 3;

/// Bytes of counters a line of capacity: 16 counters, 4 a row.
const SKETCH_BYTES_PER_LINE: u32 = 8;

/// Sizes in lines.
struct Shape {
    capacity: u32,
    window: u32,
    protected: u32,
    sample: u64,
    seed: u64,
    adapts: bool,
}

/// Accesses between two steps of the climber, in multiples of the cache.
const CLIMB_PERIOD: u64 = 10;
/// The first step, as a share of the cache.
const CLIMB_STEP: f64 = 0.0625;
/// Share of a step that is left after each period.
const CLIMB_DECAY: f64 = 0.98;
/// A change of the hit ratio by so much begins the climb anew.
const CLIMB_RESTART: f64 = 0.05;
/// Lines that an access moves while shares change.
const MOVED_MAX: u32 = 4;

/// Looks for the share of the window with the highest hit ratio.
#[derive(Debug)]
struct Climber {
    hits: u64,
    accesses: u64,
    /// Hit ratio of the period before.
    before: f64,
    /// The next step, in lines; below 0 the window shrinks.
    step: f64,
    /// True if lines are still to be moved.
    settling: bool,
}

impl Shape {
    fn read(geometry: &Geometry, settings: &Settings) -> Result<Shape, SettingsError> {
        let capacity = geometry.lines;
        room_for::<FLAGS>("w-tiny-lfu", capacity, 2.0)?;
        let window = share(capacity, settings.number("window", 0.0, 1.0)?).max(1);
        Ok(Shape {
            capacity,
            window,
            protected: share(capacity - window, settings.number("protected", 0.0, 1.0)?),
            sample: u64::from(capacity) * settings.count("sample", 1, 100)?,
            seed: geometry.seed,
            adapts: settings.choice("adapt", &["no", "yes"])? == 1,
        })
    }
}

impl Climber {
    /// Ends a period; by how many lines the window's share changes.
    fn next_step(&mut self, capacity: u32) -> i64 {
        let ratio = self.hits as f64 / self.accesses as f64;
        let change = ratio - self.before;
        let step = if change >= 0.0 { self.step } else { -self.step };
        self.step = if change.abs() >= CLIMB_RESTART {
            f64::from(capacity) * CLIMB_STEP * step.signum()
        } else {
            step * CLIMB_DECAY
        };
        (self.hits, self.accesses, self.before) = (0, 0, ratio);
        step.round() as i64
    }
}

/// Window TinyLFU.
#[derive(Debug)]
pub(crate) struct WTinyLfu {
    words: Words<FLAGS>,
    window: Log<FLAGS>,
    probation: Log<FLAGS>,
    protected: Log<FLAGS>,
    sketch: Sketch,
    counted: u64,
    sample: u64,
    capacity: u32,
    window_share: u32,
    protected_share: u32,
    climber: Option<Climber>,
}

impl WTinyLfu {
    fn new(shape: &Shape) -> WTinyLfu {
        assert!(shape.capacity > 0, "a cache holds at least one line");
        let main = shape.capacity - shape.window;
        let log = |live: u32, place| {
            // Queues whose shares change may each get nearly the whole cache.
            let (live, spare) =
                if shape.adapts { (shape.capacity, shape.capacity / 4) } else { (live, live) };
            Log::new(live + 1, spare + 16, PLACE, &[place])
        };
        let climber = Climber {
            hits: 0,
            accesses: 0,
            before: 0.0,
            step: f64::from(shape.capacity) * CLIMB_STEP,
            settling: false,
        };
        WTinyLfu {
            words: Words::new(),
            window: log(shape.window, WINDOW),
            probation: log(main, PROBATION),
            protected: log(shape.protected, PROTECTED),
            sketch: Sketch::new(shape.capacity, SKETCH_BYTES_PER_LINE, shape.seed),
            counted: 0,
            sample: shape.sample,
            capacity: shape.capacity,
            window_share: shape.window,
            protected_share: shape.protected,
            climber: shape.adapts.then_some(climber),
        }
    }

    /// Takes note of an access for the climber, and moves what its last step left to move.
    fn climb(&mut self, hit: bool) {
        let capacity = self.capacity;
        let Some(climber) = &mut self.climber else { return };
        climber.hits += u64::from(hit);
        climber.accesses += 1;
        if climber.accesses >= CLIMB_PERIOD * u64::from(capacity) {
            let step = climber.next_step(capacity);
            self.shift_share(step);
        }
        if self.climber.as_ref().is_some_and(|climber| climber.settling) {
            self.settle_shares();
        }
    }

    /// Gives `step` lines of main's share to the window, protected's first, or takes them back.
    fn shift_share(&mut self, step: i64) {
        // Main keeps a line, if there is more than one.
        let largest = i64::from(self.capacity.max(2) - 1);
        let window = (i64::from(self.window_share) + step).clamp(1, largest);
        let gained = window - i64::from(self.window_share);
        let protected = i64::from(self.protected_share) - gained;
        self.window_share = window as u32;
        self.protected_share = protected.clamp(0, largest - window) as u32;
        if let Some(climber) = &mut self.climber {
            climber.settling = true;
        }
    }

    /// Moves a few lines towards the queues' new shares.
    fn settle_shares(&mut self) {
        for _ in 0..MOVED_MAX {
            if self.protected.len() > self.protected_share {
                let oldest = self.protected.pop(&self.words).expect("it has more than its share");
                self.probation.push(&mut self.words, oldest, PROBATION);
            } else if self.window.len() > self.window_share {
                let oldest = self.window.pop(&self.words).expect("it has more than its share");
                self.probation.push(&mut self.words, oldest, PROBATION);
            } else if self.window.len() < self.window_share
                && Replacement::resident(self) == self.capacity
                && let Some(oldest) = self.probation.pop(&self.words)
            {
                self.window.push(&mut self.words, oldest, WINDOW);
            } else {
                if let Some(climber) = &mut self.climber {
                    climber.settling = false;
                }
                return;
            }
        }
    }

    #[inline]
    fn count(&mut self, line: LineId) {
        if self.sketch.count(line) {
            self.counted += 1;
            if self.counted >= self.sample {
                // What rounding down takes away is four counters an access.
                let odd = self.sketch.halve();
                self.counted = self.counted.saturating_sub(odd / 4) / 2;
            }
        }
    }

    #[inline]
    fn hit(&mut self, line: LineId, place: u32) {
        let log = if place == WINDOW { &mut self.window } else { &mut self.protected };
        if place == PROBATION {
            self.probation.forget();
            self.protected.push(&mut self.words, line, PROTECTED);
            if self.protected.len() > self.protected_share {
                let oldest = self.protected.pop(&self.words).expect("it just grew");
                self.probation.push(&mut self.words, oldest, PROBATION);
            }
        } else if !log.is_newest(&self.words, line) {
            log.forget();
            log.push(&mut self.words, line, place);
        }
    }

    /// Finds room for the oldest of an overfull window; the line that leaves the cache, if it is
    /// full.
    fn settle_candidate(&mut self) -> Option<LineId> {
        let candidate = self.window.pop(&self.words).expect("the window is overfull");
        // The candidate is in no queue now, the newcomer is.
        if Replacement::resident(self) < self.capacity {
            self.probation.push(&mut self.words, candidate, PROBATION);
            return None;
        }
        let probation = !self.probation.is_empty();
        let queue = if probation { &mut self.probation } else { &mut self.protected };
        let Some(victim) = queue.oldest(&self.words) else {
            self.words.clear(candidate);
            return Some(candidate);
        };
        if self.sketch.estimate(candidate) <= self.sketch.estimate(victim) {
            self.words.clear(candidate);
            return Some(candidate);
        }
        queue.pop(&self.words);
        self.words.clear(victim);
        self.probation.push(&mut self.words, candidate, PROBATION);
        Some(victim)
    }
}

impl Replacement for WTinyLfu {
    fn reserve(&mut self, universe: u32) {
        self.words.reserve(universe);
    }

    #[inline]
    fn access(&mut self, line: LineId) -> Outcome {
        self.count(line);
        let place = self.words.flags(line);
        if self.climber.is_some() {
            self.climb(place != 0);
        }
        // The climber may just have moved the line.
        let place = if place == 0 { 0 } else { self.words.flags(line) };
        if place != 0 {
            self.hit(line, place);
            return Outcome::HIT;
        }
        self.window.push(&mut self.words, line, WINDOW);
        if self.window.len() <= self.window_share && self.resident() <= self.capacity {
            return Outcome::ADMITTED;
        }
        self.settle_candidate().map_or(Outcome::ADMITTED, Outcome::evicting)
    }

    fn contains(&self, line: LineId) -> bool {
        self.words.flags(line) != 0
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        match self.words.flags(line) {
            WINDOW => self.window.forget(),
            PROBATION => self.probation.forget(),
            PROTECTED => self.protected.forget(),
            _ => return false,
        }
        self.words.clear(line);
        true
    }

    #[inline]
    fn resident(&self) -> u32 {
        self.window.len() + self.probation.len() + self.protected.len()
    }

    fn footprint(&self) -> Footprint {
        let logs = self.window.bytes() + self.probation.bytes() + self.protected.bytes();
        Footprint { resident: logs + self.sketch.bytes(), index: self.words.bytes() }
    }

    #[inline]
    fn prefetch_far(&self, line: LineId) {
        self.words.prefetch(line);
        self.sketch.prefetch(line);
    }
}

#[cfg(test)]
mod tests;
