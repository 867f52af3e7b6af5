//! A rule file: refused with a line, or it compiles within its limits and runs over any bytes. What
//! is found in a stream does not depend on where it is cut.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use thermocline_functions::dpi::{Dpi, Limits, Ruleset, Settings};
use thermocline_functions::packet::build;
use thermocline_functions::{Event, Function, Output, Side};
use thermocline_units::Nanos;

fn run(rules: &Arc<Ruleset>, data: &[u8], cut: usize) -> Vec<u32> {
    let settings = Settings { flows_max: 4, ..Settings::default() };
    let (mut dpi, mut output) = (Dpi::new(Arc::clone(rules), settings), Output::default());
    let ends = (
        (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 5000),
        (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3)), 80),
    );
    for (start, piece) in [(0, &data[..cut]), (cut, &data[cut..])] {
        let mut packet = build::tcp(ends, 0x18, start as u32, piece);
        dpi.process(Nanos(0), Side::Inside, &mut packet, &mut output);
    }
    let mut sids: Vec<u32> = output
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Matched { sid, .. } => Some(*sid),
            _ => None,
        })
        .collect();
    sids.sort_unstable();
    sids.dedup();
    sids
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let limits = Limits { literal_states_max: 2000, expression_states_max: 500 };
    match Ruleset::compile("fuzz", &text, limits) {
        Err(error) => assert!(error.line >= 1 && error.line <= text.lines().count().max(1)),
        Ok(rules) => {
            let rules = Arc::new(rules);
            let data = &data[..data.len().min(2000)];
            assert_eq!(run(&rules, data, 0), run(&rules, data, data.len() / 2));
        }
    }
});
