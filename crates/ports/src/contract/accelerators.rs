//! The contract of accelerators, as a check that any of them can be held to: models, faulty ones
//! without faults, workers in other processes.
//!
//! Flows run side by side, each a chain of jobs of random length that hand their context on. Some
//! jobs ask for what the accelerator says it cannot do. Every ticket must be answered exactly once,
//! those jobs with [`AcceleratorError::Refused`], all others with what `reference` computes.

use crate::accelerator::{
    Accelerator, AcceleratorError, Answer, Context, Done, Fingerprint, Function, Job, TAIL_BYTES,
};
use crate::{Payload, Ticket};
use std::collections::BTreeMap;
use thermocline_units::{Nanos, Rng};

/// Flows that a check runs side by side.
const FLOWS: u64 = 5;

/// Holds `accelerator` to the contract with `jobs` jobs of load `seed`. `wait` is called when
/// nothing is to be had now, and says what time it is then: virtual time goes on to `next_event`, a
/// worker is waited for.
///
/// # Panics
/// When the accelerator breaks the contract; that is the point.
pub fn check_accelerator<A: Accelerator>(
    accelerator: &mut A,
    reference: &mut dyn FnMut(&Job) -> Answer,
    wait: &mut dyn FnMut(&mut A, Nanos) -> Nanos,
    seed: u64,
    jobs: u64,
) {
    let mut rng = Rng::seeded(seed);
    let mut flows = vec![Context::default(); FLOWS as usize];
    let mut in_flight: BTreeMap<Ticket, (u64, Job)> = BTreeMap::new();
    let (mut now, mut next, mut done) = (Nanos(0), 0, Vec::new());
    assert_eq!(accelerator.next_event(), None, "seed {seed}: fresh, and something is in flight");
    while next < jobs || !in_flight.is_empty() {
        let flow = rng.below(FLOWS);
        let is_idle = in_flight.values().all(|(busy, _)| *busy != flow);
        if next < jobs && is_idle {
            let context = flows[flow as usize].clone();
            let job = some_job(&mut rng, accelerator, context);
            in_flight.insert(Ticket(next), (flow, job.clone()));
            accelerator.submit(now, Ticket(next), job);
            next += 1;
            continue;
        }
        accelerator.poll(now, &mut done);
        if done.is_empty() {
            now = wait(accelerator, now);
        }
        for Done { ticket, result } in done.drain(..) {
            let Some((flow, job)) = in_flight.remove(&ticket) else {
                panic!("seed {seed}: {ticket:?} was answered twice or never asked");
            };
            flows[flow as usize] = judged(seed, &*accelerator, &job, result, reference);
        }
    }
    assert_eq!(accelerator.next_event(), None, "seed {seed}: all is answered, and there is more");
}

/// Compares an answer with the reference; returns the flow's next context.
fn judged<A: Accelerator>(
    seed: u64,
    accelerator: &A,
    job: &Job,
    result: Result<Answer, AcceleratorError>,
    reference: &mut dyn FnMut(&Job) -> Answer,
) -> Context {
    if !accelerator.abilities().include(job) {
        assert_eq!(result, Err(AcceleratorError::Refused), "seed {seed}: {:?}", job.function);
        return Context::default();
    }
    let answer = result.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let right = reference(job);
    assert_eq!(answer.positions, right.positions, "seed {seed}: {:?}", job.function);
    assert_eq!((answer.length, answer.early), (right.length, right.early), "seed {seed}");
    let mut tail = job.context.tail.clone();
    tail.extend_from_slice(&job.data.to_vec());
    let tail = tail.split_off(tail.len().saturating_sub(TAIL_BYTES));
    Context { tail, length: answer.length, early: answer.early }
}

/// A job that goes on where its flow is, or once in a while one that cannot be done.
fn some_job<A: Accelerator>(rng: &mut Rng, accelerator: &A, context: Context) -> Job {
    let abilities = accelerator.abilities();
    let fingerprint = [None, Some(Fingerprint::RabinSource), Some(Fingerprint::Rabin16)];
    let bits = 5 + rng.below(8) as u32;
    let mask = |bits: u32| ((1_u32 << bits) - 1) as u16;
    let mut function = Function {
        fingerprint: fingerprint[rng.below(3) as usize].and(abilities.only.or(Some(
            if rng.below(2) == 0 { Fingerprint::RabinSource } else { Fingerprint::Rabin16 },
        ))),
        loose: mask(bits - 1),
        strict: mask(bits + 1),
        equals: 0,
        min: 1 << (bits - 2),
        expected: 1 << bits,
        max: 1 << (bits + 2),
        at_min: rng.below(4) == 0,
    };
    if function.fingerprint == Some(Fingerprint::RabinSource) {
        function.equals = 1;
        function.loose = mask(bits);
        function.strict = mask(bits);
    }
    let magnitude = rng.below(15);
    let mut length = rng.below(1 << magnitude).min(abilities.buffer_max.0);
    match rng.below(40) {
        0 => function.max = function.min - 1,
        1 => length = abilities.buffer_max.0 + 1,
        _ => {}
    }
    let data: Vec<u8> = match rng.below(3) {
        0 => vec![0; length as usize],
        1 => (0..length).map(|_| rng.below(2) as u8).collect(),
        _ => (0..length).map(|_| rng.next_u64() as u8).collect(),
    };
    let mut context = context;
    if context.length >= function.max {
        context = Context::default();
    }
    context.early &= function.at_min && context.length < function.min;
    Job { data: Payload::from(data), context, function }
}

#[cfg(test)]
mod tests;
