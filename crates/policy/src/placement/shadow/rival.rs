//! One rival: its placement, where the chunks would be under it, and what that would have come to.

use super::super::{
    Budget, Move, Placement, PoolChange, PoolLoad, PoolTraits, Service, Sla, VolumeView,
};
use super::tally::Tally;
use super::{Places, Report, Watched};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// A rival: its placement, and where the chunks would be under it.
pub(super) struct Rival {
    pub(super) name: String,
    pub(super) placement: Box<dyn Placement>,
    begun: Nanos,
    places: Places,
    /// Bytes that moves may still take, by pool.
    allowance: Vec<f64>,
    /// True if the epoch under way is a whole one.
    whole: bool,
    epochs: u64,
    /// Moves that count for the epoch under way.
    under_way: Tally,
    last: Tally,
    total: Tally,
    actual_total: Tally,
}

/// Number of chunks of the sample that `pool` may hold.
fn capacity(pool: PoolId, watched: &Watched, view: &dyn VolumeView) -> u64 {
    (view.capacity_chunks(pool) as f64 * watched.share()).round() as u64
}

impl Rival {
    pub(super) fn new(
        name: &str,
        placement: Box<dyn Placement>,
        begun: Nanos,
        watched: &Watched,
    ) -> Rival {
        Rival {
            name: name.to_string(),
            placement,
            begun,
            places: watched.places.clone(),
            allowance: Vec::new(),
            whole: false,
            epochs: 0,
            under_way: Tally::default(),
            last: Tally::default(),
            total: Tally::default(),
            actual_total: Tally::default(),
        }
    }

    pub(super) fn pools_changed(&mut self, change: PoolChange) {
        self.placement.pools_changed(change);
        self.places.pools_changed(change);
        change.shift(&mut self.allowance, 0.0);
        let tallies =
            [&mut self.under_way, &mut self.last, &mut self.total, &mut self.actual_total];
        tallies.into_iter().for_each(|tally| tally.pools_changed(change));
    }

    pub(super) fn end_epoch(
        &mut self,
        now: Nanos,
        watched: &Watched,
        view: &dyn VolumeView,
        copy_rate: Option<Bytes>,
    ) {
        self.settle(watched, view);
        let mut tally = std::mem::take(&mut self.under_way);
        watched.judge(&self.places, &watched.levels, view, &mut tally);
        if std::mem::replace(&mut self.whole, true) {
            self.epochs += 1;
            self.total.add_all(&tally);
            self.actual_total.add_all(&watched.last);
            self.last = tally.clone();
        }
        if view.pool_count() < 2 {
            return;
        }
        let mut moves = Vec::new();
        let seen = Seen { watched, view, places: &self.places, served: &tally };
        self.placement.propose(now, &seen, Budget::UNLIMITED, &mut moves);
        self.earn(watched.share(), view, copy_rate);
        moves.iter().for_each(|step| self.carry_out(*step, watched, view, copy_rate.is_some()));
    }

    /// Takes over what no placement decides: chunks that are new, gone, or had to leave their pool.
    fn settle(&mut self, watched: &Watched, view: &dyn VolumeView) {
        for number in 0..watched.chunks.len() {
            let actual = watched.places.of(number);
            match (self.places.of(number), actual) {
                (None, Some(pool)) => {
                    let pool = self.with_room(pool, watched, view);
                    self.places.put(number, Some(pool));
                }
                (Some(_), None) => self.places.put(number, None),
                (Some(pool), Some(_)) if view.capacity_chunks(pool) == 0 => {
                    self.places.put(number, actual);
                }
                _ => {}
            }
        }
    }

    fn has_room(&self, pool: PoolId, watched: &Watched, view: &dyn VolumeView) -> bool {
        self.places.used(pool) < capacity(pool, watched, view)
    }

    /// `pool`, or the next slower one with room, or the next faster one; when all are full, `pool`.
    fn with_room(&self, pool: PoolId, watched: &Watched, view: &dyn VolumeView) -> PoolId {
        let slower = (pool.0..view.pool_count()).map(PoolId);
        let mut all = slower.chain((0..pool.0).rev().map(PoolId));
        all.find(|&pool| self.has_room(pool, watched, view)).unwrap_or(pool)
    }

    /// Adds what the copy rate allows in an epoch; less than a chunk of what was left counts.
    fn earn(&mut self, share: f64, view: &dyn VolumeView, copy_rate: Option<Bytes>) {
        let rate = copy_rate.map_or(0.0, |rate| rate.0 as f64);
        let more = rate * view.epoch().as_secs_f64() * share;
        self.allowance.resize(usize::from(view.pool_count()), 0.0);
        for allowance in &mut self.allowance {
            *allowance = allowance.min(view.chunk_size().0 as f64) + more;
        }
    }

    /// Moves a chunk, if it is where it can be moved from, and there is room and allowance.
    ///
    /// Mirrors are not judged: what they are worth depends on a load that nobody put on them.
    fn carry_out(&mut self, step: Move, watched: &Watched, view: &dyn VolumeView, bounded: bool) {
        if step.how == crate::placement::How::Mirror {
            return;
        }
        let number = watched.chunks.find(step.chunk);
        let from = number.and_then(|number| self.places.of(number));
        let (Some(number), Some(from)) = (number, from) else { return };
        let fits = step.to.0 < view.pool_count() && self.has_room(step.to, watched, view);
        if from == step.to || !fits {
            return;
        }
        let ends = [from, step.to].map(|pool| usize::from(pool.0));
        let bytes = view.chunk_size().0 as f64;
        if bounded {
            if ends.iter().any(|&pool| self.allowance[pool] < bytes) {
                return;
            }
            ends.iter().for_each(|&pool| self.allowance[pool] -= bytes);
        }
        self.places.put(number, Some(step.to));
        self.under_way.add_move(step.to, view.chunk_size());
    }

    pub(super) fn report<'a>(&'a self, watched: &'a Watched) -> Report<'a> {
        Report {
            name: &self.name,
            begun: self.begun,
            epochs: self.epochs,
            epoch: &self.last,
            total: &self.total,
            actual_epoch: if self.epochs > 0 { &watched.last } else { &self.last },
            actual_total: &self.actual_total,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        let own = self.placement.footprint();
        own.resident + own.index + self.places.pools.capacity() as u64 * 2
    }
}

/// A rival placement's view: the machine, as small as the sample and as it would be.
struct Seen<'a> {
    watched: &'a Watched,
    view: &'a dyn VolumeView,
    places: &'a Places,
    served: &'a Tally,
}

impl VolumeView for Seen<'_> {
    fn chunk_size(&self) -> Bytes {
        self.view.chunk_size()
    }

    fn epoch(&self) -> Nanos {
        self.view.epoch()
    }

    fn traits(&self, pool: PoolId) -> PoolTraits {
        let traits = self.view.traits(pool);
        let services = traits.services.map(|service| Service {
            per_second: (service.per_second as f64 * self.watched.share()).max(1.0) as u64,
            ..service
        });
        PoolTraits { services, ..traits }
    }

    fn load(&self, pool: PoolId) -> PoolLoad {
        self.served.of(pool).load()
    }

    fn volume_count(&self) -> u32 {
        self.view.volume_count()
    }

    fn sla(&self, volume: VolumeId) -> Option<Sla> {
        self.view.sla(volume)
    }

    fn pool_count(&self) -> u16 {
        self.view.pool_count()
    }

    fn capacity_chunks(&self, pool: PoolId) -> u64 {
        capacity(pool, self.watched, self.view)
    }

    fn pool_of(&self, chunk: ChunkId) -> PoolId {
        let home = self.watched.chunks.find(chunk).and_then(|number| self.places.of(number));
        home.unwrap_or(PoolId(self.pool_count() - 1))
    }

    fn holds(&self, chunk: ChunkId) -> bool {
        let number = self.watched.chunks.find(chunk);
        number.is_some_and(|number| self.places.of(number).is_some())
    }

    fn used_chunks(&self, pool: PoolId) -> u64 {
        self.places.used(pool)
    }

    fn visit_pool(&self, pool: PoolId, visit: &mut dyn FnMut(ChunkId)) {
        for &number in &self.watched.order {
            if self.places.of(number) == Some(pool) {
                visit(self.watched.chunks.id(number));
            }
        }
    }
}
