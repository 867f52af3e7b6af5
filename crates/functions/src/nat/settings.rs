//! Settings of a NAT, with the defaults of the RFCs.

use std::net::Ipv4Addr;
use thermocline_units::{Bytes, Nanos};

/// External addresses that one NAT may have.
pub(crate) const EXTERNAL_MAX: usize = 256;

/// Scope of a mapping or a filter: which packets of a host's port count as the same (RFC 4787,
/// sections 4.1 and 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All, wherever they go to or come from.
    Independent,
    /// Those with one remote address.
    Address,
    /// Those with one remote address and port.
    AddressAndPort,
}

/// Choice of an external port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// The host's own port if it is free; otherwise one at random, odd for odd and even for even
    /// (RFC 4787, section 4.2.2).
    Preserve,
    /// At random, which makes ports hard to guess (RFC 6056).
    Random,
    /// Hosts own blocks of neighbouring ports, and choose in them at random. Then a log of blocks
    /// is enough to find a host (RFC 6888, REQ-14).
    Blocks {
        /// Ports of a block; divides the range of ports, 8 to 4096.
        ports: u16,
        /// Blocks that a host may own.
        per_host: u16,
    },
}

/// Times after which an idle flow ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// UDP; default 300 s (RFC 4787, REQ-5: at least 120 s).
    pub udp: Nanos,
    /// TCP connections that are open; default 7,440 s (RFC 5382, REQ-5: at least that).
    pub tcp: Nanos,
    /// TCP connections that open or close; default 240 s (the same: at least that).
    pub tcp_transitory: Nanos,
    /// ICMP queries; default 60 s (RFC 5508, REQ-2: at least that).
    pub icmp: Nanos,
    /// A fragmented datagram, as far as it is known or kept; default 15 s.
    pub fragment: Nanos,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            udp: Nanos::from_secs(300),
            tcp: Nanos::from_secs(7440),
            tcp_transitory: Nanos::from_secs(240),
            icmp: Nanos::from_secs(60),
            fragment: Nanos::from_secs(15),
        }
    }
}

/// Settings of a NAT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// External addresses: 1 to [`EXTERNAL_MAX`], no two equal. A host keeps one of them while it
    /// has flows (RFC 4787, REQ-2).
    pub external: Vec<Ipv4Addr>,
    /// Networks of hosts that are served, as address and length of the prefix; empty: all hosts.
    pub inside: Vec<(Ipv4Addr, u8)>,
    /// First and last external port that may be given out; default 1024 to 65535. Instances that
    /// share an external address need ranges that do not meet. For ICMP these are identifiers.
    pub ports: (u16, u16),
    /// Choice of an external port; default [`Allocation::Preserve`].
    pub allocation: Allocation,
    /// Scope of mappings; default [`Scope::Independent`] (RFC 4787, REQ-1).
    pub mapping: Scope,
    /// Scope of the filter; default [`Scope::AddressAndPort`], as Linux's. RFC 4787, REQ-8,
    /// recommends the others, for transparency; [`Scope::Address`] takes a second record a flow.
    pub filtering: Scope,
    /// Hosts reach each other by their external addresses; default true (RFC 4787, REQ-9).
    pub hairpin: bool,
    /// Packets from outside count as activity of UDP flows; default true.
    pub inbound_refresh: bool,
    /// Times after which an idle flow ends.
    pub timeouts: Timeouts,
    /// Flows at most; default 65,536. Memory is reserved for all of them.
    pub flows_max: usize,
    /// TCP connections among them that have not been answered yet; default an eighth.
    pub half_open_max: usize,
    /// External ports that a host may have, of each kind together; default 4,096.
    pub host_ports_max: u32,
    /// Fragmented datagrams that are known at a time; default 1,024.
    pub fragments_max: usize,
    /// Memory for fragments that came before their first one; default 256 KiB.
    pub fragment_memory: Bytes,
    /// Events for each mapping, not only for blocks; default true.
    pub log_mappings: bool,
    /// Seed of ports and of hash keys; should be secret and different at each start.
    pub seed: u64,
}

impl Settings {
    /// Defaults, for these external addresses.
    pub fn new(external: Vec<Ipv4Addr>) -> Settings {
        Settings {
            external,
            inside: Vec::new(),
            ports: (1024, 65535),
            allocation: Allocation::Preserve,
            mapping: Scope::Independent,
            filtering: Scope::AddressAndPort,
            hairpin: true,
            inbound_refresh: true,
            timeouts: Timeouts::default(),
            flows_max: 65_536,
            half_open_max: 8_192,
            host_ports_max: 4_096,
            fragments_max: 1_024,
            fragment_memory: Bytes::from_kib(256),
            log_mappings: true,
            seed: 0,
        }
    }

    pub(super) fn check(&self) -> Result<(), SettingsError> {
        let mut sorted = self.external.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.is_empty() || sorted.len() > EXTERNAL_MAX || sorted.len() < self.external.len() {
            return Err(SettingsError::External);
        }
        if self.ports.0 == 0 || self.ports.0 > self.ports.1 {
            return Err(SettingsError::Ports);
        }
        if let Allocation::Blocks { ports, per_host } = self.allocation {
            let range = u32::from(self.ports.1) - u32::from(self.ports.0) + 1;
            if !(8..=4096).contains(&ports) || range % u32::from(ports) != 0 || per_host == 0 {
                return Err(SettingsError::Blocks);
            }
        }
        if self.inside.iter().any(|(_, length)| *length > 32) {
            return Err(SettingsError::Prefix);
        }
        if !(1..1 << 31).contains(&self.flows_max) || self.half_open_max == 0 {
            return Err(SettingsError::Flows);
        }
        Ok(())
    }

    pub(super) fn is_inside(&self, address: Ipv4Addr) -> bool {
        self.inside.is_empty()
            || self.inside.iter().any(|(network, length)| {
                let mask = u32::MAX.checked_shl(32 - u32::from(*length)).unwrap_or(0);
                (network.to_bits() ^ address.to_bits()) & mask == 0
            })
    }
}

/// Settings that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// No external address, too many, or one twice.
    #[error("give 1 to {EXTERNAL_MAX} external addresses, each once")]
    External,
    /// A range of ports that is empty or has port 0.
    #[error("give a range of ports from 1 on whose first is not above its last")]
    Ports,
    /// Blocks that do not fit the range.
    #[error("give blocks of 8 to 4096 ports that divide the range of ports, 1 or more a host")]
    Blocks,
    /// A prefix longer than an address.
    #[error("give prefixes of 0 to 32 bits")]
    Prefix,
    /// No room for flows, or too much.
    #[error("give room for 1 to 2^31 - 1 flows, and for 1 or more that are half open")]
    Flows,
}
