//! A scene at work: packets, modelled slots and one processor core around the live machine.
//!
//! The order of events is that of their times, and of their making where times are equal. Nothing
//! depends on the machine it runs on.

use super::outcome::{LATE, Outcome, WINDOW, settled};
use super::scene::{BACK_AFTER, Happening, Scene};
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use thermocline_accel::{
    Answer, Event, FlowKey, FunctionId, FunctionSettings, GroupId, Image, Place, Platform,
    Settings, Signature, SlotId, Ticket, Verdict, Work,
};
use thermocline_policy::accel::Coming;
use thermocline_policy::registry::PolicySpec;
use thermocline_units::{Latencies, Nanos, Rng};

/// Time to hand over state: of a transfer, and of a flow in it.
const TRANSFER: Nanos = Nanos(10_000);
const TRANSFER_OF_FLOW: u64 = 50;

/// The demand to come.
struct ComingDemand(Scene);

impl Coming for ComingDemand {
    fn offered(&self, function: FunctionId, at: Nanos) -> f64 {
        let rate = |tenant: usize| {
            let is_meant = self.0.chain_at(tenant, at).contains(&function.0);
            let rate = self.0.tenants[tenant].rate * self.0.factor(tenant, at);
            if is_meant { rate } else { 0.0 }
        };
        (0..self.0.tenants.len()).map(rate).sum()
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A tenant's next packet.
    Comes(usize),
    /// An answer of this number.
    Answers(u64),
    /// The change that the scene is about.
    Happens,
}

/// Packets of a tenant on their way.
struct Source {
    rng: Rng,
    /// Number of the last packet of each flow that came, and that left.
    came: Vec<u64>,
    left: Vec<u64>,
}

struct Stage<'a> {
    scene: &'a Scene,
    now: Nanos,
    events: BinaryHeap<Reverse<(Nanos, u64, What)>>,
    number: u64,
    platform: Platform,
    /// Time at which each worker is free; the processor's is under its own key.
    free: BTreeMap<Option<SlotId>, Nanos>,
    answers: BTreeMap<u64, (Ticket, Answer, Option<SlotId>)>,
    dead: Option<SlotId>,
    sources: Vec<Source>,
    outcome: Outcome,
    offered: Vec<u64>,
    carried: Vec<u64>,
    /// Slots that are being loaded.
    loading: u32,
    /// Spans in which a slot was loaded.
    spans: Vec<(Nanos, Nanos)>,
    /// Times of all packets from the change on, by tenant: when they came and what they took.
    taken: Vec<Vec<(Nanos, Nanos)>>,
}

/// Plays a scene with a scheduler.
pub(super) fn play(scene: &Scene, spec: &PolicySpec, seed: u64) -> Outcome {
    let (mut outcome, spans, taken) = Stage::new(scene, spec, seed).run();
    outcome.while_loading = within(&spans, &taken);
    if scene.tenants.len() > 1 {
        let still = Scene { happening: Happening::Nothing, ..scene.clone() };
        let (_, _, taken) = Stage::new(&still, spec, seed).run();
        outcome.undisturbed = within(&spans, &taken);
    }
    outcome
}

/// Times of the packets that came within the spans, by tenant.
fn within(spans: &[(Nanos, Nanos)], taken: &[Vec<(Nanos, Nanos)>]) -> Vec<Latencies> {
    let of_tenant = |taken: &Vec<(Nanos, Nanos)>| {
        let mut latencies = Latencies::default();
        let is_within = |came: Nanos| spans.iter().any(|(from, to)| (*from..*to).contains(&came));
        let meant = taken.iter().filter(|(came, _)| is_within(*came));
        meant.for_each(|(_, took)| latencies.record(*took));
        latencies
    };
    taken.iter().map(of_tenant).collect()
}

/// An outcome, spans of loads, and the times of packets by tenant.
type Played = (Outcome, Vec<(Nanos, Nanos)>, Vec<Vec<(Nanos, Nanos)>>);

impl<'a> Stage<'a> {
    fn new(scene: &'a Scene, spec: &PolicySpec, seed: u64) -> Stage<'a> {
        let scheduler = spec.build_scheduler(Box::new(ComingDemand(scene.clone())));
        let scheduler = scheduler.expect("it was built before");
        let settings = Settings::default();
        let platform = Platform::new(Nanos(0), settings, scene.cards.clone(), scheduler);
        let source = |(number, tenant): (usize, &super::Tenant)| Source {
            rng: Rng::seeded(seed.wrapping_mul(0x9e37_79b9).wrapping_add(number as u64)),
            came: vec![0; tenant.flows as usize],
            left: vec![0; tenant.flows as usize],
        };
        let windows = (scene.length.0 - scene.at.0).div_ceil(WINDOW.0) as usize;
        let mut stage = Stage {
            scene,
            now: Nanos(0),
            events: BinaryHeap::new(),
            number: 0,
            platform,
            free: BTreeMap::new(),
            answers: BTreeMap::new(),
            dead: None,
            sources: scene.tenants.iter().enumerate().map(source).collect(),
            outcome: Outcome::default(),
            offered: vec![0; windows],
            carried: vec![0; windows],
            loading: 0,
            spans: Vec::new(),
            taken: scene.tenants.iter().map(|_| Vec::new()).collect(),
        };
        stage.declare();
        stage
    }

    fn declare(&mut self) {
        for function in &self.scene.functions {
            let settings = FunctionSettings {
                name: function.name.to_string(),
                stateful: function.stateful,
                alters: function.alters,
                processor: Some(function.processor),
            };
            let id = self.platform.declare(settings).expect("names differ");
            let image = Image {
                function: id,
                version: 1,
                room: function.room,
                bytes: function.image,
                cost: function.slot,
                signature: Signature::Valid,
            };
            // One that fits no slot stays on the processor.
            let _ = self.platform.admit(image);
        }
        for tenant in 0..self.scene.tenants.len() {
            self.set_chain(tenant, Nanos(0));
            self.later(Nanos(0), What::Comes(tenant));
        }
        self.later(self.scene.at, What::Happens);
    }

    fn set_chain(&mut self, tenant: usize, at: Nanos) {
        let chain = self.scene.chain_at(tenant, at);
        let chain: Vec<FunctionId> = chain.into_iter().map(FunctionId).collect();
        let set = self.platform.set_chain(at, GroupId(tenant as u32), &chain);
        set.expect("the scene was checked");
    }

    fn later(&mut self, at: Nanos, what: What) {
        self.number += 1;
        self.events.push(Reverse((at, self.number, what)));
    }

    fn run(mut self) -> Played {
        let mut base = None;
        while let Some(Reverse((at, _, what))) = self.events.pop() {
            while self.platform.next_tick() <= at {
                self.now = self.platform.next_tick();
                self.platform.tick(self.now);
                self.look();
            }
            if at >= self.scene.length {
                break;
            }
            if base.is_none() && at >= self.scene.at {
                base = Some(self.platform.counters());
            }
            self.now = at;
            self.happen(what);
            self.look();
        }
        let (end, base) = (self.platform.counters(), base.unwrap_or_default());
        let outcome = &mut self.outcome;
        outcome.lost = end.lost() - base.lost();
        outcome.loads = end.loads - base.loads;
        outcome.moved = end.moved - base.moved;
        outcome.states_lost = end.states_lost - base.states_lost;
        outcome.settled = settled(&self.offered, &self.carried);
        outcome.seconds = (self.scene.length.0 - self.scene.at.0) as f64 / 1e9;
        (self.outcome, self.spans, self.taken)
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Comes(tenant) => self.offer(tenant),
            What::Answers(number) => {
                let (ticket, answer, slot) = self.answers.remove(&number).expect("it was made");
                let is_dead = slot.is_some() && slot == self.dead;
                let answer = if is_dead { Answer::Failed } else { answer };
                self.platform.complete(self.now, ticket, answer);
            }
            What::Happens => match self.scene.happening {
                Happening::FunctionAdded(_) => self.set_chain(0, self.now),
                Happening::CardDrained => {
                    self.platform.set_closed(0, true).expect("there is a card");
                }
                Happening::SlotDies(function) => {
                    let status = self.platform.status();
                    let runs = |slot: &thermocline_accel::SlotStatus| {
                        slot.function == Some(FunctionId(function)) && slot.flows > 0
                    };
                    let slot = status.slots.iter().position(runs);
                    self.dead = slot.map(|slot| SlotId(slot as u16));
                }
                _ => {}
            },
        }
    }

    /// A packet of a tenant, and when the next one comes.
    fn offer(&mut self, tenant: usize) {
        let known = &self.scene.tenants[tenant];
        let factor = self.scene.factor(tenant, self.now);
        let source = &mut self.sources[tenant];
        if factor > 0.0 {
            let gap = source.rng.exponential(1e9 / (known.rate * factor));
            let place = source.rng.unit_f64().powf(1.0 / (1.0 - self.scene.skew));
            let flow = ((place * f64::from(known.flows)) as usize).min(known.flows as usize - 1);
            source.came[flow] += 1;
            let bytes = Bytes::copy_from_slice(&source.came[flow].to_le_bytes());
            let (group, key) = (GroupId(tenant as u32), FlowKey(flow as u64));
            if let Some(window) = self.window(self.now) {
                self.offered[window] += 1;
                self.outcome.offered += 1;
            }
            self.platform.offer(self.now, group, key, bytes);
            self.later(Nanos(self.now.0 + 1 + gap as u64), What::Comes(tenant));
        } else {
            // It sends nothing now; whether it does later is looked at again.
            self.later(Nanos(self.now.0 + BACK_AFTER.0), What::Comes(tenant));
        }
    }

    /// Window of a time, from the change on.
    fn window(&self, at: Nanos) -> Option<usize> {
        let since = at.0.checked_sub(self.scene.at.0)?;
        Some((since / WINDOW.0) as usize).filter(|window| *window < self.offered.len())
    }

    /// Takes what the machine gives out.
    fn look(&mut self) {
        while let Some(work) = self.platform.next_work() {
            self.work(work);
        }
        while let Some(event) = self.platform.next_event() {
            self.hear(&event);
        }
        while let Some(packet) = self.platform.next_packet() {
            let (tenant, flow) = (packet.group.0 as usize, packet.flow.0 as usize);
            let number = packet.bytes[..8].try_into().expect("it was made here");
            let number = u64::from_le_bytes(number);
            let left = &mut self.sources[tenant].left[flow];
            self.outcome.overtaken += u64::from(number <= *left);
            *left = number.max(*left);
            if let Some(window) = self.window(self.now) {
                self.carried[window] += 1;
            }
            if packet.came >= self.scene.at {
                let took = self.now.saturating_sub(packet.came);
                self.outcome.carried += 1;
                self.outcome.late += u64::from(took > LATE);
                self.outcome.latencies.record(took);
                self.taken[tenant].push((packet.came, took));
            }
        }
    }

    fn hear(&mut self, event: &Event) {
        if self.now < self.scene.at {
            return;
        }
        match event {
            Event::Loading(..) => {
                self.loading += 1;
                if self.loading == 1 {
                    self.spans.push((self.now, self.scene.length));
                }
            }
            Event::Running(..) => {
                self.loading = self.loading.saturating_sub(1);
                if self.loading == 0
                    && let Some((_, to)) = self.spans.last_mut()
                {
                    *to = self.now;
                }
            }
            _ => {}
        }
    }

    /// Does a piece of work: when it is done, and what the answer is.
    fn work(&mut self, work: Work) {
        let ticket = work.ticket();
        let slot_of = |place: Place| match place {
            Place::Slot(slot) => Some(slot),
            Place::Processor(_) => None,
        };
        let (worker, takes, answer) = match work {
            Work::Load { slot, function, .. } => {
                let model = &self.scene.functions[function.index()];
                let card = usize::from(self.platform.status().slots[slot.index()].card);
                let takes = self.scene.cards[card].load_time(model.image);
                (Some(slot), takes, Answer::Loaded)
            }
            Work::Process { place, function, packets, .. } => {
                let model = &self.scene.functions[function.index()];
                let cost = match place {
                    Place::Slot(_) => model.slot,
                    Place::Processor(_) => model.processor,
                };
                let takes = Nanos((cost * packets.len() as f64) as u64);
                (slot_of(place), takes, Answer::Processed(vec![Verdict::Pass; packets.len()]))
            }
            Work::Export { place, flows, .. } => {
                let takes = Nanos(TRANSFER.0 + TRANSFER_OF_FLOW * flows.len() as u64);
                (slot_of(place), takes, Answer::Exported(Bytes::new()))
            }
            Work::Import { place, .. } => (slot_of(place), TRANSFER, Answer::Imported),
        };
        let free = self.free.entry(worker).or_default();
        let done = Nanos((*free).max(self.now).0 + takes.0);
        *free = done;
        // The bus is not part of the slot's time.
        let trip = if worker.is_some() { self.scene.trip } else { Nanos(0) };
        let at =
            if worker.is_some() && worker == self.dead { self.now } else { Nanos(done.0 + trip.0) };
        let number = self.number;
        self.answers.insert(number, (ticket, answer, worker));
        self.later(at, What::Answers(number));
    }
}
