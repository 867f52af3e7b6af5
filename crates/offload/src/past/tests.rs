//! Seconds of a pool, made from the totals of two moments.

use super::*;
use crate::api::{FunctionStatus, Packets, Slot};

fn status(uptime_seconds: f64, processed: u64) -> PoolStatus {
    let slot = Slot {
        slot: 0,
        card: "card0".to_string(),
        state: "running".to_string(),
        function: Some("nat".to_string()),
        tenant: None,
        chosen: false,
        shares: 1,
        flows: 1,
        waiting: 0,
        cost_ns: Some(2_000.0),
        processed,
    };
    let function = FunctionStatus {
        name: "nat".to_string(),
        running: 1,
        wanted: None,
        offered_per_s: 0.0,
        on_processor: 0,
        processor_processed: 3 * processed,
        processor_cost_ns: None,
        flows: 1,
    };
    PoolStatus {
        uptime_seconds,
        scheduler: "by-cost".to_string(),
        tenants: Vec::new(),
        cards: Vec::new(),
        slots: vec![slot],
        functions: vec![function],
        interfaces: Vec::new(),
        packets: Packets { offered: processed, passed: processed / 2, ..Packets::default() },
    }
}

#[test]
fn a_second_has_what_grew_in_it_and_how_long_a_slot_worked() {
    let (before, now) = (status(1.0, 100), status(3.0, 200_100));
    let second = now.since(&before, 0);
    assert_eq!((second.number, second.offered, second.passed), (0, 200_000, 100_000));
    // 200,000 packets of 2 µs are 0.4 s, of 2 s.
    assert_eq!((second.slots[0].packets, second.slots[0].load), (200_000, 0.2));
    assert_eq!(second.slots[0].function.as_deref(), Some("nat"));
    // Without a measured cost nothing is said of the load.
    assert_eq!((second.processor[0].packets, second.processor[0].load), (600_000, 0.0));
    // Two looks within the same moment.
    assert_eq!(now.since(&now, 1).slots[0].load, 0.0);
}
