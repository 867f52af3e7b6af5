//! Metrics of the engine, and of whoever else brings some, read by Prometheus's own parser.
//!
//! Without a `python3` that has the package prometheus-client the tests say SKIPPED.

use crate::engine::{ask, over_socket};
use crate::program;
use crate::up::Up;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The families that the parser finds, a line each; none without it.
#[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
pub(crate) fn parsed(metrics: &str) -> Option<String> {
    let has = Command::new("python3").args(["-c", "import prometheus_client"]).output();
    if !has.is_ok_and(|has| has.status.success()) {
        println!("SKIPPED: no python3 with prometheus_client; pip install prometheus-client");
        return None;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/metrics.py");
    let mut python = Command::new("python3")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let done = python.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(String::from_utf8(done.stdout).unwrap())
}

/// Histograms had no `+Inf` bucket: a Prometheus server computed NaN from them.
#[test]
fn prometheus_reads_every_metric_of_the_engine() {
    let folder = program::folder("metrics-engine");
    let config = "data = \"pools\"\n[[pool]]\nname = \"fast\"\nsize = \"32MiB\"\n[[pool]]\n\
                  name = \"slow\"\nsize = \"64MiB\"\n[pool.cache]\nsize = \"4MiB\"\n[[volume]]\n\
                  size = \"32MiB\"\nlatency = \"1ms\"\n[policy]\nname = \"baseline\"\n";
    std::fs::write(folder.join("up.toml"), config).unwrap();
    let (up, _) = Up::start_config(&folder, "up.toml");
    ask(&up, "shadow add lmst").unwrap();
    let Some(families) = parsed(&over_socket(&folder, "/metrics").1) else { return };
    for wanted in [
        "histogram thermocline_request_duration_seconds 100",
        "histogram thermocline_pool_request_duration_seconds 100",
        "counter thermocline_pool_read_bytes 2",
        "gauge thermocline_pool_used_bytes 2",
        "gauge thermocline_nbd_connections 2",
        "counter thermocline_nbd_connections_turned_away 4",
        "gauge thermocline_cache_used_bytes 1",
        "counter thermocline_shadow_moved_bytes 2",
        "gauge thermocline_volume_sla_latency_seconds 1",
        "counter thermocline_journal_written_bytes 1",
    ] {
        assert!(families.lines().any(|line| line == wanted), "{wanted} is not in\n{families}");
    }
    assert_eq!(up.stop("-TERM"), Some(0));
}
