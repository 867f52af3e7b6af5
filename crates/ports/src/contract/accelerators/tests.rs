//! The model and the faulty twin keep the contract; whoever breaks it does not pass.

use super::check_accelerator;
use crate::accelerator::{Abilities, Accelerator, Answer, Context, Done, Function, Job};
use crate::faulty::{AcceleratorFaults, FaultyAccelerator};
use crate::model::{AcceleratorProfile, ModelAccelerator};
use crate::{Payload, Ticket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use thermocline_units::{Bytes, Nanos};

/// Chunks of the greatest size: what is left of every function without candidates.
fn toy(job: &Job) -> Answer {
    let (mut positions, mut start) = (Vec::new(), -i64::from(job.context.length));
    let max = i64::from(job.function.max);
    while start + max <= i64::from(job.data.len()) {
        start += max;
        positions.push(start as u32);
    }
    let length = (i64::from(job.data.len()) - start) as u32;
    Answer { positions, length, early: job.context.early, cycles: 0 }
}

fn model(profile: AcceleratorProfile) -> ModelAccelerator {
    ModelAccelerator::new(AcceleratorProfile { only: None, ..profile }, Box::new(toy))
}

fn virtual_time<A: Accelerator>(accelerator: &mut A, now: Nanos) -> Nanos {
    let next = accelerator.next_event().expect("something is in flight");
    assert!(next > now, "poll had nothing, and an event is due");
    next
}

#[test]
fn every_profile_keeps_the_contract() {
    for profile in [AcceleratorProfile::VNRE_CYCLES, AcceleratorProfile::VNRE_THROUGHPUT] {
        for (units, queue_depth, overlaps) in [(1, 1, false), (4, 2, true), (3, 64, true)] {
            let profile = AcceleratorProfile { units, queue_depth, overlaps, ..profile };
            for seed in 0..5 {
                check_accelerator(&mut model(profile), &mut toy, &mut virtual_time, seed, 400);
            }
        }
    }
}

#[test]
fn the_faulty_twin_without_faults_keeps_the_contract() {
    let inner = model(AcceleratorProfile::VNRE_CYCLES);
    let mut faulty = FaultyAccelerator::new(inner, 3, AcceleratorFaults::NONE);
    check_accelerator(&mut faulty, &mut toy, &mut virtual_time, 9, 400);
    assert_eq!(faulty.misdeeds(), crate::faulty::Misdeeds::default());
}

#[test]
fn late_answers_are_within_the_contract() {
    let late = AcceleratorFaults { late: 0.5, ..AcceleratorFaults::NONE };
    let mut faulty = FaultyAccelerator::new(model(AcceleratorProfile::VNRE_CYCLES), 3, late);
    check_accelerator(&mut faulty, &mut toy, &mut virtual_time, 9, 400);
    assert!(faulty.misdeeds().late > 100);
}

#[test]
fn every_other_fault_breaks_it() {
    let none = AcceleratorFaults::NONE;
    for faults in [
        AcceleratorFaults { wrong: 0.1, ..none },
        AcceleratorFaults { missing: 0.1, ..none },
        AcceleratorFaults { length: 0.1, ..none },
        AcceleratorFaults { lose: 0.1, ..none },
        AcceleratorFaults { fail: 0.1, ..none },
        AcceleratorFaults { hang: 0.1, ..none },
        AcceleratorFaults { die: 0.1, ..none },
    ] {
        let inner = model(AcceleratorProfile::VNRE_CYCLES);
        let mut faulty = FaultyAccelerator::new(inner, 3, faults);
        let run = || check_accelerator(&mut faulty, &mut toy, &mut virtual_time, 9, 400);
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "{faults:?} went unnoticed");
    }
}

/// An accelerator that answers a job twice, or does what it said it cannot.
struct Broken {
    inner: ModelAccelerator,
    twice: bool,
}

impl Accelerator for Broken {
    fn abilities(&self) -> Abilities {
        let abilities = self.inner.abilities();
        let buffer_max = if self.twice { abilities.buffer_max } else { Bytes(64) };
        Abilities { buffer_max, ..abilities }
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, job: Job) {
        self.inner.submit(now, ticket, job);
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.inner.poll(now, done);
        if self.twice && done.iter().any(|one| one.ticket == Ticket(7)) {
            done.extend(done.last().cloned());
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.inner.next_event()
    }
}

#[test]
fn answering_twice_and_not_refusing_are_caught() {
    for twice in [true, false] {
        let mut broken = Broken { inner: model(AcceleratorProfile::VNRE_CYCLES), twice };
        let run = || check_accelerator(&mut broken, &mut toy, &mut virtual_time, 1, 400);
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "twice: {twice}");
    }
}

fn page(bytes: usize) -> Job {
    let function = Function {
        fingerprint: None,
        loose: 0,
        strict: 0,
        equals: 0,
        min: 512,
        expected: 512,
        max: 512,
        at_min: false,
    };
    Job { data: Payload::from(vec![0; bytes]), context: Context::default(), function }
}

#[test]
fn the_cards_cycles_add_up_as_printed() {
    let mut card = model(AcceleratorProfile::VNRE_CYCLES);
    card.submit(Nanos(0), Ticket(0), page(4096));
    // 2,000 cycles of 10 ns.
    assert_eq!(card.next_event(), Some(Nanos(20_000)));
    let mut done = Vec::new();
    card.poll(Nanos(20_000), &mut done);
    assert_eq!(done[0].result.as_ref().map(|answer| answer.cycles), Ok(190));
}

#[test]
fn overlapping_hides_the_shorter_of_transfer_and_work() {
    let profile = AcceleratorProfile { overlaps: true, ..AcceleratorProfile::VNRE_CYCLES };
    let mut card = model(profile);
    for ticket in 0..10 {
        card.submit(Nanos(0), Ticket(ticket), page(4096));
    }
    let mut done = Vec::new();
    // Ten transfers, and the last one's work and way back.
    card.poll(Nanos(154_999), &mut done);
    assert_eq!(done.len(), 9);
    card.poll(Nanos(155_000), &mut done);
    assert_eq!(done.len(), 10);
}
