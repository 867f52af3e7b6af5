//! UCP: partitions sized for the most hits of all VMs together.
//!
//! 1. Each VM's accesses feed a SHARDS-adjusted LRU curve (see `demand`).
//! 2. At an epoch's end, lookahead divides the cache for the highest sum of expected hits, so a VM
//!    weighs by its rate times its gain in hit ratio, and a VM that only scans gets its floor.
//! 3. The new sizes are taken only if what they gain over `horizon` epochs exceeds what re-warming
//!    costs: `rewarm` misses for every line that changes hands.
//!
//! Source: M. Qureshi & Y. Patt, MICRO 2006 (lookahead); C. Waldspurger et al., FAST 2015 (curves).
//! Differs: minima are reserved for each VM and their sum is taken off the balance; step 3 is ours
//! (decision 0018).
//!
//! State: 18 B a line of capacity; about 90 B a sampled line and VM.

use super::demand::{self, Demand};
use super::lists::Partitions;
use super::lookahead::{self, Stake};
use super::{Partitioned, Sharing, Tag};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting};
use thermocline_units::LineId;

const HORIZON: Setting = Setting {
    name: "horizon",
    default: "288",
    unit: "epochs",
    help: "how long new sizes are expected to pay off",
};
const REWARM: Setting = Setting {
    name: "rewarm",
    default: "1",
    unit: "misses a line",
    help: "what a line that changes hands costs; high values keep sizes as they are",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "ucp",
    summary: "one LRU partition a VM, sized each epoch for the most hits in all",
    source: "UCP, MICRO 2006, on SHARDS-adj curves, FAST 2015",
    settings: &[demand::SAMPLE, demand::FADE, demand::FLOOR, HORIZON, REWARM],
    build: Build::Cache(|geometry, settings| {
        let sharing = Ucp {
            demand: Demand::read(geometry, settings)?,
            horizon: settings.number("horizon", 0.0, 1e9)?,
            rewarm: settings.number("rewarm", 0.0, 1e9)?,
        };
        let partitions = Partitions::new(geometry.lines, geometry.volumes).lending();
        Ok(Box::new(Partitioned { partitions, sharing }))
    }),
};

#[derive(Debug)]
struct Ucp {
    demand: Demand,
    horizon: f64,
    rewarm: f64,
}

impl Ucp {
    /// True if changing quotas from `old` to `new` lines pays within the horizon.
    fn pays(&self, stakes: &[Stake], old: &[u32], new: &[u32]) -> bool {
        let hits = |quotas: &[u32]| -> f64 {
            stakes.iter().zip(quotas).map(|(stake, q)| self.demand.hits_at(stake, *q)).sum()
        };
        let moved: u64 = old.iter().zip(new).map(|(o, n)| u64::from(n.saturating_sub(*o))).sum();
        (hits(new) - hits(old)) * self.horizon > moved as f64 * self.rewarm
    }
}

impl Sharing for Ucp {
    #[inline]
    fn observe(&mut self, line: LineId, tag: Tag) {
        self.demand.access(line, tag.volume());
    }

    fn end_epoch(&mut self, partitions: &mut Partitions) {
        self.demand.count_epoch();
        let stakes = self.demand.stakes();
        let given = lookahead::allocate(&stakes, self.demand.units());
        let quotas = self.demand.quotas(&given);
        if self.pays(&stakes, partitions.quotas(), &quotas) {
            partitions.set_quotas(quotas);
        }
        self.demand.fade();
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: self.demand.bytes(), index: 0 }
    }
}
