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
//! A host that connects again is a new *session*: requests of the old one are not answered any
//! more, and the host reports again which contents it holds. There is no socket, clock or thread
//! here.

mod leases;
mod memory;
mod reading;
mod writing;

use crate::messages::{ContentId, HostId, ToAgent, ToServer, Why};
use crate::names::Names;
use crate::protocol::Protocol;
use crate::settings::{ServerSettings, SettingsError};
use crate::store::{StoreAnswer, StoreRequest};
use crate::{BLOCKS_MAX, MAP_BLOCKS_MAX};
use leases::Lease;
pub use leases::LeaseStatus;
use memory::Memory;
use reading::Read;
use std::collections::{BTreeMap, VecDeque};
use thermocline_policy::lookup::{Lookup, Scope};
use thermocline_policy::registry::PolicySpec;
use thermocline_units::situations::met;
use thermocline_units::{Nanos, Rng, Slab};
use writing::Write;

/// Operations of a host that may be outstanding at once.
pub const OPERATIONS_MAX: u32 = 4096;

/// Violation of the protocol by a host, whose connection ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// It has too many unanswered requests.
    #[error("{outstanding} requests are outstanding; a host waits from {most} on")]
    TooMany {
        /// Number of its unanswered requests.
        outstanding: u32,
        /// The limit.
        most: u32,
    },
    /// The host has not joined.
    #[error("host {host} is not known here; let it in first")]
    Stranger {
        /// Its number.
        host: u16,
    },
    /// The largest number of hosts is reached.
    #[error("{most} hosts are known; set `hosts_max` higher")]
    TooManyHosts {
        /// The limit.
        most: usize,
    },
}

#[derive(Debug)]
struct Host {
    /// Bit in the tracker.
    index: usize,
    is_here: bool,
    session: u32,
    /// Bits of domains that it may use.
    domains: u64,
    outstanding: u32,
    /// Volumes and their fencing numbers.
    attached: BTreeMap<u32, u64>,
    /// Times at which reads that it serves for others are assumed to be done.
    serving: VecDeque<Nanos>,
}

/// Request of a host that waits for the store.
#[derive(Debug, Clone, Copy)]
struct Asker {
    host: HostId,
    session: u32,
    request: u32,
}

#[derive(Debug)]
enum Op {
    Open { asker: Asker, fence: u64 },
    Fence { asker: Asker, volume: u32, fence: u64 },
    Read(Read),
    Fetch { number: u64 },
    Write(Write),
    Flush { asker: Asker, written: Option<ToAgent> },
    Map { asker: Asker, version: u64 },
    Sharers { asker: Asker, id: ContentId, version: u64, but: (u32, u32) },
    Held { asker: Asker },
}

/// Counts of the server, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerCounts {
    /// Blocks that were answered by their number alone.
    pub by_id: u64,
    /// Blocks whose bytes were sent.
    pub by_bytes: u64,
    /// Blocks that other hosts were to send.
    pub by_peer: u64,
    /// Blocks whose bytes came from the server's memory.
    pub memory_hits: u64,
    /// Blocks whose bytes came from the store.
    pub fetched: u64,
    /// Entries that were pushed.
    pub pushed: u64,
    /// Written blocks that were known by hash or number.
    pub known_writes: u64,
    /// Written blocks whose bytes were sent.
    pub written: u64,
}

/// State machine of the storage server.
pub struct Server {
    settings: ServerSettings,
    protocol: Protocol,
    lookup: Box<dyn Lookup>,
    began: Nanos,
    hosts: BTreeMap<HostId, Host>,
    by_index: Vec<HostId>,
    names: Names,
    memory: Memory,
    leases: BTreeMap<u32, Lease>,
    version: u64,
    ops: Slab<Op>,
    /// Reads that wait for the bytes of a content, and the index of the block in each.
    fetching: BTreeMap<u64, Vec<(u32, usize)>>,
    store: VecDeque<(u32, StoreRequest)>,
    out: VecDeque<(HostId, ToAgent)>,
    /// Recently sent bytes with exponential decay, and the time of the last update.
    sent: (f64, Nanos),
    rng: Rng,
    counts: ServerCounts,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({} contents, {:?})", self.names.places(), self.leases)
    }
}

impl Server {
    /// A server that begins to run.
    ///
    /// # Errors
    /// A setting does not fit.
    pub fn new(settings: ServerSettings, now: Nanos) -> Result<Server, SettingsError> {
        let lookup = PolicySpec::parse(&settings.lookup)?.build_lookup()?;
        let mut rng = Rng::seeded(settings.seed);
        let places = settings.places_min;
        let names = Names::new(settings.hosts_max, places, settings.run, rng.next_u64());
        Ok(Server {
            protocol: settings.protocol,
            lookup,
            began: now,
            hosts: BTreeMap::new(),
            by_index: Vec::new(),
            names,
            memory: Memory::new(&settings)?,
            leases: BTreeMap::new(),
            version: 0,
            ops: Slab::default(),
            fetching: BTreeMap::new(),
            store: VecDeque::new(),
            out: VecDeque::new(),
            sent: (0.0, now),
            rng,
            counts: ServerCounts::default(),
            settings,
        })
    }

    /// Begins a new session of a host. `domains` has a bit for each domain whose content it may
    /// use.
    ///
    /// # Errors
    /// There are too many hosts.
    pub fn joined(&mut self, host: HostId, domains: u64) -> Result<(), ServerError> {
        if !self.hosts.contains_key(&host) {
            let most = self.settings.hosts_max;
            if self.by_index.len() == most {
                return Err(ServerError::TooManyHosts { most });
            }
            let state = Host {
                index: self.by_index.len(),
                is_here: false,
                session: 0,
                domains,
                outstanding: 0,
                attached: BTreeMap::new(),
                serving: VecDeque::new(),
            };
            self.by_index.push(host);
            self.hosts.insert(host, state);
        }
        self.left(host);
        let state = self.hosts.get_mut(&host).expect("it was put in");
        (state.is_here, state.domains) = (true, domains);
        Ok(())
    }

    /// Notes that a host's connection is over.
    pub fn left(&mut self, host: HostId) {
        let Some(state) = self.hosts.get_mut(&host) else { return };
        state.is_here = false;
        state.session += 1;
        state.outstanding = 0;
        state.attached.clear();
        state.serving.clear();
        self.names.forget_host(state.index);
        self.out.retain(|(to, _)| *to != host);
    }

    /// The next message to a host.
    pub fn next_message(&mut self) -> Option<(HostId, ToAgent)> {
        self.out.pop_front()
    }

    /// The next request to the store, and the number of its operation.
    pub fn next_store_request(&mut self) -> Option<(u32, StoreRequest)> {
        self.store.pop_front()
    }

    /// Operations that wait for the store.
    pub fn outstanding(&self) -> usize {
        self.ops.len() + self.fetching.len()
    }

    /// Counts since the server began.
    pub fn counts(&self) -> ServerCounts {
        self.counts
    }

    /// Memory of the tracker in bytes, and the number of contents that it knows.
    pub fn tracker_bytes(&self) -> (u64, usize) {
        (self.names.bytes() + self.memory.line_bytes(), self.names.places())
    }

    /// Takes a message of a host.
    ///
    /// # Errors
    /// The host broke a rule: its connection ends, and [`Server::left`] must be called.
    pub fn hear(&mut self, now: Nanos, host: HostId, message: ToServer) -> Result<(), ServerError> {
        let state = self.hosts.get(&host).filter(|state| state.is_here);
        let state = state.ok_or(ServerError::Stranger { host: host.0 })?;
        if state.outstanding >= OPERATIONS_MAX {
            let outstanding = state.outstanding;
            return Err(ServerError::TooMany { outstanding, most: OPERATIONS_MAX });
        }
        let asker = |request| Asker { host, session: state.session, request };
        match message {
            ToServer::Attach { request, volume, fence } => {
                let op = Op::Open { asker: asker(request), fence };
                self.begin(op, StoreRequest::Open { name: volume });
            }
            ToServer::Release { volume, fence, to } => self.release(now, host, volume, fence, to),
            ToServer::Renew { request } => {
                self.renew(now, host);
                self.say(now, host, ToAgent::Renewed { request });
            }
            ToServer::Read { request, volume, block, count, how } => {
                let asker = asker(request);
                if let Err(why) = self.may(host, volume, None, block, usize::from(count)) {
                    self.refuse(now, asker, why);
                    return Ok(());
                }
                self.read(asker, volume, block, count, how);
            }
            ToServer::Write { request, volume, fence, block, fua, items } => {
                let asker = asker(request);
                if let Err(why) = self.may(host, volume, Some(fence), block, items.len()) {
                    self.refuse(now, asker, why);
                    return Ok(());
                }
                self.write(asker, (volume, block), fua, items);
            }
            ToServer::Flush { request, volume, fence } => {
                let asker = asker(request);
                if let Err(why) = self.may(host, volume, Some(fence), 0, 0) {
                    self.refuse(now, asker, why);
                    return Ok(());
                }
                self.begin(Op::Flush { asker, written: None }, StoreRequest::Flush { volume });
            }
            ToServer::Map { request, volume, base, block } => {
                let asker = asker(request);
                if let Err(why) = self.may(host, volume, None, block, 0) {
                    self.refuse(now, asker, why);
                    return Ok(());
                }
                let count = MAP_BLOCKS_MAX as u32;
                let op = Op::Map { asker, version: self.version };
                self.begin(op, StoreRequest::Map { volume, base, block, count });
            }
            ToServer::Evicted { ids } => {
                let index = state.index;
                for id in ids {
                    if let Some(place) = self.names.place(id) {
                        self.names.set_holder(place, index, false);
                    }
                }
            }
            ToServer::Held { hashes } => {
                let (asker, domains) = (asker(0), state.domains);
                self.begin(Op::Held { asker }, StoreRequest::Find { hashes, domains });
            }
        }
        Ok(())
    }

    /// True if a host may do what it asks; with `fence` for a write or a flush.
    fn may(
        &self,
        host: HostId,
        volume: u32,
        fence: Option<u64>,
        block: u32,
        count: usize,
    ) -> Result<(), Why> {
        let attached = self.hosts[&host].attached.get(&volume);
        let lease = self.leases.get(&volume).filter(|_| attached.is_some()).ok_or(Why::Fenced)?;
        if fence.is_some_and(|fence| fence != lease.fence()) || attached != Some(&lease.fence()) {
            met("a host without the lease was refused");
            return Err(Why::Fenced);
        }
        let end = u64::from(block) + count as u64;
        if end > u64::from(lease.blocks()) { Err(Why::Outside) } else { Ok(()) }
    }

    fn begin(&mut self, op: Op, request: StoreRequest) {
        if let Some(asker) = op.asker() {
            self.hosts.get_mut(&asker.host).expect("it asked").outstanding += 1;
        }
        let number = self.ops.insert(op);
        self.store.push_back((number, request));
    }

    /// Takes an answer of the store.
    ///
    /// # Panics
    /// When no operation has this number, or the answer is none to its request: the caller's bug.
    pub fn stored(&mut self, now: Nanos, number: u32, answer: StoreAnswer) {
        let op = self.ops.remove(number);
        if answer == StoreAnswer::Failed {
            return self.failed(now, op);
        }
        match (op, answer) {
            (Op::Read(read), StoreAnswer::Contents(contents)) => {
                self.looked_up(now, number, read, &contents);
            }
            (Op::Fetch { number }, StoreAnswer::Block(bytes)) => self.fetched(now, number, bytes),
            (Op::Write(write), StoreAnswer::Written(contents)) => {
                self.written(now, write, &contents);
            }
            (Op::Fence { asker, volume, fence }, StoreAnswer::Done) => {
                self.fenced(now, asker, volume, fence);
            }
            (op, answer) => self.stored_else(now, op, answer),
        }
    }

    fn stored_else(&mut self, now: Nanos, op: Op, answer: StoreAnswer) {
        if let Some(asker) = op.asker()
            && !self.ended(asker)
        {
            return;
        }
        match (op, answer) {
            (Op::Open { asker, fence }, StoreAnswer::Volume(info)) => {
                self.opened(now, asker, fence, info);
            }
            (Op::Flush { asker, written }, StoreAnswer::Done) => {
                let flushed = ToAgent::Flushed { request: asker.request };
                self.say(now, asker.host, written.unwrap_or(flushed));
            }
            (Op::Map { asker, version }, StoreAnswer::Map(runs, next)) => {
                let mut number =
                    |content: Option<_>| content.map_or(0, |content| self.name(content).0);
                let runs = runs.into_iter().map(|(block, contents)| {
                    (block, contents.into_iter().map(&mut number).collect())
                });
                let message = ToAgent::Entries {
                    request: asker.request,
                    version,
                    runs: runs.collect(),
                    next,
                };
                self.say(now, asker.host, message);
            }
            (Op::Sharers { asker, id, version, but }, StoreAnswer::Sharers(mut blocks)) => {
                blocks.retain(|block| *block != but);
                if !blocks.is_empty() {
                    self.counts.pushed += blocks.len() as u64;
                    self.say(now, asker.host, ToAgent::Push { id, version, blocks });
                }
            }
            (Op::Held { asker }, StoreAnswer::Contents(contents)) => {
                let ids = contents.into_iter().map(|content| {
                    let Some(content) = content else { return 0 };
                    let id = self.name(content);
                    self.note_holder(asker.host, id, true);
                    id.0
                });
                let ids = ids.collect();
                self.say(now, asker.host, ToAgent::Named { ids });
            }
            (op, answer) => panic!("{answer:?} is no answer to {op:?}"),
        }
    }

    fn failed(&mut self, now: Nanos, op: Op) {
        if let Op::Fetch { number } = op {
            return self.fetched(now, number, None);
        }
        let asker = op.asker().expect("only fetches are nobody's");
        if let Op::Fence { volume, .. } = op {
            self.leases.get_mut(&volume).expect("it is being granted").grant_failed();
        }
        if self.ended(asker) && !matches!(op, Op::Sharers { .. } | Op::Held { .. }) {
            self.refuse(now, asker, Why::Store);
        }
    }

    /// Notes that an operation is over; returns false if its session is over, too.
    fn ended(&mut self, asker: Asker) -> bool {
        let host = self.hosts.get_mut(&asker.host).expect("hosts are never forgotten");
        let is_current = host.is_here && host.session == asker.session;
        if is_current {
            host.outstanding -= 1;
        }
        is_current
    }

    /// The number of a content, a new one if it has none.
    fn name(&mut self, content: crate::store::Content) -> ContentId {
        let place = self.place(content.number);
        self.names.id(place)
    }

    fn place(&mut self, number: u64) -> u32 {
        let memory = &mut self.memory;
        self.names.take(number, |_| false, |place| memory.forget_place(place))
    }

    fn note_holder(&mut self, host: HostId, id: ContentId, holds: bool) {
        if let Some(place) = self.names.place(id) {
            self.names.set_holder(place, self.hosts[&host].index, holds);
        }
    }

    fn refuse(&mut self, now: Nanos, asker: Asker, why: Why) {
        self.say(now, asker.host, ToAgent::Refused { request: asker.request, why });
    }

    fn say(&mut self, now: Nanos, host: HostId, message: ToAgent) {
        use crate::format::Message;
        let (sent, then) = self.sent;
        let past = now.saturating_sub(then).0 as f64 / LOAD_OVER.0 as f64;
        self.sent = (sent * (-past).exp() + message.length() as f64, now);
        self.out.push_back((host, message));
    }

    /// Busy share of the server's link, 0 to 1.
    fn busy(&self, now: Nanos) -> f64 {
        let (sent, then) = self.sent;
        let past = now.saturating_sub(then).0 as f64 / LOAD_OVER.0 as f64;
        let within = self.settings.link_bytes_per_s as f64 * LOAD_OVER.as_secs_f64();
        (sent * (-past).exp() / within.max(1.0)).min(1.0)
    }

    /// Volumes whose blocks may be pushed to a host.
    fn told_of(&self, host: HostId) -> Vec<u32> {
        match self.lookup.push().scope {
            Scope::None => Vec::new(),
            Scope::Host => self.hosts[&host].attached.keys().copied().collect(),
            Scope::All => self.leases.keys().copied().collect(),
        }
    }
}

/// Time over which the load of the link is averaged.
const LOAD_OVER: Nanos = Nanos::from_micros(100_000);

const _: () = assert!(BLOCKS_MAX <= u16::MAX as usize, "counts have two bytes");

impl Op {
    fn asker(&self) -> Option<Asker> {
        match self {
            Op::Fetch { .. } => None,
            Op::Read(read) => Some(read.asker),
            Op::Write(write) => Some(write.asker),
            Op::Open { asker, .. }
            | Op::Fence { asker, .. }
            | Op::Flush { asker, .. }
            | Op::Map { asker, .. }
            | Op::Sharers { asker, .. }
            | Op::Held { asker } => Some(*asker),
        }
    }
}
