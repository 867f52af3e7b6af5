//! Wishes come before the scheduler's plan.

use super::{Wished, Wishes};
use std::sync::{Arc, Mutex};
use thermocline_policy::accel::{
    Act, FunctionId, FunctionView, Holding, Scheduler, SlotView, View,
};
use thermocline_units::Nanos;

const NAT: FunctionId = FunctionId(0);
const DPI: FunctionId = FunctionId(1);

/// Wants every empty slot for NAT, and every running one back.
struct Greedy;

impl Scheduler for Greedy {
    fn plan(&mut self, view: &View<'_>, plan: &mut Vec<Act>) {
        for (slot, known) in view.slots.iter().enumerate() {
            match known.holds {
                Holding::Nothing => plan.push(Act::Provision { slot, function: NAT }),
                Holding::Running(_) => plan.push(Act::Release { slot }),
                _ => {}
            }
        }
    }
}

fn plan(wishes: &Wishes, holds: &[Holding]) -> Vec<Act> {
    plan_on(wishes, holds, false)
}

fn plan_on(wishes: &Wishes, holds: &[Holding], closed: bool) -> Vec<Act> {
    let slot = |&holds: &Holding| SlotView { card: 0, room: 1, holds, closed, reserved: false };
    let slots: Vec<SlotView> = holds.iter().map(slot).collect();
    let function = FunctionView { offered: 0.0, room: 1, cost_stated: 1.0, processor: Some(1.0) };
    let (costs, loads) = (vec![1.0; 2 * slots.len()], vec![Nanos(1); 2 * slots.len()]);
    let view = View {
        now: Nanos(0),
        slots: &slots,
        functions: &[function; 2],
        costs: &costs,
        loads: &loads,
        ports: &[Nanos(0)],
    };
    let wishes = Arc::new(Mutex::new(wishes.clone()));
    let mut acts = Vec::new();
    Wished { wishes, inner: Box::new(Greedy) }.plan(&view, &mut acts);
    acts
}

#[test]
fn a_pinned_slot_gets_its_function_and_keeps_it() {
    let mut wishes = Wishes::default();
    wishes.pins.insert(0, DPI);
    let (load, reload) =
        (Act::Provision { slot: 0, function: DPI }, Act::Reload { slot: 0, function: DPI });
    assert_eq!(plan(&wishes, &[Holding::Nothing]), [load]);
    assert_eq!(plan(&wishes, &[Holding::Running(NAT)]), [reload]);
    assert_eq!(plan(&wishes, &[Holding::Running(DPI)]), []);
    assert_eq!(plan(&wishes, &[Holding::Failed]), []);
}

#[test]
fn a_function_with_a_count_gets_it_and_no_more() {
    let mut wishes = Wishes::default();
    wishes.counts.insert(DPI, 1);
    let rest = Act::Provision { slot: 1, function: NAT };
    let first = Act::Provision { slot: 0, function: DPI };
    assert_eq!(plan(&wishes, &[Holding::Nothing, Holding::Nothing]), [first, rest]);
    let both = [Holding::Running(DPI), Holding::Running(DPI)];
    assert_eq!(plan(&wishes, &both), [Act::Release { slot: 1 }]);
    let taken = [Holding::Running(NAT)];
    assert_eq!(plan(&wishes, &taken), [Act::Reload { slot: 0, function: DPI }]);
    assert_eq!(plan(&wishes, &[Holding::Loading(DPI)]), []);
}

/// A card was drained, and its slots that were loaded by hand kept their functions.
#[test]
fn a_pinned_slot_of_a_drained_card_is_left_to_the_scheduler() {
    let mut wishes = Wishes::default();
    wishes.pins.insert(0, DPI);
    assert_eq!(plan_on(&wishes, &[Holding::Running(DPI)], true), [Act::Release { slot: 0 }]);
}
