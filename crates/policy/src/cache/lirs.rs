//! LIRS: rank lines by the distance between their last two accesses, not by the last one alone.
//!
//! 1. Resident lines are LIR (low inter-reference recency, nearly all of the cache) or HIR (the
//!    `hir` share). The *stack* orders by last access the LIR lines, the HIR lines accessed since
//!    the oldest LIR line was, and *ghosts*, HIR lines that were evicted. The *queue* holds the
//!    resident HIR lines.
//! 2. The oldest stack entry is always LIR: *pruning* drops HIR lines and ghosts below it.
//! 3. Hit on a LIR line: to the top of the stack; prune.
//! 4. Hit on a HIR line in the stack: it becomes LIR on top; the oldest LIR line leaves the stack
//!    and becomes the newest of the queue; prune.
//! 5. Hit on a HIR line that is not in the stack: newest of the stack and of the queue, still HIR.
//!    With `demote=yes` and a full LIR share the oldest LIR line is demoted as in 4, which leaves
//!    one LIR place free and lets the oldest line of a full queue go (not when the queue has one
//!    line).
//! 6. Miss: while the LIR share is not full, a line without ghost becomes LIR. Otherwise the oldest
//!    of the queue is evicted (a ghost, if it is in the stack) and the line enters as LIR if it was
//!    a ghost (demoting as in 4), else as HIR in stack and queue.
//! 7. After a miss, while the stack has more than `stack` × capacity entries, its oldest ghost is
//!    dropped. This bound matters: with 3 instead of 2, hit ratios move by points on some traces.
//!
//! Source: Jiang & Zhang, "LIRS: an efficient low inter-reference recency set replacement policy",
//! SIGMETRICS 2002. `hir` 1 % and `stack` 2 are the values that libCacheSim 0.3.5 behaves by. Rule
//! 5's demotion is libCacheSim's as well (found by comparing outcomes); `demote=no` is the paper.
//! There the line evicted by rule 5 is gone at once. Here it keeps its room until the next miss
//! needs it, because a hit evicts nothing; if it is accessed before that, that is a hit and not a
//! miss, and all else goes on as there. Below 200 lines the queue has one line; libCacheSim then
//! counts a line that rule 5 evicted as resident, and holds more lines than its capacity: not
//! repeated here.
//!
//! State: 16.1 B a cached line (8 B × `stack` and 12 B × `hir`), 8 B a distinct line. O(1)
//! amortised: ghosts become older in the order of the stack (the queue is in stack order), so that
//! the search for the oldest one passes each entry once.

use super::log::{Log, Words, room_for, share};
use super::{Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::LineId;

pub(crate) const ENTRY: Entry = Entry {
    name: "lirs",
    summary: "keeps lines whose last two accesses were close together, remembers evicted ones",
    source: "Jiang & Zhang, SIGMETRICS 2002; parameters of libCacheSim 0.3.5",
    settings: &[
        Setting {
            name: "hir",
            default: "0.01",
            unit: "fraction of the cache",
            help: "share of lines on probation; at least one line",
        },
        Setting {
            name: "stack",
            default: "2",
            unit: "multiple of the cache",
            help: "bound of the stack, ghosts included; 1 to 8; more memory, often more hits",
        },
        Setting {
            name: "demote",
            default: "yes",
            unit: "yes or no",
            help: "whether a hit on a queued line outside the stack demotes a LIR line, as in \
                   libCacheSim, or not, as in the paper",
        },
    ],
    build: Build::Cache(|geometry, settings| {
        Ok(Box::new(Lirs::new(&Shape::read(geometry.lines, settings)?)))
    }),
};

const FLAGS: u32 = 3;
/// All flags are the place.
const PLACE: u32 = 0b111;
const NOWHERE: u32 = 0;
const LIR: u32 = 1;
/// Resident, in the stack and in the queue.
const HIR: u32 = 2;
/// Mark of a line in the stack that is not resident.
const GHOST: u32 = 3;
/// Resident, in the queue only.
const QUEUED: u32 = 4;

/// The queue's own words have one place.
const QUEUE_FLAGS: u32 = 1;

/// Sizes in lines.
struct Shape {
    capacity: u32,
    hir: u32,
    stack: u32,
    demote: bool,
}

impl Shape {
    fn read(capacity: u32, settings: &Settings) -> Result<Shape, SettingsError> {
        let stack = settings.number("stack", 1.0, 8.0)?;
        room_for::<FLAGS>("lirs", capacity, 2.0 * (stack + 1.0))?;
        Ok(Shape {
            capacity,
            hir: share(capacity, settings.number("hir", 0.0, 1.0)?).max(1),
            stack: share(capacity, stack),
            demote: settings.choice("demote", &["yes", "no"])? == 0,
        })
    }
}

/// Low inter-reference recency set.
#[derive(Debug)]
pub(crate) struct Lirs {
    words: Words<FLAGS>,
    stack: Log<FLAGS>,
    queue_words: Words<QUEUE_FLAGS>,
    queue: Log<QUEUE_FLAGS>,
    /// A line that rule 5 evicted and whose room no miss has needed yet.
    lingering: Option<LineId>,
    lir_count: u32,
    ghost_count: u32,
    /// No ghost has a lower ordinal in the stack.
    ghosts_from: u64,
    capacity: u32,
    hir_share: u32,
    stack_bound: u32,
    demote: bool,
}

impl Lirs {
    fn new(shape: &Shape) -> Lirs {
        assert!(shape.capacity > 0, "a cache holds at least one line");
        // Between two misses, hits may lift every queued line into the stack.
        let live = shape.stack + shape.hir + 2;
        let queue = shape.hir.min(shape.capacity) + 1;
        Lirs {
            words: Words::new(),
            stack: Log::new(live, shape.stack.max(16), PLACE, &[LIR, HIR, GHOST]),
            queue_words: Words::new(),
            queue: Log::new(queue, queue + 16, 1, &[1]),
            lingering: None,
            lir_count: 0,
            ghost_count: 0,
            ghosts_from: 0,
            capacity: shape.capacity,
            hir_share: shape.hir,
            stack_bound: shape.stack,
            demote: shape.demote,
        }
    }

    fn lir_share(&self) -> u32 {
        self.capacity - self.hir_share
    }

    /// Lines resident but for the lingering one.
    fn counted(&self) -> u32 {
        self.lir_count + self.queue.len()
    }

    #[inline]
    fn hit_lir(&mut self, line: LineId) {
        if self.stack.is_newest(&self.words, line) {
            return;
        }
        let was_oldest = self.stack.is_oldest(&self.words, line);
        self.stack.forget();
        self.stack.push(&mut self.words, line, LIR);
        if was_oldest {
            self.prune();
        }
    }

    fn hit_hir(&mut self, line: LineId) {
        self.queue.forget();
        self.queue_words.clear(line);
        self.stack.forget();
        let evicted = self.enter_as_lir(line);
        debug_assert!(evicted.is_none(), "the line itself left the queue");
    }

    /// Puts `line` on top of the stack as LIR; the line evicted from the queue, if any.
    fn enter_as_lir(&mut self, line: LineId) -> Option<LineId> {
        self.stack.push(&mut self.words, line, LIR);
        self.lir_count += 1;
        if self.lir_count > self.lir_share() {
            return self.demote_oldest();
        }
        self.prune();
        None
    }

    fn hit_queued(&mut self, line: LineId) {
        self.queue.forget();
        self.queue.push(&mut self.queue_words, line, 1);
        let lir_full = self.lir_count == self.lir_share() && self.lir_count > 0;
        // A queue of one line would evict the very line that was hit.
        if self.demote && lir_full && self.hir_share > 1 {
            let evicted = self.demote_oldest();
            assert!(evicted.is_none() || self.lingering.is_none(), "only a full cache evicts");
            self.lingering = evicted.or(self.lingering);
        }
        self.stack.push(&mut self.words, line, HIR);
    }

    /// The oldest LIR line becomes the newest of the queue; the line evicted from a full queue.
    fn demote_oldest(&mut self) -> Option<LineId> {
        self.prune();
        let line = self.stack.pop(&self.words).expect("LIR lines are in the stack");
        debug_assert_eq!(self.words.flags(line), LIR);
        self.words.set_flags(line, QUEUED);
        self.lir_count -= 1;
        self.prune();
        let evicted = (self.queue.len() >= self.hir_share).then(|| self.evict_queued());
        self.queue.push(&mut self.queue_words, line, 1);
        evicted
    }

    /// Evicts the oldest of the queue; in the stack its ghost stays.
    fn evict_queued(&mut self) -> LineId {
        let victim = self.queue.pop(&self.queue_words).expect("the queue has its share");
        self.queue_words.clear(victim);
        if self.words.flags(victim) == HIR {
            self.words.set_flags(victim, GHOST);
            self.ghost_count += 1;
        } else {
            self.words.clear(victim);
        }
        victim
    }

    /// Drops what lies below the oldest LIR line.
    fn prune(&mut self) {
        while let Some(line) = self.stack.oldest(&self.words) {
            match self.words.flags(line) {
                LIR => return,
                HIR => self.words.set_flags(line, QUEUED),
                _ => {
                    self.words.clear(line);
                    self.ghost_count -= 1;
                }
            }
            self.stack.forget();
        }
    }

    fn miss(&mut self, line: LineId, place: u32) -> Option<LineId> {
        let mut evicted = None;
        if place == GHOST {
            self.stack.forget();
            self.ghost_count -= 1;
            evicted = self.enter_as_lir(line);
        } else if self.lir_count < self.lir_share() {
            self.lir_count += 1;
            self.stack.push(&mut self.words, line, LIR);
        } else {
            if self.queue.len() >= self.hir_share {
                evicted = Some(self.evict_queued());
            }
            self.stack.push(&mut self.words, line, HIR);
            self.queue.push(&mut self.queue_words, line, 1);
        }
        while self.ghost_count > 0 && self.stack.len() > self.stack_bound {
            self.drop_oldest_ghost();
        }
        evicted
    }

    fn drop_oldest_ghost(&mut self) {
        let found = self.stack.find_from(&self.words, self.ghosts_from, GHOST);
        let (ordinal, line) = found.expect("ghosts are counted and none is below the mark");
        self.ghosts_from = ordinal + 1;
        self.words.clear(line);
        self.stack.forget();
        self.ghost_count -= 1;
    }
}

impl Replacement for Lirs {
    fn reserve(&mut self, universe: u32) {
        self.words.reserve(universe);
        self.queue_words.reserve(universe);
    }

    #[inline]
    fn access(&mut self, line: LineId) -> Outcome {
        let place = self.words.flags(line);
        match place {
            LIR => self.hit_lir(line),
            HIR => self.hit_hir(line),
            QUEUED => self.hit_queued(line),
            _ => {
                let mut evicted = self.miss(line, place);
                if self.lingering == Some(line) {
                    self.lingering = None;
                    return Outcome::HIT;
                }
                if evicted.is_none() && self.counted() == self.capacity {
                    evicted = self.lingering.take();
                }
                return evicted.map_or(Outcome::ADMITTED, Outcome::evicting);
            }
        }
        Outcome::HIT
    }

    fn contains(&self, line: LineId) -> bool {
        matches!(self.words.flags(line), LIR | HIR | QUEUED) || self.lingering == Some(line)
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        if self.lingering == Some(line) {
            self.lingering = None;
            return true;
        }
        let place = self.words.flags(line);
        match place {
            NOWHERE | GHOST => return false,
            LIR => self.lir_count -= 1,
            _ => {
                self.queue.forget();
                self.queue_words.clear(line);
            }
        }
        if place != QUEUED {
            self.stack.forget();
        }
        self.words.clear(line);
        self.prune();
        true
    }

    fn resident(&self) -> u32 {
        self.counted() + u32::from(self.lingering.is_some())
    }

    fn footprint(&self) -> Footprint {
        Footprint {
            resident: self.stack.bytes() + self.queue.bytes(),
            index: self.words.bytes() + self.queue_words.bytes(),
        }
    }

    #[inline]
    fn prefetch_far(&self, line: LineId) {
        self.words.prefetch(line);
    }

    #[inline]
    fn prefetch_near(&self, line: LineId) {
        if self.words.flags(line) != LIR {
            self.queue_words.prefetch(line);
        }
    }
}

#[cfg(test)]
mod tests;
