//! Packets as bytes: where the headers of an IPv4 or IPv6 packet are, and edits in place.
//!
//! [`Packet::parse`] looks at untrusted bytes once and keeps offsets; everything in it is within
//! the bytes that were given. [`rewrite`] changes an address and a port, and corrects every
//! checksum that covers them by difference. It verifies no checksum, except where
//! [`Packet::transport_checksum_is_right`] is asked.
//!
//! It follows IPv4 options and the IPv6 extension headers hop-by-hop, routing, destination,
//! mobility, authentication and fragment. What is behind an encryption header is
//! [`Transport::Other`]. It does not look into tunnels, and does not put fragments together.
#![deny(clippy::indexing_slicing, clippy::expect_used)]

#[allow(clippy::indexing_slicing, clippy::expect_used)] // It makes packets.
pub mod build;
pub mod checksum;
mod edit;
mod quoted;

pub use edit::{End, rewrite};
pub use quoted::Quoted;

use checksum::Sum;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Protocol number of ICMP.
pub(crate) const ICMP: u8 = 1;
/// Protocol number of TCP.
pub(crate) const TCP: u8 = 6;
/// Protocol number of UDP.
pub(crate) const UDP: u8 = 17;
/// Protocol number of ICMPv6.
pub(crate) const ICMP_V6: u8 = 58;

/// Extension headers of IPv6 that a packet may have; more is refused.
pub(crate) const EXTENSION_HEADERS_MAX: usize = 16;

/// Reason why bytes are no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end within a header.
    #[error("the packet ends within a header")]
    Short,
    /// Neither version 4 nor 6.
    #[error("IP version {0}: expected 4 or 6")]
    Version(u8),
    /// A length in a header that cannot be.
    #[error("a header gives a length that cannot be")]
    Length,
    /// More than [`EXTENSION_HEADERS_MAX`] extension headers.
    #[error("more than {EXTENSION_HEADERS_MAX} extension headers")]
    ExtensionHeaders,
    /// A fragment that ends behind the greatest packet, or is cut inside eight bytes.
    #[error("a fragment that does not fit into a packet")]
    Fragment,
}

/// Fragment fields of a packet that is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Number of the datagram; 16 bits in IPv4.
    pub id: u32,
    /// Place of the first byte in the datagram's payload, bytes.
    pub offset: u16,
    /// More fragments follow.
    pub more: bool,
}

/// Flags of a TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// The sender has sent its last byte.
    pub(crate) fn fin(self) -> bool {
        self.0 & 1 != 0
    }
    /// A connection begins.
    pub fn syn(self) -> bool {
        self.0 & 2 != 0
    }
    /// The connection is reset.
    pub(crate) fn rst(self) -> bool {
        self.0 & 4 != 0
    }
    /// The urgent pointer counts.
    pub(crate) fn urg(self) -> bool {
        self.0 & 32 != 0
    }
    /// The acknowledgement number counts.
    pub(crate) fn ack(self) -> bool {
        self.0 & 16 != 0
    }
}

/// Header behind the IP headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp {
        /// Source and destination port.
        ports: (u16, u16),
        /// Its flags.
        flags: TcpFlags,
        /// Sequence number of the first byte.
        sequence: u32,
        /// Sequence number that the receiver of the other direction waits for, if `flags` has ACK.
        acknowledged: u32,
        /// Place of the payload in the packet.
        payload: usize,
    },
    /// UDP.
    Udp {
        /// Source and destination port.
        ports: (u16, u16),
        /// Place of the payload in the packet.
        payload: usize,
        /// End of the payload, by UDP's own length.
        end: usize,
    },
    /// An ICMP query of IPv4 that carries an identifier: echo or timestamp.
    Query {
        /// The identifier.
        id: u16,
        /// A request, and not its reply.
        is_request: bool,
    },
    /// An ICMP error of IPv4 that quotes a packet.
    Error {
        /// Place of the quoted packet.
        quoted: usize,
    },
    /// A fragment that is not the first one.
    Later,
    /// Any other.
    Other,
}

/// Layout of a packet. All places are offsets into the bytes that were parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol number of the transport header.
    pub protocol: u8,
    /// Place of the transport header, or of a later fragment's bytes.
    pub start: usize,
    /// End of the packet by its IP header; bytes behind it are padding.
    pub end: usize,
    /// Present if it is a fragment; a fragment that is a whole datagram is none.
    pub fragment: Option<Fragment>,
    /// The transport header.
    pub transport: Transport,
}

/// Two bytes at `at`, as a number.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u16> {
    octets(bytes, at).map(|b| u16::from_be_bytes(*b))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    octets(bytes, at).map(|b| u32::from_be_bytes(*b))
}

/// `N` bytes at `at`.
fn octets<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

impl Packet {
    /// Finds the headers of a packet that begins with its IP header.
    ///
    /// # Errors
    /// Bytes that are no packet, or not all of it.
    pub fn parse(bytes: &[u8]) -> Result<Packet, Malformed> {
        match bytes.first().ok_or(Malformed::Short)? >> 4 {
            4 => parse_v4(bytes),
            6 => parse_v6(bytes),
            version => Err(Malformed::Version(version)),
        }
    }

    /// The bytes behind a TCP or UDP header; empty for anything else, and where `bytes` are shorter
    /// than those that were parsed.
    pub fn payload<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let place = match self.transport {
            Transport::Tcp { payload, .. } => payload..self.end,
            Transport::Udp { payload, end, .. } => payload..end,
            _ => return &[],
        };
        bytes.get(place).unwrap_or_default()
    }

    /// Source and destination port, or the identifier of a query in both places.
    pub fn ports(&self) -> Option<(u16, u16)> {
        match self.transport {
            Transport::Tcp { ports, .. } | Transport::Udp { ports, .. } => Some(ports),
            Transport::Query { id, .. } => Some((id, id)),
            _ => None,
        }
    }

    /// Place of the transport header's checksum, if it has one that covers the packet.
    pub(crate) fn checksum_at(&self) -> Option<usize> {
        match self.transport {
            Transport::Tcp { .. } => Some(self.start + 16),
            Transport::Udp { .. } => Some(self.start + 6),
            Transport::Query { .. } | Transport::Error { .. } => Some(self.start + 2),
            Transport::Later | Transport::Other => None,
        }
    }

    /// True if the checksum of TCP, UDP or ICMP is right, or is left out as UDP over IPv4 may; true
    /// for fragments and for other protocols, where it cannot be told.
    pub fn transport_checksum_is_right(&self, bytes: &[u8]) -> bool {
        if self.fragment.is_some() {
            return true;
        }
        let end = match self.transport {
            Transport::Udp { end, .. } => end,
            _ => self.end,
        };
        let sum = match self.transport {
            Transport::Udp { .. } if word(bytes, self.start + 6) == Some(0) => {
                return self.source.is_ipv4();
            }
            Transport::Tcp { .. } | Transport::Udp { .. } => self.pseudo_header(end - self.start),
            Transport::Query { .. } | Transport::Error { .. } => Sum::default(),
            Transport::Later | Transport::Other => return true,
        };
        bytes.get(self.start..end).is_some_and(|covered| sum.with(covered).checksum() == 0)
    }

    /// Sum of the pseudo-header (RFC 9293, section 3.1; RFC 8200, section 8.1).
    pub(crate) fn pseudo_header(&self, length: usize) -> Sum {
        let sum = Sum::default().with_word(self.protocol.into()).with_word(length as u16);
        match (self.source, self.destination) {
            (IpAddr::V4(a), IpAddr::V4(b)) => sum.with(&a.octets()).with(&b.octets()),
            (IpAddr::V6(a), IpAddr::V6(b)) => sum.with(&a.octets()).with(&b.octets()),
            _ => sum,
        }
    }
}

fn parse_v4(bytes: &[u8]) -> Result<Packet, Malformed> {
    let header: &[u8; 20] = bytes.first_chunk().ok_or(Malformed::Short)?;
    let start = usize::from(header[0] & 15) * 4;
    let end = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if start < 20 || end < start {
        return Err(Malformed::Length);
    }
    if end > bytes.len() {
        return Err(Malformed::Short);
    }
    let field = u16::from_be_bytes([header[6], header[7]]);
    let id = u16::from_be_bytes([header[4], header[5]]).into();
    let mut packet = Packet {
        source: Ipv4Addr::new(header[12], header[13], header[14], header[15]).into(),
        destination: Ipv4Addr::new(header[16], header[17], header[18], header[19]).into(),
        protocol: header[9],
        start,
        end,
        fragment: fragment(id, (field & 0x1fff) << 3, field & 0x2000 != 0, end - start)?,
        transport: Transport::Other,
    };
    packet.transport = transport(bytes, &packet)?;
    Ok(packet)
}

fn fragment(id: u32, offset: u16, more: bool, len: usize) -> Result<Option<Fragment>, Malformed> {
    if offset == 0 && !more {
        return Ok(None);
    }
    let too_far = usize::from(offset) + len > usize::from(u16::MAX);
    if too_far || len == 0 || (more && !len.is_multiple_of(8)) {
        return Err(Malformed::Fragment);
    }
    Ok(Some(Fragment { id, offset, more }))
}

fn parse_v6(bytes: &[u8]) -> Result<Packet, Malformed> {
    let header: &[u8; 40] = bytes.first_chunk().ok_or(Malformed::Short)?;
    let end = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let whole = bytes.get(..end).ok_or(Malformed::Short)?;
    let address = |at: usize| {
        let octets: Option<&[u8; 16]> = octets(header, at);
        octets.map(|octets| IpAddr::V6(Ipv6Addr::from(*octets))).ok_or(Malformed::Short)
    };
    let mut packet = Packet {
        source: address(8)?,
        destination: address(24)?,
        protocol: header[6],
        start: 40,
        end,
        fragment: None,
        transport: Transport::Other,
    };
    follow_extensions(whole, &mut packet)?;
    packet.transport = transport(bytes, &packet)?;
    Ok(packet)
}

/// Moves `start` and `protocol` behind the extension headers.
fn follow_extensions(bytes: &[u8], packet: &mut Packet) -> Result<(), Malformed> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    const DESTINATION: u8 = 60;
    const MOBILITY: u8 = 135;
    for _ in 0..=EXTENSION_HEADERS_MAX {
        let units = match packet.protocol {
            HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY => 8,
            AUTHENTICATION => 4,
            FRAGMENT => 0,
            _ => return Ok(()),
        };
        let header: &[u8; 8] = octets(bytes, packet.start).ok_or(Malformed::Short)?;
        let length = match units {
            0 => 8,
            4 => (usize::from(header[1]) + 2) * 4,
            _ => (usize::from(header[1]) + 1) * 8,
        };
        let next = packet.start + length;
        if next > bytes.len() {
            return Err(Malformed::Length);
        }
        if packet.protocol == FRAGMENT {
            let field = u16::from_be_bytes([header[2], header[3]]);
            let id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
            let rest = bytes.len() - next;
            packet.fragment = fragment(id, field & 0xfff8, field & 1 != 0, rest)?;
        }
        (packet.start, packet.protocol) = (next, header[0]);
        // A later fragment has no headers of its own behind the fragment header.
        if packet.fragment.is_some_and(|f| f.offset > 0) {
            return Ok(());
        }
    }
    Err(Malformed::ExtensionHeaders)
}

fn transport(bytes: &[u8], packet: &Packet) -> Result<Transport, Malformed> {
    if packet.fragment.is_some_and(|f| f.offset > 0) {
        return Ok(Transport::Later);
    }
    let (at, end) = (packet.start, packet.end);
    let bytes = bytes.get(..end).ok_or(Malformed::Short)?;
    let is_v4 = packet.source.is_ipv4();
    match packet.protocol {
        TCP => {
            let header: &[u8; 20] = octets(bytes, at).ok_or(Malformed::Short)?;
            let payload = at + usize::from(header[12] >> 4) * 4;
            if payload < at + 20 || payload > end {
                return Err(Malformed::Length);
            }
            let ports = (word(bytes, at), word(bytes, at + 2));
            let (Some(from), Some(to)) = ports else { return Err(Malformed::Short) };
            let sequence = long(bytes, at + 4).ok_or(Malformed::Short)?;
            let flags = TcpFlags(header[13]);
            let acknowledged = long(bytes, at + 8).ok_or(Malformed::Short)?;
            Ok(Transport::Tcp { ports: (from, to), flags, sequence, acknowledged, payload })
        }
        UDP => {
            let ports = (word(bytes, at), word(bytes, at + 2), word(bytes, at + 4));
            let (Some(from), Some(to), Some(length)) = ports else { return Err(Malformed::Short) };
            let payload = at + 8;
            let by_length = at + usize::from(length);
            let whole = packet.fragment.is_none();
            if payload > end || length < 8 || (whole && by_length > end) {
                return Err(Malformed::Length);
            }
            Ok(Transport::Udp { ports: (from, to), payload, end: by_length.min(end) })
        }
        ICMP if is_v4 => {
            let header: &[u8; 8] = octets(bytes, at).ok_or(Malformed::Short)?;
            let id = u16::from_be_bytes([header[4], header[5]]);
            Ok(match header[0] {
                0 | 14 => Transport::Query { id, is_request: false },
                8 | 13 => Transport::Query { id, is_request: true },
                3 | 4 | 5 | 11 | 12 => Transport::Error { quoted: at + 8 },
                _ => Transport::Other,
            })
        }
        _ => Ok(Transport::Other),
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
pub(crate) mod tests;
