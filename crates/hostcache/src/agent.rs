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
//! A volume serves its guest while its lease holds. When the lease is over, requests wait. When
//! another host has the volume, they fail, and the volume is lost.

mod asked;
mod contents;
mod reading;
mod session;
mod volume;
mod writing;

use crate::IDS_MAX;
use crate::blocks::Blocks;
use crate::messages::{HostId, ToAgent, ToPeer, ToServer, Why};
use crate::settings::{AgentSettings, SettingsError};
use asked::{Asked, Request, Tickets};
use contents::Contents;
use reading::{Deferred, ReadOp, Waiter};
use session::{Announcing, Image};
use std::collections::{BTreeMap, VecDeque};
use thermocline_policy::lookup::Admission;
use thermocline_policy::registry::PolicySpec;
use thermocline_units::{Nanos, Rng};
use volume::Volume;
use writing::WriteOp;

/// Requests of guests that may wait at once.
pub(crate) const GUEST_REQUESTS_MAX: usize = 4096;
/// Messages that may wait for one peer; further requests are answered with [`ToPeer::Gone`].
const PEER_QUEUE_MAX: usize = 256;
/// Unexpected blocks of a peer after which its connection ends.
const STRAYS_MAX: u32 = 4096;

/// A volume of an agent, for as long as it is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeKey(pub u32);

/// A request of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Reason why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// The volume is not attached here, or lost.
    Volume,
    /// The range is empty, or not within the volume.
    Outside,
    /// Too many requests wait.
    TooMany,
    /// The server refused it.
    Server(Why),
}

/// Event for the owner of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A volume can be used.
    Attached {
        /// The volume.
        volume: VolumeKey,
        /// Its size in blocks.
        blocks: u32,
    },
    /// A volume cannot be attached, at least not now.
    Refused {
        /// The volume.
        volume: VolumeKey,
        /// Reason of the refusal.
        why: Why,
    },
    /// The volume cannot be used any more; its requests failed.
    Lost {
        /// The volume.
        volume: VolumeKey,
        /// Refusal of the server for which it was given up; `None`: another host has it.
        why: Option<Why>,
    },
    /// A read is done.
    Read {
        /// Its request.
        ticket: Ticket,
        /// The bytes of its blocks.
        bytes: Vec<u8>,
    },
    /// A write or a flush is done.
    Done {
        /// Its request.
        ticket: Ticket,
    },
    /// A request failed.
    Failed {
        /// The request.
        ticket: Ticket,
        /// Reason of the failure.
        why: Gone,
    },
}

/// Violation of the protocol by another machine, whose connection ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// An answer to no request, or of another kind or length than was requested.
    #[error("{what} answers no request of this host")]
    NotAsked {
        /// The message.
        what: &'static str,
    },
    /// A peer sent bytes that are not the content.
    #[error("host {host} sent bytes whose hash is not the content's; they were dropped")]
    WrongBytes {
        /// Number of the peer.
        host: u16,
    },
    /// A peer sent too many blocks that nothing waits for.
    #[error("host {host} sent {strays} blocks that nobody waits for")]
    Strays {
        /// Number of the peer.
        host: u16,
        /// Number of such blocks.
        strays: u32,
    },
    /// The server does not answer.
    #[error("the server has not answered for {since}")]
    Silent {
        /// Time for which it has not answered the oldest request.
        since: Nanos,
    },
}

/// Counts of an agent, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentCounts {
    /// Blocks that guests read.
    pub read: u64,
    /// Of those, blocks found in the cache by the map, and zeroes.
    pub hits: u64,
    /// Of those, blocks that joined a request that was under way.
    pub joined: u64,
    /// Blocks that the server named and that were cached here.
    pub named: u64,
    /// Blocks that peers sent.
    pub from_peers: u64,
    /// Blocks whose bytes were requested again, because a name or a peer did not provide them.
    pub again: u64,
    /// Blocks that this host sent to others.
    pub served: u64,
}

/// State machine of a host.
pub struct Agent {
    settings: AgentSettings,
    admission: Admission,
    contents: Contents,
    volumes: BTreeMap<VolumeKey, Volume>,
    by_number: BTreeMap<u32, VolumeKey>,
    images: BTreeMap<u32, Image>,
    next_volume: u32,
    tickets: Tickets,
    requests: Asked,
    /// Reads under way, by block.
    under_way: BTreeMap<(VolumeKey, u32), u32>,
    reads: BTreeMap<Ticket, ReadOp>,
    writes: BTreeMap<Ticket, WriteOp>,
    /// Contents that were requested, and the reads that wait for them.
    awaited: BTreeMap<u32, Vec<Waiter>>,
    deferred: BTreeMap<u64, Deferred>,
    /// Times at which deferred reads are given up, with their tokens.
    deadlines: VecDeque<(Nanos, u64)>,
    strays: BTreeMap<HostId, u32>,
    announcing: Announcing,
    is_connected: bool,
    renew_at: Option<Nanos>,
    out: VecDeque<ToServer>,
    to_peers: BTreeMap<HostId, VecDeque<ToPeer>>,
    events: VecDeque<Event>,
    stamp: u64,
    counts: AgentCounts,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (reads, writes, asked) = (self.reads.len(), self.writes.len(), self.requests.len());
        let (awaited, deferred) = (self.awaited.len(), self.deferred.len());
        write!(f, "Agent({:?}, {} volumes, ", self.settings.host, self.volumes.len())?;
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
        let policy = crate::settings::cache(
            &settings.cache_policy,
            settings.cache_blocks,
            settings.block_bytes,
            settings.seed,
        )?;
        let admission = PolicySpec::parse(&settings.lookup)?.build_lookup()?.admission();
        let secret = Rng::seeded(settings.seed).next_u64();
        let contents = Contents::new(Blocks::new(settings.block_bytes, policy), secret);
        Ok(Agent {
            settings,
            admission,
            contents,
            volumes: BTreeMap::new(),
            by_number: BTreeMap::new(),
            images: BTreeMap::new(),
            next_volume: 0,
            tickets: Tickets::default(),
            requests: Asked::default(),
            under_way: BTreeMap::new(),
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            awaited: BTreeMap::new(),
            deferred: BTreeMap::new(),
            deadlines: VecDeque::new(),
            strays: BTreeMap::new(),
            announcing: Announcing::default(),
            is_connected: false,
            renew_at: None,
            out: VecDeque::new(),
            to_peers: BTreeMap::new(),
            events: VecDeque::new(),
            stamp: 0,
            counts: AgentCounts::default(),
        })
    }

    /// The next event; `None` if there is none.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next message to the server. Evicted contents are reported before the next message that
    /// is sent anyway, or when there are many.
    pub fn next_message(&mut self) -> Option<ToServer> {
        let tells = self.settings.protocol.tracker;
        let evicted = self.contents.evicted();
        if tells && ((evicted > 0 && !self.out.is_empty()) || evicted >= IDS_MAX) {
            return Some(ToServer::Evicted { ids: self.contents.take_evicted(IDS_MAX) });
        }
        self.out.pop_front()
    }

    /// The next message to another host.
    pub fn next_peer_message(&mut self) -> Option<(HostId, ToPeer)> {
        let (&host, queue) = self.to_peers.iter_mut().find(|(_, queue)| !queue.is_empty())?;
        queue.pop_front().map(|message| (host, message))
    }

    /// Number of unanswered requests of guests and to the server, and of awaited contents.
    pub fn outstanding(&self) -> usize {
        let asked = self.reads.len() + self.writes.len() + self.requests.len();
        asked + self.awaited.len() + self.deferred.len()
    }

    /// Counts since the agent began.
    pub fn counts(&self) -> AgentCounts {
        self.counts
    }

    /// Number of cached blocks, number of known contents, and memory in bytes without the blocks
    /// themselves: that of contents and cache, and that of maps.
    pub fn memory(&self) -> (u32, usize, u64, u64) {
        let (cached, known, bytes) = self.contents.memory();
        let volumes: u64 = self.volumes.values().map(|volume| volume.map.bytes()).sum();
        let images: u64 = self.images.values().map(|image| image.map.shared_bytes()).sum();
        (cached, known, bytes, volumes + images)
    }

    /// True while a volume's lease holds here: its guest may be served.
    pub fn may_serve(&self, now: Nanos, volume: VolumeKey) -> bool {
        self.volumes.get(&volume).is_some_and(|volume| volume.may_serve(now))
    }

    /// Fencing number of a volume's lease; 0: none.
    pub fn fence(&self, volume: VolumeKey) -> u64 {
        self.volumes.get(&volume).map_or(0, |volume| volume.fence)
    }

    /// Bytes of a cached block if the lease holds. This is the fast path, without a request.
    #[inline]
    pub fn read_cached(&mut self, now: Nanos, volume: VolumeKey, block: u32) -> Option<&[u8]> {
        let volume = self.volumes.get(&volume)?;
        if !volume.may_serve(now) {
            return None;
        }
        let crate::map::Known::Content(content) = volume.map.get(block) else { return None };
        let bytes = self.contents.get(content)?;
        self.counts.read += 1;
        self.counts.hits += 1;
        Some(bytes)
    }

    /// Checks that `count` blocks of the volume may be requested.
    fn check(&self, volume: VolumeKey, block: u32, count: u32) -> Result<(), Gone> {
        let state = self.volumes.get(&volume).filter(|volume| volume.blocks > 0);
        let state = state.ok_or(Gone::Volume)?;
        let end = u64::from(block) + u64::from(count);
        if count == 0 || end > u64::from(state.blocks) {
            return Err(Gone::Outside);
        }
        let waiting = self.reads.len() + self.writes.len();
        if waiting >= GUEST_REQUESTS_MAX { Err(Gone::TooMany) } else { Ok(()) }
    }

    /// Takes a message of the server.
    ///
    /// # Errors
    /// The server broke a rule: its connection ends, and [`Agent::disconnected`] must be called.
    pub fn hear(&mut self, now: Nanos, message: ToAgent) -> Result<(), AgentError> {
        let wrong = |what| Err(AgentError::NotAsked { what });
        match message {
            ToAgent::Attached { request, volume, fence, blocks, base, lease } => {
                match self.requests.remove(&request) {
                    Some((sent, Request::Attach(key))) => {
                        let granted = session::Granted { volume, fence, blocks, base };
                        self.attached(now, sent, key, granted, Nanos(lease));
                    }
                    _ => return wrong("a lease"),
                }
            }
            ToAgent::Renewed { request } => match self.requests.remove(&request) {
                Some((_, Request::Renew { sent })) => self.renewed(now, sent),
                _ => return wrong("a renewal"),
            },
            ToAgent::Refused { request, why } => match self.requests.remove(&request) {
                Some((_, request)) => self.refused(now, request, why),
                None => return wrong("a refusal"),
            },
            ToAgent::Lost { volume } => {
                if let Some(&key) = self.by_number.get(&volume) {
                    self.lose(key, None);
                }
            }
            ToAgent::Blocks { request, version, items } => match self.requests.remove(&request) {
                Some((_, Request::Read { volume, block, how, blocks }))
                    if blocks.len() == items.len() =>
                {
                    let answer = reading::Answer { request, volume, block, how, version };
                    self.blocks(now, answer, blocks, items)?;
                }
                _ => return wrong("a read"),
            },
            ToAgent::Written { request, version, ids } => match self.requests.remove(&request) {
                Some((_, Request::Write { volume, block, count })) if count == ids.len() => {
                    self.written(now, (volume, block), version, &ids);
                }
                _ => return wrong("a write"),
            },
            ToAgent::Flushed { request } => match self.requests.remove(&request) {
                Some((_, Request::Flush { volume, ticket, stamp })) => {
                    self.flushed(now, volume, ticket, stamp);
                }
                _ => return wrong("a flush"),
            },
            ToAgent::Entries { request, version, runs, next } => {
                match self.requests.remove(&request) {
                    Some((_, Request::Map { volume, base })) => {
                        self.entries(now, volume, base, (version, runs, next))?;
                    }
                    _ => return wrong("a map"),
                }
            }
            ToAgent::Push { id, version, blocks } => self.pushed(id, version, &blocks),
            ToAgent::Serve { token, id, to } => self.serve(token, id, to),
            ToAgent::Named { ids } => self.named(&ids)?,
        }
        Ok(())
    }
}
