//! Time: plans and what is done of them, loads, slots that end draining, the balance of flows, and
//! workers that do not answer.

use super::{CHAIN_MAX, Errand, Platform};
use crate::error::Refusal;
use crate::flows::{FlowIndex, Moving};
use crate::slot::Life;
use crate::status::Event;
use crate::switch::Stage;
use crate::work::{GroupId, Place, SlotId, Ticket, Work};
use std::collections::BTreeMap;
use thermocline_policy::accel::{Act, FunctionId, FunctionView, SlotView, View};
use thermocline_units::Nanos;
use thermocline_units::situations::met;

/// Idle flows that one tick forgets at most.
const FORGET_MAX: usize = 1024;
/// Patience with a load, as a multiple of the time that it should take.
const LOAD_PATIENCE: u64 = 4;
/// Share of a slot's rate that the balance counts on.
const FULL: f64 = 0.95;
/// Share of the processor that the balance counts on. Its packets take long, and flows that leave
/// it wait for those that are queued there.
const PROCESSOR_FULL: f64 = 0.5;
/// A worker gives flows away when it has this much more than its share.
const UNEVEN: f64 = 1.1;

/// Packets a period of a function at a worker: as it is, and as it should be.
#[derive(Debug, Clone, Copy)]
struct Load {
    has: f64,
    wants: f64,
}

impl Platform {
    /// Lets a group's packets go through these functions, in this order; none: its packets are
    /// dropped. Flows that are there move.
    ///
    /// # Errors
    /// When a function is unknown or there twice, or there are too many.
    pub fn set_chain(
        &mut self,
        now: Nanos,
        group: GroupId,
        chain: &[FunctionId],
    ) -> Result<(), Refusal> {
        if let Some(unknown) = chain.iter().find(|function| !self.catalogue.has(**function)) {
            return Err(Refusal::NoFunction(unknown.0));
        }
        let is_twice = |(at, function): (usize, &FunctionId)| chain[..at].contains(function);
        if chain.len() > CHAIN_MAX || chain.iter().enumerate().any(is_twice) {
            return Err(Refusal::Chain { most: CHAIN_MAX });
        }
        match chain.is_empty() {
            true => self.chains.remove(&group),
            false => self.chains.insert(group, chain.to_vec()),
        };
        self.displace_all(|platform, at| platform.flows.get(at).group == group);
        self.settle(now);
        assert_eq!(self.chains.contains_key(&group), !chain.is_empty(), "it is as asked");
        Ok(())
    }

    /// Empties a card, or lets it be used again.
    ///
    /// # Errors
    /// When there is no such card.
    pub fn set_closed(&mut self, card: u16, closed: bool) -> Result<(), Refusal> {
        let known = self.cards.get_mut(usize::from(card)).ok_or(Refusal::NoSuch("card"))?;
        known.closed = closed;
        assert_eq!(self.cards[usize::from(card)].closed, closed, "it is as asked");
        Ok(())
    }

    /// Lets a failed slot be tried again at the next tick.
    ///
    /// # Errors
    /// When there is no such slot, or it has not failed.
    pub fn reset(&mut self, slot: SlotId) -> Result<(), Refusal> {
        let known = self.slots.get_mut(slot.index()).ok_or(Refusal::NoSuch("slot"))?;
        let Life::Failed { .. } = known.life() else {
            let wanted = "only a failed slot is reset";
            return Err(Refusal::Busy { slot: slot.0, state: "not failed", wanted });
        };
        known.forgive();
        Ok(())
    }

    /// Keeps a slot for one group's flows, or gives it back to all. Flows of others leave it with
    /// their state, and those of the group may come. The scheduler counts no reserved slot, takes
    /// none from its function and loads none: an empty one waits for its owner.
    ///
    /// # Errors
    /// When there is no such slot, or another group has it.
    pub fn reserve(
        &mut self,
        now: Nanos,
        slot: SlotId,
        group: Option<GroupId>,
    ) -> Result<(), Refusal> {
        let known = self.slots.get_mut(slot.index()).ok_or(Refusal::NoSuch("slot"))?;
        let before = known.reserved;
        if before == group {
            return Ok(());
        }
        if before.is_some() && group.is_some() {
            let wanted = "its owner gives it back first";
            return Err(Refusal::Busy { slot: slot.0, state: "reserved", wanted });
        }
        known.reserved = group;
        let place = Place::Slot(slot);
        let mine = group.or(before);
        self.displace_all(|platform, at| {
            let flow = platform.flows.get(at);
            let goes = |tag| platform.switch.path(tag).iter().any(|stage| stage.place == place);
            let leaves = match flow.moving {
                Moving::No => goes(flow.tag),
                Moving::Waits(to) => to.is_some_and(goes),
                Moving::Transfers(_) => false,
            };
            Some(flow.group) == mine || leaves
        });
        self.settle(now);
        assert_eq!(self.slots[slot.index()].reserved, group, "it is as asked");
        Ok(())
    }

    /// Time of the next tick that has something to do.
    pub fn next_tick(&self) -> Nanos {
        self.next_period
    }

    /// Lets time pass: to be called at [`Platform::next_tick`], or later.
    pub fn tick(&mut self, now: Nanos) {
        let late: Vec<(Ticket, Errand)> = self
            .errands
            .iter()
            .filter(|(_, (_, until))| *until <= now)
            .map(|(ticket, (errand, _))| (*ticket, *errand))
            .collect();
        for (ticket, errand) in late {
            // Another that was late may have failed the same worker.
            if self.errands.remove(&ticket).is_some() {
                met("a worker did not answer");
                self.errand_failed(now, ticket, errand, "it did not answer");
            }
        }
        let idle_before = now.0.saturating_sub(self.settings.flow_idle.0);
        for _ in 0..FORGET_MAX {
            if idle_before == 0 || !self.forget_idle(Nanos(idle_before)) {
                break;
            }
        }
        if now >= self.next_period {
            self.next_period = Nanos(now.0 + self.settings.period.0);
            self.meter.look(now);
            self.plan(now);
            self.balance();
            self.flows.clear_recent();
        }
        self.settle(now);
        assert!(self.next_period > now, "the next period is to come");
    }

    /// Does what has become possible.
    pub(super) fn settle(&mut self, now: Nanos) {
        self.run_shifts(now);
        for slot in 0..self.slots.len() {
            self.settle_slot(now, SlotId(slot as u16));
        }
        for card in 0..self.cards.len() {
            while let Some(slot) = self.cards[card].loader.begin(now) {
                self.load(now, slot);
            }
        }
        assert!(self.shifts.is_empty() || !self.errands.is_empty(), "whatever moves is awaited");
    }

    fn settle_slot(&mut self, now: Nanos, slot: SlotId) {
        let is_left = self.switch.users(Place::Slot(slot)) == 0;
        let known = &mut self.slots[slot.index()];
        match known.life() {
            Life::Draining { .. } if is_left => {
                let then = known.end_draining();
                self.say(Event::Empty(slot));
                if let Some(function) = then {
                    self.provision(now, slot, (function, false), None);
                }
            }
            Life::Failed { .. }
                if is_left && known.is_retry_due(now, self.settings.retry_after) =>
            {
                met("a failed slot was tried again");
                known.recover();
                self.say(Event::Empty(slot));
            }
            _ => {}
        }
    }

    /// Puts a slot into its card's queue of loads.
    fn provision(
        &mut self,
        now: Nanos,
        slot: SlotId,
        (function, is_prefetch): (FunctionId, bool),
        replaces: Option<SlotId>,
    ) {
        let known = &mut self.slots[slot.index()];
        let image = self.catalogue.image(function).filter(|image| image.room <= known.room);
        let Some(image) = image else {
            // While the slot drained, the image was replaced by a larger one.
            met("an image did not fit any more");
            self.counters.acts_refused += 1;
            return;
        };
        known.begin_loading(function, replaces);
        (known.asked, known.image) = (now, Some(*image));
        let card = &mut self.cards[usize::from(known.card)];
        let takes = card.settings.load_time(image.bytes);
        card.loader.enqueue(slot, takes, is_prefetch);
    }

    /// Begins to load a slot whose turn it is.
    fn load(&mut self, now: Nanos, slot: SlotId) {
        let Life::Loading { function, .. } = self.slots[slot.index()].life() else {
            panic!("only what is to be loaded waits for a port");
        };
        let image = self.slots[slot.index()].image.expect("it was asked to load one");
        let card = &self.cards[usize::from(self.slots[slot.index()].card)];
        let takes = card.settings.load_time(image.bytes);
        let patience = Nanos(takes.0.saturating_mul(LOAD_PATIENCE) + self.settings.patience.0);
        let version = image.version;
        let ticket = self.send(now, Errand::Load(slot), patience, |ticket| Work::Load {
            ticket,
            slot,
            function,
            version,
        });
        let known = &mut self.slots[slot.index()];
        assert!(known.load.is_none(), "a slot is loaded once at a time");
        known.load = Some(ticket);
        self.say(Event::Loading(slot, function));
    }

    /// A slot is configured.
    pub(super) fn loaded(&mut self, now: Nanos, slot: SlotId) {
        let known = &mut self.slots[slot.index()];
        known.load = None;
        self.cards[usize::from(known.card)].loader.forget(slot);
        let replaces = known.begin_running();
        let function = known.takes().expect("it runs");
        let took = now.saturating_sub(known.asked);
        self.counters.loads += 1;
        self.say(Event::Running(slot, function, took));
        if let Some(old) = replaces
            && self.slots[old.index()].welcomes(function)
        {
            met("a function moved to another slot");
            self.drain(old, None);
        }
    }

    /// Lets the flows of a running slot leave.
    fn drain(&mut self, slot: SlotId, then: Option<FunctionId>) {
        let known = &mut self.slots[slot.index()];
        let function = known.takes().expect("it runs");
        known.begin_draining(then);
        self.say(Event::Draining(slot, function));
        self.leave_slot(slot);
        assert!(!self.slots[slot.index()].welcomes(function), "nobody new comes");
    }

    /// Asks the scheduler, and does what is possible.
    fn plan(&mut self, now: Nanos) {
        let functions: Vec<FunctionView> = self.function_views();
        let slots: Vec<SlotView> = self.slot_views();
        let (mut costs, mut loads) = (Vec::new(), Vec::new());
        for function in (0..functions.len() as u16).map(FunctionId) {
            for slot in (0..slots.len() as u16).map(SlotId) {
                costs.push(self.expected_cost(function, slot));
                let card = &self.cards[usize::from(self.slots[slot.index()].card)];
                let bytes = self.catalogue.image(function).map(|image| image.bytes);
                loads.push(bytes.map_or(Nanos(0), |bytes| card.settings.load_time(bytes)));
            }
        }
        let ports: Vec<Nanos> = self.cards.iter().map(|card| card.loader.free_in(now)).collect();
        let view = View {
            now,
            slots: &slots,
            functions: &functions,
            costs: &costs,
            loads: &loads,
            ports: &ports,
        };
        let mut acts = Vec::new();
        self.scheduler.plan(&view, &mut acts);
        for act in acts {
            if !self.perform(now, act) {
                self.counters.acts_refused += 1;
            }
        }
        assert_eq!(slots.len(), self.slots.len(), "slots stay");
    }

    /// Packets a second of the last period that reserved slots carried, by function: no more than
    /// they can. What is too much for them asks for other slots.
    fn carried_for_owners(&self) -> Vec<f64> {
        let mut carried = vec![0.0; self.catalogue.functions().len()];
        let slots = &self.slots;
        if slots.iter().all(|slot| slot.reserved.is_none()) {
            return carried;
        }
        let is_reserved = |stage: &&Stage| match stage.place {
            Place::Slot(slot) => slots[slot.index()].reserved.is_some(),
            Place::Processor(_) => false,
        };
        let mut by_slot: BTreeMap<Stage, f64> = BTreeMap::new();
        for (_, flow) in self.flows.iter().filter(|(_, flow)| flow.moving == Moving::No) {
            for stage in self.switch.path(flow.tag).iter().filter(is_reserved) {
                *by_slot.entry(*stage).or_default() += f64::from(flow.recent);
            }
        }
        for (stage, packets) in by_slot {
            let Place::Slot(slot) = stage.place else { continue };
            let most = FULL * 1e9 / self.expected_cost(stage.function, slot);
            let rate = packets / self.meter.seconds().max(f64::MIN_POSITIVE);
            carried[stage.function.index()] += rate.min(most);
        }
        carried
    }

    fn function_views(&self) -> Vec<FunctionView> {
        let carried = self.carried_for_owners();
        let view = |at: usize| {
            let id = FunctionId(at as u16);
            let image = self.catalogue.image(id);
            FunctionView {
                offered: (self.meter.offered(id) - carried[at]).max(0.0),
                room: image.map_or(u32::MAX, |image| image.room),
                cost_stated: image.map_or(1.0, |image| image.cost),
                processor: self.processor_cost(id),
            }
        };
        (0..self.catalogue.functions().len()).map(view).collect()
    }

    /// Nanoseconds a packet on the processor: measured, or as stated; `None` if it does not run
    /// there.
    fn processor_cost(&self, function: FunctionId) -> Option<f64> {
        let stated = self.catalogue.function(function).processor?;
        Some(self.meter.cost(function, Place::Processor(function)).unwrap_or(stated))
    }

    fn slot_views(&self) -> Vec<SlotView> {
        let view = |slot: &crate::slot::Slot| SlotView {
            card: slot.card,
            room: slot.room,
            holds: slot.holding(),
            closed: self.cards[usize::from(slot.card)].closed,
            reserved: slot.reserved.is_some(),
        };
        self.slots.iter().map(view).collect()
    }

    /// Nanoseconds a packet: measured there, or on a slot of that size, or as the image states.
    fn expected_cost(&self, function: FunctionId, slot: SlotId) -> f64 {
        let measured = |slot: SlotId| self.meter.cost(function, Place::Slot(slot));
        let like = || {
            let room = self.slots[slot.index()].room;
            let alike = (0..self.slots.len() as u16).map(SlotId);
            alike.filter(|other| self.slots[other.index()].room == room).find_map(measured)
        };
        let stated = || self.catalogue.image(function).map_or(1.0, |image| image.cost);
        measured(slot).or_else(like).unwrap_or_else(stated)
    }

    /// Performs an act; `false` if it is not possible.
    fn perform(&mut self, now: Nanos, act: Act) -> bool {
        let empty = |platform: &Platform, slot: usize, function: FunctionId| {
            let image = platform.catalogue.image(function);
            let known = platform.slots.get(slot).filter(|known| known.life() == Life::Empty);
            let fits = known.zip(image).is_some_and(|(known, image)| image.room <= known.room);
            fits && !platform.cards[usize::from(platform.slots[slot].card)].closed
        };
        let runs = |platform: &Platform, slot: usize| match platform.slots.get(slot)?.life() {
            Life::Running { function } => Some(function),
            _ => None,
        };
        let id = |slot: usize| SlotId(slot as u16);
        match act {
            Act::Provision { slot, function } if empty(self, slot, function) => {
                self.provision(now, id(slot), (function, false), None);
            }
            Act::Prefetch { slot, function } if empty(self, slot, function) => {
                met("a function was loaded in advance");
                self.provision(now, id(slot), (function, true), None);
            }
            Act::Reload { slot, .. } | Act::Release { slot } | Act::Move { from: slot, .. }
                if self.slots.get(slot).is_some_and(|known| known.reserved.is_some()) =>
            {
                return false;
            }
            Act::Reload { slot, function } => {
                let image = self.catalogue.image(function).map(|image| image.room);
                let other = runs(self, slot).filter(|other| *other != function);
                if other.is_none() || image.is_none_or(|room| room > self.slots[slot].room) {
                    return false;
                }
                met("a slot was loaded with another function");
                self.drain(id(slot), Some(function));
            }
            Act::Release { slot } if runs(self, slot).is_some() => self.drain(id(slot), None),
            Act::Move { from, to } => {
                let Some(function) = runs(self, from) else { return false };
                if !empty(self, to, function) {
                    return false;
                }
                self.provision(now, id(to), (function, false), Some(id(from)));
            }
            _ => return false,
        }
        true
    }

    /// Moves flows from workers that have too many to those that have too few.
    fn balance(&mut self) {
        let mut loads = self.loads();
        let steady = |(at, flow): (FlowIndex, &crate::flows::Flow)| {
            (flow.moving == Moving::No && flow.recent > 0).then_some(at)
        };
        let flows: Vec<FlowIndex> = self.flows.iter().filter_map(steady).collect();
        let mut left = self.settings.balance_max;
        for at in flows {
            if left == 0 {
                return;
            }
            let (tag, recent) = (self.flows.get(at).tag, f64::from(self.flows.get(at).recent));
            let path = self.switch.path(tag).to_vec();
            let group = self.flows.get(at).group;
            let serves = |place| match place {
                Place::Slot(slot) => self.slots[SlotId::index(slot)].serves(group),
                Place::Processor(_) => true,
            };
            let Some(better) = rearrange(&mut loads, &path, recent, &serves) else { continue };
            assert_ne!(better, path, "another path");
            if let Some(to) = self.switch.acquire(&better) {
                met("a flow moved for balance");
                self.send_to(at, Some(to));
                left -= 1;
            }
        }
    }

    /// Packets of the last period at each worker that takes new flows, and what it should have:
    /// slots share by their rates; what is too much for them is the processor's. Reserved slots
    /// share what their group has, and the others what is left.
    fn loads(&self) -> BTreeMap<Stage, Load> {
        let mut has: BTreeMap<Stage, f64> = BTreeMap::new();
        let mut of_groups: BTreeMap<(FunctionId, Option<GroupId>), f64> = BTreeMap::new();
        for (_, flow) in self.flows.iter().filter(|(_, flow)| flow.moving == Moving::No) {
            for stage in self.switch.path(flow.tag) {
                let recent = f64::from(flow.recent);
                *has.entry(*stage).or_default() += recent;
                *of_groups.entry((stage.function, Some(flow.group))).or_default() += recent;
            }
        }
        let mut loads = BTreeMap::new();
        // Nanoseconds of the processor in a period.
        let mut spare = self.settings.period.0 as f64 * PROCESSOR_FULL;
        for function in (0..self.catalogue.functions().len() as u16).map(FunctionId) {
            let of = of_groups.range((function, None)..=(function, Some(GroupId(u32::MAX))));
            let mut rest: f64 = of.map(|(_, total)| *total).sum();
            let mut runs = self.runs(function);
            // Reserved slots first: the others share what those leave.
            runs.sort_by_key(|(slot, _)| (self.slots[slot.index()].reserved.is_none(), *slot));
            for runs in runs.chunk_by(|a, b| self.owner(a.0).is_some() == self.owner(b.0).is_some())
            {
                let common = rest;
                for &(slot, own) in runs {
                    let owner = self.owner(slot);
                    let total = match owner {
                        Some(_) => of_groups.get(&(function, owner)).copied().unwrap_or(0.0),
                        None => common,
                    };
                    let is_like = |(other, _): &&(SlotId, f64)| self.owner(*other) == owner;
                    let rate: f64 = runs.iter().filter(is_like).map(|(_, rate)| rate).sum();
                    let wants = (total * own / rate).min(own * FULL);
                    rest -= wants;
                    let stage = Stage { function, place: Place::Slot(slot) };
                    let has = has.get(&stage).copied().unwrap_or(0.0);
                    loads.insert(stage, Load { has, wants });
                }
            }
            if let Some(cost) = self.processor_cost(function) {
                let stage = Stage { function, place: Place::Processor(function) };
                let wants = rest.max(0.0).min(spare.max(0.0) / cost);
                spare -= wants * cost;
                let has = has.get(&stage).copied().unwrap_or(0.0);
                loads.insert(stage, Load { has, wants });
            }
        }
        loads
    }

    /// The group that a slot is reserved for.
    fn owner(&self, slot: SlotId) -> Option<GroupId> {
        self.slots[slot.index()].reserved
    }

    /// Slots that take new flows of a function, and the packets that each can do in a period.
    fn runs(&self, function: FunctionId) -> Vec<(SlotId, f64)> {
        let period = self.settings.period.0 as f64;
        let slots = (0..self.slots.len() as u16).map(SlotId);
        slots
            .filter(|slot| self.slots[slot.index()].welcomes(function))
            .filter(|slot| !self.cards[usize::from(self.slots[slot.index()].card)].closed)
            .map(|slot| (slot, period / self.expected_cost(function, slot)))
            .collect()
    }

    /// Panics if something is given twice or kept for nobody; for tests.
    pub fn check(&self) {
        let mut users: BTreeMap<Place, u32> = BTreeMap::new();
        let mut count = |tag| {
            for stage in self.switch.path(tag) {
                *users.entry(stage.place).or_default() += 1;
            }
        };
        for (_, flow) in self.flows.iter() {
            count(flow.tag);
            match flow.moving {
                Moving::Waits(Some(to)) | Moving::Transfers(to) => count(to),
                Moving::No | Moving::Waits(None) => {}
            }
        }
        for slot in (0..self.slots.len() as u16).map(SlotId) {
            let known = users.get(&Place::Slot(slot)).copied().unwrap_or(0);
            assert_eq!(known, self.switch.users(Place::Slot(slot)), "users of slot {}", slot.0);
            let takes = self.slots[slot.index()].takes();
            let serves = |group| self.slots[slot.index()].serves(group);
            for (_, flow) in self.flows.iter().filter(|(_, flow)| flow.moving == Moving::No) {
                let path = self.switch.path(flow.tag);
                let stage = path.iter().find(|stage| stage.place == Place::Slot(slot));
                let is_right = stage.is_none_or(|stage| takes == Some(stage.function));
                assert!(is_right, "a flow is on slot {}, which does not run", slot.0);
                let is_served = stage.is_none() || serves(flow.group);
                assert!(is_served, "a flow is on slot {}, which is another group's", slot.0);
            }
        }
        let is_used = self.flows.len() > 0;
        assert!(is_used || self.switch.tags() == 0, "tags without flows");
        let counters = self.counters;
        let held = self.flows.held() as u64;
        let known = counters.passed + counters.dropped() + self.under_way() + held;
        assert_eq!(counters.offered, known, "packets that are nowhere: {counters:?}");
    }
}

/// A better path for a flow whose workers have too much, if others have too little. All of them
/// change at once, because a flow waits for its packets with every change.
fn rearrange(
    loads: &mut BTreeMap<Stage, Load>,
    path: &[Stage],
    recent: f64,
    serves: &dyn Fn(Place) -> bool,
) -> Option<Vec<Stage>> {
    let mut better = path.to_vec();
    for stage in &mut better {
        let Some(load) = loads.get(stage) else { continue };
        let excess = load.has - load.wants;
        if load.has <= load.wants * UNEVEN + 1.0 || excess < recent / 2.0 {
            continue;
        }
        let is_other =
            |other: &Stage| other.function == stage.function && other.place != stage.place;
        let lack = |load: &Load| load.wants - load.has;
        let others = loads.iter().filter(|(other, _)| is_other(other) && serves(other.place));
        let most = others.max_by(|a, b| lack(a.1).total_cmp(&lack(b.1)));
        let Some((&to, _)) = most.filter(|(_, load)| lack(load) > recent / 2.0) else { continue };
        loads.get_mut(stage).expect("it was found").has -= recent;
        loads.get_mut(&to).expect("it was found").has += recent;
        *stage = to;
    }
    (better != path).then_some(better)
}

#[cfg(test)]
mod tests;
