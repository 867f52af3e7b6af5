//! The API, the metrics and the page of a tunnel's end, as they are reached.

use crate::program;
use crate::tunnel::{read_all, server, wait_until};
use crate::tunnel_clients::Tunnel;
use serde_json::Value;
use std::process::Command;

pub(crate) fn curl(arguments: &[&str]) -> (u32, String) {
    let ran = Command::new("curl")
        .args(["--silent", "--noproxy", "*", "--write-out", "\n%{http_code}"])
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    let (body, code) = text.rsplit_once('\n').unwrap();
    (code.parse().unwrap(), body.to_string())
}

#[test]
fn an_end_tells_its_flows_its_past_and_its_metrics() {
    if !crate::tunnel_clients::are_here(&["curl"]) {
        return;
    }
    let data: Vec<u8> =
        (0..4_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let target = server(data.clone());
    let tunnel =
        Tunnel::around("tunnel-page", std::slice::from_ref(&target), "--policy content:size=2KiB");
    for _ in 0..2 {
        assert!(read_all(&tunnel.listeners[0]) == data, "other bytes came");
    }
    let socket = tunnel.folder.join("exit.sock");
    let over = |path: &str| {
        let url = format!("http://localhost{path}");
        let (code, body) = curl(&["--unix-socket", socket.to_str().unwrap(), &url]);
        assert_eq!(code, 200, "{path}: {body}");
        body
    };
    let json = |path: &str| -> Value { serde_json::from_str(&over(path)).unwrap() };
    wait_until("the second is over", || {
        let seconds = json("/v1/history");
        let bytes = seconds.as_array().unwrap().iter().map(|one| one["bytes"].as_u64().unwrap());
        bytes.sum::<u64>() >= 8 << 20
    });
    let second = json("/v1/history?from=0")[0].clone();
    assert_eq!(second["number"], 0, "{second}");
    assert!(json("/v1/events").to_string().contains("up, sha256:"));
    let metrics = over("/metrics");
    let port = target.rsplit(':').next().unwrap();
    for line in ["thermocline_tunnel_links{} 1.0", "thermocline_tunnel_flows_total{} 2"] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    let bytes = format!("class=\"{port}\"}} {}", (8 << 20) + 2);
    assert!(metrics.contains(&bytes), "{bytes} is not in {metrics}");
    let document = json("/v1/openapi.json");
    assert!(document["paths"]["/v1/status"]["get"].is_object());
    assert!(document["components"]["schemas"]["FlowStatus"].is_object());
    assert!(over("/").contains("Classes of flows"));

    // Over TCP a token is needed, which the start prints.
    let address = tunnel.said("dashboard: http://");
    let (address, token) = address.split_once("/#token=").unwrap();
    let url = format!("http://{address}/v1/status");
    assert_eq!(curl(&[&url]).0, 401);
    assert_eq!(curl(&["--header", &format!("Authorization: Bearer {token}"), &url]).0, 200);
    assert_eq!(curl(&[&format!("http://{address}/")]).0, 200);
    program::run(&tunnel.folder, "tunnel status --socket none.sock")
        .ended_with(1)
        .says("is an end running");
}
