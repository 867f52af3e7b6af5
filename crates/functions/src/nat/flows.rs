//! Mappings and the flows that go through them, by key and by age.
//!
//! A mapping is a host's port and the external port that stands for it; with a scope that depends
//! on the remote end, also that. A flow is a mapping and one remote end. A mapping lives as long as
//! one of its flows, so its own timer is that of the flow that was active last.
//!
//! Flows are in one queue for each [`Class`]. All flows of a class have the same timeout, so the
//! first of its queue ends first. State: 28 bytes a mapping, 24 a flow, and what `table` adds.

use super::settings::Timeouts;
use crate::Protocol;
use crate::table::{Arena, Index, Queues, hash};
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;

/// An address and a port.
pub(super) type Endpoint = (u32, u16);

/// State of a flow that decides when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// TCP; not yet answered, or the answer not yet acknowledged.
    HalfOpen,
    /// TCP; ended from both sides, or reset.
    Closing,
    /// UDP, in one direction only so far.
    UdpNew,
    /// ICMP query.
    Icmp,
    /// UDP in both directions.
    Udp,
    /// TCP; open.
    Open,
}

pub(super) const CLASSES: [Class; 6] =
    [Class::HalfOpen, Class::Closing, Class::UdpNew, Class::Icmp, Class::Udp, Class::Open];

/// Classes whose flows give way to new ones.
const TRANSITORY: [Class; 4] = [Class::Closing, Class::UdpNew, Class::Icmp, Class::HalfOpen];

impl Class {
    pub(super) fn timeout(self, timeouts: &Timeouts) -> Nanos {
        match self {
            Class::HalfOpen | Class::Closing => timeouts.tcp_transitory,
            Class::Open => timeouts.tcp,
            Class::Udp | Class::UdpNew => timeouts.udp,
            Class::Icmp => timeouts.icmp,
        }
    }
}

/// Facts about a flow, as bits.
pub(super) mod flag {
    pub(in super::super) const SYN_OUT: u8 = 1;
    pub(in super::super) const SYN_IN: u8 = 2;
    pub(in super::super) const FIN_OUT: u8 = 4;
    pub(in super::super) const FIN_IN: u8 = 8;
    /// A packet went out.
    pub(in super::super) const OUT: u8 = 16;
    /// A packet came in.
    pub(in super::super) const IN: u8 = 32;
    pub(in super::super) const RST: u8 = 64;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) inside: u32,
    /// Remote address that it is for; 0 where it is for all.
    pub(super) remote: u32,
    pub(super) inside_port: u16,
    pub(super) remote_port: u16,
    pub(super) port: u16,
    pub(super) pool: u16,
    pub(super) host: u32,
    pub(super) flows: u32,
    pub(super) protocol: Protocol,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) last: Nanos,
    pub(super) mapping: u32,
    pub(super) remote: u32,
    /// 0: stands for all flows to the address, for a filter that asks for addresses.
    pub(super) remote_port: u16,
    pub(super) class: Class,
    pub(super) flags: u8,
}

const _: () = assert!(size_of::<Mapping>() == 28 && size_of::<Flow>() == 24);

/// The tables.
#[derive(Debug)]
pub(super) struct Flows {
    mappings: Arena<Mapping>,
    by_inside: Index,
    flows: Arena<Flow>,
    by_remote: Index,
    queues: Queues<6>,
    key: u64,
    half_open_max: usize,
}

fn mapping_hash(key: u64, protocol: Protocol, inside: Endpoint, remote: Endpoint) -> u32 {
    let ends = u64::from(inside.0) << 32 | u64::from(remote.0);
    let ports = u64::from(inside.1) << 32 | u64::from(remote.1) << 8 | protocol as u64;
    hash(key, &[ends, ports])
}

fn flow_hash(key: u64, mapping: u32, remote: Endpoint) -> u32 {
    hash(key, &[u64::from(mapping) << 32 | u64::from(remote.0), remote.1.into()])
}

impl Flows {
    pub(super) fn new(max: usize, half_open_max: usize, key: u64) -> Flows {
        Flows {
            mappings: Arena::new(max),
            by_inside: Index::new(max),
            flows: Arena::new(max),
            by_remote: Index::new(max),
            queues: Queues::new(max),
            key,
            half_open_max,
        }
    }

    pub(super) fn mapping(&self, mapping: u32) -> &Mapping {
        &self.mappings[mapping]
    }

    pub(super) fn flow(&self, flow: u32) -> &Flow {
        &self.flows[flow]
    }

    /// Number of flows, and of mappings.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.flows.len(), self.mappings.len())
    }

    /// The mapping of a host's port; `remote` is zero where it does not count.
    #[inline]
    pub(super) fn find_mapping(
        &self,
        protocol: Protocol,
        inside: Endpoint,
        remote: Endpoint,
    ) -> Option<u32> {
        let hash = mapping_hash(self.key, protocol, inside, remote);
        self.by_inside.find(hash, |slot| {
            let m = &self.mappings[slot];
            (m.inside, m.inside_port) == inside
                && (m.remote, m.remote_port) == remote
                && m.protocol == protocol
        })
    }

    #[inline]
    pub(super) fn find_flow(&self, mapping: u32, remote: Endpoint) -> Option<u32> {
        let hash = flow_hash(self.key, mapping, remote);
        self.by_remote.find(hash, |slot| {
            let f = &self.flows[slot];
            f.mapping == mapping && (f.remote, f.remote_port) == remote
        })
    }

    /// The flow that must end before one of `class` can begin; `None`: there is room. `Err`: all
    /// that is here is in use. A half-open connection takes the place of the oldest half-open one
    /// when there are as many as may be.
    pub(super) fn in_the_way(&self, class: Class) -> Result<Option<u32>, ()> {
        let half_open = self.queues.len(Class::HalfOpen as usize);
        if class == Class::HalfOpen && half_open >= self.half_open_max {
            return Ok(self.queues.first(Class::HalfOpen as usize));
        }
        if self.flows.room() > 0 {
            return Ok(None);
        }
        let classes = if mutant("open_flows_give_way") { &CLASSES[..] } else { &TRANSITORY[..] };
        let first = classes.iter().filter_map(|&c| self.queues.first(c as usize));
        first.min_by_key(|&flow| self.flows[flow].last).map(Some).ok_or(())
    }

    /// Adds a mapping without flows; the caller has made room for its first flow.
    pub(super) fn add_mapping(&mut self, mapping: Mapping) -> u32 {
        let remote = (mapping.remote, mapping.remote_port);
        let inside = (mapping.inside, mapping.inside_port);
        let hash = mapping_hash(self.key, mapping.protocol, inside, remote);
        let slot = self.mappings.insert(mapping).expect("as many mappings as flows at most");
        self.by_inside.insert(hash, slot);
        slot
    }

    /// Adds a flow; the caller has made room for it.
    pub(super) fn add_flow(&mut self, flow: Flow) -> u32 {
        let hash = flow_hash(self.key, flow.mapping, (flow.remote, flow.remote_port));
        let slot = self.flows.insert(flow).expect("room was made");
        self.by_remote.insert(hash, slot);
        self.queues.push(flow.class as usize, slot);
        self.mappings[flow.mapping].flows += 1;
        slot
    }

    /// Ends a flow; the mapping, too, if it was its last flow, and gives it back then.
    pub(super) fn remove(&mut self, flow: u32) -> Option<Mapping> {
        let Flow { mapping, remote, remote_port, class, .. } = self.flows.remove(flow);
        self.by_remote.remove(flow_hash(self.key, mapping, (remote, remote_port)), flow);
        self.queues.remove(class as usize, flow);
        self.mappings[mapping].flows -= 1;
        (self.mappings[mapping].flows == 0).then(|| self.remove_mapping(mapping))
    }

    /// Removes a mapping that has no flow.
    pub(super) fn remove_mapping(&mut self, mapping: u32) -> Mapping {
        let old = self.mappings.remove(mapping);
        let (inside, remote) = ((old.inside, old.inside_port), (old.remote, old.remote_port));
        self.by_inside.remove(mapping_hash(self.key, old.protocol, inside, remote), mapping);
        old
    }

    /// Notes activity of a flow, and its class and flags from now on.
    pub(super) fn touch(&mut self, flow: u32, now: Nanos, class: Class, flags: u8) {
        let old = self.flows[flow].class;
        self.queues.remove(old as usize, flow);
        self.queues.push(class as usize, flow);
        let entry = &mut self.flows[flow];
        (entry.last, entry.class, entry.flags) = (now, class, flags);
    }

    /// Notes what was seen of a flow without counting it as activity.
    pub(super) fn note(&mut self, flow: u32, flags: u8) {
        self.flows[flow].flags = flags;
    }

    /// A flow whose time is over.
    pub(super) fn expired(&self, now: Nanos, timeouts: &Timeouts) -> Option<u32> {
        let heads = CLASSES.into_iter().filter_map(|class| {
            let flow = self.queues.first(class as usize)?;
            Some((self.flows[flow].last.0.saturating_add(class.timeout(timeouts).0), flow))
        });
        let first = heads.min()?;
        (first.0 <= now.0).then_some(first.1)
    }

    /// Time when the next flow ends.
    pub(super) fn next_deadline(&self, timeouts: &Timeouts) -> Option<Nanos> {
        let heads = CLASSES.into_iter().filter_map(|class| {
            let flow = self.queues.first(class as usize)?;
            Some(self.flows[flow].last.0.saturating_add(class.timeout(timeouts).0))
        });
        heads.min().map(Nanos)
    }

    /// All flows, class by class, the longest idle first.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> {
        CLASSES.into_iter().flat_map(|class| {
            std::iter::successors(self.queues.first(class as usize), |&f| self.queues.after(f))
        })
    }

    /// Puts queues into order after flows were added whose activity is older.
    pub(super) fn sort(&mut self) {
        for class in CLASSES {
            self.queues.sort_by_key(class as usize, |flow| self.flows[flow].last);
        }
    }

    /// Room for more flows.
    pub(super) fn room(&self) -> usize {
        self.flows.room()
    }

    pub(super) fn memory(&self) -> usize {
        self.mappings.memory()
            + self.by_inside.memory()
            + self.flows.memory()
            + self.by_remote.memory()
            + self.queues.memory()
    }
}
