//! Number of the slots that are lent to lines ([`crate::lines`]), and on which pool.
//!
//! 1. Lines are on the fastest pool that takes chunks, is near and has room; there must be a slower
//!    one that lives, whose chunks they answer for.
//! 2. The placement says at the end of each epoch how many slots shall be lent, where it divides
//!    pools. Where it says nothing, a share counts that was set (`lent_percent`).
//!    Moves of a placement do not take slots that it wants for lines; anything else does.
//! 3. Housekeeping lends free slots, and takes back what is too much, some in each round. A slot
//!    that a move waits for is left to it: a placement that sends one chunk away for another wants
//!    that slot for the other, and on a busy disk few become free. Nothing is moved for lines here:
//!    a placement that wants more than is free moves chunks away itself.

use crate::group_state::GroupState;
use crate::machines::Machines;
use crate::pools::pool::Pool;
use thermocline_units::PoolId;
use thermocline_units::situations::met_if;

/// Slots that are lent or taken back in one round of housekeeping.
const SLOTS_PER_ROUND: u32 = 64;

/// The pool that lines are on: the fastest that can have them.
fn pool_for_lines(group: &GroupState) -> Option<PoolId> {
    let order = group.pools.ranks().there();
    let able = |pool: &Pool| pool.has_space() && pool.is_alive() && !pool.is_far();
    let at = order.iter().position(|&id| able(&group.pools[id]))?;
    let slower = order[at + 1..].iter().any(|&id| group.pools[id].is_alive());
    slower.then_some(order[at])
}

impl Machines {
    /// The pool that lines are to be on, and how many of its slots shall be lent.
    fn lines_wanted(&self) -> (Option<PoolId>, u32) {
        let Some(pool) = pool_for_lines(&self.state) else { return (None, 0) };
        let all = self.state.pools[pool].slots_for_chunks();
        let percent = u64::from(self.state.settings.lent_percent.min(100));
        let wanted = self.lines_said().unwrap_or(u64::from(all) * percent / 100);
        (Some(pool), wanted.min(all.into()) as u32)
    }

    /// The placement's word on lines; `None`: it says nothing.
    fn lines_said(&self) -> Option<u64> {
        self.epochs.placement()?.lines()
    }

    /// True if slots are to be lent or taken back, and can be.
    pub(crate) fn lines_are_due(&self) -> bool {
        let (pool, wanted) = self.lines_wanted();
        let lines = &self.state.lines;
        let elsewhere = lines.pool().is_some() && lines.pool() != pool;
        let is_short = lines.lent() < wanted;
        let has_free = || pool.is_some_and(|pool| self.free_for_lines(pool) > 0);
        elsewhere || lines.lent() > wanted || is_short && has_free()
    }

    /// Free slots of a pool that no move waits for.
    fn free_for_lines(&self, pool: PoolId) -> u32 {
        let free = self.state.pools[pool].slots.free();
        if free == 0 {
            return 0; // The usual case, and this is asked often.
        }
        let arrivals = self.moves.arrivals(&self.state, pool);
        met_if(arrivals >= free, "free slots left to moves that lines want");
        free.saturating_sub(arrivals)
    }

    /// Lends slots, or takes some back.
    pub(crate) fn lend_slots(&mut self) {
        let (pool, wanted) = self.lines_wanted();
        let planned = self.lines_said().is_some();
        let mut free = pool.map_or(0, |pool| self.free_for_lines(pool));
        let group = &mut self.state;
        group.lines.want(wanted, planned);
        if group.lines.pool().is_some() && group.lines.pool() != pool {
            met_if(group.lines.lent() > 0, "lines left for another pool");
            group.lines.take_back_all(&mut group.pools);
        }
        let metadata = pool.map_or(0, |pool| group.pools.wanted_by_metadata(pool, group.need()));
        for _ in 0..SLOTS_PER_ROUND {
            let lent = group.lines.lent();
            let is_left = |pool| metadata == 0 || group.pools[pool].free_for_metadata() > metadata;
            let changed = match pool {
                _ if lent > wanted => group.lines.take_back(&mut group.pools),
                Some(pool) if lent < wanted && free > 0 && is_left(pool) => {
                    free -= 1;
                    group.lines.lend(&mut group.pools, pool)
                }
                _ => false,
            };
            if !changed {
                break;
            }
        }
        assert!(group.lines.lent() == 0 || group.lines.pool() == pool, "lines are on one pool");
        if group.lines.take_freed() {
            self.leaving.slots_came(group);
        }
    }
}
