//! Log of what a disk has written and not yet made durable, and of what a crash leaves of it.
//!
//! 1. Changes are logged in the order of their completion. A flush applies those that had been
//!    reported complete when it was submitted to the durable image, in that order.
//! 2. A forced write (FUA) stays in the log as a change that is durable: after a crash nothing
//!    older shows through it, while younger volatile changes still may or may not.
//! 3. A crash cuts the changed sectors at all ends of changes. Each piece has its candidates: the
//!    durable image or the youngest durable change, and every volatile change after that. Which
//!    one survives is drawn for the piece as a whole or for each sector alone.
//!
//! The log holds at most [`CHANGES_MAX`] changes; beyond that the oldest is written back, as a
//! disk's cache may do at any time.

use super::image::{Effect, Image};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use thermocline_units::Rng;

/// Changes kept before the oldest is written back unasked.
const CHANGES_MAX: usize = 1 << 14;

/// Pieces into which one torn range falls at most; beyond that, runs of sectors share a fate.
const PIECES_MAX: u64 = 4096;

/// Sectors that many devices write as one: 4 KiB.
const PAGE: u64 = 8;

/// The fate of volatile sectors in a crash: of the machine, or of the program alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// All are old: only what was durable is left.
    Lost,
    /// All are new, those of writes in flight included.
    Kept,
    /// Each is any of its versions since it was last durable.
    Torn,
    /// The power stays on, and the program was killed: all that was answered is there and volatile
    /// still. A write in flight was carried through, or reached the device's cache with any of its
    /// sectors.
    Cached,
}

impl Survival {
    /// One of the four: [`Survival::Torn`] three times in eight, [`Survival::Kept`] once, the
    /// others twice.
    pub fn draw(rng: &mut Rng) -> Survival {
        match rng.below(8) {
            0 | 1 => Survival::Lost,
            2 => Survival::Kept,
            3 | 7 => Survival::Cached,
            _ => Survival::Torn,
        }
    }
}

/// Changes since the last flush, oldest first, over the durable image.
#[derive(Debug, Clone)]
pub(super) struct Log {
    durable: Image,
    changes: VecDeque<Effect>,
    /// Changes that have left the log for the durable image, ever.
    written_back: u64,
}

impl Log {
    /// Nothing but `durable`.
    pub(super) fn new(durable: Image) -> Log {
        Log { durable, changes: VecDeque::new(), written_back: 0 }
    }

    /// Logs a change that completed.
    pub(super) fn push(&mut self, effect: Effect) {
        self.changes.push_back(effect);
        if self.changes.len() > CHANGES_MAX {
            self.write_back(self.written_back + 1);
        }
        self.settle();
    }

    /// A mark that covers every change logged until now.
    pub(super) fn mark(&self) -> u64 {
        self.written_back + self.changes.len() as u64
    }

    /// Makes every change before `mark` durable.
    pub(super) fn write_back(&mut self, mark: u64) {
        while self.written_back < mark {
            self.write_back_oldest();
        }
        self.settle();
    }

    /// True if a volatile change touches `range`.
    pub(super) fn is_volatile(&self, range: &Range<u64>) -> bool {
        let touches = |c: &Effect| c.range.start < range.end && range.start < c.range.end;
        self.changes.iter().any(|change| !change.durable && touches(change))
    }

    /// The image that would survive if everything volatile were lost.
    pub(super) fn durable(&self, range: &Range<u64>) -> Image {
        let mut image = Image::new(super::image::Content::Zeroes);
        for (run, content) in self.durable.runs(range.clone()) {
            image.write(run, content);
        }
        for change in self.changes.iter().filter(|c| c.durable) {
            image.write(change.range.clone(), change.content.clone());
        }
        image
    }

    /// Power is lost: draws what survives of the log, and starts again from that. None when it was
    /// not lost.
    pub(super) fn crash(&mut self, rng: &mut Rng, survival: Survival) -> Option<&Image> {
        if survival == Survival::Cached {
            return None;
        }
        let changes = std::mem::take(&mut self.changes);
        self.written_back += changes.len() as u64;
        match survival {
            Survival::Lost => self.apply(changes.iter().filter(|c| c.durable)),
            Survival::Torn => self.apply_torn(rng, changes.into()),
            Survival::Kept | Survival::Cached => self.apply(changes.iter()),
        }
        Some(&self.durable)
    }

    fn apply<'a>(&mut self, changes: impl Iterator<Item = &'a Effect>) {
        for change in changes {
            self.durable.write(change.range.clone(), change.content.clone());
        }
    }

    fn apply_torn(&mut self, rng: &mut Rng, changes: Vec<Effect>) {
        let mut ends: Vec<(u64, usize)> = Vec::with_capacity(2 * changes.len());
        for (index, change) in changes.iter().enumerate() {
            ends.extend([(change.range.start, index), (change.range.end, index)]);
        }
        ends.sort_unstable();
        let mut covering: BTreeSet<usize> = BTreeSet::new();
        let mut at = 0;
        for (end, index) in ends {
            if at < end && !covering.is_empty() {
                let candidates = candidates(&changes, &covering);
                tear(rng, at..end, candidates.len(), |run, choice| {
                    if let Some(change) = candidates[choice].map(|index| &changes[index]) {
                        let part = change.part(run);
                        self.durable.write(part.range, part.content);
                    }
                });
            }
            at = end;
            if !covering.remove(&index) {
                covering.insert(index);
            }
        }
    }

    /// Durable changes need no log once nothing older is in front of them.
    fn settle(&mut self) {
        while self.changes.front().is_some_and(|change| change.durable) {
            self.write_back_oldest();
        }
    }

    fn write_back_oldest(&mut self) {
        let change = self.changes.pop_front().expect("marks cover logged changes only");
        self.durable.write(change.range, change.content);
        self.written_back += 1;
    }
}

/// Changes that a sector under `covering` may show after a crash; `None` is the durable image.
fn candidates(changes: &[Effect], covering: &BTreeSet<usize>) -> Vec<Option<usize>> {
    let mut candidates = vec![None];
    for &index in covering {
        if changes[index].durable {
            candidates.clear();
        }
        candidates.push(Some(index));
    }
    candidates
}

/// Cuts `range` into runs and draws one of `choices` for each: one for all of it, sector by sector,
/// or, as many devices tear, by [`PAGE`]s from its start.
pub(super) fn tear(
    rng: &mut Rng,
    range: Range<u64>,
    choices: usize,
    mut each: impl FnMut(Range<u64>, usize),
) {
    let draw = |rng: &mut Rng| rng.below(choices as u64) as usize;
    let step = match rng.below(4) {
        0 | 1 => range.end - range.start,
        2 => PAGE.max((range.end - range.start).div_ceil(PIECES_MAX)),
        _ => (range.end - range.start).div_ceil(PIECES_MAX),
    };
    let mut run = range.start..range.start;
    let mut choice = 0;
    while run.end < range.end {
        let next = draw(rng);
        if next != choice && !run.is_empty() {
            each(run.clone(), choice);
            run.start = run.end;
        }
        choice = next;
        run.end = (run.end + step).min(range.end);
    }
    each(run, choice);
}
