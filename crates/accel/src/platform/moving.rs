//! Flows that change their path, and workers that fail.
//!
//! 1. A flow gets another path ([`Platform::displace`]): its slot drains or failed, its chain has
//!    changed, or the load is uneven. From then on its packets are held.
//! 2. When none of its packets is under way, its state goes over, function by function
//!    (`advance_shift`). What a dead worker had is lost, and counted.
//! 3. It takes the new tag, and the held packets enter in their order.
//!
//! Invariant: [`Platform::run_shifts`] ends with no flow ready, so nothing is ready between calls.

use super::{Errand, Platform};
use crate::flows::{FlowIndex, Moving};
use crate::shifts::{Hop, Shift};
use crate::slot::Life;
use crate::status::Event;
use crate::switch::{Stage, Tag};
use crate::work::{GroupId, Place, SlotId, Ticket, Work};
use bytes::Bytes;
use std::collections::BTreeMap;
use thermocline_policy::accel::FunctionId;
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

impl Platform {
    /// A path for a new flow of the group: for each function the worker with the least load.
    pub(super) fn choose_path(&self, group: GroupId) -> Option<Vec<Stage>> {
        let chain = self.chains.get(&group)?;
        let stage = |&function: &FunctionId| {
            Some(Stage { function, place: self.choose_place(group, function)? })
        };
        chain.iter().map(stage).collect()
    }

    /// The slot with the fewest flows for its speed; the processor if no slot runs the function.
    fn choose_place(&self, group: GroupId, function: FunctionId) -> Option<Place> {
        let slots = (0..self.slots.len() as u16).map(SlotId);
        let known = |slot: &SlotId| &self.slots[slot.index()];
        let runs = slots.filter(|slot| known(slot).welcomes(function) && known(slot).serves(group));
        let load = |slot: &SlotId| {
            let place = Place::Slot(*slot);
            let card = &self.cards[usize::from(self.slots[slot.index()].card)];
            let flows = f64::from(self.switch.users(place) + 1);
            (
                (card.closed, known(slot).reserved.is_none()),
                flows * self.meter.cost(function, place).unwrap_or(1.0),
            )
        };
        let best = runs.min_by(|a, b| {
            let (a, b) = (load(a), load(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        let on_processor = self.catalogue.function(function).processor;
        best.map(Place::Slot).or(on_processor.map(|_| Place::Processor(function)))
    }

    /// True if new flows may go along the path.
    fn is_welcome(&self, tag: Tag) -> bool {
        self.switch.path(tag).iter().all(|stage| match stage.place {
            Place::Slot(slot) => self.slots[slot.index()].welcomes(stage.function),
            Place::Processor(_) => true,
        })
    }

    /// True if flows of the group may go along the path.
    fn is_served(&self, group: GroupId, tag: Tag) -> bool {
        self.switch.path(tag).iter().all(|stage| match stage.place {
            Place::Slot(slot) => self.slots[slot.index()].serves(group),
            Place::Processor(_) => true,
        })
    }

    /// True if the worker still has what flows left there.
    fn is_alive(&self, place: Place, function: FunctionId) -> bool {
        match place {
            Place::Slot(slot) => self.slots[slot.index()].takes() == Some(function),
            Place::Processor(_) => true,
        }
    }

    /// Gives a flow another path. A flow whose state is on the way is looked at when it arrives.
    pub(super) fn displace(&mut self, at: FlowIndex) {
        let flow = self.flows.get(at);
        if let Moving::Transfers(_) = flow.moving {
            return;
        }
        let path = self.choose_path(flow.group);
        let to = path.and_then(|path| self.switch.acquire(&path));
        self.send_to(at, to);
    }

    /// Lets a flow take the tag `to`, of which it is a user already, once nothing is under way.
    pub(super) fn send_to(&mut self, at: FlowIndex, to: Option<Tag>) {
        let flow = self.flows.get_mut(at);
        assert!(!matches!(flow.moving, Moving::Transfers(_)), "its state is at rest");
        let before = std::mem::replace(&mut flow.moving, Moving::Waits(to));
        if flow.under_way == 0 || mutant("a_flow_moves_with_packets_under_way") {
            self.shifts.add_ready(at);
        } else {
            met("a flow waited for its packets");
        }
        if let Moving::Waits(Some(tag)) = before {
            self.switch.release(tag);
        }
    }

    /// Displaces every flow of which `is_meant` says so.
    pub(super) fn displace_all(&mut self, is_meant: impl Fn(&Platform, FlowIndex) -> bool) {
        let flows: Vec<FlowIndex> =
            self.flows.iter().map(|(at, _)| at).filter(|at| is_meant(self, *at)).collect();
        flows.iter().for_each(|at| self.displace(*at));
    }

    /// Displaces the flows whose path, or next path, goes through a slot.
    pub(super) fn leave_slot(&mut self, slot: SlotId) {
        let place = Place::Slot(slot);
        self.displace_all(|platform, at| {
            let flow = platform.flows.get(at);
            let goes = |tag: Tag| platform.switch.path(tag).iter().any(|s| s.place == place);
            match flow.moving {
                Moving::No => goes(flow.tag),
                Moving::Waits(to) => to.is_some_and(goes),
                Moving::Transfers(_) => false,
            }
        });
    }

    /// Moves all flows that can move.
    pub(super) fn run_shifts(&mut self, now: Nanos) {
        loop {
            let ready = self.shifts.take_ready();
            if ready.is_empty() {
                return;
            }
            let mut together: BTreeMap<(Tag, Option<Tag>), Vec<FlowIndex>> = BTreeMap::new();
            for at in ready {
                let flow = self.flows.get(at);
                let Moving::Waits(to) = flow.moving else { panic!("only what waits is ready") };
                together.entry((flow.tag, to)).or_default().push(at);
            }
            for ((from, to), flows) in together {
                match to {
                    None => flows.iter().for_each(|at| self.give_up(*at)),
                    Some(to) => {
                        // Whoever closes a slot displaces those that wait for it, too.
                        assert!(self.is_welcome(to), "the next slot runs");
                        for some in flows.chunks(self.settings.transfer_max.max(1)) {
                            self.begin_shift(now, from, to, some.to_vec());
                        }
                    }
                }
            }
        }
    }

    /// Forgets a flow that has no place; its held packets are lost.
    fn give_up(&mut self, at: FlowIndex) {
        met("a flow lost its place");
        self.counters.dropped_unserved += self.flows.take_held(at).len() as u64;
        let tag = self.flows.get(at).tag;
        let stages = self.switch.path(tag).iter();
        let lost = stages.filter(|stage| self.catalogue.function(stage.function).stateful).count();
        self.counters.states_lost += lost as u64;
        let removed = self.flows.remove(at);
        assert_eq!(removed, tag, "it had this tag");
        self.switch.release(tag);
    }

    fn begin_shift(&mut self, now: Nanos, from: Tag, to: Tag, flows: Vec<FlowIndex>) {
        for at in &flows {
            let flow = self.flows.get_mut(*at);
            assert_eq!(flow.moving, Moving::Waits(Some(to)), "it waits for this");
            flow.moving = Moving::Transfers(to);
        }
        let old = self.switch.path(from);
        let hop = |stage: &Stage| {
            let before = old.iter().find(|old| old.function == stage.function)?;
            let stateful = self.catalogue.function(stage.function).stateful;
            let moves = stateful && before.place != stage.place;
            let hop = Hop { function: stage.function, from: before.place, to: stage.place };
            moves.then_some(hop)
        };
        let mut hops: Vec<Hop> = self.switch.path(to).iter().filter_map(hop).collect();
        if mutant("state_is_left_behind") {
            hops.clear();
        }
        met_if(hops.len() > 1, "the state of several functions moved");
        self.advance_shift(now, Shift { flows, to, hops });
    }

    /// Asks for the next piece of state, or ends the shift.
    fn advance_shift(&mut self, now: Nanos, mut shift: Shift) {
        while let Some(hop) = shift.hops.last().copied() {
            if self.is_alive(hop.from, hop.function) {
                let flow = |at: &FlowIndex| {
                    let flow = self.flows.get(*at);
                    (flow.group, flow.key)
                };
                let flows: Vec<_> = shift.flows.iter().map(flow).collect();
                let patience = self.settings.patience;
                let ticket = self.send(now, Errand::Export(hop.from), patience, |ticket| {
                    Work::Export { ticket, place: hop.from, function: hop.function, flows }
                });
                return self.shifts.wait(ticket, shift);
            }
            met("the state of a flow was lost");
            self.lose_state(&mut shift);
        }
        self.end_shift(now, shift);
    }

    fn lose_state(&mut self, shift: &mut Shift) {
        let hop = shift.hops.pop();
        assert!(hop.is_some(), "there was state to lose");
        self.counters.states_lost += shift.flows.len() as u64;
    }

    pub(super) fn exported(&mut self, now: Nanos, ticket: Ticket, state: Bytes) {
        let mut shift = self.shifts.answered(ticket);
        let hop = *shift.hops.last().expect("a hop waits for its state");
        if !self.is_alive(hop.to, hop.function) {
            met("a slot failed before it took over state");
            self.lose_state(&mut shift);
            return self.advance_shift(now, shift);
        }
        let patience = self.settings.patience;
        let ticket = self.send(now, Errand::Import(hop.to), patience, |ticket| Work::Import {
            ticket,
            place: hop.to,
            function: hop.function,
            state,
        });
        self.shifts.wait(ticket, shift);
    }

    pub(super) fn imported(&mut self, now: Nanos, ticket: Ticket) {
        met("state was carried over");
        let mut shift = self.shifts.answered(ticket);
        let hop = shift.hops.pop();
        assert!(hop.is_some(), "a hop waited for this");
        self.advance_shift(now, shift);
    }

    fn end_shift(&mut self, now: Nanos, shift: Shift) {
        let is_open = self.is_welcome(shift.to);
        for at in shift.flows {
            let is_welcome = is_open && self.is_served(self.flows.get(at).group, shift.to);
            let flow = self.flows.get_mut(at);
            assert_eq!(flow.moving, Moving::Transfers(shift.to), "it was on the way");
            assert!(
                flow.under_way == 0 || mutant("a_flow_moves_with_packets_under_way"),
                "nothing of it was under way"
            );
            flow.moving = Moving::No;
            let old = std::mem::replace(&mut flow.tag, shift.to);
            self.switch.release(old);
            self.counters.moved += 1;
            let chain = &self.chains.get(&flow.group);
            let path = self.switch.path(shift.to).iter().map(|stage| &stage.function);
            let is_chain = chain.is_some_and(|chain| chain.iter().eq(path));
            if !is_welcome || !is_chain {
                met("a flow had to move again");
                self.displace(at);
                continue;
            }
            let mut held = self.flows.take_held(at);
            if mutant("held_packets_enter_backwards") {
                held.make_contiguous().reverse();
            }
            for packet in held {
                self.enter(now, at, packet);
            }
        }
    }

    /// A piece of work has failed, and with it its worker. The work is no errand any more.
    pub(super) fn errand_failed(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        errand: Errand,
        why: &'static str,
    ) {
        assert!(!self.errands.contains_key(&ticket), "nobody waits for it");
        self.fail(now, errand.place(), why);
        if let Errand::Export(_) | Errand::Import(_) = errand {
            self.transfer_failed(now, ticket);
        }
    }

    fn transfer_failed(&mut self, now: Nanos, ticket: Ticket) {
        met("a transfer of state failed");
        let mut shift = self.shifts.answered(ticket);
        self.lose_state(&mut shift);
        self.advance_shift(now, shift);
    }

    /// A worker has failed: what it had is lost, and flows leave it.
    pub(super) fn fail(&mut self, now: Nanos, place: Place, why: &'static str) {
        let lost = self.lane_mut(place).abandon();
        self.counters.dropped_failed += lost.len() as u64;
        lost.iter().for_each(|packet| self.packet_gone(packet.flow));
        let of_place = |(errand, _): &(Errand, Nanos)| errand.place() == place;
        let tickets: Vec<(Ticket, Errand)> = self
            .errands
            .iter()
            .filter(|(_, errand)| of_place(errand))
            .map(|(ticket, (errand, _))| (*ticket, *errand))
            .collect();
        tickets.iter().for_each(|(ticket, _)| {
            self.errands.remove(ticket);
        });
        match place {
            Place::Processor(function) => {
                met("the processor failed");
                self.say(Event::ProcessorFailed(function));
            }
            Place::Slot(slot) => self.slot_failed(now, slot, why),
        }
        self.counters.failures += 1;
        for (ticket, errand) in tickets {
            if let Errand::Export(_) | Errand::Import(_) = errand {
                self.transfer_failed(now, ticket);
            }
        }
    }

    fn slot_failed(&mut self, now: Nanos, slot: SlotId, why: &'static str) {
        let known = &mut self.slots[slot.index()];
        match known.life() {
            Life::Loading { .. } => met("a load failed"),
            Life::Running { .. } => met("a running slot failed"),
            Life::Draining { .. } => met("a draining slot failed"),
            Life::Empty | Life::Failed { .. } => {}
        }
        self.cards[usize::from(known.card)].loader.forget(slot);
        known.fail(now);
        self.say(Event::Failed(slot, why));
        if !mutant("flows_stay_at_a_failed_slot") {
            self.leave_slot(slot);
        }
        assert!(self.slots[slot.index()].takes().is_none(), "it takes no packets");
    }
}
