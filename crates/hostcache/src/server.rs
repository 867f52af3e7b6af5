//! The storage server's state machine: leases of volumes, contents that hosts hold, and the choice
//! of the sender of each block.
//!
//! 1. [`Server::hear`] takes a host's message. Most begin an operation: a request to the store
//!    ([`Server::next_store_request`]), whose answer ([`Server::stored`]) carries it on.
//! 2. `reading` decides for each block how it is answered: by its number, as bytes, or by another
//!    host. The contents that a host holds are noted when the answer leaves, so an answer never
//!    names a content by its number before the bytes have left on the same connection.
//! 3. `leases` allows one writer a volume. A fencing number is durable before a host gets it.
//! 4. `version` counts accepted writes. Answers about maps carry the version at which the store was
//!    asked.
//!
//! The parts stand on each other: `state`, which decides nothing; `leases` above it; `reading` and
//! `writing` above both. The server routes.
//!
//! A host that connects again is a new *session*: requests of the old one are not answered any
//! more, and the host reports again which contents it holds. There is no socket, clock or thread
//! here.

pub(crate) mod counts;
mod leases;
mod memory;
mod operations;
mod reading;
mod state;
mod writing;

use crate::format::Message;
use crate::messages::{ContentId, HostId, How, ToAgent, ToServer, Why};
use crate::settings::{ServerSettings, SettingsError};
use crate::store::{StoreAnswer, StoreRequest, VolumeInfo};
use crate::{BLOCKS_MAX, MAP_BLOCKS_MAX};
use counts::{ServerCounts, ServerError};
pub use leases::LeaseStatus;
use leases::Leases;
use operations::{Asker, Op};
use reading::Reads;
use state::ServerState;
use std::ops::Range;
use thermocline_units::Nanos;
use thermocline_units::situations::met;

/// Operations of a host that may be outstanding at once.
pub const OPERATIONS_MAX: u32 = 4096;

/// State machine of the storage server.
pub struct Server {
    state: ServerState,
    leases: Leases,
    reads: Reads,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({} contents, {:?})", self.state.names.places(), self.leases)
    }
}

impl Server {
    /// A server that begins to run.
    ///
    /// # Errors
    /// A setting does not fit.
    pub fn new(settings: ServerSettings, now: Nanos) -> Result<Server, SettingsError> {
        let state = ServerState::new(settings, now)?;
        Ok(Server { state, leases: Leases::new(now), reads: Reads::default() })
    }

    /// Begins a new session of a host. `domains` has a bit for each domain whose content it may
    /// use.
    ///
    /// # Errors
    /// There are too many hosts.
    pub fn joined(&mut self, host: HostId, domains: u64) -> Result<(), ServerError> {
        self.state.joined(host, domains)
    }

    /// Notes that a host's connection is over.
    pub fn left(&mut self, host: HostId) {
        self.state.left(host);
    }

    /// Leases that hold, or that their hosts may still believe to hold.
    pub fn leases(&self, now: Nanos) -> Vec<LeaseStatus> {
        self.leases.status(now)
    }

    /// The lease under which a host may use a volume, or may believe that it may, also one that an
    /// earlier run granted; `None`: the volume may be deleted.
    pub fn lease(&self, now: Nanos, info: &VolumeInfo) -> Option<LeaseStatus> {
        self.leases.of(&self.state, now, info)
    }

    /// Notes that the server's process did nothing for a time, until now: leases that could not be
    /// renewed in it end later.
    pub fn stood_still(&mut self, length: Nanos) {
        self.leases.stood_still(length);
    }

    /// Forgets a volume that is gone; its number never comes again. Hosts that have it are told
    /// that they lost it.
    pub fn forget(&mut self, now: Nanos, volume: u32) {
        self.leases.forget(&mut self.state, now, volume);
    }

    /// True while messages of a host may be heard: neither its requests that are under way nor what
    /// waits to be sent to it (`queued` bytes) is too much. The owner hears no message before.
    pub fn has_room(&self, host: HostId, queued: usize) -> bool {
        let under_way = self.state.hosts.get(&host).map_or(0, |host| host.outstanding_bytes);
        under_way + queued as u64 <= self.state.settings.waiting_bytes_max
    }

    /// The next message to a host.
    pub fn next_message(&mut self) -> Option<(HostId, ToAgent)> {
        self.state.out.pop_front()
    }

    /// The next request to the store, and the number of its operation.
    pub fn next_store_request(&mut self) -> Option<(u32, StoreRequest)> {
        self.state.store.pop_front()
    }

    /// Operations that wait for the store.
    pub fn outstanding(&self) -> usize {
        self.state.ops.len() + self.reads.fetching()
    }

    /// Counts since the server began.
    pub fn counts(&self) -> ServerCounts {
        self.state.counts
    }

    /// Memory of the tracker in bytes, and the number of contents that it knows.
    pub fn tracker_bytes(&self) -> (u64, usize) {
        let state = &self.state;
        (state.names.bytes() + state.memory.line_bytes(), state.names.places())
    }

    /// Takes a message of a host.
    ///
    /// # Errors
    /// The host broke a rule: its connection ends, and [`Server::left`] must be called.
    pub fn hear(&mut self, now: Nanos, host: HostId, message: ToServer) -> Result<(), ServerError> {
        let state = &mut self.state;
        let it = state.hosts.get(&host).filter(|it| it.is_here);
        let it = it.ok_or(ServerError::Stranger { host: host.0 })?;
        if it.outstanding >= OPERATIONS_MAX {
            let outstanding = it.outstanding;
            return Err(ServerError::TooMany { outstanding, most: OPERATIONS_MAX });
        }
        let reads_hashes = matches!(message, ToServer::Read { how: How::Hashes, .. });
        if reads_hashes && !state.settings.protocol.names {
            return Err(ServerError::NoNames);
        }
        let (index, domains, session) = (it.index, it.domains, it.session);
        let bytes = bytes_kept(&message, state.settings.block_bytes);
        let asker = |request| Asker { host, session, request, bytes };
        if let Some((request, volume, fence, blocks)) = of_volume(&message)
            && let Err(why) = self.leases.may(state, host, volume, fence, blocks)
        {
            state.refuse(now, asker(request), why);
            return Ok(());
        }
        match message {
            ToServer::Attach { request, volume, fence } => {
                state.open(asker(request), fence, volume);
            }
            ToServer::Release { volume, fence, to } => {
                self.leases.release(state, now, host, volume, fence, to);
            }
            ToServer::Renew { request } => match self.leases.renew(state, now, host) {
                Ok(()) => state.say(now, host, ToAgent::Renewed { request }),
                Err(why) => state.refuse(now, asker(request), why),
            },
            ToServer::Read { request, volume, block, count, how } => {
                reading::read(state, asker(request), volume, block, count, how);
            }
            ToServer::Write { request, volume, block, fua, items, .. } => {
                writing::write(state, asker(request), (volume, block), fua, items);
            }
            ToServer::Flush { request, volume, .. } => {
                let op = Op::Flush { asker: asker(request), written: None };
                state.begin(op, StoreRequest::Flush { volume });
            }
            ToServer::Map { request, volume, base, block } => {
                let (asker, count) = (asker(request), MAP_BLOCKS_MAX as u32);
                let op = Op::Map { asker, version: state.version };
                state.begin(op, StoreRequest::Map { volume, base, block, count });
            }
            ToServer::Evicted { ids } => state.evicted(index, &ids),
            ToServer::Held { hashes } => {
                let op = Op::Held { asker: asker(0) };
                state.begin(op, StoreRequest::Find { hashes, domains });
            }
        }
        Ok(())
    }

    /// Takes an answer of the store.
    ///
    /// # Panics
    /// When no operation has this number, or the answer is none to its request: the caller's bug.
    pub fn stored(&mut self, now: Nanos, number: u32, answer: StoreAnswer) {
        let op = self.state.ops.remove(number);
        if answer == StoreAnswer::Failed {
            return self.failed(now, op);
        }
        let (state, leases) = (&mut self.state, &mut self.leases);
        match (op, answer) {
            (Op::Read(read), StoreAnswer::Contents(contents)) => {
                self.reads.looked_up(state, leases, now, number, read, &contents);
            }
            (Op::Fetch { number }, StoreAnswer::Block(bytes)) => {
                self.reads.fetched(state, leases, now, number, bytes);
            }
            (Op::Write(write), StoreAnswer::Written(outcomes)) => {
                writing::written(state, now, write, &outcomes);
            }
            (Op::Fence { asker, volume, fence }, StoreAnswer::Done) => {
                leases.fenced(state, now, asker, volume, fence);
            }
            (op, answer) => self.stored_else(now, op, answer),
        }
    }

    fn stored_else(&mut self, now: Nanos, op: Op, answer: StoreAnswer) {
        let state = &mut self.state;
        if let Some(asker) = op.asker()
            && !state.ended(asker)
        {
            return;
        }
        match (op, answer) {
            (Op::Open { asker, fence, name, deletions }, StoreAnswer::Volume(_))
                if deletions != state.deletions =>
            {
                met("a volume was opened again because one was deleted meanwhile");
                state.open(asker, fence, name);
            }
            (Op::Open { asker, fence, .. }, StoreAnswer::Volume(info)) => {
                self.leases.opened(state, now, asker, fence, info);
            }
            (Op::Flush { asker, written }, StoreAnswer::Done) => {
                let flushed = ToAgent::Flushed { request: asker.request };
                state.say(now, asker.host, written.unwrap_or(flushed));
            }
            (Op::Map { asker, version }, StoreAnswer::Map(runs, next)) => {
                let mut number =
                    |content: Option<_>| content.map_or(0, |content| state.name(content).0);
                let runs = runs.into_iter().map(|(block, contents)| {
                    (block, contents.into_iter().map(&mut number).collect())
                });
                let message = ToAgent::Entries {
                    request: asker.request,
                    version,
                    runs: runs.collect(),
                    next,
                };
                state.say(now, asker.host, message);
            }
            (Op::Sharers { asker, id, version, but }, StoreAnswer::Sharers(mut blocks)) => {
                blocks.retain(|block| *block != but);
                if !blocks.is_empty() {
                    state.counts.pushed += blocks.len() as u64;
                    state.say(now, asker.host, ToAgent::Push { id, version, blocks });
                }
            }
            (Op::Held { asker }, StoreAnswer::Contents(contents)) => {
                let ids = contents.into_iter().map(|content| {
                    let Some(content) = content else { return 0 };
                    let id = state.name(content);
                    state.note_holder(asker.host, id, true);
                    id.0
                });
                let ids = ids.collect();
                state.say(now, asker.host, ToAgent::Named { ids });
            }
            (op, answer) => panic!("{answer:?} is no answer to {op:?}"),
        }
    }

    fn failed(&mut self, now: Nanos, op: Op) {
        let state = &mut self.state;
        if let Op::Fetch { number } = op {
            return self.reads.fetched(state, &self.leases, now, number, None);
        }
        let asker = op.asker().expect("only fetches are nobody's");
        if let Op::Fence { volume, .. } = op {
            self.leases.grant_failed(volume);
        }
        if state.ended(asker) && !matches!(op, Op::Sharers { .. } | Op::Held { .. }) {
            state.refuse(now, asker, Why::Store);
        }
    }
}

/// Bytes that a message keeps at most until it is answered, with the answer.
fn bytes_kept(message: &ToServer, block_bytes: usize) -> u64 {
    let answer = match message {
        ToServer::Read { count, .. } => usize::from(*count) * block_bytes,
        ToServer::Map { .. } => MAP_BLOCKS_MAX * size_of::<ContentId>(),
        _ => 0,
    };
    (message.length() + answer) as u64
}

/// For a message about blocks of an attached volume: its request, the volume, the fencing number
/// that a change needs, and the blocks.
fn of_volume(message: &ToServer) -> Option<(u32, u32, Option<u64>, Range<u64>)> {
    let blocks = |first: u32, count: usize| u64::from(first)..u64::from(first) + count as u64;
    match message {
        ToServer::Read { request, volume, block, count, .. } => {
            Some((*request, *volume, None, blocks(*block, usize::from(*count))))
        }
        ToServer::Write { request, volume, fence, block, items, .. } => {
            Some((*request, *volume, Some(*fence), blocks(*block, items.len())))
        }
        ToServer::Flush { request, volume, fence } => {
            Some((*request, *volume, Some(*fence), blocks(0, 0)))
        }
        ToServer::Map { request, volume, block, .. } => {
            Some((*request, *volume, None, blocks(*block, 0)))
        }
        _ => None,
    }
}

const _: () = assert!(BLOCKS_MAX <= u16::MAX as usize, "counts have two bytes");
