//! Groups without block checksums that are given pools with them, cut off at every event; and rot
//! in what stands on both kinds of pools.

use super::{ALL, CHUNK, fails_with, plan_ends_well, pool, write};
use crate::plan::{Plan, PoolPlan, Step};
use crate::run::{Extras, run};
use thermocline_ports::faulty::Survival;
use thermocline_volume::{OperationKind, Settings};

const CREATE: Step = Step::CreateVolume { sectors: 8 * CHUNK };
const FLUSH: Step = Step::Flush { volume: 0 };
/// A chunk gets its table when it was not written for ten seconds.
const REST: Step = Step::Wait { us: 15_000_000 };
/// A pool takes chunks when its superblock is durable.
const JOINED: Step = Step::Wait { us: 200_000 };

/// An old group; pools that are added have checksums.
fn settings() -> Settings {
    Settings { checksums: false, added_checksums: true, ..super::settings(64, 64) }
}

fn operate(kind: OperationKind, chunk: u32, to: u8) -> Step {
    Step::OperateOn { kind, volume: 0, chunk, to }
}

/// Two chunks on a pool without checksums, and a pool with them, to which something happens.
fn old_group_then(seed: u64, then: impl IntoIterator<Item = Step>) -> Plan {
    let begin = [CREATE, write(0, 2 * CHUNK, false), FLUSH, Step::Settle];
    let added = Step::AddPool(PoolPlan { zeroed: seed.is_multiple_of(2), ..pool(40, 70) });
    let steps = begin.into_iter().chain([added]).chain(then).collect();
    Plan { seed, settings: settings(), pools: vec![pool(12, 100)], steps }
}

/// One chunk on both kinds of pools, at rest, and a bit that flips in one of its copies.
fn rot_in_one_copy(seed: u64, copy: u8, bit: u32) -> Plan {
    let replicate = operate(OperationKind::Replicate, 0, 0);
    let flip = Step::Flip { nth: 0, copy, bit };
    let then = [JOINED, replicate, Step::Settle, REST, LOST_AND_READ, ALL, flip, ALL];
    old_group_then(seed, then)
}

/// Forgets all that is known in memory only.
const LOST_AND_READ: Step = Step::Crash { survival: Survival::Lost };

#[test]
fn the_power_may_fail_at_every_event_while_an_old_pool_is_replaced() {
    let drain = [JOINED, Step::DrainPool { pool: 0 }, write(CHUNK, 24, true)];
    let emptied = Step::Wait { us: 3_000_000 };
    let remove = [drain[0], drain[1], drain[2], emptied, Step::RemovePool { pool: 0 }];
    let (mut runs, mut replaced) = (0, 0);
    for (row, events_max) in [(&drain[..], 160), (&remove[..], 40)] {
        for survival in [Survival::Lost, Survival::Torn, Survival::Kept, Survival::Cached] {
            for events in 0..events_max {
                let cut = [Step::Events { count: events }, Step::Crash { survival }, ALL];
                let (nth, bit) = (events.into(), 40_000 + u32::from(events));
                let goes_on = [
                    JOINED,
                    Step::DrainPool { pool: 0 },
                    REST,
                    Step::RemovePool { pool: 0 },
                    Step::Flip { nth, copy: 0, bit },
                    ALL,
                ];
                let then = row.iter().copied().chain(cut).chain(goes_on);
                let plan = old_group_then(events.into(), then);
                plan_ends_well(&plan);
                runs += 1;
                let marks = run(&plan, Extras::default()).expect("it ended well before").marks;
                replaced += u64::from(marks.contains_key("bits flipped"));
            }
        }
    }
    assert!(replaced > runs / 2, "{replaced} of {runs} runs end with checksums");
    println!("{runs} runs, in each the power failing at another event; {replaced} got checksums");
}

#[test]
fn the_power_may_fail_at_every_event_from_the_joining_to_the_first_table() {
    for joined in [false, true] {
        for events in 0..200 {
            let settle = joined.then_some(JOINED);
            let row = [
                operate(OperationKind::Replicate, 0, 0),
                operate(OperationKind::Migrate, 1, 0),
                Step::Events { count: events },
                LOST_AND_READ,
                ALL,
                REST,
                Step::Events { count: events / 8 },
                LOST_AND_READ,
                ALL,
                Step::Flip { nth: events.into(), copy: 0, bit: 9 * u32::from(events) },
                ALL,
            ];
            let plan = old_group_then(events.into(), settle.into_iter().chain(row));
            plan_ends_well(&plan);
        }
    }
}

/// The bit flips in either copy; a read of its sector, of the chunk, an operation, or the scrub
/// meets it first.
#[test]
fn the_copy_that_verifies_is_believed_and_the_other_one_repaired() {
    let plans: Vec<Plan> = (0..48)
        .map(|seed| rot_in_one_copy(seed, seed as u8 % 2, 8 * 4096 * seed as u32 + seed as u32 / 2))
        .collect();
    let mut met = (0, 0);
    for plan in &plans {
        plan_ends_well(plan);
        let marks = run(plan, Extras::default()).expect("it ended well before").marks;
        met.0 += u64::from(marks.contains_key("bits flipped beside a bare copy"));
        met.1 += u64::from(marks.contains_key("bits flipped in a copy without a table"));
    }
    assert!(met.0 >= 10 && met.1 >= 10, "the plans flip what they are about: {met:?}");
    fails_with("copy_without_table_believed", &plans);
    fails_with("no_table_beside_a_bare_copy", &plans);
}

/// The copy with the table goes; what was known of it must not be held against later writes.
#[test]
fn a_table_that_goes_with_its_copy_is_held_against_nothing() {
    let plans: Vec<Plan> = [Step::Kill { pool: 1 }, Step::DrainPool { pool: 1 }]
        .into_iter()
        .flat_map(|goes| (0..6).map(move |seed| (goes, seed)))
        .map(|(goes, seed)| {
            let then = [
                JOINED,
                operate(OperationKind::Replicate, 0, 0),
                Step::Settle,
                REST,
                goes,
                Step::Read(super::span(0, CHUNK)),
                Step::Wait { us: 1_000_000 },
                ALL,
                write(8, 9, false),
                FLUSH,
                Step::Settle,
                LOST_AND_READ,
                ALL,
            ];
            old_group_then(seed, then)
        })
        .collect();
    plans.iter().for_each(plan_ends_well);
    fails_with("table_outlives_its_copies", &plans);
}
