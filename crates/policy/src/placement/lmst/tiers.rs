//! Tiers of pools: neighbours that serve every pattern the same are one tier.
//!
//! A chunk migrates between tiers and never within one: its requests would be served no faster, and
//! the source's tiers are rows of equal disks (Tai 2015 §4.1.2.1). Pools of which nothing is known
//! count as what is assumed of them, so several of them in the middle are one tier.

use crate::placement::VolumeView;
use std::ops::Range;
use thermocline_units::PoolId;

/// The pools of each pool's tier, by pool.
#[derive(Debug)]
pub(super) struct Tiers(Vec<Range<u16>>);

impl Tiers {
    pub(super) fn of(view: &dyn VolumeView) -> Tiers {
        let mut tiers: Vec<Range<u16>> = Vec::new();
        let mut start = 0;
        for pool in 0..view.pool_count() {
            let next = pool + 1;
            let services = |pool: u16| view.traits(PoolId(pool)).services;
            if next == view.pool_count() || services(next) != services(pool) {
                tiers.extend((start..next).map(|_| start..next));
                start = next;
            }
        }
        Tiers(tiers)
    }

    /// Pools of faster tiers than that of `pool`.
    pub(super) fn faster(&self, pool: PoolId) -> Range<u16> {
        0..self.0[usize::from(pool.0)].start
    }

    /// Pools of slower tiers than that of `pool`.
    pub(super) fn slower(&self, pool: PoolId) -> Range<u16> {
        self.0[usize::from(pool.0)].end..self.0.len() as u16
    }
}
