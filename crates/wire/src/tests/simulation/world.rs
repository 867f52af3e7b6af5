//! The world of a seed: two ends with their users, the line between them, and the model.

use crate::{Config, Event, OpenError, RESET_REFUSED, Role, Session, StreamId};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use thermocline_units::{Nanos, Rng};

/// One direction of a stream, as its two users know it.
#[derive(Debug, Default)]
struct Way {
    /// Bytes that the session took.
    taken: u64,
    /// Bytes that the sending user keeps until the stream is writable again.
    kept: u64,
    /// The sending user will end it, and has.
    will_end: bool,
    ended: bool,
    /// Bytes that arrived, and those of them that are not consumed.
    arrived: u64,
    unread: u64,
    /// The end arrived.
    end_seen: bool,
}

/// A stream as both users know it; index 0 is the connector's.
#[derive(Debug, Default)]
struct Flow {
    header: Vec<u8>,
    /// Ways by the sending end.
    ways: [Way; 2],
    /// The end's user knows of it.
    known: [bool; 2],
    /// The end's user has reset it, with this code.
    reset: [Option<u32>; 2],
    /// The end's user heard that the other one has.
    dropped: [bool; 2],
    /// The end's user does not read before the end.
    lazy: [bool; 2],
}

impl Flow {
    /// True if the user of end `e` has to do with it.
    fn is_live(&self, e: usize) -> bool {
        self.known[e] && self.reset[e].is_none() && !self.dropped[e]
    }
}

pub(super) struct World {
    pub(super) rng: Rng,
    /// Everything that users heard, in short.
    pub(super) digest: u64,
    now: Nanos,
    ends: [Session; 2],
    /// Bytes on their way to each end.
    lines: [VecDeque<u8>; 2],
    flows: BTreeMap<StreamId, Flow>,
    limits: [Config; 2],
    closed: [bool; 2],
    settling: bool,
}

/// The byte at a place of a direction.
fn byte(stream: StreamId, sender: usize, at: u64) -> u8 {
    let at = at + u64::from(stream.number()) * 7919 + sender as u64 * 104_729;
    (at ^ (at >> 8) ^ (at >> 16)) as u8
}

fn limits(rng: &mut Rng, role: Role) -> Config {
    let mut config = Config::new(role, [rng.below(256) as u8; 16]);
    config.parameters = Bytes::from(vec![7; rng.below(100) as usize]);
    config.streams_max = 1 + rng.below(8) as u32;
    config.header_bytes_max = rng.below(2000) as u32;
    config.window_floor_bytes = 4096 << rng.below(4);
    config.window_max_bytes = config.window_floor_bytes << rng.below(4);
    let streams = 2 * u64::from(config.streams_max);
    let pool = [0, 100_000, 1 << 20, 8 << 20][rng.below(4) as usize];
    config.received_bytes_max = streams * u64::from(config.window_floor_bytes) + pool;
    config.queue_floor_bytes = 1 + rng.below(8 << 10) as u32;
    config.queue_max_bytes = config.queue_floor_bytes + rng.below(32 << 10) as u32;
    let pool = rng.below(64 << 10);
    config.queued_bytes_max = streams * u64::from(config.queue_floor_bytes) + pool;
    config
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let mut rng = Rng::seeded(seed);
        let now = Nanos::from_secs(rng.below(1000));
        let limits = [limits(&mut rng, Role::Connector), limits(&mut rng, Role::Acceptor)];
        let ends = limits.clone().map(|config| Session::new(config, now).unwrap());
        World {
            rng,
            digest: 0,
            now,
            ends,
            lines: Default::default(),
            flows: BTreeMap::new(),
            limits,
            closed: [false; 2],
            settling: false,
        }
    }

    /// One thing that somebody does.
    pub(super) fn step(&mut self) {
        let e = self.rng.below(2) as usize;
        self.now.0 += self.rng.below(1_000_000);
        match self.rng.below(100) {
            0..8 => self.open(e),
            8..34 => self.send(e),
            34..38 => self.on_a_stream(e, |world, e, stream| {
                world.flows.get_mut(&stream).unwrap().ways[e].will_end = true;
                world.push(e, stream, 0);
            }),
            38..41 => self.on_a_stream(e, |world, e, stream| {
                let code = world.rng.below(1000) as u32;
                world.ends[e].reset(stream, code);
                world.flows.get_mut(&stream).unwrap().reset[e] = Some(code);
                assert!(world.ends[e].send(stream, &mut Bytes::from_static(b"x")).is_err());
            }),
            41..60 => self.on_a_stream(e, |world, e, stream| {
                let flow = &world.flows[&stream];
                let unread = flow.ways[1 - e].unread;
                if unread > 0 && !flow.lazy[e] {
                    let some =
                        if world.rng.below(2) == 0 { unread } else { world.rng.below(unread) };
                    world.consume(e, stream, some);
                }
            }),
            60..79 => {
                let most = 1 + self.rng.below(40_000) as usize;
                self.transmit(e, most);
            }
            79..98 => {
                let most = 1 + self.rng.below(30_000) as usize;
                self.deliver(e, most);
            }
            98 => self.ends[e].ping(),
            _ => {
                if self.rng.below(8) == 0 {
                    self.ends[e].close(3, "enough");
                    self.closed[e] = true;
                }
            }
        }
        self.ends[e].tick(self.now).unwrap();
    }

    /// Does something to one of the streams of an end's user.
    fn on_a_stream(&mut self, e: usize, act: impl FnOnce(&mut World, usize, StreamId)) {
        let live: Vec<StreamId> = self.live(e);
        if !live.is_empty() {
            let stream = live[self.rng.below(live.len() as u64) as usize];
            act(self, e, stream);
        }
    }

    fn live(&self, e: usize) -> Vec<StreamId> {
        self.flows.iter().filter(|(_, flow)| flow.is_live(e)).map(|(id, _)| *id).collect()
    }

    fn open(&mut self, e: usize) {
        let length = self.rng.below(u64::from(self.limits[1 - e].header_bytes_max) + 1);
        let header: Vec<u8> = (0..length).map(|_| self.rng.next_u64() as u8).collect();
        let stream = match self.ends[e].open(&header) {
            Ok(stream) => stream,
            Err(OpenError::TooMany { .. } | OpenError::NotYet) => return,
            Err(OpenError::Closing) => {
                return assert!(self.closed != [false; 2], "nobody closes");
            }
            Err(error) => panic!("{error}"),
        };
        let mut flow = Flow { header, ..Flow::default() };
        flow.known[e] = true;
        flow.lazy = [(); 2].map(|()| self.rng.below(4) == 0);
        assert!(self.flows.insert(stream, flow).is_none(), "a number is used again");
    }

    fn send(&mut self, e: usize) {
        self.on_a_stream(e, |world, e, stream| {
            let way = &world.flows[&stream].ways[e];
            if way.ended || way.will_end || way.kept > 0 {
                return;
            }
            let most = [10, 1000, 30_000][world.rng.below(3) as usize];
            let count = 1 + world.rng.below(most);
            world.push(e, stream, count);
        });
    }

    /// The user of end `e` has `more` bytes for a stream: sends what it can, and keeps the rest.
    /// When nothing is left it ends the direction, if it wanted to.
    fn push(&mut self, e: usize, stream: StreamId, more: u64) {
        let way = &mut self.flows.get_mut(&stream).unwrap().ways[e];
        let had = std::mem::take(&mut way.kept);
        if way.ended {
            return;
        }
        let from = way.taken;
        if more > 0 {
            let bytes: Vec<u8> = (from..from + had + more).map(|at| byte(stream, e, at)).collect();
            let mut bytes = Bytes::from(bytes);
            let Ok(taken) = self.ends[e].send(stream, &mut bytes) else {
                // Its user will hear of the reset.
                return assert!(self.flows[&stream].reset[1 - e].is_some() || self.closed[1 - e]);
            };
            way.taken += taken as u64;
            way.kept = bytes.len() as u64;
            assert_eq!(way.taken + way.kept, from + had + more);
        } else {
            way.kept = had;
        }
        if way.kept == 0 && way.will_end {
            way.ended = true;
            self.ends[e].end(stream);
        }
    }

    fn consume(&mut self, e: usize, stream: StreamId, bytes: u64) {
        self.flows.get_mut(&stream).unwrap().ways[1 - e].unread -= bytes;
        self.ends[e].consumed(stream, bytes as usize);
    }

    fn transmit(&mut self, e: usize, most: usize) -> usize {
        let mut out = VecDeque::new();
        let count = self.ends[e].transmit(self.now, &mut out, most);
        assert_eq!(count, out.iter().map(Bytes::len).sum::<usize>());
        assert!(out.iter().all(|segment| !segment.is_empty()));
        self.lines[1 - e].extend(out.into_iter().flatten());
        self.hear(e); // Writable
        count
    }

    /// Some of the bytes on their way to end `e` arrive.
    fn deliver(&mut self, e: usize, most: usize) {
        let count = most.min(self.lines[e].len());
        let bytes: Vec<u8> = self.lines[e].drain(..count).collect();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let most = if self.rng.below(3) == 0 { 40 } else { 20_000 };
            let piece = 1 + self.rng.below(most);
            let (piece, behind) = rest.split_at((piece as usize).min(rest.len()));
            self.ends[e].receive(self.now, piece).unwrap();
            rest = behind;
            if self.rng.below(2) == 0 {
                self.hear(e);
            }
        }
        self.hear(e);
        self.check(e);
    }

    /// The user of end `e` takes its events.
    fn hear(&mut self, e: usize) {
        while let Some(event) = self.ends[e].next_event() {
            let stream = event.stream().map_or(0, StreamId::number);
            self.digest = self.digest.wrapping_mul(31).wrapping_add(stream.into());
            match event {
                Event::Hello { version, epoch, parameters } => {
                    let theirs = &self.limits[1 - e];
                    assert_eq!((version, epoch), (1, theirs.epoch));
                    assert_eq!(parameters, theirs.parameters);
                }
                Event::Opened { stream, header } => {
                    let flow = self.flows.get_mut(&stream).expect("somebody opened it");
                    assert_eq!(flow.header, header);
                    assert!(!std::mem::replace(&mut flow.known[e], true), "opened twice");
                }
                Event::Data { stream, bytes } => self.hear_data(e, stream, &bytes),
                Event::Ended { stream } => {
                    let flow = self.flows.get_mut(&stream).unwrap();
                    assert!(flow.is_live(e));
                    let way = &mut flow.ways[1 - e];
                    assert!(way.ended && way.arrived == way.taken, "an end before the end");
                    assert!(!std::mem::replace(&mut way.end_seen, true), "ended twice");
                }
                Event::Reset { stream, code } => {
                    let flow = self.flows.get_mut(&stream).unwrap();
                    assert!(flow.is_live(e));
                    let refused = code == RESET_REFUSED && self.closed[1 - e] && !flow.known[1 - e];
                    assert!(flow.reset[1 - e] == Some(code) || refused, "nobody reset it");
                    flow.dropped[e] = true;
                }
                Event::Writable { stream } => {
                    let flow = &self.flows[&stream];
                    assert!(flow.is_live(e) && flow.ways[e].kept > 0, "nobody waits");
                    let kept = flow.ways[e].kept;
                    self.flows.get_mut(&stream).unwrap().ways[e].kept = kept - 1;
                    self.push(e, stream, 1);
                }
                Event::Closing { code, .. } => {
                    assert!(self.closed[1 - e] && code == 3);
                    self.closed[e] = true; // The session answers by itself.
                }
            }
        }
    }

    fn hear_data(&mut self, e: usize, stream: StreamId, bytes: &[u8]) {
        let flow = self.flows.get_mut(&stream).unwrap();
        assert!(flow.is_live(e), "data of a stream that is over");
        let way = &mut flow.ways[1 - e];
        assert!(!bytes.is_empty() && !way.end_seen);
        for (at, found) in (way.arrived..).zip(bytes) {
            assert_eq!(*found, byte(stream, 1 - e, at), "{stream}: wrong byte at {at}");
        }
        way.arrived += bytes.len() as u64;
        way.unread += bytes.len() as u64;
        assert!(way.arrived <= way.taken);
        if self.settling {
            self.consume(e, stream, bytes.len() as u64);
        }
    }

    /// Checks the invariants that hold at any time.
    fn check(&self, e: usize) {
        assert!(self.ends[e].adds_up(), "credit is lost");
        let mut sum = 0;
        for (stream, flow) in self.flows.iter().filter(|(_, flow)| flow.is_live(e)) {
            let unread = flow.ways[1 - e].unread;
            assert_eq!(self.ends[e].unconsumed_bytes(*stream), unread);
            assert!(unread <= self.limits[e].window_max_bytes.into());
            sum += unread;
        }
        assert!(sum <= self.limits[e].received_bytes_max);
    }

    /// Everybody reads and sends what is left, until nothing moves: all must be there.
    pub(super) fn settle(&mut self) {
        self.settling = true;
        for e in [0, 1] {
            for stream in self.live(e) {
                let unread = self.flows[&stream].ways[1 - e].unread;
                self.consume(e, stream, unread);
            }
        }
        self.run_dry();
        for e in [0, 1] {
            for stream in self.live(e) {
                self.flows.get_mut(&stream).unwrap().ways[e].will_end = true;
                self.push(e, stream, 0);
            }
        }
        self.run_dry();
        for (stream, flow) in &self.flows {
            for (sender, way) in flow.ways.iter().enumerate() {
                if flow.is_live(0) && flow.is_live(1) {
                    assert_eq!(way.kept, 0, "{stream} from {sender}: something is stuck");
                    assert_eq!(way.arrived, way.taken, "{stream} from {sender}: bytes are missing");
                    assert!(way.ended && way.end_seen, "{stream} from {sender}: no end");
                }
            }
        }
        for end in &self.ends {
            assert_eq!(end.streams(), 0, "a stream is left");
            assert!(end.adds_up(), "a pool did not get everything back");
        }
    }

    /// Carries everything to and fro until nobody has anything to say.
    fn run_dry(&mut self) {
        for _ in 0..10_000 {
            self.now.0 += 1_000_000;
            let sent: usize = [0, 1].map(|e| self.transmit(e, 32 << 10)).iter().sum();
            let carried: usize = self.lines.iter().map(VecDeque::len).sum();
            [0, 1].into_iter().for_each(|e| self.deliver(e, usize::MAX));
            if sent + carried == 0 {
                return;
            }
        }
        panic!("it does not end");
    }

    /// Silence, signs of life, and the end of the connection.
    pub(super) fn part(&mut self) {
        self.now = [0, 1].map(|e| self.ends[e].next_deadline().unwrap()).into_iter().max().unwrap();
        [0, 1].into_iter().for_each(|e| self.ends[e].tick(self.now).unwrap());
        self.run_dry();
        for e in [0, 1] {
            assert!(self.ends[e].round_trip().is_some(), "no sign of life");
            assert!(self.ends[e].next_deadline().unwrap() > self.now);
        }
        let e = self.rng.below(2) as usize;
        self.ends[e].close(3, "enough");
        self.closed[e] = true;
        self.run_dry();
        assert!(self.ends.iter().all(Session::is_drained));
        assert!(!self.ends[0].wants_transmit() && !self.ends[1].wants_transmit());
    }
}
