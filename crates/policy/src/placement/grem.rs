//! GReM: a long-term zone with adaptive reservations, a short-term zone for bursts, a moving
//! border.
//!
//! **Our reading.** Source: Z. Yang, J. Tai, J. Bhimani, J. Wang, N. Mi, B. Sheng, "GReM: Dynamic
//! SSD Resource Allocation in Virtualized Storage Systems with Heterogeneous IO Workloads", IPCCC
//! 2016, and the authors' poster. Only the abstract and the poster's picture were at hand: they say
//! that the long-term zone isolates VMs with reservations that follow their I/O, that the
//! short-term zone is for fair competition, and that the border moves by feedback of cache
//! performance and bursts. Everything below that gives these words a number is ours (decision
//! 0017).
//!
//! At an epoch's end:
//! 1. *Border* (`split`): a burst (an epoch whose working set exceeds `burst` × its running mean)
//!    moves it one `step` towards the short-term zone. Otherwise the zone whose coldest `step` of
//!    chunks earned more hits in the epoch grows by one step at the other's expense.
//! 2. *Reservations*: a VM's target is its part of the globally most frequent chunks that would
//!    fill the long-term zone; its reservation moves there by `gain`, and never below `floor` of an
//!    equal part.
//! 3. *Long-term zone*: each VM's most frequent chunks up to its reservation; places that a VM
//!    cannot fill go to the most frequent chunks left over.
//! 4. *Short-term zone*: the chunks accessed in the epoch that are not long-term, by temperature;
//!    then what either zone held, by temperature.
//!
//! State: 34 B a chunk at 8 epochs, 8 B a VM, 4 B a chunk at the border. O(1) an access, O(chunks)
//! an epoch.

mod split;

use self::split::{Feedback, Split};
use super::frequency::{self, Frequency};
use super::heat::{self, HeatMap, HeatSettings};
use super::rank::{Candidate, hottest};
use super::zones::{Zone, Zones};
use super::{Budget, ChunkAccess, FLASH, Move, Placement, VolumeView};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::Nanos;

const GAIN: Setting = Setting {
    name: "gain",
    default: "0.5",
    unit: "fraction",
    help: "how far a VM's reservation moves towards its target each epoch",
};
const FLOOR: Setting = Setting {
    name: "floor",
    default: "0.25",
    unit: "fraction of an equal part",
    help: "reservation that no VM falls below",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "grem",
    summary: "adaptive per-VM reservations and a burst zone, the border moved by feedback",
    source: "our reading of GReM, IPCCC 2016 (abstract and poster)",
    settings: &[
        split::LONG,
        split::LONG_MIN,
        split::LONG_MAX,
        split::STEP,
        split::BURST,
        GAIN,
        FLOOR,
        frequency::AGE_EVERY,
        heat::HISTORY,
        heat::LAMBDA,
        heat::COOLING,
        heat::HALF_LIFE,
    ],
    build: Build::Placement(|settings| Ok(Box::new(Grem::new(settings)?))),
};

/// Long-term and short-term zone; [`Zone::Private`] holds the long-term, [`Zone::Public`] the
/// other.
#[derive(Debug)]
pub(crate) struct Grem {
    heat: HeatMap,
    frequency: Frequency,
    zones: Zones,
    split: Split,
    gain: f64,
    floor: f64,
    /// Parts of the long-term zone by volume; they sum to 1.
    reservations: Vec<f64>,
    /// The coldest chunks of each zone, which a smaller zone would not hold.
    long_margin: Vec<u32>,
    short_margin: Vec<u32>,
}

impl Grem {
    fn new(settings: &Settings) -> Result<Grem, SettingsError> {
        Ok(Grem {
            heat: HeatMap::new(HeatSettings::read(settings)?),
            frequency: Frequency::read(settings)?,
            zones: Zones::default(),
            split: Split::read(settings)?,
            gain: settings.number("gain", 0.0, 1.0)?,
            floor: settings.number("floor", 0.0, 1.0)?,
            reservations: Vec::new(),
            long_margin: Vec::new(),
            short_margin: Vec::new(),
        })
    }

    /// Every chunk in the working set, in a zone, or on flash, by temperature.
    fn candidates(&self) -> Vec<Candidate> {
        let matters = |number: &u32| {
            self.frequency.count(*number) > 0
                || self.zones.any(*number)
                || self.heat.is_on_flash(*number)
        };
        let chunks = (0..self.heat.chunks.len()).filter(matters);
        chunks.map(|number| Candidate::by_temperature(&self.heat, number)).collect()
    }

    /// Feedback of the last epoch on the border.
    fn feedback(&self, touched: &[Candidate]) -> Feedback {
        let hits = |margin: &[u32]| margin.iter().map(|b| u64::from(self.heat.last(*b))).sum();
        Feedback {
            working_set: touched.iter().filter(|c| self.heat.last(c.number) > 0).count() as u64,
            long_hits: hits(&self.long_margin),
            short_hits: hits(&self.short_margin),
        }
    }

    fn volume(&self, candidate: &Candidate) -> usize {
        self.heat.chunks.id(candidate.number).volume.0 as usize
    }

    /// Moves each reservation towards the VM's part of `owned` chunks.
    fn adjust_reservations(&mut self, owned: &[u64]) {
        let vms = owned.len().max(1) as f64;
        if self.reservations.len() != owned.len() {
            self.reservations = vec![1.0 / vms; owned.len()];
        }
        let total: u64 = owned.iter().sum();
        if total == 0 {
            return;
        }
        let floor = self.floor / vms;
        for (reservation, chunks) in self.reservations.iter_mut().zip(owned) {
            // The floors are given first; what is left is divided by merit. The sum stays 1.
            let target = floor + (1.0 - self.floor) * *chunks as f64 / total as f64;
            *reservation += self.gain * (target - *reservation);
        }
    }

    /// Fills the long-term zone's `capacity` places; its members.
    fn update_long(
        &mut self,
        capacity: usize,
        touched: &[Candidate],
        volumes: u32,
    ) -> Vec<Candidate> {
        let by_count = |c: &Candidate| {
            Candidate::by_count(&self.heat, c.number, self.frequency.count(c.number))
        };
        let mut frequent: Vec<Candidate> = touched.iter().map(by_count).collect();
        frequent.retain(|c| !c.is_cold());
        let mut owned = vec![0u64; volumes as usize];
        let (first, _) = hottest(&mut frequent, capacity);
        first.iter().for_each(|c| owned[self.volume(c)] += 1);
        self.adjust_reservations(&owned);

        let mut of_volume: Vec<Vec<Candidate>> = vec![Vec::new(); volumes as usize];
        frequent.iter().for_each(|c| of_volume[self.volume(c)].push(*c));
        let (mut members, mut rest) = (Vec::new(), Vec::new());
        for (chunks, part) in of_volume.iter_mut().zip(&self.reservations) {
            let (reserved, others) = hottest(chunks, (part * capacity as f64) as usize);
            members.extend_from_slice(reserved);
            rest.extend_from_slice(others);
        }
        // Each part was rounded down; the parts sum to 1 but for rounding of the last bit.
        let free = capacity.saturating_sub(members.len());
        members.extend_from_slice(hottest(&mut rest, free).0);
        self.zones.refill(Zone::Private, touched, &members);
        members
    }

    /// Fills the short-term zone's `capacity` places; its members. `before` were in a zone.
    fn update_short(
        &mut self,
        capacity: usize,
        touched: &[Candidate],
        before: &[Candidate],
    ) -> Vec<Candidate> {
        let outside = |c: &&Candidate| !self.zones.has(c.number, Zone::Private);
        let accessed = |c: &&Candidate| self.heat.last(c.number) > 0;
        let mut recent: Vec<Candidate> =
            touched.iter().filter(outside).filter(accessed).copied().collect();
        let mut members = hottest(&mut recent, capacity).0.to_vec();
        let idle = |c: &&Candidate| self.heat.last(c.number) == 0;
        let mut former: Vec<Candidate> =
            before.iter().filter(outside).filter(idle).copied().collect();
        members.extend_from_slice(hottest(&mut former, capacity - members.len()).0);
        self.zones.refill(Zone::Public, touched, &members);
        members
    }
}

/// The coldest `count` of `members`, by chunk number.
fn margin(members: &mut [Candidate], count: usize) -> Vec<u32> {
    let inner = members.len().saturating_sub(count);
    hottest(members, inner).1.iter().map(|c| c.number).collect()
}

impl Placement for Grem {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        let number = self.heat.record(access);
        self.frequency.record(number);
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        self.heat.look(view);
        self.zones.cover(self.heat.chunks.len());
        self.frequency.cover(self.heat.chunks.len());
        let capacity = view.capacity_chunks(FLASH);
        let touched = self.candidates();
        let places = self.split.update(capacity, self.feedback(&touched));
        let in_zone = |c: &&Candidate| self.zones.any(c.number);
        let before: Vec<Candidate> = touched.iter().filter(in_zone).copied().collect();
        let mut long = self.update_long(places.long, &touched, view.volume_count());
        let mut short = self.update_short(places.short, &touched, &before);
        self.long_margin = margin(&mut long, places.step);
        self.short_margin = margin(&mut short, places.step);
        self.zones.difference(&touched).propose(&self.heat, view, budget, moves);
        self.frequency.advance();
        self.heat.advance();
    }

    fn footprint(&self) -> Footprint {
        let margins = (self.long_margin.capacity() + self.short_margin.capacity()) as u64 * 4;
        let resident = margins + self.reservations.capacity() as u64 * 8;
        let index = self.heat.bytes() + self.frequency.bytes() + self.zones.bytes();
        Footprint { resident, index }
    }
}

#[cfg(test)]
mod tests;
