//! Connections with the server: leases, maps, held contents.
//!
//! 1. When a connection begins ([`Session::connected`]), all volumes are attached again, with their
//!    last fencing number. The held contents are reported to the server, in pieces.
//! 2. A lease counts from the time of its request, less a margin, so it ends here before it ends at
//!    the server. It is renewed after a third of its duration.
//! 3. In the protocol `manifest`, a volume is served when its map has been received: first the map
//!    of its image, once a host, then the differences. It is not requested again after a lost
//!    connection.
//! 4. When the connection is over ([`Session::disconnected`]), all requests wait, and ids become
//!    invalid. Cached blocks are served until the lease is over.

use super::asked::Request;
use super::events::{AgentError, Event, Gone, VolumeKey};
use super::guests::Guests;
use super::state::AgentState;
use super::volume::{State, Volume};
use crate::map::{Known, Map, drop_leaves};
use crate::messages::{ContentId, HostId, ToServer, Why};
use std::collections::{BTreeMap, VecDeque};
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Contents that are reported in one message; few, so that hashing them does not delay requests.
const ANNOUNCED_AT_ONCE: usize = 64;

/// The map of an image, shared by its clones.
#[derive(Debug)]
struct Image {
    map: Map,
    blocks: u32,
    /// First block of the part that is requested.
    next: u32,
    is_whole: bool,
    /// Volumes that wait for it. It is requested in the name of the first one.
    waiting: Vec<VolumeKey>,
}

/// Held contents that are not reported yet, and those that were reported and not named yet.
#[derive(Debug, Default)]
struct Announcing {
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
    /// Duration from its request on.
    pub(super) lease: Nanos,
}

/// A map that the server sends.
#[derive(Debug, Clone, Copy)]
enum MapOf {
    Image(u32),
    Volume(VolumeKey),
}

/// Version of a map, runs of numbers by their first block, and the first block of the next part.
type MapPart = (u64, Vec<(u32, Vec<u64>)>, Option<u32>);

/// The connection with the server, and what it brings once for all volumes.
#[derive(Debug, Default)]
pub(super) struct Session {
    is_connected: bool,
    renew_at: Option<Nanos>,
    /// Time of the last message of the server on this connection.
    heard_at: Nanos,
    images: BTreeMap<u32, Image>,
    announcing: Announcing,
    next_volume: u32,
}

impl Session {
    /// Bytes of memory of the maps of images.
    pub(super) fn image_bytes(&self) -> u64 {
        self.images.values().map(|image| image.map.shared_bytes()).sum()
    }

    /// Attaches a volume by name.
    pub(super) fn attach(&mut self, state: &mut AgentState, now: Nanos, name: &str) -> VolumeKey {
        self.next_volume += 1;
        let key = VolumeKey(self.next_volume);
        state.volumes.insert(key, Volume::new(name));
        if self.is_connected {
            ask_attach(state, now, key);
        }
        key
    }

    /// Gives a volume up, to another host if one is named. Its requests fail.
    pub(super) fn detach(
        &mut self,
        state: &mut AgentState,
        guests: &mut Guests,
        key: VolumeKey,
        to: Option<HostId>,
    ) {
        let Some(volume) = state.volumes.get(&key) else { return };
        if self.is_connected && matches!(volume.state, State::Live | State::Loading) {
            let (volume, fence) = (volume.number, volume.fence);
            state.out.push_back(ToServer::Release { volume, fence, to });
        }
        self.drop_volume(state, guests, key, Gone::Volume);
    }

    /// Notes that a connection with the server began.
    pub(super) fn connected(&mut self, state: &mut AgentState, guests: &mut Guests, now: Nanos) {
        self.disconnected(state, guests);
        (self.is_connected, self.heard_at) = (true, now);
        for key in state.volumes.keys().copied().collect::<Vec<_>>() {
            ask_attach(state, now, key);
        }
        if state.settings.protocol.tracker {
            self.announcing.left = state.contents.cached().collect();
            self.announce(state);
        }
    }

    /// Notes that the server said something.
    pub(super) fn heard(&mut self, now: Nanos) {
        self.heard_at = self.heard_at.max(now);
    }

    /// Notes that the connection with the server is over.
    pub(super) fn disconnected(&mut self, state: &mut AgentState, guests: &mut Guests) {
        self.is_connected = false;
        self.renew_at = None;
        state.out.clear();
        guests.park_all(state);
        for (_, request) in std::mem::take(&mut *state.requests).into_values() {
            if let Request::Flush { volume, ticket, .. } = request
                && let Some(volume) = state.volumes.get_mut(&volume)
            {
                match ticket {
                    Some(ticket) => volume.flushes.push_back(ticket),
                    None => volume.is_flushing = false,
                }
            }
        }
        state.contents.clear_ids();
        for content in std::mem::take(&mut self.announcing).told {
            state.contents.change_refs(content, -1);
        }
        for image in self.images.keys().copied().collect::<Vec<_>>() {
            self.forget_image(state, image);
        }
        for volume in state.volumes.values_mut() {
            volume.state = if volume.has_map { State::Away } else { State::Asked };
            volume.map.settle();
        }
    }

    /// Reports the next held contents.
    fn announce(&mut self, state: &mut AgentState) {
        let mut hashes = Vec::new();
        while hashes.len() < ANNOUNCED_AT_ONCE {
            let Some(content) = self.announcing.left.pop() else { break };
            if let Some(bytes) = state.contents.peek(content) {
                hashes.push((state.settings.hash_of)(bytes));
                self.announcing.told.push_back(content);
                // It must stay the same content until its number is told.
                state.contents.change_refs(content, 1);
            }
        }
        if !hashes.is_empty() {
            met("a host told again what it holds");
            state.out.push_back(ToServer::Held { hashes });
        }
    }

    /// Handles the numbers of reported contents.
    pub(super) fn named(&mut self, state: &mut AgentState, ids: &[u64]) -> Result<(), AgentError> {
        if ids.is_empty() || ids.len() != self.announcing.told.len() {
            return Err(AgentError::NotAsked { what: "numbers of what is held" });
        }
        for &id in ids {
            let content = self.announcing.told.pop_front().expect("they are as many");
            let id = ContentId(id);
            let is_new = id.0 != 0 && state.contents.with_id(id).is_none();
            if is_new && state.contents.id(content).is_none() {
                state.contents.set_id(content, id);
            }
            if id.0 != 0 && !state.contents.is_cached(content) {
                state.contents.note_evicted(content);
            }
            state.contents.change_refs(content, -1);
        }
        self.announce(state);
        Ok(())
    }

    /// Handles a granted lease, a new one or the old one on a new connection.
    pub(super) fn attached(
        &mut self,
        state: &mut AgentState,
        guests: &mut Guests,
        now: Nanos,
        sent: Nanos,
        key: VolumeKey,
        granted: Granted,
    ) {
        let Granted { volume: number, fence, blocks, base, lease } = granted;
        let until = lease_end(state, sent, lease);
        let renew_at = Nanos(sent.0.saturating_add(lease.0 / 3));
        let Some(volume) = state.volumes.get_mut(&key) else {
            state.out.push_back(ToServer::Release { volume: number, fence, to: None });
            return;
        };
        if volume.has_map
            && let Err(why) = is_the_same(volume, number, fence, blocks)
        {
            state.out.push_back(ToServer::Release { volume: number, fence, to: None });
            return self.lose(state, guests, key, why);
        }
        // The server may give it another number than on the connection before.
        if state.by_number.get(&volume.number) == Some(&key) {
            state.by_number.remove(&volume.number);
        }
        volume.number = number;
        (volume.fence, volume.until, volume.base) = (fence, until, base);
        (volume.lease, volume.lease_since) = (Nanos(until.0.saturating_sub(sent.0)), sent);
        state.by_number.insert(number, key);
        self.renew_at = Some(self.renew_at.map_or(renew_at, |at| at.min(renew_at)));
        let volume = state.volumes.get_mut(&key).expect("it is there");
        if volume.has_map {
            return guests.go_on(state, now, key);
        }
        volume.blocks = blocks;
        begin_map(state, key);
        if !state.settings.protocol.manifest || base == 0 {
            return self.live(state, guests, now, key);
        }
        state.volumes.get_mut(&key).expect("it is there").state = State::Loading;
        match self.images.get_mut(&base) {
            Some(image) if image.is_whole => self.take_image(state, now, key),
            Some(image) => image.waiting.push(key),
            None => {
                let versions = state.settings.versions_max as usize;
                let (map, waiting) = (Map::new(blocks, versions), vec![key]);
                let image = Image { map, blocks, next: 0, is_whole: false, waiting };
                self.images.insert(base, image);
                self.load(state, now, base);
            }
        }
    }

    /// Begins the use of a volume, unless its lease is already over.
    fn live(&mut self, state: &mut AgentState, guests: &mut Guests, now: Nanos, key: VolumeKey) {
        let volume = state.volumes.get_mut(&key).expect("it is attached");
        if now >= volume.until {
            met("a lease was over before it was used");
            volume.state = State::Asked;
            return ask_attach(state, now, key);
        }
        volume.has_map = true;
        let blocks = volume.blocks;
        state.events.push_back(Event::Attached { volume: key, blocks });
        guests.go_on(state, now, key);
    }

    /// Handles a part of a map.
    pub(super) fn entries(
        &mut self,
        state: &mut AgentState,
        guests: &mut Guests,
        now: Nanos,
        key: VolumeKey,
        image: Option<u32>,
        (version, runs, next): MapPart,
    ) -> Result<(), AgentError> {
        // The part of an image is for all its clones, even if the one that requested it is gone.
        let blocks = match image {
            Some(image) => self.images.get(&image).map(|image| image.blocks),
            None => state.volumes.get(&key).map(|volume| volume.blocks),
        };
        let Some(blocks) = blocks else { return Ok(()) };
        let is_outside = |(block, ids): &(u32, Vec<u64>)| {
            u64::from(*block) + ids.len() as u64 > u64::from(blocks)
        };
        if runs.iter().any(is_outside) || next.is_some_and(|next| next >= blocks) {
            return Err(AgentError::NotAsked { what: "a map of more than the volume" });
        }
        let map = image.map_or(MapOf::Volume(key), MapOf::Image);
        for (first, ids) in runs {
            for (block, id) in (first..).zip(ids) {
                self.entry(state, map, block, id, version);
            }
        }
        match (next, image) {
            (Some(next), Some(image)) => {
                self.images.get_mut(&image).expect("it is being loaded").next = next;
                self.load(state, now, image);
            }
            (None, Some(image)) => {
                let image = self.images.get_mut(&image).expect("it is being loaded");
                image.is_whole = true;
                for key in std::mem::take(&mut image.waiting) {
                    self.take_image(state, now, key);
                }
            }
            (Some(next), None) => ask_map(state, now, key, None, next),
            (None, None) => self.live(state, guests, now, key),
        }
        Ok(())
    }

    /// Requests the next part of an image's map in the name of a volume that waits for it, or
    /// forgets the image if none does.
    fn load(&mut self, state: &mut AgentState, now: Nanos, number: u32) {
        let Some(image) = self.images.get(&number) else { return };
        if let Some(&key) = image.waiting.first() {
            return ask_map(state, now, key, Some(number), image.next);
        }
        met("nobody waited any more for an image's map");
        self.forget_image(state, number);
    }

    fn forget_image(&mut self, state: &mut AgentState, number: u32) {
        let Some(image) = self.images.remove(&number) else { return };
        let contents = &mut state.contents;
        drop_leaves(image.map.into_leaves(), |content, by| contents.change_refs(content, by));
    }

    fn entry(&mut self, state: &mut AgentState, map: MapOf, block: u32, id: u64, version: u64) {
        let mut known = Known::Zero;
        if id != 0 {
            let content = state.contents.with_id(ContentId(id)).unwrap_or_else(|| {
                let content = state.contents.add();
                state.contents.set_id(content, ContentId(id));
                content
            });
            known = Known::Content(content);
        }
        let contents = &mut state.contents;
        let map = match map {
            MapOf::Image(image) => self.images.get_mut(&image).map(|image| &mut image.map),
            MapOf::Volume(key) => state.volumes.get_mut(&key).map(|volume| &mut volume.map),
        };
        if let Some(map) = map.filter(|map| map.learns(block, version)) {
            map.set(block, known, |content, change| contents.change_refs(content, change));
        }
    }

    fn take_image(&mut self, state: &mut AgentState, now: Nanos, key: VolumeKey) {
        if !state.volumes.contains_key(&key) {
            return;
        }
        met("a clone took over its image's map");
        // Pushes may have named blocks already. The two maps name them as well.
        begin_map(state, key);
        let volume = state.volumes.get_mut(&key).expect("it is there");
        let image = self.images.get(&volume.base).expect("it is whole");
        volume.map.take_leaves(image.map.leaves());
        ask_map(state, now, key, None, 0);
    }

    /// Handles the renewal of all leases of this connection.
    pub(super) fn renewed(
        &mut self,
        state: &mut AgentState,
        guests: &mut Guests,
        now: Nanos,
        sent: Nanos,
    ) {
        for key in state.volumes.keys().copied().collect::<Vec<_>>() {
            let volume = state.volumes.get_mut(&key).expect("it is there");
            if matches!(volume.state, State::Live | State::Loading) && volume.lease_since <= sent {
                let was_over = !volume.may_serve(now);
                let until = Nanos(sent.0.saturating_add(volume.lease.0));
                volume.until = volume.until.max(until);
                met_if(was_over, "a lease that was over here was renewed");
                guests.resume(state, now, key);
            }
        }
    }

    pub(super) fn refused(
        &mut self,
        state: &mut AgentState,
        guests: &mut Guests,
        now: Nanos,
        request: Request,
        why: Why,
    ) {
        match request {
            Request::Attach(key) => {
                let Some(volume) = state.volumes.get(&key) else { return };
                if volume.has_map {
                    met_if(why == Why::NoVolume, "a host came back to a volume that is gone");
                    return self.lose(state, guests, key, Some(why).filter(|_| why != Why::InUse));
                }
                self.drop_volume(state, guests, key, Gone::Server(why));
                state.events.push_back(Event::Refused { volume: key, why });
            }
            Request::Renew { .. } => {}
            Request::Read { volume, block, blocks, .. } => {
                if why == Why::Fenced {
                    self.lose(state, guests, volume, None);
                }
                guests.reads.refused(state, now, (volume, block), blocks, why);
            }
            // It failed with its volume.
            Request::Flush { volume, .. } if !state.volumes.contains_key(&volume) => {}
            Request::Flush { volume, ticket, .. } if why == Why::Fenced => {
                // It is no request any more, so it does not fail with the volume.
                let ticket = ticket.filter(|_| !mutant("a_fenced_flush_is_not_answered"));
                if let Some(ticket) = ticket {
                    met("a flush was refused because another host has the volume");
                    state.events.push_back(Event::Failed { ticket, why: Gone::Volume });
                }
                self.lose(state, guests, volume, None)
            }
            Request::Flush { ticket: Some(ticket), .. } => {
                state.events.push_back(Event::Failed { ticket, why: Gone::Server(why) })
            }
            // What cannot be written or loaded cannot be promised any more.
            Request::Flush { volume, ticket: None, .. }
            | Request::Write { volume, .. }
            | Request::Map { volume, image: None } => {
                self.lose(state, guests, volume, Some(why).filter(|why| *why != Why::Fenced));
            }
            Request::Map { volume, image: Some(image) } => {
                self.lose(state, guests, volume, Some(why).filter(|why| *why != Why::Fenced));
                met("a volume was lost while it loaded an image's map");
                self.load(state, now, image);
            }
        }
    }

    /// Gives up a volume, because it was taken from this host (`why` is `None`) or because the
    /// server refused something essential.
    pub(super) fn lose(
        &mut self,
        state: &mut AgentState,
        guests: &mut Guests,
        key: VolumeKey,
        why: Option<Why>,
    ) {
        if state.volumes.contains_key(&key) {
            met_if(why.is_none(), "a volume was taken from a host");
            self.drop_volume(state, guests, key, Gone::Volume);
            state.events.push_back(Event::Lost { volume: key, why });
        }
    }

    fn drop_volume(
        &mut self,
        state: &mut AgentState,
        guests: &mut Guests,
        key: VolumeKey,
        why: Gone,
    ) {
        let Some(mut volume) = state.volumes.remove(&key) else { return };
        if state.by_number.get(&volume.number) == Some(&key) {
            state.by_number.remove(&volume.number);
        }
        let flushing = state.requests.values().filter_map(|(_, request)| match request {
            Request::Flush { volume, ticket: Some(ticket), .. } if *volume == key => Some(*ticket),
            _ => None,
        });
        let mut tickets: Vec<_> = flushing.collect();
        tickets.extend(volume.waiting().into_iter().map(|(ticket, _)| ticket));
        guests.give_up(state, key, tickets, why);
        for image in self.images.values_mut() {
            image.waiting.retain(|waiting| *waiting != key);
        }
        let contents = &mut state.contents;
        drop_leaves(volume.map.into_leaves(), |content, by| contents.change_refs(content, by));
        self.leave_image(state, volume.base);
    }

    /// Forgets the map of an image if no volume is based on it any more.
    fn leave_image(&mut self, state: &mut AgentState, image: u32) {
        let is_whole = self.images.get(&image).is_some_and(|image| image.is_whole);
        if is_whole && !state.volumes.values().any(|volume| volume.base == image) {
            met("the last volume of an image left");
            self.forget_image(state, image);
        }
    }

    /// Renews the leases when it is time.
    ///
    /// # Errors
    /// The server does not answer.
    pub(super) fn tick(&mut self, state: &mut AgentState, now: Nanos) -> Result<(), AgentError> {
        if self.is_connected && self.renew_at.is_some_and(|at| at <= now) {
            let request = state.requests.note(now, Request::Renew { sent: now });
            // Before all that waits: a lease must not end because much is to be sent.
            state.out.push_front(ToServer::Renew { request });
            let leases = state.volumes.values().filter(|volume| volume.fence > 0);
            let shortest = leases.map(|volume| volume.lease.0).min();
            self.renew_at = shortest.map(|lease| Nanos(now.0.saturating_add(lease / 3)));
        }
        match self.silent_from(state) {
            Some(from) if now.saturating_sub(from) >= state.settings.answer_within => {
                Err(AgentError::Silent { since: now.saturating_sub(from) })
            }
            _ => Ok(()),
        }
    }

    /// Time since which the server owes an answer and says nothing. A request may wait long before
    /// it leaves when there is much to be sent; so a server that answers others is not silent.
    fn silent_from(&self, state: &AgentState) -> Option<Nanos> {
        let oldest = state.requests.values().next().map(|(sent, _)| *sent);
        oldest.map(|sent| sent.max(self.heard_at))
    }

    /// Time at which [`Session::tick`] has something to do.
    pub(super) fn next_deadline(&self, state: &AgentState) -> Option<Nanos> {
        let within = state.settings.answer_within.0;
        let silent = self.silent_from(state).map(|from| Nanos(from.0.saturating_add(within)));
        [self.renew_at.filter(|_| self.is_connected), silent].into_iter().flatten().min()
    }
}

fn ask_attach(state: &mut AgentState, now: Nanos, key: VolumeKey) {
    let (volume, fence) = (state.volumes[&key].name.clone(), state.volumes[&key].fence);
    let request = state.requests.note(now, Request::Attach(key));
    state.out.push_back(ToServer::Attach { request, volume, fence });
}

/// Checks that a granted volume is the one whose map and writes are here, and that nobody else has
/// had it since.
///
/// # Errors
/// The reason why it is lost, as in [`Event::Lost`].
fn is_the_same(volume: &Volume, number: u32, fence: u64, blocks: u32) -> Result<(), Option<Why>> {
    // Another volume of the same name may have the same fencing number and the same size.
    if volume.number != number && !mutant("a_volume_is_known_by_its_name") {
        met("a host came back to another volume of the same name");
        return Err(Some(Why::NoVolume));
    }
    if volume.fence != fence || volume.blocks != blocks {
        met("a host came back after another had had the volume");
        return Err(None);
    }
    Ok(())
}

/// End of a lease by this host's clock.
fn lease_end(state: &AgentState, sent: Nanos, lease: Nanos) -> Nanos {
    let held = lease.0 as f64 * (1.0 - state.settings.lease_margin.clamp(0.0, 1.0));
    Nanos(sent.0.saturating_add(held as u64))
}

/// Gives a volume an empty map. The contents of the old one, which was not loaded to its end, are
/// forgotten.
fn begin_map(state: &mut AgentState, key: VolumeKey) {
    let versions = state.settings.versions_max as usize;
    let volume = state.volumes.get_mut(&key).expect("it is attached");
    let old = std::mem::replace(&mut volume.map, Map::new(volume.blocks, versions));
    let contents = &mut state.contents;
    drop_leaves(old.into_leaves(), |content, by| contents.change_refs(content, by));
}

fn ask_map(state: &mut AgentState, now: Nanos, key: VolumeKey, image: Option<u32>, block: u32) {
    let (volume, base) = (state.volumes[&key].number, image.is_some());
    let request = state.requests.note(now, Request::Map { volume: key, image });
    state.out.push_back(ToServer::Map { request, volume, base, block });
}
