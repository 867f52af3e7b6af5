//! The world of a seed: cards, functions, flows, faults, and what must hold.
//!
//! Each seed draws cards, bounds, a scheduler (real ones, or one that plans at random), loads, and
//! how often workers fail. A worker does its work at once and answers later, so answers of a worker
//! may overtake each other. After every step packets are accounted for, users of slots are counted
//! anew, and whatever came out is compared with what went in. At the end faults stop: everything
//! must come out, and when flows have been idle nothing may be left.

use crate::restless::Restless;
use crate::workers::{MARK, ORDER, PACKET_BYTES, SIEVE, Workers, number};
use bytes::Bytes;
use std::collections::BTreeMap;
use thermocline_accel::{
    Answer, CardSettings, Counters, Event, FlowKey, FunctionSettings, GroupId, Image, Platform,
    Settings, Signature, SlotId, SlotSettings, Ticket, Verdict, Way, Work, nsh,
};
use thermocline_policy::accel::{NothingComing, Scheduler};
use thermocline_policy::registry::PolicySpec;
use thermocline_units::situations::met;
use thermocline_units::{Bytes as Size, Nanos, Rng};

/// Steps within which everything must have come out once faults have stopped.
const DRAIN_STEPS: u32 = 20_000;
const GROUPS: u64 = 2;

/// State of a flow, as its packets show it.
#[derive(Debug, Default)]
struct Known {
    sent: u32,
    /// Number of the last packet that came out.
    seen: u32,
    /// Count of `mark` in the last packet that came out with one.
    marked: u32,
}

pub(crate) struct World {
    rng: Rng,
    now: Nanos,
    platform: Platform,
    workers: Workers,
    /// Answers by the time at which they come.
    answers: BTreeMap<(Nanos, u64), (Ticket, Answer)>,
    answer_number: u64,
    /// Card of each slot.
    cards: Vec<u16>,
    /// Slot that each card loads.
    loading: BTreeMap<u16, SlotId>,
    flows: BTreeMap<(GroupId, FlowKey), Known>,
    originals: BTreeMap<(GroupId, FlowKey, u32), Bytes>,
    flow_count: u64,
    /// One answer in so many is a fault; 0: none.
    fault: u64,
    delay: u64,
    chains_change: bool,
    version: u32,
    seen: u64,
    /// True once a chain was changed: a flow leaves behind the state of what is not in its chain.
    rechained: bool,
    flow_idle: Nanos,
}

fn settings(rng: &mut Rng) -> Settings {
    let draw = |rng: &mut Rng, from: &[usize]| from[rng.below(from.len() as u64) as usize];
    Settings {
        flows_max: draw(rng, &[4, 12, 1000]),
        flow_idle: Nanos(1_000_000 * (5 + rng.below(2_000))),
        queue_max: draw(rng, &[4, 32, 512]),
        processor_queue_max: draw(rng, &[3, 64]),
        batch_max: draw(rng, &[1, 3, 32]),
        batches_max: draw(rng, &[1, 2, 4]),
        held_per_flow_max: draw(rng, &[2, 64]),
        held_max: draw(rng, &[8, 1000]),
        transfer_max: draw(rng, &[1, 3, 256]),
        balance_max: draw(rng, &[1, 256]),
        patience: Nanos(20_000_000),
        retry_after: Nanos(30_000_000),
        period: Nanos(5_000_000),
    }
}

fn scheduler(rng: &mut Rng) -> Box<dyn Scheduler> {
    let name = match rng.below(4) {
        0 => "by-cost:linger=20ms:fade=5ms",
        1 => "first-fit",
        _ => return Box::new(Restless(Rng::seeded(rng.next_u64()))),
    };
    let spec = PolicySpec::parse(name).expect("it is registered");
    spec.build_scheduler(Box::new(NothingComing)).expect("its settings fit")
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        let mut rng = Rng::seeded(seed);
        let mut cards = Vec::new();
        let mut of_slots = Vec::new();
        for card in 0..1 + rng.below(2) as u16 {
            let rooms: Vec<u32> =
                (0..1 + rng.below(3)).map(|_| 10 + 10 * rng.below(2) as u32).collect();
            of_slots.extend(rooms.iter().map(|_| card));
            let slots = rooms.into_iter().map(|room| SlotSettings { room }).collect();
            let mut settings = CardSettings::new(&format!("card{card}"), 1, 10);
            settings.slots = slots;
            cards.push(settings);
        }
        let bounds = settings(&mut rng);
        let flow_idle = bounds.flow_idle;
        let platform = Platform::new(Nanos(0), bounds, cards, scheduler(&mut rng));
        let fault = [0, 40, 200, 1000][rng.below(4) as usize];
        let mut world = World {
            platform,
            workers: Workers::default(),
            answers: BTreeMap::new(),
            answer_number: 0,
            cards: of_slots,
            loading: BTreeMap::new(),
            flows: BTreeMap::new(),
            originals: BTreeMap::new(),
            flow_count: 1 + rng.below(16),
            fault,
            chains_change: rng.below(2) == 0,
            delay: 1 + rng.below(3_000_000),
            version: 1,
            seen: 0,
            rechained: false,
            flow_idle,
            now: Nanos(0),
            rng,
        };
        world.declare();
        world
    }

    fn declare(&mut self) {
        let on_processor = self.rng.below(3) > 0;
        for (name, stateful, alters) in
            [("mark", true, true), ("order", true, false), ("sieve", false, false)]
        {
            let processor = (on_processor || self.rng.below(4) == 0).then_some(5_000.0);
            let name = name.to_string();
            let settings = FunctionSettings { name, stateful, alters, processor };
            self.platform.declare(settings).expect("names differ");
        }
        self.admit();
        for group in 0..GROUPS {
            self.set_chain(GroupId(group as u32));
        }
    }

    /// Gives the pool images of the next version; those that fit no slot are refused.
    fn admit(&mut self) {
        let rooms: Vec<u32> =
            (0..3).map(|_| if self.rng.below(3) == 0 { 20 } else { 10 }).collect();
        for (function, room) in [MARK, ORDER, SIEVE].into_iter().zip(rooms) {
            let image = Image {
                function,
                version: self.version,
                room,
                bytes: Size(200_000),
                cost: 1_000.0 + self.rng.below(200_000) as f64,
                signature: Signature::Valid,
            };
            let _ = self.platform.admit(image);
            let missing = Image { version: u32::MAX, signature: Signature::Missing, ..image };
            assert!(self.platform.admit(missing).is_err(), "an unsigned image was taken");
        }
        self.version += 1;
    }

    fn set_chain(&mut self, group: GroupId) {
        let mut chain = vec![MARK, ORDER, SIEVE];
        self.rng.shuffle(&mut chain);
        chain.truncate(1 + self.rng.below(3) as usize);
        self.platform.set_chain(self.now, group, &chain).expect("the functions are known");
    }

    /// Runs the plan; panics when something is wrong. Returns the counters at the end.
    pub(crate) fn run(mut self) -> (Counters, u64) {
        let steps = 50 + self.rng.below(400);
        for _ in 0..steps {
            self.step();
            self.look();
        }
        self.mend();
        (self.platform.counters(), self.rng.next_u64())
    }

    fn step(&mut self) {
        self.now.0 += match self.rng.below(40) {
            0 => self.rng.below(60_000_000),
            1..=4 => self.rng.below(8_000_000),
            _ => self.rng.below(600_000),
        };
        self.deliver();
        match self.rng.below(100) {
            0 if self.chains_change => {
                met("a chain was changed while it ran");
                let group = GroupId(self.rng.below(GROUPS) as u32);
                self.rechained = true;
                self.set_chain(group);
            }
            1 => {
                met("a card was emptied while it ran");
                let card = self.rng.below(u64::from(self.cards[self.cards.len() - 1]) + 1) as u16;
                let closed = self.rng.below(2) == 0;
                self.platform.set_closed(card, closed).expect("there is such a card");
            }
            2 => {
                met("a version was replaced");
                self.admit();
            }
            3 => {
                let slot = SlotId(self.rng.below(self.cards.len() as u64) as u16);
                let _ = self.platform.reset(slot);
            }
            6 => {
                met("a slot was reserved or given back");
                let slot = SlotId(self.rng.below(self.cards.len() as u64) as u16);
                let group = GroupId(self.rng.below(GROUPS) as u32);
                let group = (self.rng.below(4) == 0).then_some(group);
                // Refused where another group has it.
                let _ = self.platform.reserve(self.now, slot, group);
                self.look();
            }
            4..=5 => {
                let stray = Ticket(self.rng.below(2_000));
                // Only one that nobody waits for: a real one's turn comes later.
                if !self.answers.values().any(|(ticket, _)| *ticket == stray) {
                    let answer = self.lie();
                    self.stray(stray, answer);
                }
            }
            _ => (0..1 + self.rng.below(12)).for_each(|_| self.offer()),
        }
        self.tick();
    }

    /// An answer that no honest worker gives. Whoever waits for it takes the worker for failed.
    fn stray(&mut self, ticket: Ticket, answer: Answer) {
        self.platform.complete(self.now, ticket, answer);
    }

    fn lie(&mut self) -> Answer {
        match self.rng.below(4) {
            0 => Answer::Processed(vec![Verdict::Pass; self.rng.below(5) as usize + 40]),
            1 => Answer::Failed,
            _ => Answer::Processed(Vec::new()),
        }
    }

    fn tick(&mut self) {
        if self.now >= self.platform.next_tick() {
            self.platform.tick(self.now);
        }
    }

    fn offer(&mut self) {
        let group = GroupId(self.rng.below(GROUPS) as u32);
        let flow = FlowKey(self.rng.below(self.flow_count));
        let known = self.flows.entry((group, flow)).or_default();
        known.sent += 1;
        let mut bytes = vec![0; PACKET_BYTES];
        bytes[..4].copy_from_slice(&known.sent.to_le_bytes());
        bytes[8..].copy_from_slice(&self.rng.next_u64().to_le_bytes());
        let bytes = Bytes::from(bytes);
        self.originals.insert((group, flow, known.sent), bytes.clone());
        let way = if flow.0.is_multiple_of(2) { Way::Forth } else { Way::Back };
        self.platform.offer_on(self.now, (group, flow), way, bytes);
        self.look();
    }

    /// Gives the platform the answers whose time has come.
    fn deliver(&mut self) {
        while let Some(entry) = self.answers.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            let (ticket, answer) = entry.remove();
            self.platform.complete(self.now, ticket, answer);
            if self.fault > 0 && self.rng.below(100) == 0 {
                self.platform.complete(self.now, ticket, Answer::Imported);
            }
            self.look();
        }
    }

    /// Takes what the platform gives out, and checks it.
    fn look(&mut self) {
        let events: Vec<Event> = std::iter::from_fn(|| self.platform.next_event()).collect();
        let work: Vec<Work> = std::iter::from_fn(|| self.platform.next_work()).collect();
        // Ports are free as soon as a load has ended. A slot that failed in this step may have had
        // a batch before that, so what slots hold is forgotten behind the work.
        events.iter().for_each(|event| self.free_port(event));
        let mut emptied: Vec<SlotId> = events
            .iter()
            .filter_map(|event| match event {
                Event::Failed(slot, _) | Event::Empty(slot) => Some(*slot),
                _ => None,
            })
            .collect();
        for work in work {
            if let Work::Load { slot, .. } = work
                && emptied.contains(&slot)
            {
                self.workers.wipe(slot);
                emptied.retain(|other| *other != slot);
            }
            self.work(work);
        }
        emptied.into_iter().for_each(|slot| self.workers.wipe(slot));
        while let Some(packet) = self.platform.next_packet() {
            self.seen += 1;
            self.judge((packet.group, packet.flow), &packet.bytes);
        }
        self.platform.check();
        assert_eq!(self.platform.counters().passed, self.seen, "packets that came out");
    }

    fn work(&mut self, work: Work) {
        let ticket = work.ticket();
        let fails = self.fault > 0 && self.rng.below(self.fault) == 0;
        let delay = match work {
            Work::Load { .. } => 1_000_000 + self.rng.below(4_000_000),
            _ => self.rng.below(self.delay),
        };
        let answer = self.honest(&work);
        let answer = match (fails, self.rng.below(4)) {
            (false, _) => answer,
            (true, 0) => return, // It hangs.
            (true, 1) => Answer::Failed,
            (true, _) => self.dishonest(&work),
        };
        self.answer_number += 1;
        let at = Nanos(self.now.0 + delay);
        self.answers.insert((at, self.answer_number), (ticket, answer));
    }

    fn honest(&mut self, work: &Work) -> Answer {
        match work {
            Work::Load { slot, function, .. } => {
                assert_eq!(self.workers.holds(*slot), None, "slot {} is in use", slot.0);
                let card = self.cards[slot.index()];
                let before = self.loading.insert(card, *slot);
                assert_eq!(before, None, "card {card} loads two slots at once");
                self.workers.configure(*slot, *function);
                Answer::Loaded
            }
            Work::Process { place, function, packets, .. } => {
                for packet in packets {
                    let bytes = nsh::encode(packet.header, nsh::Next::Ethernet);
                    assert_eq!(nsh::decode(&bytes).expect("it was made here").0, packet.header);
                    assert!(packet.header.index > 0, "this function is left");
                }
                Answer::Processed(self.workers.process(*place, *function, packets))
            }
            Work::Export { .. } => Answer::Exported(self.workers.export(work)),
            Work::Import { place, function, state, .. } => {
                self.workers.import(*place, *function, state);
                Answer::Imported
            }
        }
    }

    /// A lie that the platform can find.
    fn dishonest(&mut self, work: &Work) -> Answer {
        let Work::Process { function, packets, .. } = work else {
            return Answer::Processed(vec![Verdict::Drop]);
        };
        match self.rng.below(3) {
            0 => Answer::Processed(vec![Verdict::Pass; packets.len() + 1]),
            1 if *function != MARK => {
                let wrong = Verdict::Replace(Bytes::from_static(b"0123456789abcdefghijk"));
                Answer::Processed(vec![wrong; packets.len()])
            }
            _ => Answer::Exported(Bytes::new()),
        }
    }

    fn free_port(&mut self, event: &Event) {
        let slot = match event {
            Event::Running(slot, ..) | Event::Failed(slot, _) => *slot,
            _ => return,
        };
        let card = self.cards[slot.index()];
        if self.loading.get(&card) == Some(&slot) {
            self.loading.remove(&card);
        }
    }

    /// Compares a packet that came out with the one that went in.
    fn judge(&mut self, (group, flow): (GroupId, FlowKey), bytes: &[u8]) {
        let number = number(bytes);
        let original = &self.originals[&(group, flow, number)];
        let (own, rest) = bytes.split_at(PACKET_BYTES);
        assert_eq!(own, &original[..], "packet {number} of {flow:?} was altered");
        let known = self.flows.get_mut(&(group, flow)).expect("it was offered");
        assert!(number > known.seen, "{number} of {flow:?} came out after {}", known.seen);
        known.seen = number;
        let Some((mark, count)) = rest.split_first() else { return };
        assert_eq!((*mark, count.len()), (b'M', 4), "it was marked once");
        let count = u32::from_le_bytes(count.try_into().expect("four bytes"));
        let counters = self.platform.counters();
        let lost = counters.states_lost + counters.failures + counters.forgotten;
        let may_begin_anew = lost > 0 || self.rechained;
        assert!(
            count > known.marked || may_begin_anew,
            "the count of {flow:?} fell from {} to {count}",
            known.marked
        );
        known.marked = count;
    }

    /// Stops all faults, and checks that everything comes out and nothing is left.
    fn mend(&mut self) {
        self.fault = 0;
        for _ in 0..DRAIN_STEPS {
            self.now.0 += 1_000_000;
            self.deliver();
            self.platform.tick(self.now);
            self.look();
            let status = self.platform.status();
            if status.held == 0 && self.platform.under_way() == 0 {
                break;
            }
        }
        assert_eq!(self.platform.under_way(), 0, "packets that never come out");
        // Slots of an emptied card may still drain; then all flows are forgotten.
        for _ in 0..200 {
            self.now.0 += self.flow_idle.0 / 20 + 1_000_000;
            self.deliver();
            self.platform.tick(self.now);
            self.look();
        }
        let status = self.platform.status();
        assert_eq!((status.flows, status.held, status.tags), (0, 0, 0), "something is left");
        let counters = status.counters;
        assert_eq!(counters.offered, counters.passed + counters.dropped(), "packets are missing");
        let running = status.slots.iter().filter(|slot| slot.flows > 0).count();
        assert_eq!(running, 0, "slots with flows that nobody has");
    }
}
