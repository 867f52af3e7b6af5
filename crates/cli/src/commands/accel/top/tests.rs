//! The view, drawn into memory.

use super::{Scene, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use thermocline_offload::api::{PoolSecond, PoolStatus, WorkerSecond};

fn scene() -> Scene {
    let slot = |slot: u32, state: &str, function: Option<&str>| {
        serde_json::json!({
            "slot": slot, "card": "card0", "state": state, "function": function, "tenant": null,
            "chosen": slot == 1, "shares": 3, "flows": 70, "waiting": 5, "cost_ns": 1500.0,
            "processed": 9,
        })
    };
    let function = |name: &str| {
        serde_json::json!({
            "name": name, "running": 1, "wanted": null, "offered_per_s": 5.0, "on_processor": 2,
            "processor_processed": 3, "processor_cost_ns": null, "flows": 70,
        })
    };
    let interface = serde_json::json!({
        "interface": "packet:in0", "received": 0, "received_bytes": 0, "sent": 0, "sent_bytes": 0,
        "refused": 0, "unanswered": 0, "unrouted": 0,
    });
    let status = serde_json::json!({
        "uptime_seconds": 90.0, "scheduler": "by-cost",
        "tenants": [{"name": "a", "networks": ["10.0.0.0/24"], "external": ["198.51.100.10"],
            "chain": ["nat", "dpi"], "slots": []},
            {"name": "b", "networks": ["10.1.0.0/24"], "external": [], "chain": [], "slots": []}],
        "cards": [{"name": "card0", "running": 1, "slots": 2, "drained": false}],
        "slots": [slot(0, "running", Some("nat")), slot(1, "empty", None)],
        "functions": [function("nat"), function("dpi")],
        "interfaces": [interface.clone(), interface],
        "packets": {"offered": 0, "passed": 0, "dropped_strangers": 0, "dropped_hops": 0,
            "dropped_by_functions": 0, "dropped_by_rules": 0, "lost": 0, "alerts": 0,
            "mappings_made": 0, "mappings_ended": 0, "ports_exhausted": 0, "loads": 0,
            "failures": 0, "moved": 0, "states_lost": 0},
    });
    let worker = |function: &str, packets: u64, load: f64| WorkerSecond {
        function: Some(function.to_string()),
        packets,
        load,
    };
    let second = PoolSecond {
        offered: 4321,
        passed: 1234,
        lost: 7,
        slots: vec![worker("nat", 987, 0.5), WorkerSecond::default()],
        processor: vec![worker("nat", 0, 0.0), worker("dpi", 654, 0.1)],
        ..PoolSecond::default()
    };
    let status: PoolStatus = serde_json::from_value(status).unwrap();
    Scene { status, seconds: vec![second], events: Vec::new() }
}

#[test]
fn the_view_shows_chains_slots_and_packets_on_any_terminal() {
    for (width, height) in [(120, 30), (80, 24), (50, 24), (20, 5)] {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &scene())).unwrap();
        let text = terminal.backend().to_string();
        let wanted: &[&str] = match width {
            120 => &[
                "2 tenants, 1 of 2 slots run, scheduler by-cost",
                "4,321 packets/s came, 1,234 left, 0 dropped by functions, 7 lost",
                "a (10.0.0.0/24) → nat → dpi → the world",
                "no chain: its packets are dropped",
                "█████░░░░░",
                "1.50",
                "chosen by hand",
                "654",
            ],
            80 => &["slot 0", "running", "987", "█████░░░░░", "processor"],
            50 => &["slot 0", "987", "654"],
            // A tiny terminal has no room for words; it only must not end the program.
            _ => &[],
        };
        for wanted in wanted {
            assert!(text.contains(wanted), "{width}: {wanted}\n{text}");
        }
    }
}
