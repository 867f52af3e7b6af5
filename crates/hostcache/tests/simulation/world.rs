//! The world of a seed: a store, a server, three hosts with their guests, connections between all
//! of them, and faults.
//!
//! Each seed draws the protocol, policies, sizes and clocks, and then faults: connections break or
//! stall, hosts and the server are killed at any point (the store loses unflushed writes, block by
//! block), a sweep runs in two halves between other steps, peers send wrong bytes, the devices of
//! second levels answer late and in any order, fail, and bring wrong bytes. Volumes that no host
//! may use are deleted and made anew under their names; runs of the server have leases of different
//! durations; writes take effect late; the store has no room now and then. After every step at most
//! one host may serve a volume, and nobody one that was deleted. At the end the faults stop: every
//! guest's request must be answered, every block must have contents that its guest may see, a sweep
//! must leave no garbage, and hosts must not know contents that nothing names.

mod flash;
mod scene;
mod storage;

use crate::guest::Guest;
use crate::network::Connection;
use bytes::Bytes;
use flash::FlashDisk;
use scene::{BLOCKS, Clock, HOSTS, Scene, Sizes, bytes_of};
use std::collections::{BTreeMap, BTreeSet};
use storage::Storage;
use thermocline_hostcache::{
    Agent, BLOCK_BYTES, Event, HostId, Server, Ticket, ToAgent, ToPeer, ToServer, VolumeInfo,
    VolumeKey,
};
use thermocline_units::situations::met;
use thermocline_units::{Digest, Nanos, Rng};

const SERVER: HostId = HostId(99);
/// Number of rounds within which all requests must end once the faults have stopped.
const DRAIN_ROUNDS: u32 = 4000;
const PAIRS: [(usize, usize); 3] = [(0, 1), (0, 2), (1, 2)];

struct Volume {
    name: &'static str,
    guest: Guest,
    /// Host that its guest runs on.
    holder: Option<(usize, VolumeKey)>,
    /// Host that its guest wants to move to.
    moves_to: Option<usize>,
}

struct Host {
    agent: Agent,
    clock: Clock,
    server: Option<Connection>,
    keys: BTreeMap<VolumeKey, usize>,
    /// Device of its second level; it outlives the agent.
    flash: FlashDisk,
}

pub(crate) struct World {
    /// Every byte on every connection, every request to the store, and every event of a guest.
    digest: Digest,
    rng: Rng,
    now: Nanos,
    scene: Scene,
    storage: Storage,
    server: Option<Server>,
    server_clock: Clock,
    runs: u16,
    hosts: Vec<Host>,
    peers: Vec<Option<Connection>>,
    volumes: Vec<Volume>,
    strangers: bool,
    is_mended: bool,
    /// Random numbers of what was added later: without it a seed is what it was.
    more: Rng,
    /// Volumes that hosts have attached, and of those the ones that were deleted since.
    attached: BTreeSet<(usize, VolumeKey)>,
    deleted: BTreeSet<(usize, VolumeKey)>,
    /// Volumes that were deleted and not made again yet.
    missing: BTreeMap<usize, VolumeInfo>,
}

impl World {
    pub(crate) fn new(seed: u64, digest: &Digest) -> World {
        let mut rng = Rng::seeded(seed);
        let sizes = Sizes::drawn(&mut rng);
        let protocol = Scene::protocol(&mut rng);
        let (values, image) = Scene::image(&mut rng);
        let mut storage = Storage::new(&image);
        let volume = |name, blocks: &[u8]| Volume {
            name,
            guest: Guest::new(blocks),
            holder: None,
            moves_to: None,
        };
        let volumes =
            vec![volume("a", &image), volume("b", &image), volume("other", &[0; BLOCKS as usize])];
        let server_clock = Clock::drawn(&mut rng);
        let mut scene = Scene::drawn(&mut rng, protocol, sizes, values);
        // From numbers of its own: without it a seed is what it was.
        scene.draw_flash(&mut Rng::seeded(seed ^ 0xf1a5_4000));
        let mut more = Rng::seeded(seed ^ 0xde1e_7e00);
        scene.draw_versions(&mut more);
        storage.draw(&mut rng, &mut more);
        storage.draw_shortages(Rng::seeded(seed ^ 0xf011_0000));
        let mut world = World {
            digest: digest.clone(),
            scene,
            storage,
            server: None,
            server_clock,
            runs: 0,
            hosts: Vec::new(),
            peers: PAIRS.iter().map(|_| None).collect(),
            volumes,
            strangers: rng.below(4) == 0,
            is_mended: false,
            more,
            attached: BTreeSet::new(),
            deleted: BTreeSet::new(),
            missing: BTreeMap::new(),
            now: Nanos::from_secs(1),
            rng,
        };
        world.start_server();
        for host in 0..HOSTS {
            let clock = Clock::drawn(&mut world.rng);
            let agent = world.scene.agent(host, world.rng.next_u64());
            let flash = FlashDisk::new(seed << 2 | host as u64);
            let keys = BTreeMap::new();
            world.hosts.push(Host { agent, clock, server: None, keys, flash });
        }
        world
    }

    fn start_server(&mut self) {
        self.runs += 1;
        let (seed, lease) = (self.rng.next_u64(), self.more.next_u64());
        let settings = self.scene.server(self.runs, seed, lease);
        let server = Server::new(settings, self.server_clock.at(self.now));
        self.server = Some(server.expect("the settings fit"));
    }

    /// Runs the plan; panics when something is wrong.
    pub(crate) fn run(mut self) {
        let steps = 60 + self.rng.below(240);
        for _ in 0..steps {
            self.step();
            self.round();
        }
        self.mend();
        self.digest.fold(self.rng.next_u64());
    }

    fn step(&mut self) {
        self.now.0 += match self.rng.below(30) {
            0 => self.rng.below(900_000_000),
            1..=3 => self.rng.below(100_000_000),
            _ => self.rng.below(8_000_000),
        };
        match self.rng.below(100) {
            0..=9 => self.attach(),
            10..=79 => (0..1 + self.rng.below(3)).for_each(|_| self.ask()),
            80..=82 => self.stall(),
            83..=84 => self.break_one(),
            85 => self.kill_host(),
            86 => self.kill_server(),
            87..=94 => self.storage.sweep(),
            95..=96 => self.hand_over(),
            _ => {}
        }
        self.storage.fill_or_empty();
        match self.more.below(24) {
            0 | 1 => self.delete(),
            2 => self.make_anew(),
            _ => {}
        }
    }

    /// Makes volumes again that were deleted.
    fn make_anew(&mut self) {
        for (at, info) in std::mem::take(&mut self.missing) {
            self.storage.make_anew(self.volumes[at].name, &info);
        }
    }

    /// Deletes a volume if no host may use it. Another one of its name is made at once, or later.
    fn delete(&mut self) {
        let at = self.more.below(3) as usize;
        if self.missing.contains_key(&at) {
            return;
        }
        let Some(server) = &mut self.server else { return };
        let volume = &mut self.volumes[at];
        let (now, info) = (self.server_clock.at(self.now), self.storage.info(volume.name));
        if server.lease(now, &info).is_some() {
            return met("a volume in use was not deleted");
        }
        met("a volume was deleted and made anew");
        server.forget(now, info.volume);
        self.storage.delete(&info);
        self.missing.insert(at, info);
        volume.guest = Guest::new(&[0; BLOCKS as usize]);
        (volume.holder, volume.moves_to) = (None, None);
        for (host, key) in &self.attached {
            if self.hosts[*host].keys.get(key) == Some(&at) {
                met("a volume was deleted of which a host did not know that it had lost it");
                self.deleted.insert((*host, *key));
            }
        }
        if self.more.below(2) == 0 {
            self.make_anew();
        }
    }

    /// A host has a volume no more.
    fn gave_up(&mut self, host: usize, key: VolumeKey) {
        self.attached.remove(&(host, key));
        self.deleted.remove(&(host, key));
    }

    fn attach(&mut self) {
        let (host, volume) = (self.rng.below(HOSTS as u64) as usize, self.rng.below(3) as usize);
        self.attach_at(host, volume);
    }

    fn attach_at(&mut self, host: usize, volume: usize) {
        if self.hosts[host].keys.values().any(|known| *known == volume) {
            return;
        }
        let now = self.hosts[host].clock.at(self.now);
        let key = self.hosts[host].agent.attach(now, self.volumes[volume].name);
        self.hosts[host].keys.insert(key, volume);
    }

    /// Makes a random request of a guest.
    fn ask(&mut self) {
        let at = self.rng.below(3) as usize;
        let Some((host, key)) = self.volumes[at].holder else { return };
        if self.volumes[at].moves_to.is_some() {
            return;
        }
        let block = self.rng.below(u64::from(BLOCKS)) as u32;
        let count = (1 + self.rng.below(4) as u32).min(BLOCKS - block);
        let host = &mut self.hosts[host];
        let now = host.clock.at(self.now);
        let guest = &mut self.volumes[at].guest;
        match self.rng.below(20) {
            0..=9 => {
                if let Ok(ticket) = host.agent.read(now, key, block, count) {
                    guest.reads(ticket, block, count);
                }
            }
            10..=15 => {
                let values: Vec<u8> =
                    (0..count).map(|_| self.rng.below(self.scene.values + 1) as u8).collect();
                let bytes: Vec<u8> = values.iter().flat_map(|&value| bytes_of(value)).collect();
                let fua = self.rng.below(6) == 0;
                if let Ok(ticket) = host.agent.write(now, key, block, &bytes, fua) {
                    guest.writes(ticket, block, &values);
                }
            }
            16 => {
                if let Ok(ticket) = host.agent.zero(now, key, block, count, false) {
                    guest.writes(ticket, block, &vec![0; count as usize]);
                }
            }
            17 => {
                if let Some(bytes) = host.agent.read_cached(now, key, block) {
                    let value = bytes[0];
                    guest.reads(Ticket(0), block, 1);
                    guest.read(Ticket(0), &[value]);
                }
            }
            _ => {
                if let Ok(ticket) = host.agent.flush(now, key) {
                    guest.flushes(ticket);
                }
            }
        }
    }

    fn stall(&mut self) {
        let until = Nanos(self.now.0 + self.rng.below(4_000_000_000));
        let at = self.rng.below(6) as usize;
        let connection = match at {
            0..=2 => self.hosts[at].server.as_mut(),
            _ => self.peers[at - 3].as_mut(),
        };
        if let Some(connection) = connection {
            met("a partition began");
            connection.stalled_until = until;
        }
    }

    fn break_one(&mut self) {
        match self.rng.below(6) as usize {
            host @ 0..=2 => self.break_server_connection(host),
            pair => self.break_peers(pair - 3),
        }
    }

    fn break_server_connection(&mut self, host: usize) {
        if self.hosts[host].server.take().is_some() {
            met("a connection broke");
            self.hosts[host].agent.disconnected();
            if let Some(server) = &mut self.server {
                server.left(HostId(host as u16));
            }
        }
    }

    fn break_peers(&mut self, pair: usize) {
        if self.peers[pair].take().is_some() {
            let (one, other) = PAIRS[pair];
            for (host, lost) in [(one, other), (other, one)] {
                let now = self.hosts[host].clock.at(self.now);
                self.hosts[host].agent.peer_lost(now, HostId(lost as u16));
            }
        }
    }

    fn kill_host(&mut self) {
        met("a host died");
        let host = self.rng.below(HOSTS as u64) as usize;
        self.break_server_connection(host);
        let pairs = (0..3).filter(|&pair| PAIRS[pair].0 == host || PAIRS[pair].1 == host);
        pairs.collect::<Vec<_>>().into_iter().for_each(|pair| self.break_peers(pair));
        self.hosts[host].agent = self.scene.agent(host, self.rng.next_u64());
        self.hosts[host].keys.clear();
        self.attached.retain(|(of, _)| *of != host);
        self.deleted.retain(|(of, _)| *of != host);
        self.hosts[host].flash.crash();
        for volume in &mut self.volumes {
            if volume.holder.is_some_and(|(holder, _)| holder == host) {
                (volume.holder, volume.moves_to) = (None, None);
            }
        }
    }

    fn kill_server(&mut self) {
        if self.server.is_none() {
            return;
        }
        met("the server died");
        (0..HOSTS).for_each(|host| self.break_server_connection(host));
        self.server = None;
        self.storage.crash(&mut self.rng);
        self.volumes.iter_mut().for_each(|volume| volume.guest.server_crashed());
    }

    /// Moves a guest: it flushes, and when all is answered the volume goes to the other host.
    fn hand_over(&mut self) {
        let at = self.rng.below(3) as usize;
        let to = self.rng.below(HOSTS as u64) as usize;
        let volume = &mut self.volumes[at];
        let Some((host, key)) = volume.holder.filter(|(host, _)| *host != to) else { return };
        let now = self.hosts[host].clock.at(self.now);
        if volume.moves_to.is_none()
            && let Ok(ticket) = self.hosts[host].agent.flush(now, key)
        {
            volume.guest.flushes(ticket);
            volume.moves_to = Some(to);
        }
    }

    fn move_those_that_can(&mut self) {
        for at in 0..self.volumes.len() {
            let volume = &mut self.volumes[at];
            let (Some(to), Some((host, key))) = (volume.moves_to, volume.holder) else { continue };
            if volume.guest.is_idle() {
                (volume.moves_to, volume.holder) = (None, None);
                self.hosts[host].agent.detach(key, Some(HostId(to as u16)));
                self.hosts[host].keys.remove(&key);
                self.gave_up(host, key);
                self.attach_at(to, at);
            }
        }
    }

    /// Runs every machine and connection once.
    fn round(&mut self) {
        self.connect();
        self.tick();
        for host in 0..HOSTS {
            if self.carry_server(host).is_err() {
                self.break_server_connection(host);
            }
        }
        for pair in 0..PAIRS.len() {
            if self.carry_peers(pair).is_err() {
                self.break_peers(pair);
            }
        }
        self.run_store();
        self.run_flash();
        (0..HOSTS).for_each(|host| self.hear_events(host));
        self.move_those_that_can();
        self.check_writers();
    }

    fn connect(&mut self) {
        let sure = self.is_mended;
        if self.server.is_none() && (sure || self.rng.below(10) == 0) {
            self.start_server();
        }
        for host in 0..HOSTS {
            let wanted = self.server.is_some() && self.hosts[host].server.is_none();
            if wanted && (sure || self.rng.below(4) == 0) {
                let ends = [HostId(host as u16), SERVER];
                self.hosts[host].server =
                    Some(Connection::new(self.scene.protocol, ends, self.now));
            }
        }
        for (pair, (one, other)) in PAIRS.into_iter().enumerate() {
            if self.peers[pair].is_none() && (sure || self.rng.below(4) == 0) {
                let ends = [HostId(one as u16), HostId(other as u16)];
                self.peers[pair] = Some(Connection::new(self.scene.protocol, ends, self.now));
            }
        }
    }

    fn tick(&mut self) {
        for host in 0..HOSTS {
            let now = self.hosts[host].clock.at(self.now);
            if self.hosts[host].agent.tick(now).is_err() {
                self.break_server_connection(host);
            }
        }
    }

    fn carry_server(&mut self, at: usize) -> Result<(), String> {
        let Some(server) = &mut self.server else { return Ok(()) };
        let (id, server_now) = (HostId(at as u16), self.server_clock.at(self.now));
        let host = &mut self.hosts[at];
        let Some(connection) = &mut host.server else { return Ok(()) };
        let (now, text) =
            (host.clock.at(self.now), |error: &dyn std::fmt::Display| error.to_string());
        connection.carry(self.now, &mut self.rng, &self.digest).map_err(|error| text(&error))?;
        if connection.is_new(1) {
            // The one that is not entitled: the last host, to the second domain.
            let domains = if self.strangers && at == 2 { 1 } else { 3 };
            server.joined(id, domains).expect("few hosts");
        }
        if connection.is_new(0) {
            host.agent.connected(now);
        }
        while let Some(message) = connection.next::<ToServer>(1).map_err(|error| text(&error))? {
            server.hear(server_now, id, message).map_err(|error| text(&error))?;
        }
        while let Some(message) = connection.next::<ToAgent>(0).map_err(|error| text(&error))? {
            host.agent.hear(now, message).expect("the server keeps the rules");
        }
        if connection.told[0] {
            while let Some(message) = host.agent.next_message() {
                connection.ends[0].send(&message).map_err(|error| text(&error))?;
            }
        }
        while let Some((to, message)) = server.next_message() {
            if let Some(connection) = &mut self.hosts[usize::from(to.0)].server {
                connection.ends[1].send(&message).expect("little waits");
            }
        }
        Ok(())
    }

    fn carry_peers(&mut self, pair: usize) -> Result<(), String> {
        let Some(mut connection) = self.peers[pair].take() else { return Ok(()) };
        let carried = self.carry_between(pair, &mut connection);
        self.peers[pair] = Some(connection);
        carried
    }

    fn carry_between(&mut self, pair: usize, connection: &mut Connection) -> Result<(), String> {
        let (one, other) = PAIRS[pair];
        connection
            .carry(self.now, &mut self.rng, &self.digest)
            .map_err(|error| error.to_string())?;
        for (side, from, to) in [(0, one, other), (1, other, one)] {
            connection.is_new(side);
            let now = self.hosts[from].clock.at(self.now);
            while let Some(message) =
                connection.next::<ToPeer>(side).map_err(|error| error.to_string())?
            {
                let heard = self.hosts[from].agent.hear_peer(now, HostId(to as u16), message);
                heard.map_err(|error| error.to_string())?;
            }
        }
        // Messages leave in any order between peers, so all of a host's are taken.
        for from in [one, other] {
            self.send_to_peers(from, (pair, connection));
        }
        Ok(())
    }

    fn send_to_peers(&mut self, from: usize, (pair, connection): (usize, &mut Connection)) {
        while let Some((to, message)) = self.hosts[from].agent.next_peer_message() {
            let to = usize::from(to.0);
            let wanted = (from.min(to), from.max(to));
            let message = match message {
                ToPeer::Block { token, .. } if !self.is_mended && self.rng.below(40) == 0 => {
                    let wrong = bytes_of(1 + self.rng.below(self.scene.values) as u8);
                    ToPeer::Block { token, bytes: Bytes::from(wrong) }
                }
                message => message,
            };
            let at = PAIRS.iter().position(|known| *known == wanted).expect("two hosts");
            let side = usize::from(from > to);
            let connection =
                if at == pair { Some(&mut *connection) } else { self.peers[at].as_mut() };
            if let Some(connection) = connection.filter(|connection| connection.told[side]) {
                connection.ends[side].send(&message).expect("little waits");
            }
        }
    }

    fn run_store(&mut self) {
        let Some(server) = &mut self.server else { return };
        while let Some((op, request)) = server.next_store_request() {
            self.digest.fold_text(&(op, &request));
            self.storage.begin(op, request);
        }
        let now = self.server_clock.at(self.now);
        self.storage.answer(&mut self.rng, self.is_mended, |op, answer| {
            server.stored(now, op, answer);
        });
    }

    fn run_flash(&mut self) {
        for Host { agent, clock, flash, .. } in &mut self.hosts {
            let now = clock.at(self.now);
            while let Some((number, request)) = agent.next_flash_request() {
                flash.ask(number, request);
            }
            flash.answer(self.is_mended, |number, result| agent.flash_ended(now, number, result));
        }
    }

    fn hear_events(&mut self, host: usize) {
        while let Some(event) = self.hosts[host].agent.next_event() {
            self.digest.fold_text(&event);
            match event {
                Event::Attached { volume: key, blocks } => {
                    assert_eq!(blocks, BLOCKS);
                    self.attached.insert((host, key));
                    let volume = &mut self.volumes[self.hosts[host].keys[&key]];
                    volume.guest.comes();
                    (volume.holder, volume.moves_to) = (Some((host, key)), None);
                }
                Event::Refused { volume, .. } | Event::Lost { volume, .. } => {
                    let at = self.hosts[host].keys.remove(&volume).expect("it was attached");
                    self.gave_up(host, volume);
                    let state = &mut self.volumes[at];
                    if state.holder == Some((host, volume)) {
                        assert!(state.guest.is_idle(), "a request went with its volume");
                        (state.holder, state.moves_to) = (None, None);
                    }
                }
                Event::Read { ticket, bytes } => {
                    let values: Vec<u8> = bytes.chunks(BLOCK_BYTES).map(whole).collect();
                    if let Some(guest) = self.guest_of(host, ticket) {
                        guest.read(ticket, &values);
                    }
                }
                Event::Done { ticket } => {
                    if let Some(guest) = self.guest_of(host, ticket) {
                        guest.done(ticket);
                    }
                }
                Event::Failed { ticket, .. } => {
                    if let Some(guest) = self.guest_of(host, ticket) {
                        guest.failed(ticket);
                    }
                }
            }
        }
    }

    /// The guest that waits for a ticket; `None` if its volume is another host's by now.
    fn guest_of(&mut self, host: usize, ticket: Ticket) -> Option<&mut Guest> {
        let of_host = |volume: &&mut Volume| volume.holder.is_some_and(|(at, _)| at == host);
        let mut guests = self.volumes.iter_mut().filter(of_host).map(|volume| &mut volume.guest);
        guests.find(|guest| guest.waits_for(ticket))
    }

    fn check_writers(&self) {
        for volume in 0..self.volumes.len() {
            let serves = |host: &&Host| {
                let key = host.keys.iter().find(|(_, known)| **known == volume);
                let now = host.clock.at(self.now);
                key.is_some_and(|(key, _)| host.agent.may_serve(now, *key))
            };
            let writers = self.hosts.iter().filter(serves).count();
            assert!(writers <= 1, "{writers} hosts use volume {volume}");
        }
        for (host, key) in &self.deleted {
            let Host { agent, clock, .. } = &self.hosts[*host];
            let is_used = agent.may_serve(clock.at(self.now), *key);
            assert!(!is_used, "host {host} uses a volume that was deleted");
        }
    }

    /// Stops all faults, and checks that all requests end.
    fn mend(&mut self) {
        self.is_mended = true;
        self.storage.mend();
        self.make_anew();
        self.strangers = false;
        let stalled = self.hosts.iter_mut().map(|host| host.server.as_mut());
        for connection in stalled.chain(self.peers.iter_mut().map(Option::as_mut)).flatten() {
            connection.stalled_until = Nanos(0);
        }
        let mut asked = [false; 3];
        for _ in 0..DRAIN_ROUNDS {
            self.now.0 += 5_000_000;
            self.round();
            for (at, is_asked) in asked.iter_mut().enumerate() {
                self.finish_volume(at, is_asked);
            }
            let is_idle = |volume: &Volume| volume.guest.is_idle() && volume.moves_to.is_none();
            if asked == [true; 3] && self.volumes.iter().all(is_idle) {
                return self.check_store();
            }
        }
        let holders: Vec<_> = self.volumes.iter().map(|volume| volume.holder).collect();
        let hosts: Vec<_> = self.hosts.iter().map(|host| (&host.agent, &host.keys)).collect();
        panic!("not everything was answered: {holders:?} {hosts:?} {:?}", self.server);
    }

    fn finish_volume(&mut self, at: usize, is_asked: &mut bool) {
        let Some((host, key)) = self.volumes[at].holder else {
            *is_asked = false;
            let host = self.rng.below(2) as usize;
            return self.attach_at(host, at);
        };
        if *is_asked || self.volumes[at].moves_to.is_some() {
            return;
        }
        let host = &mut self.hosts[host];
        let now = host.clock.at(self.now);
        let guest = &mut self.volumes[at].guest;
        let (Ok(read), Ok(flush)) =
            (host.agent.read(now, key, 0, BLOCKS), host.agent.flush(now, key))
        else {
            return;
        };
        guest.reads(read, 0, BLOCKS);
        guest.flushes(flush);
        *is_asked = true;
    }

    fn check_store(&mut self) {
        for _ in 0..200 {
            self.now.0 += 5_000_000;
            self.round();
        }
        assert!(self.deleted.is_empty(), "hosts wait for volumes that were deleted");
        let server = self.server.as_ref().expect("it runs");
        assert_eq!(server.outstanding(), 0, "operations that nobody waits for");
        for host in &self.hosts {
            // A renewal may be under way.
            assert!(host.agent.outstanding() <= 1, "left: {:?}", host.agent);
        }
        self.storage.check();
        self.check_contents();
    }

    /// Checks that agents without volumes know only the contents that they have cached.
    fn check_contents(&mut self) {
        for Host { agent, keys, .. } in &mut self.hosts {
            keys.keys().for_each(|key| agent.detach(*key, None));
            agent.disconnected();
            let (cached, known, ..) = agent.memory();
            assert_eq!(known, cached as usize, "contents are known that nothing names: {agent:?}");
        }
    }
}

/// The value of a block, all of whose bytes must be the same.
fn whole(bytes: &[u8]) -> u8 {
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a block of several writes");
    bytes[0]
}
