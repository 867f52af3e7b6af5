//! How many slots are lent to lines ([`crate::lines`]), and on which pool.
//!
//! 1. Lines are on the fastest pool that takes chunks, is near and has room; there must be a slower
//!    one that lives, whose chunks they answer for.
//! 2. The placement says at the end of each epoch how many slots shall be lent, where it divides
//!    pools; or a share is set once and for all; or there are no lines.
//! 3. Housekeeping lends free slots, and takes back what is too much, some in each round. Nothing
//!    is moved for lines here: a placement that wants more than is free moves chunks away itself.

use crate::group::Group;
use crate::group_state::GroupState;
use crate::machines::Machines;
use crate::pools::pool::Pool;
use thermocline_units::PoolId;

/// Slots that are lent or taken back in one round of housekeeping.
const SLOTS_PER_ROUND: u32 = 64;

/// Size of the part of the fastest pool that is lent to lines of 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lending {
    /// As the placement says; nothing where it says nothing.
    #[default]
    Placement,
    /// Nothing, whatever the placement says.
    Off,
    /// So many per cent of its slots, 0 to 100, as far as no chunk needs them.
    Percent(u8),
}

/// The pool that lines are on: the fastest that can have them.
fn pool_for_lines(group: &GroupState) -> Option<PoolId> {
    let order = group.pools.ranks().order();
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
        let wanted = match self.state.settings.lending {
            Lending::Off => 0,
            Lending::Percent(percent) => u64::from(all) * u64::from(percent.min(100)) / 100,
            Lending::Placement => {
                self.epochs.placement().and_then(|placement| placement.lines()).unwrap_or(0)
            }
        };
        (Some(pool), wanted.min(all.into()) as u32)
    }

    /// True if slots are to be lent or taken back, and can be.
    pub(crate) fn lines_are_due(&self) -> bool {
        let (pool, wanted) = self.lines_wanted();
        let lines = &self.state.lines;
        let elsewhere = lines.pool().is_some() && lines.pool() != pool;
        let has_free = pool.is_some_and(|pool| self.state.pools[pool].slots.free() > 0);
        elsewhere || lines.lent() > wanted || lines.lent() < wanted && has_free
    }

    /// Lends slots, or takes some back.
    pub(crate) fn lend_slots(&mut self) {
        let (pool, wanted) = self.lines_wanted();
        let group = &mut self.state;
        group.lines.want(wanted);
        if group.lines.pool().is_some() && group.lines.pool() != pool {
            group.lines.take_back_all(&mut group.pools);
        }
        for _ in 0..SLOTS_PER_ROUND {
            let lent = group.lines.lent();
            let changed = match pool {
                _ if lent > wanted => group.lines.take_back(&mut group.pools),
                Some(pool) if lent < wanted => group.lines.lend(&mut group.pools, pool),
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

impl Group {
    /// Sets how much of the fastest pool is lent to lines, from now on. What is too much goes back
    /// by and by; no chunk moves.
    pub fn set_lending(&mut self, lending: Lending) {
        self.machines.state.settings.lending = lending;
    }
}
