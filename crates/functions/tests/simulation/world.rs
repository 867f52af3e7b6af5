//! A NAT and everything around it. The model knows from packets and events which mappings live,
//! which remote ends a host's port has spoken to, and which flows are in use.
//!
//! Every packet that comes out must be, byte by byte, the packet that is made from the ends that
//! the model expects. Checksums are those of [`build`], which computes them in full.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use thermocline_functions::nat::{Allocation, Nat, Scope, Settings};
use thermocline_functions::packet::build::{self, Ends};
use thermocline_functions::packet::{Packet, Transport};
use thermocline_functions::{Event, Function, Output, Part, Protocol, Reason, Side, Verdict};
use thermocline_units::{Bytes, Nanos, Rng};

type End = (IpAddr, u16);

/// A mapping as the model knows it.
#[derive(Debug, Default)]
struct Known {
    /// Remote ends, each with its last packet from inside and how far its connection came.
    remotes: BTreeMap<End, Contact>,
}

#[derive(Debug, Clone, Copy)]
struct Contact {
    out: Nanos,
    /// Last packet in either direction that went through.
    last: Nanos,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Begun,
    Answered,
    InUse,
    Ending,
}

pub(crate) struct World {
    rng: Rng,
    nat: Nat,
    settings: Settings,
    now: Nanos,
    output: Output,
    /// Inside ends by protocol and external end.
    mappings: BTreeMap<(Protocol, End), (End, Known)>,
    seed: u64,
    is_small: bool,
}

fn settings(rng: &mut Rng) -> (Settings, bool) {
    let external = (1..=1 + rng.below(2) as u8).map(|n| Ipv4Addr::new(203, 0, 113, n));
    let mut settings = Settings::new(external.collect());
    let is_small = rng.below(2) == 0;
    settings.flows_max = if is_small { 4 + rng.below(20) as usize } else { 4096 };
    settings.half_open_max = if is_small { 2 + rng.below(8) as usize } else { 4096 };
    let scopes = [Scope::Independent, Scope::Address, Scope::AddressAndPort];
    settings.filtering = scopes[rng.below(3) as usize];
    settings.mapping = scopes[rng.below(6).min(2) as usize];
    settings.allocation = match rng.below(3) {
        0 => Allocation::Preserve,
        1 => Allocation::Random,
        _ => Allocation::Blocks { ports: 8, per_host: 1 + rng.below(3) as u16 },
    };
    if rng.below(2) == 0 {
        settings.ports = (1000, 1015 + 16 * rng.below(2) as u16);
    }
    settings.host_ports_max = if rng.below(3) == 0 { 5 } else { 1000 };
    settings.inbound_refresh = rng.below(2) == 0;
    settings.fragments_max = 4;
    settings.fragment_memory = Bytes(4096);
    settings.seed = rng.next_u64();
    (settings, is_small)
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        let mut rng = Rng::seeded(seed);
        let (settings, is_small) = settings(&mut rng);
        let nat = Nat::new(settings.clone()).unwrap();
        let (mappings, output) = (BTreeMap::new(), Output::default());
        World { rng, nat, settings, now: Nanos(0), output, mappings, seed, is_small }
    }

    pub(crate) fn run(mut self) {
        for _ in 0..150 {
            match self.rng.below(20) {
                0..7 => self.send_out(),
                7..9 => self.connect(),
                9..14 => self.send_in(),
                14 => self.error_in(),
                15 => self.error_out(),
                16 => self.fragments(),
                17 => self.wait(),
                18 => self.move_flows(),
                _ => self.junk(),
            }
            let (mappings, ports, hosts) = self.nat.usage();
            let inside = self.mappings.values().map(|(inside, _)| inside.0);
            let expected = inside.collect::<std::collections::BTreeSet<_>>().len();
            let live = self.mappings.len();
            assert_eq!((mappings, ports, hosts), (live, live, expected), "{}", self.seed);
        }
        // Everything ends, and nothing is left.
        self.now.0 += Nanos::from_secs(10_000).0;
        self.nat.expire(self.now, &mut self.output);
        self.hear(None);
        assert_eq!((self.nat.usage(), self.nat.flows()), ((0, 0, 0), 0));
        assert!(self.mappings.is_empty());
        assert_eq!(self.nat.next_deadline(), None);
    }

    fn inside(&mut self) -> End {
        let host = Ipv4Addr::new(10, 0, 0, 2 + self.rng.below(4) as u8);
        (host.into(), 1000 + self.rng.below(20) as u16)
    }

    fn remote(&mut self) -> End {
        let address = Ipv4Addr::new(198, 51, 100, 1 + self.rng.below(3) as u8);
        (address.into(), 80 + self.rng.below(3) as u16)
    }

    /// An external end: mostly one that is in use.
    fn external(&mut self, protocol: Protocol) -> End {
        let live: Vec<End> =
            self.mappings.keys().filter(|key| key.0 == protocol).map(|key| key.1).collect();
        if live.is_empty() || self.rng.below(8) == 0 {
            return (self.settings.external[0].into(), 1000 + self.rng.below(32) as u16);
        }
        live[self.rng.below(live.len() as u64) as usize]
    }

    fn timeout(&self, protocol: Protocol, state: State) -> Nanos {
        let timeouts = &self.settings.timeouts;
        match (protocol, state) {
            (Protocol::Udp, _) => timeouts.udp,
            (Protocol::Icmp, _) => timeouts.icmp,
            (Protocol::Tcp, State::InUse) => timeouts.tcp,
            (Protocol::Tcp, _) => timeouts.tcp_transitory,
        }
    }

    /// Takes events into the model and judges them. `new`: the mapping that this packet may begin.
    fn hear(&mut self, new: Option<(Protocol, End)>) {
        for event in std::mem::take(&mut self.output.events) {
            match event {
                Event::Mapped { protocol, inside, outside } => {
                    assert_eq!(new, Some((protocol, inside)), "a mapping that nobody asked for");
                    let known = (inside, Known::default());
                    let old = self.mappings.insert((protocol, outside), known);
                    assert!(old.is_none(), "two mappings on one external port");
                }
                Event::Unmapped { protocol, inside, outside } => {
                    let (owner, known) = self.mappings.remove(&(protocol, outside)).unwrap();
                    assert_eq!(owner, inside);
                    for contact in known.remotes.values() {
                        let timeout = self.timeout(protocol, contact.state);
                        let is_over = contact.out.0 + timeout.0 <= self.now.0;
                        let gave_way = self.is_small && contact.state != State::InUse;
                        assert!(is_over || gave_way, "a mapping ended early: {contact:?}");
                    }
                }
                _ => {}
            }
        }
    }

    fn process(&mut self, from: Side, bytes: &mut [u8]) -> Verdict {
        self.nat.process(self.now, from, bytes, &mut self.output)
    }

    fn draw_protocol(&mut self) -> Protocol {
        [Protocol::Tcp, Protocol::Udp, Protocol::Icmp][self.rng.below(3) as usize]
    }

    fn packet(&mut self, protocol: Protocol, ends: Ends, flags: u8, is_request: bool) -> Vec<u8> {
        let payload = vec![self.rng.next_u64() as u8; self.rng.below(30) as usize];
        match protocol {
            Protocol::Tcp => build::tcp(ends, flags, 7, &payload),
            Protocol::Udp => {
                let mut bytes = build::udp(ends, &payload);
                if self.rng.below(4) == 0 {
                    bytes[26..28].fill(0);
                }
                bytes
            }
            Protocol::Icmp => build::echo(ends, is_request, &payload),
        }
    }

    /// The packet that must come out: the same contents between other ends.
    fn expected(&self, protocol: Protocol, before: &[u8], ends: Ends) -> Vec<u8> {
        let packet = Packet::parse(before).unwrap();
        match packet.transport {
            Transport::Tcp { flags, sequence, payload, .. } => {
                build::tcp(ends, flags.0, sequence, &before[payload..])
            }
            Transport::Udp { payload, .. } => {
                let mut bytes = build::udp(ends, &before[payload..]);
                if before[26..28] == [0, 0] {
                    bytes[26..28].fill(0);
                }
                bytes
            }
            Transport::Query { is_request, .. } => {
                let id = if is_request { ends.0.1 } else { ends.1.1 };
                build::echo(((ends.0.0, id), ends.1), is_request, &before[28..])
            }
            other => panic!("{protocol:?} {other:?}"),
        }
    }

    fn flags(&mut self) -> u8 {
        [2, 16, 16, 18, 17, 4][self.rng.below(6) as usize]
    }

    fn send_out(&mut self) {
        let protocol = self.draw_protocol();
        let (inside, mut remote) = (self.inside(), self.remote());
        if self.rng.below(8) == 0 && protocol != Protocol::Icmp {
            remote = self.external(protocol);
        }
        let flags = self.flags();
        self.out(protocol, inside, remote, flags);
    }

    /// A whole handshake.
    fn connect(&mut self) {
        let (inside, remote) = (self.inside(), self.remote());
        if let Some(external) = self.out(Protocol::Tcp, inside, remote, 2) {
            self.answer(Protocol::Tcp, external, remote, 18);
            self.out(Protocol::Tcp, inside, remote, 16);
        }
    }

    /// Sends a packet from inside; gives the external end that it came out with.
    fn out(&mut self, protocol: Protocol, inside: End, remote: End, flags: u8) -> Option<End> {
        let before = self.packet(protocol, (inside, remote), flags, true);
        let mut after = before.clone();
        let verdict = self.process(Side::Inside, &mut after);
        self.hear(Some((protocol, inside)));
        let Ok(packet) = Packet::parse(&after) else { panic!("no packet came out") };
        let external: End = match verdict {
            Verdict::Dropped(reason) => {
                let wanted =
                    [Reason::NoFlow, Reason::PortsExhausted, Reason::TableFull, Reason::Filtered];
                assert!(wanted.contains(&reason), "{reason:?}");
                return None;
            }
            Verdict::Changed | Verdict::Turned => (packet.source, packet.ports().unwrap().0),
            other => panic!("{other:?}"),
        };
        let mut destination = remote;
        if verdict == Verdict::Turned {
            let own = self.mappings.get(&(protocol, remote));
            destination = own.expect("it turned to a mapping").0;
            self.contact(protocol, remote, external, flags, false);
        }
        let (owner, _) = self.mappings.get(&(protocol, external)).expect("a mapping that was told");
        assert_eq!(*owner, inside, "another host's mapping");
        assert_eq!(after, self.expected(protocol, &before, (external, destination)));
        let end = if protocol == Protocol::Icmp { (remote.0, 0) } else { remote };
        self.contact(protocol, external, end, flags, true);
        Some(external)
    }

    /// Notes a packet that went through.
    fn contact(&mut self, protocol: Protocol, external: End, remote: End, flags: u8, out: bool) {
        let now = self.now;
        let key = (protocol, external);
        let old = self.mappings.get(&key).and_then(|(_, known)| known.remotes.get(&remote));
        let is_over = old.is_some_and(|c| c.out.0 + self.timeout(protocol, c.state).0 <= now.0);
        // Its flow has ended although the mapping lives: whoever is let in now may be a stranger,
        // who keeps nothing alive.
        if is_over && !out {
            return;
        }
        let Some((_, known)) = self.mappings.get_mut(&key) else { return };
        let fresh = Contact { out: now, last: now, state: State::Begun };
        let is_new = !known.remotes.contains_key(&remote);
        if is_new && !out {
            return;
        }
        let contact = known.remotes.entry(remote).or_insert(fresh);
        contact.last = now;
        if out || (protocol == Protocol::Tcp || self.settings.inbound_refresh) {
            contact.out = now;
        }
        // Only what surely is in use counts: SYN, SYN-ACK, ACK, and nothing else.
        contact.state = match (protocol, contact.state, flags, out) {
            (Protocol::Tcp, _, 2, true) => State::Begun,
            (Protocol::Tcp, State::Begun, 18, false) => State::Answered,
            (Protocol::Tcp, State::Answered, 16, true) => State::InUse,
            (Protocol::Tcp, State::InUse, 16, _) => State::InUse,
            (Protocol::Udp, ..) if !out => contact.state,
            (Protocol::Udp | Protocol::Icmp, ..) => State::Begun,
            _ => State::Ending,
        };
    }

    fn send_in(&mut self) {
        let protocol = self.draw_protocol();
        let (external, remote) = (self.external(protocol), self.remote());
        let flags = self.flags();
        self.answer(protocol, external, remote, flags);
    }

    /// Sends a packet from outside.
    fn answer(&mut self, protocol: Protocol, external: End, remote: End, flags: u8) {
        let from = if protocol == Protocol::Icmp { (remote.0, external.1) } else { remote };
        let before = self.packet(protocol, (from, external), flags, false);
        let mut after = before.clone();
        let verdict = self.process(Side::Outside, &mut after);
        self.hear(None);
        let end = if protocol == Protocol::Icmp { (remote.0, 0) } else { remote };
        let known = self.mappings.get(&(protocol, external));
        let contact = known.and_then(|(_, known)| known.remotes.get(&end)).copied();
        match verdict {
            Verdict::Changed => {
                let (inside, known) = known.expect("only mapped packets come in");
                assert_eq!(after, self.expected(protocol, &before, (from, *inside)));
                let same_address = known.remotes.keys().any(|other| other.0 == remote.0);
                let lets_in = match self.settings.filtering {
                    Scope::Independent => true,
                    Scope::Address => same_address,
                    Scope::AddressAndPort => contact.is_some(),
                };
                assert!(lets_in, "the filter lets in a stranger");
                self.contact(protocol, external, end, flags, false);
            }
            Verdict::Dropped(reason) => {
                let is_live = contact.is_some_and(|contact| {
                    let timeout = self.timeout(protocol, State::Ending);
                    contact.out.0 + timeout.0 > self.now.0
                });
                let may_have_given_way =
                    self.is_small && contact.is_some_and(|c| c.state != State::InUse);
                assert!(!is_live || may_have_given_way, "an answer is lost: {reason:?}");
            }
            other => panic!("{other:?}"),
        }
    }

    /// An error about a packet that went out.
    fn error_in(&mut self) {
        let protocol = [Protocol::Tcp, Protocol::Udp][self.rng.below(2) as usize];
        let (external, remote) = (self.external(protocol), self.remote());
        let quoted = self.packet(protocol, (external, remote), 16, true);
        let length = if self.rng.below(2) == 0 { 28 } else { quoted.len() };
        let router = self.remote().0;
        let mut error = build::unreachable(router, external.0, &quoted[..length]);
        let verdict = self.process(Side::Outside, &mut error);
        self.hear(None);
        if verdict == Verdict::Changed {
            let (inside, known) = &self.mappings[&(protocol, external)];
            assert!(
                known.remotes.contains_key(&remote)
                    || self.settings.filtering != Scope::AddressAndPort
            );
            let inner = self.expected(protocol, &quoted, (*inside, remote));
            // The quoted checksum is corrected by difference, as the whole packet's would be.
            assert_eq!(error, build::unreachable(router, inside.0, &inner[..length]));
        } else {
            assert!(matches!(verdict, Verdict::Dropped(Reason::NoFlow)), "{verdict:?}");
        }
    }

    /// An error of a host about a packet that came in.
    fn error_out(&mut self) {
        let protocol = [Protocol::Tcp, Protocol::Udp][self.rng.below(2) as usize];
        let live = self.mappings.iter().find(|(key, _)| key.0 == protocol);
        let Some((&(_, external), (inside, known))) = live else { return };
        let Some(&remote) = known.remotes.keys().next() else { return };
        let inside = *inside;
        if self.settings.external.iter().any(|own| IpAddr::from(*own) == remote.0) {
            return;
        }
        let quoted = self.packet(protocol, (remote, inside), 16, true);
        let mut error = build::unreachable(inside.0, remote.0, &quoted);
        let verdict = self.process(Side::Inside, &mut error);
        self.hear(None);
        if verdict == Verdict::Changed {
            let inner = self.expected(protocol, &quoted, (remote, external));
            assert_eq!(error, build::unreachable(external.0, remote.0, &inner));
        }
    }

    /// A datagram in fragments, in any order.
    fn fragments(&mut self) {
        let (inside, remote) = (self.inside(), self.remote());
        let whole = build::udp((inside, remote), &[self.rng.next_u64() as u8; 200]);
        let id = self.rng.next_u64() as u16;
        let mut pieces = build::fragments(&whole, 80, id);
        self.rng.shuffle(&mut pieces);
        let mut out = Vec::new();
        for mut piece in pieces {
            let verdict = self.process(Side::Inside, &mut piece);
            self.hear(Some((Protocol::Udp, inside)));
            if verdict == Verdict::Changed {
                out.push(piece);
            }
            out.extend(self.output.released.drain(..).map(|released| released.bytes));
        }
        let offset = |bytes: &Vec<u8>| u16::from_be_bytes([bytes[6], bytes[7]]) & 0x1fff;
        out.sort_by_key(offset);
        let Some(first) = out.first().filter(|bytes| offset(bytes) == 0) else {
            assert!(out.is_empty(), "later fragments without their first one");
            return;
        };
        let packet = Packet::parse(first).unwrap();
        let external = (packet.source, packet.ports().unwrap().0);
        assert_eq!(self.mappings[&(Protocol::Udp, external)].0, inside);
        let expected = build::fragments(&build::udp((external, remote), &whole[28..]), 80, id);
        assert_eq!(out, expected);
        self.contact(Protocol::Udp, external, remote, 0, true);
    }

    fn wait(&mut self) {
        let seconds = [1, 30, 70, 200, 310, 5000][self.rng.below(6) as usize];
        self.now.0 += Nanos::from_secs(seconds).0;
        if self.rng.below(2) == 0 {
            self.nat.expire(self.now, &mut self.output);
            self.hear(None);
            assert!(self.nat.next_deadline().is_none_or(|at| at > self.now));
        }
    }

    /// All flows go to another instance, or a part leaves and comes back.
    fn move_flows(&mut self) {
        let mut state = Vec::new();
        let part = match self.rng.below(2) {
            0 => Part::All,
            _ => Part::Share { index: 0, of: 2 },
        };
        self.nat.export(self.now, part, &mut state);
        if part == Part::All {
            self.settings.seed = self.rng.next_u64();
            self.nat = Nat::new(self.settings.clone()).unwrap();
        } else {
            self.nat.forget(part);
        }
        let (flows, usage) = (self.nat.flows(), self.nat.usage());
        let mut damaged = state.clone();
        let at = self.rng.below(state.len() as u64) as usize;
        damaged[at] ^= 1 << self.rng.below(8);
        assert!(self.nat.import(self.now, &damaged).is_err());
        assert_eq!((self.nat.flows(), self.nat.usage()), (flows, usage), "half an import");
        self.nat.import(self.now, &state).unwrap();
    }

    fn junk(&mut self) {
        let mut bytes: Vec<u8> =
            (0..self.rng.below(80)).map(|_| self.rng.next_u64() as u8).collect();
        if let Some(first) = bytes.first_mut() {
            *first = [0x45, 0x46, 0x60][self.rng.below(3) as usize];
        }
        let from = if self.rng.below(2) == 0 { Side::Inside } else { Side::Outside };
        let before = bytes.clone();
        let verdict = self.process(from, &mut bytes);
        if verdict == Verdict::Pass {
            assert_eq!(bytes, before);
        }
        // It may begin a mapping of an inside host by chance: such hosts are not in the model.
        let strange = |event: &Event| matches!(event, Event::Mapped { .. });
        assert!(!self.output.events.iter().any(strange), "junk that is a packet: draw less");
        self.hear(None);
    }
}
