//! Each fault does what its name says, as often as it was asked for.

use super::super::{Background, Faults, SimDisk, Survival};
use super::{GEOMETRY, at, disk, drain, filled, fills, forced, read, run, write};
use crate::{Device, DeviceError, Io, Payload, SECTOR, Ticket};
use std::collections::BTreeSet;
use thermocline_units::{Bytes, Nanos, Rng};

fn disk_with(seed: u64, faults: Faults) -> SimDisk {
    SimDisk::new(GEOMETRY, seed, faults)
}

#[test]
fn completions_overtake_each_other_in_the_order_of_their_time() {
    let mut disk = disk(1);
    for ticket in 0..50 {
        disk.submit(Nanos(0), Ticket(ticket), read(ticket, 1));
    }
    let done = drain(&mut disk);
    assert_eq!(done.len(), 50);
    assert!(done.is_sorted_by_key(|(time, _)| *time));
    assert!(!done.is_sorted_by_key(|(_, completion)| completion.ticket));
}

#[test]
fn a_read_shows_every_write_that_completed_before_it() {
    let mut rng = Rng::seeded(2);
    let mut disk = disk(2);
    let mut plain = fills(&disk.peek(at(0), 64 * SECTOR).expect("readable"));
    for step in 0..500_u64 {
        let sector = rng.below(56);
        match rng.below(3) {
            0 => {
                run(&mut disk, write(sector, step as u8, 8)).expect("no faults");
                plain[sector as usize..sector as usize + 8].fill(step as u8);
            }
            1 => {
                let length = Bytes(8 * u64::from(SECTOR));
                run(&mut disk, Io::WriteZeroes { offset: at(sector), length }).expect("no faults");
                plain[sector as usize..sector as usize + 8].fill(0);
            }
            _ => {
                let shown = run(&mut disk, read(sector, 8)).expect("no faults");
                assert_eq!(fills(&shown), plain[sector as usize..sector as usize + 8]);
            }
        }
    }
}

#[test]
fn exactly_the_nth_request_fails() {
    for n in 1..=5 {
        let mut disk = disk(1);
        run(&mut disk, read(0, 1)).expect("no faults");
        disk.fail_nth(n);
        let failed: Vec<u64> =
            (1..=6).filter(|_| run(&mut disk, read(0, 1)) == Err(DeviceError::Io)).collect();
        assert_eq!(failed, [n]);
        assert_eq!(disk.submitted(), 7);
    }
}

#[test]
fn a_failed_write_leaves_each_sector_old_or_new() {
    let mut combinations = BTreeSet::new();
    for seed in 0..200 {
        let mut disk = disk(seed);
        run(&mut disk, forced(0, 1, 3)).expect("no faults");
        disk.fail_nth(1);
        assert_eq!(run(&mut disk, forced(0, 2, 3)), Err(DeviceError::Io));
        combinations.insert(fills(&disk.peek(at(0), 3 * SECTOR).expect("readable")));
        disk.crash(&mut Rng::seeded(seed), Survival::Lost);
        assert_eq!(disk.peek(at(0), 3 * SECTOR), Ok(filled(1, 3)), "it was never durable");
    }
    assert_eq!(combinations.len(), 8);
}

#[test]
fn a_write_that_timed_out_may_have_happened() {
    let faults = Faults { time_out: 1.0, delay: 0.5, ..Faults::NONE };
    let mut outcomes = BTreeSet::new();
    for seed in 0..50 {
        let mut disk = disk_with(seed, Faults::NONE);
        run(&mut disk, write(0, 1, 1)).expect("no faults");
        disk.set_faults(faults);
        let before = disk.now();
        assert_eq!(run(&mut disk, write(0, 2, 1)), Err(DeviceError::TimedOut));
        assert_eq!(disk.now().saturating_sub(before), faults.time_out_after);
        outcomes.extend(fills(&disk.peek(at(0), SECTOR).expect("readable")));
    }
    assert_eq!(outcomes, BTreeSet::from([1, 2]));
}

#[test]
fn probabilities_are_kept() {
    let faults = Faults { fail: 0.1, time_out: 0.05, delay: 0.02, ..Faults::NONE };
    let mut disk = disk_with(8, faults);
    let (mut failed, mut timed_out, mut late) = (0, 0, 0);
    for _ in 0..20_000 {
        let before = disk.now();
        match run(&mut disk, read(0, 1)) {
            Err(DeviceError::Io) => failed += 1,
            Err(DeviceError::TimedOut) => timed_out += 1,
            _ => late += u32::from(disk.now().saturating_sub(before) > Nanos::from_micros(1500)),
        }
    }
    assert!((1_900..2_100).contains(&failed), "{failed} of 20,000 failed");
    assert!((850..1_050).contains(&timed_out), "{timed_out} of 20,000 timed out");
    assert!((230..380).contains(&late), "{late} of 20,000 were delayed");
}

#[test]
fn a_full_disk_takes_writes_only_where_it_has_room_already_and_changes_nothing_else() {
    let mut disk = disk(1);
    run(&mut disk, write(0, 1, 1)).expect("there is room");
    disk.fill_up();
    let length = Bytes(u64::from(SECTOR));
    assert_eq!(run(&mut disk, write(1, 2, 1)), Err(DeviceError::NoSpace));
    assert_eq!(run(&mut disk, write(0, 2, 2)), Err(DeviceError::NoSpace), "half of it has room");
    let zeroes = Io::WriteZeroes { offset: at(1), length };
    assert_eq!(run(&mut disk, zeroes), Err(DeviceError::NoSpace));
    assert_eq!(run(&mut disk, read(0, 1)), Ok(filled(1, 1)));
    assert_eq!(run(&mut disk, write(0, 3, 1)), Ok(Payload::EMPTY));
    assert_eq!(run(&mut disk, read(0, 1)), Ok(filled(3, 1)));
    assert_eq!(run(&mut disk, Io::Flush), Ok(Payload::EMPTY));
    disk.make_room();
    assert_eq!(run(&mut disk, write(1, 2, 1)), Ok(Payload::EMPTY));
}

#[test]
fn a_dead_disk_answers_gone_once_each_and_stays_dead() {
    let mut disk = disk(1);
    for ticket in 0..10 {
        disk.submit(Nanos(0), Ticket(ticket), write(ticket, 1, 1));
    }
    disk.kill();
    disk.submit(Nanos(0), Ticket(10), Io::Flush);
    let done = drain(&mut disk);
    assert!(done.iter().all(|(_, c)| c.result == Err(DeviceError::Gone)));
    let tickets: BTreeSet<Ticket> = done.iter().map(|(_, c)| c.ticket).collect();
    assert_eq!((done.len(), tickets.len()), (11, 11));
    disk.crash(&mut Rng::seeded(1), Survival::Kept);
    assert_eq!(run(&mut disk, read(0, 1)), Err(DeviceError::Gone));
    assert!(disk.is_dead());
}

#[test]
fn a_flipped_bit_is_silent_and_survives_crashes_until_it_is_overwritten() {
    let mut disk = disk(1);
    run(&mut disk, write(4, 0, 2)).expect("no faults");
    disk.flip_bit(Bytes(4 * 512 + 3), 5);
    let shown = run(&mut disk, read(4, 1)).expect("silent").to_vec();
    assert_eq!((shown[3], shown.iter().filter(|&&b| b != 0).count()), (1 << 5, 1));
    disk.crash(&mut Rng::seeded(1), Survival::Lost);
    assert_eq!(run(&mut disk, read(4, 1)).expect("silent").to_vec(), shown);
    assert_eq!(disk.flipped(), [at(4)]);
    run(&mut disk, write(4, 0, 1)).expect("no faults");
    assert_eq!(run(&mut disk, read(4, 1)), Ok(Payload::Zeroes(SECTOR)));
}

#[test]
fn bits_flip_by_chance_where_reads_go() {
    let mut disk = disk(1);
    run(&mut disk, write(0, 0, 64)).expect("no faults");
    disk.set_faults(Faults { flip: 0.1, ..Faults::NONE });
    for sector in 0..64 {
        run(&mut disk, read(sector, 1)).expect("silent");
    }
    let wrong: Vec<Bytes> = (0..64)
        .map(at)
        .filter(|&offset| disk.peek(offset, SECTOR) != Ok(Payload::Zeroes(SECTOR)))
        .collect();
    assert!(!wrong.is_empty());
    assert_eq!(disk.flipped(), wrong);
}

#[test]
fn a_spoilt_sector_cannot_be_read_until_it_is_written() {
    let mut disk = disk(1);
    disk.spoil(at(3), SECTOR);
    disk.crash(&mut Rng::seeded(1), Survival::Torn);
    assert_eq!(run(&mut disk, read(0, 8)), Err(DeviceError::Io));
    run(&mut disk, read(0, 3)).expect("beside it all is well");
    run(&mut disk, write(3, 1, 1)).expect("writing heals it");
    run(&mut disk, read(0, 8)).expect("healed");
}

#[test]
fn fresh_sectors_hold_what_was_asked_for() {
    let fresh = |background| {
        let disk = disk_with(1, Faults { background, ..Faults::NONE });
        disk.peek(at(0), SECTOR).expect("readable")
    };
    assert_eq!(fresh(Background::Zeroes), Payload::Zeroes(SECTOR));
    assert_ne!(fresh(Background::Garbage), Payload::Zeroes(SECTOR));
}

#[test]
fn a_flush_that_fails_forgets_volatile_writes_where_the_disk_is_one_that_forgets() {
    let outcomes = |forgets| {
        (0..40).map(move |seed| {
            let mut disk = disk_with(seed, Faults { forgets, ..Faults::NONE });
            run(&mut disk, forced(8, 7, 1)).expect("nothing fails yet");
            run(&mut disk, write(0, 9, 1)).expect("nothing fails yet");
            disk.fail_nth(1);
            assert_eq!(run(&mut disk, Io::Flush), Err(DeviceError::Io));
            assert_eq!(
                run(&mut disk, Io::Flush),
                Ok(Payload::EMPTY),
                "the next one says all is well"
            );
            disk.crash(&mut Rng::seeded(seed), Survival::Lost);
            let forced = fills(&disk.peek(at(8), SECTOR).expect("nothing is spoilt"));
            assert_eq!(forced, [7], "what was forced is durable");
            fills(&disk.peek(at(0), SECTOR).expect("nothing is spoilt")) == [9]
        })
    };
    let kept = outcomes(true).filter(|&kept| kept).count();
    assert!((1..40).contains(&kept), "each sector is old or new: {kept} of 40 are new");
    assert!(outcomes(false).all(|kept| kept), "the second flush made it durable");
}
