//! A host's state machine: one cache of content for all its guests.
//!
//! 1. A guest's read ([`Agent::read`]) is answered from the cache where the volume's map names
//!    cached content. The other blocks are requested, once for all reads that want them
//!    (`reading`).
//! 2. A write (`writing`) changes map and cache at once. It is kept until a flush is answered that
//!    was sent after the write's answer, because it is sent again to a server that crashed. Writes
//!    to one block wait for each other.
//! 3. `session` handles the server's arrival and departure: leases, maps, held contents.
//!
//! The parts stand on each other: `state`, which decides nothing; `reading`; `writing` above it;
//! `guests`, which is both; `session` above them. `peers` looks at the state and at
//! what `reading` waits for. The agent routes.
//!
//! A volume serves its guest while its lease holds. When the lease is over, requests wait. When
//! another host has the volume, they fail, and the volume is lost.

mod asked;
mod contents;
pub(crate) mod events;
mod guests;
mod peers;
mod reading;
mod session;
mod state;
mod volume;
mod writing;

use crate::IDS_MAX;
use crate::flash::{FlashCounts, FlashFailed, FlashRequest};
use crate::messages::{ContentId, HostId, ReadItem, ToAgent, ToPeer, ToServer};
use crate::settings::{AgentSettings, SettingsError};
use asked::{Request, Wanted};
use bytes::Bytes;
use events::{AgentCounts, AgentError, Event, Gone, Ticket, VolumeKey};
use guests::Guests;
use peers::Peers;
use session::Session;
use state::AgentState;
use thermocline_units::Nanos;
use thermocline_units::situations::met;
use writing::NewWrite;

/// State machine of a host.
pub struct Agent {
    state: AgentState,
    guests: Guests,
    session: Session,
    peers: Peers,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (reads, writes) = (self.guests.reads.len(), self.guests.writes.len());
        let (asked, (awaited, deferred)) = (self.state.requests.len(), self.guests.reads.awaited());
        let (host, volumes) = (self.state.settings.host, self.state.volumes.len());
        write!(f, "Agent({host:?}, {volumes} volumes, ")?;
        write!(f, "{reads} reads, {writes} writes, {asked} asked, {awaited} awaited, ")?;
        write!(f, "{deferred} deferred)")
    }
}

impl Agent {
    /// An agent with an empty cache, which is not connected.
    ///
    /// # Errors
    /// A setting does not fit.
    pub fn new(settings: AgentSettings) -> Result<Agent, SettingsError> {
        Ok(Agent {
            state: AgentState::new(settings)?,
            guests: Guests::default(),
            session: Session::default(),
            peers: Peers::default(),
        })
    }

    // Requests of guests.

    /// Reads blocks: an [`Event::Read`] or [`Event::Failed`] follows, perhaps at once.
    ///
    /// # Errors
    /// The range cannot be read; nothing was changed.
    pub fn read(
        &mut self,
        now: Nanos,
        volume: VolumeKey,
        block: u32,
        count: u32,
    ) -> Result<Ticket, Gone> {
        self.guests.check(&self.state, volume, block, count)?;
        Ok(self.guests.reads.read(&mut self.state, now, volume, block, count))
    }

    /// Bytes of a cached block if the lease holds. This is the fast path, without a request.
    #[inline]
    pub fn read_cached(&mut self, now: Nanos, volume: VolumeKey, block: u32) -> Option<&[u8]> {
        let state = &mut self.state;
        let volume = state.volumes.get(&volume)?;
        if !volume.may_serve(now) {
            return None;
        }
        let crate::map::Known::Content(content) = volume.map.get(block) else { return None };
        let bytes = state.contents.get(content)?;
        state.counts.read += 1;
        state.counts.hits += 1;
        Some(bytes)
    }

    /// Writes whole blocks: an [`Event::Done`] or [`Event::Failed`] follows. With `fua` they are
    /// durable at that time.
    ///
    /// # Errors
    /// The range cannot be written; nothing was changed.
    ///
    /// # Panics
    /// When `bytes` are not whole blocks.
    pub fn write(
        &mut self,
        now: Nanos,
        volume: VolumeKey,
        block: u32,
        bytes: &[u8],
        fua: bool,
    ) -> Result<Ticket, Gone> {
        let size = self.state.settings.block_bytes;
        assert!(bytes.len().is_multiple_of(size), "writes are of whole blocks");
        let of_zeroes = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
        let block_of = |bytes: &[u8]| (!of_zeroes(bytes)).then(|| Bytes::copy_from_slice(bytes));
        self.guests.check(&self.state, volume, block, (bytes.len() / size) as u32)?;
        let blocks = bytes.chunks(size).map(block_of).collect();
        Ok(self.queue_write(now, NewWrite { volume, block, blocks, fua }))
    }

    /// Makes blocks zero: TRIM and WRITE ZEROES.
    ///
    /// # Errors
    /// As [`Agent::write`].
    pub fn zero(
        &mut self,
        now: Nanos,
        volume: VolumeKey,
        block: u32,
        count: u32,
        fua: bool,
    ) -> Result<Ticket, Gone> {
        self.guests.check(&self.state, volume, block, count)?;
        let blocks = vec![None; count as usize];
        Ok(self.queue_write(now, NewWrite { volume, block, blocks, fua }))
    }

    fn queue_write(&mut self, now: Nanos, write: NewWrite) -> Ticket {
        let Guests { reads, writes } = &mut self.guests;
        writes.write(&mut self.state, reads, now, write)
    }

    /// Makes all writes that were answered durable: an [`Event::Done`] or [`Event::Failed`]
    /// follows.
    ///
    /// # Errors
    /// The volume cannot be flushed; nothing was changed.
    pub fn flush(&mut self, now: Nanos, volume: VolumeKey) -> Result<Ticket, Gone> {
        self.guests.check(&self.state, volume, 0, 1)?;
        Ok(self.guests.writes.flush(&mut self.state, now, volume))
    }

    /// Attaches a volume by name: an [`Event::Attached`] or [`Event::Refused`] follows.
    pub fn attach(&mut self, now: Nanos, name: &str) -> VolumeKey {
        self.session.attach(&mut self.state, now, name)
    }

    /// Gives a volume up, to another host if one is named. Its requests fail; flush before.
    pub fn detach(&mut self, key: VolumeKey, to: Option<HostId>) {
        self.session.detach(&mut self.state, &mut self.guests, key, to);
    }

    // Events, messages and state for the owner.

    /// The next event; `None` if there is none.
    pub fn next_event(&mut self) -> Option<Event> {
        self.state.events.pop_front()
    }

    /// A renewal of the leases, if it is the next message: it goes whatever else is unanswered,
    /// because leases end while nobody renews them.
    pub fn next_renewal(&mut self) -> Option<ToServer> {
        let is_next = matches!(self.state.out.front(), Some(ToServer::Renew { .. }));
        is_next.then(|| self.state.out.pop_front())?
    }

    /// The next message to the server. Evicted contents are reported before the next message that
    /// is sent anyway, or when there are many.
    pub fn next_message(&mut self) -> Option<ToServer> {
        let state = &mut self.state;
        let tells = state.settings.protocol.tracker;
        let evicted = state.contents.evicted();
        if tells && ((evicted > 0 && !state.out.is_empty()) || evicted >= IDS_MAX) {
            return Some(ToServer::Evicted { ids: state.contents.take_evicted(IDS_MAX) });
        }
        state.out.pop_front()
    }

    /// The next message to another host.
    pub fn next_peer_message(&mut self) -> Option<(HostId, ToPeer)> {
        self.peers.next_message(&mut self.state, &mut self.guests.reads)
    }

    /// The next request to the device of the second level, with a number by which
    /// [`Agent::flash_ended`] knows it.
    pub fn next_flash_request(&mut self) -> Option<(u64, FlashRequest)> {
        self.state.contents.next_flash_request()
    }

    /// Takes the answer to a request of the second level: the bytes of a read (any for a write), or
    /// a failure. An answer to nothing is dropped.
    pub fn flash_ended(&mut self, now: Nanos, number: u64, result: Result<Bytes, FlashFailed>) {
        self.guests.reads.flash_ended(&mut self.state, now, number, result);
    }

    /// Counts of the second level; `None`: there is none.
    pub fn flash_counts(&self) -> Option<FlashCounts> {
        self.state.contents.flash_counts()
    }

    /// Number of unanswered requests of guests and to the server, and of awaited contents.
    pub fn outstanding(&self) -> usize {
        let (awaited, deferred) = self.guests.reads.awaited();
        let guests = self.guests.reads.len() + self.guests.writes.len();
        guests + self.state.requests.len() + awaited + deferred
    }

    /// Counts since the agent began.
    pub fn counts(&self) -> AgentCounts {
        self.state.counts
    }

    /// Number of cached blocks, number of known contents, and memory in bytes without the blocks
    /// themselves: that of contents and cache, and that of maps.
    pub fn memory(&self) -> (u32, usize, u64, u64) {
        let (cached, known, bytes) = self.state.contents.memory();
        let volumes: u64 = self.state.volumes.values().map(|volume| volume.map.bytes()).sum();
        (cached, known, bytes, volumes + self.session.image_bytes())
    }

    /// True while a volume's lease holds here: its guest may be served.
    pub fn may_serve(&self, now: Nanos, volume: VolumeKey) -> bool {
        self.state.volumes.get(&volume).is_some_and(|volume| volume.may_serve(now))
    }

    /// Fencing number of a volume's lease; 0: none.
    pub fn fence(&self, volume: VolumeKey) -> u64 {
        self.state.volumes.get(&volume).map_or(0, |volume| volume.fence)
    }

    /// Time at which [`Agent::tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let late = [self.guests.reads.next_deadline(), self.peers.next_deadline()];
        let session = [
            self.session.next_deadline(&self.state),
            self.guests.writes.next_deadline(&self.state),
        ];
        session.into_iter().chain(late).flatten().min()
    }

    // Connections.

    /// Notes that a connection with the server began.
    pub fn connected(&mut self, now: Nanos) {
        self.session.connected(&mut self.state, &mut self.guests, now);
    }

    /// Notes that the connection with the server is over.
    pub fn disconnected(&mut self) {
        self.session.disconnected(&mut self.state, &mut self.guests);
    }

    /// Does the work that is due: time-outs, renewals, and writes that found no room.
    ///
    /// # Errors
    /// The server does not answer: the connection ends, and [`Agent::disconnected`] must be called.
    pub fn tick(&mut self, now: Nanos) -> Result<(), AgentError> {
        self.guests.reads.give_up_late(&mut self.state, now);
        self.peers.give_up_late(&mut self.state, now);
        self.guests.writes.look_for_room(&mut self.state, now);
        self.session.tick(&mut self.state, now)
    }

    /// Takes a message of another host, whose number is known from its certificate.
    ///
    /// # Errors
    /// It sent wrong bytes, or too many unexpected blocks: its connection ends, and
    /// [`Agent::peer_lost`] must be called.
    pub fn hear_peer(
        &mut self,
        now: Nanos,
        from: HostId,
        message: ToPeer,
    ) -> Result<(), AgentError> {
        let (ToPeer::Block { token, .. } | ToPeer::Gone { token }) = message;
        match self.guests.reads.expects(token, from) {
            true => self.guests.reads.peer_answered(&mut self.state, now, from, message),
            false => self.peers.came_early(from, message),
        }
    }

    /// Notes that the connection with another host is over. The contents that it was to send are
    /// requested again.
    pub fn peer_lost(&mut self, now: Nanos, host: HostId) {
        self.peers.lost(&mut self.state, host);
        self.guests.reads.peer_lost(&mut self.state, now, host);
    }

    /// Takes a message of the server.
    ///
    /// # Errors
    /// The server broke a rule: its connection ends, and [`Agent::disconnected`] must be called.
    pub fn hear(&mut self, now: Nanos, message: ToAgent) -> Result<(), AgentError> {
        self.session.heard(now);
        self.take(now, message)
    }

    /// Takes the answer to a read, and what other hosts had sent before it said that they would.
    fn take_blocks(
        &mut self,
        now: Nanos,
        answer: reading::Answer,
        blocks: Vec<Wanted>,
        items: Vec<ReadItem>,
    ) -> Result<(), AgentError> {
        let Agent { state, guests, peers, .. } = self;
        let tokens = reading::tokens(&items);
        guests.reads.blocks(state, now, answer, blocks, items)?;
        for (from, token) in tokens {
            let early = peers.take_early(from, token);
            if let Some(message) = early.filter(|_| guests.reads.expects(token, from)) {
                met("a peer sent a block before the server named it");
                // Wrong bytes have been asked for anew. That host's connection is not at hand here.
                let _ = guests.reads.peer_answered(state, now, from, message);
            }
        }
        Ok(())
    }

    fn serve(&mut self, now: Nanos, wanted: (u64, ContentId, HostId)) {
        self.peers.serve(&mut self.state, &mut self.guests.reads, now, wanted);
    }

    fn take(&mut self, now: Nanos, message: ToAgent) -> Result<(), AgentError> {
        let wrong = |what| Err(AgentError::NotAsked { what });
        let Agent { state, guests, session, .. } = self;
        match message {
            ToAgent::Attached { request, volume, fence, blocks, base, lease } => {
                match state.requests.remove(&request) {
                    Some((sent, Request::Attach(key))) => {
                        let lease = Nanos(lease);
                        let granted = session::Granted { volume, fence, blocks, base, lease };
                        session.attached(state, guests, now, sent, key, granted);
                    }
                    _ => return wrong("a lease"),
                }
            }
            ToAgent::Renewed { request } => match state.requests.remove(&request) {
                Some((_, Request::Renew { sent })) => session.renewed(state, guests, now, sent),
                _ => return wrong("a renewal"),
            },
            ToAgent::Refused { request, why } => match state.requests.remove(&request) {
                Some((_, request)) => session.refused(state, guests, now, request, why),
                None => return wrong("a refusal"),
            },
            ToAgent::Lost { volume } => {
                if let Some(&key) = state.by_number.get(&volume) {
                    session.lose(state, guests, key, None);
                }
            }
            ToAgent::Blocks { request, version, items } => match state.requests.remove(&request) {
                Some((_, Request::Read { volume, block, how, blocks }))
                    if blocks.len() == items.len() =>
                {
                    let answer = reading::Answer { request, volume, block, how, version };
                    return self.take_blocks(now, answer, blocks, items);
                }
                _ => return wrong("a read"),
            },
            ToAgent::Written { request, version, ids } => match state.requests.remove(&request) {
                Some((_, Request::Write { volume, block, count })) if count == ids.len() => {
                    guests.writes.written(
                        state,
                        &mut guests.reads,
                        now,
                        (volume, block),
                        version,
                        &ids,
                    );
                }
                _ => return wrong("a write"),
            },
            ToAgent::Flushed { request } => match state.requests.remove(&request) {
                Some((_, Request::Flush { volume, ticket, stamp })) => {
                    guests.writes.flushed(state, &mut guests.reads, now, volume, ticket, stamp);
                }
                _ => return wrong("a flush"),
            },
            ToAgent::Entries { request, version, runs, next } => {
                match state.requests.remove(&request) {
                    Some((_, Request::Map { volume, image })) => {
                        let part = (version, runs, next);
                        session.entries(state, guests, now, volume, image, part)?;
                    }
                    _ => return wrong("a map"),
                }
            }
            ToAgent::Push { id, version, blocks } => state.pushed(id, version, &blocks),
            ToAgent::Serve { token, id, to } => self.serve(now, (token, id, to)),
            ToAgent::Named { ids } => session.named(state, &ids)?,
        }
        Ok(())
    }
}
