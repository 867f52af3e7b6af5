//! Ethernet and ARP (RFC 826) on one interface: which frames are for us, and who has an address.
//!
//! 1. IP packets in frames to our address come out of [`Neighbours::arrive`]. Questions for our
//!    addresses are answered.
//! 2. A packet to an address waits while the address is asked for, and leaves with the answer.
//! 3. Answers count for a minute, and are asked for again before they are old. Nobody is asked more
//!    than three times; then what waits is dropped.
//!
//! Bytes come from outside: no place is indexed, and every table has a bound. As always with ARP,
//! whoever is on the network can claim an address.
#![deny(clippy::indexing_slicing, clippy::expect_used)]

use bytes::{BufMut, Bytes, BytesMut};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use thermocline_ports::packets::ETHERNET_BYTES;
use thermocline_units::Nanos;

/// Address of an Ethernet interface.
pub type Mac = [u8; 6];

/// Addresses that are known or asked for.
const NEIGHBOURS_MAX: usize = 4096;
/// Packets that wait for one address.
const WAITING_MAX: usize = 16;
/// Questions for one address without an answer.
const QUESTIONS_MAX: u32 = 3;
/// Time between two questions.
const ASK_AGAIN: Nanos = Nanos::from_secs(1);
/// Age from which an answer is asked for again.
const OLD: Nanos = Nanos::from_secs(30);
/// Age from which it does not count any more.
const TOO_OLD: Nanos = Nanos::from_secs(60);

const BROADCAST: Mac = [0xff; 6];
const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
/// Bytes of an ARP packet for IPv4 on Ethernet.
const ARP_BYTES: usize = 28;
/// Its first bytes: Ethernet, IPv4, and the lengths of their addresses.
const ARP_HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// An ARP packet for IPv4 on Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arp {
    /// A question, and not an answer.
    pub is_question: bool,
    /// The sender.
    pub sender: (Mac, Ipv4Addr),
    /// Address that is asked for, or whose owner is answered.
    pub target: Ipv4Addr,
}

impl Arp {
    /// Reads an ARP packet; `None` if it is another kind of one, or cut off.
    pub fn parse(bytes: &[u8]) -> Option<Arp> {
        let bytes = bytes.get(..ARP_BYTES)?;
        if bytes.get(..6)? != ARP_HEAD {
            return None;
        }
        let is_question = match bytes.get(6..8)? {
            [0, 1] => true,
            [0, 2] => false,
            _ => return None,
        };
        let sender = (bytes.get(8..14)?.try_into().ok()?, address(bytes.get(14..18)?)?);
        Some(Arp { is_question, sender, target: address(bytes.get(24..28)?)? })
    }
}

fn address(bytes: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(bytes).ok().map(Ipv4Addr::from)
}

/// An address of the network.
#[derive(Debug)]
enum Neighbour {
    Known { mac: Mac, since: Nanos, asked: Option<Nanos> },
    Asked { since: Nanos, times: u32, waiting: Vec<Bytes> },
}

/// The neighbours of one interface.
#[derive(Debug)]
pub struct Neighbours {
    mac: Mac,
    /// Addresses for which we answer, the first one our own.
    own: Vec<Ipv4Addr>,
    table: BTreeMap<Ipv4Addr, Neighbour>,
    unanswered: u64,
}

impl Neighbours {
    /// Neighbours of an interface of this address, of which none is known. `own` are the addresses
    /// for which questions are answered.
    pub fn new(mac: Mac, own: Vec<Ipv4Addr>) -> Neighbours {
        Neighbours { mac, own, table: BTreeMap::new(), unanswered: 0 }
    }

    /// Packets that were dropped because nobody answered for their address.
    pub fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// Takes a frame; an IP packet that is for us. Frames to be sent are appended to `out`.
    pub fn arrive(&mut self, now: Nanos, frame: &Bytes, out: &mut Vec<Bytes>) -> Option<Bytes> {
        let to: Mac = frame.get(..6)?.try_into().ok()?;
        let kind = u16::from_be_bytes(frame.get(12..14)?.try_into().ok()?);
        if to != self.mac && (to != BROADCAST || kind != ARP) {
            return None;
        }
        let payload = frame.slice_ref(frame.get(ETHERNET_BYTES..)?);
        match kind {
            IPV4 => Some(payload),
            ARP => {
                self.heard(now, Arp::parse(&payload)?, out);
                None
            }
            _ => None,
        }
    }

    fn heard(&mut self, now: Nanos, arp: Arp, out: &mut Vec<Bytes>) {
        let (mac, from) = arp.sender;
        let is_for_us = self.own.contains(&arp.target);
        let is_no_host = from.is_unspecified() || from.is_broadcast() || from.is_multicast();
        if self.own.contains(&from) || mac == BROADCAST {
            return;
        }
        let is_room = self.table.len() < NEIGHBOURS_MAX;
        if !is_no_host && (self.table.contains_key(&from) || (is_for_us && is_room)) {
            let known = Neighbour::Known { mac, since: now, asked: None };
            if let Some(Neighbour::Asked { waiting, .. }) = self.table.insert(from, known) {
                out.extend(waiting.iter().map(|packet| framed(mac, self.mac, packet)));
            }
        }
        if arp.is_question && is_for_us {
            out.push(self.arp(false, arp.target, (mac, from)));
        }
    }

    /// Sends a packet to the host at `to`, now or when its address is known.
    pub fn send(&mut self, now: Nanos, to: Ipv4Addr, packet: Bytes, out: &mut Vec<Bytes>) {
        match self.table.get_mut(&to) {
            Some(Neighbour::Known { mac, since, asked })
                if now.saturating_sub(*since) < TOO_OLD =>
            {
                out.push(framed(*mac, self.mac, &packet));
                let is_due = asked.is_none_or(|asked| now.saturating_sub(asked) >= ASK_AGAIN);
                if now.saturating_sub(*since) >= OLD && is_due {
                    *asked = Some(now);
                    out.push(self.arp(true, self.name(), (BROADCAST, to)));
                }
            }
            Some(Neighbour::Asked { waiting, .. }) => {
                if waiting.len() < WAITING_MAX {
                    waiting.push(packet);
                } else {
                    self.unanswered += 1;
                }
            }
            Some(Neighbour::Known { .. }) | None => self.ask(now, to, packet, out),
        }
    }

    fn ask(&mut self, now: Nanos, to: Ipv4Addr, packet: Bytes, out: &mut Vec<Bytes>) {
        if self.table.len() >= NEIGHBOURS_MAX && !self.table.contains_key(&to) {
            self.unanswered += 1;
            return;
        }
        self.table.insert(to, Neighbour::Asked { since: now, times: 1, waiting: vec![packet] });
        out.push(self.arp(true, self.name(), (BROADCAST, to)));
    }

    /// Asks again, and forgets who is old or does not answer. To be called once a second or so.
    pub fn tick(&mut self, now: Nanos, out: &mut Vec<Bytes>) {
        let (mut questions, mut lost) = (Vec::new(), 0);
        self.table.retain(|to, neighbour| match neighbour {
            Neighbour::Known { since, .. } => now.saturating_sub(*since) < TOO_OLD,
            Neighbour::Asked { since, times, waiting } => {
                if now.saturating_sub(*since) < ASK_AGAIN {
                    return true;
                }
                if *times >= QUESTIONS_MAX {
                    lost += waiting.len() as u64;
                    return false;
                }
                (*since, *times) = (now, *times + 1);
                questions.push(*to);
                true
            }
        });
        self.unanswered += lost;
        out.extend(questions.into_iter().map(|to| self.arp(true, self.name(), (BROADCAST, to))));
    }

    /// The address in whose name questions are asked.
    fn name(&self) -> Ipv4Addr {
        self.own.first().copied().unwrap_or(Ipv4Addr::UNSPECIFIED)
    }

    fn arp(&self, is_question: bool, from: Ipv4Addr, (mac, to): (Mac, Ipv4Addr)) -> Bytes {
        let mut bytes = BytesMut::with_capacity(ETHERNET_BYTES + ARP_BYTES);
        bytes.put_slice(&mac);
        bytes.put_slice(&self.mac);
        bytes.put_u16(ARP);
        bytes.put_slice(&ARP_HEAD);
        bytes.put_u16(if is_question { 1 } else { 2 });
        bytes.put_slice(&self.mac);
        bytes.put_slice(&from.octets());
        bytes.put_slice(if is_question { &[0; 6] } else { &mac });
        bytes.put_slice(&to.octets());
        bytes.freeze()
    }
}

fn framed(to: Mac, from: Mac, packet: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(ETHERNET_BYTES + packet.len());
    bytes.put_slice(&to);
    bytes.put_slice(&from);
    bytes.put_u16(IPV4);
    bytes.put_slice(packet);
    bytes.freeze()
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
