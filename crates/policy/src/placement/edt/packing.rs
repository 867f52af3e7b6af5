//! First-fit decreasing of chunks into pools that have space and time.
//!
//! 1. A chunk's consumption of a pool is the larger of its shares of space and time, or its share of
//!    time alone; its worth there is consumption × the pool's rate.
//! 2. Chunks without demand on the slowest pool are left alone, and their space is theirs.
//! 3. All others are taken by falling consumption of the pool that suits them best, and put on the
//!    first pool by worth that has room: of equally good ones where they are, then the slowest.
//!
//! State: 64 B a chunk that is packed, while it lasts.

use crate::placement::PoolTraits;
use crate::placement::demand::Demand;
use thermocline_units::{ChunkId, PoolId};

/// A pool, as chunks see it.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) traits: PoolTraits,
    /// The share of its space that a chunk takes.
    pub(super) share: f64,
    /// What all of it is worth.
    pub(super) rate: f64,
    /// Whether its space costs nothing.
    pub(super) by_time: bool,
    /// Whether it takes no chunks.
    pub(super) overloaded: bool,
    /// Chunks that it has room for.
    pub(super) free: u64,
    /// The share of its time that chunks may take.
    pub(super) time: f64,
}

impl Seat {
    fn consumption(&self, time: f64) -> f64 {
        if self.by_time { time } else { time.max(self.share) }
    }
}

#[derive(Debug)]
struct Item {
    chunk: ChunkId,
    home: PoolId,
    demand: Demand,
    /// What it consumes of the pool that suits it best.
    consumption: f64,
    /// Whether it must leave its pool.
    banned: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Packing {
    seats: Vec<Seat>,
    items: Vec<Item>,
}

impl Packing {
    /// Chunks with their pools and demands, to be packed into `seats`.
    pub(super) fn new(
        mut seats: Vec<Seat>,
        chunks: impl Iterator<Item = (ChunkId, PoolId, Demand)>,
    ) -> Packing {
        let slowest = PoolId(seats.len() as u16 - 1);
        let packed = chunks.filter(|(_, home, demand)| !demand.is_none() || *home != slowest);
        let item = |(chunk, home, demand): (ChunkId, PoolId, Demand)| {
            let worth = |seat: &Seat| {
                let consumption = seat.consumption(demand.utilisation(&seat.traits));
                (consumption * seat.rate, consumption)
            };
            let best = seats.iter().map(worth).min_by(|a, b| a.0.total_cmp(&b.0));
            let (_, consumption) = best.expect("there is a pool");
            Item { chunk, home, demand, consumption, banned: false }
        };
        let mut items: Vec<Item> = packed.map(item).collect();
        for item in &items {
            seats[usize::from(item.home.0)].free += 1;
        }
        items.sort_unstable_by(|a, b| {
            b.consumption.total_cmp(&a.consumption).then(a.chunk.cmp(&b.chunk))
        });
        Packing { seats, items }
    }

    /// Makes the heaviest chunks leave overloaded pools, until `part` of the load has left.
    pub(super) fn correct(&mut self, part: f64) {
        for (pool, seat) in (0..).map(PoolId).zip(&self.seats) {
            if !seat.overloaded {
                continue;
            }
            let mut residents: Vec<(f64, &mut Item)> = self
                .items
                .iter_mut()
                .filter(|item| item.home == pool)
                .map(|item| (item.demand.utilisation(&seat.traits), item))
                .collect();
            residents.sort_by(|a, b| b.0.total_cmp(&a.0));
            let mut surplus = part * residents.iter().map(|(time, _)| time).sum::<f64>();
            for (time, item) in residents {
                if surplus <= 0.0 {
                    break;
                }
                surplus -= time;
                item.banned = true;
            }
        }
    }

    /// Packs, and tells where each chunk is and where it should be, the heaviest first.
    pub(super) fn place(mut self, mut tell: impl FnMut(ChunkId, PoolId, PoolId)) {
        let mut order = Vec::with_capacity(self.seats.len());
        for item in &self.items {
            self.by_worth(item, &mut order);
            let to = self.choose(item, &order);
            let seat = &mut self.seats[usize::from(to.0)];
            seat.free = seat.free.saturating_sub(1);
            seat.time -= item.demand.utilisation(&seat.traits);
            tell(item.chunk, item.home, to);
        }
    }

    /// Pools by what the chunk is worth there, the least first.
    fn by_worth(&self, item: &Item, order: &mut Vec<(f64, PoolId)>) {
        order.clear();
        order.extend(self.seats.iter().zip((0..).map(PoolId)).map(|(seat, pool)| {
            (seat.consumption(item.demand.utilisation(&seat.traits)) * seat.rate, pool)
        }));
        order.sort_unstable_by(|a, b| {
            let away = |pool: PoolId| pool != item.home;
            a.0.total_cmp(&b.0).then(away(a.1).cmp(&away(b.1))).then(b.1.cmp(&a.1))
        });
    }

    fn choose(&self, item: &Item, order: &[(f64, PoolId)]) -> PoolId {
        let seat = |pool: PoolId| &self.seats[usize::from(pool.0)];
        let takes = |pool: PoolId| match pool == item.home {
            true => seat(pool).free > 0 && !item.banned,
            false => seat(pool).free > 0 && !seat(pool).overloaded,
        };
        let has_time =
            |pool: PoolId| item.demand.utilisation(&seat(pool).traits) <= seat(pool).time;
        let pools = || order.iter().map(|(_, pool)| *pool);
        let fits = pools().find(|&pool| takes(pool) && has_time(pool));
        let stays = || takes(item.home).then_some(item.home);
        let space = || pools().find(|&pool| takes(pool));
        fits.or_else(stays).or_else(space).unwrap_or(item.home)
    }
}
