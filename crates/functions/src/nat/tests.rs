//! Behaviour as RFC 5780 probes it, and the requirements of RFC 4787, 5382 and 5508 one by one.

use super::*;
use crate::packet::build::{self, Ends};
use crate::packet::tests::checksums_are_right;

const INSIDE: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 40_000);
const SERVER: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), 3478);
const OTHER_PORT: (IpAddr, u16) = (SERVER.0, 3479);
const OTHER_ADDRESS: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2)), 3478);
const EXTERNAL: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));
const SYN: u8 = 2;
const ACK: u8 = 16;

struct Network {
    nat: Nat,
    now: Nanos,
    output: Output,
}

fn network(change: impl FnOnce(&mut Settings)) -> Network {
    let mut settings = Settings::new(vec!["203.0.113.1".parse().unwrap()]);
    settings.seed = 5;
    settings.flows_max = 64;
    change(&mut settings);
    Network { nat: Nat::new(settings).unwrap(), now: Nanos(0), output: Output::default() }
}

impl Network {
    fn send(&mut self, from: Side, mut bytes: Vec<u8>) -> Result<Vec<u8>, Reason> {
        match self.nat.process(self.now, from, &mut bytes, &mut self.output) {
            Verdict::Dropped(reason) => Err(reason),
            _ => {
                assert!(
                    Packet::parse(&bytes).unwrap().fragment.is_some()
                        || checksums_are_right(&bytes)
                );
                Ok(bytes)
            }
        }
    }

    fn udp(&mut self, from: Side, ends: Ends) -> Result<Ends, Reason> {
        self.send(from, build::udp(ends, b"payload")).map(|bytes| ends_of(&bytes))
    }

    fn tcp(&mut self, from: Side, ends: Ends, flags: u8) -> Result<Ends, Reason> {
        self.send(from, build::tcp(ends, flags, 1, b"")).map(|bytes| ends_of(&bytes))
    }

    fn wait(&mut self, seconds: u64) {
        self.now.0 += Nanos::from_secs(seconds).0;
        self.nat.expire(self.now, &mut self.output);
    }
}

fn ends_of(bytes: &[u8]) -> Ends {
    let packet = Packet::parse(bytes).unwrap();
    let ports = packet.ports().unwrap_or_default();
    ((packet.source, ports.0), (packet.destination, ports.1))
}

/// RFC 5780, section 4.3: where packets to three ends seem to come from.
#[test]
fn mappings_depend_on_the_remote_end_as_far_as_the_scope_says() {
    for (scope, same) in [
        (Scope::Independent, [true, true]),
        (Scope::Address, [true, false]),
        (Scope::AddressAndPort, [false, false]),
    ] {
        let mut net = network(|settings| settings.mapping = scope);
        let mapped = |net: &mut Network, to| net.udp(Side::Inside, (INSIDE, to)).unwrap().0;
        let first = mapped(&mut net, SERVER);
        assert_eq!(first, (EXTERNAL, INSIDE.1), "the host's own port is free");
        assert_eq!(mapped(&mut net, OTHER_PORT) == first, same[0], "{scope:?}");
        assert_eq!(mapped(&mut net, OTHER_ADDRESS) == first, same[1], "{scope:?}");
    }
}

/// RFC 5780, section 4.4: which strangers get an answer in.
#[test]
fn the_filter_lets_in_whom_its_scope_says() {
    for (scope, lets_in) in [
        (Scope::Independent, [true, true]),
        (Scope::Address, [true, false]),
        (Scope::AddressAndPort, [false, false]),
    ] {
        for is_tcp in [false, true] {
            let mut net = network(|settings| settings.filtering = scope);
            let outside = match is_tcp {
                true => net.tcp(Side::Inside, (INSIDE, SERVER), SYN).unwrap().0,
                false => net.udp(Side::Inside, (INSIDE, SERVER)).unwrap().0,
            };
            let mut answer = |from| match is_tcp {
                true => net.tcp(Side::Outside, (from, outside), SYN),
                false => net.udp(Side::Outside, (from, outside)),
            };
            assert_eq!(answer(SERVER), Ok((SERVER, INSIDE)));
            for (from, lets_in) in [(OTHER_PORT, lets_in[0]), (OTHER_ADDRESS, lets_in[1])] {
                let expected = if lets_in { Ok((from, INSIDE)) } else { Err(Reason::Filtered) };
                assert_eq!(answer(from), expected, "{scope:?}");
            }
        }
    }
}

/// RFC 5780, section 4.6: how long a binding lives; RFC 4787, REQ-6.
#[test]
fn bindings_live_as_long_as_their_timeout_after_the_last_activity() {
    for inbound in [true, false] {
        let mut net = network(|settings| settings.inbound_refresh = inbound);
        let outside = net.udp(Side::Inside, (INSIDE, SERVER)).unwrap().0;
        net.wait(299);
        assert!(net.udp(Side::Outside, (SERVER, outside)).is_ok());
        net.wait(2);
        let expected = if inbound { Ok((SERVER, INSIDE)) } else { Err(Reason::NoFlow) };
        assert_eq!(net.udp(Side::Outside, (SERVER, outside)), expected);
        net.wait(300);
        assert_eq!(net.udp(Side::Outside, (SERVER, outside)), Err(Reason::NoFlow));
        assert_eq!((net.nat.usage(), net.nat.next_deadline()), ((0, 0, 0), None));
    }
}

/// RFC 4787, REQ-9; RFC 5780, section 4.5.
#[test]
fn hosts_inside_reach_each_other_by_external_ends_only() {
    let peer = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3)), 50_000);
    let mut net = network(|settings| settings.filtering = Scope::Independent);
    let external = net.udp(Side::Inside, (peer, SERVER)).unwrap().0;
    let turned = net.udp(Side::Inside, (INSIDE, external)).unwrap();
    assert_eq!(turned, ((EXTERNAL, INSIDE.1), peer));
    let answer = net.udp(Side::Inside, (peer, turned.0)).unwrap();
    assert_eq!(answer, (external, INSIDE));
    // An error about the turned packet finds its way back as well (RFC 5508, REQ-7).
    let quoted = build::udp(turned, b"payload");
    let error = net.send(Side::Inside, build::unreachable(peer.0, EXTERNAL, &quoted)).unwrap();
    assert_eq!(ends_of(&error), ((EXTERNAL, 0), (INSIDE.0, 0)));
    assert_eq!(error[28..], build::udp((INSIDE, external), b"payload"));
}

/// RFC 5508, REQ-3 to REQ-5.
#[test]
fn errors_quote_the_packet_as_its_sender_knows_it() {
    let mut net = network(|_| {});
    let sent = net.send(Side::Inside, build::tcp((INSIDE, SERVER), SYN, 1, b"")).unwrap();
    let router = OTHER_ADDRESS.0;
    for length in [28, sent.len()] {
        let error = build::unreachable(router, EXTERNAL, &sent[..length]);
        let error = net.send(Side::Outside, error).unwrap();
        assert_eq!(ends_of(&error), ((router, 0), (INSIDE.0, 0)));
        assert_eq!(error[28..], build::tcp((INSIDE, SERVER), SYN, 1, b"")[..length]);
    }
    let mut forged = sent.clone();
    forged[22..24].copy_from_slice(&99u16.to_be_bytes());
    let error = build::unreachable(router, EXTERNAL, &forged);
    assert_eq!(net.send(Side::Outside, error), Err(Reason::NoFlow), "of no flow");
    net.wait(239);
    let error = build::unreachable(router, EXTERNAL, &sent);
    net.send(Side::Outside, error).unwrap();
    net.wait(1);
    assert_eq!(net.nat.flows(), 0, "an error is no activity");
}

#[test]
fn an_error_of_a_host_is_translated_on_its_way_out() {
    let mut net = network(|_| {});
    let outside = net.udp(Side::Inside, (INSIDE, SERVER)).unwrap().0;
    let answer = net.send(Side::Outside, build::udp((SERVER, outside), b"no")).unwrap();
    let error = net.send(Side::Inside, build::unreachable(INSIDE.0, SERVER.0, &answer)).unwrap();
    assert_eq!(ends_of(&error), ((EXTERNAL, 0), (SERVER.0, 0)));
    assert_eq!(error[28..], build::udp((SERVER, outside), b"no"));
}

#[test]
fn pings_are_mapped_by_their_identifier() {
    let mut net = network(|_| {});
    let other = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3)), INSIDE.1);
    let request = |host| build::echo((host, (SERVER.0, 0)), true, b"ping");
    let mut ids = Vec::new();
    for host in [INSIDE, other] {
        let sent = net.send(Side::Inside, request(host)).unwrap();
        let (from, to) = ends_of(&sent);
        assert_eq!((from.0, to.0), (EXTERNAL, SERVER.0));
        let reply = build::echo(((SERVER.0, from.1), (EXTERNAL, 0)), false, b"ping");
        let reply = net.send(Side::Outside, reply).unwrap();
        assert_eq!(ends_of(&reply), ((SERVER.0, host.1), (host.0, host.1)));
        let foreign = build::echo(((OTHER_ADDRESS.0, from.1), (EXTERNAL, 0)), false, b"ping");
        assert_eq!(net.send(Side::Outside, foreign), Err(Reason::Filtered));
        ids.push(from.1);
    }
    assert_eq!(ids[0], INSIDE.1);
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids[0] % 2, ids[1] % 2, "RFC 4787, section 4.2.2: parity");
}

/// RFC 4787, REQ-14.
#[test]
fn fragments_follow_their_first_one_in_any_order() {
    let packet = build::udp((INSIDE, SERVER), &[7; 3000]);
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let mut net = network(|_| {});
        let pieces = build::fragments(&packet, 1400, 99);
        let mut arrived: Vec<Vec<u8>> = Vec::new();
        for nth in order {
            let mut bytes = pieces[nth].clone();
            match net.nat.process(net.now, Side::Inside, &mut bytes, &mut net.output) {
                Verdict::Changed => arrived.push(bytes),
                verdict => assert_eq!(verdict, Verdict::Held),
            }
            arrived.extend(net.output.released.drain(..).map(|released| released.bytes));
        }
        arrived.sort_by_key(|bytes| u16::from_be_bytes([bytes[6], bytes[7]]) & 0x1fff);
        let rest: Vec<u8> = arrived.iter().flat_map(|bytes| bytes[20..].to_vec()).collect();
        let mut whole = build::udp(((EXTERNAL, INSIDE.1), SERVER), &[7; 3000]);
        assert_eq!(rest, whole.split_off(20), "{order:?}");
        assert!(arrived.iter().all(|bytes| bytes[12..16] == [203, 0, 113, 1]));
    }
}

#[test]
fn fragments_that_nobody_begins_take_bounded_room_and_end() {
    let packet = build::udp((INSIDE, SERVER), &[7; 3000]);
    let mut net = network(|settings| {
        settings.fragment_memory = Bytes(20_000);
        settings.fragments_max = 8;
    });
    let empty = net.nat.memory();
    for id in 0..2000 {
        let mut late = build::fragments(&packet, 1400, id).swap_remove(1);
        let verdict = net.nat.process(net.now, Side::Inside, &mut late, &mut net.output);
        assert!(matches!(verdict, Verdict::Held | Verdict::Dropped(Reason::Fragment)));
        assert!(net.nat.memory().0 - empty.0 < 24_000);
    }
    net.wait(15);
    assert_eq!((net.nat.memory(), net.nat.next_deadline()), (empty, None));
}

/// RFC 5382, REQ-1 to REQ-5.
#[test]
fn connections_open_close_and_are_kept_for_as_long_as_they_must() {
    let mut net = network(|_| {});
    assert_eq!(net.tcp(Side::Inside, (INSIDE, SERVER), ACK), Err(Reason::NoFlow));
    let outside = net.tcp(Side::Inside, (INSIDE, SERVER), SYN).unwrap().0;
    net.tcp(Side::Outside, (SERVER, outside), SYN | ACK).unwrap();
    net.tcp(Side::Inside, (INSIDE, SERVER), ACK).unwrap();
    net.wait(7439);
    net.tcp(Side::Outside, (SERVER, outside), ACK).unwrap();
    // A reset that was forged does not end it (RFC 7857).
    net.tcp(Side::Outside, (SERVER, outside), 4).unwrap();
    net.tcp(Side::Inside, (INSIDE, SERVER), ACK).unwrap();
    net.wait(7439);
    net.tcp(Side::Inside, (INSIDE, SERVER), ACK | 1).unwrap();
    net.tcp(Side::Outside, (SERVER, outside), ACK | 1).unwrap();
    net.tcp(Side::Inside, (INSIDE, SERVER), ACK).unwrap();
    net.wait(239);
    assert_eq!(net.nat.flows(), 1);
    net.wait(1);
    assert_eq!(net.nat.flows(), 0);
}

#[test]
fn simultaneous_open_works() {
    let mut net = network(|_| {});
    let outside = net.tcp(Side::Inside, (INSIDE, SERVER), SYN).unwrap().0;
    assert!(net.tcp(Side::Outside, (SERVER, outside), SYN).is_ok());
    assert!(net.tcp(Side::Inside, (INSIDE, SERVER), SYN | ACK).is_ok());
    assert!(net.tcp(Side::Outside, (SERVER, outside), ACK).is_ok());
    net.wait(7000);
    assert!(net.tcp(Side::Outside, (SERVER, outside), ACK).is_ok());
}

#[test]
fn a_flood_of_new_flows_takes_nothing_from_flows_in_use() {
    let mut net = network(|settings| {
        settings.flows_max = 32;
        settings.half_open_max = 8;
    });
    for host in 0..10u8 {
        let host = (IpAddr::V4(Ipv4Addr::new(10, 0, 1, host)), 5000);
        let outside = net.tcp(Side::Inside, (host, SERVER), SYN).unwrap().0;
        net.tcp(Side::Outside, (SERVER, outside), SYN | ACK).unwrap();
        net.tcp(Side::Inside, (host, SERVER), ACK).unwrap();
    }
    for port in 1..2000 {
        let from = (INSIDE.0, port);
        net.tcp(Side::Inside, (from, SERVER), SYN).unwrap();
        assert!(net.nat.flows() <= 18, "half-open connections have a limit of their own");
    }
    for port in 1..2000 {
        net.udp(Side::Inside, ((INSIDE.0, port), SERVER)).unwrap();
    }
    assert_eq!(net.nat.flows(), 32);
    for host in 0..10u8 {
        let host = (IpAddr::V4(Ipv4Addr::new(10, 0, 1, host)), 5000);
        assert!(net.tcp(Side::Inside, (host, SERVER), ACK).is_ok());
    }
}

#[test]
fn exhaustion_is_refused_and_reported() {
    let mut net = network(|settings| {
        settings.ports = (2000, 2009);
        settings.host_ports_max = 6;
    });
    let other = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3));
    let from = |host, port| ((host, port), SERVER);
    let results: Vec<_> = (0..8).map(|n| net.udp(Side::Inside, from(INSIDE.0, 100 + n))).collect();
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 6);
    assert_eq!(results[7], Err(Reason::PortsExhausted));
    let results: Vec<_> = (0..5).map(|n| net.udp(Side::Inside, from(other, 100 + n))).collect();
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 4);
    let told = |by_host, host| Event::Exhausted { host, protocol: Protocol::Udp, by_host };
    assert!(net.output.events.contains(&told(true, INSIDE.0)));
    assert!(net.output.events.contains(&told(false, other)));
}

#[test]
fn blocks_of_ports_belong_to_one_host_and_are_told() {
    let mut net = network(|settings| {
        settings.allocation = Allocation::Blocks { ports: 8, per_host: 2 };
        settings.ports = (2000, 2031);
        settings.log_mappings = false;
    });
    let host = |n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n));
    let mut owners = std::collections::BTreeMap::new();
    for n in 0..17 {
        match net.udp(Side::Inside, ((host(2), 100 + n), SERVER)) {
            Ok(((_, port), _)) => drop(owners.insert(port, 2)),
            refused => assert_eq!((n, refused), (16, Err(Reason::PortsExhausted))),
        }
    }
    let ((_, port), _) = net.udp(Side::Inside, ((host(3), 100), SERVER)).unwrap();
    assert!(owners.keys().all(|other| (other - 2000) / 8 != (port - 2000) / 8));
    let taken = |events: &[Event]| {
        events.iter().filter(|event| matches!(event, Event::BlockTaken { ports: 8, .. })).count()
    };
    assert_eq!((owners.len(), taken(&net.output.events)), (16, 3));
    net.wait(300);
    let freed = |event: &&Event| matches!(event, Event::BlockFreed { .. });
    assert_eq!(net.output.events.iter().filter(freed).count(), 3);
    assert_eq!(net.nat.usage(), (0, 0, 0));
}

#[test]
fn ipv6_and_strangers_are_left_alone() {
    let mut net = network(|settings| settings.inside = vec![(Ipv4Addr::new(10, 0, 0, 0), 8)]);
    let end = |n| (IpAddr::V6(std::net::Ipv6Addr::from_bits(n)), 7);
    let mut bytes = build::udp((end(1), end(2)), b"six");
    let before = bytes.clone();
    let verdict = net.nat.process(net.now, Side::Inside, &mut bytes, &mut net.output);
    assert_eq!((verdict, bytes), (Verdict::Pass, before));
    assert_eq!(net.udp(Side::Inside, (SERVER, OTHER_PORT)), Err(Reason::NotInside));
    assert_eq!(net.udp(Side::Outside, (SERVER, INSIDE)), Err(Reason::NotOurs));
}

#[test]
fn flows_move_to_another_instance_with_their_ports_and_age() {
    let mut net = network(|_| {});
    let outside = net.udp(Side::Inside, (INSIDE, SERVER)).unwrap().0;
    net.wait(200);
    let mut state = Vec::new();
    net.nat.export(net.now, Part::All, &mut state);
    let mut other = network(|settings| settings.seed = 9);
    other.now = Nanos::from_secs(1_000_000);
    assert_eq!(other.nat.import(other.now, &state).unwrap().flows, 1);
    assert_eq!(
        other.nat.import(other.now, &state),
        Err(ImportError::Clash { index: 0, reason: "it is here already" })
    );
    assert_eq!(other.udp(Side::Outside, (SERVER, outside)), Ok((SERVER, INSIDE)));
    net.nat.forget(Part::All);
    assert_eq!((net.nat.usage(), net.nat.flows()), ((0, 0, 0), 0));
    net.nat.import(net.now, &state).unwrap();
    net.wait(99);
    assert_eq!(net.nat.flows(), 1);
    net.wait(1);
    assert_eq!(net.nat.flows(), 0, "idle times move along");
}

#[test]
fn damaged_state_is_refused_and_leaves_nothing() {
    let mut net = network(|_| {});
    for port in 0..5 {
        net.udp(Side::Inside, ((INSIDE.0, 1000 + port), SERVER)).unwrap();
    }
    let mut state = Vec::new();
    net.nat.export(net.now, Part::All, &mut state);
    let mut other = network(|_| {});
    for length in 0..state.len() {
        assert!(other.nat.import(other.now, &state[..length]).is_err());
    }
    for at in 0..state.len() {
        let mut flipped = state.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(other.nat.import(other.now, &flipped).is_err());
    }
    // The third flow clashes: the first two are taken back.
    other.udp(Side::Inside, ((IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)), 1002), SERVER)).unwrap();
    let clash = other.nat.import(other.now, &state);
    assert!(matches!(clash, Err(ImportError::Clash { .. })), "{clash:?}");
    assert_eq!((other.nat.flows(), other.nat.usage()), (1, (1, 1, 1)));
}

#[test]
fn a_mapping_with_its_flow_and_host_takes_at_most_128_bytes() {
    let empty = network(|settings| settings.flows_max = 1).nat.memory().0;
    let full = network(|settings| settings.flows_max = 1_000_001).nat.memory().0;
    // Beside the tables: 4 bytes and a bit for each port, 4 for each of three slots that are free.
    let each = (full - empty) as f64 / 1e6 + 4.125 + 12.0;
    assert!(each <= 128.0, "{each}");
    assert!(full <= Bytes::from_mib(256).0);
}
