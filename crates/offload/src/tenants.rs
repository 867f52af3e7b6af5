//! The tenant that a packet belongs to, and the share of its hosts.
//!
//! A tenant's hosts are divided into shares by their address. All flows of a share are at one
//! worker at a time, so that a host keeps its mappings. Each share has its own part of the external
//! ports; so a packet from outside tells its share by its port (deterministic NAT, as in RFC 7422),
//! and no table of flows stands before the functions.
#![deny(clippy::indexing_slicing, clippy::expect_used)]

use crate::config::{FIRST_PORT, Network, TenantConfig};
use std::net::{IpAddr, Ipv4Addr};
use thermocline_accel::{FlowKey, GroupId, Way};
use thermocline_functions::packet::{Packet, Quoted, Transport};
use thermocline_functions::{Side, share_of};

/// True if an address is within a network.
pub(crate) fn is_within(address: Ipv4Addr, (network, length): Network) -> bool {
    let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
    (network.to_bits() ^ address.to_bits()) & mask == 0
}

/// The tenants, and how their hosts are divided.
#[derive(Debug, Clone)]
pub(crate) struct Tenants {
    pub(crate) tenants: Vec<TenantConfig>,
    pub(crate) shares: u32,
}

impl Tenants {
    /// External ports of a share.
    fn width(&self) -> u32 {
        (65_536 - u32::from(FIRST_PORT)) / self.shares.max(1)
    }

    /// First and last external port of a share.
    pub(crate) fn ports(&self, key: FlowKey) -> (u16, u16) {
        let first = u32::from(FIRST_PORT) + key.0 as u32 * self.width();
        (first as u16, (first + self.width() - 1) as u16)
    }

    fn share_of_port(&self, port: u16) -> Option<FlowKey> {
        let share = u32::from(port.checked_sub(FIRST_PORT)?) / self.width();
        (share < self.shares).then_some(FlowKey(share.into()))
    }

    fn of_host(&self, host: Ipv4Addr) -> Option<(GroupId, FlowKey)> {
        let has = |tenant: &TenantConfig| tenant.networks.iter().any(|net| is_within(host, *net));
        let at = self.tenants.iter().position(has)?;
        Some((GroupId(at as u32), FlowKey(share_of(host.into(), self.shares).into())))
    }

    /// The tenant whose host has the address.
    pub(crate) fn group_of(&self, host: Ipv4Addr) -> Option<GroupId> {
        self.of_host(host).map(|(group, _)| group)
    }

    /// Tenant, share and direction of a packet from this side; `None` if it is nobody's.
    pub(crate) fn classify(&self, from: Side, bytes: &[u8]) -> Option<((GroupId, FlowKey), Way)> {
        let packet = Packet::parse(bytes).ok()?;
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (packet.source, packet.destination)
        else {
            return None;
        };
        if from == Side::Inside {
            return Some((self.of_host(source)?, Way::Forth));
        }
        let has = |tenant: &TenantConfig| tenant.external.contains(&destination);
        let Some(at) = self.tenants.iter().position(has) else {
            return Some((self.of_host(destination)?, Way::Back));
        };
        let port = match packet.transport {
            Transport::Error { .. } => Quoted::parse(bytes, &packet)?.source.1,
            _ => packet.ports()?.1,
        };
        Some(((GroupId(at as u32), self.share_of_port(port)?), Way::Back))
    }

    /// Number of a tenant.
    pub(crate) fn find(&self, name: &str) -> Option<GroupId> {
        let at = self.tenants.iter().position(|tenant| tenant.name == name)?;
        Some(GroupId(at as u32))
    }

    /// Settings of a tenant.
    pub(crate) fn get(&self, group: GroupId) -> Option<&TenantConfig> {
        self.tenants.get(group.0 as usize)
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
