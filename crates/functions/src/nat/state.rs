//! Flows of a NAT as plain data.

use super::flows::{CLASSES, Class, Flow, Flows, Mapping};
use super::ports::Ports;
use crate::format::{Kind, NatRecord, open, seal};
use crate::{ImportError, Part, Protocol};
use std::net::Ipv4Addr;
use thermocline_units::Nanos;

/// A flow with its mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) protocol: Protocol,
    pub(super) class: Class,
    pub(super) flags: u8,
    pub(super) inside: (Ipv4Addr, u16),
    pub(super) outside: (Ipv4Addr, u16),
    pub(super) remote: (Ipv4Addr, u16),
    /// Remote port that the mapping is for; 0 where it does not count.
    pub(super) mapped_port: u16,
    pub(super) idle: Nanos,
}

const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Icmp];

/// Appends a part of the flows to `out`.
pub(super) fn export(flows: &Flows, ports: &Ports, now: Nanos, part: Part, out: &mut Vec<u8>) {
    let mut writer = seal(Kind::Nat, 0, out);
    for flow in flows.all() {
        let Flow { last, mapping, remote, remote_port, class, flags } = *flows.flow(flow);
        let Mapping { inside, inside_port, port, pool, protocol, .. } = *flows.mapping(mapping);
        let mapped_port = flows.mapping(mapping).remote_port;
        if !part.includes(Ipv4Addr::from_bits(inside).into()) {
            continue;
        }
        writer.nat(&NatRecord {
            protocol: protocol as u8,
            class: class as u8,
            flags,
            ports: [inside_port, port, remote_port, mapped_port],
            addresses: [inside, ports.address(pool).to_bits(), remote],
            idle: now.saturating_sub(last).0,
        });
    }
    writer.finish();
}

/// Reads what was exported.
pub(super) fn read(state: &[u8]) -> Result<Vec<Record>, ImportError> {
    let sealed = open(Kind::Nat, state)?;
    let records = (0..sealed.count()).map(|index| {
        let (at, raw) = sealed.nat(index)?;
        let damaged = |expected| ImportError::Damaged { at, expected };
        let protocol = PROTOCOLS.get(usize::from(raw.protocol)).copied();
        let protocol = protocol.ok_or(damaged("TCP, UDP or ICMP"))?;
        let class = CLASSES.get(usize::from(raw.class)).copied();
        let class = class.filter(|class| belongs(*class, protocol));
        let [inside_port, port, remote_port, mapped_port] = raw.ports;
        let [inside, outside, remote] = raw.addresses.map(Ipv4Addr::from_bits);
        if protocol == Protocol::Icmp && remote_port != 0 {
            return Err(damaged("no remote port for ICMP"));
        }
        if protocol != Protocol::Icmp && inside_port == 0 {
            return Err(damaged("a port"));
        }
        Ok(Record {
            protocol,
            class: class.ok_or(damaged("a class of the protocol"))?,
            flags: raw.flags,
            inside: (inside, inside_port),
            outside: (outside, port),
            remote: (remote, remote_port),
            mapped_port,
            idle: Nanos(raw.idle),
        })
    });
    records.collect()
}

fn belongs(class: Class, protocol: Protocol) -> bool {
    match class {
        Class::HalfOpen | Class::Closing | Class::Open => protocol == Protocol::Tcp,
        Class::UdpNew | Class::Udp => protocol == Protocol::Udp,
        Class::Icmp => protocol == Protocol::Icmp,
    }
}
