//! Schedules by measured cost: slots go where they save most processor time, and a reload must pay.
//!
//! 1. The *level* of a function is what was offered lately: it rises at once, and falls by half in
//!    `fade`. So a pause does not cost a function its slots.
//!    A level that keeps less than `from` of the processor busy counts as none; once the function
//!    has been above it, less than half of `from` does.
//! 2. A function is *short* when its level is above `high` of what its slots can do, by the costs
//!    that were measured on each slot.
//! 3. The functions that are short are served in order of the processor time that a slot would
//!    save them. Each takes the smallest empty slot that fits; of equals, the one that its card's
//!    configuration port lets run first.
//! 4. Where only larger slots fit and none is empty, a function that runs in a large slot and fits
//!    a smaller, empty one moves there.
//! 5. Without an empty slot another function's slot is loaded anew, if what that saves within
//!    `horizon` is more than `price` times what the other function loses meanwhile.
//! 6. A slot that has not been needed for `linger` is released; with `prefetch` one in reserve is
//!    kept. Empty slots are filled in advance for functions that use more than `prefetch-at` of
//!    their slots.
//!
//! Ours. The contention for one configuration port, and slots of two sizes, are from VersaSlot
//! (2025); hysteresis and prices are what any autoscaler has. State: 24 B a function.

use super::assignment::Draft;
use super::{Act, FunctionId, Scheduler, View};
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::Nanos;

pub(crate) const ENTRY: Entry = Entry {
    name: "by-cost",
    summary: "slots go where they save most; reloads must pay; one slot in reserve",
    source: "ours; one port a card and two sizes of slots after VersaSlot 2025",
    settings: &[
        Setting {
            name: "from",
            default: "0",
            unit: "share of the processor",
            help: "a function that would keep less of it busy gets no slot",
        },
        Setting {
            name: "high",
            default: "0.8",
            unit: "share of the slots' rate",
            help: "above it a function gets a slot more",
        },
        Setting {
            name: "fade",
            default: "100ms",
            unit: "duration",
            help: "time in which the level of a function that nobody uses falls by half",
        },
        Setting {
            name: "linger",
            default: "500ms",
            unit: "duration",
            help: "a slot that is not needed for so long is released",
        },
        Setting {
            name: "horizon",
            default: "1s",
            unit: "duration",
            help: "time within which a reload must pay",
        },
        Setting {
            name: "price",
            default: "2",
            unit: "times the loss",
            help: "what a reload must save, as a multiple of what it costs another function",
        },
        Setting {
            name: "prefetch",
            default: "yes",
            unit: "yes or no",
            help: "fill empty slots before they are needed",
        },
        Setting {
            name: "prefetch-at",
            default: "0.5",
            unit: "share of the slots' rate",
            help: "above it a function gets a slot in reserve",
        },
    ],
    build: Build::Accel(|settings| Ok(Box::new(ByCost::new(Rules::of(settings)?)))),
};

/// Settings of the rules.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) from: f64,
    pub(super) high: f64,
    pub(super) fade: Nanos,
    pub(super) linger: Nanos,
    pub(super) horizon: Nanos,
    pub(super) price: f64,
    pub(super) prefetch: bool,
    pub(super) prefetch_at: f64,
}

impl Rules {
    fn of(settings: &Settings) -> Result<Rules, SettingsError> {
        Ok(Rules {
            from: settings.number("from", 0.0, 1.0)?,
            high: settings.number("high", 0.05, 1.0)?,
            fade: settings.duration("fade")?,
            linger: settings.duration("linger")?,
            horizon: settings.duration("horizon")?,
            price: settings.number("price", 0.0, 1e6)?,
            prefetch: settings.choice("prefetch", &["yes", "no"])? == 0,
            prefetch_at: settings.number("prefetch-at", 0.0, 1.0)?,
        })
    }
}

/// Load of a function so far.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    level: f64,
    /// Time of the last view in which all of its slots were needed.
    needed: Nanos,
}

/// Schedules by measured cost.
pub(super) struct ByCost {
    rules: Rules,
    known: Vec<Known>,
    last: Nanos,
}

impl ByCost {
    pub(super) fn new(rules: Rules) -> ByCost {
        ByCost { rules, known: Vec::new(), last: Nanos(0) }
    }

    /// Plans for these levels, by function.
    pub(super) fn plan_for(&mut self, view: &View<'_>, levels: &[f64], plan: &mut Vec<Act>) {
        assert_eq!(levels.len(), view.functions.len(), "a level a function");
        self.known.resize(view.functions.len(), Known { level: 0.0, needed: view.now });
        self.known.iter_mut().zip(levels).for_each(|(known, level)| known.level = *level);
        let mut draft = Draft::new(view);
        draft.leave_closed_cards();
        let mut order: Vec<FunctionId> = view.function_ids().collect();
        let gain = |id: &FunctionId| self.shortfall(&draft, *id) * worth(view, *id);
        order.sort_by(|a, b| gain(b).total_cmp(&gain(a)).then(a.cmp(b)));
        for &function in &order {
            self.scale_up(view, &mut draft, function);
        }
        for &function in &order {
            self.scale_down(view, &mut draft, function);
        }
        if self.rules.prefetch {
            order.iter().for_each(|&function| self.reserve(&mut draft, function));
        }
        draft.finish(plan);
    }

    /// Packets a second for which `function` has no slot.
    fn shortfall(&self, draft: &Draft<'_>, function: FunctionId) -> f64 {
        let level = self.known[function.index()].level;
        let carried = draft.capacity(function) * self.rules.high;
        (level - carried).max(0.0)
    }

    fn scale_up(&self, view: &View<'_>, draft: &mut Draft<'_>, function: FunctionId) {
        // At most every slot once.
        for _ in 0..view.slots.len() {
            let short = self.shortfall(draft, function);
            if short <= 0.0 {
                return;
            }
            if let Some(slot) = draft.soonest_free(function) {
                draft.provision(function, slot);
                continue;
            }
            if !make_room(view, draft, function) && !self.take_over(view, draft, function, short) {
                return;
            }
        }
    }

    /// Loads `function` into the slot of another where that saves most; `false` if none pays.
    fn take_over(
        &self,
        view: &View<'_>,
        draft: &mut Draft<'_>,
        function: FunctionId,
        short: f64,
    ) -> bool {
        let mut best: Option<(f64, usize)> = None;
        for other in view.function_ids().filter(|other| *other != function) {
            for slot in draft.serving(other) {
                if !draft.can_reload(function, slot) {
                    continue;
                }
                let gain = short.min(view.rate(function, slot)) * worth(view, function);
                let level = self.known[other.index()].level;
                let rest = (draft.capacity(other) - view.rate(other, slot)) * self.rules.high;
                let loss = (level - rest).max(0.0) * worth(view, other);
                let load = draft.ready_in(function, slot);
                let pays = self.rules.horizon.saturating_sub(load).as_secs_f64();
                // While it is loaded, the flows of the other run elsewhere, late.
                let moved = level.min(view.rate(other, slot)) * worth(view, other);
                let cost = moved * load.as_secs_f64();
                let net = (gain - loss) * pays - self.rules.price * cost;
                if net > best.map_or(0.0, |(most, _)| most) {
                    best = Some((net, slot));
                }
            }
        }
        let Some((_, slot)) = best else { return false };
        draft.reload(function, slot);
        true
    }

    fn scale_down(&mut self, view: &View<'_>, draft: &mut Draft<'_>, function: FunctionId) {
        let known = self.known[function.index()];
        let spare = spare_slots(view, draft, function, known.level, self.rules.high);
        // One more is kept in reserve, unless nobody has used the function at all.
        let reserve = usize::from(self.rules.prefetch && known.level > 0.0);
        if spare.len() <= reserve {
            self.known[function.index()].needed = view.now;
        } else if view.now.saturating_sub(known.needed) >= self.rules.linger {
            spare[reserve..].iter().for_each(|&slot| draft.release(slot));
            self.known[function.index()].needed = view.now;
        }
        assert!(self.known[function.index()].needed <= view.now, "it was needed in the past");
    }

    /// Fills an empty slot for a function that may need it soon.
    fn reserve(&self, draft: &mut Draft<'_>, function: FunctionId) {
        let level = self.known[function.index()].level;
        let is_busy = level > draft.capacity(function) * self.rules.prefetch_at;
        if level <= 0.0 || !is_busy {
            return;
        }
        if let Some(slot) = draft.soonest_free(function) {
            draft.prefetch(function, slot);
        }
    }
}

impl Scheduler for ByCost {
    fn plan(&mut self, view: &View<'_>, plan: &mut Vec<Act>) {
        let past = view.now.saturating_sub(self.last).as_secs_f64();
        let fade = self.rules.fade.as_secs_f64().max(1e-9);
        let kept = 0.5_f64.powf(past / fade);
        self.last = view.now;
        let level = |(at, function): (usize, &super::FunctionView)| {
            let before = self.known.get(at).map_or(0.0, |known| known.level);
            // Less than a packet in a hundred seconds is nothing.
            let level = function.offered.max(before * kept);
            let from = if before > 0.0 { self.rules.from / 2.0 } else { self.rules.from };
            let is_little = function.processor.is_some_and(|cost| level * cost / 1e9 < from);
            if level < 0.01 || is_little { 0.0 } else { level }
        };
        let levels: Vec<f64> = view.functions.iter().enumerate().map(level).collect();
        self.plan_for(view, &levels, plan);
    }
}

/// Nanoseconds of the processor that a packet of the function saves on a slot. What cannot run on
/// the processor would be lost, and counts ten times its cost on a slot.
fn worth(view: &View<'_>, function: FunctionId) -> f64 {
    let function = &view.functions[function.index()];
    function.processor.unwrap_or(10.0 * function.cost_stated)
}

/// Moves another function out of a large slot into a smaller, empty one, so that `function` fits
/// there next time; `false` if there is no such pair.
fn make_room(view: &View<'_>, draft: &mut Draft<'_>, function: FunctionId) -> bool {
    for other in view.function_ids().filter(|other| *other != function) {
        for from in draft.serving(other) {
            if !draft.can_reload(function, from) {
                continue;
            }
            let smaller = |to: &usize| view.slots[*to].room < view.slots[from].room;
            let is_enough = |to: &usize| view.rate(other, *to) * 1.1 >= view.rate(other, from);
            if let Some(to) = draft.soonest_free(other).filter(smaller).filter(is_enough) {
                draft.relocate(from, to);
                return true;
            }
        }
    }
    false
}

/// Slots of `function` without which it still is not short, the largest and slowest first.
fn spare_slots(
    view: &View<'_>,
    draft: &Draft<'_>,
    function: FunctionId,
    level: f64,
    high: f64,
) -> Vec<usize> {
    let mut slots = draft.serving(function);
    slots.sort_by(|&a, &b| {
        let order = view.slots[b].room.cmp(&view.slots[a].room);
        order.then(view.rate(function, a).total_cmp(&view.rate(function, b))).then(b.cmp(&a))
    });
    let mut capacity = draft.capacity(function);
    slots.retain(|&slot| {
        let without = capacity - view.rate(function, slot);
        let is_spare = level <= without * high && draft.can_leave(slot);
        if is_spare {
            capacity = without;
        }
        is_spare
    });
    slots
}
