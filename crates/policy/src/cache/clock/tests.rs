//! CLOCK against a list that reinserts, at every width of counter, and what discards leave behind.

use super::Clock;
use crate::cache::Replacement;
use thermocline_units::{LineId, Rng};

/// FIFO with reinsertion, as a list: what CLOCK does without frames.
fn reinsertion_misses(lines: &[LineId], capacity: usize, full: u8, first: u8) -> u64 {
    let mut queue = std::collections::VecDeque::new();
    let mut count = vec![None; 2000];
    let mut misses = 0;
    for line in lines {
        if let Some(hits) = &mut count[line.index()] {
            *hits = full.min(*hits + 1);
            continue;
        }
        misses += 1;
        while queue.len() == capacity {
            let oldest: LineId = queue.pop_front().expect("a full queue");
            count[oldest.index()] = count[oldest.index()].and_then(|hits: u8| hits.checked_sub(1));
            if count[oldest.index()].is_some() {
                queue.push_back(oldest);
            }
        }
        queue.push_back(*line);
        count[line.index()] = Some(first);
    }
    misses
}

fn misses<const BITS: usize>(lines: &[LineId], capacity: u32, first: u8) -> u64 {
    let mut cache = Clock::<BITS>::new(capacity, first);
    cache.reserve(2000);
    lines.iter().filter(|line| !cache.access(**line).is_hit()).count() as u64
}

#[test]
fn frames_and_a_hand_are_fifo_with_reinsertion_at_any_width() {
    let mut rng = Rng::seeded(3);
    let lines: Vec<_> =
        (0..40_000).map(|_| LineId((rng.unit_f64().powi(3) * 2000.0) as u32)).collect();
    for capacity in [1, 2, 63, 64, 65, 128, 200] {
        let list = |full, first| reinsertion_misses(&lines, capacity, full, first);
        let capacity = capacity as u32;
        assert_eq!(misses::<1>(&lines, capacity, 0), list(1, 0), "1 bit, {capacity} lines");
        assert_eq!(misses::<1>(&lines, capacity, 1), list(1, 1), "1 bit from 1, {capacity} lines");
        assert_eq!(misses::<2>(&lines, capacity, 0), list(3, 0), "2 bits, {capacity} lines");
        assert_eq!(misses::<3>(&lines, capacity, 2), list(7, 2), "3 bits from 2, {capacity} lines");
    }
}

#[test]
fn a_discarded_lines_frame_is_used_before_anything_is_evicted() {
    let mut cache = Clock::<1>::new(3, 0);
    cache.reserve(10);
    for line in 1..4 {
        cache.access(LineId(line));
    }
    assert!(cache.invalidate(LineId(2)) && !cache.invalidate(LineId(2)));
    assert_eq!(cache.resident(), 2);
    assert_eq!(cache.access(LineId(4)).evicted(), None);
    assert_eq!(cache.access(LineId(5)).evicted(), Some(LineId(1)));
}
