//! Plans that notice planted bugs, and meet a situation, which seeds reach too seldom.
//!
//! Where the moment matters at which something goes wrong, it varies: every variant must end well,
//! and one at least must fail with the mutant.

use super::{ALL, CHUNK, LOST, fails_with, plan_ends_well, pool, span, write};
use crate::plan::{Plan, PoolPlan, Step, tactics};
use crate::run::{Extras, run};
use thermocline_ports::faulty::Survival;
use thermocline_units::mutants::plant;
use thermocline_units::{Nanos, Rng};
use thermocline_volume::{Copying, Limits, OperationKind, Settings};

const CREATE: Step = Step::CreateVolume { sectors: 64 * CHUNK };
const FLUSH: Step = Step::Flush { volume: 0 };

/// Without block checksums: they find, and read again, what these bugs spoil.
fn settings() -> Settings {
    Settings { checksums: false, ..super::settings(64, 64) }
}

/// A chunk on the first pool, written and flushed, and what happens to it.
fn chunk_then(then: impl IntoIterator<Item = Step>) -> Vec<Step> {
    let fill = [CREATE, write(0, CHUNK, false), FLUSH, Step::Settle];
    fill.into_iter().chain(then).collect()
}

fn operate(kind: OperationKind, chunk: u32, to: u8) -> Step {
    Step::OperateOn { kind, volume: 0, chunk, to }
}

/// A pool for data only.
fn small(latency_us: u32) -> PoolPlan {
    PoolPlan { roomy: false, ..pool(12, latency_us) }
}

/// A chunk on each of two pools; the second, which holds the metadata, is about to be removed.
fn replica_goes() -> [Step; 9] {
    [
        CREATE,
        write(0, 2 * CHUNK, false),
        FLUSH,
        Step::Settle,
        operate(OperationKind::Migrate, 1, 1),
        Step::Settle,
        Step::DrainPool { pool: 1 },
        Step::Wait { us: 3_000_000 },
        Step::RemovePool { pool: 1 },
    ]
}

/// All plans end well, and one notices the mutant.
fn only_fails_with(mutant: &'static str, plans: &[Plan]) {
    plans.iter().for_each(plan_ends_well);
    fails_with(mutant, plans);
}

/// The record of a switch was on its way when a write failed at the destination: the copy there is
/// older than the one that was to go.
#[test]
fn a_switch_is_taken_back_when_the_new_copy_misses_a_write() {
    for kind in [OperationKind::Migrate, OperationKind::Replicate] {
        let plan = |events: u16| {
            let steps = chunk_then([
                operate(kind, 0, 1),
                Step::Events { count: events },
                Step::FailNth { pool: 1, nth: 1 },
                write(0, 8, false),
                Step::Settle,
                ALL,
            ]);
            let pools = vec![pool(60, 200), small(50)];
            Plan { seed: events.into(), settings: settings(), pools, steps }
        };
        let plans: Vec<Plan> = (0..8).map(plan).collect();
        only_fails_with("switch_not_taken_back", &plans);
    }
}

/// Sectors of one block of a mirror were written one after the other, on both sides in turn: each
/// side had what the other lacked, and only one of them counted.
#[test]
fn writes_to_one_block_of_a_mirror_wait_for_each_other() {
    let mirror = [operate(OperationKind::Mirror, 0, 1), Step::Settle];
    // A placement that sends half of the writes to either side, once it is asked.
    let route = [Step::Place { seed: Some(1) }, Step::Wait { us: 900_000 }];
    let writes = (0..64).map(|sector| write(sector, 1, false));
    let end = [Step::Settle, ALL];
    let steps = chunk_then(mirror.into_iter().chain(route).chain(writes).chain(end));
    let settings = Settings { epoch: Nanos::from_secs(1000), ..settings() };
    let pools = vec![pool(60, 200), pool(60, 200)];
    let plan = Plan { seed: 1, settings, pools, steps };
    only_fails_with("two_writes_into_one_block", &[plan]);
}

/// A read was still on its way when the chunk had moved: its slot was discarded under it.
#[test]
fn a_slot_is_not_discarded_under_the_last_read_on_it() {
    let copying = Copying { yield_above: Some(64), patience: Nanos(1), ..settings().copying };
    let plan = |seed: u64| {
        let steps = chunk_then([
            operate(OperationKind::Migrate, 0, 1),
            Step::Settle,
            operate(OperationKind::Migrate, 0, 0),
            Step::Events { count: seed as u16 % 10 },
            Step::Trouble { pool: 1, fail: 0, time_out: 0, delay: 1000 },
            Step::Read(span(0, CHUNK)),
            Step::Calm,
            FLUSH,
            Step::Settle,
            ALL,
        ]);
        let pools = vec![pool(60, 100), PoolPlan { discard_zeroes: true, ..small(50) }];
        Plan { seed, settings: Settings { copying, ..settings() }, pools, steps }
    };
    let plans: Vec<Plan> = (0..80).map(plan).collect();
    only_fails_with("slot_freed_one_sub_request_early", &plans);
}

/// The pool that held the metadata was to be removed. Of the two that came in its place one had the
/// new superblock when both were gone; the old pool took the metadata again. After a crash all were
/// there, and the superblock that never came in force was as young as the one that did.
#[test]
fn a_superblock_that_never_came_in_force_is_older_than_the_next() {
    let plan = |events: u16| {
        let then = [
            Step::Events { count: events },
            Step::Unplug { pool: 2 },
            Step::Read(span(CHUNK, CHUNK)),
            Step::Unplug { pool: 3 },
            Step::Wait { us: 200_000 },
            write(5 * CHUNK, CHUNK, false),
            Step::Wait { us: 200_000 },
            FLUSH,
            Step::Wait { us: 200_000 },
            LOST,
            ALL,
        ];
        let steps = replica_goes().into_iter().chain(then).collect();
        let pools = vec![small(100), pool(200, 50), pool(200, 60), pool(200, 5000)];
        Plan { seed: 0, settings: settings(), pools, steps }
    };
    let plans: Vec<Plan> = (0..6).map(plan).collect();
    only_fails_with("sequence_not_skipped", &plans);
}

/// A commit of several blocks moved a chunk to a pool that was gone before it was flushed. The
/// crash tore the commit: the block that moves the chunk was written, that with the death was not.
#[test]
fn a_death_stands_before_the_records_that_rely_on_the_dead_pool() {
    let limits = Limits {
        block_payload: 128,
        record: 64,
        area_growth: 1,
        volumes: 64,
        volume_name: 8,
        ..Limits::REAL
    };
    let steps = chunk_then([
        operate(OperationKind::Migrate, 0, 1),
        FLUSH,
        Step::Events { count: 2 },
        Step::Populate { volume: 0, first: 2, chunks: 20 },
        Step::Events { count: 1 },
        Step::Unplug { pool: 1 },
        Step::Events { count: 14 },
        Step::Crash { survival: Survival::Torn },
        ALL,
    ]);
    let pools = [pool(90, 1000), small(400)];
    let pools = pools.map(|pool| PoolPlan { zeroed: true, ..pool }).to_vec();
    let plan = Plan { seed: 2884, settings: Settings { limits, ..settings() }, pools, steps };
    only_fails_with("death_record_last", &[plan]);
}

/// Both metadata replicas died when one of the two that came in their place had its superblock, and
/// the other had not. What was being committed counts when those are in force. Hardly any seed
/// meets this (`SELDOM`).
#[test]
fn a_commit_whose_replicas_all_died_waits_for_the_coming_ones() {
    let plan = |moment: u16| {
        let steps = chunk_then([
            Step::DrainPool { pool: 1 },
            Step::Wait { us: 3_000_000 },
            Step::RemovePool { pool: 1 },
            Step::Events { count: moment % 8 },
            write(5 * CHUNK, 8, false),
            Step::Events { count: moment / 8 % 4 },
            FLUSH,
            Step::Events { count: moment / 32 },
            Step::Kill { pool: 1 },
            Step::Kill { pool: 2 },
            Step::Settle,
            ALL,
        ]);
        let pools = vec![small(100), pool(200, 50), pool(200, 5000), pool(200, 60)];
        Plan { seed: moment.into(), settings: settings(), pools, steps }
    };
    let waits = |moment: u16| {
        let summary = run(&plan(moment), Extras::default()).expect("all ends well");
        summary.marks.contains_key("commit waited for replicas to be in force")
    };
    assert!((0..160).filter(|&moment| waits(moment)).count() > 0, "no plan comes to it");
}

/// Two pools came in place of a metadata replica; one had the new superblock, and both were gone.
/// A flush was answered when the old replica had its records; then the power failed, before that
/// one had a younger superblock. The pools came back, and their superblock counted, without what
/// had been flushed.
#[test]
fn a_flush_waits_for_a_superblock_that_is_younger_than_one_that_may_come_back() {
    let mut rng = Rng::seeded(7);
    let plan = |seed| {
        let mut some = |most: u64| Step::Events { count: rng.below(most) as u16 };
        let then = [
            some(4),
            write(5 * CHUNK, 8, false),
            some(4),
            FLUSH,
            some(4),
            Step::Unplug { pool: 2 },
            Step::Read(span(CHUNK, CHUNK)),
            Step::Unplug { pool: 3 },
            some(10),
            LOST,
            ALL,
        ];
        let steps = replica_goes().into_iter().chain(then).collect();
        let data = PoolPlan { zeroed: true, ..small(20) };
        let pools = vec![data, pool(200, 2000), pool(200, 60), pool(200, 500)];
        Plan { seed, settings: settings(), pools, steps }
    };
    let plans: Vec<Plan> = (0..400).map(plan).collect();
    only_fails_with("commit_counts_though_superseded", &plans);
}

/// A full pool had grown, and chunks got its new slots at once: the journal named slots that the
/// superblock in force knew nothing of when the power failed.
#[test]
fn chunks_get_no_slot_that_the_superblock_in_force_does_not_have() {
    let plan = |events: u16| {
        let steps = vec![
            Step::CreateVolume { sectors: 400 * CHUNK },
            Step::Populate { volume: 0, first: 0, chunks: 150 },
            FLUSH,
            Step::Settle,
            Step::GrowPool { pool: 0, chunks: 40 },
            Step::Populate { volume: 0, first: 200, chunks: 10 },
            FLUSH,
            Step::Events { count: events },
            LOST,
            ALL,
        ];
        Plan { seed: 1, settings: settings(), pools: vec![pool(60, 200)], steps }
    };
    let plans: Vec<Plan> = (0..40).map(plan).collect();
    only_fails_with("grown_slots_before_the_superblock", &plans);
}

/// A pool had grown so far that the tables of its checksums stood in slots, and chunks had these
/// slots as well.
#[test]
fn chunks_get_no_slot_that_holds_checksums() {
    let steps = vec![
        Step::CreateVolume { sectors: 400 * CHUNK },
        Step::GrowPool { pool: 0, chunks: 400 },
        Step::Wait { us: 1_000_000 },
        Step::Populate { volume: 0, first: 0, chunks: 400 },
        FLUSH,
        Step::Wait { us: 60_000_000 },
        ALL,
        LOST,
        ALL,
    ];
    let settings = Settings { checksums: true, ..settings() };
    let plan = Plan { seed: 1, settings, pools: vec![pool(60, 50)], steps };
    only_fails_with("chunks_among_grown_tables", &[plan]);
}

/// Reads wait for a pool that answers late, as many as it may have. One of the idle pool is taken
/// nevertheless.
#[test]
fn a_pools_backlog_leaves_requests_to_an_idle_pool() {
    let limits = Limits { requests: 16, ..Limits::REAL };
    let fill = [
        CREATE,
        write(0, 2 * CHUNK, false),
        FLUSH,
        Step::Settle,
        operate(OperationKind::Migrate, 1, 1),
        Step::Settle,
    ];
    let late = (0..20).map(|_| Step::Read(span(CHUNK, 8)));
    let steps = fill.into_iter().chain(late).chain([Step::Read(span(0, 8)), Step::Settle, ALL]);
    let pools = vec![pool(60, 50), small(50_000)];
    let settings = Settings { limits, ..settings() };
    let plan = Plan { seed: 3, settings, pools, steps: steps.collect() };
    only_fails_with("backlog_takes_all_requests", &[plan]);
}

/// A read was on its way when its chunk moved to another pool and came back, to another slot. It
/// failed where the chunk had been, and was answered with an error, for the pool had failed it.
#[test]
fn a_read_that_fails_where_the_chunk_was_is_sent_to_where_it_came_back() {
    let copying = Copying { yield_above: Some(64), patience: Nanos(1), ..settings().copying };
    let plan = |seed: u64| {
        let steps = chunk_then([
            operate(OperationKind::Migrate, 0, 1),
            Step::Settle,
            // The read is not answered for 5 ms.
            Step::Trouble { pool: 1, fail: 0, time_out: 1000, delay: 0 },
            Step::Read(span(0, 8)),
            Step::Calm,
            operate(OperationKind::Migrate, 0, 0),
            Step::Wait { us: 2000 },
            operate(OperationKind::Migrate, 0, 1),
            Step::Settle,
            ALL,
        ]);
        let pools = vec![pool(60, 50), small(50)];
        Plan { seed, settings: Settings { copying, ..settings() }, pools, steps }
    };
    let plans: Vec<Plan> = (0..20).map(plan).collect();
    plans.iter().for_each(plan_ends_well);
    let marks = |plan: &Plan| run(plan, Extras::default()).expect("all ends well").marks;
    let met = "read failed on a pool that the chunk left and came back to";
    assert!(plans.iter().any(|plan| marks(plan).contains_key(met)), "no plan comes to it");
    // An error would have its reason, as the pool has failed a request: there must be none.
    let client_fails_with = |mutant: &'static str| {
        let _planted = plant(mutant);
        plans.iter().any(|plan| marks(plan).contains_key("requests failed: Io"))
    };
    assert!(!plans.iter().any(|plan| marks(plan).contains_key("requests failed: Io")));
    assert!(client_fails_with("read_fails_where_the_chunk_came_back"), "no plan notices it");
}

/// A mirrored chunk was to be whole on one side, and the flush before the record that said so found
/// that side's pool dead. The power failed before the next commit took it back: the chunk was lost,
/// and its other side was whole.
#[test]
fn a_mirrored_chunk_that_shall_be_whole_on_a_side_that_dies_is_on_the_other() {
    let mut plans = Vec::new();
    for (to, moment) in [0, 1].into_iter().flat_map(|to| (0..160).map(move |at: u16| (to, at))) {
        let steps = chunk_then([
            operate(OperationKind::Mirror, 0, 1),
            Step::Settle,
            // Something for the pool that stays to flush.
            write(CHUNK * 2, 8, false),
            operate(OperationKind::Migrate, 0, to),
            Step::Events { count: moment / 8 },
            Step::Kill { pool: to },
            Step::Events { count: moment % 8 },
            LOST,
            ALL,
        ]);
        let pools = vec![pool(60, 50), pool(60, 200)];
        plans.push(Plan { seed: moment.into(), settings: settings(), pools, steps });
    }
    only_fails_with("old_side_forgotten_at_once", &plans);
}

/// The flush before the record that moved a chunk found the new pool dead. The record was written
/// all the same, the next commit would have taken it back, and the power failed between the two:
/// the chunk was lost with a pool that it had never come to, and its old copy was whole.
#[test]
fn a_chunk_on_its_way_to_a_pool_that_dies_is_where_it_was() {
    let plan = |moment: u16| {
        let steps = chunk_then([
            operate(OperationKind::Migrate, 0, 1),
            Step::Events { count: moment / 8 },
            Step::Kill { pool: 1 },
            Step::Events { count: moment % 8 },
            LOST,
            ALL,
        ]);
        let pools = vec![pool(60, 50), small(200)];
        Plan { seed: moment.into(), settings: settings(), pools, steps }
    };
    let plans: Vec<Plan> = (0..160).map(plan).collect();
    only_fails_with("old_copy_forgotten_at_once", &plans);
    let met = |plan: &Plan| {
        let summary = run(plan, Extras::default()).expect("all ends well");
        summary.marks.contains_key("moves to a dead pool cut short by a crash")
    };
    assert!(plans.iter().any(met), "no plan comes to it");
}

/// Settings by which chunks come to the slow pool, and so much of the fast one is lent.
fn lending(lent_percent: u8) -> Settings {
    Settings { tactics: tactics(&["slowest-first"]), lent_percent, ..settings() }
}

/// A fast pool of so many chunks over a slow one.
fn fast_over_slow(chunks: u32) -> Vec<PoolPlan> {
    vec![PoolPlan { chunks, ..small(400) }, pool(60, 50)]
}

const A_WHILE: Step = Step::Wait { us: 1_300_000 };

/// Reads of each block of the first chunk.
fn read_blocks() -> impl Iterator<Item = Step> {
    (0..16).flat_map(|block| [Step::Read(span(8 * block, 8)), Step::Settle])
}

/// A lent slot was free while lines were still on their way to it: the machine's own check finds it
/// free and in use.
#[test]
fn a_lent_slot_is_free_when_the_last_fill_on_it_has_ended() {
    let plan = |seed: u64| {
        let reads = [A_WHILE, Step::Read(span(0, 64)), Step::Wait { us: 5_000 }];
        let back = [Step::Lend { percent: 0 }, A_WHILE, Step::Settle, ALL];
        let steps = chunk_then(reads.into_iter().chain(back));
        let settings = Settings { epoch: Nanos(20_000_000), ..lending(100) };
        let pools = vec![PoolPlan { chunks: 1, ..small(300_000) }, pool(60, 50)];
        Plan { seed, settings, pools, steps }
    };
    let plans: Vec<Plan> = (0..20).map(plan).collect();
    only_fails_with("lent_slot_freed_under_requests", &plans);
}

/// Lines had been filled when one slot was lent, and had other places when eight were. A write
/// found them there no more; with one slot again the old contents came back.
#[test]
fn a_write_voids_a_line_where_it_was_when_fewer_slots_were_lent() {
    let first = [A_WHILE].into_iter().chain(read_blocks());
    let more = [Step::Lend { percent: 100 }, A_WHILE, write(0, CHUNK, false), Step::Settle];
    let fewer = [Step::Lend { percent: 13 }, A_WHILE];
    let steps = chunk_then(first.chain(more).chain(fewer).chain(read_blocks()).chain([ALL]));
    let plan = Plan { seed: 1, settings: lending(13), pools: fast_over_slow(8), steps };
    only_fails_with("older_places_of_a_line_forgotten", &[plan]);
}

/// A volume was deleted, and the next one got its number: it read the old one's lines where it had
/// written nothing.
#[test]
fn a_new_volume_sees_no_line_of_a_deleted_one() {
    let first = [A_WHILE].into_iter().chain(read_blocks());
    let again = [
        Step::DeleteVolume { volume: 0 },
        A_WHILE,
        CREATE,
        write(0, 1, false),
        Step::Settle,
        A_WHILE,
    ];
    let steps = chunk_then(first.chain(again).chain(read_blocks()).chain([ALL]));
    let plan = Plan { seed: 1, settings: lending(100), pools: fast_over_slow(8), steps };
    only_fails_with("deleted_volume_leaves_its_lines", &[plan]);
}

/// More blocks are read than lines may be on their way at once: the others are not kept, and what
/// is read later is right.
#[test]
fn fills_are_given_up_when_many_are_under_way() {
    let chunks = 8;
    let writes = (0..chunks).map(|chunk| write(chunk * CHUNK, CHUNK, false));
    // Longer reads are not kept.
    let reads = || (0..2 * chunks).map(|half| Step::Read(span(half * CHUNK / 2, CHUNK / 2)));
    let steps = [CREATE]
        .into_iter()
        .chain(writes)
        .chain([FLUSH, Step::Settle, A_WHILE])
        .chain(reads())
        .chain([Step::Settle, A_WHILE, write(0, 8, false), Step::Settle])
        .chain(reads())
        .chain([ALL])
        .collect();
    let pools = vec![PoolPlan { chunks: 12, ..small(300_000) }, pool(60, 50)];
    let plan = Plan { seed: 1, settings: lending(100), pools, steps };
    let summary = run(&plan, Extras::default()).expect("all ends well");
    assert!(
        summary.marks.contains_key("fill given up among many"),
        "it comes to: {:?}",
        summary.marks
    );
}
