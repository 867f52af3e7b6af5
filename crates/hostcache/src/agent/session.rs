//! Connections with the server: leases, maps, held contents.
//!
//! 1. When a connection begins ([`Agent::connected`]), all volumes are attached again, with their
//!    last fencing number. The held contents are reported to the server, in pieces.
//! 2. A lease counts from the time of its request, less a margin, so it ends here before it ends at
//!    the server. It is renewed after a third of its duration.
//! 3. In the protocol `manifest`, a volume is served when its map has been received: first the map
//!    of its image, once a host, then the differences. It is not requested again after a lost
//!    connection.
//! 4. When the connection is over ([`Agent::disconnected`]), all requests wait, and ids become
//!    invalid. Cached blocks are served until the lease is over.

use super::asked::Request;
use super::volume::{State, Volume};
use super::{Agent, AgentError, Event, Gone, VolumeKey};
use crate::map::{Known, Map, drop_leaves};
use crate::messages::{ContentId, HostId, ToServer, Why};
use std::collections::VecDeque;
use thermocline_units::Nanos;
use thermocline_units::situations::{met, met_if};

/// Contents that are reported in one message; few, so that hashing them does not delay requests.
const ANNOUNCED_AT_ONCE: usize = 64;

/// The map of an image, shared by its clones.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) map: Map,
    is_whole: bool,
    /// Volumes that wait for it.
    waiting: Vec<VolumeKey>,
}

/// Held contents that are not reported yet, and those that were reported and not named yet.
#[derive(Debug, Default)]
pub(super) struct Announcing {
    left: Vec<u32>,
    told: VecDeque<u32>,
}

/// A lease as the server granted it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Granted {
    pub(super) volume: u32,
    pub(super) fence: u64,
    pub(super) blocks: u32,
    pub(super) base: u32,
}

/// Version of a map, runs of numbers by their first block, and the first block of the next part.
type MapPart = (u64, Vec<(u32, Vec<u64>)>, Option<u32>);

impl Agent {
    /// Attaches a volume by name: an [`Event::Attached`] or [`Event::Refused`] follows.
    pub fn attach(&mut self, now: Nanos, name: &str) -> VolumeKey {
        self.next_volume += 1;
        let key = VolumeKey(self.next_volume);
        self.volumes.insert(key, Volume::new(name));
        if self.is_connected {
            self.ask_attach(now, key);
        }
        key
    }

    fn ask_attach(&mut self, now: Nanos, key: VolumeKey) {
        let (volume, fence) = (self.volumes[&key].name.clone(), self.volumes[&key].fence);
        let request = self.requests.note(now, Request::Attach(key));
        self.out.push_back(ToServer::Attach { request, volume, fence });
    }

    /// Gives a volume up, to another host if one is named. Its requests fail; flush before.
    pub fn detach(&mut self, key: VolumeKey, to: Option<HostId>) {
        let Some(volume) = self.volumes.get(&key) else { return };
        if self.is_connected && matches!(volume.state, State::Live | State::Loading) {
            let (volume, fence) = (volume.number, volume.fence);
            self.out.push_back(ToServer::Release { volume, fence, to });
        }
        self.drop_volume(key, Gone::Volume);
    }

    /// Notes that a connection with the server began.
    pub fn connected(&mut self, now: Nanos) {
        self.disconnected();
        self.is_connected = true;
        for key in self.volumes.keys().copied().collect::<Vec<_>>() {
            self.ask_attach(now, key);
        }
        if self.settings.protocol.tracker {
            self.announcing.left = self.contents.cached().collect();
            self.announce();
        }
    }

    /// Notes that the connection with the server is over.
    pub fn disconnected(&mut self) {
        self.is_connected = false;
        self.renew_at = None;
        self.out.clear();
        self.park_all();
        for (_, request) in std::mem::take(&mut *self.requests).into_values() {
            if let Request::Flush { volume, ticket, .. } = request
                && let Some(volume) = self.volumes.get_mut(&volume)
            {
                match ticket {
                    Some(ticket) => volume.flushes.push_back(ticket),
                    None => volume.is_flushing = false,
                }
            }
        }
        self.contents.clear_ids();
        self.announcing = Announcing::default();
        for (_, image) in std::mem::take(&mut self.images) {
            let contents = &mut self.contents;
            drop_leaves(image.map.into_leaves(), |content, by| contents.change_refs(content, by));
        }
        for volume in self.volumes.values_mut() {
            volume.state = if volume.has_map { State::Away } else { State::Asked };
            volume.map.settle();
        }
    }

    /// Reports the next held contents.
    fn announce(&mut self) {
        let mut hashes = Vec::new();
        while hashes.len() < ANNOUNCED_AT_ONCE {
            let Some(content) = self.announcing.left.pop() else { break };
            if let Some(bytes) = self.contents.peek(content) {
                hashes.push((self.settings.hash_of)(bytes));
                self.announcing.told.push_back(content);
                // It must stay the same content until its number is told.
                self.contents.change_refs(content, 1);
            }
        }
        if !hashes.is_empty() {
            met("a host told again what it holds");
            self.out.push_back(ToServer::Held { hashes });
        }
    }

    /// Handles the numbers of reported contents.
    pub(super) fn named(&mut self, ids: &[u64]) -> Result<(), AgentError> {
        if ids.is_empty() || ids.len() != self.announcing.told.len() {
            return Err(AgentError::NotAsked { what: "numbers of what is held" });
        }
        for &id in ids {
            let content = self.announcing.told.pop_front().expect("they are as many");
            let id = ContentId(id);
            let is_new = id.0 != 0 && self.contents.with_id(id).is_none();
            if is_new && self.contents.id(content).is_none() {
                self.contents.set_id(content, id);
            }
            if id.0 != 0 && !self.contents.is_cached(content) {
                self.contents.note_evicted(content);
            }
            self.contents.change_refs(content, -1);
        }
        self.announce();
        Ok(())
    }

    /// Handles a granted lease, a new one or the old one on a new connection.
    pub(super) fn attached(
        &mut self,
        now: Nanos,
        sent: Nanos,
        key: VolumeKey,
        granted: Granted,
        lease: Nanos,
    ) {
        let Granted { volume: number, fence, blocks, base } = granted;
        let until = self.lease_end(sent, lease);
        let renew_at = Nanos(sent.0.saturating_add(lease.0 / 3));
        let Some(volume) = self.volumes.get_mut(&key) else {
            self.out.push_back(ToServer::Release { volume: number, fence, to: None });
            return;
        };
        if volume.has_map && (volume.fence != fence || volume.blocks != blocks) {
            met("a host came back after another had had the volume");
            self.out.push_back(ToServer::Release { volume: number, fence, to: None });
            return self.lose(key, None);
        }
        volume.number = number;
        (volume.fence, volume.until, volume.base) = (fence, until, base);
        (volume.lease, volume.lease_since) = (Nanos(until.0.saturating_sub(sent.0)), sent);
        self.by_number.insert(number, key);
        self.renew_at = Some(self.renew_at.map_or(renew_at, |at| at.min(renew_at)));
        let volume = self.volumes.get_mut(&key).expect("it is there");
        if volume.has_map {
            return self.goes_on(now, key);
        }
        volume.blocks = blocks;
        volume.map = Map::new(blocks);
        if !self.settings.protocol.manifest || base == 0 {
            return self.live(now, key);
        }
        volume.state = State::Loading;
        match self.images.get_mut(&base) {
            Some(image) if image.is_whole => self.take_image(now, key),
            Some(image) => image.waiting.push(key),
            None => {
                let map = Map::new(blocks);
                self.images.insert(base, Image { map, is_whole: false, waiting: vec![key] });
                self.ask_map(now, key, true, 0);
            }
        }
    }

    fn lease_end(&self, sent: Nanos, lease: Nanos) -> Nanos {
        let held = lease.0 as f64 * (1.0 - self.settings.lease_margin.clamp(0.0, 1.0));
        Nanos(sent.0.saturating_add(held as u64))
    }

    /// Begins the use of a volume, unless its lease is already over.
    fn live(&mut self, now: Nanos, key: VolumeKey) {
        let volume = self.volumes.get_mut(&key).expect("it is attached");
        if now >= volume.until {
            met("a lease was over before it was used");
            volume.state = State::Asked;
            return self.ask_attach(now, key);
        }
        volume.has_map = true;
        let blocks = volume.blocks;
        self.events.push_back(Event::Attached { volume: key, blocks });
        self.goes_on(now, key);
    }

    /// Sends what waited for the server: first the writes that it may have lost, then the rest.
    fn goes_on(&mut self, now: Nanos, key: VolumeKey) {
        self.volumes.get_mut(&key).expect("it is attached").state = State::Live;
        self.write_again(now, key);
        self.resume(now, key);
    }

    fn resume(&mut self, now: Nanos, key: VolumeKey) {
        let Some(volume) = self.volumes.get_mut(&key).filter(|volume| volume.may_ask(now)) else {
            return;
        };
        let mut parked = std::mem::take(&mut volume.parked);
        parked.sort_by_key(|waiter| (waiter.ticket, waiter.block));
        self.seek(now, parked);
        self.begin_writes(now, key);
        self.send_flushes(now, key);
    }

    fn ask_map(&mut self, now: Nanos, key: VolumeKey, base: bool, block: u32) {
        let volume = self.volumes[&key].number;
        let request = self.requests.note(now, Request::Map { volume: key, base });
        self.out.push_back(ToServer::Map { request, volume, base, block });
    }

    /// Handles a part of a map.
    pub(super) fn entries(
        &mut self,
        now: Nanos,
        key: VolumeKey,
        base: bool,
        (version, runs, next): MapPart,
    ) -> Result<(), AgentError> {
        let Some(volume) = self.volumes.get(&key) else { return Ok(()) };
        let (blocks, image) = (volume.blocks, volume.base);
        let is_outside = |(block, ids): &(u32, Vec<u64>)| {
            u64::from(*block) + ids.len() as u64 > u64::from(blocks)
        };
        if runs.iter().any(is_outside) || next.is_some_and(|next| next >= blocks) {
            return Err(AgentError::NotAsked { what: "a map of more than the volume" });
        }
        for (first, ids) in runs {
            for (block, id) in (first..).zip(ids) {
                self.entry(key, image, base, block, id, version);
            }
        }
        match next {
            Some(next) => self.ask_map(now, key, base, next),
            None if base => {
                let image = self.images.get_mut(&image).expect("it is loaded");
                image.is_whole = true;
                for key in std::mem::take(&mut image.waiting) {
                    self.take_image(now, key);
                }
            }
            None => self.live(now, key),
        }
        Ok(())
    }

    fn entry(&mut self, key: VolumeKey, image: u32, base: bool, block: u32, id: u64, version: u64) {
        let mut known = Known::Zero;
        if id != 0 {
            let content = self.contents.with_id(ContentId(id)).unwrap_or_else(|| {
                let content = self.contents.add();
                self.contents.set_id(content, ContentId(id));
                content
            });
            known = Known::Content(content);
        }
        let contents = &mut self.contents;
        let map = if base {
            self.images.get_mut(&image).map(|image| &mut image.map)
        } else {
            self.volumes.get_mut(&key).map(|volume| &mut volume.map)
        };
        if let Some(map) = map.filter(|map| map.learns(block, version)) {
            map.set(block, known, |content, change| contents.change_refs(content, change));
        }
    }

    fn take_image(&mut self, now: Nanos, key: VolumeKey) {
        let Some(volume) = self.volumes.get_mut(&key) else { return };
        met("a clone took over its image's map");
        let image = self.images.get(&volume.base).expect("it is whole");
        volume.map.take_leaves(image.map.leaves());
        self.ask_map(now, key, false, 0);
    }

    /// Handles the renewal of all leases of this connection.
    pub(super) fn renewed(&mut self, now: Nanos, sent: Nanos) {
        for key in self.volumes.keys().copied().collect::<Vec<_>>() {
            let volume = self.volumes.get_mut(&key).expect("it is there");
            if matches!(volume.state, State::Live | State::Loading) && volume.lease_since <= sent {
                let was_over = !volume.may_serve(now);
                let until = Nanos(sent.0.saturating_add(volume.lease.0));
                volume.until = volume.until.max(until);
                met_if(was_over, "a lease that was over here was renewed");
                self.resume(now, key);
            }
        }
    }

    pub(super) fn refused(&mut self, now: Nanos, request: Request, why: Why) {
        match request {
            Request::Attach(key) => {
                let Some(volume) = self.volumes.get(&key) else { return };
                if volume.has_map {
                    return self.lose(key, None);
                }
                self.drop_volume(key, Gone::Server(why));
                self.events.push_back(Event::Refused { volume: key, why });
            }
            Request::Renew { .. } => {}
            Request::Read { volume, blocks, .. } => {
                if why == Why::Fenced {
                    self.lose(volume, None);
                }
                for wanted in blocks {
                    for ticket in wanted.waiters {
                        if self.reads.remove(&ticket).is_some() {
                            self.events.push_back(Event::Failed { ticket, why: Gone::Server(why) });
                        }
                    }
                    if let Some(content) = wanted.expects {
                        self.source_failed(now, content);
                    }
                }
            }
            Request::Flush { volume, .. } if why == Why::Fenced => self.lose(volume, None),
            Request::Flush { ticket: Some(ticket), .. } => {
                self.events.push_back(Event::Failed { ticket, why: Gone::Server(why) })
            }
            // What cannot be written or loaded cannot be promised any more.
            Request::Flush { volume, ticket: None, .. }
            | Request::Write { volume, .. }
            | Request::Map { volume, .. } => {
                self.lose(volume, Some(why).filter(|why| *why != Why::Fenced));
            }
        }
    }

    /// Gives up a volume, because another host has it (`why` is `None`) or because the server
    /// refused something essential.
    pub(super) fn lose(&mut self, key: VolumeKey, why: Option<Why>) {
        if self.volumes.contains_key(&key) {
            met_if(why.is_none(), "a volume was lost to another host");
            self.drop_volume(key, Gone::Volume);
            self.events.push_back(Event::Lost { volume: key, why });
        }
    }

    fn drop_volume(&mut self, key: VolumeKey, why: Gone) {
        let Some(mut volume) = self.volumes.remove(&key) else { return };
        if self.by_number.get(&volume.number) == Some(&key) {
            self.by_number.remove(&volume.number);
        }
        let flushing = self.requests.values().filter_map(|(_, request)| match request {
            Request::Flush { volume, ticket: Some(ticket), .. } if *volume == key => Some(*ticket),
            _ => None,
        });
        let mut tickets: Vec<_> = flushing.collect();
        tickets.extend(volume.waiting().into_iter().map(|(ticket, _)| ticket));
        let reads = self.reads.iter().filter(|(_, op)| op.volume == key);
        tickets.extend(reads.map(|(ticket, _)| *ticket));
        let writes = self.writes.iter().filter(|(_, op)| op.volume == key);
        tickets.extend(writes.map(|(ticket, _)| *ticket));
        tickets.sort_unstable();
        tickets.dedup();
        for ticket in tickets {
            self.reads.remove(&ticket);
            self.writes.remove(&ticket);
            self.events.push_back(Event::Failed { ticket, why });
        }
        for image in self.images.values_mut() {
            image.waiting.retain(|waiting| *waiting != key);
        }
        let contents = &mut self.contents;
        drop_leaves(volume.map.into_leaves(), |content, by| contents.change_refs(content, by));
    }

    /// Does the work that is due: time-outs and renewals.
    ///
    /// # Errors
    /// The server does not answer: the connection ends, and [`Agent::disconnected`] must be called.
    pub fn tick(&mut self, now: Nanos) -> Result<(), AgentError> {
        self.give_up_late(now);
        if self.is_connected && self.renew_at.is_some_and(|at| at <= now) {
            let request = self.requests.note(now, Request::Renew { sent: now });
            self.out.push_back(ToServer::Renew { request });
            let leases = self.volumes.values().filter(|volume| volume.fence > 0);
            let shortest = leases.map(|volume| volume.lease.0).min();
            self.renew_at = shortest.map(|lease| Nanos(now.0.saturating_add(lease / 3)));
        }
        let within = self.settings.answer_within;
        match self.requests.values().next() {
            Some((sent, _)) if now.saturating_sub(*sent) >= within => {
                Err(AgentError::Silent { since: now.saturating_sub(*sent) })
            }
            _ => Ok(()),
        }
    }

    /// Time at which [`Agent::tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let oldest = self.requests.values().next().map(|(sent, _)| *sent);
        let within = self.settings.answer_within.0;
        let silent = oldest.map(|sent| Nanos(sent.0.saturating_add(within)));
        let late = self.deadlines.front().map(|(at, _)| *at);
        [self.renew_at.filter(|_| self.is_connected), silent, late].into_iter().flatten().min()
    }
}
