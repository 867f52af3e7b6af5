//! The index against a plain list.

use super::*;
use thermocline_units::Rng;

#[test]
fn finds_what_a_plain_list_finds() {
    let mut rng = Rng::seeded(3);
    let mut hashes = vec![0u64];
    let mut index = Index::new();
    let mut there: Vec<u32> = Vec::new();
    for _ in 0..20_000 {
        if rng.below(3) > 0 || there.is_empty() {
            // A few shards, and few homes in each, so that runs are long and wrap around.
            let hash = rng.below(3) << 52 | rng.below(40) << 46 | rng.below(1 << 20);
            hashes.push(hash);
            let number = hashes.len() as u32 - 1;
            index.insert(hash, number, |other| hashes[other as usize]);
            there.push(number);
        } else {
            let number = there.swap_remove(rng.below(there.len() as u64) as usize);
            let hash = hashes[number as usize];
            assert!(index.remove(hash, number, |other| hashes[other as usize]));
            assert!(!index.remove(hash, number, |other| hashes[other as usize]));
            assert_eq!(index.find(hash, |other| other == number), None);
        }
    }
    assert_eq!(index.len(), there.len());
    for number in there {
        let hash = hashes[number as usize];
        assert_eq!(index.find(hash, |other| other == number), Some(number));
    }
}
