//! Accidents of seeds that nobody had run before: what about 180,000 of them found.

use super::{CHUNK, plan_ends_well, pool, span, write};
use crate::plan::{Plan, PoolPlan, Span, Step};
use thermocline_ports::faulty::Survival;
use thermocline_units::{Bytes, Nanos};
use thermocline_volume::{Copying, Fill, OperationKind, Settings};

fn settings(chunk_kib: u64, journal_blocks: u32) -> Settings {
    Settings {
        chunk_size: Bytes::from_kib(chunk_kib),
        journal_blocks,
        copying: Copying { rate_per_second: None, ..Copying::default() },
        ..Settings::default()
    }
}

fn operate(kind: OperationKind, nth: u32, to: u8) -> Step {
    Step::Operate { kind, nth, to }
}

/// A sealed chunk had two copies. Its seal was sought on the first one, whose pool was found dead:
/// the copy was dropped, the other became the first of the list, and the second place of the list
/// was empty. The seal counted as lost, and a flipped bit was read (seed 0x5f5e2d1).
#[test]
fn a_seal_is_found_on_the_second_copy_when_the_first_ones_pool_turns_out_dead() {
    let copying = Copying {
        rate_per_second: Some(Bytes::from_mib(56)),
        outstanding: 1,
        yield_above: 6,
        patience: Nanos(1000),
        piece: Bytes::from_kib(4),
        deadline: Some(Nanos(1_737_000)),
        ..Copying::default()
    };
    let settings = Settings {
        epoch: Nanos(8_552_000),
        fill: Fill::SlowestFirst,
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
    plan_ends_well(&Plan { seed: 0x5f5_e2d1, settings, pools: vec![fast, slow], steps });
}

/// The device of the chunk's only copy did not answer zeroes in time; at the same moment a discard
/// that had waited for them unmapped the chunk, and a write that had waited for the discard opened
/// it on another pool. The simulation looked for the reason there (seed 0x65172b8).
#[test]
fn an_error_has_its_reason_where_the_chunk_was_before_it() {
    let settings = Settings {
        epoch: Nanos(42_958_000),
        fill: Fill::SlowestFirst,
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
        plan_ends_well(&Plan { seed: 0x131_413a, settings, pools: pools.clone(), steps });
    }
}

/// With checksums the only slot of a small pool that was to hold the metadata did not fit beside
/// it, and the group could not be made, although farther pools had room (seeds 0xdbbee, 0x8959c0).
#[test]
fn a_pool_without_room_for_a_slot_and_its_seal_holds_no_metadata() {
    let small = PoolPlan { roomy: false, ..pool(7, 4580) };
    let far = |chunks, latency_us| PoolPlan { far: true, ..pool(chunks, latency_us) };
    let settings = Settings { checksums: true, ..settings(64, 64) };
    for pools in [
        vec![pool(35, 12), far(6, 104), small],
        vec![far(6, 58), far(42, 237), PoolPlan { latency_us: 3686, ..small }],
    ] {
        let steps = vec![Step::CreateVolume { sectors: 512 }, write(0, 512, true)];
        plan_ends_well(&Plan { seed: 1, settings, pools, steps });
    }
}
