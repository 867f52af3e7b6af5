//! `thermocline up --record` under the load of libnbd's and qemu's own tools, and what
//! `thermocline lab volume --replay` says of it.

use crate::program;
use crate::up::{URI, Up, clients_are_here, contents};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

const RECORDING: &str =
    "--size 64MiB --no-emulation --policy baseline:k=6 --epoch 100ms --record r.tcr";

/// The replay of `file`, which must be equal throughout.
fn replayed(folder: &Path, file: &str) -> Value {
    let words = format!("lab volume --replay {file} --json");
    let ran = program::run(folder, &words).succeeded();
    let told: Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!(told["equal"], true, "{told:#}");
    assert_eq!(told["placement"], "baseline:k=6");
    told
}

fn total(told: &Value, what: &str) -> u64 {
    told["epochs"].as_array().unwrap().iter().map(|row| row[what].as_u64().unwrap()).sum()
}

/// Fills most of the volume, so that chunks stand on all pools, then reads some of the slow ones
/// until the recording holds epochs with moves.
fn load(up: &Up, folder: &Path) {
    std::fs::write(folder.join("in"), contents(48 << 20)).unwrap();
    up.run("nbdcopy", &["--flush", "in", URI]).unwrap();
    let commands =
        ["write -P 7 46M 3M", "read 40M 4k", "read 44M 64k", "discard 45M 1M", "write -z 41M 64k"];
    let mut arguments = vec!["-f", "raw", URI];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    let start = Instant::now();
    loop {
        up.run("qemu-io", &arguments).unwrap();
        // A recording can be read while it is written.
        let ran = program::run(folder, "lab volume --replay r.tcr --json");
        let told: Value = serde_json::from_str(&ran.stdout()).unwrap_or_default();
        let epochs = told["epochs"].as_array().map_or(0, Vec::len);
        if epochs > 3 && total(&told, "recorded") > 0 {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "no moves are proposed: {told:#}");
    }
}

#[test]
fn a_live_placement_proposes_the_same_again_and_its_recording_is_a_trace() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("record-equal");
    let up = Up::start_with(&folder, RECORDING);
    load(&up, &folder);
    assert_eq!(up.stop("-TERM"), Some(0));
    let told = replayed(&folder, "r.tcr");
    assert_eq!(told["cut_off"], Value::Null);
    assert!(total(&told, "recorded") > 0 && total(&told, "accesses") > 50, "{told:#}");
    let rival = program::run(&folder, "lab volume --replay r.tcr --policy vfrm").succeeded();
    assert!(rival.stdout().contains("vfrm:cooling="), "{}", rival.stdout());
    let words = "lab volume --replay r.tcr --policy vfrm,baseline:k=6 --json";
    let told: Value =
        serde_json::from_str(&program::run(&folder, words).succeeded().stdout()).unwrap();
    let [vfrm, same] = &told["shadows"].as_array().unwrap()[..] else { panic!("{told:#}") };
    assert_eq!((&vfrm["name"], &same["name"]), (&"vfrm".into(), &"baseline:k=6".into()));
    let epochs = told["epochs"].as_array().unwrap().len() as u64;
    assert_eq!(same["epochs"], epochs - 1, "a shadow begins with the first epoch's end");
    assert_eq!(same["actual_total"]["accesses"], vfrm["total"]["accesses"], "{told:#}");
    let words = "policies explain chew --replay r.tcr --chunk 46";
    let why = program::run(&folder, words).succeeded().stdout();
    assert!(why.starts_with("chunk 46 of v0 (46 MiB to 47 MiB) lives on pool"), "{why}");
    assert!(why.contains("chew, when it was last asked:\n  when last accessed"), "{why}");

    let stat = program::run(&folder, "trace stat r.tcr --json").succeeded().stdout();
    let stat: Value = serde_json::from_str(&stat).unwrap();
    assert!(
        stat.pointer("/workload/response_ns/count").and_then(Value::as_u64) > Some(50),
        "{stat:#}"
    );
    for words in [
        "lab cache r.tcr --policy lru,arc --size 8MiB",
        "lab volume r.tcr --policy baseline,vfrm --epoch 1s",
        "lab volume --trace r.tcr --policy static",
        "trace convert r.tcr -o t.csv",
    ] {
        program::run(&folder, words).succeeded();
    }
    // The same requests, whichever way they are read.
    let csv = std::fs::read_to_string(folder.join("t.csv")).unwrap();
    let requests = csv.lines().count() as u64 - 1;
    assert!(requests >= total(&told, "requests"), "{requests} requests");
    assert!(csv.contains(",flush,") && csv.contains(",trim,"));
}

#[test]
fn every_placement_that_decided_live_on_slowed_pools_proposes_the_same_again() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("record-all");
    let listed = program::run(&folder, "policies --json").succeeded().stdout();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let placements = listed.as_array().unwrap().iter().filter(|it| it["kind"] == "placement");
    let names: Vec<&str> = placements.map(|it| it["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"chew") && names.contains(&"edt"), "{names:?}");
    let mut moved = 0;
    for name in names {
        let folder = program::folder(&format!("record-all-{name}"));
        let words = format!("--size 64MiB --policy {name} --epoch 100ms --record r.tcr");
        let up = Up::start_with(&folder, &words);
        std::fs::write(folder.join("in"), contents(24 << 20)).unwrap();
        up.run("nbdcopy", &["--flush", "in", URI]).unwrap();
        let commands = ["read 20M 64k", "write -P 3 21M 256k", "read 23M 4k", "write 1M 4k"];
        let mut arguments = vec!["-f", "raw", URI];
        commands.iter().for_each(|command| arguments.extend(["-c", command]));
        let replay = || {
            let ran = program::run(&folder, "lab volume --replay r.tcr --json").succeeded();
            serde_json::from_str::<Value>(&ran.stdout()).unwrap()
        };
        // Idle epochs may go by before the copy begins, and the last epoch is never told.
        let seen = |told: &Value| {
            told["epochs"].as_array().map_or(0, Vec::len) >= 4 && total(told, "accesses") > 20
        };
        while !seen(&replay()) {
            up.run("qemu-io", &arguments).unwrap();
        }
        assert_eq!(up.stop("-TERM"), Some(0));
        let told = replay();
        assert_eq!(told["equal"], true, "{name}: {told:#}");
        assert!(total(&told, "accesses") > 20, "{name}: {told:#}");
        moved += total(&told, "recorded");
    }
    assert!(moved > 0, "none of them moved anything");
}

#[test]
fn what_is_left_after_a_kill_or_a_cut_is_equal_as_far_as_it_goes() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("record-torn");
    let up = Up::start_with(&folder, RECORDING);
    load(&up, &folder);
    assert_eq!(up.stop("-KILL"), None);
    let told = replayed(&folder, "r.tcr");
    let cut = told["cut_off"].as_str().expect("it was not closed").to_string();
    assert!(cut.contains("not closed") || cut.contains("cut off"), "{cut}");
    let bytes = std::fs::read(folder.join("r.tcr")).unwrap();
    std::fs::write(folder.join("torn.tcr"), &bytes[..bytes.len() - 5]).unwrap();
    let torn = replayed(&folder, "torn.tcr");
    assert!(torn["cut_off"].as_str().unwrap().contains("cut off in the block at byte"));
    assert!(total(&torn, "accesses") > 0);
    let mut damaged = bytes.clone();
    damaged[60] ^= 1;
    std::fs::write(folder.join("damaged.tcr"), damaged).unwrap();
    program::run(&folder, "lab volume --replay damaged.tcr").ended_with(2).says("damaged block");
    // The engine comes up again; an old recording stays as it is.
    program::run(&folder, "up --data pools --record r.tcr").ended_with(2).says("r.tcr exists");
    assert!(std::fs::read(folder.join("r.tcr")).unwrap() == bytes);
}

#[test]
fn what_is_no_recording_and_what_is_no_placement_is_refused() {
    let folder = program::folder("record-refused");
    std::fs::write(folder.join("t.csv"), "time_ns,volume,op,offset_bytes,length_bytes\n").unwrap();
    std::fs::write(folder.join("empty"), "").unwrap();
    program::run(&folder, "lab volume --replay t.csv").ended_with(2).says("not a recording");
    program::run(&folder, "lab volume --replay empty").ended_with(2).says("at least 16");
    program::run(&folder, "lab volume --replay missing").ended_with(2).says("missing:");
    program::run(&folder, "lab volume --replay t.csv t.csv").ended_with(2);
    program::run(&folder, "lab volume").ended_with(2).says("give a TRACE");
    program::run(&folder, "up --policy lru").ended_with(2).says("not a placement");
    program::run(&folder, "up --policy baseline:k=0").ended_with(2).says("`k=0`");
    program::run(&folder, "up --epoch 0s").ended_with(2).says("lasts some time");
    assert!(!folder.join("thermocline-data").exists(), "nothing was made");
}
