//! Shadows: rival placements that see what a volume's placement sees, and move nothing.
//!
//! 1. A *sample* of the chunks is watched: all of them where the pools hold at most [`ALL_UP_TO`]
//!    chunks, else one in [`ONE_IN`], or in as many as was asked for. Of each run of so many
//!    neighbours one is in it, which one says a hash of volume and run: so regions are in the
//!    sample by their size, and no stride of the load meets or misses it. An access to any other
//!    chunk costs that hash and no more, whatever the number of shadows.
//! 2. Accesses to the sample are counted by chunk and pattern, and told to each rival as they come.
//!    An access is *sequential* when it begins where the last one in its chunk ended, or first in
//!    the epoch and at the chunk's start; what comes between on other chunks a sample cannot see.
//! 3. At an epoch's end it is taken down where the sample is: the *actual* placement. A chunk that
//!    is elsewhere than an epoch ago was moved.
//! 4. A rival begins with the chunks where they are. A chunk written for the first time comes to it
//!    where the machine has put it, or, if its pool is full there, on the next one with room.
//! 5. Both are judged by one rule ([`mod@tally`]): a pool serves what the epoch asked of the chunks
//!    that it has at the epoch's end (actual), or had since its beginning (rival), as if each had
//!    made its moves of the epoch at its start. What no pool holds is read as zeroes and not
//!    judged.
//! 6. Then the rival is asked, with a view of a machine smaller by the sample's share: the sample
//!    where it would be, capacities and service rates divided, loads as judged. Proposals are
//!    carried out at once, best first, as far as there is room and the copy rate allows: rate ×
//!    epoch × share bytes read from or written to each pool; what is left of it, less than a chunk,
//!    is added to the next epoch's. Copies of a chunk beside the first one take no room in it.
//!
//! Figures begin with a rival's first whole epoch; the actual placement's are kept beside it from
//! the same moment. Source: a smaller model of the whole, fed with a hashed sample, is miniature
//! simulation (Waldspurger et al., ATC 2017), for placements instead of caches; there a line is in
//! the sample by its own hash, so that a region's share of it varies. Not foreseen: how a rival's
//! choice would have changed the load, and so the latency, of the pools.
//!
//! State: 58 B a sampled chunk and 2 B for each rival beside what the rival itself keeps, and 4 B a
//! chunk of the volumes; the sample is bounded by the volumes' sizes. An access to the sample O(1)
//! and each rival's `observe`, any other one hash; an epoch O(pools × chunks), once for all rivals,
//! and O(n log n) over the sample.

mod rival;
pub mod tally;

use super::chunks::Chunks;
use super::{ChunkAccess, Placement, PoolChange, VolumeView};
use crate::Footprint;
use rival::Rival;
use tally::{Costs, Counts, Levels, Tally};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, Rng};

/// Shadows at once.
pub const SHADOWS_MAX: usize = 8;
/// Chunks that the pools may hold for all of them to be watched.
pub(crate) const ALL_UP_TO: u64 = 4096;
/// Beyond it one chunk in so many is watched, unless something else is asked for.
pub const ONE_IN: u32 = 8;
/// One chunk in so many must be watched at least.
pub(crate) const ONE_IN_MAX: u32 = 1024;

/// On no pool.
const NOWHERE: u16 = u16::MAX;

/// A shadow that cannot begin. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShadowError {
    /// There are [`SHADOWS_MAX`] already.
    #[error("there are {SHADOWS_MAX} shadows, and no more are allowed; remove one first")]
    TooMany,
    /// One has this name.
    #[error("there is a shadow {0} already; remove it first, or give other settings")]
    Taken(String),
    /// No sample.
    #[error(
        "one chunk in {0} cannot be watched; give a number from 1, all chunks, to {ONE_IN_MAX}"
    )]
    NoSample(u32),
    /// Shadows share one sample.
    #[error("the shadows there are watch one chunk in {0}; take the same, or remove them first")]
    OtherSample(u32),
}

/// Places of the sample's chunks, as they are or would be.
#[derive(Debug, Clone, Default)]
struct Places {
    /// Pools by chunk number.
    pools: Vec<u16>,
    /// Chunks by pool.
    used: Vec<u64>,
}

impl Places {
    fn of(&self, number: u32) -> Option<PoolId> {
        self.pools.get(number as usize).filter(|&&pool| pool != NOWHERE).map(|&pool| PoolId(pool))
    }

    fn used(&self, pool: PoolId) -> u64 {
        self.used.get(usize::from(pool.0)).copied().unwrap_or(0)
    }

    /// Chunks on a pool that is gone are nowhere, until somebody says where they went.
    fn pools_changed(&mut self, change: PoolChange) {
        self.pools.iter_mut().for_each(|pool| *pool = change.place_code(*pool, NOWHERE));
        change.shift(&mut self.used, 0);
    }

    fn put(&mut self, number: u32, pool: Option<PoolId>) {
        let index = number as usize;
        if index >= self.pools.len() {
            self.pools.resize(index + 1, NOWHERE);
        }
        let to = pool.map_or(NOWHERE, |pool| pool.0);
        let from = std::mem::replace(&mut self.pools[index], to);
        if from != NOWHERE {
            self.used[usize::from(from)] -= 1;
        }
        if to != NOWHERE {
            let highest = usize::from(to) + 1;
            self.used.resize(highest.max(self.used.len()), 0);
            self.used[usize::from(to)] += 1;
        }
    }
}

/// Facts that the rivals have in common: the sample, what was asked of it, and where it really is.
struct Watched {
    one_in: u32,
    chunks: Chunks,
    counts: Vec<Counts>,
    /// Chunks with a count.
    touched: Vec<u32>,
    /// Chunks by ascending id.
    order: Vec<u32>,
    places: Places,
    levels: Levels,
    /// The actual placement in the epoch under way, moves only, and in the last one.
    under_way: Tally,
    last: Tally,
}

/// True if a chunk is in the sample of one in `one_in`.
#[inline]
fn is_watched(chunk: ChunkId, one_in: u32) -> bool {
    if one_in == 1 {
        return true;
    }
    let run = u64::from(chunk.volume.0) << 32 | u64::from(chunk.index / one_in);
    Rng::seeded(run).below(one_in.into()) == u64::from(chunk.index % one_in)
}

fn pools(view: &dyn VolumeView) -> impl Iterator<Item = PoolId> + use<> {
    (0..view.pool_count()).map(PoolId)
}

impl Watched {
    fn new(one_in: u32) -> Watched {
        Watched {
            one_in,
            chunks: Chunks::default(),
            counts: Vec::new(),
            touched: Vec::new(),
            order: Vec::new(),
            places: Places::default(),
            levels: Levels::default(),
            under_way: Tally::default(),
            last: Tally::default(),
        }
    }

    /// The part of the chunks that is watched.
    fn share(&self) -> f64 {
        1.0 / f64::from(self.one_in)
    }

    fn pools_changed(&mut self, change: PoolChange) {
        self.places.pools_changed(change);
        self.levels.pools_changed(change);
        self.under_way.pools_changed(change);
        self.last.pools_changed(change);
    }

    #[inline]
    fn count(&mut self, access: &ChunkAccess) {
        let number = self.chunks.number(access.chunk);
        let index = number as usize;
        if index >= self.counts.len() {
            self.counts.resize(index + 1, Counts::default());
        }
        let counts = &mut self.counts[index];
        if counts.is_empty() {
            self.touched.push(number);
        }
        counts.add(access);
    }

    /// Takes down where the sample is; what has moved since is counted.
    fn look(&mut self, view: &dyn VolumeView) {
        let mut places = Places::default();
        let (chunks, one_in) = (&mut self.chunks, self.one_in);
        for pool in pools(view) {
            view.visit_pool(pool, &mut |chunk| {
                if is_watched(chunk, one_in) {
                    places.put(chunks.number(chunk), Some(pool));
                }
            });
        }
        for number in 0..places.pools.len() as u32 {
            if let (Some(from), Some(to)) = (self.places.of(number), places.of(number))
                && from != to
            {
                self.under_way.add_move(to, view.chunk_size());
            }
        }
        self.places = places;
        self.counts.resize(self.chunks.len() as usize, Counts::default());
        if self.order.len() < self.counts.len() {
            self.order = (0..self.chunks.len()).collect();
            self.order.sort_unstable_by_key(|&number| self.chunks.id(number));
        }
    }

    /// Serves the epoch's requests from `places`.
    fn judge(&self, places: &Places, levels: &Levels, view: &dyn VolumeView, tally: &mut Tally) {
        let costs: Vec<Costs> =
            pools(view).map(|pool| levels.of(pool, &view.traits(pool))).collect();
        for &number in &self.touched {
            let Some(pool) = places.of(number) else { continue };
            tally.add(pool, &self.counts[number as usize], &costs[usize::from(pool.0)]);
        }
    }

    /// The epoch ends: the actual placement is judged, and pools are measured by it.
    fn end_epoch(&mut self, view: &dyn VolumeView) {
        self.look(view);
        let mut expected = Tally::default();
        self.judge(&self.places, &Levels::default(), view, &mut expected);
        pools(view).for_each(|pool| self.levels.learn(pool, &view.load(pool), &expected));
        let mut tally = std::mem::take(&mut self.under_way);
        self.judge(&self.places, &self.levels, view, &mut tally);
        self.last = tally;
    }

    /// Starts the next epoch.
    fn advance(&mut self) {
        for &number in &self.touched {
            self.counts[number as usize] = Counts::default();
        }
        self.touched.clear();
    }

    fn bytes(&self) -> u64 {
        let vectors = self.counts.capacity() * size_of::<Counts>()
            + (self.touched.capacity() + self.order.capacity()) * 4
            + self.places.pools.capacity() * 2;
        self.chunks.bytes() + vectors as u64
    }
}

/// Figures of a rival, and of what was done meanwhile, for the chunks of the sample.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// The name that it was given.
    pub name: &'a str,
    /// Time at which it began.
    pub begun: Nanos,
    /// Whole epochs that it was judged in.
    pub epochs: u64,
    /// The rival in the last epoch, and in all.
    pub epoch: &'a Tally,
    /// See `epoch`.
    pub total: &'a Tally,
    /// The actual placement in the last epoch, and in those of `epochs`.
    pub actual_epoch: &'a Tally,
    /// See `actual_epoch`.
    pub actual_total: &'a Tally,
}

/// Rival placements that see what a volume's placement sees, and move nothing.
pub struct Shadows {
    watched: Watched,
    rivals: Vec<Rival>,
}

impl Default for Shadows {
    fn default() -> Shadows {
        Shadows { watched: Watched::new(1), rivals: Vec::new() }
    }
}

impl Shadows {
    /// Lets `placement` begin as a shadow called `name`, knowing nothing yet; one chunk in `one_in`
    /// is watched, or in as many as is the default. It may begin while an epoch is under way.
    ///
    /// # Errors
    /// When there are too many, the name is taken, or the sample is none or not that of the others.
    pub fn begin(
        &mut self,
        now: Nanos,
        view: &dyn VolumeView,
        (name, placement): (&str, Box<dyn Placement>),
        one_in: Option<u32>,
    ) -> Result<(), ShadowError> {
        if let Some(one_in) = one_in.filter(|one_in| !(1..=ONE_IN_MAX).contains(one_in)) {
            return Err(ShadowError::NoSample(one_in));
        }
        if self.is_empty() {
            let chunks: u64 = pools(view).map(|pool| view.capacity_chunks(pool)).sum();
            let usual = if chunks <= ALL_UP_TO { 1 } else { ONE_IN };
            self.watched = Watched::new(one_in.unwrap_or(usual));
        }
        let there_is = self.watched.one_in;
        if one_in.is_some_and(|one_in| one_in != there_is) {
            return Err(ShadowError::OtherSample(there_is));
        }
        if self.rivals.len() == SHADOWS_MAX {
            return Err(ShadowError::TooMany);
        }
        if self.rivals.iter().any(|rival| rival.name == name) {
            return Err(ShadowError::Taken(name.to_string()));
        }
        self.watched.look(view);
        self.rivals.push(Rival::new(name, placement, now, &self.watched));
        Ok(())
    }

    /// Ends a shadow and gives its placement back, which knows what it has learnt; `None` when
    /// there is none of this name.
    pub fn end(&mut self, name: &str) -> Option<Box<dyn Placement>> {
        let at = self.rivals.iter().position(|rival| rival.name == name)?;
        let placement = self.rivals.remove(at).placement;
        if self.is_empty() {
            *self = Shadows::default();
        }
        Some(placement)
    }

    /// Pools are at other places. What a pool served that is gone counts in sums only.
    pub fn pools_changed(&mut self, change: PoolChange) {
        self.watched.pools_changed(change);
        self.rivals.iter_mut().for_each(|rival| rival.pools_changed(change));
    }

    /// True if there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rivals.is_empty()
    }

    /// One chunk in so many is watched.
    pub fn one_in(&self) -> u32 {
        self.watched.one_in
    }

    /// Takes note of one access, as [`Placement::observe`] does.
    #[inline]
    pub fn observe(&mut self, access: &ChunkAccess) {
        if self.rivals.is_empty() || !is_watched(access.chunk, self.watched.one_in) {
            return;
        }
        self.watched.count(access);
        for rival in &mut self.rivals {
            rival.placement.observe(access);
        }
    }

    /// Ends the epoch: judges, then asks every rival and carries its proposals out. Moves may take
    /// `copy_rate` bytes a second on each pool; `None`: as many as are proposed.
    pub fn end_epoch(&mut self, now: Nanos, view: &dyn VolumeView, copy_rate: Option<Bytes>) {
        if self.is_empty() {
            return;
        }
        self.watched.end_epoch(view);
        for rival in &mut self.rivals {
            rival.end_epoch(now, &self.watched, view, copy_rate);
        }
        self.watched.advance();
    }

    /// Every shadow, in the order in which they began.
    pub fn reports(&self) -> impl Iterator<Item = Report<'_>> {
        self.rivals.iter().map(|rival| rival.report(&self.watched))
    }

    /// Memory in use now, the rivals' own included.
    pub fn footprint(&self) -> Footprint {
        let rivals: u64 = self.rivals.iter().map(Rival::bytes).sum();
        Footprint { resident: 0, index: self.watched.bytes() + rivals }
    }
}

#[cfg(test)]
mod tests;
