//! Slots that are kept for one group: others neither count on them nor are balanced by them.

use super::*;
use crate::{Answer, CardSettings, FlowKey, FunctionSettings, Image, Settings, Signature, Verdict};
use bytes::Bytes;
use thermocline_policy::accel::NothingComing;
use thermocline_policy::registry::PolicySpec;

const ONE: GroupId = GroupId(1);
const TWO: GroupId = GroupId(2);

/// Two slots, and a function that does not run on the processor and takes 5 µs a packet.
fn platform(scheduler: &str) -> Platform {
    let spec = PolicySpec::parse(scheduler).unwrap();
    let scheduler = spec.build_scheduler(Box::new(NothingComing)).unwrap();
    let cards = vec![CardSettings::new("card0", 2, 10_000)];
    let mut platform = Platform::new(Nanos(0), Settings::default(), cards, scheduler);
    let name = "dpi".to_string();
    let settings = FunctionSettings { name, stateful: true, alters: false, processor: None };
    let function = platform.declare(settings).unwrap();
    platform
        .admit(Image {
            function,
            version: 1,
            room: 9_000,
            bytes: thermocline_units::Bytes(400_000),
            cost: 5_000.0,
            signature: Signature::Valid,
        })
        .unwrap();
    for group in [ONE, TWO] {
        platform.set_chain(Nanos(0), group, &[function]).unwrap();
    }
    platform
}

/// Answers all that workers are asked.
fn answer_all(platform: &mut Platform, now: Nanos) {
    while let Some(work) = platform.next_work() {
        let answer = match &work {
            Work::Load { .. } => Answer::Loaded,
            Work::Process { packets, .. } => {
                Answer::Processed(packets.iter().map(|_| Verdict::Pass).collect())
            }
            Work::Export { .. } => Answer::Exported(Bytes::new()),
            Work::Import { .. } => Answer::Imported,
        };
        platform.complete(now, work.ticket(), answer);
    }
}

fn offer(platform: &mut Platform, now: Nanos, group: GroupId, flow: u64, packets: usize) {
    for _ in 0..packets {
        platform.offer(now, group, FlowKey(flow), Bytes::from_static(b"packet"));
        answer_all(platform, now);
    }
}

fn tick(platform: &mut Platform) -> Nanos {
    let now = platform.next_tick();
    platform.tick(now);
    answer_all(platform, now);
    now
}

fn running(platform: &Platform) -> usize {
    let slots = platform.status().slots;
    slots.iter().filter(|slot| slot.state == crate::SlotState::Running).count()
}

/// A platform whose first slot runs the function for group ONE alone, and the time.
fn owned(scheduler: &str) -> (Platform, Nanos) {
    let mut platform = platform(scheduler);
    offer(&mut platform, Nanos(1), ONE, 1, 1);
    let now = tick(&mut platform);
    platform.reserve(now, SlotId(0), Some(ONE)).unwrap();
    answer_all(&mut platform, now);
    (platform, now)
}

/// The packets of a tenant were dropped while a slot was empty, because another tenant had one.
#[test]
fn a_slot_of_one_group_is_no_capacity_for_others() {
    for scheduler in ["by-cost:prefetch=no", "first-fit"] {
        let mut platform = platform(scheduler);
        offer(&mut platform, Nanos(1), ONE, 1, 1);
        let now = tick(&mut platform);
        assert_eq!(running(&platform), 1, "{scheduler}");
        platform.reserve(now, SlotId(0), Some(ONE)).unwrap();
        answer_all(&mut platform, now);
        offer(&mut platform, now, TWO, 2, 1);
        let now = tick(&mut platform);
        assert_eq!(running(&platform), 2, "{scheduler}");
        offer(&mut platform, now, TWO, 2, 1);
        assert_eq!(platform.status().slots[1].flows, 1, "{scheduler}");
        platform.check();
    }
}

/// Work of a group on its own slot asks for no other one.
#[test]
fn the_load_of_a_groups_own_slot_asks_for_no_other() {
    let (mut platform, _) = owned("by-cost:prefetch=no:linger=0s:fade=0s");
    for _ in 0..5 {
        let now = platform.next_tick();
        offer(&mut platform, Nanos(now.0 - 1), ONE, 1, 10);
        tick(&mut platform);
        assert_eq!(running(&platform), 1);
    }
}

/// All that was offered to a reserved slot counted as carried, so that an owner with too much work
/// never got another slot.
#[test]
fn work_that_is_too_much_for_an_own_slot_asks_for_another() {
    let (mut platform, _) = owned("by-cost:prefetch=no");
    for _ in 0..20 {
        let now = platform.next_tick();
        // Three times what a slot can do in a period of 10 ms with 5 µs a packet.
        for flow in 0..60 {
            offer(&mut platform, Nanos(now.0 - 1), ONE, flow, 100);
        }
        tick(&mut platform);
    }
    assert_eq!(running(&platform), 2);
}

/// A period that ended late divided the two by different times, and others' work seemed to be none.
#[test]
fn work_of_others_counts_also_where_a_period_is_long() {
    let (mut platform, _) = owned("first-fit");
    let late = Nanos(platform.next_tick().0 + 5_000_000);
    offer(&mut platform, Nanos(late.0 - 1), ONE, 1, 200);
    offer(&mut platform, Nanos(late.0 - 1), TWO, 2, 100);
    platform.tick(late);
    answer_all(&mut platform, late);
    assert_eq!(running(&platform), 2);
}

#[test]
fn flows_are_balanced_among_the_slots_that_serve_them() {
    let (mut platform, now) = owned("by-cost:prefetch=no");
    offer(&mut platform, now, TWO, 2, 1);
    let now = tick(&mut platform);
    offer(&mut platform, now, ONE, 1, 30);
    offer(&mut platform, now, TWO, 2, 90);
    let loads = platform.loads();
    let of = |slot| {
        let stage = Stage { function: FunctionId(0), place: Place::Slot(SlotId(slot)) };
        (loads[&stage].has, loads[&stage].wants)
    };
    assert_eq!(of(0), (30.0, 30.0));
    assert_eq!(of(1), (90.0, 90.0));
}
