//! The status of pools while chunks are placed (Ge 2017 §3.3, eq. 3.5): space and time left.
//!
//! Chunks that the placement knows count for the pool that they get, not for the one they are on;
//! those that were not accessed keep nobody out, because they yield. What is on a pool beside them,
//! on the slowest mostly chunks that were never met, takes its space.

use crate::placement::VolumeView;
use crate::placement::activity::Activity;
use crate::placement::demand::{Costs, Demand};
use thermocline_units::PoolId;

/// A reason that a pool does not take a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Space,
    Time,
}

#[derive(Debug, Clone)]
struct Pool {
    costs: Costs,
    /// Chunks that it has room for; less than nothing where it has more than it should.
    space: i128,
    time: f64,
}

/// Space and time that are left of the pools.
#[derive(Debug, Clone)]
pub(super) struct Status(Vec<Pool>);

impl Status {
    /// The status of a machine whose pools may be busy with chunks for `peak` of their time;
    /// `touched` are the chunks that were accessed.
    pub(super) fn of(
        view: &dyn VolumeView,
        activity: &Activity,
        touched: impl Iterator<Item = u32>,
        peak: f64,
    ) -> Status {
        let pool = |pool: u16| {
            let pool = PoolId(pool);
            let capacity = i128::from(view.capacity_chunks(pool));
            let space = capacity - i128::from(view.used_chunks(pool));
            Pool { costs: Costs::of(&view.traits(pool)), space, time: peak }
        };
        let mut pools: Vec<Pool> = (0..view.pool_count()).map(pool).collect();
        for number in touched.chain(activity.idle()) {
            pools[usize::from(activity.pool_of(number).0)].space += 1;
        }
        Status(pools)
    }

    /// True if `pool` has space for so many chunks.
    #[inline]
    pub(super) fn has_space(&self, pool: PoolId, chunks: u64) -> bool {
        self.pool(pool).space >= i128::from(chunks)
    }

    /// True if `pool` has so much time left, as a share of all its time.
    #[inline]
    pub(super) fn has_time(&self, pool: PoolId, time: f64) -> bool {
        time <= self.pool(pool).time
    }

    /// Share of the time of `pool` that a demand takes.
    #[inline]
    pub(super) fn time(&self, pool: PoolId, demand: &Demand) -> f64 {
        demand.time(&self.pool(pool).costs)
    }

    /// `pool` gives away space for so many chunks, and time.
    #[inline]
    pub(super) fn take(&mut self, pool: PoolId, chunks: u64, time: f64) {
        let pool = &mut self.0[usize::from(pool.0)];
        pool.space -= i128::from(chunks);
        pool.time -= time;
    }

    /// `pool` gets back what [`Status::take`] took.
    pub(super) fn release(&mut self, pool: PoolId, chunks: u64, time: f64) {
        let pool = &mut self.0[usize::from(pool.0)];
        pool.space += i128::from(chunks);
        pool.time += time;
    }

    #[inline]
    fn pool(&self, pool: PoolId) -> &Pool {
        &self.0[usize::from(pool.0)]
    }
}
