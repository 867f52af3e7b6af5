//! The order of evictions by hand: second-last accesses, what is remembered, correlated accesses.

use super::Lru2;
use crate::cache::Replacement;
use std::collections::VecDeque;
use thermocline_units::{LineId, Rng};

fn after(mut cache: Lru2, accesses: &[u32]) -> Lru2 {
    cache.reserve(1000);
    for line in accesses {
        cache.access(LineId(*line));
    }
    cache
}

fn evicted(cache: &mut Lru2, line: u32) -> Option<u32> {
    cache.access(LineId(line)).evicted().map(|line| line.0)
}

#[test]
fn the_oldest_second_last_access_goes_and_lines_without_one_before_it() {
    let mut cache = after(Lru2::new(3, 0, 3), &[1, 2, 3, 2, 1, 3, 3]);
    // HIST2 of 1, 2, 3: times 1, 2, 6.
    assert_eq!(evicted(&mut cache, 4), Some(1));
    assert_eq!(evicted(&mut cache, 5), Some(4), "4 has only one access");
    assert_eq!(evicted(&mut cache, 6), Some(5));
    assert_eq!(evicted(&mut cache, 6), None, "6 gets a second access at time 10");
    assert_eq!(evicted(&mut cache, 7), Some(2));
}

#[test]
fn a_remembered_line_comes_back_with_its_past() {
    let with = |history| after(Lru2::new(2, 0, history), &[1, 1, 2, 3, 2, 4]);
    // 3 evicts 2; 2 returns and evicts 3; 4 is new.
    let mut cache = with(2);
    assert!(cache.contains(LineId(2)), "2 has a second-last access: 1's, older, went");
    assert!(!cache.contains(LineId(1)));
    cache = with(0);
    assert!(!cache.contains(LineId(2)), "2 was as new as 4");
    assert!(cache.contains(LineId(1)));
}

#[test]
fn correlated_accesses_count_as_one_and_protect_for_a_while() {
    let mut cache = after(Lru2::new(2, 2, 0), &[1, 1, 1, 2]);
    // At time 5, line 1's last access (3) is no longer than 2 ago, nor is 2's: the older goes.
    assert_eq!(evicted(&mut cache, 3), Some(1));
    let mut cache = after(Lru2::new(2, 1, 0), &[1, 1, 2, 9, 9, 9, 9]);
    assert_eq!(evicted(&mut cache, 4), Some(2), "9 is fresh; its burst is one access");
    assert_eq!(cache.resident(), 2);
}

#[test]
fn what_is_remembered_stays_within_its_bound_however_often_lines_return() {
    let mut cache = Lru2::new(4, 0, 4);
    cache.reserve(1000);
    for i in 0..50_000u32 {
        cache.access(LineId(i % 7));
    }
    assert!(cache.footprint().resident < 9 * 24 + 1024, "{:?}", cache.footprint());
}

/// The rule itself, with times that never run out and a search through all lines.
struct Model {
    /// Line, LAST, HIST1, HIST2.
    resident: Vec<(u32, u64, u64, u64)>,
    /// Line, HIST1; the one evicted longest ago first.
    remembered: VecDeque<(u32, u64)>,
    now: u64,
    correlated: u64,
    capacity: usize,
    history: usize,
}

impl Model {
    fn new(capacity: usize, correlated: u64, history: usize) -> Model {
        let (resident, remembered) = (Vec::new(), VecDeque::new());
        Model { resident, remembered, now: 0, correlated, capacity, history }
    }

    /// The line evicted, if it was a miss.
    fn access(&mut self, line: u32) -> Option<Option<u32>> {
        self.now += 1;
        let (now, correlated) = (self.now, self.correlated);
        if let Some(found) = self.resident.iter_mut().find(|entry| entry.0 == line) {
            if now - found.1 > correlated {
                (found.2, found.3) = (now, found.1);
            }
            found.1 = now;
            return None;
        }
        let known = self.remembered.iter().position(|entry| entry.0 == line);
        let hist2 = known.and_then(|at| self.remembered.remove(at)).map_or(0, |entry| entry.1);
        let evicted = (self.resident.len() == self.capacity).then(|| {
            let ripe = self.resident.iter().filter(|entry| now - entry.1 > correlated);
            let oldest = ripe.min_by_key(|entry| (entry.3, entry.1));
            let victim = oldest.or(self.resident.iter().min_by_key(|entry| entry.1)).unwrap().0;
            let at = self.resident.iter().position(|entry| entry.0 == victim).unwrap();
            let entry = self.resident.remove(at);
            self.remembered.push_back((victim, entry.2));
            if self.remembered.len() > self.history {
                self.remembered.pop_front();
            }
            victim
        });
        self.resident.push((line, now, now, hist2));
        Some(evicted)
    }
}

#[test]
fn every_decision_is_the_rules_however_often_times_are_renumbered() {
    for (capacity, correlated, history) in [(5, 0, 5), (7, 3, 2), (4, 12, 9), (9, 2, 0), (1, 0, 1)]
    {
        let mut cache = Lru2::new(capacity, correlated, history);
        let mut model = Model::new(capacity as usize, correlated.into(), history as usize);
        cache.reserve(40);
        let mut rng = Rng::seeded(7);
        for access in 0..20_000 {
            let line = rng.below(5 + access % 35) as u32;
            let outcome = cache.access(LineId(line));
            let found = (!outcome.is_hit()).then(|| outcome.evicted().map(|line| line.0));
            assert_eq!(found, model.access(line), "access {access} of {capacity} lines");
            if access % 97 == 0 {
                let gone = rng.below(40) as u32;
                model.resident.retain(|entry| entry.0 != gone);
                cache.invalidate(LineId(gone));
            }
        }
        assert!(cache.now < 20_000, "times were renumbered");
    }
}

#[test]
fn a_cached_line_takes_24_bytes_and_a_remembered_one_20() {
    let mut cache = Lru2::new(1000, 0, 500);
    cache.reserve(5000);
    for i in 0..5000 {
        cache.access(LineId(i));
    }
    let fresh = 1024;
    assert!(cache.footprint().resident <= 1000 * 24 + 500 * 20 + fresh);
}
