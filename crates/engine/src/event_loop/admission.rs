//! Admission of NBD clients: how many a listener has, and how long a handshake may take.
//!
//! Bookkeeping only, told by whoever owns the sockets. Each listener has limits of its own, so that
//! a full one never keeps clients from another, and connections whose handshake is not finished are
//! limited apart from those that have attached a volume:
//!
//! 1. A connection arrives and is half-open. Beyond [`ClientLimits::handshakes`] of them the oldest
//!    gives way, so whoever opens connections and says nothing keeps nobody out.
//! 2. A handshake that takes longer than [`ClientLimits::handshake`] is cut off: the greeting, TLS
//!    and the options together.
//! 3. Beyond [`ClientLimits::connections`] attached ones a client is refused in the handshake, in
//!    words; it may try again.

use std::collections::{BTreeMap, BTreeSet};
use thermocline_units::{Bytes, Nanos};

/// Bounds of what NBD clients may take; all but `buffers` count for each listener alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientLimits {
    /// Connections that have attached a volume, at least 1.
    pub connections: u32,
    /// Connections whose handshake is not finished, at least 1.
    pub handshakes: u32,
    /// Time from a connection to the end of its handshake, TLS included.
    pub handshake: Nanos,
    /// Memory for the contents of requests, over all connections; a small share of each connection
    /// comes on top.
    pub buffers: Bytes,
    /// Time after which a client that holds buffers and does not move them loses its connection,
    /// when a request has waited as long for room.
    pub stall: Nanos,
}

impl Default for ClientLimits {
    fn default() -> ClientLimits {
        ClientLimits {
            connections: 256,
            handshakes: 64,
            handshake: Nanos::from_secs(10),
            buffers: Bytes::from_mib(256),
            stall: Nanos::from_secs(30),
        }
    }
}

/// A reason to turn a client away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refusal {
    /// All connections of the listener were taken.
    Full,
    /// Newer half-open connections took its place.
    GaveWay,
    /// A client that did not finish its handshake in time.
    Late,
    /// A client that held buffers that others waited for.
    Stalled,
}

impl Refusal {
    pub(super) const ALL: [Refusal; 4] =
        [Refusal::Full, Refusal::GaveWay, Refusal::Late, Refusal::Stalled];

    /// The reason as a metric's label.
    pub(super) fn label(self) -> &'static str {
        match self {
            Refusal::Full => "full",
            Refusal::GaveWay => "gave_way",
            Refusal::Late => "handshake_timeout",
            Refusal::Stalled => "stalled",
        }
    }
}

/// Clients of one listener that were turned away since this was last told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TurnedAway {
    pub(super) listener: String,
    pub(super) why: Refusal,
    pub(super) count: u64,
}

/// Clients of one listener.
#[derive(Debug)]
pub(super) struct Listener {
    /// Its address or path.
    pub(super) name: String,
    /// Connections that have attached a volume.
    pub(super) attached: u32,
    /// Told to clients beyond the limit.
    full: String,
    /// The oldest has the smallest number.
    half_open: BTreeSet<u64>,
    /// Clients turned away by reason, since the start.
    turned_away: [u64; 4],
    /// Those of them that were told already.
    told: [u64; 4],
}

impl Listener {
    /// Connections whose handshake is not finished.
    pub(super) fn half_open(&self) -> usize {
        self.half_open.len()
    }

    /// Clients turned away since the start.
    pub(super) fn turned_away(&self, why: Refusal) -> u64 {
        self.turned_away[why as usize]
    }
}

#[derive(Debug)]
struct Client {
    listener: usize,
    since: Nanos,
    attached: bool,
}

/// Admission of clients.
#[derive(Debug)]
pub(super) struct Admission {
    limits: ClientLimits,
    listeners: Vec<Listener>,
    /// Numbered in the order of their arrival.
    clients: BTreeMap<u64, Client>,
}

impl Admission {
    pub(super) fn new(limits: ClientLimits) -> Admission {
        Admission { limits, listeners: Vec::new(), clients: BTreeMap::new() }
    }

    /// Adds a listener: its number.
    pub(super) fn add_listener(&mut self, name: String) -> usize {
        let count = self.limits.connections;
        let full = format!(
            "all {count} connections of this listener are in use; try again later, or raise \
             `connections` under [nbd] in the server's configuration"
        );
        let (half_open, turned_away) = (BTreeSet::new(), [0; 4]);
        let told = turned_away;
        self.listeners.push(Listener { name, attached: 0, full, half_open, turned_away, told });
        self.listeners.len() - 1
    }

    /// The listeners, in the order in which they were added.
    pub(super) fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// Takes note of a new connection, whose number is larger than all before: the connection that
    /// has to give way to it.
    pub(super) fn arrived(&mut self, client: u64, listener: usize, now: Nanos) -> Option<u64> {
        self.clients.insert(client, Client { listener, since: now, attached: false });
        let half_open = &mut self.listeners[listener].half_open;
        half_open.insert(client);
        if half_open.len() <= self.limits.handshakes as usize {
            return None;
        }
        self.give_way(listener)
    }

    /// Chooses the oldest half-open connection of any listener to be cut off, if it arrived at
    /// `before` or earlier.
    pub(super) fn oldest_gives_way(&mut self, before: Nanos) -> Option<u64> {
        let first = |listener: &Listener| listener.half_open.first().copied();
        let oldest = self.listeners.iter().filter_map(first).min()?;
        let Client { listener, since, .. } = self.clients[&oldest];
        if since <= before { self.give_way(listener) } else { None }
    }

    fn give_way(&mut self, listener: usize) -> Option<u64> {
        let listener = &mut self.listeners[listener];
        let oldest = listener.half_open.pop_first()?;
        listener.turned_away[Refusal::GaveWay as usize] += 1;
        Some(oldest)
    }

    /// The reason why a connection may not attach a volume now, in words for its user.
    pub(super) fn refusal(&self, client: u64) -> Option<&str> {
        let Client { listener, attached, .. } = self.clients.get(&client)?;
        let listener = &self.listeners[*listener];
        let full = !attached && listener.attached >= self.limits.connections;
        full.then_some(&listener.full)
    }

    /// A connection has attached a volume: true if it had not before.
    pub(super) fn attached(&mut self, client: u64) -> bool {
        let Some(state) = self.clients.get_mut(&client) else { return false };
        let is_new = !std::mem::replace(&mut state.attached, true);
        if is_new {
            let listener = &mut self.listeners[state.listener];
            listener.half_open.remove(&client);
            listener.attached += 1;
        }
        is_new
    }

    /// Counts a client that was turned away.
    pub(super) fn turn_away(&mut self, client: u64, why: Refusal) {
        if let Some(state) = self.clients.get(&client) {
            self.listeners[state.listener].turned_away[why as usize] += 1;
        }
    }

    /// A connection has gone: true if it had attached a volume.
    pub(super) fn left(&mut self, client: u64) -> bool {
        let Some(state) = self.clients.remove(&client) else { return false };
        let listener = &mut self.listeners[state.listener];
        listener.half_open.remove(&client);
        listener.attached -= u32::from(state.attached);
        state.attached
    }

    /// The next connection whose handshake has taken too long; it is to be cut off.
    pub(super) fn overdue(&mut self, now: Nanos) -> Option<u64> {
        let client = self.oldest().filter(|(at, _)| *at <= now)?.1;
        let listener = &mut self.listeners[self.clients[&client].listener];
        listener.half_open.remove(&client);
        listener.turned_away[Refusal::Late as usize] += 1;
        Some(client)
    }

    /// Time at which the next handshake has taken too long.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        self.oldest().map(|(at, _)| at)
    }

    /// The half-open connection whose time ends first, and when.
    fn oldest(&self) -> Option<(Nanos, u64)> {
        let client =
            self.listeners.iter().filter_map(|listener| listener.half_open.first()).min()?;
        Some((Nanos(self.clients[client].since.0 + self.limits.handshake.0), *client))
    }

    /// Clients that were turned away since this was last asked.
    pub(super) fn news(&mut self) -> Vec<TurnedAway> {
        let mut news = Vec::new();
        for listener in &mut self.listeners {
            for why in Refusal::ALL {
                let count = listener.turned_away(why) - listener.told[why as usize];
                if count > 0 {
                    news.push(TurnedAway { listener: listener.name.clone(), why, count });
                }
            }
            listener.told = listener.turned_away;
        }
        news
    }
}

#[cfg(test)]
mod tests;
