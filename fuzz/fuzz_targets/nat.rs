//! Packets of any bytes through a small NAT, from both sides, with time between them: no port
//! belongs to two mappings, and in the end nothing is left.
//!
//! The input is repeatedly a byte (side, and seconds that pass), a length and as many bytes. A
//! length of zero moves all flows to another instance.
#![no_main]

use std::net::Ipv4Addr;
use thermocline_functions::nat::{Allocation, Nat, Scope, Settings};
use thermocline_functions::packet::Packet;
use thermocline_functions::{Function, Output, Part, Side, Verdict};
use thermocline_units::{Bytes, Nanos};

fn nat(how: u8) -> Nat {
    let mut settings = Settings::new(vec![Ipv4Addr::new(203, 0, 113, 1)]);
    let scopes = [Scope::Independent, Scope::Address, Scope::AddressAndPort];
    settings.mapping = scopes[usize::from(how % 3)];
    settings.filtering = scopes[usize::from(how / 3 % 3)];
    if how & 64 != 0 {
        settings.allocation = Allocation::Blocks { ports: 8, per_host: 2 };
    }
    settings.flows_max = 6;
    settings.half_open_max = 3;
    settings.fragment_memory = Bytes(2000);
    Nat::new(settings).expect("settings that fit")
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&how, mut rest)) = data.split_first() else { return };
    let (mut victim, mut now, mut output) = (nat(how), Nanos(0), Output::default());
    while let [first, length, tail @ ..] = rest {
        let (packet, tail) = tail.split_at(tail.len().min((*length).into()));
        rest = tail;
        now.0 += Nanos::from_secs(u64::from(first >> 1)).0;
        if packet.is_empty() {
            let mut state = Vec::new();
            victim.export(now, Part::All, &mut state);
            victim = nat(how);
            victim.import(now, &state).expect("its own state");
            continue;
        }
        let from = if first & 1 == 0 { Side::Inside } else { Side::Outside };
        let mut bytes = packet.to_vec();
        match victim.process(now, from, &mut bytes, &mut output) {
            Verdict::Pass => assert_eq!(bytes, packet),
            Verdict::Changed | Verdict::Turned => {
                assert!(Packet::parse(&bytes).is_ok());
            }
            Verdict::Held | Verdict::Dropped(_) => {}
        }
        let (mappings, ports, hosts) = victim.usage();
        assert!(mappings == ports && hosts <= ports && victim.flows() <= 6);
        output.events.clear();
        output.released.clear();
    }
    now.0 += Nanos::from_secs(10_000).0;
    victim.expire(now, &mut output);
    assert_eq!((victim.usage(), victim.flows()), ((0, 0, 0), 0));
});
