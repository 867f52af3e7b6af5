//! Shadows on a running engine under a real client's load: added, told everywhere, adopted.

use crate::engine::{ask, json, over_socket};
use crate::program;
use crate::up::{URI, Up, clients_are_here, contents};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// Fills most of the volume, so that its last chunks stand on the slow pools.
fn fill(up: &Up, folder: &Path) {
    std::fs::write(folder.join("in"), contents(48 << 20)).unwrap();
    up.run("nbdcopy", &["--flush", "in", URI]).unwrap();
}

/// Reads four of the last chunks, here and there, until `done` gives something.
fn load_until<T>(up: &Up, done: impl Fn() -> Option<T>) -> T {
    let reads = [40, 41, 42, 43]
        .into_iter()
        .flat_map(|mib| [513, 65, 257].map(|kib| format!("read {}k 4k", mib * 1024 + kib)));
    let reads: Vec<String> = reads.collect();
    let mut arguments = vec!["-f", "raw", URI];
    reads.iter().for_each(|read| arguments.extend(["-c", read]));
    let start = Instant::now();
    loop {
        up.run("qemu-io", &arguments).unwrap();
        if let Some(found) = done() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "it does not come to that");
    }
}

/// A number of a shadow.
fn figure(shadow: &Value, of: &str, what: &str) -> f64 {
    shadow[of][what].as_f64().unwrap_or(0.0)
}

#[test]
fn a_shadow_tells_what_it_would_have_done_and_does_it_once_adopted() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("shadow-adopt");
    let up = Up::start_with(&folder, "--size 64MiB --no-emulation --policy none --epoch 500ms");
    fill(&up, &folder);
    let added = ask(&up, "shadow add baseline:k=4").unwrap();
    assert_eq!(added, "baseline:k=4 watches every chunk\n");
    for (wrong, why) in [
        ("shadow add lru", "is a cache, not a placement; those are static, "),
        ("shadow add baselin", "baseline"),
        ("shadow add baseline:k=4", "there is a shadow baseline:k=4 already"),
        ("shadow add edt --one-in 2", "watch one chunk in 1"),
        ("shadow remove edt", "there is no shadow edt; there are: baseline:k=4"),
        ("policy adopt edt", "there is no shadow edt; there are: baseline:k=4"),
        ("policy explain v0 64MiB", "ends beyond v0: it has 64 MiB"),
    ] {
        let said = ask(&up, wrong).unwrap_err();
        assert!(said.contains(why), "{wrong}: {said}");
    }
    let shadow = load_until(&up, || {
        let shadow = json(&up, "shadow list")[0].take();
        let better = figure(&shadow, "total", "fastest_pool_share") > 0.2;
        (better && shadow["epochs"].as_u64() > Some(2)).then_some(shadow)
    });
    // Nobody moved a chunk, and none of those read is on the fastest pool.
    assert_eq!(figure(&shadow, "actual_total", "fastest_pool_share"), 0.0);
    assert_eq!(figure(&shadow, "actual_total", "moved_bytes"), 0.0);
    assert!(figure(&shadow, "actual_total", "mean_latency_us") > 0.0);
    assert!(figure(&shadow, "total", "mean_latency_us") > 0.0);
    assert!(figure(&shadow, "total", "moved_bytes") >= f64::from(4 << 20), "{shadow:#}");
    let written = &shadow["total"]["written"][0];
    assert!(written["pool"] == "scm" && written["moved_bytes"].as_u64() >= Some(4 << 20));
    let accesses = |of| figure(&shadow, of, "accesses");
    assert_eq!((accesses("total"), accesses("total") > 0.0), (accesses("actual_total"), true));
    let status = ask(&up, "status").unwrap();
    assert!(status.contains("baseline:k=4") && status.contains("what was done"), "{status}");
    let metrics = over_socket(&folder, "/metrics").1;
    let series =
        "thermocline_shadow_moved_bytes_total{policy=\"baseline:k=4\",placement=\"shadow\"}";
    assert!(metrics.contains(series), "{metrics}");
    let why = ask(&up, "policy explain v0 40MiB").unwrap();
    assert!(why.contains("lives on") && why.contains("nobody decides"), "{why}");
    let adopted = ask(&up, "policy adopt baseline:k=4").unwrap();
    assert_eq!(adopted, "baseline:k=4 decides from now on, with what it has seen as a shadow\n");
    assert_eq!(ask(&up, "shadow list").unwrap(), "there are no shadows\n");
    load_until(&up, || {
        let told = json(&up, "policy explain v0 40MiB");
        (told["chunk"]["pools"][0] == 0).then_some(())
    });
    let why = ask(&up, "policy explain v0 40MiB").unwrap();
    assert!(why.contains("lives on scm") && why.contains("baseline:k=4 gives no reasons"), "{why}");
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn a_placement_that_gives_reasons_gives_them_live() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("shadow-explain");
    let up = Up::start_with(&folder, "--size 64MiB --no-emulation --policy chew --epoch 500ms");
    fill(&up, &folder);
    let reasons = load_until(&up, || {
        let told = json(&up, "policy explain v0 40MiB");
        let reasons = told["reasons"].as_array().unwrap().clone();
        (!reasons.is_empty()).then_some(reasons)
    });
    let first = reasons[0].as_str().unwrap();
    let why = ask(&up, "policy explain v0 41943041").unwrap();
    assert!(first.starts_with("when last accessed"), "{first}");
    assert!(why.contains("chew, when it was last asked:\n  when last accessed"), "{why}");
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn a_shadow_adopted_under_a_recording_begins_anew_and_replays_equal() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("shadow-recorded");
    let arguments = "--size 64MiB --no-emulation --policy none --epoch 500ms --record r.tcr";
    let up = Up::start_with(&folder, arguments);
    fill(&up, &folder);
    ask(&up, "shadow add hemem --one-in 2").unwrap();
    ask(&up, "shadow add baseline:k=4").unwrap();
    load_until(&up, || (json(&up, "shadow list")[0]["epochs"].as_u64() > Some(0)).then_some(()));
    let adopted = ask(&up, "policy adopt baseline:k=4").unwrap();
    assert_eq!(adopted, "baseline:k=4 decides from now on, anew\n");
    ask(&up, "shadow remove hemem").unwrap();
    load_until(&up, || {
        let told = json(&up, "policy explain v0 40MiB");
        (told["chunk"]["pools"][0] == 0).then_some(())
    });
    assert_eq!(up.stop("-TERM"), Some(0));
    let ran = program::run(&folder, "lab volume --replay r.tcr --json").succeeded();
    let told: Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!(told["equal"], true, "{told:#}");
    assert_eq!(told["placement"], "baseline:k=4");
}
