//! Exported flows, of a NAT and of an inspection, with checksums that are not verified under a
//! fuzzer: refused with nothing changed, or taken, used and exported again.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};
use thermocline_functions::dpi::{self, Dpi, Limits, Ruleset};
use thermocline_functions::nat::{Nat, Settings};
use thermocline_functions::packet::build;
use thermocline_functions::{Function, Output, Part, Side};
use thermocline_units::Nanos;

static RULES: LazyLock<Arc<Ruleset>> = LazyLock::new(|| {
    let text = "drop tcp any any -> any any (content:\"ab\"; content:\"cd\"; distance:1; sid:1;)\n\
                alert tcp any any -> any any (content:\"a\"; content:\"b\"; sid:2;)\n\
                alert tcp any any -> any any (pcre:\"/x[a-f]+y/\"; sid:3;)";
    Arc::new(Ruleset::compile("rules", text, Limits::default()).expect("rules that compile"))
});

/// Imports, sends some packets, and moves everything once more.
fn try_out(function: &mut impl Function, again: &mut impl Function, data: &[u8]) {
    let now = Nanos::from_secs(1000);
    if function.import(now, data).is_err() {
        assert_eq!(function.flows(), 0, "half an import");
        return;
    }
    let mut output = Output::default();
    for n in 0..4 {
        let ends = (
            (IpAddr::V4(Ipv4Addr::new(10, 0, 0, n)), 5000),
            (IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)), 80),
        );
        let mut packet = build::tcp(ends, 0x18, n.into(), b"xabcacdy");
        function.process(now, Side::Inside, &mut packet, &mut output);
    }
    let mut state = Vec::new();
    function.export(now, Part::All, &mut state);
    let taken = again.import(now, &state).expect("its own state");
    assert_eq!((taken.flows, again.flows()), (function.flows(), function.flows()));
    function.expire(Nanos(u64::MAX), &mut output);
    assert_eq!(function.flows(), 0);
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let nat = || {
        let mut settings = Settings::new(vec![Ipv4Addr::new(203, 0, 113, 1)]);
        settings.flows_max = 64;
        Nat::new(settings).expect("settings that fit")
    };
    let dpi = || {
        let settings = dpi::Settings { flows_max: 64, ..dpi::Settings::default() };
        Dpi::new(Arc::clone(&RULES), settings)
    };
    try_out(&mut nat(), &mut nat(), data);
    try_out(&mut dpi(), &mut dpi(), data);
});
