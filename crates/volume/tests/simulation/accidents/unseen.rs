//! Accidents of seeds that nobody had run before: what the first about 180,000 of them found.

use super::{CHUNK, fails_with, plan_ends_well, pool, settings, span, write};
use crate::plan::{Plan, PoolPlan, Span, Step, tactics};
use thermocline_ports::faulty::Survival;
use thermocline_units::{Bytes, Nanos};
use thermocline_volume::{Copying, Limits, OperationKind, Settings};

/// Blocks and records as small as the simulation has them.
pub(super) const SMALL: Limits = Limits {
    block_payload: 256,
    record: 64,
    area_growth: 1,
    volumes: 64,
    volume_name: 8,
    ..Limits::REAL
};

pub(super) fn operate(kind: OperationKind, nth: u32, to: u8) -> Step {
    Step::Operate { kind, nth, to }
}

/// A chunk with checksums had two copies. Its table was sought on the first one, whose pool was
/// found dead: the copy was dropped, the other became the first of the list, and the second place
/// of the list was empty. The table counted as lost, and a flipped bit was read (seed 0x5f5e2d1).
#[test]
fn a_table_is_found_on_the_second_copy_when_the_first_ones_pool_turns_out_dead() {
    let copying = Copying {
        rate_per_second: Some(Bytes::from_mib(56)),
        outstanding: Some(1),
        yield_above: Some(6),
        patience: Nanos(1000),
        piece: Some(Bytes::from_kib(4)),
        deadline: Some(Nanos(1_737_000)),
        concurrent: 4,
        ..Copying::pieces_alone()
    };
    let settings = Settings {
        epoch: Nanos(8_552_000),
        tactics: tactics(&["slowest-first"]),
        depth: 1,
        copying,
        checksums: true,
        ..settings(64, 64)
    };
    let fast = PoolPlan { reserve: 2, zeroed: true, ..pool(9, 9) };
    let slow = PoolPlan { reserve: 3, discard_zeroes: true, ..pool(39, 1086) };
    let steps = vec![
        Step::CreateVolume { sectors: 954 },
        write(0, 1, false),
        write(389, CHUNK, false),
        Step::Events { count: 6 },
        operate(OperationKind::Mirror, 136, 169),
        operate(OperationKind::Replicate, 48, 237),
        Step::Wait { us: 12_080_609 },
        Step::Crash { survival: Survival::Torn },
        Step::Kill { pool: 65 },
        Step::Flip { nth: 14, copy: 139, bit: 133_900 },
    ];
    let plan = Plan { seed: 0x5f5_e2d1, settings, pools: vec![fast, slow], steps };
    plan_ends_well(&plan);
    fails_with("table_sought_once", &[plan]);
}

/// The device of the chunk's only copy did not answer zeroes in time; at the same moment a discard
/// that had waited for them unmapped the chunk, and a write that had waited for the discard opened
/// it on another pool. The simulation looked for the reason there (seed 0x65172b8).
#[test]
fn an_error_has_its_reason_where_the_chunk_was_before_it() {
    let settings = Settings {
        epoch: Nanos(42_958_000),
        tactics: tactics(&["slowest-first"]),
        depth: 4,
        ..settings(128, 128)
    };
    let first = PoolPlan { zeroed: true, discard_zeroes: true, ..pool(26, 122) };
    let added = PoolPlan { roomy: false, reserve: 10, zeroed: true, ..pool(60, 4363) };
    let flush = Step::Flush { volume: 0 };
    let steps = vec![
        Step::CreateVolume { sectors: 512 },
        Step::GrowVolume { volume: 0, sectors: 62 },
        write(512, 1, false),
        flush,
        Step::AddPool(added),
        write(0, 1, false),
        write(0, 512, false),
        write(0, 1, false),
        write(0, 1, false),
        flush,
        Step::Settle,
        flush,
        write(0, 1, false),
        Step::Events { count: 1 },
        Step::Trouble { pool: 121, fail: 0, time_out: 196, delay: 23 },
        Step::WriteZeroes { span: span(328, 1), fua: false },
        Step::Discard(span(0, 512)),
        write(440, 1, false),
    ];
    plan_ends_well(&Plan { seed: 0x651_72b8, settings, pools: vec![first, pool(55, 264)], steps });
}

/// One of two metadata replicas died; a checkpoint put another pool in its place, and its
/// superblock was durable there when the second one died, too. A commit that had just been written
/// to the new replica found none in force, and the group went out of service, although nothing was
/// lost; and the operation under way was never answered (seed 0x131413a).
#[test]
fn a_commit_waits_for_the_replica_that_a_checkpoint_is_putting_in_force() {
    let settings = Settings { epoch: Nanos(966_000), ..settings(64, 64) };
    let middle = PoolPlan { zeroed: true, discard_zeroes: true, ..pool(26, 3355) };
    let last = PoolPlan { reserve: 4, discard_zeroes: true, ..pool(41, 151) };
    let pools = vec![pool(41, 379), middle, last];
    for events in 0..16 {
        let steps = vec![
            Step::CreateVolume { sectors: 512 },
            write(352, 1, false),
            Step::Events { count: 2 },
            write(130, 1, false),
            operate(OperationKind::Redirect, 89, 165),
            Step::Events { count: 9 },
            Step::Kill { pool: 0 },
            Step::WriteZeroes { span: Span { volume: 0, sector: 208, sectors: 1 }, fua: false },
            operate(OperationKind::Redirect, 93, 233),
            Step::Events { count: events },
            Step::Kill { pool: 1 },
        ];
        plan_ends_well(&Plan {
            seed: 0x131_413a,
            settings: settings.clone(),
            pools: pools.clone(),
            steps,
        });
    }
}

/// Beside checksums the only slot of a small pool that was to hold the metadata did not fit beside
/// it, and the group could not be made, although farther pools had room (seeds 0xdbbee, 0x8959c0).
#[test]
fn a_pool_without_room_for_a_slot_and_its_table_holds_no_metadata() {
    let small = PoolPlan { roomy: false, ..pool(7, 4580) };
    let far = |chunks, latency_us| PoolPlan { far: true, ..pool(chunks, latency_us) };
    let settings = Settings { checksums: true, ..settings(64, 64) };
    for pools in [
        vec![pool(35, 12), far(6, 104), small],
        vec![far(6, 58), far(42, 237), PoolPlan { latency_us: 3686, ..small }],
    ] {
        let steps = vec![Step::CreateVolume { sectors: 512 }, write(0, 512, true)];
        plan_ends_well(&Plan { seed: 1, settings: settings.clone(), pools, steps });
    }
}

/// Steps of [`the_side_that_stays_counts_when_a_write_fails_on_it`].
const STAYING_SIDE: [Step; 42] = [
    Step::CreateVolume { sectors: 1797 },
    Step::CreateVolume { sectors: 128 },
    Step::Write { span: Span { volume: 181, sector: 0, sectors: 1 }, fua: false, patience: None },
    Step::Flush { volume: 70 },
    Step::Write { span: Span { volume: 0, sector: 0, sectors: 1 }, fua: false, patience: None },
    Step::Close { cut: None },
    Step::Write { span: Span { volume: 0, sector: 128, sectors: 1 }, fua: false, patience: None },
    Step::Settle,
    Step::OperateOn { kind: OperationKind::Mirror, volume: 0, chunk: 1, to: 44 },
    Step::Settle,
    Step::Place { seed: Some(120) },
    Step::Write { span: Span { volume: 0, sector: 0, sectors: 1 }, fua: false, patience: None },
    Step::Write { span: Span { volume: 0, sector: 161, sectors: 1 }, fua: false, patience: None },
    Step::FailCopy { volume: 0, chunk: 1, copy: 218, nth: 2 },
    Step::Read(Span { volume: 0, sector: 0, sectors: 1 }),
    Step::Read(Span { volume: 0, sector: 156, sectors: 1 }),
    Step::Settle,
    Step::Read(Span { volume: 0, sector: 128, sectors: 128 }),
    Step::Verify { eighths: 8 },
    Step::Close { cut: None },
    Step::Events { count: 19 },
    Step::Write { span: Span { volume: 0, sector: 0, sectors: 1 }, fua: false, patience: None },
    Step::Wait { us: 185 },
    Step::Events { count: 1 },
    Step::Write {
        span: Span { volume: 246, sector: 671, sectors: 100 },
        fua: false,
        patience: None,
    },
    Step::Write { span: Span { volume: 10, sector: 88, sectors: 128 }, fua: false, patience: None },
    Step::Write {
        span: Span { volume: 155, sector: 1104, sectors: 69 },
        fua: false,
        patience: None,
    },
    Step::Write {
        span: Span { volume: 124, sector: 1536, sectors: 1 },
        fua: false,
        patience: None,
    },
    Step::Events { count: 2 },
    Step::Crash { survival: Survival::Torn },
    Step::Verify { eighths: 4 },
    Step::Events { count: 6 },
    Step::Write { span: Span { volume: 0, sector: 0, sectors: 1 }, fua: false, patience: None },
    Step::Write { span: Span { volume: 0, sector: 0, sectors: 1 }, fua: false, patience: None },
    Step::OperateOn { kind: OperationKind::Mirror, volume: 1, chunk: 1, to: 205 },
    Step::Settle,
    Step::Place { seed: Some(254) },
    Step::FailCopy { volume: 1, chunk: 1, copy: 69, nth: 1 },
    Step::Write { span: Span { volume: 1, sector: 0, sectors: 1 }, fua: false, patience: None },
    Step::FailCopy { volume: 1, chunk: 1, copy: 109, nth: 2 },
    Step::Settle,
    Step::Read(Span { volume: 1, sector: 0, sectors: 1 }),
];

/// A mirrored chunk had been brought together on one side, and the record that the other side goes
/// was on its way, when a write to the side that stays failed. Both sides still counted: a read
/// showed the old contents on the side that went, a later one the new contents on the one that
/// stayed (seed 0x94c with motifs).
#[test]
fn the_side_that_stays_counts_when_a_write_fails_on_it() {
    let copying = Copying {
        rate_per_second: None,
        reserve_per_second: Some(Bytes::from_mib(45)),
        yield_above: Some(3),
        patience: Nanos::from_micros(81),
        piece: Some(Bytes::from_kib(44)),
        concurrent: 6,
        outstanding: Some(2),
        ..Copying::pieces_alone()
    };
    let settings = Settings { epoch: Nanos(74_472_000), copying, ..settings(64, 64) };
    let first = PoolPlan { reserve: 2, forgets: false, ..pool(14, 771) };
    let second = PoolPlan { zeroed: true, ..pool(24, 1001) };
    let steps = STAYING_SIDE.to_vec();
    let plan = |seed| Plan {
        seed,
        settings: settings.clone(),
        pools: vec![first, second],
        steps: steps.clone(),
    };
    let plans: Vec<Plan> = (0..100).map(plan).collect();
    plans.iter().for_each(plan_ends_well);
    fails_with("both_sides_count_while_one_goes", &plans);
}

/// An operation found a copy rotten and took another one for its source; when it ended, the
/// checksums were void, and the rotten copy was still a copy: it was read (seed 0x212 with flips
/// that an operation meets).
#[test]
fn a_copy_that_an_operation_finds_rotten_is_not_read_afterwards() {
    let copying = Copying {
        rate_per_second: Some(Bytes::from_mib(16)),
        outstanding: Some(3),
        yield_above: Some(3),
        patience: Nanos::from_micros(3),
        piece: Some(Bytes::from_kib(28)),
        concurrent: 1,
        deadline: Some(Nanos(51_154_000)),
        ..Copying::pieces_alone()
    };
    let settings = Settings {
        epoch: Nanos(4_033_000),
        tactics: tactics(&["slowest-first", "first-part:share=13"]),
        depth: 1,
        copying,
        checksums: true,
        ..settings(256, 64)
    };
    let first = PoolPlan { discard_zeroes: true, ..pool(53, 2445) };
    let zeroed = |chunks, latency_us| PoolPlan {
        zeroed: true,
        discard_zeroes: true,
        ..pool(chunks, latency_us)
    };
    let second = PoolPlan { reserve: 2, forgets: false, ..zeroed(32, 39) };
    let added = PoolPlan { roomy: false, ..zeroed(10, 190) };
    let steps = vec![
        Step::CreateVolume { sectors: 18_432 },
        write(0, 1, false),
        write(4096, 1, false),
        operate(OperationKind::Replicate, 192, 124),
        Step::Wait { us: 11_440_317 },
        Step::Flip { nth: 107, copy: 156, bit: 1_131_433 },
        Step::AddPool(added),
        Step::Events { count: 5 },
        write(1486, 1, false),
        operate(OperationKind::Replicate, 86, 205),
        Step::Wait { us: 9_416_000 },
        Step::Flip { nth: 198, copy: 163, bit: 2_063_899 },
    ];
    let plan = |seed| Plan {
        seed,
        settings: settings.clone(),
        pools: vec![first, second],
        steps: steps.clone(),
    };
    (0..20).for_each(|seed| plan_ends_well(&plan(seed)));
}

/// Steps of [`a_block_that_one_side_failed_is_written_after_the_journal_has_heard_of_it`].
fn failing_side() -> Vec<Step> {
    vec![
        Step::CreateVolume { sectors: 128 },
        Step::CreateVolume { sectors: 512 },
        Step::Flush { volume: 168 },
        write(0, 1, false),
        write(0, 1, false),
        write(0, 1, false),
        Step::Flush { volume: 0 },
        Step::Write {
            span: Span { volume: 1, sector: 256, sectors: 1 },
            fua: false,
            patience: None,
        },
        Step::Settle,
        Step::OperateOn { kind: OperationKind::Replicate, volume: 1, chunk: 2, to: 144 },
        Step::Wait { us: 2500000 },
        Step::FailCopy { volume: 1, chunk: 2, copy: 0, nth: 1 },
        Step::Read(Span { volume: 1, sector: 256, sectors: 1 }),
        Step::Events { count: 3 },
        Step::Write {
            span: Span { volume: 1, sector: 364, sectors: 1 },
            fua: false,
            patience: None,
        },
        Step::Events { count: 4 },
        Step::Write {
            span: Span { volume: 1, sector: 279, sectors: 1 },
            fua: false,
            patience: None,
        },
        Step::Events { count: 3 },
        Step::Crash { survival: Survival::Torn },
        Step::Verify { eighths: 8 },
        Step::Verify { eighths: 8 },
        Step::Write { span: Span { volume: 1, sector: 0, sectors: 1 }, fua: false, patience: None },
        Step::Unplug { pool: 234 },
        write(0, 1, false),
        Step::Settle,
        Step::OperateOn { kind: OperationKind::Mirror, volume: 0, chunk: 0, to: 167 },
        Step::Settle,
        Step::Place { seed: Some(134) },
        write(0, 1, false),
        write(0, 1, false),
        write(0, 1, false),
        write(0, 1, false),
        Step::Read(span(0, 1)),
        Step::Settle,
        Step::Verify { eighths: 8 },
        Step::Wait { us: 2500000 },
        Step::FailCopy { volume: 0, chunk: 3, copy: 0, nth: 1 },
        Step::Read(span(0, 128)),
        write(0, 1, false),
        Step::Events { count: 1 },
        Step::Crash { survival: Survival::Torn },
    ]
}

/// A mirrored chunk at rest, called equal on both sides, of which one side failed a read: its
/// blocks counted on the other side from then on, and a write went there at once. After a crash the
/// journal still called both sides equal (seed 0x16c).
#[test]
fn a_block_that_one_side_failed_is_written_after_the_journal_has_heard_of_it() {
    let copying = Copying {
        rate_per_second: Some(Bytes::from_mib(2)),
        reserve_per_second: Some(Bytes::from_mib(1)),
        outstanding: Some(4),
        yield_above: Some(1),
        patience: Nanos::from_micros(45),
        piece: Some(Bytes::from_kib(12)),
        concurrent: 6,
        ..Copying::pieces_alone()
    };
    let limits = Limits { commit_blocks: 2, checkpoint_batch: 4, tables_cached: 2, ..SMALL };
    let settings = Settings {
        epoch: Nanos(3_554_000),
        depth: 1,
        copying,
        checksums: true,
        limits,
        ..settings(64, 64)
    };
    let pools = vec![
        PoolPlan { reserve: 1, discard_zeroes: true, ..pool(7, 680) },
        PoolPlan { forgets: false, ..pool(25, 800) },
        PoolPlan { roomy: false, discard_zeroes: true, forgets: false, ..pool(14, 55) },
        PoolPlan { roomy: false, reserve: 1, zeroed: true, ..pool(6, 5529) },
    ];
    let steps = failing_side();
    let plan = |seed| Plan {
        seed,
        settings: settings.clone(),
        pools: pools.clone(),
        steps: steps.clone(),
    };
    let plans = [211, 250, 370, 489, 496, 626].map(plan);
    plans.iter().for_each(plan_ends_well);
    fails_with("distrusted_block_written_at_once", &plans);
}

/// A read was under way on one side of a mirror when that side went; the next operation had put the
/// chunk in two parts again when the read failed. The pool that had failed was taken for one of
/// them, and the client was told of an error (seed 0xc46).
#[test]
fn a_read_that_fails_where_the_chunk_was_is_done_where_it_is() {
    let copying = Copying {
        rate_per_second: Some(Bytes::from_mib(8)),
        outstanding: Some(1),
        yield_above: Some(8),
        patience: Nanos::from_micros(9),
        piece: Some(Bytes::from_kib(16)),
        concurrent: 3,
        ..Copying::pieces_alone()
    };
    let settings =
        Settings { epoch: Nanos(3_971_000), copying, checksums: true, ..settings(64, 64) };
    let zeroed = |chunks, latency_us, discard_zeroes| PoolPlan {
        zeroed: true,
        discard_zeroes,
        ..pool(chunks, latency_us)
    };
    let pools = vec![
        PoolPlan { forgets: false, ..zeroed(16, 2872, true) },
        zeroed(44, 6, false),
        zeroed(35, 1695, true),
        PoolPlan { roomy: false, ..pool(53, 44) },
    ];
    let steps = vec![
        Step::CreateVolume { sectors: 512 },
        write(256, 1, false),
        Step::OperateOn { kind: OperationKind::Mirror, volume: 0, chunk: 2, to: 25 },
        Step::Settle,
        Step::Place { seed: Some(35) },
        write(346, 1, false),
        Step::Read(span(333, 1)),
        Step::FailCopy { volume: 0, chunk: 2, copy: 154, nth: 2 },
        Step::Read(span(310, 1)),
        Step::Settle,
    ];
    let plan = |seed| Plan {
        seed,
        settings: settings.clone(),
        pools: pools.clone(),
        steps: steps.clone(),
    };
    let plans: Vec<Plan> = (0..20).chain([0xc46]).map(plan).collect();
    plans.iter().for_each(plan_ends_well);
    fails_with("read_fails_where_the_chunk_was", &plans);
}
