//! Two ends, their clients, the link between them, and what goes wrong.
//!
//! Each seed draws caches (of unlike sizes, some with a device), units that cut for an end and may
//! fail, controllers, flows and their contents, how fast clients read, and accidents: the link
//! breaks, an end loses its cache, or finds one of an older run. Every byte that a client gets is
//! held against what the other one said; at the end everything that was not reset must have
//! arrived.

use crate::device::{DEVICE_BYTES, Device};
use crate::unit::Unit;
use std::collections::{BTreeMap, VecDeque};
use thermocline_tunnel::{Cache, End, FlowEvent, FlowId, Settings, Sharing, Target};
use thermocline_units::situations::met;
use thermocline_units::{Bytes, Nanos, Rng};
use thermocline_wire::Role;

const CONTROLLERS: [&str; 5] =
    ["none", "content:size=128B", "content:size=512B", "fixed:size=256B", "content:size=4KiB"];

/// Steps in which everything must be done once nothing new begins.
const DRAIN_STEPS: u32 = 20_000;

/// One way of a flow.
struct Way {
    content: Vec<u8>,
    given: usize,
    got: usize,
    /// The sender said its last byte.
    ended: bool,
    /// The receiver heard of it.
    heard: bool,
    /// Bytes that the receiver got and has not taken.
    untaken: usize,
}

struct Flow {
    /// From the connector, and from the acceptor.
    ways: [Way; 2],
    /// The other end knows of it.
    is_known: bool,
    /// Neither client takes anything until the plan is over.
    is_unread: bool,
}

/// Bytes under way in one direction.
type Line = VecDeque<u8>;

pub(crate) struct World {
    rng: Rng,
    now: Nanos,
    ends: [Option<End>; 2],
    lines: [Line; 2],
    devices: [Device; 2],
    /// Units that cut for the ends.
    units: [Option<Unit>; 2],
    ready: [bool; 2],
    flows: BTreeMap<FlowId, Flow>,
    /// The bytes that contents are made of.
    pool: Vec<u8>,
    /// Contents said before, which may be said again.
    contents: Vec<Vec<u8>>,
    /// The controller of all connections, in half of the seeds.
    controller: Option<usize>,
    old_caches: [Option<Cache>; 2],
    runs: u8,
    opened: u32,
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        let mut rng = Rng::seeded(seed);
        let pool = (0..20_000).map(|_| rng.next_u64() as u8).collect();
        let mut world = World {
            rng,
            now: Nanos::from_secs(1),
            ends: [None, None],
            lines: [Line::new(), Line::new()],
            devices: [Device::new(), Device::new()],
            units: [None, None],
            ready: [false; 2],
            flows: BTreeMap::new(),
            pool,
            contents: Vec::new(),
            controller: None,
            old_caches: [None, None],
            runs: 0,
            opened: 0,
        };
        if world.rng.below(2) == 0 {
            world.controller = Some(world.rng.below(5) as usize);
        }
        let caches = [world.cache(), world.cache()];
        world.connect(caches);
        world
    }

    /// Runs the plan; panics when something is wrong.
    pub(crate) fn run(mut self) {
        let steps = 40 + self.rng.below(160);
        for _ in 0..steps {
            self.step();
        }
        for flow in self.flows.values_mut() {
            flow.is_unread = false;
        }
        for _ in 0..DRAIN_STEPS {
            if self.flows.is_empty() && self.is_quiet() {
                return self.close();
            }
            self.now.0 += 1_000_000;
            self.carry();
            self.devices_work(100);
            self.units_work();
            self.say(true);
            self.take();
        }
        let stuck: Vec<_> = self.flows.iter().map(|(id, flow)| (id, self.told(flow))).collect();
        panic!("flows are stuck: {stuck:?}");
    }

    /// One end wants no more: both come to know that nothing is left.
    fn close(&mut self) {
        self.ends[0].as_mut().expect("both ends are there").close("done");
        for _ in 0..DRAIN_STEPS {
            if self.ends.iter().flatten().all(End::is_drained) {
                return;
            }
            self.carry_all();
        }
        let left: Vec<_> =
            self.ends.iter().flatten().map(|end| (end.flows(), end.wants_transmit())).collect();
        panic!("an end does not see that nothing is left: {left:?}");
    }

    fn told(&self, flow: &Flow) -> String {
        let way = |way: &Way| {
            let Way { content, given, got, ended, heard, untaken } = way;
            format!("{} {given} {got} {ended} {heard} {untaken}", content.len())
        };
        format!("{} | {}", way(&flow.ways[0]), way(&flow.ways[1]))
    }

    fn cache(&mut self) -> Cache {
        self.runs += 1;
        let kib = [1, 8, 64, 1024][self.rng.below(4) as usize];
        let cache = Cache::new(Bytes::from_kib(kib), [self.runs; 16], self.rng.next_u64());
        let bytes = [0, 16 << 10, DEVICE_BYTES][self.rng.below(3) as usize];
        cache.with_disk(Bytes(bytes as u64))
    }

    fn connect(&mut self, caches: [Cache; 2]) {
        let roles = [Role::Connector, Role::Acceptor];
        for (side, (cache, role)) in caches.into_iter().zip(roles).enumerate() {
            let mut settings = Settings::new(role, self.rng.next_u64());
            let drawn = self.rng.below(5) as usize;
            settings.controller = CONTROLLERS[self.controller.unwrap_or(drawn)].to_string();
            settings.flow_bytes_max = [4_000, 70_000, 4 << 20][self.rng.below(3) as usize];
            settings.flows_bytes_max = [1_000, 1 << 20][self.rng.below(2) as usize];
            self.units[side] = (self.rng.below(2) == 0).then(|| Unit::drawn(&mut self.rng));
            if let Some(unit) = &self.units[side] {
                settings.offload = Some(unit.settings(&mut self.rng));
            }
            if self.rng.below(3) == 0 {
                let wire = &mut settings.wire;
                (wire.window_floor_bytes, wire.window_max_bytes) = (1 << 14, 1 << 15);
                (wire.queue_floor_bytes, wire.queue_max_bytes) = (1 << 12, 1 << 13);
            }
            let mut time = 0;
            let stopwatch = Box::new(move || {
                time += 1000;
                Nanos(time)
            });
            let end = End::new(settings, cache, stopwatch, self.now);
            self.ends[side] = Some(end.expect("the settings fit"));
            self.lines[side].clear();
            self.ready[side] = false;
        }
        self.flows.clear();
    }

    fn step(&mut self) {
        self.now.0 += self.rng.below(50_000_000);
        self.units_work();
        match self.rng.below(40) {
            0..=4 => self.open(),
            5..=20 => self.carry(),
            21..=29 => self.say(false),
            30..=35 => self.take(),
            36 if self.rng.below(2) == 0 => self.reset(),
            36..=37 if self.rng.below(2) == 0 => {
                let count = self.rng.below(6);
                self.devices_work(count);
            }
            37 if self.rng.below(4) == 0 => self.break_off(),
            _ => self.tick(),
        }
    }

    /// Each device does up to `count` of its jobs.
    fn devices_work(&mut self, count: u64) {
        for side in 0..2 {
            let end = self.ends[side].as_mut().expect("both ends are there");
            self.devices[side].work(&mut self.rng, self.now, end, count);
            self.hear(side);
        }
    }

    /// Each unit does what it has done by now.
    fn units_work(&mut self) {
        for side in 0..2 {
            let Some(unit) = &mut self.units[side] else { continue };
            let end = self.ends[side].as_mut().expect("both ends are there");
            unit.work(&mut self.rng, self.now, end);
            self.hear(side);
        }
    }

    fn tick(&mut self) {
        for end in self.ends.iter_mut().flatten() {
            end.tick(self.now).expect("the other end is not silent for long");
        }
    }

    fn content(&mut self) -> Vec<u8> {
        if self.rng.below(2) == 0 && !self.contents.is_empty() {
            return self.contents[self.rng.below(self.contents.len() as u64) as usize].clone();
        }
        let mut content = Vec::new();
        for _ in 0..self.rng.below(4) {
            let from = self.rng.below(self.pool.len() as u64) as usize;
            let length = self.rng.below(12_000) as usize;
            content.extend_from_slice(&self.pool[from..(from + length).min(self.pool.len())]);
            if self.rng.below(3) == 0 {
                content.resize(content.len() + self.rng.below(3000) as usize, b' ');
            }
        }
        self.contents.push(content.clone());
        content
    }

    fn open(&mut self) {
        let side = self.rng.below(2) as usize;
        if !self.ready[side] || self.flows.len() >= 8 {
            return;
        }
        self.opened += 1;
        let sharing = [Sharing::Flow, Sharing::Class, Sharing::All][self.rng.below(3) as usize];
        let class = self.rng.below(3) as u16;
        let target = Target { address: format!("host{}:80", self.opened), class, sharing };
        let end = self.ends[side].as_mut().expect("both ends are there");
        let Ok(id) = end.open(self.now, &target) else { return };
        let contents = [self.content(), self.content()];
        let ways = contents.map(|content| Way {
            content,
            given: 0,
            got: 0,
            ended: false,
            heard: false,
            untaken: 0,
        });
        let is_unread = self.rng.below(6) == 0;
        let earlier = self.flows.insert(id, Flow { ways, is_known: false, is_unread });
        assert!(earlier.is_none(), "{id:?} was used before");
    }

    /// Clients say some of what they have to say; all of it `at_once` when the plan is over.
    fn say(&mut self, at_once: bool) {
        for (&id, flow) in &mut self.flows {
            for side in 0..2 {
                let end = self.ends[side].as_mut().expect("both ends are there");
                let way = &mut flow.ways[side];
                let is_here = flow.is_known || end.room(id) > 0;
                if way.ended || !is_here {
                    continue;
                }
                let left = &way.content[way.given..];
                let most = if at_once { left.len() } else { self.rng.below(9000) as usize };
                let now = most.min(left.len()).min(end.room(id));
                end.give(self.now, id, &left[..now]);
                way.given += now;
                if at_once || self.rng.below(3) == 0 {
                    end.flush(self.now, id);
                }
                if way.given == way.content.len() && (at_once || self.rng.below(2) == 0) {
                    end.end(self.now, id);
                    way.ended = true;
                }
            }
        }
    }

    /// The lines take bytes of the ends and give some to the other ones.
    fn carry(&mut self) {
        for side in 0..2 {
            let end = self.ends[side].as_mut().expect("both ends are there");
            let mut out = VecDeque::new();
            let most = 1 + self.rng.below(40_000) as usize;
            end.transmit(self.now, &mut out, most);
            self.lines[side].extend(out.into_iter().flatten());
            let length = self.lines[side].len() as u64;
            let count = if self.rng.below(2) == 0 { length } else { self.rng.below(length + 1) };
            let bytes: Vec<u8> = self.lines[side].drain(..count as usize).collect();
            let other = self.ends[1 - side].as_mut().expect("both ends are there");
            other.receive(self.now, &bytes).expect("both ends keep the rules");
            self.hear(1 - side);
        }
    }

    /// Takes the events of an end's clients. Of a flow that was reset here meanwhile, what was said
    /// before is let go.
    fn hear(&mut self, side: usize) {
        while let Some(event) = self.ends[side].as_mut().and_then(End::next_event) {
            match event {
                FlowEvent::Ready => self.ready[side] = true,
                FlowEvent::Opened { flow, target } => {
                    assert!(target.address.starts_with("host"), "{target:?}");
                    if let Some(flow) = self.flows.get_mut(&flow) {
                        flow.is_known = true;
                    }
                }
                FlowEvent::Bytes { flow, bytes } => {
                    let Some(flow) = self.flows.get_mut(&flow) else { continue };
                    let way = &mut flow.ways[1 - side];
                    let expected = &way.content[way.got..way.got + bytes.len()];
                    assert!(expected == bytes, "wrong bytes at {}", way.got);
                    way.got += bytes.len();
                    way.untaken += bytes.len();
                }
                FlowEvent::Ended { flow } => {
                    let Some(flow) = self.flows.get_mut(&flow) else { continue };
                    let way = &mut flow.ways[1 - side];
                    assert!(way.ended && way.got == way.content.len(), "an end too early");
                    way.heard = true;
                }
                FlowEvent::Reset { flow, .. } => {
                    self.flows.remove(&flow);
                }
                // It goes on: what the other end refers to is asked for.
                FlowEvent::DiskFailed
                | FlowEvent::Room { .. }
                | FlowEvent::Cut { .. }
                | FlowEvent::Closing { .. } => {}
            }
        }
    }

    /// Clients take some of what they got; flows that are over are forgotten.
    fn take(&mut self) {
        let mut taken = Vec::new();
        for (&id, flow) in &mut self.flows {
            for side in 0..2 {
                let way = &mut flow.ways[1 - side];
                if !flow.is_unread && way.untaken > 0 {
                    taken.push((side, id, std::mem::take(&mut way.untaken)));
                }
            }
        }
        for (side, id, bytes) in taken {
            let end = self.ends[side].as_mut().expect("both ends are there");
            end.taken(self.now, id, bytes).expect("both ends keep the rules");
            self.hear(side);
        }
        let is_over = |flow: &Flow| flow.ways.iter().all(|way| way.heard && way.untaken == 0);
        self.flows.retain(|_, flow| !is_over(flow));
    }

    /// A client goes away in the middle.
    fn reset(&mut self) {
        let Some(&id) = self.flows.keys().nth(self.rng.below(9) as usize) else { return };
        let side = self.rng.below(2) as usize;
        if !self.flows[&id].is_known {
            return;
        }
        met("a client reset its flow");
        self.ends[side].as_mut().expect("both ends are there").reset(id, 7);
        self.flows.remove(&id);
        // What the other end still says of it goes nowhere, so it must hear of the reset now.
        for _ in 0..DRAIN_STEPS {
            if self.is_quiet() {
                return;
            }
            self.carry_all();
        }
        panic!("the ends never fall silent");
    }

    fn carry_all(&mut self) {
        for side in 0..2 {
            let mut out = VecDeque::new();
            let end = self.ends[side].as_mut().expect("both ends are there");
            end.transmit(self.now, &mut out, usize::MAX);
            let mut bytes: Vec<u8> = self.lines[side].drain(..).collect();
            bytes.extend(out.into_iter().flatten());
            let other = self.ends[1 - side].as_mut().expect("both ends are there");
            other.receive(self.now, &bytes).expect("both ends keep the rules");
            self.hear(1 - side);
        }
    }

    fn is_quiet(&self) -> bool {
        let nothing = |end: &Option<End>| end.as_ref().is_some_and(|end| !end.wants_transmit());
        self.lines.iter().all(VecDeque::is_empty) && self.ends.iter().all(nothing)
    }

    /// The connection breaks; each end keeps its cache, loses it, finds an older one, or reads the
    /// one that it saved.
    fn break_off(&mut self) {
        met("the connection broke");
        let mut caches = Vec::new();
        for side in 0..2 {
            let mut end = self.ends[side].take().expect("both ends are there");
            self.devices[side].work(&mut self.rng, self.now, &mut end, u64::MAX);
            let cache = end.into_cache();
            caches.push(match self.rng.below(5) {
                0 => {
                    met("a cache was lost");
                    self.old_caches[side] = Some(cache);
                    self.cache()
                }
                1 if self.old_caches[side].is_some() => {
                    met("a cache of an older run came back");
                    self.old_caches[side].replace(cache).expect("it is there")
                }
                2 => {
                    met("a cache was saved and read by another process");
                    let mut saved = Vec::new();
                    cache.write_saved(&mut saved).expect("memory takes it");
                    let kib = [8, 64, 1024][self.rng.below(3) as usize];
                    Cache::read_saved(&saved[..], Bytes::from_kib(kib)).expect("it was just saved")
                }
                _ => cache,
            });
        }
        let caches: [Cache; 2] = caches.try_into().ok().expect("two ends");
        self.connect(caches);
    }
}
