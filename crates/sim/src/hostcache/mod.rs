//! Hosts with guests and a storage server in virtual time: the live machines of `hostcache` on
//! modelled messages and a modelled store.
//!
//! 1. Every guest has a volume, a clone of one image of which a share is private, and does one
//!    request after the other ([`Load`]).
//! 2. Messages go as they are, without bytes; a block is the number of its content and counts as
//!    4 KiB. Messages of a connection arrive in order, after a time by their kind ([`Costs`]).
//! 3. The store's reads take the disk's time, everything else of it none. Nobody waits in a queue:
//!    so it is in the source.
//!
//! Bytes are those of whole messages with a frame's header each, maps and notices included.

mod load;
#[cfg(test)]
mod tests;

pub use load::{Load, Order};

use load::{Guest, Step};
use std::collections::BTreeMap;
use thermocline_hostcache::{
    Agent, AgentSettings, Event, Hash, HostId, MemoryStore, Message, Protocol, ReadItem, Server,
    ServerSettings, SettingsError, StoreAnswer, StoreItem, StoreRequest, Ticket, ToAgent, ToPeer,
    ToServer, VolumeKey,
};
use thermocline_units::{Nanos, Rng};

/// Bytes of a block here: the number of its content.
const MODELLED_BYTES: usize = 8;
/// Bytes of a frame's header, counted for every message.
const FRAME_BYTES: u64 = 8;
/// Leases and times of waiting that never end here.
const NEVER: Nanos = Nanos(1 << 60);

/// Times that messages and the disk take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// A message of a host to the server.
    pub request: Nanos,
    /// An answer with bytes.
    pub data: Nanos,
    /// An answer without.
    pub name: Nanos,
    /// The server's word to another host.
    pub forward: Nanos,
    /// A block of one host to another.
    pub peer: Nanos,
    /// A read of the store.
    pub disk: Nanos,
}

impl Costs {
    /// Every message takes half of the source's round trip.
    pub const HONEST: Costs = {
        let leg = Nanos::from_micros(3750);
        let disk = Nanos::from_micros(5000);
        Costs { request: leg, data: leg, name: leg, forward: leg, peer: leg, disk }
    };
    /// Costs that the source's figures need: bytes take its 7.5 ms, and what has none next to
    /// nothing.
    pub const SOURCE: Costs = {
        let data = Nanos::from_micros(7500);
        let disk = Nanos::from_micros(5000);
        let name = Nanos::from_micros(44);
        Costs { request: Nanos(0), data, name, forward: Nanos(0), peer: data, disk }
    };
}

/// A scene.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Means to send less.
    pub protocol: Protocol,
    /// Guests.
    pub guests: u32,
    /// Guests of a host, 1 or more.
    pub guests_per_host: u32,
    /// Load of guests.
    pub load: Load,
    /// Times.
    pub costs: Costs,
    /// Lookup policy, by its name in the registry.
    pub lookup: String,
    /// Policy of the hosts' caches.
    pub cache_policy: String,
    /// Blocks of a host's cache.
    pub cache_blocks: u32,
    /// Blocks of the server's memory.
    pub memory_blocks: u32,
    /// Kept there by volume and block instead of by content.
    pub memory_by_block: bool,
    /// Writes name content even if the host does not hold it.
    pub hash_first_always: bool,
    /// Seed of everything random.
    pub seed: u64,
}

/// Outcome of a scene.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// Bytes of all messages between hosts and the server.
    pub server_bytes: u64,
    /// Bytes of all messages between hosts.
    pub peer_bytes: u64,
    /// Those of the server's bytes that are not of blocks.
    pub other_bytes: u64,
    /// Mean time of a guest's request, seconds.
    pub latency_s: f64,
    /// Requests of guests.
    pub requests: u64,
    /// Blocks that the store read.
    pub disk_reads: u64,
    /// Share of the blocks read that were at the host, as its map said.
    pub local: f64,
    /// Messages between hosts and the server.
    pub messages: u64,
}

enum What {
    ToServer(usize, ToServer),
    ToAgent(usize, ToAgent),
    ToPeer(usize, usize, ToPeer),
    Stored(u32, StoreRequest),
    Begins(usize),
}

fn bytes_of(content: u64) -> [u8; MODELLED_BYTES] {
    content.to_le_bytes()
}

/// The modelled hash: the content's number, spread so that its first bytes tell contents apart.
fn hash_of(bytes: &[u8]) -> Hash {
    let mut hash = [0; 32];
    hash[..MODELLED_BYTES].copy_from_slice(bytes);
    hash
}

struct Seat {
    guest: Guest,
    key: VolumeKey,
    began: Nanos,
}

struct Stage<'a> {
    scene: &'a Scene,
    now: Nanos,
    /// Events by time; of one time in the order in which they were put there.
    happenings: BTreeMap<(Nanos, u64), What>,
    number: u64,
    server: Server,
    store: MemoryStore,
    agents: Vec<Agent>,
    seats: Vec<Seat>,
    waiting: BTreeMap<(usize, Ticket), usize>,
    by_key: BTreeMap<(usize, VolumeKey), usize>,
    /// Time at which the last message of a connection arrives: from and to hosts, and of peers.
    last: BTreeMap<(usize, usize), Nanos>,
    outcome: Outcome,
    spent_ns: u128,
}

/// Plays a scene to its end.
///
/// # Errors
/// A policy does not fit.
pub fn play(scene: &Scene) -> Result<Outcome, SettingsError> {
    let mut stage = Stage::new(scene)?;
    stage.attach();
    while let Some(((at, _), what)) = stage.happenings.pop_first() {
        stage.now = at;
        stage.happen(what);
    }
    Ok(stage.outcome())
}

const SERVER: usize = usize::MAX;

impl<'a> Stage<'a> {
    fn new(scene: &'a Scene) -> Result<Stage<'a>, SettingsError> {
        let mut server = ServerSettings::new(hash_of, 1, scene.seed);
        server.protocol = scene.protocol;
        server.lookup = scene.lookup.clone();
        (server.memory_blocks, server.memory_by_block) =
            (scene.memory_blocks, scene.memory_by_block);
        (server.block_bytes, server.lease) = (MODELLED_BYTES, NEVER);
        server.hosts_max = 128;
        let hosts = scene.guests.div_ceil(scene.guests_per_host.max(1));
        let agent = |host: u32| {
            let mut agent = AgentSettings::new(hash_of, HostId(host as u16), scene.seed);
            agent.protocol = scene.protocol;
            agent.lookup = scene.lookup.clone();
            agent.cache_policy = scene.cache_policy.clone();
            (agent.cache_blocks, agent.block_bytes) = (scene.cache_blocks, MODELLED_BYTES);
            agent.hash_first_always = scene.hash_first_always;
            (agent.peer_within, agent.answer_within) = (NEVER, NEVER);
            Agent::new(agent)
        };
        let agents = (0..hosts).map(agent).collect::<Result<_, _>>()?;
        Ok(Stage {
            scene,
            now: Nanos(0),
            happenings: BTreeMap::new(),
            number: 0,
            server: Server::new(server, Nanos(0))?,
            store: MemoryStore::default(),
            agents,
            seats: Vec::new(),
            waiting: BTreeMap::new(),
            by_key: BTreeMap::new(),
            last: BTreeMap::new(),
            outcome: Outcome::default(),
            spent_ns: 0,
        })
    }

    /// Makes the volumes, and lets every guest attach its own.
    fn attach(&mut self) {
        let load = &self.scene.load;
        let mut rng = Rng::seeded(self.scene.seed);
        let base = self.store.create("image", load.image_blocks, 0);
        let image = load.image(&mut rng);
        self.write_image(base, &image);
        for host in 0..self.agents.len() {
            self.server.joined(HostId(host as u16), 1).expect("few hosts");
            self.agents[host].connected(self.now);
        }
        for number in 0..self.scene.guests {
            let name = format!("guest{number}");
            let volume = self.store.clone_of(base, &name);
            for (block, content) in load.private_blocks(number, &mut rng) {
                self.write_block(volume, block, content);
            }
            let host = (number / self.scene.guests_per_host.max(1)) as usize;
            let key = self.agents[host].attach(self.now, &name);
            let guest = Guest::new(load, number, self.scene.seed);
            self.by_key.insert((host, key), self.seats.len());
            self.seats.push(Seat { guest, key, began: Nanos(0) });
        }
        (0..self.agents.len()).for_each(|host| self.speak(host));
    }

    fn write_image(&mut self, volume: u32, image: &[u64]) {
        for (block, &content) in image.iter().enumerate() {
            self.write_block(volume, block as u32, content);
        }
    }

    fn write_block(&mut self, volume: u32, block: u32, content: u64) {
        let bytes = bytes_of(content);
        let item = match content {
            0 => StoreItem::Zero,
            _ => StoreItem::Data(bytes.to_vec().into(), hash_of(&bytes)),
        };
        self.store.perform(StoreRequest::Write { volume, block, items: vec![item] });
    }

    fn host_of(&self, seat: usize) -> usize {
        seat / self.scene.guests_per_host.max(1) as usize
    }

    fn later(&mut self, at: Nanos, what: What) {
        self.number += 1;
        self.happenings.insert((at, self.number), what);
    }

    /// A message leaves; messages of a connection arrive in order.
    fn send(&mut self, (from, to): (usize, usize), takes: Nanos, what: What) {
        let last = self.last.entry((from, to)).or_insert(Nanos(0));
        let at = Nanos(self.now.0 + takes.0).max(*last);
        *last = at;
        self.later(at, what);
    }

    fn happen(&mut self, what: What) {
        match what {
            What::ToServer(host, message) => {
                let heard = self.server.hear(self.now, HostId(host as u16), message);
                heard.expect("agents keep the rules");
                self.serve();
            }
            What::ToAgent(host, message) => {
                self.agents[host].hear(self.now, message).expect("the server keeps the rules");
                self.speak(host);
            }
            What::ToPeer(from, to, message) => {
                let heard = self.agents[to].hear_peer(self.now, HostId(from as u16), message);
                heard.expect("hosts keep the rules");
                self.speak(to);
            }
            What::Stored(op, request) => {
                let answer = self.store.perform(request);
                self.server.stored(self.now, op, answer);
                self.serve();
            }
            What::Begins(seat) => {
                self.next(seat);
                self.speak(self.host_of(seat));
            }
        }
    }

    /// Passes on the server's messages, and its requests to its store.
    fn serve(&mut self) {
        loop {
            while let Some((op, request)) = self.server.next_store_request() {
                if matches!(request, StoreRequest::Fetch { .. }) {
                    self.outcome.disk_reads += 1;
                    let at = Nanos(self.now.0 + self.scene.costs.disk.0);
                    self.later(at, What::Stored(op, request));
                    continue;
                }
                let answer: StoreAnswer = self.store.perform(request);
                self.server.stored(self.now, op, answer);
            }
            let Some((host, message)) = self.server.next_message() else { return };
            let costs = self.scene.costs;
            let blocks = blocks_in(&message);
            let takes = match &message {
                ToAgent::Serve { .. } => costs.forward,
                _ if blocks > 0 => costs.data,
                _ => costs.name,
            };
            self.count(message.length(), blocks);
            let host = usize::from(host.0);
            self.send((SERVER, host), takes, What::ToAgent(host, message));
        }
    }

    fn count(&mut self, length: usize, blocks: usize) {
        let bytes = length as u64 + FRAME_BYTES;
        self.outcome.server_bytes += bytes;
        self.outcome.other_bytes += bytes - (blocks * thermocline_hostcache::BLOCK_BYTES) as u64;
        self.outcome.messages += 1;
    }

    /// Passes on a host's messages, and events for its guests.
    fn speak(&mut self, host: usize) {
        loop {
            while let Some(event) = self.agents[host].next_event() {
                self.hear(host, event);
            }
            if let Some(message) = self.agents[host].next_message() {
                let blocks = match &message {
                    ToServer::Write { items, .. } => {
                        let is_data =
                            |item: &&_| matches!(item, thermocline_hostcache::WriteItem::Data(_));
                        items.iter().filter(is_data).count()
                    }
                    _ => 0,
                };
                self.count(message.length(), blocks);
                // Bytes take the time of bytes in either direction.
                let costs = self.scene.costs;
                let takes = if blocks > 0 { costs.request.max(costs.data) } else { costs.request };
                self.send((host, SERVER), takes, What::ToServer(host, message));
            } else if let Some((to, message)) = self.agents[host].next_peer_message() {
                self.outcome.peer_bytes += message.length() as u64 + FRAME_BYTES;
                let to = usize::from(to.0);
                self.send((host, to), self.scene.costs.peer, What::ToPeer(host, to, message));
            } else {
                return;
            }
        }
    }

    fn hear(&mut self, host: usize, event: Event) {
        match event {
            Event::Attached { volume, .. } => {
                let seat = self.by_key[&(host, volume)];
                let at = Nanos(self.now.0 + self.seats[seat].guest.starts_after().0);
                self.later(at, What::Begins(seat));
            }
            Event::Read { ticket, .. } | Event::Done { ticket } => {
                let seat = self.waiting.remove(&(host, ticket)).expect("its guest waits");
                let took = self.now.0 - self.seats[seat].began.0;
                self.spent_ns += u128::from(took);
                self.next(seat);
            }
            other => panic!("nothing goes wrong here: {other:?}"),
        }
    }

    /// A guest's next request.
    fn next(&mut self, seat: usize) {
        let host = self.host_of(seat);
        let Seat { guest, key, began } = &mut self.seats[seat];
        let Some(step) = guest.next() else { return };
        *began = self.now;
        self.outcome.requests += 1;
        let agent = &mut self.agents[host];
        let ticket = match step {
            Step::Read { block, count } => agent.read(self.now, *key, block, count),
            Step::Write { block, contents } => {
                let bytes: Vec<u8> =
                    contents.iter().flat_map(|&content| bytes_of(content)).collect();
                agent.write(self.now, *key, block, &bytes, false)
            }
        };
        self.waiting.insert((host, ticket.expect("the volume is attached")), seat);
    }

    fn outcome(self) -> Outcome {
        let (mut read, mut hits) = (0, 0);
        for agent in &self.agents {
            (read, hits) = (read + agent.counts().read, hits + agent.counts().hits);
        }
        let mut outcome = self.outcome;
        outcome.latency_s = self.spent_ns as f64 / 1e9 / outcome.requests.max(1) as f64;
        outcome.local = hits as f64 / read.max(1) as f64;
        outcome
    }
}

/// Blocks whose bytes are in a message.
fn blocks_in(message: &ToAgent) -> usize {
    let ToAgent::Blocks { items, .. } = message else { return 0 };
    let is_data = |item: &&ReadItem| matches!(item, ReadItem::Data(..) | ReadItem::Plain(_));
    items.iter().filter(is_data).count()
}
