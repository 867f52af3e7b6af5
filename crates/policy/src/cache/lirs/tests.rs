//! LIRS against its rules written plainly, and its counts on a fixed trace.

use super::{Lirs, Shape};
use crate::cache::tests::{UNIVERSE, bytes_per_line, misses, mixture};
use crate::cache::{Outcome, Replacement};
use crate::registry::PolicySpec;
use expect_test::expect;
use thermocline_units::{LineId, Rng};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lir,
    Hir,
    Ghost,
}

/// The rules with lists that are searched from end to end; oldest first.
struct Plain {
    stack: Vec<(LineId, Kind)>,
    queue: Vec<LineId>,
    lingering: Option<LineId>,
    capacity: usize,
    hir: usize,
    bound: usize,
    demote: bool,
}

impl Plain {
    fn count(&self, kind: Kind) -> usize {
        self.stack.iter().filter(|(_, k)| *k == kind).count()
    }

    fn lir_full(&self) -> bool {
        self.count(Kind::Lir) >= self.capacity - self.hir
    }

    fn prune(&mut self) {
        let oldest_lir = self.stack.iter().position(|(_, kind)| *kind == Kind::Lir);
        self.stack.drain(..oldest_lir.unwrap_or(self.stack.len()));
    }

    fn evict(&mut self) -> LineId {
        let victim = self.queue.remove(0);
        for (line, kind) in &mut self.stack {
            if *line == victim {
                *kind = Kind::Ghost;
            }
        }
        victim
    }

    fn demote(&mut self) -> Option<LineId> {
        self.prune();
        let (line, _) = self.stack.remove(0);
        self.prune();
        let victim = (self.queue.len() >= self.hir).then(|| self.evict());
        self.queue.push(line);
        victim
    }

    fn enter_as_lir(&mut self, line: LineId) -> Option<LineId> {
        self.stack.push((line, Kind::Lir));
        if self.count(Kind::Lir) > self.capacity - self.hir {
            return self.demote();
        }
        self.prune();
        None
    }

    fn access(&mut self, line: LineId) -> Outcome {
        let at = self.stack.iter().position(|(other, _)| *other == line);
        let kind = at.map(|at| self.stack[at].1);
        let queued = self.queue.iter().position(|other| *other == line);
        match (kind, queued) {
            (Some(Kind::Lir), _) => {
                self.stack.remove(at.unwrap());
                self.stack.push((line, Kind::Lir));
                self.prune();
            }
            (Some(_), Some(queued)) => {
                self.queue.remove(queued);
                self.stack.remove(at.unwrap());
                assert_eq!(self.enter_as_lir(line), None);
            }
            (None, Some(queued)) => {
                self.queue.remove(queued);
                self.queue.push(line);
                if self.demote && self.lir_full() && self.hir > 1 && self.count(Kind::Lir) > 0 {
                    self.lingering = self.demote().or(self.lingering);
                }
                self.stack.push((line, Kind::Hir));
            }
            _ => return self.miss(line, at),
        }
        Outcome::HIT
    }

    fn miss(&mut self, line: LineId, ghost: Option<usize>) -> Outcome {
        let mut victim = None;
        if let Some(at) = ghost {
            self.stack.remove(at);
            victim = self.enter_as_lir(line);
        } else if !self.lir_full() {
            self.stack.push((line, Kind::Lir));
        } else {
            if self.queue.len() >= self.hir {
                victim = Some(self.evict());
            }
            self.stack.push((line, Kind::Hir));
            self.queue.push(line);
        }
        while self.stack.len() > self.bound
            && let Some(at) = self.stack.iter().position(|(_, kind)| *kind == Kind::Ghost)
        {
            self.stack.remove(at);
        }
        if self.lingering == Some(line) {
            self.lingering = None;
            return Outcome::HIT;
        }
        if self.count(Kind::Lir) + self.queue.len() == self.capacity {
            victim = victim.or(self.lingering.take());
        }
        victim.map_or(Outcome::ADMITTED, Outcome::evicting)
    }
}

fn pair(spec: &str, capacity: u32) -> (Lirs, Plain) {
    let spec = PolicySpec::parse(spec).unwrap();
    let shape = Shape::read(capacity, &spec.settings).unwrap();
    let plain = Plain {
        stack: Vec::new(),
        queue: Vec::new(),
        lingering: None,
        capacity: capacity as usize,
        hir: shape.hir as usize,
        bound: shape.stack as usize,
        demote: shape.demote,
    };
    let mut lirs = Lirs::new(&shape);
    Replacement::reserve(&mut lirs, UNIVERSE);
    (lirs, plain)
}

#[test]
fn every_access_ends_as_the_plain_rules_say() {
    let specs = ["lirs", "lirs:demote=no", "lirs:hir=0.1", "lirs:hir=0.5:stack=1", "lirs:stack=4"];
    for spec in specs {
        for capacity in [1, 2, 3, 20, 150] {
            let (mut lirs, mut plain) = pair(spec, capacity);
            for (i, line) in mixture(3, 6000).into_iter().enumerate() {
                let outcome = Replacement::access(&mut lirs, line);
                assert_eq!(outcome, plain.access(line), "{spec}@{capacity} at {i}");
            }
        }
    }
}

#[test]
fn a_hit_outside_the_stack_lets_a_line_linger_until_room_is_needed() {
    // Ten lines, two of them HIR: 0 to 7 are LIR, 8 and 9 wait in the queue.
    let (mut lirs, _) = pair("lirs:hir=0.2", 10);
    let mut access = |line| Replacement::access(&mut lirs, LineId(line));
    (0..10).for_each(|line| assert_eq!(access(line), Outcome::ADMITTED));
    // 8 becomes LIR, 0 is demoted; a hit on 0 demotes 1 and lets 9 go, but nothing is evicted yet.
    assert_eq!(access(8), Outcome::HIT);
    assert_eq!(access(0), Outcome::HIT);
    assert_eq!(lirs.lingering, Some(LineId(9)));
    assert_eq!((Replacement::resident(&lirs), Replacement::contains(&lirs, LineId(9))), (10, true));
    // The next miss needs the room.
    assert_eq!(Replacement::access(&mut lirs, LineId(10)), Outcome::evicting(LineId(9)));
    assert_eq!(lirs.lingering, None);
}

#[test]
fn the_stack_stays_within_its_bound_and_its_log_within_its_room() {
    for stack in ["1", "2", "3.5"] {
        let (mut lirs, _) = pair(&format!("lirs:hir=0.05:stack={stack}"), 200);
        let mut rng = Rng::seeded(4);
        for i in 0..200_000_u32 {
            let hot = LineId((rng.unit_f64().powi(4) * 600.0) as u32);
            let line = if i % 7 == 0 { LineId(600 + i % 1400) } else { hot };
            let miss = !Replacement::access(&mut lirs, line).is_hit();
            assert!(!miss || lirs.stack.len() <= lirs.stack_bound.max(200), "at {i}");
            if i % 1001 == 0 {
                Replacement::invalidate(&mut lirs, hot);
            }
        }
    }
}

#[test]
fn counts_on_the_fixed_trace_stay_what_they_are() {
    expect!["35613"].assert_eq(&misses("lirs", 64).to_string());
    expect!["35490"].assert_eq(&misses("lirs:hir=0.1", 64).to_string());
    expect!["35480"].assert_eq(&misses("lirs:hir=0.1:demote=no", 64).to_string());
    expect!["36117"].assert_eq(&misses("lirs:stack=4", 64).to_string());
}

#[test]
fn memory_is_what_the_head_states() {
    let bytes = bytes_per_line("lirs");
    assert!((bytes - 16.1).abs() < 0.05, "{bytes}");
}
