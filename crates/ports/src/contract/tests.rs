//! Every device of this room is held to the contract, and a broken one does not pass.

use super::check;
use crate::faulty::{Faults, SimDisk};
use crate::model::{ModelDevice, Profile};
use crate::{Completion, Device, Geometry, Io, Ticket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use thermocline_units::{Bytes, Nanos};

fn simulated() -> SimDisk {
    let geometry = Geometry { size: Bytes::from_mib(64), discard_zeroes: false, far: false };
    SimDisk::new(geometry, 5, Faults { delay: 0.01, ..Faults::NONE })
}

#[test]
fn the_faulty_disk_without_failures_keeps_the_contract() {
    for seed in 0..20 {
        check(simulated, seed, 500);
    }
}

#[test]
fn every_model_keeps_the_contract_at_any_size() {
    for name in Profile::names() {
        for (seed, size) in [Bytes::from_mib(1), Bytes::from_mib(200)].into_iter().enumerate() {
            let mut profile = Profile::built_in(name).expect("it is built in");
            check(|| ModelDevice::new(&profile, 3), seed as u64, 2_000);
            profile.size = size;
            check(|| ModelDevice::new(&profile, 3), seed as u64, 2_000);
        }
    }
}

/// A device that does one thing wrong.
struct Broken {
    inner: SimDisk,
    how: How,
}

#[derive(Clone, Copy, PartialEq)]
enum How {
    AnswersTwice,
    AnswersEarly,
    ForgetsAnAnswer,
    HidesItsEvents,
}

impl Device for Broken {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        if !(self.how == How::ForgetsAnAnswer && ticket == Ticket(7)) {
            self.inner.submit(now, ticket, io);
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        match self.how {
            How::AnswersEarly => self.inner.poll(Nanos(now.0 + 5), done),
            _ => self.inner.poll(now, done),
        }
        if self.how == How::AnswersTwice && done.iter().any(|c| c.ticket == Ticket(7)) {
            done.extend(done.last().cloned());
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let next = self.inner.next_event()?;
        (self.how != How::HidesItsEvents || next.0 % 3 > 0).then_some(next)
    }
}

#[test]
fn a_device_that_breaks_the_contract_is_caught() {
    for how in [How::AnswersTwice, How::AnswersEarly, How::ForgetsAnAnswer, How::HidesItsEvents] {
        let run = || check(|| Broken { inner: simulated(), how }, 1, 200);
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    }
}
