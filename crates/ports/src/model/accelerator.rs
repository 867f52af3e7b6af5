//! An accelerator in virtual time: transfers, a queue, units that work at some bytes a cycle.
//!
//! 1. A job waits outside while `queue_depth` jobs are inside, then for a unit.
//! 2. Its bytes are transferred, computed and its positions handed back: three times in a row, each
//!    costing cycles a job and cycles a byte (or a position). With `overlaps`, the transfer of a
//!    job runs beside the computing of the one before it on the same unit, as with two buffers.
//! 3. What it answers comes from a function that the caller gives; the model itself computes
//!    nothing.

use crate::Ticket;
use crate::accelerator::{
    Abilities, Accelerator, AcceleratorError, Answer, Done, Fingerprint, Job,
};
use std::collections::{BTreeMap, VecDeque};
use thermocline_units::{Bytes, Nanos};

/// An accelerator by its published or measured numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AcceleratorProfile {
    /// Source of the numbers.
    pub source: &'static str,
    /// Cycles a second.
    pub clock: f64,
    /// Bytes that a unit computes in a cycle.
    pub bytes_per_cycle: f64,
    /// Cycles that a job costs before its first byte comes out.
    pub cycles_a_job: f64,
    /// Cycles that a position costs the unit, beyond its bytes.
    pub cycles_a_position: f64,
    /// Cycles to move a job's bytes in: for the job, and for each byte.
    pub transfer: (f64, f64),
    /// Cycles to hand its positions back: for the job, and for each position.
    pub hand_back: (f64, f64),
    /// The transfer of one job runs beside the computing of another.
    pub overlaps: bool,
    /// The longest buffer.
    pub buffer_max: Bytes,
    /// Jobs inside at once.
    pub queue_depth: u32,
    /// Units.
    pub units: u32,
    /// Its one fingerprint; `None`: all.
    pub only: Option<Fingerprint>,
}

impl AcceleratorProfile {
    /// VNRE's card by its cycles (§4.4.3): 1,500 in, 190 for the algorithm and 310 out, for a page
    /// of 4 KiB. The clock is not printed; 100 MHz is ours.
    pub const VNRE_CYCLES: AcceleratorProfile = AcceleratorProfile {
        source: "VNRE §4.4.3: 1,500 + 190 + 310 cycles for 4 KiB; clock of 100 MHz assumed",
        clock: 100e6,
        bytes_per_cycle: 4096.0 / 190.0,
        cycles_a_job: 0.0,
        cycles_a_position: 0.0,
        transfer: (0.0, 1500.0 / 4096.0),
        hand_back: (310.0, 0.0),
        overlaps: false,
        buffer_max: Bytes::from_kib(256),
        queue_depth: 16,
        units: 1,
        only: Some(Fingerprint::RabinSource),
    };

    /// VNRE's card by its throughput (Fig. 4.9: 200.6 Mbit/s at 512 B, 430.8 at 1 KB), which is
    /// 20.4 and 19.0 µs a chunk: 19.7 µs a chunk fit both within 4 %. As cycles of the same 100
    /// MHz.
    pub const VNRE_THROUGHPUT: AcceleratorProfile = AcceleratorProfile {
        source: "VNRE Fig. 4.9: 19.7 us a chunk, whatever its size",
        cycles_a_position: 1970.0,
        bytes_per_cycle: f64::INFINITY,
        transfer: (0.0, 0.0),
        hand_back: (0.0, 0.0),
        ..AcceleratorProfile::VNRE_CYCLES
    };
}

/// The function that answers for a modelled accelerator.
pub type Compute = Box<dyn FnMut(&Job) -> Answer + Send>;

/// A modelled accelerator in virtual time.
pub struct ModelAccelerator {
    profile: AcceleratorProfile,
    compute: Compute,
    /// Times at which each unit has computed its last job, and can take the next transfer.
    units: Vec<Unit>,
    waiting: VecDeque<(Nanos, Ticket, Job)>,
    /// Jobs by the moment they are done, then by order of submission.
    inside: BTreeMap<(Nanos, u64), Done>,
    sequence: u64,
}

#[derive(Clone, Copy, Default)]
struct Unit {
    transfers_until: f64,
    computes_until: f64,
}

impl ModelAccelerator {
    /// An accelerator as `profile` describes it, with nothing in flight.
    ///
    /// # Panics
    /// When it has no unit or no queue, or its clock does not tick.
    pub fn new(profile: AcceleratorProfile, compute: Compute) -> ModelAccelerator {
        assert!(profile.units > 0 && profile.queue_depth > 0 && profile.clock > 0.0, "{profile:?}");
        ModelAccelerator {
            profile,
            compute,
            units: vec![Unit::default(); profile.units as usize],
            waiting: VecDeque::new(),
            inside: BTreeMap::new(),
            sequence: 0,
        }
    }

    /// Takes waiting jobs in while there is room inside, at the moments there is.
    fn admit(&mut self, now: Nanos) {
        while self.inside.len() < self.profile.queue_depth as usize {
            let Some((since, ticket, job)) = self.waiting.pop_front() else { return };
            self.start(since.max(now), ticket, &job);
        }
    }

    fn start(&mut self, now: Nanos, ticket: Ticket, job: &Job) {
        self.sequence += 1;
        if !self.abilities().include(job) {
            let done = Done { ticket, result: Err(AcceleratorError::Refused) };
            self.inside.insert((Nanos(now.0 + 1), self.sequence), done);
            return;
        }
        let mut answer = (self.compute)(job);
        let p = &self.profile;
        let (bytes, positions) = (f64::from(job.data.len()), answer.positions.len() as f64);
        let nanos = |cycles: f64| cycles / p.clock * 1e9;
        let work = p.cycles_a_job + bytes / p.bytes_per_cycle + p.cycles_a_position * positions;
        answer.cycles = work as u64;
        let earliest = |unit: &Unit| unit.computes_until.max(unit.transfers_until);
        let unit = self.units.iter_mut().min_by(|a, b| earliest(a).total_cmp(&earliest(b)));
        let unit = unit.expect("a profile has a unit");
        let free = if p.overlaps { unit.transfers_until } else { unit.computes_until };
        let moved = free.max(now.0 as f64) + nanos(p.transfer.0 + p.transfer.1 * bytes);
        let computed = moved.max(unit.computes_until) + nanos(work);
        let back = computed + nanos(p.hand_back.0 + p.hand_back.1 * positions);
        unit.transfers_until = moved;
        unit.computes_until = if p.overlaps { computed } else { back };
        let done = Nanos((back.ceil() as u64).max(now.0 + 1));
        self.inside.insert((done, self.sequence), Done { ticket, result: Ok(answer) });
    }
}

impl Accelerator for ModelAccelerator {
    fn abilities(&self) -> Abilities {
        let AcceleratorProfile { buffer_max, queue_depth, units, only, .. } = self.profile;
        Abilities { buffer_max, queue_depth, units, only }
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, job: Job) {
        self.waiting.push_back((now, ticket, job));
        self.admit(now);
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        while let Some(entry) = self.inside.first_entry() {
            let at = entry.key().0;
            if at > now {
                return;
            }
            done.push(entry.remove());
            self.admit(at);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.inside.keys().next().map(|key| key.0)
    }
}
