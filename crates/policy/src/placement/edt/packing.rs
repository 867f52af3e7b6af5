//! First-fit decreasing of chunks into pools that have space and time.
//!
//! 1. A chunk's consumption of a pool is the larger of its shares of space and time, or its share
//!    of time alone; its worth there is consumption × the pool's rate.
//! 2. Chunks without demand on the slowest pool are left alone, and their space is theirs.
//! 3. All others are taken by falling consumption of the pool that suits them best, and put on the
//!    first pool by worth that has room: of equally good ones where they are, then the slowest.
//!
//! State: 12 B a chunk that is packed and 8 B for each pool, while it lasts.

use crate::placement::demand::{Costs, Demand};
use crate::placement::order;
use thermocline_units::{PoolId, prefetch};

/// Items that are asked for ahead of their turn.
const AHEAD: usize = 16;

/// A pool, as chunks see it.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) costs: Costs,
    /// The share of its space that a chunk takes.
    pub(super) share: f64,
    /// Worth of all of it.
    pub(super) rate: f64,
    /// True if its space costs nothing.
    pub(super) by_time: bool,
    /// True if it takes no chunks.
    pub(super) overloaded: bool,
    /// Chunks that it has room for; less than nothing where it has more than it should.
    pub(super) free: i128,
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
    number: u32,
    home: PoolId,
    /// True if it must leave its pool.
    banned: bool,
}

/// Packs chunks into pools that have space and time (first-fit decreasing).
#[derive(Debug)]
pub(super) struct Packing {
    seats: Vec<Seat>,
    items: Vec<Item>,
    /// Times that each item takes of each pool.
    times: Vec<f64>,
}

impl Packing {
    /// Chunks with their pools and demands, to be packed into `seats`.
    pub(super) fn new(
        mut seats: Vec<Seat>,
        chunks: impl Iterator<Item = (u32, PoolId, Demand)>,
    ) -> Packing {
        let slowest = PoolId(seats.len() as u16 - 1);
        let (mut items, mut times) = (Vec::new(), Vec::new());
        for (number, home, demand) in chunks {
            if home == slowest && demand.is_none() {
                continue;
            }
            items.push(Item { number, home, banned: false });
            times.extend(seats.iter().map(|seat| demand.time(&seat.costs)));
            seats[usize::from(home.0)].free += 1;
        }
        Packing { seats, items, times }
    }

    /// Times that an item takes of each pool.
    fn times(&self, item: usize) -> &[f64] {
        &self.times[item * self.seats.len()..][..self.seats.len()]
    }

    /// Makes the heaviest chunks leave overloaded pools, until `part` of the load has left.
    pub(super) fn correct(&mut self, part: f64) {
        for pool in (0..self.seats.len()).filter(|&pool| self.seats[pool].overloaded) {
            let here = |(index, item): (usize, &Item)| {
                let time = self.times(index)[pool];
                (usize::from(item.home.0) == pool).then_some((time, index as u32))
            };
            let mut residents: Vec<(f64, u32)> =
                self.items.iter().enumerate().filter_map(here).collect();
            residents.sort_by(|a, b| b.0.total_cmp(&a.0));
            let mut surplus = part * residents.iter().map(|(time, _)| time).sum::<f64>();
            for (time, index) in residents {
                if surplus <= 0.0 {
                    break;
                }
                surplus -= time;
                self.items[index as usize].banned = true;
            }
        }
    }

    /// Items by falling consumption of the pool that suits them best.
    fn order(&self) -> Vec<u64> {
        let best = |index: usize| {
            let worth = |(seat, time): (&Seat, &f64)| {
                let consumption = seat.consumption(*time);
                (consumption * seat.rate, consumption)
            };
            let pools = self.seats.iter().zip(self.times(index)).map(worth);
            pools.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there is a pool").1
        };
        let place =
            |(index, item): (usize, &Item)| order::place(best(index), item.home, index as u32);
        let mut order: Vec<u64> = self.items.iter().enumerate().map(place).collect();
        order::sort(&mut order);
        order
    }

    /// Packs, and tells where each chunk is and where it should be, the heaviest first.
    pub(super) fn place(mut self, mut tell: impl FnMut(u32, PoolId, PoolId)) {
        let mut pools = Vec::with_capacity(self.seats.len());
        let order = self.order();
        for (at, index) in order.iter().map(|&place| order::number(place) as usize).enumerate() {
            if let Some(&next) = order.get(at + AHEAD) {
                let next = order::number(next) as usize;
                prefetch(&self.items, next);
                prefetch(&self.times, next * self.seats.len());
            }
            self.by_worth(index, &mut pools);
            let item = &self.items[index];
            let to = self.choose(index, &pools).unwrap_or(item.home);
            let (number, home, time) =
                (item.number, item.home, self.times(index)[usize::from(to.0)]);
            let seat = &mut self.seats[usize::from(to.0)];
            seat.free -= 1;
            seat.time -= time;
            tell(number, home, to);
        }
    }

    /// Pools by what an item is worth there, the least first.
    fn by_worth(&self, index: usize, pools: &mut Vec<(f64, PoolId)>) {
        let home = self.items[index].home;
        let seats = self.seats.iter().zip(self.times(index)).zip((0..).map(PoolId));
        pools.clear();
        pools.extend(seats.map(|((seat, time), pool)| (seat.consumption(*time) * seat.rate, pool)));
        pools.sort_unstable_by(|a, b| {
            let away = |pool: PoolId| pool != home;
            a.0.total_cmp(&b.0).then(away(a.1).cmp(&away(b.1))).then(b.1.cmp(&a.1))
        });
    }

    /// The first pool with room; `None` when none has.
    fn choose(&self, index: usize, pools: &[(f64, PoolId)]) -> Option<PoolId> {
        let (item, times) = (&self.items[index], self.times(index));
        let seat = |pool: PoolId| &self.seats[usize::from(pool.0)];
        let takes = |pool: PoolId| match pool == item.home {
            true => seat(pool).free > 0 && !item.banned,
            false => seat(pool).free > 0 && !seat(pool).overloaded,
        };
        let has_time = |pool: PoolId| times[usize::from(pool.0)] <= seat(pool).time;
        let pools = || pools.iter().map(|(_, pool)| *pool);
        let stays = || takes(item.home).then_some(item.home);
        let fits = pools().find(|&pool| takes(pool) && has_time(pool));
        fits.or_else(stays).or_else(|| pools().find(|&pool| takes(pool)))
    }
}
