//! The state that all parts of the server share: hosts and their sessions, the tracker, operations
//! that wait for the store, and messages that wait for their hosts. It decides nothing.

use super::ServerCounts;
use super::ServerError;
use super::memory::Memory;
use super::reading::Read;
use super::writing::Write;
use crate::format::Message;
use crate::messages::{ContentId, HostId, ToAgent, Why};
use crate::names::Names;
use crate::settings::{ServerSettings, SettingsError};
use crate::store::{Content, StoreRequest};
use std::collections::{BTreeMap, VecDeque};
use thermocline_policy::lookup::Lookup;
use thermocline_policy::registry::PolicySpec;
use thermocline_units::{Nanos, Rng, Slab};

/// Time over which the load of the link is averaged.
const LOAD_OVER: Nanos = Nanos::from_micros(100_000);

/// A host that has joined at least once.
#[derive(Debug)]
pub(super) struct Host {
    /// Bit in the tracker.
    pub(super) index: usize,
    pub(super) is_here: bool,
    pub(super) session: u32,
    /// Bits of domains that it may use.
    pub(super) domains: u64,
    pub(super) outstanding: u32,
    /// Bytes that those operations keep, or may answer.
    pub(super) outstanding_bytes: u64,
    /// Volumes and their fencing numbers.
    pub(super) attached: BTreeMap<u32, u64>,
    /// Times at which reads that it serves for others are assumed to be done.
    pub(super) serving: VecDeque<Nanos>,
}

/// Request of a host that waits for the store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    pub(super) host: HostId,
    pub(super) session: u32,
    pub(super) request: u32,
    /// Bytes that it keeps at most until it is answered, with the answer.
    pub(super) bytes: u64,
}

/// An operation that waits for the store.
#[derive(Debug)]
pub(super) enum Op {
    /// Opening, with the count of deletions when the store was asked.
    Open {
        asker: Asker,
        fence: u64,
        name: String,
        deletions: u64,
    },
    Fence {
        asker: Asker,
        volume: u32,
        fence: u64,
    },
    Read(Read),
    Fetch {
        number: u64,
    },
    Write(Write),
    Flush {
        asker: Asker,
        written: Option<ToAgent>,
    },
    Map {
        asker: Asker,
        version: u64,
    },
    Sharers {
        asker: Asker,
        id: ContentId,
        version: u64,
        but: (u32, u32),
    },
    Held {
        asker: Asker,
    },
}

/// The shared state.
pub(super) struct ServerState {
    pub(super) settings: ServerSettings,
    pub(super) lookup: Box<dyn Lookup>,
    pub(super) hosts: BTreeMap<HostId, Host>,
    /// Hosts by their bits in the tracker.
    pub(super) by_index: Vec<HostId>,
    pub(super) names: Names,
    pub(super) memory: Memory,
    /// Count of accepted writes.
    pub(super) version: u64,
    /// Count of deleted volumes.
    pub(super) deletions: u64,
    pub(super) ops: Slab<Op>,
    pub(super) store: VecDeque<(u32, StoreRequest)>,
    pub(super) out: VecDeque<(HostId, ToAgent)>,
    pub(super) rng: Rng,
    pub(super) counts: ServerCounts,
    /// Recently sent bytes with exponential decay, and the time of the last update.
    sent: (f64, Nanos),
}

impl ServerState {
    /// State of a server that begins to run.
    ///
    /// # Errors
    /// A setting does not fit.
    pub(super) fn new(settings: ServerSettings, now: Nanos) -> Result<ServerState, SettingsError> {
        let lookup = PolicySpec::parse(&settings.lookup)?.build_lookup()?;
        let mut rng = Rng::seeded(settings.seed);
        let places = settings.places_min;
        let names = Names::new(settings.hosts_max, places, settings.run, rng.next_u64());
        Ok(ServerState {
            lookup,
            hosts: BTreeMap::new(),
            by_index: Vec::new(),
            names,
            memory: Memory::new(&settings)?,
            version: 0,
            deletions: 0,
            ops: Slab::default(),
            store: VecDeque::new(),
            out: VecDeque::new(),
            rng,
            counts: ServerCounts::default(),
            sent: (0.0, now),
            settings,
        })
    }

    /// Begins a new session of a host. `domains` has a bit for each domain whose content it may
    /// use.
    ///
    /// # Errors
    /// There are too many hosts.
    pub(super) fn joined(&mut self, host: HostId, domains: u64) -> Result<(), ServerError> {
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
                outstanding_bytes: 0,
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
    pub(super) fn left(&mut self, host: HostId) {
        let Some(state) = self.hosts.get_mut(&host) else { return };
        state.is_here = false;
        state.session += 1;
        (state.outstanding, state.outstanding_bytes) = (0, 0);
        state.attached.clear();
        state.serving.clear();
        self.names.forget_host(state.index);
        self.out.retain(|(to, _)| *to != host);
    }

    /// Begins an operation with a request to the store.
    pub(super) fn begin(&mut self, op: Op, request: StoreRequest) {
        if let Some(asker) = op.asker() {
            let host = self.hosts.get_mut(&asker.host).expect("it asked");
            host.outstanding += 1;
            host.outstanding_bytes += asker.bytes;
        }
        let number = self.ops.insert(op);
        self.store.push_back((number, request));
    }

    /// Asks the store for a volume that a host wants to attach.
    pub(super) fn open(&mut self, asker: Asker, fence: u64, name: String) {
        let request = StoreRequest::Open { name: name.clone() };
        let deletions = self.deletions;
        self.begin(Op::Open { asker, fence, name, deletions }, request);
    }

    /// Notes that an operation is over; returns false if its session is over, too.
    pub(super) fn ended(&mut self, asker: Asker) -> bool {
        let host = self.hosts.get_mut(&asker.host).expect("hosts are never forgotten");
        let is_current = host.is_here && host.session == asker.session;
        if is_current {
            host.outstanding -= 1;
            host.outstanding_bytes -= asker.bytes;
        }
        is_current
    }

    /// The number of a content, a new one if it has none.
    pub(super) fn name(&mut self, content: Content) -> ContentId {
        let place = self.place(content.number);
        self.names.id(place)
    }

    /// Place of a content in the tracker, a new one if it has none.
    pub(super) fn place(&mut self, number: u64) -> u32 {
        let memory = &mut self.memory;
        self.names.take(number, |_| false, |place| memory.forget_place(place))
    }

    /// Notes that a host holds a content, or does not.
    pub(super) fn note_holder(&mut self, host: HostId, id: ContentId, holds: bool) {
        if let Some(place) = self.names.place(id) {
            self.names.set_holder(place, self.hosts[&host].index, holds);
        }
    }

    /// Notes contents that a host, by its bit in the tracker, does not hold any more.
    pub(super) fn evicted(&mut self, index: usize, ids: &[ContentId]) {
        for &id in ids {
            if let Some(place) = self.names.place(id) {
                self.names.set_holder(place, index, false);
            }
        }
    }

    /// Refuses a request.
    pub(super) fn refuse(&mut self, now: Nanos, asker: Asker, why: Why) {
        self.say(now, asker.host, ToAgent::Refused { request: asker.request, why });
    }

    /// Sends a message to a host.
    pub(super) fn say(&mut self, now: Nanos, host: HostId, message: ToAgent) {
        let (sent, then) = self.sent;
        let past = now.saturating_sub(then).0 as f64 / LOAD_OVER.0 as f64;
        self.sent = (sent * (-past).exp() + message.length() as f64, now);
        self.out.push_back((host, message));
    }

    /// Busy share of the server's link, 0 to 1.
    pub(super) fn busy(&self, now: Nanos) -> f64 {
        let (sent, then) = self.sent;
        let past = now.saturating_sub(then).0 as f64 / LOAD_OVER.0 as f64;
        let within = self.settings.link_bytes_per_s as f64 * LOAD_OVER.as_secs_f64();
        (sent * (-past).exp() / within.max(1.0)).min(1.0)
    }
}

impl Op {
    /// The request that waits for it; `None`: a fetch, for which reads wait.
    pub(super) fn asker(&self) -> Option<Asker> {
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
