//! Schedulers: what they plan for small pools, and that no plan names a slot twice.

use super::{
    Act, Coming, FunctionId, FunctionView, Holding, NothingComing, Scheduler, SlotView, View,
};
use crate::registry::{PolicySpec, schedulers};
use thermocline_units::{Nanos, Rng};

const LITTLE: u32 = 10;
const BIG: u32 = 20;
const F: FunctionId = FunctionId(0);
const G: FunctionId = FunctionId(1);

/// A pool: every function costs 10 µs a packet on every slot, so a slot does 100,000 a second.
struct Pool {
    slots: Vec<SlotView>,
    functions: Vec<FunctionView>,
    costs: Vec<f64>,
    loads: Vec<Nanos>,
    ports: Vec<Nanos>,
}

impl Pool {
    fn new(slots: &[(u32, Holding)], functions: &[(f64, u32)]) -> Pool {
        let slot = |&(room, holds): &(u32, Holding)| {
            let (closed, reserved) = (false, false);
            SlotView { card: 0, room, holds, closed, reserved }
        };
        let function = |&(offered, room): &(f64, u32)| FunctionView {
            offered,
            room,
            cost_stated: 10_000.0,
            processor: Some(100_000.0),
        };
        let pairs = slots.len() * functions.len();
        Pool {
            slots: slots.iter().map(slot).collect(),
            functions: functions.iter().map(function).collect(),
            costs: vec![10_000.0; pairs],
            loads: vec![Nanos(3_000_000); pairs],
            ports: vec![Nanos(0); 2],
        }
    }

    fn plan(&self, scheduler: &mut dyn Scheduler, now: Nanos) -> Vec<Act> {
        let view = View {
            now,
            slots: &self.slots,
            functions: &self.functions,
            costs: &self.costs,
            loads: &self.loads,
            ports: &self.ports,
        };
        let mut plan = Vec::new();
        scheduler.plan(&view, &mut plan);
        plan
    }
}

fn scheduler(text: &str) -> Box<dyn Scheduler> {
    PolicySpec::parse(text).unwrap().build_scheduler(Box::new(NothingComing)).unwrap()
}

#[test]
fn demand_is_given_as_many_slots_as_it_needs() {
    let empty = [(LITTLE, Holding::Nothing); 4];
    for (name, slots) in [("first-fit", 2), ("by-cost:prefetch=no", 2), ("by-cost", 3)] {
        let pool = Pool::new(&empty, &[(120_000.0, LITTLE)]);
        let plan = pool.plan(&mut *scheduler(name), Nanos(1));
        assert_eq!(plan.len(), slots, "{name}: {plan:?}");
        assert_eq!(plan[0], Act::Provision { slot: 0, function: F }, "{name}");
    }
}

/// Slots that tenants had bound counted as capacity for all others.
#[test]
fn reserved_slots_are_neither_counted_nor_taken() {
    for name in ["first-fit", "by-cost:prefetch=no"] {
        let running = (LITTLE, Holding::Running(F));
        let slots = [running, running, (LITTLE, Holding::Nothing), (LITTLE, Holding::Nothing)];
        let mut pool = Pool::new(&slots, &[(60_000.0, LITTLE), (900_000.0, LITTLE)]);
        (0..2).for_each(|slot| pool.slots[slot].reserved = true);
        pool.slots[3].reserved = true;
        pool.functions[1].offered = 0.0;
        let plan = pool.plan(&mut *scheduler(name), Nanos(1));
        assert_eq!(plan, [Act::Provision { slot: 2, function: F }], "{name}");
        // Nothing is left that another function could have.
        pool.functions[1].offered = 900_000.0;
        pool.slots[2].reserved = true;
        let plan = pool.plan(&mut *scheduler(name), Nanos(1_000_000_000));
        assert_eq!(plan, [], "{name}");
    }
}

#[test]
fn first_fit_gives_equal_shares_and_takes_the_first_slot_that_fits() {
    let pool =
        Pool::new(&[(LITTLE, Holding::Nothing); 4], &[(900_000.0, LITTLE), (900_000.0, LITTLE)]);
    let plan = pool.plan(&mut *scheduler("first-fit"), Nanos(1));
    let given = |function| {
        let of = |act: &&Act| matches!(act, Act::Provision { function: f, .. } if *f == function);
        plan.iter().filter(of).count()
    };
    assert_eq!((given(F), given(G)), (2, 2), "{plan:?}");
    let pool = Pool::new(&[(LITTLE, Holding::Nothing), (BIG, Holding::Nothing)], &[(1.0, BIG)]);
    let plan = pool.plan(&mut *scheduler("first-fit"), Nanos(1));
    assert_eq!(plan, [Act::Provision { slot: 1, function: F }]);
}

#[test]
fn by_cost_keeps_big_slots_for_functions_that_need_them() {
    let slots = [(BIG, Holding::Nothing), (LITTLE, Holding::Nothing)];
    let pool = Pool::new(&slots, &[(50_000.0, LITTLE), (50_000.0, BIG)]);
    let plan = pool.plan(&mut *scheduler("by-cost:prefetch=no"), Nanos(1));
    assert!(plan.contains(&Act::Provision { slot: 1, function: F }), "{plan:?}");
    assert!(plan.contains(&Act::Provision { slot: 0, function: G }), "{plan:?}");
}

#[test]
fn by_cost_moves_a_little_function_out_of_a_big_slot() {
    let slots = [(BIG, Holding::Running(F)), (LITTLE, Holding::Nothing)];
    let pool = Pool::new(&slots, &[(50_000.0, LITTLE), (50_000.0, BIG)]);
    let plan = pool.plan(&mut *scheduler("by-cost:prefetch=no"), Nanos(1));
    assert_eq!(plan, [Act::Move { from: 0, to: 1 }]);
}

#[test]
fn a_pause_costs_no_slot_until_it_has_lasted() {
    let slots = [(LITTLE, Holding::Running(F)), (LITTLE, Holding::Running(F))];
    let mut by_cost = scheduler("by-cost:fade=10ms:linger=500ms:prefetch=no");
    let busy = Pool::new(&slots, &[(150_000.0, LITTLE)]);
    let idle = Pool::new(&slots, &[(0.0, LITTLE)]);
    assert_eq!(busy.plan(&mut *by_cost, Nanos(1)), []);
    let mut at = 10_000_000;
    let first = loop {
        let plan = idle.plan(&mut *by_cost, Nanos(at));
        if !plan.is_empty() {
            break plan;
        }
        at += 10_000_000;
    };
    assert!((500_000_000..700_000_000).contains(&at), "released after {at} ns");
    assert!(first.iter().all(|act| matches!(act, Act::Release { .. })), "{first:?}");
    let mut first_fit = scheduler("first-fit");
    assert_eq!(idle.plan(&mut *first_fit, Nanos(1)).len(), 2, "the source's releases at once");
}

#[test]
fn little_load_stays_on_the_processor() {
    // A packet takes 100 µs there: 1,000 of them keep a tenth of it busy.
    let mut by_cost = scheduler("by-cost:from=0.1:fade=1ms:linger=500ms:prefetch=no");
    let plan = |holds: Holding, offered: f64, at: u64, by_cost: &mut dyn Scheduler| {
        Pool::new(&[(LITTLE, holds)], &[(offered, LITTLE)]).plan(by_cost, Nanos(at * 1_000_000))
    };
    assert_eq!(plan(Holding::Nothing, 999.0, 10, &mut *by_cost), []);
    let first = plan(Holding::Nothing, 1_001.0, 20, &mut *by_cost);
    assert!(matches!(first[..], [Act::Provision { .. }]), "{first:?}");
    // Half of it is enough to keep the slot, for however long.
    for at in (30..2_000).step_by(10) {
        assert_eq!(plan(Holding::Running(F), 501.0, at, &mut *by_cost), [], "at {at} ms");
    }
    let less: Vec<Act> = (2_000..3_000)
        .step_by(10)
        .flat_map(|at| plan(Holding::Running(F), 499.0, at, &mut *by_cost))
        .take(1)
        .collect();
    assert!(matches!(less[..], [Act::Release { .. }]), "{less:?}");
}

#[test]
fn a_reload_must_pay() {
    // G has two slots and needs one; F has none: F gets a slot.
    let slots = [(LITTLE, Holding::Running(G)), (LITTLE, Holding::Running(G))];
    let pool = Pool::new(&slots, &[(70_000.0, LITTLE), (70_000.0, LITTLE)]);
    let plan = pool.plan(&mut *scheduler("by-cost"), Nanos(1));
    assert!(matches!(plan[..], [Act::Reload { function: F, .. }]), "{plan:?}");
    // Both are equally short: a slot for F would be one less for G.
    let pool = Pool::new(&slots, &[(70_000.0, LITTLE), (250_000.0, LITTLE)]);
    let plan = pool.plan(&mut *scheduler("by-cost"), Nanos(1));
    assert_eq!(plan, []);
}

#[test]
fn cards_that_are_closed_are_left() {
    for name in ["first-fit", "by-cost:prefetch=no"] {
        let slots = [(LITTLE, Holding::Running(F)), (LITTLE, Holding::Nothing)];
        let mut pool = Pool::new(&slots, &[(50_000.0, LITTLE)]);
        pool.slots[0].closed = true;
        (pool.slots[1].card, pool.slots[1].closed) = (1, false);
        let plan = pool.plan(&mut *scheduler(name), Nanos(1));
        assert_eq!(plan, [Act::Move { from: 0, to: 1 }], "{name}");
    }
}

#[test]
fn foresight_loads_before_demand_comes() {
    struct Step;
    impl Coming for Step {
        fn offered(&self, _: FunctionId, at: Nanos) -> f64 {
            if at >= Nanos(50_000_000) { 150_000.0 } else { 10_000.0 }
        }
    }
    let spec = PolicySpec::parse("foresight:ahead=100ms").unwrap();
    let mut foresight = spec.build_scheduler(Box::new(Step)).unwrap();
    let slots = [(LITTLE, Holding::Running(F)), (LITTLE, Holding::Nothing)];
    let pool = Pool::new(&slots, &[(10_000.0, LITTLE)]);
    assert_eq!(pool.plan(&mut *foresight, Nanos(1)), [Act::Provision { slot: 1, function: F }]);
}

#[test]
fn no_plan_names_a_slot_twice_or_loads_what_does_not_fit() {
    let mut rng = Rng::seeded(4);
    for entry in schedulers() {
        let mut scheduler = scheduler(entry.name);
        for round in 0..2_000 {
            let function = |rng: &mut Rng| FunctionId(rng.below(3) as u16);
            let slots: Vec<(u32, Holding)> = (0..1 + rng.below(7))
                .map(|_| {
                    let room = if rng.below(2) == 0 { LITTLE } else { BIG };
                    let holds = match rng.below(6) {
                        0 | 1 => Holding::Nothing,
                        2 => Holding::Loading(function(&mut rng)),
                        3 => Holding::Draining(function(&mut rng)),
                        4 => Holding::Failed,
                        _ => Holding::Running(function(&mut rng)),
                    };
                    (room, holds)
                })
                .collect();
            let functions: Vec<(f64, u32)> = (0..3)
                .map(|_| {
                    (rng.below(400_000) as f64, [LITTLE, BIG, u32::MAX][rng.below(3) as usize])
                })
                .collect();
            let mut pool = Pool::new(&slots, &functions);
            for slot in &mut pool.slots {
                (slot.card, slot.closed) = (rng.below(2) as u16, rng.below(8) == 0);
            }
            let plan = pool.plan(&mut *scheduler, Nanos(round * 10_000_000));
            check(&pool, &plan);
        }
    }
}

fn check(pool: &Pool, plan: &[Act]) {
    let mut named = Vec::new();
    for act in plan {
        let (empty, running) = match *act {
            Act::Provision { slot, function } | Act::Prefetch { slot, function } => {
                assert!(pool.slots[slot].room >= pool.functions[function.index()].room, "{act:?}");
                (Some(slot), None)
            }
            Act::Reload { slot, function } => {
                assert!(pool.slots[slot].room >= pool.functions[function.index()].room, "{act:?}");
                (None, Some(slot))
            }
            Act::Release { slot } => (None, Some(slot)),
            Act::Move { from, to } => (Some(to), Some(from)),
        };
        assert!(empty.is_none_or(|slot| pool.slots[slot].holds == Holding::Nothing), "{act:?}");
        assert!(empty.is_none_or(|slot| !pool.slots[slot].closed), "{act:?}");
        let runs = |slot: usize| matches!(pool.slots[slot].holds, Holding::Running(_));
        assert!(running.is_none_or(runs), "{act:?}");
        named.extend(empty.into_iter().chain(running));
    }
    let count = named.len();
    named.sort_unstable();
    named.dedup();
    assert_eq!(named.len(), count, "a slot is named twice: {plan:?}");
}
