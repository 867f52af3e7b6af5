//! Edits in place: an address and a port, with every checksum that covers them.

use super::checksum::Difference;
use super::{Packet, Transport, word};
use std::net::IpAddr;
use thermocline_units::fields::put_at;
use thermocline_units::mutants::mutant;

/// End of a packet's way that an edit changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Address and port that it comes from.
    Source,
    /// Address and port that it goes to.
    Destination,
}

/// Writes an address and, if there is one, a port or identifier, and corrects the IPv4 header's and
/// the transport header's checksums by difference. `packet` is what was parsed from `bytes`, and is
/// kept up to date.
///
/// A checksum of zero in UDP over IPv4 means none, and stays so. `port` is ignored where the packet
/// has none.
///
/// # Panics
/// If `address` is of the other version than the packet, or `bytes` are shorter than those that
/// were parsed.
pub fn rewrite(
    bytes: &mut [u8],
    packet: &mut Packet,
    end: End,
    address: IpAddr,
    port: Option<u16>,
) {
    let is_source = end == End::Source;
    let old = if is_source { packet.source } else { packet.destination };
    let difference = match (old, address) {
        (IpAddr::V4(old), IpAddr::V4(new)) => {
            let at = if is_source { 12 } else { 16 };
            put_at(bytes, at, &new.octets());
            let difference = Difference::default().replace(&old.octets(), &new.octets());
            correct(bytes, 10, difference, false);
            difference
        }
        (IpAddr::V6(old), IpAddr::V6(new)) => {
            let at = if is_source { 8 } else { 24 };
            put_at(bytes, at, &new.octets());
            Difference::default().replace(&old.octets(), &new.octets())
        }
        _ => panic!("an address of the other IP version"),
    };
    if is_source {
        packet.source = address
    } else {
        packet.destination = address
    }
    let port_difference = port.and_then(|port| write_port(bytes, packet, is_source, port));
    correct_transport(bytes, packet, difference, port_difference.unwrap_or_default());
}

/// Writes a port or the identifier of a query; tells what that changed.
fn write_port(
    bytes: &mut [u8],
    packet: &mut Packet,
    is_source: bool,
    new: u16,
) -> Option<Difference> {
    let at = match &mut packet.transport {
        Transport::Tcp { ports, .. } | Transport::Udp { ports, .. } => {
            if is_source {
                ports.0 = new
            } else {
                ports.1 = new
            }
            packet.start + if is_source { 0 } else { 2 }
        }
        Transport::Query { id, .. } => {
            *id = new;
            packet.start + 4
        }
        _ => return None,
    };
    let old = word(bytes, at)?;
    put_at(bytes, at, &new.to_be_bytes());
    Some(Difference::default().replace_word(old, new))
}

fn correct_transport(bytes: &mut [u8], packet: &Packet, address: Difference, port: Difference) {
    let Some(at) = packet.checksum_at() else { return };
    let covers_address = matches!(packet.transport, Transport::Tcp { .. } | Transport::Udp { .. });
    let is_udp = matches!(packet.transport, Transport::Udp { .. });
    if covers_address {
        correct(bytes, at, address.and(port), is_udp);
    } else {
        correct(bytes, at, port, false);
    }
}

/// Corrects the checksum at `at`. `is_udp`: zero means that there is none, and is never a result.
pub(super) fn correct(bytes: &mut [u8], at: usize, difference: Difference, is_udp: bool) {
    let Some(old) = word(bytes, at) else { return };
    if is_udp && old == 0 && !mutant("udp_without_checksum_gets_one") {
        return;
    }
    let new = match difference.apply(old) {
        0 if is_udp => 0xffff,
        new => new,
    };
    put_at(bytes, at, &new.to_be_bytes());
}
