//! Durable data survives every crash; volatile data survives in every combination.

use super::super::{Faults, SimDisk, Survival};
use super::{GEOMETRY, at, disk, drain, filled, fills, forced, read, run, write};
use crate::{Device, Geometry, Io, Payload, SECTOR, Ticket};
use std::collections::BTreeSet;
use thermocline_units::{Nanos, Rng};

const EVERY: [Survival; 4] = [Survival::Lost, Survival::Kept, Survival::Torn, Survival::Cached];

#[test]
fn flushed_writes_survive_every_crash() {
    for seed in 0..30 {
        for survival in EVERY {
            let mut disk = disk(seed);
            run(&mut disk, write(0, 1, 8)).expect("no faults");
            run(&mut disk, Io::Flush).expect("no faults");
            disk.crash(&mut Rng::seeded(seed), survival);
            assert_eq!(disk.peek(at(0), 8 * SECTOR), Ok(filled(1, 8)));
        }
    }
}

#[test]
fn each_volatile_sector_is_any_of_its_versions() {
    let mut seen = vec![BTreeSet::new(); 4];
    let mut combinations = BTreeSet::new();
    for seed in 0..1000 {
        let mut disk = disk(seed);
        run(&mut disk, write(0, 1, 4)).expect("no faults");
        run(&mut disk, Io::Flush).expect("no faults");
        run(&mut disk, write(0, 2, 4)).expect("no faults");
        run(&mut disk, write(1, 3, 3)).expect("no faults");
        disk.crash(&mut Rng::seeded(seed), Survival::Torn);
        let left = fills(&disk.peek(at(0), 4 * SECTOR).expect("readable"));
        left.iter().zip(&mut seen).for_each(|(fill, seen)| {
            seen.insert(*fill);
        });
        combinations.insert(left);
    }
    assert_eq!(seen[0], BTreeSet::from([1, 2]));
    assert_eq!(seen[3], BTreeSet::from([1, 2, 3]));
    assert_eq!(combinations.len(), 2 * 27, "every combination comes up");
}

#[test]
fn nothing_older_shows_through_a_forced_write() {
    for seed in 0..200 {
        let mut disk = disk(seed);
        run(&mut disk, write(0, 1, 4)).expect("no faults");
        run(&mut disk, forced(1, 2, 2)).expect("no faults");
        run(&mut disk, write(2, 3, 1)).expect("no faults");
        let durable = disk.peek_durable(at(1), 2 * SECTOR).expect("readable");
        assert_eq!(fills(&durable), [2, 2]);
        disk.crash(&mut Rng::seeded(seed), Survival::Torn);
        let left = fills(&disk.peek(at(1), 2 * SECTOR).expect("readable"));
        assert!(left[0] == 2 && (left[1] == 2 || left[1] == 3), "{left:?}");
    }
}

#[test]
fn a_flush_covers_only_writes_that_had_completed_before_it() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..50 {
        let mut disk = disk(seed);
        run(&mut disk, forced(0, 1, 1)).expect("no faults");
        let now = disk.now();
        disk.submit(now, Ticket(1), write(0, 2, 1));
        disk.submit(now, Ticket(2), Io::Flush);
        assert_eq!(drain(&mut disk).len(), 2);
        disk.crash(&mut Rng::seeded(seed), Survival::Lost);
        outcomes.extend(fills(&disk.peek(at(0), SECTOR).expect("readable")));
    }
    assert_eq!(outcomes, BTreeSet::from([1]), "the write was in flight when the flush began");
}

#[test]
fn writes_in_flight_survive_in_any_subset_and_are_never_answered() {
    let mut combinations = BTreeSet::new();
    for seed in 0..200 {
        let mut disk = disk(seed);
        run(&mut disk, forced(0, 1, 3)).expect("no faults");
        let now = disk.now();
        disk.submit(now, Ticket(1), forced(0, 2, 2));
        disk.submit(now, Ticket(2), write(1, 3, 2));
        disk.crash(&mut Rng::seeded(seed), Survival::Torn);
        assert_eq!(disk.next_event(), None);
        combinations.insert(fills(&disk.peek(at(0), 3 * SECTOR).expect("readable")));
        run(&mut disk, read(0, 3)).expect("the disk is ready again");
    }
    assert_eq!(combinations.len(), 2 * 3 * 2);
}

#[test]
fn lost_and_kept_mean_all() {
    for (survival, fill) in [(Survival::Lost, 1), (Survival::Kept, 2)] {
        let mut disk = disk(3);
        run(&mut disk, forced(0, 1, 1)).expect("no faults");
        run(&mut disk, write(0, 2, 1)).expect("no faults");
        disk.crash(&mut Rng::seeded(0), survival);
        assert_eq!(fills(&disk.peek(at(0), SECTOR).expect("readable")), [fill]);
    }
}

#[test]
fn a_killed_program_leaves_what_was_answered_volatile() {
    let mut in_flight = BTreeSet::new();
    for seed in 0..200 {
        let mut disk = disk(seed);
        run(&mut disk, forced(0, 1, 4)).expect("no faults");
        run(&mut disk, write(0, 2, 1)).expect("no faults");
        let now = disk.now();
        disk.submit(now, Ticket(1), forced(2, 3, 2));
        disk.crash(&mut Rng::seeded(seed), Survival::Cached);
        assert_eq!(disk.next_event(), None, "nobody is left to be answered");
        let left = fills(&disk.peek(at(0), 4 * SECTOR).expect("readable"));
        assert_eq!(left[..2], [2, 1]);
        let mut dark = disk.clone();
        dark.crash(&mut Rng::seeded(seed), Survival::Lost);
        let then = fills(&dark.peek(at(0), 4 * SECTOR).expect("readable"));
        assert_eq!(then[..2], [1, 1], "it was read, and never flushed");
        in_flight.insert((left[2..].to_vec(), then[2..].to_vec()));
        run(&mut disk, Io::Flush).expect("no faults");
        disk.crash(&mut Rng::seeded(seed), Survival::Lost);
        assert_eq!(fills(&disk.peek(at(0), 4 * SECTOR).expect("readable")), left);
    }
    let carried_through = (vec![3, 3], vec![3, 3]);
    let in_the_cache = [1, 3].into_iter().flat_map(|a| [1, 3].map(|b| (vec![a, b], vec![1, 1])));
    assert_eq!(in_flight, in_the_cache.chain([carried_through]).collect());
}

#[test]
fn a_flush_submitted_after_many_writes_makes_all_of_them_durable() {
    let mut rng = Rng::seeded(4);
    for seed in 0..50 {
        let mut disk = disk(seed);
        for ticket in 0..40 {
            let now = disk.now();
            disk.submit(now, Ticket(ticket), write(rng.below(100), ticket as u8, 8));
        }
        assert_eq!(drain(&mut disk).len(), 40);
        run(&mut disk, Io::Flush).expect("no faults");
        let before = disk.peek(at(0), 128 * SECTOR).expect("readable");
        assert_eq!(disk.peek_durable(at(0), 128 * SECTOR), Ok(before.clone()));
        disk.crash(&mut rng, Survival::Torn);
        assert_eq!(disk.peek(at(0), 128 * SECTOR), Ok(before));
    }
}

#[test]
fn a_discarded_range_keeps_the_promise_of_the_geometry() {
    let mut fates = BTreeSet::new();
    for seed in 0..60 {
        for discard_zeroes in [true, false] {
            let geometry = Geometry { discard_zeroes, ..GEOMETRY };
            let mut disk = SimDisk::new(geometry, seed, Faults::NONE);
            run(&mut disk, write(0, 7, 2)).expect("no faults");
            let length = thermocline_units::Bytes(u64::from(SECTOR));
            run(&mut disk, Io::Discard { offset: at(0), length }).expect("no faults");
            let shown = run(&mut disk, read(0, 2)).expect("no faults");
            assert_eq!(shown.slice(SECTOR..2 * SECTOR), filled(7, 1));
            let first = shown.slice(0..SECTOR);
            let fate = match () {
                () if first == Payload::Zeroes(SECTOR) => "zeroes",
                () if first == filled(7, 1) => "old",
                () => "garbage",
            };
            if discard_zeroes {
                assert_eq!(fate, "zeroes");
            } else {
                fates.insert(fate);
            }
        }
    }
    assert_eq!(fates, BTreeSet::from(["garbage", "old", "zeroes"]));
}

#[test]
fn same_seed_same_crash() {
    let left = |seed| {
        let mut disk = disk(5);
        for ticket in 0..20 {
            disk.submit(Nanos(ticket), Ticket(ticket), write(ticket, ticket as u8, 16));
        }
        disk.poll(Nanos::from_micros(100), &mut Vec::new());
        disk.crash(&mut Rng::seeded(seed), Survival::Torn);
        disk.peek(at(0), 40 * SECTOR).expect("readable")
    };
    assert_eq!(left(1), left(1));
    assert_ne!(left(1), left(2));
}
