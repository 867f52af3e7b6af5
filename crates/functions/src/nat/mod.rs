//! NAT44: hosts inside share external addresses, by ports (NAPT).
//!
//! 1. A packet from inside finds the mapping of its host's port, or makes one: an external address
//!    and port. Source address and port are replaced.
//! 2. A packet from outside finds the mapping by the external port. If the filter lets its sender
//!    in, destination address and port are replaced.
//! 3. A packet from inside to an external address goes through both steps and back inside
//!    (hairpin).
//! 4. ICMP errors find the flow by the packet that they quote, which is translated, too. They are
//!    no activity of a flow. ICMP queries are mapped by their identifier.
//! 5. Fragments follow their datagram's first fragment.
//! 6. Flows end when they are idle for too long. When the table is full, the longest idle flow
//!    gives way that nobody answered or that is closing; a flow in use never does. A flood of SYNs
//!    has its own limit. When ports are exhausted, new flows are refused.
//!
//! Sources: RFC 4787 (Audet and Jennings, Network Address Translation Behavioral Requirements for
//! Unicast UDP, 2007), RFC 5382 (the same for TCP, 2008), RFC 5508 (ICMP, 2009), RFC 7857 (updates,
//! 2016), RFC 6888 (carrier-grade NAT, 2013). Differences: the default filter is that of Linux,
//! address and port, where RFC 4787 recommends address; ports below 1024 are not kept apart; TCP
//! sequence numbers are not followed; TTL is left to the router. IPv6 passes unchanged.
//!
//! State: 118 bytes a flow with its own mapping and host.

mod flows;
mod fragments;
mod ports;
mod settings;
mod state;

pub use settings::{Allocation, Scope, Settings, SettingsError, Timeouts};

use crate::packet::{End, Packet, Quoted, TCP, TcpFlags, Transport, UDP, rewrite};
use crate::{Event, Function, ImportError, Imported, Output, Part, Protocol, Reason, Released};
use crate::{Side, Verdict};
use flows::{Class, Endpoint, Flow, Flows, Mapping, flag};
use fragments::{Datagram, Decision, Fragments};
use ports::{Granted, Ports, Refusal};
use std::net::{IpAddr, Ipv4Addr};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{Bytes, Nanos, Rng};

/// Flows that one packet ends at most, on its way.
const ENDED_BY_PACKET_MAX: usize = 8;

/// A NAT.
///
/// ```
/// use thermocline_functions::nat::{Nat, Settings};
/// use thermocline_functions::{Function, Output, Reason, Side, Verdict};
/// use thermocline_units::Nanos;
/// let mut nat = Nat::new(Settings::new(vec!["192.0.2.1".parse().unwrap()])).unwrap();
/// let mut junk = [0; 20];
/// let verdict = nat.process(Nanos(0), Side::Inside, &mut junk, &mut Output::default());
/// assert_eq!(verdict, Verdict::Dropped(Reason::Malformed));
/// ```
#[derive(Debug)]
pub struct Nat {
    settings: Settings,
    ports: Ports,
    flows: Flows,
    fragments: Fragments,
    /// No flow ends before this time.
    soonest: Nanos,
}

/// A packet that belongs to a flow, as the flow's key sees it.
#[derive(Debug, Clone, Copy)]
struct Seen {
    protocol: Protocol,
    from: (Ipv4Addr, u16),
    to: (Ipv4Addr, u16),
    tcp: Option<TcpFlags>,
}

type Outcome = Result<(), Reason>;

impl Nat {
    /// A NAT without flows.
    ///
    /// # Errors
    /// Settings that cannot be.
    pub fn new(settings: Settings) -> Result<Nat, SettingsError> {
        settings.check()?;
        let mut rng = Rng::seeded(settings.seed ^ 0x006e_6174_3434);
        let (timeout, memory) = (settings.timeouts.fragment, settings.fragment_memory);
        Ok(Nat {
            ports: Ports::new(&settings),
            flows: Flows::new(settings.flows_max, settings.half_open_max, rng.next_u64()),
            fragments: Fragments::new(settings.fragments_max, memory.0 as usize, timeout),
            soonest: Nanos(u64::MAX),
            settings,
        })
    }

    /// Mappings, external ports in use and hosts that own them: for reports, and to find leaks.
    /// Walks over all ports.
    pub fn usage(&self) -> (usize, usize, usize) {
        (self.flows.counts().1, self.ports.used(), self.ports.hosts())
    }

    /// Remote end as it counts for a mapping.
    fn mapped_remote(&self, remote: (Ipv4Addr, u16)) -> Endpoint {
        match self.settings.mapping {
            Scope::Independent => (0, 0),
            Scope::Address => (remote.0.to_bits(), 0),
            Scope::AddressAndPort => endpoint(remote),
        }
    }

    fn outbound(
        &mut self,
        now: Nanos,
        bytes: &mut [u8],
        packet: &mut Packet,
        output: &mut Output,
    ) -> Result<bool, Reason> {
        let hairpin = match packet.destination {
            IpAddr::V4(to) => self.ports.pool_of(to),
            IpAddr::V6(_) => None,
        };
        if hairpin.is_some() && !self.settings.hairpin {
            return Err(Reason::NotOurs);
        }
        let mut own = None;
        match packet.transport {
            Transport::Error { .. } => self.error_out(bytes, packet)?,
            Transport::Query { .. } if hairpin.is_some() => return Err(Reason::Protocol),
            _ => {
                let seen = seen(packet, true).ok_or(Reason::Protocol)?;
                let mapping = self.flow_out(now, seen, output)?;
                let Mapping { pool, port, .. } = *self.flows.mapping(mapping);
                let address = self.ports.address(pool).into();
                rewrite(bytes, packet, End::Source, address, Some(port));
                own = Some((seen.protocol, pool, port, mapping));
            }
        }
        if hairpin.is_some() {
            met("a packet turned");
            self.inbound(now, bytes, packet, output)?;
            // The peer's flow may have taken the place of this one, in a table that is that small.
            let is_gone = own.is_some_and(|(protocol, pool, port, mapping)| {
                self.ports.mapping(protocol, pool, port) != Some(mapping)
            });
            if is_gone {
                return Err(Reason::TableFull);
            }
        }
        Ok(hairpin.is_some())
    }

    /// Finds or makes the flow of a packet from inside; gives its mapping.
    fn flow_out(&mut self, now: Nanos, seen: Seen, output: &mut Output) -> Result<u32, Reason> {
        let inside = endpoint(seen.from);
        let remote = remote_end(seen.protocol, seen.to);
        let key = self.mapped_remote((seen.to.0, remote.1));
        let known = self.flows.find_mapping(seen.protocol, inside, key);
        let mapping = match known.and_then(|m| self.flows.find_flow(m, remote).map(|f| (m, f))) {
            Some((mapping, flow)) => {
                self.refresh(now, flow, seen, true);
                mapping
            }
            None => self.begin_out(now, seen, key, output)?,
        };
        if self.settings.filtering == Scope::Address && seen.protocol != Protocol::Icmp {
            self.let_address_in(now, mapping, seen, output)?;
        }
        Ok(mapping)
    }

    fn begin_out(
        &mut self,
        now: Nanos,
        seen: Seen,
        key: Endpoint,
        output: &mut Output,
    ) -> Result<u32, Reason> {
        if seen.tcp.is_some_and(|flags| !flags.syn() || flags.ack() || flags.rst()) {
            return Err(Reason::NoFlow);
        }
        self.make_room(first_class(seen.protocol), output)?;
        // Only now: making room may have ended the mapping.
        let known = self.flows.find_mapping(seen.protocol, endpoint(seen.from), key);
        let mapping = match known {
            Some(mapping) => mapping,
            None => self.give_port(seen, key, output)?,
        };
        self.begin(now, mapping, remote_end(seen.protocol, seen.to), seen, true);
        Ok(mapping)
    }

    fn give_port(&mut self, seen: Seen, key: Endpoint, output: &mut Output) -> Result<u32, Reason> {
        let Seen { protocol, from: (host, port), .. } = seen;
        let granted = self.ports.take(protocol, host, port, &mut output.events);
        let granted = granted.map_err(|refusal| {
            let by_host = refusal == Refusal::ByHost;
            met(if by_host { "a host has all its ports" } else { "ports are exhausted" });
            output.events.push(Event::Exhausted { host: host.into(), protocol, by_host });
            Reason::PortsExhausted
        })?;
        let mapping = self.add_mapping(protocol, endpoint(seen.from), key, granted);
        if self.settings.log_mappings {
            output.events.push(self.mapped(self.flows.mapping(mapping), true));
        }
        Ok(mapping)
    }

    fn add_mapping(
        &mut self,
        protocol: Protocol,
        inside: Endpoint,
        remote: Endpoint,
        granted: Granted,
    ) -> u32 {
        let mapping = self.flows.add_mapping(Mapping {
            inside: inside.0,
            remote: remote.0,
            inside_port: inside.1,
            remote_port: remote.1,
            port: granted.port,
            pool: granted.pool,
            host: granted.host,
            flows: 0,
            protocol,
        });
        self.ports.assign(protocol, granted, mapping);
        mapping
    }

    fn mapped(&self, mapping: &Mapping, begins: bool) -> Event {
        let protocol = mapping.protocol;
        let inside = (Ipv4Addr::from_bits(mapping.inside).into(), mapping.inside_port);
        let outside = (self.ports.address(mapping.pool).into(), mapping.port);
        if begins {
            Event::Mapped { protocol, inside, outside }
        } else {
            Event::Unmapped { protocol, inside, outside }
        }
    }

    /// Makes room for a flow: the longest idle one that may give way ends.
    fn make_room(&mut self, class: Class, output: &mut Output) -> Outcome {
        let way = self.flows.in_the_way(class).map_err(|()| {
            met("the table is full of flows in use");
            Reason::TableFull
        })?;
        if let Some(flow) = way {
            met("a flow gave way");
            self.end(flow, &mut output.events);
        }
        Ok(())
    }

    /// Adds a flow whose first packet was seen; there is room.
    fn begin(&mut self, now: Nanos, mapping: u32, remote: Endpoint, seen: Seen, out: bool) {
        let class = first_class(seen.protocol);
        let entry =
            Flow { last: now, mapping, remote: remote.0, remote_port: remote.1, class, flags: 0 };
        let (class, flags) = after(&entry, seen.tcp, out);
        self.flows.add_flow(Flow { class, flags, ..entry });
        self.ends_not_before(now, class);
    }

    fn ends_not_before(&mut self, now: Nanos, class: Class) {
        let end = now.0.saturating_add(class.timeout(&self.settings.timeouts).0);
        self.soonest = self.soonest.min(Nanos(end));
    }

    fn refresh(&mut self, now: Nanos, flow: u32, seen: Seen, out: bool) {
        let (class, flags) = after(self.flows.flow(flow), seen.tcp, out);
        if !out && seen.protocol == Protocol::Udp && !self.settings.inbound_refresh {
            self.flows.note(flow, flags);
            return;
        }
        self.flows.touch(flow, now, class, flags);
        self.ends_not_before(now, class);
    }

    /// Keeps the record by which a filter that asks for addresses lets a remote address in.
    fn let_address_in(
        &mut self,
        now: Nanos,
        mapping: u32,
        seen: Seen,
        output: &mut Output,
    ) -> Outcome {
        let remote = (seen.to.0.to_bits(), 0);
        // It lives as long as a flow that it stands for, and gives way as that does.
        let flow = self.flows.find_flow(mapping, endpoint(seen.to));
        let Some(class) = flow.map(|flow| self.flows.flow(flow).class) else { return Ok(()) };
        let class = if let Some(record) = self.flows.find_flow(mapping, remote) {
            let class = class.max(self.flows.flow(record).class);
            self.flows.touch(record, now, class, 0);
            class
        } else {
            let way = self.flows.in_the_way(class).map_err(|()| Reason::TableFull)?;
            if let Some(way) = way {
                // Not the flow itself: then its packet goes without the record.
                if self.flows.flow(way).mapping == mapping {
                    return Ok(());
                }
                self.end(way, &mut output.events);
            }
            let (remote, remote_port) = remote;
            let flow = Flow { last: now, mapping, remote, remote_port, class, flags: 0 };
            self.flows.add_flow(flow);
            class
        };
        self.ends_not_before(now, class);
        Ok(())
    }

    fn inbound(
        &mut self,
        now: Nanos,
        bytes: &mut [u8],
        packet: &mut Packet,
        output: &mut Output,
    ) -> Outcome {
        if let Transport::Error { .. } = packet.transport {
            return self.error_in(bytes, packet);
        }
        let seen = seen(packet, false).ok_or(Reason::Protocol)?;
        let pool = self.ports.pool_of(seen.to.0).ok_or(Reason::NotOurs)?;
        let mapping = self.flow_in(now, seen, pool, output)?;
        let Mapping { inside, inside_port, .. } = *self.flows.mapping(mapping);
        let address = Ipv4Addr::from_bits(inside).into();
        rewrite(bytes, packet, End::Destination, address, Some(inside_port));
        Ok(())
    }

    /// Finds the mapping of a packet from outside, if the filter lets it in.
    fn flow_in(
        &mut self,
        now: Nanos,
        seen: Seen,
        pool: u16,
        output: &mut Output,
    ) -> Result<u32, Reason> {
        let Seen { protocol, to, .. } = seen;
        let mapping = self.ports.mapping(protocol, pool, to.1).ok_or(Reason::NoFlow)?;
        let remote = remote_end(protocol, seen.from);
        if let Some(flow) = self.flows.find_flow(mapping, remote) {
            self.refresh(now, flow, seen, false);
            return Ok(mapping);
        }
        let Mapping { remote: own, remote_port, .. } = *self.flows.mapping(mapping);
        let lets_in = match self.settings.filtering {
            Scope::Independent => true,
            Scope::Address => self.flows.find_flow(mapping, (remote.0, 0)).is_some(),
            Scope::AddressAndPort => mutant("filter_lets_everybody_in"),
        };
        if !lets_in || (own, remote_port) != self.mapped_remote((seen.from.0, remote.1)) {
            return Err(Reason::Filtered);
        }
        met("a stranger was let in");
        if let Some(flags) = seen.tcp {
            if !flags.syn() || flags.ack() {
                return Err(Reason::NoFlow);
            }
            self.make_room(Class::HalfOpen, output)?;
            if self.ports.mapping(protocol, pool, to.1) != Some(mapping) {
                return Err(Reason::NoFlow);
            }
            self.begin(now, mapping, remote, seen, false);
        }
        // UDP and ICMP get their flow when the host answers: strangers take no room in the table.
        Ok(mapping)
    }

    /// Translates an error about a packet that went out.
    fn error_in(&mut self, bytes: &mut [u8], packet: &mut Packet) -> Outcome {
        let mut quoted = Quoted::parse(bytes, packet).ok_or(Reason::NoFlow)?;
        let protocol = protocol_of(quoted.protocol).ok_or(Reason::NoFlow)?;
        let pool = self.ports.pool_of(quoted.source.0).ok_or(Reason::NotOurs)?;
        if quoted.is_reply || packet.destination != IpAddr::V4(quoted.source.0) {
            return Err(Reason::NoFlow);
        }
        let mapping = self.ports.mapping(protocol, pool, quoted.source.1).ok_or(Reason::NoFlow)?;
        let remote = remote_end(protocol, quoted.destination);
        self.flows.find_flow(mapping, remote).ok_or(Reason::NoFlow)?;
        met("an error came in");
        let Mapping { inside, inside_port, .. } = *self.flows.mapping(mapping);
        let host = Ipv4Addr::from_bits(inside);
        if !mutant("quoted_packet_is_not_translated") {
            quoted.rewrite(bytes, packet, End::Source, (host, inside_port));
        }
        rewrite(bytes, packet, End::Destination, host.into(), None);
        Ok(())
    }

    /// Translates an error of a host about a packet that came in.
    fn error_out(&mut self, bytes: &mut [u8], packet: &mut Packet) -> Outcome {
        let mut quoted = Quoted::parse(bytes, packet).ok_or(Reason::NoFlow)?;
        let protocol = protocol_of(quoted.protocol).ok_or(Reason::NoFlow)?;
        let remote = remote_end(protocol, quoted.source);
        let key = self.mapped_remote((quoted.source.0, remote.1));
        let inside = endpoint(quoted.destination);
        let mapping = self.flows.find_mapping(protocol, inside, key).ok_or(Reason::NoFlow)?;
        let is_query = protocol == Protocol::Icmp && !quoted.is_reply;
        if is_query || packet.destination != IpAddr::V4(quoted.source.0) {
            return Err(Reason::NoFlow);
        }
        self.flows.find_flow(mapping, remote).ok_or(Reason::NoFlow)?;
        met("an error went out");
        let Mapping { pool, port, .. } = *self.flows.mapping(mapping);
        let address = self.ports.address(pool);
        quoted.rewrite(bytes, packet, End::Destination, (address, port));
        rewrite(bytes, packet, End::Source, address.into(), None);
        Ok(())
    }

    fn end(&mut self, flow: u32, events: &mut Vec<Event>) {
        let Some(mapping) = self.flows.remove(flow) else { return };
        let Mapping { protocol, host, pool, port, .. } = mapping;
        if self.settings.log_mappings {
            events.push(self.mapped(&mapping, false));
        }
        self.ports.free(protocol, Granted { host, pool, port }, events);
    }

    fn end_idle(&mut self, now: Nanos, max: usize, output: &mut Output) {
        if now < self.soonest {
            return;
        }
        for _ in 0..max {
            let Some(flow) = self.flows.expired(now, &self.settings.timeouts) else { break };
            met("a flow was idle for too long");
            self.end(flow, &mut output.events);
        }
        let next = self.flows.next_deadline(&self.settings.timeouts);
        self.soonest = next.unwrap_or(Nanos(u64::MAX));
    }

    /// Handles a packet of IPv4 that is no later fragment.
    fn translate(
        &mut self,
        now: Nanos,
        from: Side,
        bytes: &mut [u8],
        packet: &mut Packet,
        output: &mut Output,
    ) -> Verdict {
        let result = match from {
            Side::Inside => self.outbound(now, bytes, packet, output),
            Side::Outside => self.inbound(now, bytes, packet, output).map(|()| false),
        };
        match result {
            Ok(true) => Verdict::Turned,
            Ok(false) => Verdict::Changed,
            Err(reason) => Verdict::Dropped(reason),
        }
    }

    /// Notes the fate of a first fragment, and lets those go that waited for it.
    fn decided(
        &mut self,
        now: Nanos,
        datagram: Datagram,
        packet: &Packet,
        verdict: Verdict,
        output: &mut Output,
    ) {
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (packet.source, packet.destination)
        else {
            return;
        };
        let decision = Decision { verdict, source, destination };
        for mut bytes in self.fragments.decide(now, datagram, decision) {
            met("a fragment waited for the first one");
            let verdict = follow(decision, &mut bytes);
            if !matches!(verdict, Verdict::Dropped(_)) {
                output.released.push(Released { from: datagram.from, verdict, bytes });
            }
        }
    }
}

impl Function for Nat {
    fn process(
        &mut self,
        now: Nanos,
        from: Side,
        bytes: &mut [u8],
        output: &mut Output,
    ) -> Verdict {
        self.end_idle(now, ENDED_BY_PACKET_MAX, output);
        self.fragments.expire(now);
        let Ok(mut packet) = Packet::parse(bytes) else {
            return Verdict::Dropped(Reason::Malformed);
        };
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (packet.source, packet.destination)
        else {
            return Verdict::Pass;
        };
        let refused = match from {
            Side::Inside => (!self.settings.is_inside(source)).then_some(Reason::NotInside),
            Side::Outside => self.ports.pool_of(destination).is_none().then_some(Reason::NotOurs),
        };
        if let Some(reason) = refused {
            return Verdict::Dropped(reason);
        }
        let Some(fragment) = packet.fragment else {
            return self.translate(now, from, bytes, &mut packet, output);
        };
        let (protocol, id) = (packet.protocol, fragment.id as u16);
        let datagram = Datagram { from, source, destination, protocol, id };
        if packet.transport == Transport::Later {
            return match self.fragments.later(now, datagram, &bytes[..packet.end]) {
                Ok(decision) => follow(decision, bytes),
                Err(verdict) => verdict,
            };
        }
        let verdict = self.translate(now, from, bytes, &mut packet, output);
        self.decided(now, datagram, &packet, verdict, output);
        verdict
    }

    fn expire(&mut self, now: Nanos, output: &mut Output) {
        self.end_idle(now, usize::MAX, output);
        self.fragments.expire(now);
    }

    fn next_deadline(&self) -> Option<Nanos> {
        let flows = self.flows.next_deadline(&self.settings.timeouts);
        flows.into_iter().chain(self.fragments.next_deadline()).min()
    }

    fn flows(&self) -> usize {
        self.flows.counts().0
    }

    fn export(&self, now: Nanos, part: Part, out: &mut Vec<u8>) {
        state::export(&self.flows, &self.ports, now, part, out);
    }

    fn forget(&mut self, part: Part) {
        let mine = |flow: &u32| {
            let mapping = self.flows.mapping(self.flows.flow(*flow).mapping);
            part.includes(Ipv4Addr::from_bits(mapping.inside).into())
        };
        let flows: Vec<u32> = self.flows.all().filter(mine).collect();
        for flow in flows {
            self.end(flow, &mut Vec::new());
        }
    }

    fn import(&mut self, now: Nanos, state: &[u8]) -> Result<Imported, ImportError> {
        let records = state::read(state)?;
        let mut added = Vec::new();
        for (index, record) in records.iter().enumerate() {
            match self.take_in(now, record) {
                Ok(flow) => added.push(flow),
                Err(reason) => {
                    for flow in added {
                        self.end(flow, &mut Vec::new());
                    }
                    return Err(ImportError::Clash { index, reason });
                }
            }
        }
        self.flows.sort();
        let next = self.flows.next_deadline(&self.settings.timeouts);
        self.soonest = next.unwrap_or(Nanos(u64::MAX));
        met_if(!added.is_empty(), "flows were imported");
        Ok(Imported { flows: added.len(), restarted: 0 })
    }

    fn memory(&self) -> Bytes {
        let bytes = self.flows.memory() + self.ports.memory() + self.fragments.memory();
        Bytes(bytes as u64)
    }
}

impl Nat {
    /// Adds a flow that another instance had.
    fn take_in(&mut self, now: Nanos, record: &state::Record) -> Result<u32, &'static str> {
        let state::Record { protocol, class, flags, inside, outside, remote, .. } = *record;
        let pool = self.ports.pool_of(outside.0).ok_or("its external address is not ours")?;
        if self.flows.room() == 0 {
            return Err("there is no room for it");
        }
        let key = self.mapped_remote((remote.0, record.mapped_port));
        let remote = endpoint(remote);
        let place = (pool, outside.1);
        let mapping = match self.flows.find_mapping(protocol, endpoint(inside), key) {
            Some(mapping) => {
                let known = self.flows.mapping(mapping);
                if (known.pool, known.port) != place {
                    return Err("its host's port has another external port here");
                }
                if self.flows.find_flow(mapping, remote).is_some() {
                    return Err("it is here already");
                }
                mapping
            }
            None => {
                if !self.ports.has(outside.1) {
                    return Err("its external port is not one of those here");
                }
                let granted = self.ports.claim(protocol, inside.0, place, &mut Vec::new());
                let granted = granted.ok_or("its external port is another host's here")?;
                self.add_mapping(protocol, endpoint(inside), key, granted)
            }
        };
        let last = now.saturating_sub(record.idle);
        let (remote, remote_port) = remote;
        let flow = Flow { last, mapping, remote, remote_port, class, flags };
        Ok(self.flows.add_flow(flow))
    }
}

/// Handles a later fragment as its first one was.
fn follow(decision: Decision, bytes: &mut [u8]) -> Verdict {
    let Decision { verdict, source, destination } = decision;
    if let (Verdict::Changed | Verdict::Turned, Ok(mut packet)) = (verdict, Packet::parse(bytes)) {
        rewrite(bytes, &mut packet, End::Source, source.into(), None);
        rewrite(bytes, &mut packet, End::Destination, destination.into(), None);
    }
    verdict
}

/// The parts of a packet that a flow is found by; `None` if it can have none. Only requests go out
/// and only replies come in.
fn seen(packet: &Packet, out: bool) -> Option<Seen> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (packet.source, packet.destination) else {
        return None;
    };
    let (protocol, tcp) = match packet.transport {
        Transport::Tcp { flags, .. } => (Protocol::Tcp, Some(flags)),
        Transport::Udp { .. } => (Protocol::Udp, None),
        Transport::Query { is_request, .. } if is_request == out => (Protocol::Icmp, None),
        _ => return None,
    };
    let ports = packet.ports()?;
    if protocol != Protocol::Icmp && (ports.0 == 0 || ports.1 == 0) {
        return None;
    }
    Some(Seen { protocol, from: (from, ports.0), to: (to, ports.1), tcp })
}

fn protocol_of(number: u8) -> Option<Protocol> {
    match number {
        TCP => Some(Protocol::Tcp),
        UDP => Some(Protocol::Udp),
        crate::packet::ICMP => Some(Protocol::Icmp),
        _ => None,
    }
}

fn endpoint((address, port): (Ipv4Addr, u16)) -> Endpoint {
    (address.to_bits(), port)
}

/// Remote end of a flow: queries have no port there.
fn remote_end(protocol: Protocol, (address, port): (Ipv4Addr, u16)) -> Endpoint {
    (address.to_bits(), if protocol == Protocol::Icmp { 0 } else { port })
}

fn first_class(protocol: Protocol) -> Class {
    match protocol {
        Protocol::Tcp => Class::HalfOpen,
        Protocol::Udp => Class::UdpNew,
        Protocol::Icmp => Class::Icmp,
    }
}

/// Class and flags of a flow behind a packet.
fn after(flow: &Flow, tcp: Option<TcpFlags>, out: bool) -> (Class, u8) {
    let seen = if out { flag::OUT } else { flag::IN };
    let both = flag::OUT | flag::IN;
    let Some(tcp) = tcp else {
        let flags = flow.flags | seen;
        let answered = flow.class == Class::UdpNew && flags & both == both;
        return (if answered { Class::Udp } else { flow.class }, flags);
    };
    let [syn, fin] =
        if out { [flag::SYN_OUT, flag::FIN_OUT] } else { [flag::SYN_IN, flag::FIN_IN] };
    let mut flags = flow.flags | seen;
    if tcp.rst() {
        return (Class::Closing, flags | flag::RST);
    }
    if tcp.syn() {
        // Ports are used again after the end of a connection: it begins anew.
        if flow.class == Class::Closing {
            return (Class::HalfOpen, seen | syn);
        }
        flags |= syn;
    }
    if tcp.fin() {
        flags |= fin;
    }
    let opened = flag::SYN_OUT | flag::SYN_IN;
    let closed = flag::FIN_OUT | flag::FIN_IN;
    let class = match flow.class {
        _ if flags & closed == closed => Class::Closing,
        // A forged reset did not end it (RFC 7857, section 2.2).
        Class::Closing if flags & opened == opened && !tcp.syn() => {
            flags &= !flag::RST;
            Class::Open
        }
        Class::HalfOpen if flags & opened == opened && tcp.ack() && !tcp.syn() => Class::Open,
        same => same,
    };
    (class, flags)
}

#[cfg(test)]
mod tests;
