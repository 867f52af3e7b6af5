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

/// A pool of this name was replaced by the engine's own file, with all that had been flushed.
#[test]
fn a_pool_is_no_file_that_the_engine_keeps_for_itself() {
    let folder = program::folder("check-own-files");
    for own in ["learnt", "hints.json.unread", "started-with", "scrubbed"] {
        let named = format!("name = \"fast\"\npath = \"{own}\"");
        std::fs::write(folder.join("own.toml"), CONFIG.replace("name = \"fast\"", &named)).unwrap();
        for command in ["check own.toml", "up own.toml"] {
            program::run(&folder, command).ended_with(2).says("keeps a file of its own there");
        }
    }
    assert!(!folder.join("pools").exists(), "nothing was made");
    std::fs::write(folder.join("engine.toml"), CONFIG).unwrap();
    let record = "up engine.toml --record pools/learnt";
    program::run(&folder, record).ended_with(2).says("keeps a file of its own there");
}

/// Settings that a group was made with and cannot change were ignored without a word.
#[test]
fn settings_of_the_first_start_and_groups_of_configurations_are_told() {
    let folder = program::folder("check-fixed");
    std::fs::write(folder.join("engine.toml"), CONFIG).unwrap();
    let mut engine = up(&folder);
    engine.kill().unwrap();
    engine.wait().unwrap();
    let larger = CONFIG.replace("64KiB", "128KiB");
    std::fs::write(folder.join("larger.toml"), larger).unwrap();
    let told = program::run(&folder, "check larger.toml").succeeded().stdout();
    assert!(told.contains("the group has chunks of 64 KiB, fixed at its first start"), "{told}");
    // Without the configuration, other pools were looked for: there seemed to be no group.
    for command in ["check --data pools", "export v0 --data pools -o image.raw"] {
        let ran = program::run(&folder, command).ended_with(2);
        ran.says("was started with a configuration");
    }
    let over = "export v0 engine.toml -o engine.toml --force";
    program::run(&folder, over).ended_with(2).says("is the configuration");
    let own = "export v0 engine.toml -o pools/learnt --force";
    program::run(&folder, own).ended_with(2).says("keeps a file of its own there");
    // A status must not depend on whether the message could be written.
    let script = format!("{} check none.toml 2>/dev/full", env!("CARGO_BIN_EXE_thermocline"));
    let status = Command::new("sh").args(["-c", &script]).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

/// A first start that failed left a group behind, which the next start took without a word.
#[test]
fn a_start_that_cannot_listen_or_record_makes_nothing() {
    let folder = program::folder("check-first");
    std::fs::write(folder.join("file"), "something").unwrap();
    let wrong = ["--socket /nowhere/at/all/x", "--socket file", "--record /nowhere/at/all/x.tcr"];
    for wrong in wrong {
        let ran = program::run(&folder, &format!("up --data new --size 8MiB {wrong}"));
        assert!(!ran.stderr().is_empty() && ran.stdout().is_empty(), "{wrong}");
        assert!(!folder.join("new").exists(), "{wrong}: nothing was made");
    }
}
