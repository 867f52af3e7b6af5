//! `thermocline up CONFIG` and `thermocline check`, before, during and after an engine's life.

use crate::program;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const CONFIG: &str = r#"
data = "pools"
chunk-size = "64KiB"
journal = "256KiB"
[[pool]]
name = "fast"
size = "16MiB"
[[pool]]
name = "slow"
size = "64MiB"
emulate = "ssd-sata"
[[volume]]
size = "32MiB"
[[volume]]
size = "8MiB"
[policy]
name = "baseline"
epoch = "1s"
"#;

/// Starts an engine and waits until it says that it serves.
fn up(folder: &Path) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_thermocline"))
        .args(["up", "engine.toml"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    let served = said.lines().any(|line| line.unwrap().starts_with("stop with"));
    assert!(served, "the engine ended");
    child
}

fn as_json(folder: &Path) -> serde_json::Value {
    let ran = program::run(folder, "check engine.toml --json").succeeded();
    serde_json::from_str(&ran.stdout()).unwrap()
}

#[test]
fn a_configuration_is_checked_before_its_first_start_while_it_runs_and_after_a_kill() {
    let folder = program::folder("check-life");
    std::fs::write(folder.join("engine.toml"), CONFIG).unwrap();
    let before = as_json(&folder);
    assert_eq!(before["identity"], serde_json::Value::Null);
    assert_eq!(before["pools"][1]["state"], "to be made");
    assert!(!folder.join("pools").exists(), "checking makes nothing");

    let mut engine = up(&folder);
    let refused = program::run(&folder, "check engine.toml").ended_with(1);
    refused.says("in use by another process");
    let pid = engine.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    assert!(engine.wait().unwrap().success());
    let mut engine = up(&folder);
    engine.kill().unwrap();
    engine.wait().unwrap();

    let contents =
        || ["fast", "slow"].map(|n| std::fs::read(folder.join(format!("pools/{n}.pool"))));
    let stored = contents().map(Result::unwrap);
    let after = as_json(&folder);
    assert_eq!(after["chunk_bytes"], 65536);
    assert_eq!(after["pools"][0]["state"], "active");
    assert_eq!(after["pools"][1]["emulate"], "ssd-sata");
    let volumes: Vec<_> = after["volumes"].as_array().unwrap().iter().collect();
    let sizes: Vec<_> = volumes.iter().map(|volume| &volume["size_bytes"]).collect();
    assert_eq!(sizes, [32 << 20, 8 << 20]);
    assert!(after["flaws"].as_array().unwrap().is_empty());
    assert!(contents().map(Result::unwrap) == stored, "checking changes nothing");
    let table = program::run(&folder, "check engine.toml").succeeded().stdout();
    assert!(table.contains("fast") && table.contains("no flaws"), "{table}");
}

#[test]
fn what_is_missing_or_damaged_is_a_flaw_and_what_is_written_wrong_is_an_input_error() {
    let folder = program::folder("check-flaws");
    std::fs::write(folder.join("engine.toml"), CONFIG).unwrap();
    let mut engine = up(&folder);
    engine.kill().unwrap();
    engine.wait().unwrap();
    let slow = folder.join("pools/slow.pool");
    std::fs::rename(&slow, folder.join("away")).unwrap();
    let ran = program::run(&folder, "check engine.toml").ended_with(1);
    let said = ran.stdout();
    assert!(said.contains("flaw: pool `slow` (number 1) is not there"), "{said}");
    assert!(said.contains("missing"), "{said}");
    std::fs::rename(folder.join("away"), &slow).unwrap();
    program::run(&folder, "check engine.toml").succeeded();

    std::fs::write(folder.join("wrong.toml"), CONFIG.replace("epoch", "epoche")).unwrap();
    for command in ["check wrong.toml", "up wrong.toml"] {
        let ran = program::run(&folder, command).ended_with(2);
        ran.says("wrong.toml, line 18: unknown key `epoche`; did you mean `epoch`?");
    }
    program::run(&folder, "check none.toml").ended_with(2).says("none.toml");
    program::run(&folder, "up engine.toml --size 1GiB").ended_with(2).says("cannot be used with");
}
