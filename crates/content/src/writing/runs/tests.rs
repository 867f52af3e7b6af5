//! Runs of slots: neighbours are written at once, others are not.

#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn neighbours_become_one_write() {
    let mut runs = Runs::default();
    for (place, byte) in [(8, 1), (9, 2), (20, 3)] {
        runs.push(place, place * 10, Payload::from(vec![byte; BLOCK as usize]));
    }
    let runs: Vec<Run> = runs.into_iter().collect();
    assert_eq!(runs.iter().map(|run| run.place).collect::<Vec<_>>(), [8, 20]);
    assert_eq!(runs[0].numbers, [80, 90]);
    let data = runs[0].data().to_vec();
    assert_eq!((data.len(), data[0], data[4096]), (8192, 1, 2));
}
