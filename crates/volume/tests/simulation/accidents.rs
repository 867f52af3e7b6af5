//! Accidents that the simulation has found, as the shortest plans that led to them.
//!
//! Each test's head tells what happened. Seeds mean something else whenever plans are drawn in
//! another way; these plans stay what they are. A seed is given where the disks' latencies matter.

mod changeover;
mod planted;
mod unseen;
mod unseen_later;

use crate::plan::{Plan, PoolPlan, Span, Step, tactics};
use crate::report;
use crate::run::{Extras, run};
use thermocline_ports::faulty::Survival;
use thermocline_units::mutants::plant;
use thermocline_units::{Bytes, Nanos};
use thermocline_volume::{Copying, OperationKind, Settings};

/// Sectors of a chunk of 64 KiB.
const CHUNK: u32 = 128;

const LOST: Step = Step::Crash { survival: Survival::Lost };
const ALL: Step = Step::Verify { eighths: 8 };

fn pool(chunks: u32, latency_us: u32) -> PoolPlan {
    let (zeroed, discard_zeroes, far) = (false, false, false);
    let (reserve, roomy, forgets) = (0, true, true);
    PoolPlan { chunks, roomy, reserve, latency_us, zeroed, discard_zeroes, far, forgets }
}

fn span(sector: u32, sectors: u32) -> Span {
    Span { volume: 0, sector, sectors }
}

fn write(sector: u32, sectors: u32, fua: bool) -> Step {
    Step::Write { span: span(sector, sectors), fua, patience: None }
}

/// Copies as fast as the devices do, as they were when these accidents happened.
fn copying() -> Copying {
    Copying {
        rate_per_second: None,
        concurrent: 4,
        outstanding: Some(2),
        yield_above: Some(1),
        ..Copying::pieces_alone()
    }
}

/// A group whose operations copy as fast as the devices do.
fn settings(chunk_kib: u64, journal_blocks: u32) -> Settings {
    Settings {
        chunk_size: Bytes::from_kib(chunk_kib),
        journal_blocks,
        copying: copying(),
        ..Settings::default()
    }
}

/// Runs the steps, which must end well.
fn ends_well(seed: u64, checksums: bool, pools: &[PoolPlan], steps: &[Step]) -> Plan {
    let settings = Settings { checksums, ..settings(64, 64) };
    let plan = Plan { seed, settings, pools: pools.to_vec(), steps: steps.to_vec() };
    plan_ends_well(&plan);
    plan
}

/// The plans are of use: without the mending that followed the accident, one ends badly.
fn fails_with(mutant: &'static str, plans: &[Plan]) {
    let _planted = plant(mutant);
    let fails = plans.iter().any(|plan| run(plan, Extras::default()).is_err());
    assert!(fails, "no plan notices {mutant}");
}

fn plan_ends_well(plan: &Plan) {
    if let Err(failure) = run(plan, Extras::default()) {
        panic!("{}", report::failure(plan, &failure, Extras::default()));
    }
}

/// The write ended while the flush before it was on the disk, and counted as flushed: the group
/// closed, and the write was gone after the power had failed.
#[test]
fn closing_leaves_nothing_volatile() {
    let flush = Step::Flush { volume: 0 };
    let create = Step::CreateVolume { sectors: 4 * CHUNK };
    let steps = [create, flush, write(0, 1, false), flush, Step::Close { cut: None }, ALL];
    for seed in 0..20 {
        ends_well(seed, false, &[pool(9, 96)], &steps);
    }
}

/// The record of a deletion was queued when the volume's last request had ended, so the flush in
/// between made nothing durable: the volume was back.
#[test]
fn a_volume_deleted_under_a_write_is_gone_with_the_next_flush() {
    let mut plans = Vec::new();
    for events in 1..12 {
        let steps = [
            Step::CreateVolume { sectors: 4 * CHUNK },
            Step::CreateVolume { sectors: 4 * CHUNK },
            Step::Settle,
            Step::Flush { volume: 0 },
            Step::Settle,
            write(0, CHUNK, false),
            Step::DeleteVolume { volume: 0 },
            Step::Flush { volume: 0 },
            Step::Events { count: events },
            LOST,
            ALL,
        ];
        let run = |seed| ends_well(seed, false, &[pool(9, 300)], &steps);
        plans.extend((0..20).map(run));
    }
    fails_with("deletion_said_late", &plans);
}

/// Nothing was to be done, so the zeroes were answered at once; the record by which the discard
/// before them had unmapped the chunk was still in memory, and a crash brought the data back.
#[test]
fn forced_zeroes_onto_an_unmapped_chunk_wait_for_the_journal() {
    let steps = [
        Step::CreateVolume { sectors: 4 * CHUNK },
        write(0, CHUNK, true),
        Step::Settle,
        Step::Discard(span(0, CHUNK)),
        Step::WriteZeroes { span: span(0, 8), fua: true },
        LOST,
        ALL,
    ];
    let plan = ends_well(1, false, &[pool(9, 100)], &steps);
    fails_with("forced_zeroes_on_nothing_at_once", &[plan]);
}

/// The second pool's checkpoint was asked for while the first one's superblocks were written, and
/// started never: nothing else was under way that could have started it.
#[test]
fn two_pools_added_at_once_both_join() {
    let steps =
        [Step::AddPool(pool(40, 17)), Step::AddPool(pool(40, 28)), Step::Close { cut: None }];
    ends_well(1, false, &[pool(9, 434)], &steps);
}

/// Two drained pools were both removed, the only ones that could hold the journal.
#[test]
fn the_last_pool_with_room_for_the_journal_stays() {
    let small = PoolPlan { roomy: false, ..pool(6, 50) };
    let steps = [
        Step::DrainPool { pool: 0 },
        Step::DrainPool { pool: 1 },
        Step::Wait { us: 1_000_000 },
        Step::RemovePool { pool: 0 },
        Step::RemovePool { pool: 1 },
        Step::Wait { us: 1_000_000 },
        Step::CreateVolume { sectors: CHUNK },
        write(0, 8, true),
        LOST,
        ALL,
    ];
    ends_well(1, false, &[pool(21, 31), pool(30, 83), small], &steps);
}

/// While a drained pool was being removed the other replica of the journal died. The superblock
/// called the drained one removed, though it held the only journal: the group could not be opened
/// again.
#[test]
fn a_pool_being_removed_stays_when_the_other_replica_dies() {
    for events in 0..40 {
        let steps = [
            Step::CreateVolume { sectors: 3 * CHUNK },
            Step::Flush { volume: 0 },
            Step::Settle,
            Step::DrainPool { pool: 0 },
            Step::Events { count: events },
            Step::Kill { pool: 1 },
            Step::RemovePool { pool: 0 },
            Step::Wait { us: 1_000_000 },
            LOST,
            ALL,
        ];
        ends_well(events.into(), false, &[pool(52, 151), pool(14, 268)], &steps);
    }
}

/// The superblocks of a checkpoint that had elected the pool a replica, before its removal was
/// asked for, called it removed; the next commit wrote its journal to a disk that had been taken
/// away.
#[test]
fn a_pool_that_holds_the_journal_is_not_yet_removed() {
    let steps = vec![
        Step::CreateVolume { sectors: 512 },
        Step::DrainPool { pool: 0 },
        Step::Events { count: 5 },
        Step::Crash { survival: Survival::Torn },
        Step::Crash { survival: Survival::Torn },
        write(136, 16, true),
        Step::Wait { us: 0 },
        Step::RemovePool { pool: 0 },
    ];
    let fast = PoolPlan { roomy: false, discard_zeroes: true, ..pool(18, 27) };
    let settings = Settings {
        chunk_size: Bytes::from_kib(64),
        journal_blocks: 128,
        tactics: tactics(&["slowest-first"]),
        copying: copying(),
        ..Settings::default()
    };
    let pools = vec![pool(8, 1_809), pool(63, 229), fast];
    let plan = Plan { seed: 0xa8, settings, pools, steps };
    plan_ends_well(&plan);
}

/// A redirection was cancelled; the chunk, in two parts, got the checksums of one of
/// them, and the other part could not be read any more.
#[test]
fn a_chunk_in_two_parts_can_be_read_when_it_has_rested() {
    let steps = [
        Step::CreateVolume { sectors: 4 * CHUNK },
        write(0, CHUNK, false),
        Step::Settle,
        Step::Operate { kind: OperationKind::Redirect, nth: 0, to: 0 },
        write(16, 16, false),
        Step::Cancel { nth: 0 },
        Step::Settle,
        Step::Wait { us: 25_000_000 },
        ALL,
    ];
    ends_well(1, true, &[pool(14, 655), pool(9, 900)], &steps);
}

/// A read failed while a chunk got its checksums: the checksums of all blocks behind moved up, and
/// the chunk could not be read any more.
#[test]
fn a_chunk_with_a_piece_that_could_not_be_read_can_be_read_later() {
    for nth in 1..=4 {
        let steps = [
            Step::CreateVolume { sectors: 4 * CHUNK },
            write(0, CHUNK, false),
            write(CHUNK, CHUNK, false),
            Step::Wait { us: 9_000_000 },
            Step::FailNth { pool: 0, nth },
            Step::Wait { us: 25_000_000 },
            ALL,
        ];
        ends_well(1, true, &[pool(56, 200)], &steps);
    }
}

/// Another pool died between the arrival of redirected blocks and the next commit. Dropping its
/// copies marked the overlays of all chunks as saved: the flush that followed was answered, and
/// after a crash the blocks were old.
#[test]
fn redirected_blocks_are_flushed_after_another_pool_died() {
    let operate = |kind, nth, to| Step::Operate { kind, nth, to };
    let elsewhere = write(CHUNK, 8, false);
    let mut plans = Vec::new();
    for events in 1..20 {
        let steps = [
            Step::CreateVolume { sectors: 4 * CHUNK },
            write(0, 2 * CHUNK, true),
            Step::Settle,
            operate(OperationKind::Replicate, 1, 1),
            Step::Settle,
            elsewhere,
            Step::Settle,
            operate(OperationKind::Redirect, 0, 0),
            write(16, 64, false),
            Step::Cancel { nth: 0 },
            Step::Wait { us: 20_000 },
            Step::Kill { pool: 2 },
            elsewhere,
            Step::Events { count: 1 },
            Step::Flush { volume: 0 },
            Step::Events { count: events },
            LOST,
            ALL,
        ];
        let pools = [pool(14, 50), pool(9, 70), pool(12, 5)];
        plans.push(ends_well(events.into(), false, &pools, &steps));
    }
    fails_with("change_of_copies_hides_blocks", &plans);
}

/// An operation that had made both sides of a mirror equal ended while the journal was being told
/// to expect writes. It took the telling for told: the write began, the power failed, and the
/// journal called both sides equal that were not.
#[test]
fn a_mirror_that_is_ready_does_not_let_writes_in_before_the_journal_expects_them() {
    let mirror = Step::Operate { kind: OperationKind::Mirror, nth: 0, to: 0 };
    for before in 1..40 {
        for seed in 0..40 {
            let steps = [
                Step::CreateVolume { sectors: 2 * CHUNK },
                write(0, CHUNK, true),
                Step::Settle,
                mirror,
                Step::Events { count: before },
                write(3, 1, false),
                Step::Events { count: 1 + (seed % 4) as u16 },
                Step::Crash { survival: Survival::Torn },
                ALL,
                ALL,
            ];
            ends_well(seed, false, &[pool(9, 50), pool(12, 3)], &steps);
        }
    }
}

/// A write waited for the journal to expect it, for its chunk was mirrored; the mirror ended, the
/// write went, its volume was deleted. Then the journal had heard, and looked for the chunk.
#[test]
fn a_volume_stays_until_the_journal_has_heard_what_its_chunks_expect() {
    let settings = Settings {
        chunk_size: Bytes::from_kib(256),
        journal_blocks: 96,
        epoch: Nanos::from_micros(23_967),
        copying: copying(),
        ..Settings::default()
    };
    let zeroes = |chunks, latency_us, reserve, zeroed| PoolPlan {
        reserve,
        zeroed,
        discard_zeroes: true,
        ..pool(chunks, latency_us)
    };
    let write = |volume, sector, sectors| Step::Write {
        span: Span { volume, sector, sectors },
        fua: false,
        patience: None,
    };
    let steps = vec![
        Step::DrainPool { pool: 144 },
        Step::CreateVolume { sectors: 1024 },
        Step::CreateVolume { sectors: 512 },
        write(60, 1331, 512),
        Step::Wait { us: 3 },
        Step::Operate { kind: OperationKind::Mirror, nth: 199, to: 195 },
        Step::CreateVolume { sectors: 512 },
        write(94, 0, 1),
        Step::Settle,
        Step::Operate { kind: OperationKind::Migrate, nth: 199, to: 10 },
        write(54, 1536, 1),
        Step::Events { count: 5 },
        Step::DeleteVolume { volume: 186 },
    ];
    let pools = vec![zeroes(7, 110, 0, true), zeroes(28, 6, 3, false), zeroes(23, 167, 0, false)];
    plan_ends_well(&Plan { seed: 0x23db, settings, pools, steps });
}

/// A locking copy waited for a pool whose only copy request newer operations took again and again;
/// a client's write waited for the copy.
#[test]
fn a_locking_copy_gets_its_turn() {
    let copying = Copying {
        rate_per_second: None,
        outstanding: Some(1),
        yield_above: Some(7),
        patience: Nanos::from_micros(136),
        reserve_per_second: None,
        deadline: None,
        piece: Some(Bytes::from_kib(8)),
        concurrent: 4,
        feeds: false,
        keeps: false,
        locking: true,
    };
    let settings = Settings {
        chunk_size: Bytes::from_kib(64),
        journal_blocks: 64,
        epoch: Nanos::from_micros(1_714),
        copying,
        ..Settings::default()
    };
    for seed in 0..20 {
        let steps = vec![
            Step::CreateVolume { sectors: 6 * CHUNK },
            write(0, 6 * CHUNK, false),
            Step::Settle,
            Step::Place { seed: Some(seed) },
            Step::Wait { us: 40_000 },
            write(0, 1, false),
            write(CHUNK, 1, false),
            write(2 * CHUNK, 1, false),
            write(3 * CHUNK, 1, false),
            Step::Settle,
        ];
        let pools = vec![pool(58, 2_075), pool(9, 354)];
        let plan = Plan { seed: seed.into(), settings: settings.clone(), pools, steps };
        plan_ends_well(&plan);
    }
}

/// The engine was killed, and a device kept what had been written in its cache. A new engine took
/// its pools for flushed: what it had shown was gone when the power failed after that, and a flush
/// of a client would not have covered it.
#[test]
fn what_is_read_after_a_kill_is_there_after_a_loss_of_power() {
    let killed = Step::Crash { survival: Survival::Cached };
    let steps = [
        Step::CreateVolume { sectors: 4 * CHUNK },
        write(0, 12, true),
        Step::Settle,
        write(100, 60, false),
        Step::Settle,
        killed,
        ALL,
        LOST,
    ];
    let pools = [pool(8, 135), pool(8, 900)];
    let plans: Vec<Plan> = (0..4).map(|seed| ends_well(seed, false, &pools, &steps)).collect();
    fails_with("recovered_pools_taken_for_flushed", &plans);
}
