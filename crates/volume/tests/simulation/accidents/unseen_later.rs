//! Accidents of seeds that nobody had run before: what those after the first 180,000 found.

use super::unseen::{SMALL, operate};
use super::{fails_with, plan_ends_well, pool, settings, write};
use crate::plan::{Plan, PoolPlan, Span, Step, tactics};
use crate::run::{Extras, run};
use thermocline_ports::faulty::Survival;
use thermocline_units::mutants::plant;
use thermocline_units::{Bytes, Nanos};
use thermocline_volume::{Copying, Limits, OperationKind, Settings};

/// Hundreds of chunks came to rest and got their tables, each with a record, and nobody flushed:
/// then more was queued than the journal's ring holds, and no commit and no checkpoint could end
/// (seed 0x98a4e2). The scrub waits while much is queued; a checkpoint could take it in today.
#[test]
fn tables_are_made_no_faster_than_the_journal_takes_their_records() {
    let limits = Limits { block_payload: 128, checkpoint_batch: 2, tables_cached: 16, ..SMALL };
    let copying = Copying {
        rate_per_second: Some(Bytes::from_mib(19)),
        reserve_per_second: Some(Bytes::from_mib(9)),
        yield_above: Some(1),
        patience: Nanos::from_micros(216),
        piece: Some(Bytes::from_kib(28)),
        concurrent: 1,
        outstanding: Some(2),
        ..Copying::pieces_alone()
    };
    let settings = Settings {
        epoch: Nanos(7_286_000),
        tactics: tactics(&["slowest-first"]),
        depth: 16,
        copying,
        checksums: true,
        limits,
        ..settings(64, 64)
    };
    let first = PoolPlan { zeroed: true, forgets: false, ..pool(378, 477) };
    let second = PoolPlan { reserve: 8, ..pool(410, 16) };
    let third = PoolPlan { roomy: false, reserve: 3, discard_zeroes: true, ..pool(32, 4702) };
    let pools = vec![first, second, third];
    let steps = vec![
        Step::CreateVolume { sectors: 48_640 },
        Step::Populate { volume: 0, first: 0, chunks: 369 },
        Step::Wait { us: 14_799_738 },
    ];
    let plan = Plan { seed: 0x98_a4e2, settings, pools, steps };
    plan_ends_well(&plan);
    let _planted = plant("scrub_adds_to_the_pile");
    plan_ends_well(&plan);
}

/// A chunk's only pool was gone for good, and clients had been told. Long after, an added pool that
/// held nothing failed a flush and was given up, and the next flush of the chunk's volume was told
/// of the old loss again, for no reason that anybody could see (seed 0x99b9b3).
#[test]
fn what_a_dead_pool_took_is_not_told_again_when_another_one_dies() {
    let copying = Copying {
        rate_per_second: Some(Bytes::from_mib(18)),
        reserve_per_second: Some(Bytes::from_mib(1)),
        outstanding: Some(2),
        yield_above: Some(4),
        patience: Nanos::from_micros(324),
        piece: Some(Bytes::from_kib(8)),
        concurrent: 2,
        ..Copying::pieces_alone()
    };
    let settings = Settings {
        epoch: Nanos(51_679_000),
        tactics: tactics(&["slowest-first", "first-part:share=5"]),
        depth: 16,
        copying,
        checksums: true,
        ..settings(128, 96)
    };
    let first = PoolPlan { zeroed: true, discard_zeroes: true, ..pool(62, 833) };
    let pools = vec![first, PoolPlan { reserve: 2, ..pool(9, 3971) }, pool(49, 2367)];
    let pools = pools.into_iter().zip([true, true, false]);
    let pools: Vec<PoolPlan> = pools.map(|(pool, forgets)| PoolPlan { forgets, ..pool }).collect();
    let added = PoolPlan { roomy: false, zeroed: true, discard_zeroes: true, ..pool(35, 5) };
    let steps = vec![
        Step::CreateVolume { sectors: 512 },
        write(241, 34, false),
        Step::Events { count: 2 },
        operate(OperationKind::Replicate, 43, 190),
        Step::Wait { us: 10_728_228 },
        Step::Flush { volume: 0 },
        Step::Unplug { pool: 236 },
        Step::Events { count: 3 },
        Step::Crash { survival: Survival::Kept },
        Step::Flip { nth: 42, copy: 66, bit: 41_919 },
        Step::AddPool(PoolPlan { reserve: 6, ..added }),
        Step::AddPool(PoolPlan { chunks: 17, latency_us: 18, forgets: false, ..added }),
        Step::Place { seed: Some(200) },
        Step::Trouble { pool: 184, fail: 671, time_out: 0, delay: 0 },
        Step::Wait { us: 187_500 },
        Step::RemovePool { pool: 53 },
        Step::Place { seed: None },
        Step::Flip { nth: 180, copy: 48, bit: 594_023 },
    ];
    let plan = Plan { seed: 0x99_b9b3, settings, pools, steps };
    plan_ends_well(&plan);
    fails_with("losses_told_again", &[plan]);
}

/// Nearly two thousand chunks came to rest and were scrubbed piece by piece: more events than the
/// simulation allowed while it waited, and all of them progress (seed 0x9a2cd6).
#[test]
fn a_long_scrub_is_not_taken_for_one_that_never_ends() {
    let copying = Copying {
        rate_per_second: Some(Bytes::from_mib(18)),
        outstanding: Some(4),
        yield_above: Some(1),
        patience: Nanos::from_micros(161),
        piece: Some(Bytes::from_kib(4)),
        concurrent: 3,
        ..Copying::pieces_alone()
    };
    let small = Limits { commit_blocks: 4, checkpoint_batch: 1, tables_cached: 1, ..SMALL };
    let settings = Settings {
        epoch: Nanos(81_386_000),
        tactics: tactics(&["slowest-first"]),
        depth: 1,
        copying,
        checksums: true,
        limits: small,
        ..settings(64, 64)
    };
    let fast = PoolPlan { reserve: 3, zeroed: true, ..pool(1847, 9) };
    let middle = PoolPlan { latency_us: 240, discard_zeroes: true, ..fast };
    let pools = vec![PoolPlan { reserve: 8, ..pool(1875, 2344) }, middle, fast];
    let steps = vec![
        Step::CreateVolume { sectors: 235_520 },
        Step::Populate { volume: 0, first: 0, chunks: 1832 },
        Step::Wait { us: 21_952_160 },
        Step::Flip { nth: 252, copy: 108, bit: 171_214 },
    ];
    let plan = Plan { seed: 0x9a_2cd6, settings, pools, steps };
    let summary = run(&plan, Extras::default()).expect("nothing is wrong with it");
    assert!(summary.events > 100_000, "{} events are no long scrub", summary.events);
}

/// The volume of two with one number that had come back was to be told by reading it. The disk
/// failed that read, and the simulation took it for the younger one, which had never been durable
/// (seed 0xa89d9c).
#[test]
fn the_volume_that_came_back_is_found_though_a_disk_fails_reads() {
    for seed in 0..40 {
        let steps = vec![
            Step::CreateVolume { sectors: 512 },
            write(0, 1, true),
            Step::Settle,
            Step::DeleteVolume { volume: 0 },
            Step::CreateVolume { sectors: 512 },
            Step::Trouble { pool: 0, fail: 700, time_out: 0, delay: 0 },
            Step::Crash { survival: Survival::Lost },
            Step::Verify { eighths: 8 },
        ];
        let pools = vec![pool(26, 137), pool(27, 19)];
        plan_ends_well(&Plan { seed, settings: settings(64, 64), pools, steps });
    }
}

/// A pool that did not answer flushes was given up, and its clients were told what that lost. Then
/// its disk died, and the simulation wanted the same to be told again (seed 0xa8ed19).
#[test]
fn a_pool_that_was_given_up_loses_nothing_more_when_its_disk_dies() {
    for seed in 0..10 {
        let steps = vec![
            Step::CreateVolume { sectors: 512 },
            write(0, 1, true),
            Step::Settle,
            operate(OperationKind::Migrate, 0, 0),
            Step::Settle,
            write(0, 1, false),
            Step::Settle,
            Step::Trouble { pool: 1, fail: 0, time_out: 1000, delay: 0 },
            Step::Flush { volume: 0 },
            Step::Settle,
            Step::Kill { pool: 1 },
            Step::Flush { volume: 0 },
        ];
        let pools = vec![pool(26, 137), PoolPlan { roomy: false, ..pool(12, 19) }];
        plan_ends_well(&Plan { seed, settings: settings(64, 64), pools, steps });
    }
}

/// A metadata replica was given up while recovery wrote the superblocks, and the journal that was
/// written from then on did not say so: after a crash it counted as a replica again, without the
/// commits that had been answered. (A test of another accident found it.)
#[test]
fn a_replica_that_died_in_a_recovery_is_in_the_journal_that_it_lacks() {
    let plan = |seed| {
        let steps = vec![
            Step::CreateVolume { sectors: 512 },
            write(0, 1, true),
            Step::Settle,
            Step::DeleteVolume { volume: 0 },
            Step::Trouble { pool: 0, fail: 700, time_out: 0, delay: 0 },
            Step::Crash { survival: Survival::Lost },
            Step::Verify { eighths: 8 },
        ];
        let pools = vec![pool(26, 137), pool(27, 19)];
        Plan { seed, settings: settings(64, 64), pools, steps }
    };
    let plans: Vec<Plan> = (0..40).chain([180, 184, 221, 248, 297, 487]).map(plan).collect();
    plans.iter().for_each(plan_ends_well);
    fails_with("death_in_recovery_not_recorded", &plans);
}

/// Steps of [`what_hints_want_comes_to_rest`]: chunks take what pools keep for copies that are
/// fetched ahead; `room` is somewhere else when they have; a hint is given.
fn hints_on_pools_more_than_full(room: Step) -> Vec<Step> {
    let write = Step::Write {
        span: Span { volume: 167, sector: 0, sectors: 1 },
        fua: false,
        patience: None,
    };
    vec![
        Step::CreateVolume { sectors: 256 },
        Step::CreateVolume { sectors: 243 },
        write,
        Step::Settle,
        Step::OperateOn { kind: OperationKind::Replicate, volume: 1, chunk: 2, to: 121 },
        Step::Flush { volume: 135 },
        room,
        Step::GrowVolume { volume: 0, sectors: 75_776 },
        Step::Populate { volume: 0, first: 0, chunks: 296 },
        Step::Settle,
        Step::FailCopy { volume: 1, chunk: 3, copy: 0, nth: 1 },
        Step::Read(Span { volume: 1, sector: 0, sectors: 1 }),
        Step::Hint { volume: 2, seed: 1_009_744_287 },
        Step::Flip { nth: 233, copy: 155, bit: 94_708 },
    ]
}

/// Chunks had taken what a pool kept for copies that are fetched ahead. What hints want was
/// reckoned as if each that left made room for another one: moves were proposed that could not
/// begin, the same ones at each epoch's end, and what is pending never came to an end (seed
/// 0xb7508e). Growing is not needed for it.
#[test]
fn what_hints_want_comes_to_rest() {
    let copying = Copying {
        outstanding: Some(2),
        yield_above: Some(1),
        patience: Nanos(50_000_000),
        piece: Some(Bytes::from_kib(128)),
        concurrent: 4,
        rate_per_second: None,
        ..Copying::pieces_alone()
    };
    let limits = Limits {
        block_payload: 160,
        commit_blocks: 4,
        checkpoint_batch: 2,
        tables_cached: 2,
        ..SMALL
    };
    let settings = Settings {
        epoch: Nanos(153_811_000),
        tactics: tactics(&["slowest-first"]),
        depth: 4,
        copying,
        limits,
        ..settings(128, 128)
    };
    let small = PoolPlan { roomy: false, discard_zeroes: true, ..pool(0, 0) };
    let slow = PoolPlan { chunks: 19, latency_us: 690, reserve: 3, zeroed: true, ..small };
    let pools = vec![
        pool(38, 342),
        PoolPlan { roomy: true, chunks: 13, latency_us: 59, reserve: 1, ..small },
        PoolPlan { chunks: 46, latency_us: 12, reserve: 10, ..small },
        slow,
        PoolPlan { roomy: false, reserve: 2, ..pool(33, 5) },
    ];
    let added = Step::AddPool(PoolPlan { chunks: 316, ..slow });
    for room in [Step::GrowPool { pool: 123, chunks: 316 }, added] {
        let pools = pools.clone();
        let steps = hints_on_pools_more_than_full(room);
        plan_ends_well(&Plan { seed: 0xb7_508e, settings: settings.clone(), pools, steps });
    }
}

/// A pool had died, and a placement began and ended mirrors on it, each with a record. A checkpoint
/// was to cover more than the journal had room for: no commit could begin, and no request that
/// waited for one was answered any more (seed 0x26355c8).
#[test]
fn a_checkpoint_takes_in_what_the_journal_has_no_room_for() {
    let limits = Limits {
        block_payload: 128,
        record: 64,
        commit_blocks: 2,
        checkpoint_batch: 2,
        area_growth: 1,
        tables_cached: 2,
        requests: 4096,
        ..SMALL
    };
    let settings = Settings {
        chunk_size: Bytes::from_kib(256),
        epoch: Nanos::from_micros(885),
        checksums: false,
        limits,
        ..settings(256, 96)
    };
    let pools = vec![pool(1993, 33), PoolPlan { zeroed: true, ..pool(1988, 33_465) }];
    let steps = vec![
        Step::CreateVolume { sectors: 253_952 },
        Step::Populate { volume: 0, first: 0, chunks: 1980 },
        Step::Place { seed: Some(227) },
        Step::Flush { volume: 1 },
        Step::Trouble { pool: 76, fail: 853, time_out: 0, delay: 0 },
        Step::Wait { us: 750_000 },
    ];
    let plan = Plan { seed: 0x263_55c8, settings, pools, steps };
    plan_ends_well(&plan);
    fails_with("checkpoint_waits_for_a_full_journal", &[plan]);
}

/// Two writes came to a new chunk. The first one, which had placed it, found no room on the device;
/// before that was known, there was room again, and the second one was answered. The chunk was
/// placed on another pool for the first one, without what the second one had written (seed
/// 0xb792d5).
#[test]
fn a_chunk_in_which_a_write_was_answered_is_not_placed_elsewhere() {
    let plan = |seed| {
        let steps = vec![
            Step::CreateVolume { sectors: 512 },
            Step::FillUp { pool: 1 },
            write(0, 1, false),
            Step::Calm,
            write(8, 1, false),
            Step::Settle,
            Step::Verify { eighths: 8 },
        ];
        let settings = Settings { tactics: tactics(&["slowest-first"]), ..settings(64, 64) };
        let last = PoolPlan { zeroed: true, ..pool(27, 190) };
        Plan { seed, settings, pools: vec![pool(26, 137), last], steps }
    };
    let plans: Vec<Plan> = (0..20).map(plan).collect();
    plans.iter().for_each(plan_ends_well);
    fails_with("placed_elsewhere_after_a_write", &plans);
}

/// A pool had grown while a checkpoint was written, whose other replica had no room for a map of
/// that size. The superblock said that the pool was so large. When it died, what was left of the
/// group had no room for its map, and opened never again (seed 0x13301c9).
#[test]
fn a_superblock_says_no_more_than_its_replicas_have_room_for() {
    let plans: Vec<Plan> = (0..40).map(growth_then_death).collect();
    plans.iter().for_each(plan_ends_well);
    fails_with("replicas_without_room_for_a_growth", &plans);
    let began_anew = |plan: &Plan| {
        let summary = run(plan, Extras::default()).expect("all end well");
        summary.marks.contains_key("checkpoint began anew for a larger map")
    };
    assert!(plans.iter().any(began_anew), "no plan comes to it");
}

fn growth_then_death(events: u16) -> Plan {
    let limits =
        Limits { block_payload: 160, checkpoint_batch: 2, tables_cached: 16, requests: 8, ..SMALL };
    let copying = Copying {
        rate_per_second: None,
        outstanding: Some(2),
        yield_above: Some(1),
        patience: Nanos(50_000_000),
        piece: Some(Bytes::from_kib(128)),
        concurrent: 4,
        ..Copying::pieces_alone()
    };
    let steps = vec![
        Step::CreateVolume { sectors: 512 },
        Step::GrowPool { pool: 101, chunks: 107 },
        Step::GrowVolume { volume: 0, sectors: 70_656 },
        Step::Populate { volume: 0, first: 0, chunks: 276 },
        Step::DrainPool { pool: 1 },
        Step::UndrainPool { pool: 1 },
        Step::GrowPool { pool: 217, chunks: 36 },
        Step::Events { count: events },
        Step::Kill { pool: 1 },
        Step::Verify { eighths: 8 },
    ];
    let settings = Settings {
        epoch: Nanos(502_000),
        tactics: tactics(&["slowest-first"]),
        depth: 1,
        copying,
        limits,
        checksums: false,
        ..settings(128, 64)
    };
    let second = PoolPlan { forgets: true, ..pool(28, 418) };
    let pools = [PoolPlan { forgets: false, ..pool(41, 8) }, second];
    let pools = pools.map(|pool| PoolPlan { discard_zeroes: true, ..pool }).to_vec();
    Plan { seed: 0x133_01c9, settings, pools, steps }
}

/// A dead pool needed room in the map for nothing, and another one grew; when the dead one was
/// being removed it seemed to need room for all its slots again, and no pool had that (seed
/// 0x1347aeb, of an engine that nobody has run).
#[test]
fn a_dead_pool_that_is_removed_needs_no_room_in_the_map() {
    let limits = Limits { block_payload: 512, commit_blocks: 2, checkpoint_batch: 2, ..SMALL };
    let steps = vec![
        Step::Unplug { pool: 1 },
        Step::CreateVolume { sectors: 512 },
        Step::DeleteVolume { volume: 0 },
        Step::Events { count: 2 },
        Step::GrowPool { pool: 0, chunks: 149 },
        Step::Events { count: 1 },
        Step::Crash { survival: Survival::Kept },
        Step::RemovePool { pool: 1 },
        Step::Settle,
    ];
    let settings = Settings { checksums: false, limits, ..settings(64, 64) };
    let pools = [pool(63, 64), PoolPlan { reserve: 1, zeroed: true, ..pool(15, 2404) }];
    let pools = pools.map(|pool| PoolPlan { discard_zeroes: true, forgets: false, ..pool });
    for seed in 0..20 {
        plan_ends_well(&Plan {
            seed,
            settings: settings.clone(),
            pools: pools.to_vec(),
            steps: steps.clone(),
        });
    }
}

/// A volume was made when the map had no room for another one; room was given, and the record of
/// the volume was durable before the superblock that says so. The power failed between the two, and
/// no pool had the room for what the journal said (seed 0x1351132).
#[test]
fn a_group_is_opened_whose_map_needs_room_that_no_superblock_knew_of() {
    let limits = Limits {
        block_payload: 160,
        commit_blocks: 2,
        checkpoint_batch: 4,
        tables_cached: 2,
        ..SMALL
    };
    let added = PoolPlan { zeroed: true, ..pool(22, 38) };
    let steps = vec![
        Step::CreateVolume { sectors: 512 },
        Step::Close { cut: None },
        Step::AddPool(added),
        Step::Events { count: 2 },
        Step::Crash { survival: Survival::Torn },
        Step::GrowPool { pool: 155, chunks: 34 },
        Step::AddPool(PoolPlan { chunks: 27, roomy: false, latency_us: 264, ..added }),
        Step::Events { count: 4 },
        Step::CreateVolume { sectors: 512 },
        Step::GrowPool { pool: 33, chunks: 45 },
        Step::CreateVolume { sectors: 384 },
        Step::Events { count: 4 },
        Step::Crash { survival: Survival::Torn },
        Step::Settle,
    ];
    let pools = vec![
        PoolPlan { reserve: 4, zeroed: true, ..pool(19, 281) },
        PoolPlan { discard_zeroes: true, ..pool(8, 2090) },
    ];
    let settings = Settings { depth: 1, checksums: true, limits, ..settings(64, 96) };
    let plan = |seed| Plan {
        seed,
        settings: settings.clone(),
        pools: pools.clone(),
        steps: steps.clone(),
    };
    let plans: Vec<Plan> = (0..60).map(plan).chain([plan(0x135_1132)]).collect();
    plans.iter().for_each(plan_ends_well);
    fails_with("opened_without_room_for_its_map", &plans);
}

/// The engine was killed while its superblock was on its way, and the superblock reached the
/// device's cache. The next engine believed it and wrote its checkpoint over the one before; then
/// the power failed, before anybody had flushed, and no superblock was left whose checkpoint was
/// whole (seed 0x263a755).
#[test]
fn a_superblock_in_a_cache_is_made_durable_before_its_predecessor_is_written_over() {
    let killed = Step::Crash { survival: Survival::Cached };
    let plan = |seed: u64| {
        let (first, second) = ((seed % 6) as u16, (seed / 6 % 5) as u16);
        let steps = vec![
            Step::CreateVolume { sectors: 512 },
            write(0, 1, true),
            Step::Close { cut: None },
            Step::Settle,
            killed,
            Step::Events { count: 2 + first },
            killed,
            Step::Events { count: 2 + second },
            Step::Crash { survival: Survival::Lost },
            Step::Verify { eighths: 8 },
        ];
        Plan { seed, settings: settings(64, 64), pools: vec![pool(26, 137)], steps }
    };
    let plans: Vec<Plan> = (0..600).map(plan).collect();
    plans.iter().for_each(plan_ends_well);
    fails_with("recovered_pools_flushed_late", &plans);
}
