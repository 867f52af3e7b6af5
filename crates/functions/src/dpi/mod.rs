//! Inspection of packets by rules: pass, alert or drop.
//!
//! 1. A packet belongs to a flow, which two addresses, two ports and the protocol tell.
//! 2. Bytes of a TCP stream are inspected once and in order, whatever segments they come in. Bytes
//!    ahead of a gap pass, and a copy waits until the gap is filled: their receiver cannot use them
//!    before, either. The packet that fills the gap is the one that is dropped if it must be.
//! 3. Of bytes for the same place the first ones count. A segment that contradicts bytes that are
//!    still buffered is dropped. Bytes that were inspected before are not looked at again. What no
//!    receiver takes is dropped, because it would stand for bytes that come later (`segments`).
//! 4. Of other protocols, each packet is inspected for itself.
//! 5. A flow that a rule dropped stays dropped, and one that a rule passed is not looked at any
//!    more, until it ends.
//!
//! The language of rules is in docs/formats/dpi-rules.md. Positions are counted in a direction's
//! stream, not in its packets as Snort's are. IP fragments are not put together: they are dropped,
//! or pass without a look, as the settings say. Bytes of TCP that a receiver lost although they
//! were inspected, and that the sender then sends with other contents, are not noticed.
//!
//! State: 176 bytes a flow, of them 64 for each direction; tables add 23.

mod automaton;
mod filter;
mod gaps;
mod header;
mod reorder;
mod rules;
mod ruleset;
mod scan;
mod segments;
mod stream;

pub use rules::{Action, RuleError};
pub use ruleset::{Limits, Ruleset};

use crate::format::{DirectionRecord, DpiRecord, Kind, open, seal};
use crate::packet::{Packet, TCP, Transport};
use crate::table::{Arena, Index, Queues, hash};
use crate::{Event, Function, ImportError, Imported, Output, Part, Reason, Side, Verdict};
use header::bits;
use reorder::Reorder;
use ruleset::Seen;
use scan::{Decision, Scanner};
use segments::Segment;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use stream::{Direction, Partial, flag};
use thermocline_units::situations::met;
use thermocline_units::{Bytes, Nanos, Rng};

/// Settings of an inspection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Flows at most; default 65,536. Memory is reserved for all of them.
    pub flows_max: usize,
    /// Time after which an idle flow in one direction, or one that has ended, is forgotten; default
    /// 60 s.
    pub timeout: Nanos,
    /// The same for a flow in both directions; default 7,440 s, as a NAT's.
    pub established_timeout: Nanos,
    /// Memory for bytes ahead of gaps, of all flows; default 16 MiB.
    pub reorder_memory: Bytes,
    /// The same, of one direction; default 256 KiB.
    pub direction_memory: Bytes,
    /// Partly matched rules that find no room in their flows, of all flows; default 65,536. A flow
    /// that needs more is dropped.
    pub partial_max: usize,
    /// Packets with a wrong checksum are dropped, because their receiver would not take them;
    /// default true.
    pub verify_checksums: bool,
    /// TCP flows whose beginning was not seen are inspected from where they are; otherwise they are
    /// dropped. Default true.
    pub midstream: bool,
    /// IP fragments pass without a look; default false: they are dropped.
    pub pass_fragments: bool,
    /// Seed of hash keys; should be secret and different at each start.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            flows_max: 65_536,
            timeout: Nanos::from_secs(60),
            established_timeout: Nanos::from_secs(7440),
            reorder_memory: Bytes::from_mib(16),
            direction_memory: Bytes::from_kib(256),
            partial_max: 65_536,
            verify_checksums: true,
            midstream: true,
            pass_fragments: false,
            seed: 0,
        }
    }
}

/// Bits of a flow.
mod bit {
    /// The client is the second end; otherwise the first.
    pub(super) const SECOND_IS_CLIENT: u8 = 1;
    /// The second end is inside; otherwise the first.
    pub(super) const SECOND_IS_INSIDE: u8 = 2;
    pub(super) const PASSED: u8 = 4;
    pub(super) const DROPPED: u8 = 8;
    pub(super) const ESTABLISHED: u8 = 16;
    /// Both streams have ended, or one was reset.
    pub(super) const CLOSED: u8 = 32;
    /// A SYN asked for another connection while this one was open. Not in exported state.
    pub(super) const OFFERED: u8 = 64;
    /// That SYN came from the second end; otherwise from the first. Not in exported state.
    pub(super) const OFFERED_BY_SECOND: u8 = 128;
}

/// Addresses, ports and protocol; the lesser end first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    addresses: [u128; 2],
    ports: [u16; 2],
    protocol: u8,
}

#[derive(Debug, Clone, Copy)]
struct Flow {
    directions: [Direction; 2],
    identity_addresses: [u128; 2],
    last: Nanos,
    identity_ports: [u16; 2],
    protocol: u8,
    bits: u8,
    /// If [`bit::OFFERED`]: the low 16 bits of the first number of the new connection.
    offered: u16,
}

const _: () = assert!(size_of::<Flow>() == 176);

impl Flow {
    fn identity(&self) -> Identity {
        let (addresses, ports) = (self.identity_addresses, self.identity_ports);
        Identity { addresses, ports, protocol: self.protocol }
    }

    fn has(&self, bit: u8) -> bool {
        self.bits & bit != 0
    }

    fn queue(&self) -> usize {
        usize::from(self.has(bit::ESTABLISHED) && !self.has(bit::CLOSED))
    }

    fn inside(&self) -> IpAddr {
        let address = Ipv6Addr::from_bits(
            self.identity_addresses[usize::from(self.has(bit::SECOND_IS_INSIDE))],
        );
        address.to_ipv4_mapped().map_or(address.into(), IpAddr::V4)
    }
}

/// A packet as far as its flow is concerned.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    slot: u32,
    /// 0: from the lesser end.
    direction: usize,
    seen: Seen,
}

impl Arrival {
    /// The same flow's other direction.
    fn reversed(self) -> Arrival {
        let seen = Seen {
            source: self.seen.destination,
            destination: self.seen.source,
            to_server: !self.seen.to_server,
            ..self.seen
        };
        Arrival { direction: 1 - self.direction, seen, ..self }
    }
}

/// An inspection.
#[derive(Debug)]
pub struct Dpi {
    settings: Settings,
    rules: Arc<Ruleset>,
    flows: Arena<Flow>,
    index: Index,
    queues: Queues<2>,
    scanner: Scanner,
    reorder: Reorder,
    key: u64,
}

impl Dpi {
    /// An inspection without flows.
    ///
    /// # Panics
    /// If `flows_max` is 0, or 2^31 or more.
    pub fn new(rules: Arc<Ruleset>, settings: Settings) -> Dpi {
        let max = settings.flows_max;
        assert!((1..1 << 31).contains(&max), "room for 1 to 2^31 - 1 flows");
        let room = settings.reorder_memory.0 as usize;
        Dpi {
            scanner: Scanner::new(&rules, settings.partial_max),
            rules,
            flows: Arena::new(max),
            index: Index::new(max),
            queues: Queues::new(max),
            reorder: Reorder::new(room, settings.direction_memory.0 as usize),
            key: Rng::seeded(settings.seed).next_u64(),
            settings,
        }
    }

    fn hash(&self, identity: &Identity) -> u32 {
        let Identity { addresses: [a, b], ports, protocol } = *identity;
        let words = u64::from(ports[0]) << 32 | u64::from(ports[1]) << 8 | u64::from(protocol);
        hash(self.key, &[(a >> 64) as u64, a as u64, (b >> 64) as u64, b as u64, words])
    }

    fn find(&self, identity: &Identity) -> Option<u32> {
        let hash = self.hash(identity);
        self.index.find(hash, |slot| self.flows[slot].identity() == *identity)
    }

    fn add(&mut self, flow: Flow) -> Option<u32> {
        let hash = self.hash(&flow.identity());
        let slot = self.flows.insert(flow)?;
        self.index.insert(hash, slot);
        self.queues.push(flow.queue(), slot);
        Some(slot)
    }

    fn remove(&mut self, slot: u32) {
        let flow = self.flows[slot];
        self.index.remove(self.hash(&flow.identity()), slot);
        self.queues.remove(flow.queue(), slot);
        for direction in 0..2 {
            self.forget_buffers(slot, direction);
        }
        self.flows.remove(slot);
    }

    fn forget_buffers(&mut self, slot: u32, direction: usize) {
        if self.flows[slot].directions[direction].has(flag::BUFFERED) {
            self.reorder.forget((slot, direction));
        }
        if self.flows[slot].directions[direction].has(flag::SPILLED) {
            self.scanner.forget((slot, direction));
        }
        self.flows[slot].directions[direction].flags &= !(flag::BUFFERED | flag::SPILLED);
    }

    /// Changes bits of a flow, and its queue accordingly.
    fn set(&mut self, slot: u32, bits: u8) {
        let old = self.flows[slot].queue();
        self.flows[slot].bits |= bits;
        let new = self.flows[slot].queue();
        self.queues.remove(old, slot);
        self.queues.push(new, slot);
    }

    fn expire_some(&mut self, now: Nanos, max: usize) {
        let timeouts = [self.settings.timeout, self.settings.established_timeout];
        for (queue, timeout) in timeouts.into_iter().enumerate() {
            for _ in 0..max {
                let Some(slot) = self.queues.first(queue) else { break };
                if self.flows[slot].last.0.saturating_add(timeout.0) > now.0 {
                    break;
                }
                met("an inspected flow was idle for too long");
                self.remove(slot);
            }
        }
    }

    /// The flow of a packet, which it begins if need be.
    fn arrive(&mut self, now: Nanos, from: Side, packet: &Packet) -> Result<Arrival, Reason> {
        let ports = match packet.transport {
            Transport::Query { .. } => (0, 0),
            _ => packet.ports().unwrap_or((0, 0)),
        };
        let (source, destination) = (bits(packet.source), bits(packet.destination));
        let direction = usize::from((source, ports.0) > (destination, ports.1));
        let (first, second) = match direction {
            0 => ((source, ports.0), (destination, ports.1)),
            _ => ((destination, ports.1), (source, ports.0)),
        };
        let identity = Identity {
            addresses: [first.0, second.0],
            ports: [first.1, second.1],
            protocol: packet.protocol,
        };
        let slot = match self.find(&identity) {
            Some(slot) => {
                self.flows[slot].last = now;
                self.set(slot, 0);
                slot
            }
            None => self.begin(now, from, packet, (identity, direction))?,
        };
        let flow = &mut self.flows[slot];
        let is_tcp = packet.protocol == TCP;
        let was_seen = flow.directions[1 - direction].has(flag::STARTED);
        let answers = match packet.transport {
            Transport::Tcp { flags, .. } => flags.ack() && !flags.syn() && !flags.rst(),
            _ => true,
        };
        if !is_tcp {
            flow.directions[direction].flags |= flag::STARTED;
        }
        if was_seen && answers && !flow.has(bit::ESTABLISHED) {
            self.set(slot, bit::ESTABLISHED);
        }
        let flow = &self.flows[slot];
        let seen = Seen {
            protocol: packet.protocol,
            source: (source, ports.0),
            destination: (destination, ports.1),
            to_server: (direction == 1) == flow.has(bit::SECOND_IS_CLIENT),
            established: flow.has(bit::ESTABLISHED),
        };
        Ok(Arrival { slot, direction, seen })
    }

    fn begin(
        &mut self,
        now: Nanos,
        from: Side,
        packet: &Packet,
        (identity, direction): (Identity, usize),
    ) -> Result<u32, Reason> {
        let mut client_is_second = direction == 1;
        if let Transport::Tcp { flags, .. } = packet.transport {
            if !flags.syn() && !self.settings.midstream {
                return Err(Reason::NoFlow);
            }
            client_is_second ^= flags.syn() && flags.ack();
        }
        let inside_is_second = (direction == 1) == (from == Side::Inside);
        let fresh = Direction::new(&self.rules);
        let flow = Flow {
            directions: [fresh; 2],
            identity_addresses: identity.addresses,
            last: now,
            identity_ports: identity.ports,
            protocol: identity.protocol,
            bits: if client_is_second { bit::SECOND_IS_CLIENT } else { 0 }
                | if inside_is_second { bit::SECOND_IS_INSIDE } else { 0 },
            offered: 0,
        };
        if self.flows.room() == 0 {
            let oldest = self.queues.first(0).ok_or(Reason::TableFull)?;
            met("an inspected flow gave way");
            self.remove(oldest);
        }
        self.add(flow).ok_or(Reason::TableFull)
    }

    /// Inspects bytes that come next in a direction.
    fn inspect(
        &mut self,
        arrival: &Arrival,
        piece: &[u8],
        output: &mut Output,
    ) -> Option<Decision> {
        let Arrival { slot, direction, ref seen, .. } = *arrival;
        if seen.protocol != TCP {
            return self.inspect_alone(arrival, piece, output);
        }
        let tell = |sid, dropped| output.events.push(matched(seen, sid, dropped));
        let state = ((slot, direction), &mut self.flows[slot].directions[direction]);
        self.scanner.inspect_piece(&self.rules, seen, state, piece, tell)
    }

    /// Inspects bytes that belong to no others.
    fn inspect_alone(
        &mut self,
        arrival: &Arrival,
        piece: &[u8],
        output: &mut Output,
    ) -> Option<Decision> {
        let Arrival { slot, direction, ref seen, .. } = *arrival;
        let tell = |sid, dropped| output.events.push(matched(seen, sid, dropped));
        let mut alone = Direction::new(&self.rules);
        let key = (slot, 2 + direction);
        let decision =
            self.scanner.inspect_piece(&self.rules, seen, (key, &mut alone), piece, tell);
        if alone.has(flag::SPILLED) {
            self.scanner.forget(key);
        }
        decision
    }

    /// Rules without contents, at the first packet of a direction or any packet of other protocols.
    fn inspect_header(&mut self, arrival: &Arrival, output: &mut Output) -> Option<Decision> {
        let seen = &arrival.seen;
        let tell = |sid, dropped| output.events.push(matched(seen, sid, dropped));
        self.scanner.headers(&self.rules, seen, tell)
    }

    fn decided(&mut self, slot: u32, decision: Decision) -> Verdict {
        for direction in 0..2 {
            self.forget_buffers(slot, direction);
        }
        match decision {
            Decision::Pass => {
                self.set(slot, bit::PASSED);
                Verdict::Pass
            }
            Decision::Drop => {
                self.set(slot, bit::DROPPED);
                Verdict::Dropped(Reason::Rule)
            }
            Decision::Overflow => {
                self.set(slot, bit::DROPPED);
                Verdict::Dropped(Reason::TableFull)
            }
        }
    }
}

fn matched(seen: &Seen, sid: u32, dropped: bool) -> Event {
    let end = |(address, port): (u128, u16)| {
        let address = Ipv6Addr::from_bits(address);
        (address.to_ipv4_mapped().map_or(address.into(), IpAddr::V4), port)
    };
    Event::Matched { sid, dropped, source: end(seen.source), destination: end(seen.destination) }
}

impl Function for Dpi {
    fn process(
        &mut self,
        now: Nanos,
        from: Side,
        bytes: &mut [u8],
        output: &mut Output,
    ) -> Verdict {
        self.expire_some(now, 4);
        let Ok(packet) = Packet::parse(bytes) else {
            return Verdict::Dropped(Reason::Malformed);
        };
        if packet.fragment.is_some() {
            return match self.settings.pass_fragments {
                true => Verdict::Pass,
                false => Verdict::Dropped(Reason::Fragment),
            };
        }
        if self.settings.verify_checksums && !packet.transport_checksum_is_right(bytes) {
            return Verdict::Dropped(Reason::Checksum);
        }
        if segments::is_refused_by_all(&packet) {
            return Verdict::Dropped(Reason::Refused);
        }
        let mut arrival = match self.arrive(now, from, &packet) {
            Ok(arrival) => arrival,
            Err(reason) => return Verdict::Dropped(reason),
        };
        let slot = arrival.slot;
        if self.begins_again(&arrival, &packet.transport) {
            (arrival.seen.to_server, arrival.seen.established) = (true, false);
        } else if let Some(client_next) = self.is_accepted(&arrival, &packet.transport) {
            (arrival.seen.to_server, arrival.seen.established) = (false, false);
            if let Some(decision) = self.accept(&arrival, client_next, output) {
                return self.decided(slot, decision);
            }
        }
        if self.flows[slot].has(bit::DROPPED) {
            return Verdict::Dropped(Reason::Rule);
        }
        if self.flows[slot].has(bit::PASSED) {
            return Verdict::Pass;
        }
        self.scanner.begin_packet();
        if let Transport::Tcp { flags, sequence, acknowledged, payload, .. } = packet.transport {
            let payload = &bytes[payload..packet.end];
            let segment = Segment { flags, sequence, acknowledged, payload };
            let verdict = self.segment(&arrival, segment, output);
            if verdict == Verdict::Pass && flags.ack() && !flags.rst() {
                let decision = self.acknowledged(&arrival, acknowledged, output);
                return decision.map_or(verdict, |decision| self.decided(slot, decision));
            }
            return verdict;
        }
        let payload = match packet.transport {
            Transport::Udp { payload, end, .. } => &bytes[payload..end],
            Transport::Query { .. } | Transport::Error { .. } => {
                &bytes[packet.start + 8..packet.end]
            }
            _ => &bytes[packet.start..packet.end],
        };
        let decision = self.inspect_header(&arrival, output);
        match decision.or_else(|| self.inspect(&arrival, payload, output)) {
            Some(decision) => self.decided(slot, decision),
            None => Verdict::Pass,
        }
    }

    fn expire(&mut self, now: Nanos, _output: &mut Output) {
        self.expire_some(now, usize::MAX);
    }

    fn next_deadline(&self) -> Option<Nanos> {
        let timeouts = [self.settings.timeout, self.settings.established_timeout];
        let ends = timeouts.into_iter().enumerate().filter_map(|(queue, timeout)| {
            let slot = self.queues.first(queue)?;
            Some(Nanos(self.flows[slot].last.0.saturating_add(timeout.0)))
        });
        ends.min()
    }

    fn flows(&self) -> usize {
        self.flows.len()
    }

    fn export(&self, now: Nanos, part: Part, out: &mut Vec<u8>) {
        let mut writer = seal(Kind::Dpi, self.rules.fingerprint, out);
        for slot in self.all().filter(|slot| part.includes(self.flows[*slot].inside())) {
            let flow = &self.flows[slot];
            writer.dpi(&DpiRecord {
                protocol: flow.protocol,
                flags: flow.bits & !(bit::OFFERED | bit::OFFERED_BY_SECOND),
                ports: flow.identity_ports,
                addresses: flow.identity_addresses,
                idle: now.saturating_sub(flow.last).0,
                directions: [0, 1].map(|direction| self.record((slot, direction))),
            });
        }
        writer.finish();
    }

    fn forget(&mut self, part: Part) {
        let mine = self.all().filter(|slot| part.includes(self.flows[*slot].inside()));
        for slot in mine.collect::<Vec<u32>>() {
            self.remove(slot);
        }
    }

    fn import(&mut self, now: Nanos, state: &[u8]) -> Result<Imported, ImportError> {
        let sealed = open(Kind::Dpi, state)?;
        let same_rules = sealed.tag() == self.rules.fingerprint;
        let mut added = Vec::new();
        let mut result = Imported::default();
        for index in 0..sealed.count() {
            let taken = sealed.dpi(index).and_then(|(at, record)| {
                let flow = self.read(now, at, &record, same_rules)?;
                let clash = |reason| ImportError::Clash { index, reason };
                if self.find(&flow.0.identity()).is_some() {
                    return Err(clash("it is here already"));
                }
                let slot = self.add(flow.0).ok_or(clash("there is no room for it"))?;
                Ok((slot, flow.1))
            });
            match taken {
                Ok((slot, restarted)) => {
                    added.push(slot);
                    result.flows += 1;
                    result.restarted += usize::from(restarted);
                }
                Err(error) => {
                    added.into_iter().for_each(|slot| self.remove(slot));
                    return Err(error);
                }
            }
        }
        for queue in 0..2 {
            self.queues.sort_by_key(queue, |slot| self.flows[slot].last);
        }
        Ok(result)
    }

    fn memory(&self) -> Bytes {
        let tables = self.flows.memory() + self.index.memory() + self.queues.memory();
        Bytes((tables + self.scanner.memory() + self.reorder.memory()) as u64)
    }
}

impl Dpi {
    fn all(&self) -> impl Iterator<Item = u32> {
        (0..2).flat_map(|queue| {
            std::iter::successors(self.queues.first(queue), |&slot| self.queues.after(slot))
        })
    }

    /// A flow from a record that is not trusted, and true if its inspection begins anew.
    fn read(
        &self,
        now: Nanos,
        at: usize,
        record: &DpiRecord,
        same_rules: bool,
    ) -> Result<(Flow, bool), ImportError> {
        let damaged = |expected| ImportError::Damaged { at, expected };
        let DpiRecord { protocol, flags, ports, addresses, idle, directions } = *record;
        if flags > 63 || flags & bit::PASSED != 0 && flags & bit::DROPPED != 0 {
            return Err(damaged("bits of a flow"));
        }
        if (addresses[0], ports[0]) > (addresses[1], ports[1]) {
            return Err(damaged("the lesser end first"));
        }
        let mut restarted = false;
        let mut read = [Direction::new(&self.rules); 2];
        for (direction, record) in read.iter_mut().zip(directions) {
            let begins_anew = record.flags & flag::RESTARTED != 0;
            let known = flag::STARTED | flag::ENDED | flag::RESTARTED;
            if record.flags & !known != 0 || record.position > u64::MAX / 2 {
                return Err(damaged("bits and a position of a direction"));
            }
            direction.position = record.position;
            (direction.next, direction.flags) = (record.next, record.flags & 3 | flag::RESUMED);
            let has_states = !same_rules
                || self.rules.tables.iter().zip(record.states).all(|(t, state)| t.has_state(state));
            if !has_states {
                return Err(damaged("states of these rules' automata"));
            }
            if same_rules {
                (direction.states, direction.cases) = (record.states, record.cases);
                let partial = |(rule, seen, end)| Partial { rule, seen, end };
                direction.partial = record.partial.map(partial);
            }
            restarted |= !same_rules || begins_anew;
        }
        let flow = Flow {
            directions: read,
            identity_addresses: addresses,
            last: now.saturating_sub(Nanos(idle)),
            identity_ports: ports,
            protocol,
            bits: flags,
            offered: 0,
        };
        Ok((flow, restarted))
    }

    /// A direction as it moves. What is buffered stays behind, and its receiver may have it: then
    /// inspection begins anew behind it.
    fn record(&self, key: (u32, usize)) -> DirectionRecord {
        let mut direction = self.flows[key.0].directions[key.1];
        if direction.has(flag::SPILLED) || self.reorder.first(key).is_some() {
            met("buffers stayed behind at an export");
            let end = self.reorder.end(key).unwrap_or(direction.position);
            direction.restart(&self.rules);
            direction.go_on(end.saturating_sub(direction.position));
            direction.flags |= flag::RESTARTED;
        }
        DirectionRecord {
            next: direction.next,
            flags: direction.flags & (flag::STARTED | flag::ENDED | flag::RESTARTED),
            position: direction.position,
            states: direction.states,
            cases: direction.cases,
            partial: direction.partial.map(|partial| (partial.rule, partial.seen, partial.end)),
        }
    }
}

#[cfg(test)]
mod tests;
