//! Differences of CAR's miss counts from libCacheSim's, explained by a second, plain CAR that can
//! differ as that one does.
//!
//! libCacheSim 0.3.5 departs from the paper (Bansal & Modha, FAST 2004) in three ways, found by
//! feeding both the same traces:
//! 1. the ghost leaves its list before p moves, and p moves, by whole quotients, before the
//!    replacement;
//! 2. B1 is trimmed after every replacement that leaves |T1|+|B1| ≥ c, also when a ghost came back;
//! 3. B2 is never trimmed, so the directory outgrows 2c lines.
//!
//! With them the model has libCacheSim's counts to the last request; without them it has ours.

use crate::fixtures::{Accesses, shared};
use crate::oracle_counts::rows;
use rayon::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Copy, PartialEq)]
enum Rules {
    Paper,
    LibCacheSim,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Nowhere,
    Resident { referenced: bool },
    B1,
    B2,
}

struct Car {
    capacity: usize,
    rules: Rules,
    target: f64,
    state: Vec<State>,
    t1: VecDeque<usize>,
    t2: VecDeque<usize>,
    b1: VecDeque<usize>,
    b2: VecDeque<usize>,
}

impl Car {
    fn replace(&mut self) {
        loop {
            let from_t1 = self.t1.len() as f64 >= self.target.max(1.0);
            let clock = if from_t1 { &mut self.t1 } else { &mut self.t2 };
            let line = clock.pop_front().expect("the clock has lines");
            if self.state[line] == (State::Resident { referenced: true }) {
                self.state[line] = State::Resident { referenced: false };
                self.t2.push_back(line);
                continue;
            }
            self.state[line] = if from_t1 { State::B1 } else { State::B2 };
            let ghosts = if from_t1 { &mut self.b1 } else { &mut self.b2 };
            return ghosts.push_back(line);
        }
    }

    fn forget(state: &mut [State], ghosts: &mut VecDeque<usize>) {
        state[ghosts.pop_front().expect("there is a ghost")] = State::Nowhere;
    }

    fn adapt(&mut self, was: State) {
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        let (step, sign) = if was == State::B1 { (b2 / b1, 1.0) } else { (b1 / b2, -1.0) };
        let step = if self.rules == Rules::LibCacheSim { step.trunc() } else { step };
        self.target = (self.target + sign * step.max(1.0)).clamp(0.0, self.capacity as f64);
    }

    fn leave_ghosts(&mut self, line: usize) {
        self.b1.retain(|ghost| *ghost != line);
        self.b2.retain(|ghost| *ghost != line);
    }

    /// True if the access missed.
    fn access(&mut self, line: usize) -> bool {
        let was = self.state[line];
        if let State::Resident { .. } = was {
            self.state[line] = State::Resident { referenced: true };
            return false;
        }
        let ghost = was != State::Nowhere;
        if ghost && self.rules == Rules::LibCacheSim {
            self.adapt(was);
            self.leave_ghosts(line);
        }
        if self.t1.len() + self.t2.len() == self.capacity {
            self.replace();
            let once = self.t1.len() + self.b1.len();
            let all = once + self.t2.len() + self.b2.len();
            if once >= self.capacity && (!ghost || self.rules == Rules::LibCacheSim) {
                Car::forget(&mut self.state, &mut self.b1);
            } else if all == 2 * self.capacity && !ghost && self.rules == Rules::Paper {
                Car::forget(&mut self.state, &mut self.b2);
            }
        }
        if ghost && self.rules == Rules::Paper {
            self.adapt(was);
            self.leave_ghosts(line);
        }
        if ghost {
            self.t2.push_back(line)
        } else {
            self.t1.push_back(line)
        }
        self.state[line] = State::Resident { referenced: false };
        true
    }
}

fn model_misses(trace: &Accesses, capacity: u32, rules: Rules) -> u64 {
    let mut car = Car {
        capacity: capacity as usize,
        rules,
        target: 0.0,
        state: vec![State::Nowhere; trace.distinct as usize],
        t1: VecDeque::new(),
        t2: VecDeque::new(),
        b1: VecDeque::new(),
        b2: VecDeque::new(),
    };
    trace.lines.iter().filter(|line| car.access(line.index())).count() as u64
}

#[test]
fn car_is_the_papers_and_differs_from_libcachesims_for_known_reasons_only() {
    let (Some(trace), Some(table)) = (Accesses::cloudphysics(), shared("peers/oracle_cpio.txt"))
    else {
        return;
    };
    let cells: Vec<_> = rows(&table).filter(|(policy, ..)| *policy == "CAR").collect();
    assert_eq!(cells.len(), 6);
    cells.into_par_iter().for_each(|(_, size, theirs)| {
        assert_eq!(model_misses(&trace, size, Rules::LibCacheSim), theirs, "@{size}");
        assert_eq!(model_misses(&trace, size, Rules::Paper), trace.misses("car", size), "@{size}");
    });
}
