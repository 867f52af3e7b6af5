//! The machine: packets from hop to hop, answers of workers, and who is asked what.
//!
//! The way of a packet
//! 1. [`Platform::offer`]: the classifier finds the flow's tag, or makes a flow of the group's
//!    chain. While the flow moves the packet is held.
//! 2. The switch says which worker is next; the packet waits in that worker's lane.
//! 3. A batch goes out as [`Work::Process`], and its verdicts come back by
//!    [`Platform::complete`]. Back to 2, until the path ends.
//! 4. [`Platform::next_packet`] gives it out.
//!
//! `moving` has flows that change their path and slots that fail; `planning` has time, plans and
//! the balance.

mod moving;
mod planning;

use crate::error::Refusal;
use crate::flows::{FlowIndex, Flows, Held, Moving};
use crate::image::{Catalogue, FunctionSettings, Image};
use crate::lane::{Carried, Lane};
use crate::loader::Loader;
use crate::meter::Meter;
use crate::nsh::Header;
use crate::settings::{CardSettings, Settings};
use crate::shifts::Shifts;
use crate::slot::Slot;
use crate::status::{CardStatus, Counters, Event, FunctionStatus, SlotState, SlotStatus, Status};
use crate::switch::{Stage, Switch};
use crate::work::{Answer, Batched, FlowKey, GroupId, Place, SlotId, Ticket, Verdict, Way, Work};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use thermocline_policy::accel::{FunctionId, Holding, Scheduler};
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;

/// Functions of a chain, at most.
pub(crate) const CHAIN_MAX: usize = 8;
/// Events kept for whoever asks; more are dropped.
const EVENTS_MAX: usize = 4096;
/// The longest packet that a function may make of another: IPv6 without a jumbo payload.
const PACKET_MAX: usize = 40 + 65_535;

/// A packet that has passed its chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// Origin.
    pub group: GroupId,
    /// Its flow.
    pub flow: FlowKey,
    /// Direction.
    pub way: Way,
    /// Time at which it was offered.
    pub came: Nanos,
    /// The packet, as the last function left it.
    pub bytes: Bytes,
}

/// Work whose answer is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Errand {
    Load(SlotId),
    Batch(Place),
    Export(Place),
    Import(Place),
}

impl Errand {
    fn place(self) -> Place {
        match self {
            Errand::Load(slot) => Place::Slot(slot),
            Errand::Batch(place) | Errand::Export(place) | Errand::Import(place) => place,
        }
    }
}

/// A card of the platform.
#[derive(Debug)]
struct Card {
    settings: CardSettings,
    loader: Loader,
    closed: bool,
}

/// The platform.
///
/// ```
/// use bytes::Bytes;
/// use thermocline_accel::{
///     Answer, CardSettings, FlowKey, FunctionSettings, GroupId, Platform, Settings, Verdict, Work,
/// };
/// use thermocline_policy::accel::NothingComing;
/// use thermocline_policy::registry::PolicySpec;
/// use thermocline_units::Nanos;
///
/// let spec = PolicySpec::parse("by-cost").unwrap();
/// let scheduler = spec.build_scheduler(Box::new(NothingComing)).unwrap();
/// let cards = vec![CardSettings::new("card0", 3, 10_000)];
/// let mut platform = Platform::new(Nanos(0), Settings::default(), cards, scheduler);
/// let nat = FunctionSettings {
///     name: "nat".to_string(),
///     stateful: true,
///     alters: true,
///     processor: Some(2_000.0),
/// };
/// let nat = platform.declare(nat).unwrap();
/// platform.set_chain(Nanos(0), GroupId(1), &[nat]).unwrap();
/// platform.offer(Nanos(5), GroupId(1), FlowKey(77), Bytes::from_static(b"a packet"));
/// let Some(Work::Process { ticket, packets, .. }) = platform.next_work() else { panic!() };
/// assert_eq!(packets.len(), 1);
/// platform.complete(Nanos(9), ticket, Answer::Processed(vec![Verdict::Pass]));
/// assert_eq!(platform.next_packet().unwrap().bytes, "a packet");
/// ```
pub struct Platform {
    settings: Settings,
    scheduler: Box<dyn Scheduler>,
    cards: Vec<Card>,
    slots: Vec<Slot>,
    /// Lanes of the processor, by function.
    processor: Vec<Lane>,
    catalogue: Catalogue,
    chains: BTreeMap<GroupId, Vec<FunctionId>>,
    flows: Flows,
    switch: Switch,
    shifts: Shifts,
    meter: Meter,
    errands: BTreeMap<Ticket, (Errand, Nanos)>,
    next_ticket: u64,
    next_period: Nanos,
    work: VecDeque<Work>,
    passed: VecDeque<Passed>,
    events: VecDeque<Event>,
    counters: Counters,
}

impl Platform {
    /// A platform whose slots are empty.
    ///
    /// # Panics
    /// When a card has no slots, a slot has no room, or a bound is 0.
    pub fn new(
        now: Nanos,
        settings: Settings,
        cards: Vec<CardSettings>,
        scheduler: Box<dyn Scheduler>,
    ) -> Platform {
        let queues = [settings.queue_max, settings.processor_queue_max];
        assert!(queues.iter().all(|bound| *bound > 0), "a queue has room");
        let bounds = [settings.flows_max, settings.batch_max];
        assert!(bounds.iter().all(|bound| *bound > 0), "a bound is above 0");
        assert!(settings.batches_max > 0 && settings.period.0 > 0, "a bound is above 0");
        let mut slots = Vec::new();
        for (number, card) in cards.iter().enumerate() {
            assert!(!card.slots.is_empty(), "a card has slots");
            assert!(card.slots.iter().all(|slot| slot.room > 0), "a slot has room");
            slots.extend(card.slots.iter().map(|slot| Slot::new(number as u16, slot.room)));
        }
        let card = |settings| Card { settings, loader: Loader::default(), closed: false };
        Platform {
            next_period: Nanos(now.0 + settings.period.0),
            settings,
            scheduler,
            cards: cards.into_iter().map(card).collect(),
            slots,
            processor: Vec::new(),
            catalogue: Catalogue::default(),
            chains: BTreeMap::new(),
            flows: Flows::default(),
            switch: Switch::default(),
            shifts: Shifts::default(),
            meter: Meter::default(),
            errands: BTreeMap::new(),
            next_ticket: 1,
            work: VecDeque::new(),
            passed: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Declares a function; its number.
    ///
    /// # Errors
    /// When another has the name, or its cost is no time.
    pub fn declare(&mut self, settings: FunctionSettings) -> Result<FunctionId, Refusal> {
        let id = self.catalogue.declare(settings)?;
        self.processor.push(Lane::default());
        assert_eq!(self.processor.len(), self.catalogue.functions().len(), "a lane each");
        Ok(id)
    }

    /// Takes an image; slots that are loaded from now on get it.
    ///
    /// # Errors
    /// When it is unsigned, fits no slot, states nothing, or is not newer.
    pub fn admit(&mut self, image: Image) -> Result<(), Refusal> {
        let most = self.slots.iter().map(|slot| slot.room).max().unwrap_or(0);
        self.catalogue.admit(image, most)
    }

    /// A packet has come, and meets the functions in the chain's order.
    pub fn offer(&mut self, now: Nanos, group: GroupId, key: FlowKey, bytes: Bytes) {
        self.offer_on(now, (group, key), Way::Forth, bytes);
    }

    /// A packet has come from either end of the chain.
    pub fn offer_on(
        &mut self,
        now: Nanos,
        (group, key): (GroupId, FlowKey),
        way: Way,
        bytes: Bytes,
    ) {
        self.counters.offered += 1;
        let Some(chain) = self.chains.get(&group) else {
            self.counters.dropped_unserved += 1;
            return;
        };
        self.meter.came(chain);
        let at = match self.flows.find(group, key) {
            Some(at) => at,
            None => match self.make_flow(now, group, key) {
                Some(at) => at,
                None => return,
            },
        };
        self.flows.touch(now, at);
        if self.flows.get(at).moving == Moving::No {
            self.enter(now, at, (now, way, bytes));
        } else {
            met("a packet was held");
            let bounds = (self.settings.held_per_flow_max, self.settings.held_max);
            if !self.flows.hold(at, (now, way, bytes), bounds) {
                met("too many packets were held");
                self.counters.dropped_held += 1;
            }
        }
        assert!(self.flows.len() <= self.settings.flows_max, "the table is bounded");
        self.run_shifts(now);
    }

    /// A new flow; `None`, counted, if it has no place or the table is full.
    fn make_flow(&mut self, now: Nanos, group: GroupId, key: FlowKey) -> Option<FlowIndex> {
        let Some(path) = self.choose_path(group) else {
            met("a flow had no place");
            self.counters.dropped_unserved += 1;
            return None;
        };
        if self.flows.len() >= self.settings.flows_max && !self.forget_idle(now) {
            met("the flow table was full");
            self.counters.dropped_table += 1;
            return None;
        }
        let Some(tag) = self.switch.acquire(&path) else {
            self.counters.dropped_table += 1;
            return None;
        };
        assert!(self.flows.len() < self.settings.flows_max, "there is room");
        Some(self.flows.insert(now, group, key, tag))
    }

    /// Forgets the flow that was idle longest; `false` if all have packets under way.
    fn forget_idle(&mut self, before: Nanos) -> bool {
        let Some(at) = self.flows.idle_since(before) else { return false };
        met("an idle flow was forgotten");
        self.counters.forgotten += 1;
        let tag = self.flows.remove(at);
        if !mutant("a_forgotten_flow_keeps_its_tag") {
            self.switch.release(tag);
        }
        true
    }

    /// Lets a packet of a flow that does not move onto its path.
    fn enter(&mut self, now: Nanos, at: FlowIndex, (came, way, bytes): Held) {
        let flow = self.flows.get_mut(at);
        assert_eq!(flow.moving, Moving::No, "a flow that moves has no path");
        flow.under_way += 1;
        let packet = Carried { flow: at, tag: flow.tag, way, came, bytes };
        self.forward(now, packet, None);
    }

    /// Takes a packet from `from` (`None`: the outside) to its next worker, or out.
    fn forward(&mut self, now: Nanos, packet: Carried, from: Option<Place>) {
        let Some(Stage { function, place }) = self.switch.next(packet.tag, packet.way, from) else {
            let flow = self.flows.get(packet.flow);
            let (group, key) = (flow.group, flow.key);
            let Carried { flow: at, way, came, bytes, .. } = packet;
            self.passed.push_back(Passed { group, flow: key, way, came, bytes });
            self.counters.passed += 1;
            return self.packet_gone(at);
        };
        if let Place::Slot(slot) = place
            && self.slots[slot.index()].takes() != Some(function)
        {
            met("a packet came to a slot that had failed");
            self.counters.dropped_failed += 1;
            return self.packet_gone(packet.flow);
        }
        let most = match place {
            Place::Slot(_) => self.settings.queue_max,
            Place::Processor(_) => self.settings.processor_queue_max,
        };
        if let Err(packet) = self.lane_mut(place).push(packet, most) {
            met("a queue was full");
            self.counters.dropped_queue += u64::from(!mutant("a_full_queue_is_not_counted"));
            return self.packet_gone(packet.flow);
        }
        self.feed(now, place, function);
    }

    /// A packet of the flow is no longer under way.
    fn packet_gone(&mut self, at: FlowIndex) {
        let flow = self.flows.get_mut(at);
        assert!(flow.under_way > 0, "it was under way");
        flow.under_way -= 1;
        if flow.under_way == 0 && matches!(flow.moving, Moving::Waits(_)) {
            self.shifts.add_ready(at);
        }
    }

    fn lane_mut(&mut self, place: Place) -> &mut Lane {
        match place {
            Place::Slot(slot) => &mut self.slots[slot.index()].lane,
            Place::Processor(function) => &mut self.processor[function.index()],
        }
    }

    /// Gives a worker its next batches.
    fn feed(&mut self, now: Nanos, place: Place, function: FunctionId) {
        let (batch_max, batches_max) = (self.settings.batch_max, self.settings.batches_max);
        // As many as the worker may have at a time.
        for _ in 0..batches_max {
            let ticket = Ticket(self.next_ticket);
            let lane = match place {
                Place::Slot(slot) => &mut self.slots[slot.index()].lane,
                Place::Processor(function) => &mut self.processor[function.index()],
            };
            let Some(batch) = lane.next_batch(now, ticket, batch_max, batches_max) else { return };
            let batched = |packet: &Carried| {
                let flow = self.flows.get(packet.flow);
                let index = self.switch.left(packet.tag, packet.way, place);
                Batched {
                    header: Header { path: packet.tag.0, index },
                    flow: flow.key,
                    group: flow.group,
                    way: packet.way,
                    bytes: packet.bytes.clone(),
                }
            };
            let packets = batch.iter().map(batched).collect();
            self.send(now, Errand::Batch(place), self.settings.patience, |ticket| Work::Process {
                ticket,
                place,
                function,
                packets,
            });
        }
    }

    /// Sends a piece of work that must be answered within `patience`; its number.
    fn send(
        &mut self,
        now: Nanos,
        errand: Errand,
        patience: Nanos,
        work: impl FnOnce(Ticket) -> Work,
    ) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.work.push_back(work(ticket));
        let until = Nanos(now.0.saturating_add(patience.0));
        let before = self.errands.insert(ticket, (errand, until));
        assert!(before.is_none(), "a number is given once");
        ticket
    }

    /// A worker has answered. Answers that nobody waits for are counted and ignored.
    pub fn complete(&mut self, now: Nanos, ticket: Ticket, answer: Answer) {
        self.answered(now, ticket, answer, None);
    }

    /// A worker has answered that measures its own time: it worked on the batch for so long. What
    /// the platform sees of a worker on a busy machine is mostly how long it waited for its turn.
    pub fn complete_after(&mut self, now: Nanos, ticket: Ticket, answer: Answer, worked: Nanos) {
        self.answered(now, ticket, answer, Some(worked));
    }

    fn answered(&mut self, now: Nanos, ticket: Ticket, answer: Answer, worked: Option<Nanos>) {
        let Some((errand, _)) = self.errands.remove(&ticket) else {
            met("an answer came too late or twice");
            self.counters.strays += 1;
            return;
        };
        match (errand, answer) {
            (Errand::Load(slot), Answer::Loaded) => self.loaded(now, slot),
            (Errand::Batch(place), Answer::Processed(verdicts)) => {
                self.processed(now, ticket, place, (verdicts, worked));
            }
            (Errand::Export(_), Answer::Exported(state)) => self.exported(now, ticket, state),
            (Errand::Import(_), Answer::Imported) => self.imported(now, ticket),
            (errand, Answer::Failed) => {
                met("a worker reported a failure");
                self.errand_failed(now, ticket, errand, "it reported a failure");
            }
            (errand, _) => {
                met("a worker answered another question");
                self.counters.lies += 1;
                self.errand_failed(now, ticket, errand, "its answer was to another question");
            }
        }
        self.settle(now);
        assert!(!self.errands.contains_key(&ticket), "it is answered");
    }

    fn processed(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        place: Place,
        (verdicts, worked): (Vec<Verdict>, Option<Nanos>),
    ) {
        let function = match place {
            Place::Slot(slot) => self.slots[slot.index()].takes().expect("it had a batch"),
            Place::Processor(function) => function,
        };
        let alters = self.catalogue.function(function).alters || mutant("a_lie_is_believed");
        let is_possible = |verdict: &Verdict| match verdict {
            Verdict::Replace(bytes) => alters && (1..=PACKET_MAX).contains(&bytes.len()),
            Verdict::Pass | Verdict::Alert(_) | Verdict::Drop => true,
        };
        let is_honest = verdicts.iter().all(is_possible);
        let took = self.lane_mut(place).answer(now, ticket, verdicts, worked);
        let Some(took) = took.filter(|_| is_honest) else {
            met("a worker lied");
            self.counters.lies += 1;
            return self.fail(now, place, "its answer contradicts the batch");
        };
        self.meter.measured(function, place, took);
        while let Some(answered) = self.lane_mut(place).take_answered() {
            for (packet, verdict) in answered.packets.into_iter().zip(answered.verdicts) {
                self.judge(now, (place, function), packet, verdict);
            }
        }
        self.feed(now, place, function);
    }

    fn judge(
        &mut self,
        now: Nanos,
        (place, function): (Place, FunctionId),
        mut packet: Carried,
        verdict: Verdict,
    ) {
        match verdict {
            Verdict::Pass => {}
            Verdict::Alert(rule) => {
                self.counters.alerts += 1;
                let group = self.flows.get(packet.flow).group;
                self.say(Event::Alert(group, function, rule));
            }
            Verdict::Replace(bytes) => packet.bytes = bytes,
            Verdict::Drop => {
                self.counters.dropped_by_functions += 1;
                return self.packet_gone(packet.flow);
            }
        }
        assert!(self.flows.get(packet.flow).under_way > 0, "its flow knows of it");
        self.forward(now, packet, Some(place));
    }

    /// The next piece of work for a worker.
    pub fn next_work(&mut self) -> Option<Work> {
        self.work.pop_front()
    }

    /// The next packet that is through.
    pub fn next_packet(&mut self) -> Option<Passed> {
        self.passed.pop_front()
    }

    /// The next event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn say(&mut self, event: Event) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        }
        assert!(self.events.len() <= EVENTS_MAX, "events are bounded");
    }

    /// Counters since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Packets that are in lanes and at workers.
    pub fn under_way(&self) -> u64 {
        self.flows.iter().map(|(_, flow)| u64::from(flow.under_way)).sum()
    }

    /// Everything at a glance.
    pub fn status(&self) -> Status {
        let card = |(number, card): (usize, &Card)| {
            let of_card = |slot: &&Slot| usize::from(slot.card) == number;
            let runs = |slot: &&Slot| slot.takes().is_some();
            CardStatus {
                name: card.settings.name.clone(),
                running: self.slots.iter().filter(of_card).filter(runs).count() as u32,
                slots: self.slots.iter().filter(of_card).count() as u32,
                closed: card.closed,
                loading: card.loader.loading(),
            }
        };
        let function = |(number, known): (usize, &FunctionSettings)| {
            let id = FunctionId(number as u16);
            let runs = |slot: &&Slot| slot.takes() == Some(id);
            FunctionStatus {
                name: known.name.clone(),
                running: self.slots.iter().filter(runs).count() as u32,
                offered: self.meter.offered(id),
                on_processor: self.switch.users(Place::Processor(id)),
                processor_processed: self.processor[number].answered(),
                processor_cost: self.meter.cost(id, Place::Processor(id)),
            }
        };
        Status {
            cards: self.cards.iter().enumerate().map(card).collect(),
            slots: (0..self.slots.len()).map(|slot| self.slot_status(slot)).collect(),
            functions: self.catalogue.functions().iter().enumerate().map(function).collect(),
            flows: self.flows.len(),
            held: self.flows.held(),
            tags: self.switch.tags(),
            counters: self.counters,
        }
    }

    fn slot_status(&self, slot: usize) -> SlotStatus {
        let place = Place::Slot(SlotId(slot as u16));
        let known = &self.slots[slot];
        let (state, function) = match known.holding() {
            Holding::Nothing => (SlotState::Empty, None),
            Holding::Loading(function) if known.takes().is_none() => {
                (SlotState::Loading, Some(function))
            }
            Holding::Loading(_) => (SlotState::Draining, known.takes()),
            Holding::Running(function) => (SlotState::Running, Some(function)),
            Holding::Draining(function) => (SlotState::Draining, Some(function)),
            Holding::Failed => (SlotState::Failed, None),
        };
        SlotStatus {
            state,
            function,
            card: known.card,
            reserved: known.reserved,
            flows: self.switch.users(place),
            waiting: known.lane.waiting(),
            version: known.image.map_or(0, |image| image.version),
            cost: function.and_then(|function| self.meter.cost(function, place)),
            processed: known.lane.answered(),
        }
    }
}
