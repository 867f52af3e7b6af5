//! Requests for slots, of administrators and tenants, in front of a scheduler.
//!
//! 1. A slot that is *pinned* gets its function, and keeps it.
//! 2. A function with a *count* runs on so many of the other slots.
//! 3. All else is the scheduler's: its acts for pinned slots and counted functions are left out.

use crate::workers::locked;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use thermocline_policy::accel::{Act, FunctionId, Holding, Scheduler, View};

/// The wishes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// Functions of slots.
    pub(crate) pins: BTreeMap<usize, FunctionId>,
    /// Slots of functions.
    pub(crate) counts: BTreeMap<FunctionId, usize>,
}

/// A scheduler that grants wishes first.
pub(crate) struct Wished {
    pub(crate) wishes: Arc<Mutex<Wishes>>,
    pub(crate) inner: Box<dyn Scheduler>,
}

impl Scheduler for Wished {
    fn plan(&mut self, view: &View<'_>, plan: &mut Vec<Act>) {
        let wishes = locked(&self.wishes).clone();
        // A card that is drained is emptied of what was loaded by hand, too.
        let is_open = |slot: &usize| view.slots.get(*slot).is_none_or(|known| !known.closed);
        let mut used: BTreeSet<usize> = wishes.pins.keys().copied().filter(is_open).collect();
        pins(&wishes, view, plan);
        for (&function, &count) in &wishes.counts {
            counted(&wishes, view, (function, count), &mut used, plan);
        }
        let mut acts = Vec::new();
        self.inner.plan(view, &mut acts);
        let is_counted = |function: FunctionId| wishes.counts.contains_key(&function);
        let holds = |slot: usize| view.slots[slot].holds.serves();
        plan.extend(acts.into_iter().filter(|act| match *act {
            Act::Provision { slot, function } | Act::Prefetch { slot, function } => {
                !used.contains(&slot) && !is_counted(function)
            }
            Act::Reload { slot, function } => {
                !used.contains(&slot)
                    && !is_counted(function)
                    && !holds(slot).is_some_and(is_counted)
            }
            Act::Release { slot } => {
                let is_leaving = view.slots[slot].closed;
                !used.contains(&slot) && (is_leaving || !holds(slot).is_some_and(is_counted))
            }
            Act::Move { from, to } => !used.contains(&from) && !used.contains(&to),
        }));
    }
}

fn pins(wishes: &Wishes, view: &View<'_>, plan: &mut Vec<Act>) {
    for (&slot, &function) in &wishes.pins {
        let Some(known) = view.slots.get(slot).filter(|known| !known.closed) else { continue };
        match known.holds {
            Holding::Nothing => plan.push(Act::Provision { slot, function }),
            Holding::Running(other) if other != function => {
                plan.push(Act::Reload { slot, function });
            }
            _ => {}
        }
    }
}

/// Gives a function so many slots, of those that are not used for other wishes.
fn counted(
    wishes: &Wishes,
    view: &View<'_>,
    (function, count): (FunctionId, usize),
    used: &mut BTreeSet<usize>,
    plan: &mut Vec<Act>,
) {
    let is_free = |slot: &usize| !wishes.pins.contains_key(slot) && !view.slots[*slot].closed;
    let slots: Vec<usize> = (0..view.slots.len()).filter(is_free).collect();
    let serves = |slot: &usize| view.slots[*slot].holds.serves() == Some(function);
    let mut has: Vec<usize> = slots.iter().copied().filter(serves).collect();
    used.extend(&has);
    while has.len() > count {
        let slot = has.pop().expect("it is longer");
        if let Holding::Running(_) = view.slots[slot].holds {
            plan.push(Act::Release { slot });
        }
    }
    let empty = |slot: &&usize| view.slots[**slot].holds == Holding::Nothing;
    let other = |slot: &&usize| match view.slots[**slot].holds {
        Holding::Running(other) => other != function && !wishes.counts.contains_key(&other),
        _ => false,
    };
    let candidates = slots.iter().filter(empty).chain(slots.iter().filter(other));
    let mut lacks = count.saturating_sub(has.len());
    for &slot in candidates {
        if lacks == 0 {
            return;
        }
        if !view.fits(function, slot) || !used.insert(slot) {
            continue;
        }
        lacks -= 1;
        plan.push(match view.slots[slot].holds {
            Holding::Nothing => Act::Provision { slot, function },
            _ => Act::Reload { slot, function },
        });
    }
}

#[cfg(test)]
mod tests;
