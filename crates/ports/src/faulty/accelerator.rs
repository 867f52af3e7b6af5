//! An accelerator that lies, loses, hangs and is late, by seed.
//!
//! It answers with what another accelerator answers, spoiled. [`FaultyAccelerator`] keeps the count
//! of what it did, so that a test can say that every lie was found.

use super::happens;
use crate::Ticket;
use crate::accelerator::{Abilities, Accelerator, AcceleratorError, Answer, Done, Job};
use std::collections::BTreeMap;
use thermocline_units::{Nanos, Rng};

/// Faults and their probabilities per job, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AcceleratorFaults {
    /// One position is another.
    pub wrong: f64,
    /// One position is missing.
    pub missing: f64,
    /// The length of the chunk under way is another.
    pub length: f64,
    /// The job is never answered.
    pub lose: f64,
    /// The job is answered with [`AcceleratorError::Failed`].
    pub fail: f64,
    /// From this job on nothing is answered any more.
    pub hang: f64,
    /// From this job on everything is answered with [`AcceleratorError::Gone`].
    pub die: f64,
    /// The answer comes `late_by` later.
    pub late: f64,
    /// Delay of a late answer.
    pub late_by: Nanos,
}

impl AcceleratorFaults {
    /// Nothing goes wrong.
    pub const NONE: AcceleratorFaults = AcceleratorFaults {
        wrong: 0.0,
        missing: 0.0,
        length: 0.0,
        lose: 0.0,
        fail: 0.0,
        hang: 0.0,
        die: 0.0,
        late: 0.0,
        late_by: Nanos::from_micros(1000),
    };
}

/// Faults of a faulty accelerator so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Misdeeds {
    /// Answers that are false.
    pub lies: u64,
    /// Jobs that are never answered.
    pub lost: u64,
    /// Answers that came late.
    pub late: u64,
    /// Jobs that failed, and said so.
    pub failed: u64,
}

/// An accelerator spoiled by seed.
pub struct FaultyAccelerator<A> {
    inner: A,
    faults: AcceleratorFaults,
    rng: Rng,
    hangs: bool,
    is_dead: bool,
    misdeeds: Misdeeds,
    held: BTreeMap<(Nanos, u64), Done>,
    sequence: u64,
}

impl<A: Accelerator> FaultyAccelerator<A> {
    /// `inner` with faults that follow from `seed`.
    pub fn new(inner: A, seed: u64, faults: AcceleratorFaults) -> FaultyAccelerator<A> {
        FaultyAccelerator {
            inner,
            faults,
            rng: Rng::seeded(seed),
            hangs: false,
            is_dead: false,
            misdeeds: Misdeeds::default(),
            held: BTreeMap::new(),
            sequence: 0,
        }
    }

    /// Its faults so far.
    pub fn misdeeds(&self) -> Misdeeds {
        self.misdeeds
    }

    fn hold(&mut self, at: Nanos, done: Done) {
        self.sequence += 1;
        self.held.insert((at, self.sequence), done);
    }

    /// Spoils an answer of the inner accelerator that came at `at`.
    fn spoil(&mut self, at: Nanos, mut done: Done) {
        if self.hangs || happens(&mut self.rng, self.faults.lose) {
            self.misdeeds.lost += 1;
            return;
        }
        if self.is_dead || happens(&mut self.rng, self.faults.fail) {
            let how = if self.is_dead { AcceleratorError::Gone } else { AcceleratorError::Failed };
            done.result = Err(how);
            self.misdeeds.failed += 1;
        }
        if let Ok(answer) = &mut done.result
            && lie(answer, &self.faults, &mut self.rng)
        {
            self.misdeeds.lies += 1;
        }
        let mut when = at;
        if happens(&mut self.rng, self.faults.late) {
            self.misdeeds.late += 1;
            when = Nanos(at.0 + self.faults.late_by.0);
        }
        self.hold(when, done);
    }
}

/// Changes an answer as the faults say; true if it is another one now.
fn lie(answer: &mut Answer, faults: &AcceleratorFaults, rng: &mut Rng) -> bool {
    let right = answer.clone();
    let count = answer.positions.len() as u64;
    if count > 0 && happens(rng, faults.wrong) {
        let which = rng.below(count) as usize;
        answer.positions[which] ^= 1 << rng.below(12);
    }
    if count > 0 && happens(rng, faults.missing) {
        answer.positions.remove(rng.below(count) as usize);
    }
    if happens(rng, faults.length) {
        answer.length += 1 + rng.below(100) as u32;
    }
    *answer != right
}

impl<A: Accelerator> Accelerator for FaultyAccelerator<A> {
    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, job: Job) {
        self.hangs |= happens(&mut self.rng, self.faults.hang);
        self.is_dead |= happens(&mut self.rng, self.faults.die);
        self.inner.submit(now, ticket, job);
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        let mut fresh = Vec::new();
        while let Some(at) = self.inner.next_event().filter(|&at| at <= now) {
            self.inner.poll(at, &mut fresh);
            for one in fresh.drain(..) {
                self.spoil(at, one);
            }
        }
        while let Some(entry) = self.held.first_entry().filter(|entry| entry.key().0 <= now) {
            done.push(entry.remove());
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let held = self.held.keys().next().map(|key| key.0);
        [held, self.inner.next_event()].into_iter().flatten().min()
    }
}
