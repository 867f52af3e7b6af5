//! Store of all hints, with their sources, and a score of how far each source was right.
//!
//! 1. A hint joins its source's ranges of its level and volume. There are bounds on sources and
//!    ranges; a hint beyond them is refused, and nothing that was said before goes because of it.
//! 2. A chunk's hint: of the ranges that touch it, those of the most specific level; of these the
//!    class that is kept longest. What has expired, and what comes from a source that is not
//!    trusted with its class, does not count.
//! 3. Scores, at an epoch's end, by `accounts`: for each chunk the time that users waited less, or
//!    longer, because its hint was followed. A hint whose own chunk is below [`TRUST`] is not
//!    followed there. The score of a source's class is the mean over its bytes, quiet ones counted
//!    as neutral; below [`TRUST`] the class is not followed anywhere, until its score is above it
//!    again (`scoring`).
//! 4. Pins have a budget, a share of each pool's chunks. Those that cost more than they save, and
//!    those beyond the budget, the least accessed first, are not held.
//!
//! State: see [`Hints::memory`]; about 72 B a range (`ranges`), 32 B a score. A chunk's hint
//! O(layers × log n); an epoch O(ranges + chunks).

use super::accounts::{ACCOUNTS_MAX, Accounts, Judged, NEUTRAL, Owner, PinScore};
use super::ranges::{DEMOTED, Mark, PINNED, Ranges};
use super::rules::Classes;
use super::scoring::{Score, UNKNOWN};
use super::{BACKGROUND_MS_MAX, Facts, Level, Wishes};
use crate::placement::{Accesses, VolumeView};
use std::ops::Range;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// Ranges of all sources together.
pub const RANGES_MAX: usize = 1 << 20;
/// Ranges of one source among these: none can shut the others out.
pub(crate) const SOURCE_RANGES_MAX: usize = RANGES_MAX / 8 * 7;
/// Sources.
pub(crate) const SOURCES_MAX: usize = 64;
/// Bytes of a source's name.
pub(crate) const SOURCE_NAME_MAX: usize = 64;

/// Below this score a hint is not followed.
pub const TRUST: f64 = 0.4;
const _: () = assert!(TRUST < NEUTRAL, "what nothing is known of is followed");
/// Share of each pool's chunks that may be pinned, where nobody says otherwise.
pub const PIN_SHARE: f64 = 0.5;

/// Bytes that a range takes: 40 B in nodes of the tree that are little more than half full, as
/// those are that were filled in order; measured.
const RANGE_BYTES: u64 = 72;

/// Every volume.
const EVERY: VolumeId = VolumeId(u32::MAX);

/// One hint on its way in.
#[derive(Debug, Clone, Copy)]
pub struct Hint<'a> {
    /// Name of the source.
    pub source: &'a str,
    /// Its subject.
    pub level: Level,
    /// The volume; `None`: every one.
    pub volume: Option<VolumeId>,
    /// Bytes of the volume, not empty.
    pub range: (u64, u64),
    /// Its facts.
    pub facts: &'a Facts,
    /// Its wishes.
    pub wishes: Wishes,
    /// Time at which it is forgotten; `None`: when it is replaced.
    pub until: Option<Nanos>,
}

/// A range that is held, as it is kept over a restart: what was said of it has become a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held<'a> {
    /// Name of the source.
    pub source: &'a str,
    /// Its subject.
    pub level: Level,
    /// The volume; `None`: every one.
    pub volume: Option<VolumeId>,
    /// Bytes of the volume, not empty; to the end where it is `u64::MAX`.
    pub range: (u64, u64),
    /// Name of its class.
    pub class: &'a str,
    /// Its wishes.
    pub wishes: Wishes,
    /// Time at which it is forgotten; `None`: when it is replaced.
    pub until: Option<Nanos>,
}

/// A hint that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HintError {
    /// The range is empty or ends before it begins.
    #[error("the range {0}..{1} is empty; give an offset and a length above 0")]
    Range(u64, u64),
    /// No name, or too long a one.
    #[error("a source is named with 1 to {SOURCE_NAME_MAX} bytes")]
    Name,
    /// Too many sources.
    #[error("there are {SOURCES_MAX} sources of hints; withdraw one first")]
    Sources,
    /// Too many ranges.
    #[error(
        "{0} holds {1} ranges; {RANGES_MAX} in all, and {SOURCE_RANGES_MAX} of one source, are the \
         most; withdraw some first, or give larger ranges"
    )]
    Full(String, usize),
    /// A wait out of bounds.
    #[error("requests may wait 1 to {BACKGROUND_MS_MAX} ms, not {0}")]
    Wait(u32),
    /// A class that the table does not have.
    #[error("the table of classes has no class {0}")]
    Class(String),
}

/// Hints for a chunk, as they hold now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHint {
    /// Its class.
    pub class: u8,
    /// Number of the source that said so.
    pub source: u8,
    /// Placements leave it.
    pub pinned: bool,
    /// True if it goes to the slowest pool.
    pub demoted: bool,
}

/// The hint that decides of a chunk, trusted or not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decider {
    level: Level,
    pub(super) hint: ChunkHint,
    /// Bytes of the chunk that hints of this owner speak of.
    pub(super) bytes: u64,
}

impl Decider {
    pub(super) fn owner(&self) -> Owner {
        (self.hint.source, self.hint.class)
    }
}

/// A chunk that exists, what hints say of it, and what it did.
#[derive(Debug, Clone, Copy)]
pub(super) struct Living {
    pub(super) chunk: ChunkId,
    pub(super) home: PoolId,
    pub(super) accesses: Accesses,
    /// The hint that decides, trusted or not.
    pub(super) said: Option<Decider>,
    /// The hint that is followed.
    pub(super) hint: Option<(Level, ChunkHint)>,
    /// True if an administrator pinned it.
    pub(super) pinned: bool,
}

impl Living {
    /// True if the hint that decides is followed.
    pub(super) fn is_followed(&self) -> bool {
        let owner = self.said.as_ref().map(Decider::owner);
        self.hint.is_some_and(|(_, hint)| Some((hint.source, hint.class)) == owner)
    }

    /// True if the hint that decides pins it, held or not.
    pub(super) fn is_pinned_by_hint(&self) -> bool {
        self.said.is_some_and(|said| said.hint.pinned)
    }
}

/// Chunks of which a source said that they are of a class, and accesses to them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    pub(super) chunks: u64,
    pub(super) accesses: u64,
    /// The last one that was counted.
    last: Option<ChunkId>,
}

/// A source of hints.
#[derive(Debug)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Hints that were taken.
    pub taken: u64,
    /// Hints that were refused.
    pub refused: u64,
    /// Ranges that it holds.
    pub ranges: usize,
    pub(super) scores: Vec<Score>,
}

impl Source {
    /// Scores of classes it spoke of, with their numbers.
    pub fn scores(&self) -> impl Iterator<Item = (u8, Score)> {
        let scores = (0..).zip(&self.scores).map(|(class, score)| (class, *score));
        scores.filter(|(_, score)| score.chunks > 0 || score.epochs > 0)
    }

    pub(super) fn is_trusted(&self, class: u8) -> bool {
        self.scores.get(usize::from(class)).is_none_or(|score| score.value >= TRUST)
    }
}

#[derive(Debug)]
struct Layer {
    level: Level,
    source: u8,
    volume: VolumeId,
    ranges: Ranges,
}

/// Level, volume, bytes, wishes and end of a hint.
type Said = (Level, Option<VolumeId>, (u64, u64), Wishes, Option<Nanos>);

/// Hints by source, level and volume.
#[derive(Debug)]
pub struct Hints {
    classes: Classes,
    pub(super) sources: Vec<Source>,
    /// The most specific first.
    layers: Vec<Layer>,
    ranges: usize,
    /// True if a hint lets requests wait.
    waits: bool,
    /// True if one ever had an end.
    expires: bool,
    pub(super) accounts: Accounts,
    /// Share of each pool's chunks that may be pinned.
    pub(super) pin_share: f64,
    /// Scores of pins by pool.
    pub(super) pins: Vec<PinScore>,
}

impl Default for Hints {
    fn default() -> Hints {
        Hints {
            classes: Classes::default(),
            sources: Vec::new(),
            layers: Vec::new(),
            ranges: 0,
            waits: false,
            expires: false,
            accounts: Accounts::default(),
            pin_share: PIN_SHARE,
            pins: Vec::new(),
        }
    }
}

impl Hints {
    /// No hints, to be classified by `classes`.
    pub fn new(classes: Classes) -> Hints {
        Hints { classes, ..Hints::default() }
    }

    /// The table.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// True if nobody said anything.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Ranges held.
    pub fn len(&self) -> usize {
        self.ranges
    }

    /// Sources, by number.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Memory that ranges and accounts take, in bytes.
    pub fn memory(&self) -> u64 {
        let layers = self.layers.capacity() as u64 * size_of::<Layer>() as u64;
        self.ranges as u64 * RANGE_BYTES + layers + self.accounts.memory()
    }

    /// Share of each pool's chunks that may be pinned, 0 to 1.
    pub fn pin_share(&self) -> f64 {
        self.pin_share
    }

    /// Sets the share of each pool's chunks that may be pinned.
    ///
    /// # Panics
    /// When it is not 0 to 1.
    pub fn set_pin_share(&mut self, share: f64) {
        assert!((0.0..=1.0).contains(&share), "a share is 0 to 1");
        self.pin_share = share;
    }

    /// Pins by pool, fastest first, as the last epoch found them; empty before one has ended.
    pub fn pins(&self) -> &[PinScore] {
        &self.pins
    }

    /// Ranges of which something is known, by volume and place, at most [`ACCOUNTS_MAX`].
    pub fn judged(&self) -> Vec<Judged> {
        let judged = self.accounts.judged();
        assert!(judged.len() <= ACCOUNTS_MAX, "accounts are bounded");
        judged
    }

    /// A chunk was written first where its hint wants it, instead of on pool `would`.
    pub fn note_placed(&mut self, chunk: ChunkId, hint: ChunkHint, would: PoolId) {
        self.accounts.begin(chunk, (hint.source, hint.class), would);
    }

    /// Takes a hint; its class.
    ///
    /// # Errors
    /// When it is malformed, or there are too many; nothing has changed then.
    pub fn take(&mut self, now: Nanos, hint: &Hint<'_>) -> Result<u8, HintError> {
        if let Err(error) = check(hint.range, hint.wishes) {
            // A new source would take the place of a silent one, whose scores would be gone.
            let known = self.sources.iter_mut().find(|source| source.name == hint.source);
            known.into_iter().for_each(|source| source.refused += 1);
            return Err(error);
        }
        let source = self.source(hint.source)?;
        let taken = self.take_from(now, source, hint);
        let source = &mut self.sources[usize::from(source)];
        match taken {
            Ok(_) => source.taken += 1,
            Err(_) => source.refused += 1,
        }
        taken
    }

    fn take_from(&mut self, now: Nanos, source: u8, hint: &Hint<'_>) -> Result<u8, HintError> {
        let said = (hint.level, hint.volume, hint.range, hint.wishes, hint.until);
        self.mark_from(now, source, said, |classes| classes.of(hint.facts, Bytes(hint.range.0)))
    }

    /// Marks a range with the class that `class` says; the class.
    fn mark_from(
        &mut self,
        now: Nanos,
        source: u8,
        (level, volume, (start, end), wishes, until): Said,
        class: impl FnOnce(&Classes) -> u8,
    ) -> Result<u8, HintError> {
        let wait_ms = check((start, end), wishes)?;
        // A hint in the midst of another makes three of one.
        let is_full = |hints: &Hints| {
            let of_source = hints.sources[usize::from(source)].ranges;
            hints.ranges + 2 > RANGES_MAX || of_source + 2 > SOURCE_RANGES_MAX
        };
        if is_full(self) {
            self.expire(now);
            if is_full(self) {
                let source = &self.sources[usize::from(source)];
                return Err(HintError::Full(source.name.clone(), source.ranges));
            }
        }
        let class = class(&self.classes);
        let pinned = if wishes.pin { PINNED } else { 0 };
        let demoted = if wishes.demote { DEMOTED } else { 0 };
        let mark = Mark { class, flags: pinned | demoted, wait_ms };
        self.waits |= wait_ms > 0;
        self.expires |= until.is_some();
        self.change(source, level, volume.unwrap_or(EVERY), |ranges| {
            ranges.mark(start..end, until.unwrap_or(Nanos(u64::MAX)), mark);
        });
        Ok(class)
    }

    /// All ranges that are held at `now`.
    pub fn held(&self, now: Nanos) -> impl Iterator<Item = Held<'_>> {
        self.layers.iter().flat_map(move |layer| {
            layer.ranges.held(now).map(move |(range, until, mark)| Held {
                source: &self.sources[usize::from(layer.source)].name,
                level: layer.level,
                volume: Some(layer.volume).filter(|volume| *volume != EVERY),
                range: (range.start, range.end),
                class: &self.classes.get(mark.class).name,
                wishes: Wishes {
                    pin: mark.flags & PINNED != 0,
                    demote: mark.flags & DEMOTED != 0,
                    background_ms: Some(mark.wait_ms).filter(|wait| *wait > 0),
                },
                until: Some(until).filter(|until| until.0 != u64::MAX),
            })
        })
    }

    /// Takes back a range that was held before a restart.
    ///
    /// # Errors
    /// As [`Hints::take`], and when the table does not have its class any more.
    pub fn put_back(&mut self, now: Nanos, held: &Held<'_>) -> Result<(), HintError> {
        let known = self.classes.named(held.class);
        let class = known.ok_or_else(|| HintError::Class(held.class.to_string()))?;
        let source = self.source(held.source)?;
        let taken = (held.level, held.volume, held.range, held.wishes, held.until);
        self.mark_from(now, source, taken, |_| class).map(|_| ())
    }

    /// Scores of a source about a class, as they were before a restart.
    pub fn put_back_score(&mut self, source: &str, class: &str, score: f64) {
        let Some(class) = self.classes.named(class) else { return };
        let Ok(source) = self.source(source) else { return };
        let scores = &mut self.sources[usize::from(source)].scores;
        if let Some(known) = scores.get_mut(usize::from(class))
            && score.is_finite()
        {
            *known = Score { value: score.clamp(0.0, 1.0), epochs: 1, ..UNKNOWN };
        }
    }

    /// Withdraws what a source said of a range at a level.
    pub fn withdraw(&mut self, source: &str, level: Level, volume: VolumeId, range: Range<u64>) {
        let found = self.sources.iter().position(|known| known.name == source);
        if let Some(source) = found.filter(|_| !range.is_empty()) {
            self.change(source as u8, level, volume, |ranges| ranges.clear(range));
        }
    }

    /// Withdraws everything that a source said; what it was worth is remembered. Whether there is
    /// such a source.
    pub fn forget(&mut self, source: &str) -> bool {
        let Some(at) = self.sources.iter().position(|known| known.name == source) else {
            return false;
        };
        self.layers.retain(|layer| usize::from(layer.source) != at);
        self.recount();
        true
    }

    /// Forgets what was said of a volume that is gone.
    pub fn forget_volume(&mut self, volume: VolumeId) {
        self.layers.retain(|layer| layer.volume != volume);
        self.accounts.forget_volume(volume);
        self.recount();
    }

    /// Forgets what has expired. O(ranges) where any hint has an end.
    pub fn expire(&mut self, now: Nanos) {
        if !self.expires {
            return;
        }
        self.layers.iter_mut().for_each(|layer| layer.ranges.expire(now));
        self.recount();
    }

    fn recount(&mut self) {
        self.layers.retain(|layer| layer.ranges.len() > 0);
        self.sources.iter_mut().for_each(|source| source.ranges = 0);
        for layer in &self.layers {
            self.sources[usize::from(layer.source)].ranges += layer.ranges.len();
        }
        self.ranges = self.sources.iter().map(|source| source.ranges).sum();
        self.waits = self.waits && !self.layers.is_empty();
    }

    fn source(&mut self, name: &str) -> Result<u8, HintError> {
        if name.is_empty() || name.len() > SOURCE_NAME_MAX {
            return Err(HintError::Name);
        }
        if let Some(at) = self.sources.iter().position(|source| source.name == name) {
            return Ok(at as u8);
        }
        let scores = vec![UNKNOWN; self.classes.len()];
        let new = Source { name: name.to_string(), taken: 0, refused: 0, ranges: 0, scores };
        if self.sources.len() < SOURCES_MAX {
            self.sources.push(new);
            return Ok(self.sources.len() as u8 - 1);
        }
        // Who has nothing to say any more makes room.
        let silent = self.sources.iter().position(|source| source.ranges == 0);
        let at = silent.ok_or(HintError::Sources)?;
        self.sources[at] = new;
        self.accounts.forget_source(at as u8);
        Ok(at as u8)
    }

    fn change(
        &mut self,
        source: u8,
        level: Level,
        volume: VolumeId,
        change: impl FnOnce(&mut Ranges),
    ) {
        let place = |layer: &Layer| (std::cmp::Reverse(layer.level), layer.source, layer.volume.0);
        let wanted = (std::cmp::Reverse(level), source, volume.0);
        let at = match self.layers.binary_search_by_key(&wanted, place) {
            Ok(at) => at,
            Err(at) => {
                let ranges = Ranges::default();
                self.layers.insert(at, Layer { level, source, volume, ranges });
                at
            }
        };
        let ranges = &mut self.layers[at].ranges;
        let before = ranges.len();
        change(ranges);
        let after = ranges.len();
        if after == 0 {
            self.layers.remove(at);
        }
        let total = |count: usize| count + after - before;
        self.ranges = total(self.ranges);
        let source = &mut self.sources[usize::from(source)];
        source.ranges = total(source.ranges);
    }

    fn layers_of(&self, volume: VolumeId) -> impl Iterator<Item = &Layer> {
        self.layers.iter().filter(move |layer| layer.volume == volume || layer.volume == EVERY)
    }

    /// True if the first of two marks of one level decides: that of the class that is kept longer.
    fn comes_first(&self, mark: Mark, other: u8) -> bool {
        self.classes.get(mark.class).priority < self.classes.get(other).priority
    }

    /// Hints that hold for bytes of a chunk; `None`: nobody who is trusted said anything.
    pub fn of(&self, now: Nanos, chunk: ChunkId, chunk_size: Bytes) -> Option<ChunkHint> {
        self.decides(now, chunk, chunk_size, |mark, source| self.trusts(chunk, source, mark.class))
    }

    /// True if a source is trusted with a class in general, and about a chunk.
    pub(super) fn trusts(&self, chunk: ChunkId, source: u8, class: u8) -> bool {
        self.sources[usize::from(source)].is_trusted(class)
            && self.accounts.trusts(chunk, (source, class))
    }

    /// The hint that decides of a chunk, among those that count.
    pub(super) fn decides(
        &self,
        now: Nanos,
        chunk: ChunkId,
        chunk_size: Bytes,
        counts: impl Fn(&Mark, u8) -> bool,
    ) -> Option<ChunkHint> {
        let start = u64::from(chunk.index) * chunk_size.0;
        let mut found: Option<(Level, ChunkHint)> = None;
        for layer in self.layers_of(chunk.volume) {
            if found.is_some_and(|(level, _)| level != layer.level) {
                break;
            }
            let marks = layer.ranges.touching(now, start..start + chunk_size.0);
            for mark in marks.filter(|mark| counts(mark, layer.source)) {
                if found.is_none_or(|(_, hint)| self.comes_first(mark, hint.class)) {
                    found = Some((layer.level, layer.hint(mark)));
                }
            }
        }
        found.map(|(_, hint)| hint)
    }

    /// Longest time that requests to a range may wait; `None`: somebody waits for them. The most
    /// specific level decides on which anybody lets them wait, and there all must: who only tells
    /// what data is, as a file system does, says nothing of who waits for it.
    pub fn wait(&self, now: Nanos, volume: VolumeId, range: Range<u64>) -> Option<Nanos> {
        if !self.waits {
            return None;
        }
        let mut found: Option<(Level, u32, u32)> = None;
        for layer in self.layers_of(volume) {
            if let Some((level, _, most)) = found
                && level != layer.level
            {
                if most > 0 {
                    break;
                }
                found = None;
            }
            for mark in layer.ranges.touching(now, range.clone()) {
                let (least, most) = found
                    .map_or((mark.wait_ms, mark.wait_ms), |(_, least, most)| {
                        (least.min(mark.wait_ms), most.max(mark.wait_ms))
                    });
                found = Some((layer.level, least, most));
            }
        }
        let (_, wait, _) = found.filter(|&(_, least, _)| least > 0)?;
        Some(Nanos::from_micros(u64::from(wait) * 1000))
    }

    /// The chunks that exist, by volume and place, with their hints; and what each source said of
    /// which class, summed up.
    pub(super) fn living(&self, now: Nanos, view: &dyn VolumeView) -> (Vec<Living>, Vec<Sum>) {
        let mut living = Vec::new();
        for home in (0..view.pool_count()).map(PoolId) {
            view.visit_pool(home, &mut |chunk| {
                let accesses = view.accesses(chunk);
                let pinned = view.is_pinned(chunk);
                living.push(Living { chunk, home, accesses, said: None, hint: None, pinned });
            });
        }
        living.sort_unstable_by_key(|living| living.chunk);
        let classes = self.classes.len();
        let mut sums = vec![Sum::default(); self.sources.len() * classes];
        for layer in &self.layers {
            layer.meet(now, view.chunk_size(), &mut living, |living, mark, bytes| {
                if let Some(sum) =
                    sums.get_mut(usize::from(layer.source) * classes + usize::from(mark.class))
                {
                    sum.add(living);
                }
                let decides = |known: Option<(Level, ChunkHint)>| match known {
                    None => true,
                    Some((level, hint)) => {
                        level == layer.level && self.comes_first(mark, hint.class)
                    }
                };
                let hint = layer.hint(mark);
                match &mut living.said {
                    Some(said)
                        if said.level == layer.level
                            && said.owner() == (hint.source, hint.class) =>
                    {
                        said.bytes += bytes;
                    }
                    said if decides(said.map(|said| (said.level, said.hint))) => {
                        *said = Some(Decider { level: layer.level, hint, bytes });
                    }
                    _ => {}
                }
                if decides(living.hint) && self.trusts(living.chunk, layer.source, mark.class) {
                    living.hint = Some((layer.level, hint));
                }
            });
        }
        (living, sums)
    }
}

/// Checks what holds for every hint: its range is not empty, and its wait within the bounds; the
/// wait, in milliseconds, 0 for none.
fn check((start, end): (u64, u64), wishes: Wishes) -> Result<u32, HintError> {
    if start >= end {
        return Err(HintError::Range(start, end));
    }
    match wishes.background_ms {
        Some(wait_ms) if wait_ms == 0 || wait_ms > BACKGROUND_MS_MAX => {
            Err(HintError::Wait(wait_ms))
        }
        wait => Ok(wait.unwrap_or(0)),
    }
}

impl Sum {
    /// Adds a chunk that was met; once, though several ranges touch it.
    fn add(&mut self, one: &Living) {
        if self.last.replace(one.chunk) != Some(one.chunk) {
            self.chunks += 1;
            self.accesses = self.accesses.saturating_add(one.accesses.all());
        }
    }
}

impl Layer {
    fn hint(&self, mark: Mark) -> ChunkHint {
        ChunkHint {
            class: mark.class,
            source: self.source,
            pinned: mark.flags & PINNED != 0,
            demoted: mark.flags & DEMOTED != 0,
        }
    }

    /// Tells `tell` of every chunk of `living`, which is in order, that a range touches, with the
    /// bytes of it.
    fn meet(
        &self,
        now: Nanos,
        chunk_size: Bytes,
        living: &mut [Living],
        mut tell: impl FnMut(&mut Living, Mark, u64),
    ) {
        let mut at = match self.volume {
            EVERY => 0,
            volume => living.partition_point(|one| one.chunk.volume < volume),
        };
        while let Some(first) = living.get(at) {
            let volume = first.chunk.volume;
            if self.volume != EVERY && volume != self.volume {
                return;
            }
            let end = at + living[at..].partition_point(|one| one.chunk.volume == volume);
            for (range, mark) in self.ranges.iter(now) {
                let first = range.start / chunk_size.0;
                let last = (range.end - 1) / chunk_size.0;
                let index = |one: &Living| u64::from(one.chunk.index);
                at += living[at..end].iter().take_while(|one| index(one) < first).count();
                living[at..end].iter_mut().take_while(|one| index(one) <= last).for_each(|one| {
                    let start = index(one) * chunk_size.0;
                    let (from, to) = (range.start.max(start), range.end.min(start + chunk_size.0));
                    tell(one, mark, to.saturating_sub(from));
                });
            }
            at = end;
        }
    }
}
