//! The index and the queues beside plain maps.

use super::*;
use std::collections::BTreeMap;
use thermocline_units::Rng;

#[test]
fn the_index_finds_what_a_map_finds() {
    for seed in 0..50 {
        let mut rng = Rng::seeded(seed);
        let max = 1 + rng.below(60) as usize;
        let (mut index, mut model) = (Index::new(max), BTreeMap::new());
        // Few hashes, so that runs are long and wrap around the end.
        let hash_of = |slot: u32| slot.wrapping_mul(0x9e37_79b9) | 0xf000_0000;
        for _ in 0..2000 {
            let slot = rng.below(max as u64 * 2) as u32;
            let hash = hash_of(slot / 3);
            if model.remove(&slot).is_some() {
                index.remove(hash, slot);
            } else if model.len() < max {
                index.insert(hash, slot);
                model.insert(slot, ());
            }
            let probe = rng.below(max as u64 * 2) as u32;
            let found = index.find(hash_of(probe / 3), |s| s == probe);
            assert_eq!(found.is_some(), model.contains_key(&probe), "seed {seed}");
        }
    }
}

#[test]
fn queues_keep_the_order_of_activity() {
    let mut rng = Rng::seeded(7);
    let (mut queues, mut model) = (Queues::<2>::new(40), [Vec::new(), Vec::new()]);
    let mut at: BTreeMap<u32, usize> = BTreeMap::new();
    for _ in 0..5000 {
        let (slot, queue) = (rng.below(40) as u32, rng.below(2) as usize);
        if let Some(old) = at.remove(&slot) {
            queues.remove(old, slot);
            model[old].retain(|&s| s != slot);
        }
        if rng.below(3) > 0 {
            queues.push(queue, slot);
            model[queue].push(slot);
            at.insert(slot, queue);
        }
        for (queue, model) in model.iter().enumerate() {
            let found: Vec<u32> =
                std::iter::successors(queues.first(queue), |&s| queues.after(s)).collect();
            assert_eq!(&found, model);
            assert_eq!(queues.len(queue), model.len());
        }
    }
}
