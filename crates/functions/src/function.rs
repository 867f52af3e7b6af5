//! The interface of a network function: packets in and out, state as plain data that can be moved.

use std::net::IpAddr;
use thermocline_units::{Bytes, Nanos};

/// Side that a packet comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The network whose hosts are served.
    Inside,
    /// The rest of the world.
    Outside,
}

/// Reason why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// No packet.
    Malformed,
    /// Its protocol cannot be translated.
    Protocol,
    /// Its source is no host that is served.
    NotInside,
    /// Its destination is no external address.
    NotOurs,
    /// A packet that begins no flow, and none is known for it.
    NoFlow,
    /// The filter lets no packet of this source in.
    Filtered,
    /// No external port is free, or the host has as many as it may.
    PortsExhausted,
    /// The tables are full of flows that are in use.
    TableFull,
    /// A fragment that cannot be matched to a datagram, or may not pass.
    Fragment,
    /// A checksum is wrong.
    Checksum,
    /// A rule says so, now or earlier in its flow.
    Rule,
    /// Bytes that contradict others that are still buffered.
    Conflict,
    /// A packet too far ahead; or there is no room to keep it until the gap before it is filled.
    Reorder,
    /// A segment of TCP that no receiver takes, or that some take differently from others.
    Refused,
}

/// Fate of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Goes on as it is.
    Pass,
    /// Goes on, changed.
    Changed,
    /// Goes back to the side that it came from, changed.
    Turned,
    /// Is kept until what belongs before it is here; its bytes come back in
    /// [`Output::released`], or never.
    Held,
    /// Ends here.
    Dropped(Reason),
}

/// A transport protocol that has flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP queries; the identifier takes the place of the port.
    Icmp,
}

/// Something that an administrator may want to have written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// An inside host's port has an external one from now on.
    Mapped {
        /// Protocol.
        protocol: Protocol,
        /// The host and its port.
        inside: (IpAddr, u16),
        /// The external address and port.
        outside: (IpAddr, u16),
    },
    /// A mapping has ended.
    Unmapped {
        /// Protocol.
        protocol: Protocol,
        /// The host and its port.
        inside: (IpAddr, u16),
        /// The external address and port, which are free now.
        outside: (IpAddr, u16),
    },
    /// A host owns a block of external ports from now on.
    BlockTaken {
        /// The host.
        host: IpAddr,
        /// The external address and the first port.
        first: (IpAddr, u16),
        /// Number of ports.
        ports: u16,
    },
    /// A host owns the block no more.
    BlockFreed {
        /// The host.
        host: IpAddr,
        /// The external address and the first port.
        first: (IpAddr, u16),
        /// Number of ports.
        ports: u16,
    },
    /// A host was refused a port.
    Exhausted {
        /// The host.
        host: IpAddr,
        /// Protocol.
        protocol: Protocol,
        /// The host has as many as it may; otherwise none is free.
        by_host: bool,
    },
    /// A rule matched.
    Matched {
        /// Number that its author gave it.
        sid: u32,
        /// The packet is dropped for it.
        dropped: bool,
        /// Source of the packet that completed the match.
        source: (IpAddr, u16),
        /// Its destination.
        destination: (IpAddr, u16),
    },
}

/// A packet that was held, and is not any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    /// Side that it came from.
    pub from: Side,
    /// [`Verdict::Pass`], [`Verdict::Changed`] or [`Verdict::Turned`].
    pub verdict: Verdict,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Results beside a verdict. A function appends; the caller empties it when it likes.
#[derive(Debug, Default)]
pub struct Output {
    /// Events, in order.
    pub events: Vec<Event>,
    /// Packets that were held. They go before later packets of their flow, after the one that
    /// released them.
    pub released: Vec<Released>,
}

/// Part of a function's flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of them.
    All,
    /// Flows of inside hosts whose [`share_of`] is `index`.
    Share {
        /// Below `of`.
        index: u32,
        /// Number of shares; at least 1.
        of: u32,
    },
}

impl Part {
    /// True if the flows of this inside host belong to it.
    pub(crate) fn includes(self, host: IpAddr) -> bool {
        match self {
            Part::All => true,
            Part::Share { index, of } => share_of(host, of) == index,
        }
    }
}

/// Share, of `of`, to which an inside host belongs. Whoever spreads hosts over several instances by
/// this can move one instance's part to another one. It depends on the address only.
///
/// # Panics
/// If `of` is 0.
pub fn share_of(host: IpAddr, of: u32) -> u32 {
    let bits = match host {
        IpAddr::V4(host) => u64::from(host.to_bits()),
        IpAddr::V6(host) => (host.to_bits() >> 64) as u64 ^ host.to_bits() as u64,
    };
    let mixed = (bits ^ bits >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (((mixed >> 32) * u64::from(of)) >> 32) as u32
}

/// Result of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Imported {
    /// Flows that were taken.
    pub flows: usize,
    /// Flows of them whose inspection begins anew, because the rules are others.
    pub restarted: usize,
}

/// Reason why state cannot be imported. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The bytes are no state of this function, or are damaged.
    #[error("byte {at}: {expected} was expected; the state is damaged, or another function's")]
    Damaged {
        /// Offset of the first byte that is wrong.
        at: usize,
        /// The expectation.
        expected: &'static str,
    },
    /// The state has been written by another version.
    #[error("flow state of version {0}; this program reads version 1: export it there again")]
    Version(u16),
    /// State that does not fit beside what is here.
    #[error("flow {index}: {reason}")]
    Clash {
        /// Number of the flow in the state, from 0.
        index: usize,
        /// The obstacle.
        reason: &'static str,
    },
}

/// A network function.
///
/// Its caller gives it the packets of a flow in the order in which they come, and times that never
/// decrease. The function looks at no clock and touches nothing but its own memory. Its results
/// depend on its settings and what it was given, and on nothing else.
pub trait Function {
    /// Handles one packet that begins with its IP header, in place. Its length does not change.
    ///
    /// Bytes of any kind are allowed. The bytes of a packet that is held or dropped mean nothing
    /// afterwards. Cost O(length), and O(1) for expired flows, of which each call ends a few.
    fn process(
        &mut self,
        now: Nanos,
        from: Side,
        packet: &mut [u8],
        output: &mut Output,
    ) -> Verdict;

    /// Ends all flows that were idle for too long.
    fn expire(&mut self, now: Nanos, output: &mut Output);

    /// Time when a flow, or something that is held, ends by being idle, if nothing comes before.
    fn next_deadline(&self) -> Option<Nanos>;

    /// Number of flows.
    fn flows(&self) -> usize;

    /// Appends the state of a part of the flows to `out`, as docs/formats/flow-state.md says. What
    /// is held is not part of it.
    fn export(&self, now: Nanos, part: Part, out: &mut Vec<u8>);

    /// Forgets a part of the flows without events: they live on elsewhere.
    fn forget(&mut self, part: Part);

    /// Adds flows that another instance exported, possibly of another version or machine: the bytes
    /// are not trusted. How long flows have been idle is kept, times themselves are not.
    ///
    /// # Errors
    /// Bytes that are no such state, or flows that cannot be here too. Nothing has changed then.
    fn import(&mut self, now: Nanos, state: &[u8]) -> Result<Imported, ImportError>;

    /// Memory of tables and buffers, without that of compiled rules.
    fn memory(&self) -> Bytes;
}
