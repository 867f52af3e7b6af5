//! ECI-Cache: partitions by useful re-references, and no flash writes where writes earn nothing.
//!
//! 1. Only a re-reference that *reads* (read after read, read after write) is useful: a write costs
//!    a flash write whether it hits or not. Writes move a line to the front but do not count in its
//!    VM's curve.
//! 2. At an epoch's end a VM's demand is the size that would hold its useful re-references (the
//!    largest useful reuse distance; here the size that holds `useful` of them, which one straggler
//!    cannot double). If the demands fit, each VM gets its own, and what is left goes round; else
//!    lookahead on the useful curves, nobody above its demand.
//! 3. A VM of whose accesses more than `threshold` are writes to lines seen before (WAW + WAR)
//!    becomes read-only for the next epoch: its writes go past the cache and drop the line.
//!
//! Source: S. Ahmadian et al., "ECI-Cache", SIGMETRICS 2018. Differs: sampled curves; the
//! threshold's default is ours (decision 0018).
//!
//! State: 18 B a line of capacity, 1 B a distinct line for what was done last to it; about 90 B a
//! sampled line and VM.

use super::demand::{self, Demand};
use super::lists::Partitions;
use super::lookahead::{self, Stake};
use super::{Partitioned, Sharing, Tag};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting};
use thermocline_units::LineId;

const USEFUL: Setting = Setting {
    name: "useful",
    default: "0.999",
    unit: "fraction of useful re-references",
    help: "how many of them a VM's demand must hold",
};
const THRESHOLD: Setting = Setting {
    name: "threshold",
    default: "0.5",
    unit: "fraction of accesses",
    help: "a VM with more writes to known lines than this is cached read-only",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "eci",
    summary: "partitions sized by useful reads; VMs that mostly rewrite are cached read-only",
    source: "ECI-Cache, SIGMETRICS 2018",
    settings: &[demand::SAMPLE, demand::FADE, demand::FLOOR, USEFUL, THRESHOLD],
    build: Build::Cache(|geometry, settings| {
        let sharing = Eci {
            demand: Demand::read(geometry, settings)?,
            useful: settings.number("useful", 0.0, 1.0)?,
            threshold: settings.number("threshold", 0.0, 1.0)?,
            fade: settings.number("fade", 0.0, 1.0)?,
            seen: Vec::new(),
            writes: vec![Writes::default(); geometry.volumes as usize],
        };
        let partitions = Partitions::new(geometry.lines, geometry.volumes).lending();
        Ok(Box::new(Partitioned { partitions, sharing }))
    }),
};

#[derive(Debug)]
struct Eci {
    demand: Demand,
    useful: f64,
    threshold: f64,
    fade: f64,
    /// True for lines that were accessed before.
    seen: Vec<bool>,
    writes: Vec<Writes>,
}

/// Counts of a VM's writes.
#[derive(Debug, Clone, Copy, Default)]
struct Writes {
    /// WAW + WAR, less what faded.
    again: f64,
    accesses: f64,
    read_only: bool,
}

impl Eci {
    /// Sets each stake's maximum to the units that hold its useful re-references; their sum.
    fn set_demands(&self, stakes: &mut [Stake]) -> usize {
        for stake in stakes.iter_mut() {
            let enough = self.useful * stake.hits[stake.hits.len() - 1];
            stake.max = stake.hits.partition_point(|hits| *hits < enough).max(stake.min);
        }
        stakes.iter().map(|stake| stake.max).sum()
    }
}

impl Sharing for Eci {
    fn reserve(&mut self, universe: u32) {
        if self.seen.len() < universe as usize {
            self.seen.resize(universe as usize, false);
        }
    }

    #[inline]
    fn observe(&mut self, line: LineId, tag: Tag) {
        let known = std::mem::replace(&mut self.seen[line.index()], true);
        let writes = &mut self.writes[tag.volume() as usize];
        writes.accesses += 1.0;
        if tag.is_write() {
            writes.again += f64::from(known);
            self.demand.access_uncounted(line, tag.volume());
        } else {
            self.demand.access(line, tag.volume());
        }
    }

    #[inline]
    fn writes_around(&self, volume: u32) -> bool {
        self.writes[volume as usize].read_only
    }

    fn end_epoch(&mut self, partitions: &mut Partitions) {
        self.demand.count_epoch();
        let mut stakes = self.demand.stakes();
        let units = self.demand.units();
        if self.set_demands(&mut stakes) <= units {
            stakes.iter_mut().for_each(|stake| stake.min = stake.max);
        }
        let given = lookahead::allocate(&stakes, units);
        partitions.set_quotas(self.demand.quotas(&given));
        for writes in &mut self.writes {
            writes.read_only = writes.again > self.threshold * writes.accesses;
            writes.again *= self.fade;
            writes.accesses *= self.fade;
        }
        self.demand.fade();
    }

    fn footprint(&self) -> Footprint {
        let writes = self.writes.len() * size_of::<Writes>();
        let resident = self.demand.bytes() + writes as u64;
        Footprint { resident, index: self.seen.len() as u64 }
    }
}
