//! The view, drawn into memory.

use super::{COLUMNS, SPARE, Scene, draw};
use crate::live_view::columns_within;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use thermocline_admin::api::Latency;
use thermocline_engine::api::{Counters, Operations, PoolSecond, Second, Status};

fn scene() -> Scene {
    let counters = serde_json::to_value(Counters::default()).unwrap();
    let none = serde_json::to_value(Latency::default()).unwrap();
    let pool = |id: u16, name: &str| {
        serde_json::json!({
            "id": id, "name": name, "state": "active", "path": "x", "direct": true,
            "emulated": false,
            "chunks_total": 100, "chunks_used": 50, "chunks_prefetched": 0, "in_flight": 0,
            "counters": counters,
            "read_latency": none,
            "write_latency": none,
        })
    };
    let status = serde_json::json!({
        "version": "0", "identity": "0", "service": "ready", "uptime_seconds": 90.0,
        "chunk_bytes": 1 << 20, "epoch_seconds": 300.0, "policy": {"spec": "baseline"},
        "volumes": [], "pools": [pool(0, "scm"), pool(1, "hdd")], "operations_pending": 3,
        "journal": {"blocks": 1, "used": 0, "written": 0}, "connections": 2, "in_flight": 0,
        "map_bytes": 0, "requests": {}, "fastest_pool_share": 0.75,
    });
    let status: Status = serde_json::from_value(status).unwrap();
    let pools = [1234, 7].map(|reads| PoolSecond { reads, p50_us: 150.0, ..PoolSecond::default() });
    let second = Second {
        number: 0,
        at_ms: 0,
        reads: 1241,
        writes: 0,
        p99_us: 2500.0,
        pools: pools.to_vec(),
    };
    let operations = Operations { jobs: Vec::new(), chunks: Vec::new(), pending: 3 };
    Scene { status, seconds: vec![second], operations, events: Vec::new() }
}

/// At 80 columns stood "1.05 Gi" and "writes/", at 60 "activ" and "118 M".
#[test]
fn what_is_shown_of_pools_is_whole_on_a_narrow_terminal() {
    for (width, whole) in [
        (118, &["50 MiB", "100 MiB", "active", "writes/s", "1,234", "150 µs", "moved/s"][..]),
        (80, &["50 MiB", "100 MiB", "active", "writes/s", "1,234", "p99"]),
        (60, &["50 MiB", "writes/s", "1,234", "p99"]),
        (40, &["50 MiB", "reads/s", "1,234"]),
    ] {
        let mut terminal = Terminal::new(TestBackend::new(width, 24)).unwrap();
        terminal.draw(|frame| draw(frame, &scene())).unwrap();
        let text = terminal.backend().to_string();
        for wanted in whole {
            assert!(text.contains(wanted), "{width}: {wanted}\n{text}");
        }
        let widths: u16 =
            columns_within(&COLUMNS, &SPARE, width).iter().map(|&at| COLUMNS[at].1 + 1).sum();
        assert!(widths - 1 <= width, "{width}");
    }
}

#[test]
fn the_view_shows_pools_rates_and_moves_on_any_terminal() {
    for (width, height) in [(120, 30), (80, 24), (20, 5)] {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &scene())).unwrap();
        let text = terminal.backend().to_string();
        // A tiny terminal has no room for words; it only must not end the program.
        assert!(width == 20 || text.contains("thermocline ready"), "{text}");
        if width == 120 {
            for wanted in [
                "2 clients, policy baseline",
                "75 % of reads",
                "1,234",
                "1,241 reads/s",
                "150 µs",
                "50 MiB",
                "3 to go",
            ] {
                assert!(text.contains(wanted), "{wanted}\n{text}");
            }
        }
    }
}
