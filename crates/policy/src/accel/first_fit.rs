//! First fit with equal shares: our reading of the source's scheduler (OpenANFV, Ge 2017 §4.5.1:
//! OpenStack's own, which knows of a card how many instances run there).
//!
//! 1. A function with demand asks for as many slots as its demand needs by the cost that its image
//!    states.
//! 2. It gets at most an equal share: slots over functions with demand, one at least.
//! 3. A slot more is the first empty one that is large enough. A slot less is the last one, at
//!    once.
//! 4. When a function has nothing and no slot is empty, the last slot of the function with most
//!    slots is loaded anew.
//!
//! Nothing is remembered, nothing is measured, and a reload has no price. State: none.

use super::assignment::Draft;
use super::{Act, FunctionId, Scheduler, View};
use crate::registry::{Build, Entry};

pub(crate) const ENTRY: Entry = Entry {
    name: "first-fit",
    summary: "the first empty slot that fits, equal shares of slots, by stated costs",
    source: "OpenANFV, Ge 2017 §4.5.1, our reading",
    settings: &[],
    build: Build::Accel(|_| Ok(Box::new(FirstFit))),
};

/// Gives every function its equal share.
struct FirstFit;

impl Scheduler for FirstFit {
    fn plan(&mut self, view: &View<'_>, plan: &mut Vec<Act>) {
        let mut draft = Draft::new(view);
        draft.leave_closed_cards();
        let usable = view.slots.iter().filter(|slot| !slot.closed && !slot.reserved).count();
        let is_wanted = |id: &FunctionId| view.functions[id.index()].offered > 0.0;
        let wanted = view.function_ids().filter(is_wanted).count();
        let share = usable.checked_div(wanted).unwrap_or(0).max(1);
        for function in view.function_ids() {
            let asked = &view.functions[function.index()];
            let need = (asked.offered * asked.cost_stated / 1e9).ceil() as usize;
            let target = need.min(share);
            let mut have = draft.serving(function);
            while have.len() > target {
                let last = have.pop().expect("it has more than it may");
                draft.release(last);
            }
            for _ in have.len()..target {
                let empty = (0..view.slots.len()).find(|&slot| draft.is_free(function, slot));
                match empty {
                    Some(slot) => draft.provision(function, slot),
                    None if have.is_empty() => {
                        take_from_richest(&mut draft, view, function);
                        break;
                    }
                    None => break,
                }
            }
        }
        draft.finish(plan);
    }
}

/// Loads `function` into the last slot of the function that has most.
fn take_from_richest(draft: &mut Draft<'_>, view: &View<'_>, function: FunctionId) {
    let others = view.function_ids().filter(|other| *other != function);
    let richest = others.max_by_key(|other| draft.serving(*other).len());
    let Some(richest) = richest.filter(|other| draft.serving(*other).len() > 1) else { return };
    let slots = draft.serving(richest);
    let last = slots.iter().rev().find(|&&slot| draft.can_reload(function, slot));
    if let Some(&slot) = last {
        draft.reload(function, slot);
    }
}
