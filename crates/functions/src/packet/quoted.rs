//! The packet that an ICMP error of IPv4 quotes: its addresses and ports, and edits in place.
//!
//! RFC 792 promises the IP header and eight bytes of what follows; RFC 1812 lets routers quote
//! more. So ports are there, and a checksum of TCP may not be. A checksum that is not quoted needs
//! no correction. Every edit also corrects the checksum of the ICMP header around it (RFC 5508,
//! section 4.2), by difference.

use super::checksum::Difference;
use super::edit::correct;
use super::{End, ICMP, Packet, TCP, Transport, UDP, octets, word};
use std::net::Ipv4Addr;
use thermocline_units::fields::put_at;

/// A quoted packet that has ports or an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quoted {
    /// Its source.
    pub source: (Ipv4Addr, u16),
    /// Its destination. For a query, the port is the identifier, as in the source.
    pub destination: (Ipv4Addr, u16),
    /// Its protocol number: TCP, UDP or ICMP.
    pub protocol: u8,
    /// A query that is a reply.
    pub is_reply: bool,
    at: usize,
    transport: usize,
    end: usize,
}

impl Quoted {
    /// Finds what the error `packet` quotes; `None` if there is nothing to find a flow by: a later
    /// fragment, an error, another protocol, or too few bytes.
    pub fn parse(bytes: &[u8], packet: &Packet) -> Option<Quoted> {
        let Transport::Error { quoted: at } = packet.transport else { return None };
        let header: &[u8; 20] = bytes.get(at..packet.end)?.first_chunk()?;
        let length = usize::from(header[0] & 15) * 4;
        let is_later = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
        if header[0] >> 4 != 4 || length < 20 || is_later {
            return None;
        }
        let transport = at + length;
        let behind: &[u8; 8] = bytes.get(transport..packet.end)?.first_chunk()?;
        let ports = match header[9] {
            TCP | UDP => (word(behind, 0)?, word(behind, 2)?),
            ICMP if matches!(behind[0], 0 | 8 | 13 | 14) => (word(behind, 4)?, word(behind, 4)?),
            _ => return None,
        };
        let address =
            |at: usize| octets(header, at).map(|octets: &[u8; 4]| Ipv4Addr::from(*octets));
        Some(Quoted {
            source: (address(12)?, ports.0),
            destination: (address(16)?, ports.1),
            protocol: header[9],
            is_reply: header[9] == ICMP && matches!(behind[0], 0 | 14),
            at,
            transport,
            end: packet.end,
        })
    }

    /// Writes an address and a port into the quoted packet, and corrects the quoted checksums and
    /// that of the error `packet` around it.
    pub fn rewrite(
        &mut self,
        bytes: &mut [u8],
        packet: &Packet,
        end: End,
        (address, port): (Ipv4Addr, u16),
    ) {
        let (old, address_at, port_at) = match end {
            End::Source => (self.source, self.at + 12, self.transport),
            End::Destination => (self.destination, self.at + 16, self.transport + 2),
        };
        let port_at = if self.protocol == ICMP { self.transport + 4 } else { port_at };
        let address_change = Difference::default().replace(&old.0.octets(), &address.octets());
        let port_change = Difference::default().replace_word(old.1, port);
        put_at(bytes, address_at, &address.octets());
        put_at(bytes, port_at, &port.to_be_bytes());
        let around = address_change.and(port_change);
        let around = around.and(self.correct_at(bytes, self.at + 10, address_change, false));
        let (checksum, change) = match self.protocol {
            TCP => (self.transport + 16, address_change.and(port_change)),
            UDP => (self.transport + 6, address_change.and(port_change)),
            _ => (self.transport + 2, port_change),
        };
        let around = around.and(self.correct_at(bytes, checksum, change, self.protocol == UDP));
        correct(bytes, packet.start + 2, around, false);
        match end {
            End::Source => self.source = (address, port),
            End::Destination => self.destination = (address, port),
        }
        if self.protocol == ICMP {
            (self.source.1, self.destination.1) = (port, port);
        }
    }

    /// Corrects a quoted checksum that is there; tells what that changed.
    fn correct_at(
        &self,
        bytes: &mut [u8],
        at: usize,
        change: Difference,
        is_udp: bool,
    ) -> Difference {
        if at + 2 > self.end {
            return Difference::default();
        }
        let Some(old) = word(bytes, at) else { return Difference::default() };
        correct(bytes, at, change, is_udp);
        let new = word(bytes, at).unwrap_or(old);
        Difference::default().replace_word(old, new)
    }
}
