//! Rot on a pool's file: what `check` says of it, and what a scrub of the running engine does.

use crate::engine::{ask, json, over_socket};
use crate::program;
use crate::up::{Up, clients_are_here};
use std::path::Path;

const UP: &str = "--size 64MiB --no-emulation --policy none";
const PATTERN: u8 = 0xAB;
const BLOCK: usize = 4096;

/// Flips a bit in the middle of the pattern on a pool; where in the file.
pub(crate) fn rot(pool: &Path, pattern: u8) -> usize {
    let mut bytes = std::fs::read(pool).unwrap();
    let whole = |at: &usize| bytes[*at..*at + BLOCK].iter().all(|&byte| byte == pattern);
    let first = (0..bytes.len()).step_by(BLOCK).find(whole).unwrap();
    let at = first + 5 * BLOCK + 77;
    assert_eq!(bytes[at], pattern);
    bytes[at] ^= 4;
    std::fs::write(pool, bytes).unwrap();
    at
}

#[test]
fn a_rotten_copy_is_found_by_check_and_repaired_by_a_scrub() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("scrub");
    let up = Up::start_with(&folder, UP);
    let write = format!("write -P {PATTERN} 0 1M");
    up.run("qemu-io", &["-f", "raw", "-c", &write, crate::up::URI]).unwrap();
    for pool in ["ssd", "hdd"] {
        let copied = format!("migrate v0 --do replicate --to {pool} --offset 0 --length 1MiB");
        ask(&up, &(copied + " --wait")).unwrap();
    }
    let tables = |up: &Up| {
        let scrub = json(up, "scrub --show");
        let count = |what: &str| scrub[what].as_i64().unwrap();
        count("written_tables") - count("outdated_tables")
    };
    while tables(&up) < 1 {
        std::thread::yield_now(); // A chunk gets its checksums when it has rested.
    }
    assert_eq!(up.stop("-TERM"), Some(0));
    let check = |arguments: &str| program::run(&folder, &format!("check --data pools{arguments}"));
    let said = check("").succeeded().stdout();
    assert!(said.contains("what volumes hold was not read"), "{said}");
    let said = check(" --scrub").succeeded().stdout();
    assert!(said.contains("1 chunks were read") && said.contains("\nno flaws\n"), "{said}");

    let ssd = folder.join("pools/ssd.pool");
    let at = rot(&ssd, PATTERN);
    let rotten = std::fs::read(&ssd).unwrap();
    check("").succeeded();
    let found = check(" --scrub").ended_with(1).stdout();
    assert!(found.contains("4 KiB at byte 20480: the copy on ssd is wrong"), "{found}");
    assert!(std::fs::read(&ssd).unwrap() == rotten, "checking changes nothing");

    let up = Up::start_with(&folder, UP);
    let first = json(&up, "scrub --show");
    assert_eq!((&first["state"], &first["last_end_ms"]), (&"none".into(), &().into()));
    let scrub = json(&up, "scrub ssd --wait");
    assert_eq!((&scrub["state"], &scrub["pool"]), (&"ended".into(), &"ssd".into()));
    assert_eq!((&scrub["repaired_blocks"], &scrub["unrepairable_blocks"]), (&1.into(), &0.into()));
    assert!(ask(&up, "scrub nowhere").unwrap_err().contains("there is no pool nowhere"));
    let told = || over_socket(&folder, "/v1/events").1;
    let (all, repaired) =
        ("volume v0, 4 KiB at 20 KiB (byte 20480)", "on ssd was wrong and is repaired");
    while !told().contains("has ended;") {
        std::thread::yield_now(); // Events come with the second.
    }
    assert!(told().contains(all) && told().contains(repaired), "{}", told());
    let metrics = over_socket(&folder, "/metrics").1;
    assert!(metrics.contains("thermocline_scrub_repaired_bytes_total{} 4096\n"), "{metrics}");

    // Whoever waits for its end is told when that was.
    let began = std::time::SystemTime::now();
    let whole = json(&up, "scrub --wait");
    let ended = std::time::UNIX_EPOCH
        + std::time::Duration::from_millis(whole["last_end_ms"].as_u64().unwrap() + 1);
    assert!(whole["state"] == "ended" && ended >= began, "{whole}");
    assert_eq!(json(&up, "scrub ssd --wait")["state"], "ended", "the next one may begin at once");
    assert_eq!(up.stop("-TERM"), Some(0));
    assert_eq!(std::fs::read(&ssd).unwrap()[at], PATTERN);
    check(" --scrub").succeeded();
}
