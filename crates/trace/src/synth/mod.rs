//! Synthetic workloads: seeded, from stated parameters, as a reader like any other.
//!
//! Steps for the next request:
//! 1. The VM whose next arrival is the earliest (of equal ones the first in the specification).
//! 2. One of its parts, by weight, among those that are not silent.
//! 3. The part's size by its mix, read or write by its share, place by its pattern.
//! 4. The VM's next arrival (`arrivals`).
//!
//! Each VM draws from its own generator, so that adding one at the end does not change the others.
//! Randomness goes through `ln` and `exp` of the platform; requests are the same wherever these
//! round alike. State: a few hundred bytes a part, nothing that grows with the trace.

mod arrivals;
mod places;
pub mod presets;
mod spec;
mod zipf;

pub use arrivals::{Arrivals, Burstiness, Mmpp2};
pub use spec::{
    Drift, Layout, Part, Pattern, Region, SizeShare, SpecError, SynthSpec, VmSpec, check_vms,
};
pub use zipf::Zipf;

use crate::{Batch, HashRange, Op, Request, TraceError, TraceReader};
use arrivals::ArrivalTimes;
use places::Places;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use thermocline_units::{Bytes, Nanos, Rng, VolumeId};

/// The requests of a synthetic workload.
pub struct Synth {
    vms: Vec<Vm>,
    /// Each VM's next arrival, earliest on top.
    agenda: BinaryHeap<Reverse<(Nanos, usize)>>,
    volumes: Vec<String>,
    left: u64,
    /// The first arrival; becomes time zero.
    origin: Option<Nanos>,
}

struct Vm {
    rng: Rng,
    times: ArrivalTimes,
    parts: Vec<RunningPart>,
    /// True if a part may be silent.
    scans: bool,
    weight: f64,
}

struct RunningPart {
    weight: f64,
    reads: f64,
    region: Region,
    /// Sizes with the sums of their weights so far, as shares of all.
    sizes: Vec<(Bytes, f64)>,
    places: Places,
    /// Between two scans.
    silent: bool,
}

impl Synth {
    /// Starts the workload.
    ///
    /// # Errors
    /// When the specification breaks a bound; see [`SynthSpec::check`].
    pub fn new(spec: &SynthSpec) -> Result<Synth, SpecError> {
        spec.check()?;
        let mut seeds = Rng::seeded(spec.seed);
        let mut vms: Vec<Vm> =
            spec.vms.iter().map(|vm| Vm::new(vm, Rng::seeded(seeds.next_u64()))).collect();
        let first = |(index, vm): (usize, &mut Vm)| Reverse((vm.times.next(&mut vm.rng), index));
        let agenda = vms.iter_mut().enumerate().map(first).collect();
        let volumes = spec.vms.iter().map(|vm| vm.name.clone()).collect();
        Ok(Synth { vms, agenda, volumes, left: spec.requests, origin: None })
    }
}

impl TraceReader for Synth {
    fn read_batch(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        batch.clear();
        let count = self.left.min(Batch::CAPACITY as u64);
        while (batch.requests.len() as u64) < count {
            let Some(mut top) = self.agenda.peek_mut() else {
                self.left = batch.requests.len() as u64;
                break;
            };
            let Reverse((now, index)) = *top;
            if now == Nanos(u64::MAX) {
                // 584 years are over: this VM does not go on.
                PeekMut::pop(top);
                continue;
            }
            let vm = &mut self.vms[index];
            if let Some(request) = vm.request(now, VolumeId(index as u32)) {
                let origin = *self.origin.get_or_insert(now);
                let time = now.saturating_sub(origin);
                batch.requests.push(Request { time, ..request });
            }
            *top = Reverse((vm.times.next(&mut vm.rng), index));
        }
        self.left -= batch.requests.len() as u64;
        Ok(())
    }

    fn volumes(&self) -> &[String] {
        &self.volumes
    }
}

impl Vm {
    fn new(spec: &VmSpec, mut rng: Rng) -> Vm {
        let parts: Vec<RunningPart> =
            spec.parts.iter().map(|part| RunningPart::new(part, &mut rng)).collect();
        Vm {
            times: ArrivalTimes::new(spec.arrivals, &mut rng),
            scans: parts.iter().any(|part| matches!(part.places, Places::Scan(_))),
            weight: parts.iter().map(|part| part.weight).sum(),
            parts,
            rng,
        }
    }

    /// The request that arrives now; none when every part is silent, and then the next arrival
    /// comes after the first of them has gone on.
    #[inline]
    fn request(&mut self, now: Nanos, volume: VolumeId) -> Option<Request> {
        let chosen = match self.scans {
            false => choose(&mut self.rng, self.weight, self.parts.iter().map(|p| p.weight)),
            true => self.choose_active(now)?,
        };
        Some(self.parts[chosen].request(now, volume, &mut self.rng))
    }

    /// Chooses among the parts that are not silent.
    fn choose_active(&mut self, now: Nanos) -> Option<usize> {
        let mut weight = 0.0;
        let mut soonest = Nanos(u64::MAX);
        for part in &mut self.parts {
            let from = part.places.active_from(now, part.region);
            soonest = soonest.min(from);
            part.silent = from > now;
            weight += part.active_weight();
        }
        if weight == 0.0 {
            self.times.skip_to(soonest);
            return None;
        }
        Some(choose(&mut self.rng, weight, self.parts.iter().map(RunningPart::active_weight)))
    }
}

/// Draws an index by weight; `total` is the weights' sum. Never one of weight 0.
#[inline]
fn choose(rng: &mut Rng, total: f64, weights: impl Iterator<Item = f64>) -> usize {
    let mut left = rng.unit_f64() * total;
    let mut chosen = 0;
    for (index, weight) in weights.enumerate() {
        if weight == 0.0 {
            continue;
        }
        chosen = index;
        left -= weight;
        if left < 0.0 {
            break;
        }
    }
    chosen
}

impl RunningPart {
    fn new(part: &Part, rng: &mut Rng) -> RunningPart {
        let total: f64 = part.sizes.iter().map(|share| share.weight).sum();
        let mut sum = 0.0;
        let sizes = part.sizes.iter().map(|share| {
            sum += share.weight / total;
            (share.size, sum)
        });
        RunningPart {
            weight: part.weight,
            reads: part.reads,
            region: part.region,
            sizes: sizes.collect(),
            places: Places::new(part, rng),
            silent: false,
        }
    }

    fn active_weight(&self) -> f64 {
        if self.silent { 0.0 } else { self.weight }
    }

    #[inline]
    fn request(&mut self, now: Nanos, volume: VolumeId, rng: &mut Rng) -> Request {
        let size = self.size(rng);
        let op = if rng.unit_f64() < self.reads { Op::Read } else { Op::Write };
        let place = self.places.place(now, size.0, self.region, rng);
        Request {
            time: now,
            volume,
            op,
            offset: Bytes(self.region.start.0 + place),
            length: Bytes(size.0.min(self.region.length.0 - place)),
            response: None,
            hashes: HashRange::default(),
        }
    }

    #[inline]
    fn size(&self, rng: &mut Rng) -> Bytes {
        if let [(only, _)] = self.sizes[..] {
            return only;
        }
        let drawn = rng.unit_f64();
        let found = self.sizes.iter().find(|(_, sum)| drawn < *sum);
        found.or(self.sizes.last()).expect("a checked part has a size").0
    }
}

#[cfg(test)]
mod tests;
