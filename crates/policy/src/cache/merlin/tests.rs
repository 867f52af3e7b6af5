//! Merlin against its rules written plainly, and its counts on a fixed trace.

use super::{COUNT_MAX, Merlin, Residencies, Shape};
use crate::cache::Replacement;
use crate::cache::tests::{UNIVERSE, bytes_per_line, misses, mixture};
use crate::registry::PolicySpec;
use expect_test::expect;
use std::collections::{BTreeMap, VecDeque};
use thermocline_units::LineId;

type Queue = VecDeque<(LineId, u32)>;

/// The rules with lists that are searched from end to end.
#[derive(Default)]
struct Plain {
    filter: Queue,
    staging: Queue,
    core: Queue,
    ghosts: Queue,
    residencies: BTreeMap<LineId, u32>,
    guard: u32,
    evictions: usize,
    capacity: usize,
}

impl Plain {
    fn filter_share(&self) -> usize {
        ((self.capacity as f64 * 0.1) as usize).max(1)
    }

    fn core_share(&self) -> usize {
        let staging = ((self.capacity as f64 * 0.05) as usize).max(1);
        self.capacity.saturating_sub(self.filter_share() + staging)
    }

    fn seen(&self, line: LineId) -> u32 {
        self.residencies.get(&line).copied().unwrap_or(0)
    }

    fn reside(&mut self, line: LineId) {
        let count = self.residencies.entry(line).or_default();
        *count = (*count + 1).min(63);
    }

    fn with_at_least(&self, least: u32) -> usize {
        let queues = [&self.filter, &self.staging, &self.core, &self.ghosts];
        queues.iter().flat_map(|q| q.iter()).filter(|(_, count)| *count >= least).count()
    }

    fn drop_ghost(&mut self, line: LineId) {
        self.ghosts.retain(|(other, _)| *other != line);
    }

    fn become_ghost(&mut self, line: LineId, count: u32) {
        self.drop_ghost(line);
        self.ghosts.push_back((line, count));
        if self.ghosts.len() > self.capacity {
            self.ghosts.pop_front();
        }
    }

    fn access(&mut self, line: LineId) -> bool {
        let queues = [&mut self.filter, &mut self.staging, &mut self.core];
        let found = queues.into_iter().flat_map(|q| q.iter_mut()).find(|(other, _)| *other == line);
        if let Some((_, count)) = found {
            *count = (*count + 1).min(COUNT_MAX);
            return true;
        }
        let ghost = self.ghosts.iter_mut().find(|(other, _)| *other == line).map(|(_, count)| {
            *count = (*count + 1).min(COUNT_MAX);
            *count
        });
        let to_core = ghost.filter(|count| *count >= self.guard);
        if self.filter.len() + self.staging.len() + self.core.len() == self.capacity {
            self.evict();
        }
        if self.filter.is_empty() && self.staging.is_empty() {
            self.core.push_back((line, 0));
        } else if let Some(count) = to_core {
            self.drop_ghost(line);
            self.core.push_back((line, count));
        } else if ghost.is_some() {
            self.reside(line);
            self.staging.push_back((line, 0));
        } else {
            self.filter.push_back((line, 0));
        }
        false
    }

    fn evict(&mut self) {
        self.evictions += 1;
        if self.evictions.is_multiple_of(32 * self.capacity) {
            self.residencies.values_mut().for_each(|count| *count /= 2);
        }
        let core = self.core.len();
        if self.with_at_least(self.guard) > core {
            while self.guard < COUNT_MAX && self.with_at_least(self.guard) > core {
                self.guard += 1;
            }
        } else {
            while self.guard > 1 && self.with_at_least(self.guard - 1) < core {
                self.guard -= 1;
            }
        }
        if self.filter.len() < self.filter_share() || !self.evict_from_filter() {
            self.evict_from_staging();
        }
    }

    fn evict_from_filter(&mut self) -> bool {
        while let Some((line, count)) = self.filter.pop_front() {
            if count >= self.guard {
                self.core.push_back((line, 0));
                self.reside(line);
                continue;
            }
            let rival = self.staging.front().copied();
            let seen = self.seen(line);
            let wins = rival.is_some_and(|(rival, hits)| hits == 0 && seen > self.seen(rival));
            if wins && seen <= 32 {
                self.staging.pop_front();
                self.staging.push_back((line, 0));
            }
            self.reside(line);
            self.become_ghost(line, count);
            return true;
        }
        false
    }

    fn evict_from_staging(&mut self) {
        loop {
            let gives = self.core.len() > self.core_share() || self.staging.is_empty();
            if gives && let Some(given) = self.core.pop_front() {
                self.staging.push_back(given);
                continue;
            }
            match self.staging.pop_front() {
                Some((_, 0)) => return,
                Some((line, count)) => {
                    self.drop_ghost(line);
                    self.core.push_back((line, count - 1));
                    self.reside(line);
                }
                None => {
                    let (line, count) = self.filter.pop_front().unwrap();
                    self.reside(line);
                    return self.become_ghost(line, count);
                }
            }
        }
    }
}

#[test]
fn every_access_ends_as_the_plain_rules_say() {
    for capacity in [1, 2, 3, 10, 64, 200] {
        let spec = PolicySpec::parse("merlin").unwrap();
        let mut merlin = Merlin::new(&Shape::read(capacity, &spec.settings).unwrap());
        Replacement::reserve(&mut merlin, UNIVERSE);
        let mut plain = Plain { guard: 2, capacity: capacity as usize, ..Plain::default() };
        for (i, line) in mixture(5, 12_000).into_iter().enumerate() {
            let hit = Replacement::access(&mut merlin, line).is_hit();
            assert_eq!(hit, plain.access(line), "{capacity} lines, at {i}");
            assert_eq!(merlin.guard, plain.guard, "{capacity} lines, at {i}");
        }
    }
}

#[test]
fn residencies_fade_without_being_touched() {
    let mut residencies = Residencies::default();
    residencies.reserve(2);
    (0..100).for_each(|_| residencies.count(LineId(0)));
    assert_eq!(residencies.of(LineId(0)), 63);
    residencies.fade();
    residencies.fade();
    assert_eq!((residencies.of(LineId(0)), residencies.of(LineId(1))), (15, 0));
    residencies.count(LineId(0));
    assert_eq!(residencies.of(LineId(0)), 16);
    (0..40).for_each(|_| residencies.fade());
    assert_eq!(residencies.of(LineId(0)), 0);
}

#[test]
fn the_guard_stops_at_the_largest_count_when_every_line_is_hot() {
    let spec = PolicySpec::parse("merlin").unwrap();
    let mut merlin = Merlin::new(&Shape::read(20, &spec.settings).unwrap());
    Replacement::reserve(&mut merlin, UNIVERSE);
    let mut access = |line| Replacement::access(&mut merlin, LineId(line)).is_hit();
    (0..25).for_each(|line| assert!(!access(line)));
    // Every resident line gets the largest count; more of them than core holds.
    for line in (0..25).map(LineId) {
        if Replacement::contains(&merlin, line) {
            (0..9).for_each(|_| assert!(Replacement::access(&mut merlin, line).is_hit()));
        }
    }
    assert!(merlin.with_at_least(COUNT_MAX) > merlin.core.len().into());
    Replacement::access(&mut merlin, LineId(30));
    assert_eq!(merlin.guard, COUNT_MAX);
}

#[test]
fn counts_on_the_fixed_trace_stay_what_they_are() {
    expect!["34156"].assert_eq(&misses("merlin", 64).to_string());
    expect!["35523"].assert_eq(&misses("merlin:filter=0.2:staging=0.1:ghost=2", 64).to_string());
    expect!["34160"].assert_eq(&misses("merlin:fade=1:guard=7", 64).to_string());
}

#[test]
fn memory_is_what_the_head_states() {
    let bytes = bytes_per_line("merlin");
    assert!((bytes - 13.9).abs() < 0.05, "{bytes}");
}
