//! S3-FIFO against its rules written plainly, and its counts on a fixed trace.

use crate::cache::tests::{UNIVERSE, bytes_per_line, misses, mixture};
use crate::cache::{Replacement, Tag};
use crate::registry::{Built, Geometry, PolicySpec};
use expect_test::expect;
use std::collections::VecDeque;
use thermocline_units::LineId;

/// The rules with lists that are searched from end to end.
struct Plain {
    small: VecDeque<(LineId, u32)>,
    main: VecDeque<(LineId, u32)>,
    ghost: VecDeque<LineId>,
    capacity: usize,
    evicted: bool,
    v0: bool,
}

impl Plain {
    fn small_share(&self) -> usize {
        (self.capacity as f64 * 0.1) as usize
    }

    fn access(&mut self, line: LineId) -> bool {
        let mut resident = self.small.iter_mut().chain(&mut self.main);
        if let Some((_, count)) = resident.find(|(other, _)| *other == line) {
            *count = (*count + 1).min(3);
            return true;
        }
        let known = self.ghost.iter().position(|other| *other == line);
        known.map(|at| self.ghost.remove(at));
        while self.small.len() + self.main.len() == self.capacity {
            self.evict();
        }
        let overflow = !self.v0 && !self.evicted && self.small.len() >= self.small_share();
        let queue = if known.is_some() || overflow { &mut self.main } else { &mut self.small };
        queue.push_back((line, 0));
        false
    }

    fn evict(&mut self) {
        self.evicted = true;
        if self.main.len() <= self.capacity - self.small_share() {
            while let Some((line, count)) = self.small.pop_front() {
                if count < 2 {
                    if self.ghost.len() == (self.capacity as f64 * 0.9) as usize {
                        self.ghost.pop_front();
                    }
                    self.ghost.push_back(line);
                    return;
                }
                self.main.push_back((line, 0));
            }
        }
        while let Some((line, count)) = self.main.pop_front() {
            if count == 0 {
                return;
            }
            self.main.push_back((line, count - 1));
        }
    }
}

#[test]
fn every_access_ends_as_the_plain_rules_say() {
    for (capacity, v0) in [(10, false), (13, true), (64, false), (64, true), (300, false)] {
        let spec = if v0 { "s3-fifo:warmup=v0" } else { "s3-fifo" };
        let geometry = Geometry { lines: capacity, ..Geometry::for_tests() };
        let built = PolicySpec::parse(spec).unwrap().build(&geometry, None).unwrap();
        let Built::Cache(mut cache) = built else { panic!("s3-fifo is a cache") };
        cache.reserve(UNIVERSE);
        let mut plain = Plain {
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghost: VecDeque::new(),
            capacity: capacity as usize,
            evicted: false,
            v0,
        };
        for (i, line) in mixture(7, 30_000).into_iter().enumerate() {
            let outcome = cache.access(line, Tag::default());
            assert_eq!(outcome.is_hit(), plain.access(line), "{spec}@{capacity} at {i}");
        }
    }
}

#[test]
fn counts_on_the_fixed_trace_stay_what_they_are() {
    expect!["33165"].assert_eq(&misses("s3-fifo", 64).to_string());
    expect!["33151"].assert_eq(&misses("s3-fifo:warmup=v0", 64).to_string());
    expect!["35874"].assert_eq(&misses("s3-fifo:small=0.3:ghost=2:move=1", 64).to_string());
}

#[test]
fn an_invalidated_line_leaves_its_queue_and_makes_room() {
    let spec = PolicySpec::parse("s3-fifo").unwrap();
    let shape = super::Shape::read(20, &spec.settings).unwrap();
    let mut cache = super::S3Fifo::new(&shape);
    Replacement::reserve(&mut cache, UNIVERSE);
    (0..20).for_each(|i| {
        Replacement::access(&mut cache, LineId(i));
    });
    assert_eq!((cache.small.len(), cache.main.len()), (2, 18));
    assert!(Replacement::invalidate(&mut cache, LineId(0)));
    assert!(Replacement::invalidate(&mut cache, LineId(7)));
    assert!(!Replacement::invalidate(&mut cache, LineId(7)));
    assert_eq!((cache.small.len(), cache.main.len()), (1, 17));
    assert_eq!(Replacement::access(&mut cache, LineId(7)).evicted(), None);
}

#[test]
fn memory_is_what_the_head_states() {
    let bytes = bytes_per_line("s3-fifo");
    assert!((bytes - 13.0).abs() < 0.05, "{bytes}");
}
