//! Network interfaces of the system: [`Packets`] through a packet socket or a TUN device.
//!
//! 1. A sender on the same machine leaves checksums to hardware that is not there, and hands over
//!    frames that are to be cut into segments. The kernel says so in a header before each frame.
//! 2. A frame that comes gets its checksum here.
//! 3. A TCP frame that is longer than the interface's MTU goes out with such a header, so that the
//!    kernel cuts it.
//!
//! Frames with a VLAN's tag come without it, as the kernel strips it. Long frames that are not TCP
//! over IPv4 are refused, and counted.

use crate::packet_socket::{BATCH, BUFFER_BYTES, Facts, PacketSocket};
use crate::tun;
use bytes::Bytes;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use thermocline_ports::packets::{ETHERNET_BYTES, PacketCounts};
use thermocline_ports::{Medium, Packets};
use thermocline_units::Nanos;

/// Bytes of `struct virtio_net_hdr`.
const HEADER_BYTES: usize = 10;
/// Its flag that a checksum is to be completed.
const NEEDS_CHECKSUM: u8 = 1;
/// Its kind of segments: TCP over IPv4.
const TCP_V4: u8 = 1;
/// MTU of a TUN device: what the system gives it when nobody says otherwise.
const TUN_MTU: usize = 1500;

/// Trouble with an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// An interface that is down, and may come back.
    Down,
    /// An interface that does not exist any more; one that is made by the same name is another one.
    Gone,
}

/// A network interface of the system.
pub struct Interface {
    kind: Kind,
    counts: PacketCounts,
    trouble: Option<Trouble>,
}

enum Kind {
    Socket { socket: PacketSocket, facts: Facts, buffers: Vec<Vec<u8>>, out: Vec<Vec<u8>> },
    Tun { file: File, buffer: Vec<u8> },
}

impl Interface {
    /// Opens `packet:NAME`, an Ethernet interface that is there, or `tun:NAME`, a TUN device that
    /// is made if it is not there.
    ///
    /// # Errors
    /// The text is neither, there is no such interface, or the system refuses: a packet socket
    /// takes CAP_NET_RAW, a TUN device CAP_NET_ADMIN.
    pub fn open(text: &str) -> io::Result<Interface> {
        let kind = match text.split_once(':') {
            Some(("packet", name)) => {
                let (socket, facts) = PacketSocket::open(name)?;
                let buffers = vec![vec![0; BUFFER_BYTES]; BATCH];
                Kind::Socket { socket, facts, buffers, out: Vec::new() }
            }
            Some(("tun", name)) => {
                Kind::Tun { file: tun::open(name)?, buffer: vec![0; BUFFER_BYTES] }
            }
            _ => {
                let text = format!("`{text}`: write packet:NAME or tun:NAME, such as packet:eth1");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        };
        Ok(Interface { kind, counts: PacketCounts::default(), trouble: None })
    }

    /// Trouble since the last call, as far as receiving or [`Interface::look`] has met it.
    pub fn trouble(&mut self) -> Option<Trouble> {
        self.trouble.take()
    }

    /// Looks whether a packet socket's interface still exists: nothing tells of the end of one that
    /// was down before.
    pub fn look(&mut self) {
        if let Kind::Socket { socket, .. } = &self.kind
            && !socket.is_there()
        {
            self.trouble = Some(Trouble::Gone);
        }
    }

    fn took(&mut self, bytes: usize) {
        self.counts.sent += 1;
        self.counts.sent_bytes += bytes as u64;
    }
}

impl AsFd for Interface {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Socket { socket, .. } => socket.as_fd(),
            Kind::Tun { file, .. } => file.as_fd(),
        }
    }
}

impl Packets for Interface {
    fn medium(&self) -> Medium {
        match &self.kind {
            Kind::Socket { facts, .. } => Medium::Ethernet { address: facts.address },
            Kind::Tun { .. } => Medium::Ip,
        }
    }

    fn mtu(&self) -> usize {
        match &self.kind {
            Kind::Socket { facts, .. } => facts.mtu,
            Kind::Tun { .. } => TUN_MTU,
        }
    }

    fn send(&mut self, _now: Nanos, batch: &mut Vec<Bytes>) {
        match &mut self.kind {
            Kind::Socket { socket, facts, out, .. } => {
                let (mut taken, mut bytes, mut refused) = (0, 0, 0);
                out.clear();
                for frame in batch.drain(..) {
                    match with_header(&frame, facts.mtu) {
                        Some(frame) => out.push(frame),
                        None => refused += 1,
                    }
                }
                let mut rest = out.as_slice();
                while !rest.is_empty() {
                    let count = socket.send(rest).unwrap_or(0).min(rest.len());
                    // One that is not taken is lost, and those behind it are tried.
                    let (sent, left) = rest.split_at(count);
                    taken += count as u64;
                    bytes +=
                        sent.iter().map(|frame| (frame.len() - HEADER_BYTES) as u64).sum::<u64>();
                    refused += u64::from(count == 0);
                    rest = left.get(usize::from(count == 0)..).unwrap_or_default();
                }
                self.counts.sent += taken;
                self.counts.sent_bytes += bytes;
                self.counts.refused += refused;
            }
            Kind::Tun { .. } => {
                for packet in batch.drain(..) {
                    let Kind::Tun { file, .. } = &mut self.kind else { return };
                    match file.write(&packet) {
                        Ok(length) => self.took(length),
                        Err(_) => self.counts.refused += 1,
                    }
                }
            }
        }
    }

    fn receive(&mut self, _now: Nanos, most: usize, arrived: &mut Vec<Bytes>) {
        let before = arrived.len();
        match &mut self.kind {
            Kind::Socket { socket, buffers, .. } => {
                let most = most.min(buffers.len());
                // An interface that is down says so once.
                let lengths = socket.receive(&mut buffers[..most]).unwrap_or_else(|_| {
                    let is_down = socket.is_there();
                    self.trouble = Some(if is_down { Trouble::Down } else { Trouble::Gone });
                    Vec::new()
                });
                for (buffer, length) in buffers.iter_mut().zip(lengths) {
                    match buffer.get_mut(..length).and_then(completed) {
                        Some(frame) => arrived.push(Bytes::copy_from_slice(frame)),
                        None => self.counts.damaged += 1,
                    }
                }
            }
            Kind::Tun { file, buffer } => {
                while arrived.len() - before < most {
                    match file.read(buffer) {
                        Ok(length) => arrived.push(Bytes::copy_from_slice(&buffer[..length])),
                        Err(error) => {
                            use io::ErrorKind::{Interrupted, WouldBlock};
                            if !matches!(error.kind(), Interrupted | WouldBlock) {
                                self.trouble = Some(Trouble::Gone);
                            }
                            break;
                        }
                    }
                }
            }
        }
        let came = &arrived[before..];
        self.counts.received += came.len() as u64;
        self.counts.received_bytes += came.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
    }

    fn next_event(&self) -> Option<Nanos> {
        None
    }

    fn counts(&self) -> PacketCounts {
        self.counts
    }
}

/// Sum of 16-bit words in ones' complement (RFC 1071), folded, on top of `sum`.
fn sum(sum: u64, bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| match word {
        [high, low] => u64::from(u16::from_be_bytes([*high, *low])),
        [high] => u64::from(*high) << 8,
        _ => 0,
    });
    let mut all: u64 = sum + words.sum::<u64>();
    while all > 0xffff {
        all = (all & 0xffff) + (all >> 16);
    }
    all as u16
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

/// The frame behind its header, with the checksum that the header asks for; `None` if the header
/// cannot be.
fn completed(bytes: &mut [u8]) -> Option<&[u8]> {
    let (header, frame) = bytes.split_at_mut_checked(HEADER_BYTES)?;
    if header.first()? & NEEDS_CHECKSUM != 0 {
        let (start, offset) = (usize::from(word(header, 6)?), usize::from(word(header, 8)?));
        // The field has the sum of the pseudo-header, which thus is part of the whole.
        let covered = frame.get_mut(start..)?;
        let value = !sum(0, covered);
        let value = if value == 0 { 0xffff } else { value };
        covered.get_mut(offset..offset.checked_add(2)?)?.copy_from_slice(&value.to_be_bytes());
    }
    (frame.len() >= ETHERNET_BYTES).then_some(&*frame)
}

/// The frame behind a header; one that is too long for the MTU is to be cut by the kernel. `None`
/// if it cannot be cut.
fn with_header(frame: &[u8], mtu: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + frame.len());
    bytes.extend_from_slice(&[0; HEADER_BYTES]);
    bytes.extend_from_slice(frame);
    if frame.len() <= mtu + ETHERNET_BYTES {
        return Some(bytes);
    }
    let packet = frame.get(ETHERNET_BYTES..)?;
    let is_tcp = frame.get(12..14)? == [8, 0] && packet.first()? >> 4 == 4 && *packet.get(9)? == 6;
    if !is_tcp {
        return None;
    }
    let ip_bytes = usize::from(packet.first()? & 15) * 4;
    let tcp = packet.get(ip_bytes..)?;
    let tcp_bytes = usize::from(tcp.get(12)? >> 4) * 4;
    let segment = mtu.checked_sub(ip_bytes + tcp_bytes).filter(|bytes| *bytes > 0)?;
    let (start, head) = (ETHERNET_BYTES + ip_bytes, ETHERNET_BYTES + ip_bytes + tcp_bytes);
    // The pseudo-header: addresses, protocol and length.
    let length = tcp.len() as u64;
    let pseudo = sum(6 + (length >> 16) + (length & 0xffff), packet.get(12..20)?);
    let field = HEADER_BYTES + start + 16;
    bytes.get_mut(field..field + 2)?.copy_from_slice(&pseudo.to_be_bytes());
    let header = bytes.get_mut(..HEADER_BYTES)?;
    let numbers = [head as u16, segment as u16, start as u16, 16];
    header.copy_from_slice(&[NEEDS_CHECKSUM, TCP_V4, 0, 0, 0, 0, 0, 0, 0, 0]);
    for (place, number) in header.get_mut(2..)?.chunks_exact_mut(2).zip(numbers) {
        place.copy_from_slice(&number.to_ne_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
