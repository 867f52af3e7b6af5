//! One side of the pool: its interface, its neighbours, and packets in and out.
#![deny(clippy::indexing_slicing, clippy::expect_used)]

use crate::config::SideConfig;
use crate::ethernet::Neighbours;
use crate::tenants::is_within;
use bytes::Bytes;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use thermocline_functions::packet::checksum::{Difference, Sum};
use thermocline_ports::packets::PacketCounts;
use thermocline_ports::{Medium, Packets};
use thermocline_ports_os::{Interface, Trouble};
use thermocline_units::Nanos;

/// Packets that are taken from an interface in a row.
const IN_A_ROW: usize = 32;

/// A side.
pub(crate) struct Side {
    interface: Interface,
    /// `None` where packets have no Ethernet header.
    neighbours: Option<Neighbours>,
    config: SideConfig,
    arrived: Vec<Bytes>,
    out: Vec<Bytes>,
    /// Packets to addresses that no network or router is known for.
    pub(crate) unrouted: u64,
}

impl Side {
    /// Opens the interface; `external` are addresses of ours beside the side's own.
    pub(crate) fn open(config: &SideConfig, external: &[Ipv4Addr]) -> Result<Side, String> {
        let interface = Interface::open(&config.interface).map_err(|error| {
            let why = "it takes CAP_NET_RAW and, for TUN devices, CAP_NET_ADMIN";
            match error.kind() {
                std::io::ErrorKind::PermissionDenied => format!("{error}; {why}"),
                _ => error.to_string(),
            }
        })?;
        let neighbours = match (interface.medium(), config.address) {
            (Medium::Ip, _) => None,
            (Medium::Ethernet { address }, Some((own, _))) => {
                let own = std::iter::once(own).chain(external.iter().copied());
                Some(Neighbours::new(address, own.collect()))
            }
            (Medium::Ethernet { .. }, None) => {
                return Err("an Ethernet interface needs an `address`, as \"10.0.0.1/24\"".into());
            }
        };
        let (arrived, out) = (Vec::new(), Vec::new());
        Ok(Side { interface, neighbours, config: config.clone(), arrived, out, unrouted: 0 })
    }

    /// A row of IP packets that have come; true if more may wait.
    pub(crate) fn receive(&mut self, now: Nanos, packets: &mut Vec<Bytes>) -> bool {
        self.interface.receive(now, IN_A_ROW, &mut self.arrived);
        let is_more = self.arrived.len() >= IN_A_ROW;
        for bytes in self.arrived.drain(..) {
            let packet = match &mut self.neighbours {
                Some(neighbours) => neighbours.arrive(now, &bytes, &mut self.out),
                None => Some(bytes),
            };
            packets.extend(packet.and_then(unpadded));
        }
        is_more
    }

    /// Sends a packet towards `to`; it leaves with [`Side::flush`].
    pub(crate) fn send(&mut self, now: Nanos, to: Ipv4Addr, packet: Bytes) {
        let Some(neighbours) = &mut self.neighbours else {
            self.out.push(packet);
            return;
        };
        let is_near = self.config.address.is_some_and(|network| is_within(to, network));
        match if is_near { Some(to) } else { self.config.gateway } {
            Some(next) => neighbours.send(now, next, packet, &mut self.out),
            None => self.unrouted += 1,
        }
    }

    pub(crate) fn flush(&mut self, now: Nanos) {
        if !self.out.is_empty() {
            self.interface.send(now, &mut self.out);
        }
    }

    /// Looks after neighbours and the interface; to be called each second.
    pub(crate) fn tick(&mut self, now: Nanos) {
        self.interface.look();
        if let Some(neighbours) = &mut self.neighbours {
            neighbours.tick(now, &mut self.out);
        }
    }

    /// Trouble with the interface since the last call.
    pub(crate) fn trouble(&mut self) -> Option<Trouble> {
        self.interface.trouble()
    }

    pub(crate) fn counts(&self) -> PacketCounts {
        self.interface.counts()
    }

    /// Packets whose next hop did not answer.
    pub(crate) fn unanswered(&self) -> u64 {
        self.neighbours.as_ref().map_or(0, Neighbours::unanswered)
    }

    pub(crate) fn name(&self) -> &str {
        &self.config.interface
    }
}

impl AsFd for Side {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.interface.as_fd()
    }
}

/// A packet without what short frames are filled up with.
fn unpadded(packet: Bytes) -> Option<Bytes> {
    let length = packet.get(2..4)?;
    let length = usize::from(u16::from_be_bytes(length.try_into().ok()?));
    let is_v4 = packet.first()? >> 4 == 4;
    (is_v4 && length <= packet.len()).then(|| packet.slice(..length))
}

/// True if the checksum of a packet's IPv4 header is right. The next router drops others, so a
/// function must not count them as delivered: an inspection would take their bytes for those of a
/// later packet.
pub(crate) fn header_is_right(packet: &[u8]) -> bool {
    let length = packet.first().map_or(0, |first| usize::from(first & 15) * 4);
    let header = packet.get(..length).filter(|header| header.len() >= 20);
    header.is_some_and(|header| Sum::default().with(header).checksum() == 0)
}

/// True if a packet has another hop before it. It is asked before functions see the packet, for the
/// same reason.
pub(crate) fn has_hops(packet: &[u8]) -> bool {
    packet.get(8).is_some_and(|ttl| *ttl > 1)
}

/// The destination of a packet, and the packet after one hop; `None` if it has made its last.
pub(crate) fn hopped(packet: &Bytes) -> Option<(Ipv4Addr, Bytes)> {
    let mut bytes = packet.to_vec();
    let to: [u8; 4] = bytes.get(16..20)?.try_into().ok()?;
    let header = bytes.get_mut(8..12)?;
    let [ttl, protocol, high, low] = <[u8; 4]>::try_from(&*header).ok()?;
    let left = ttl.checked_sub(1).filter(|left| *left > 0)?;
    let change = Difference::default().replace(&[ttl, protocol], &[left, protocol]);
    let [high, low] = change.apply(u16::from_be_bytes([high, low])).to_be_bytes();
    header.copy_from_slice(&[left, protocol, high, low]);
    Some((Ipv4Addr::from(to), bytes.into()))
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
