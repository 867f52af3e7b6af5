//! `thermocline hint watch` from end to end: whoever opens a cold file has it near soon after.

use crate::engine::json;
use crate::hint_sources::{beside, hints_done, ranges, source, until};
use crate::mounted::{Mounted, mounting_works};
use crate::program::{self, run};
use crate::up::{Up, clients_are_here};
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;

/// A disk that everything is written to first, and a fast pool with room for copies.
const CONFIG: &str = r#"
data = "pools"
tactics = ["slowest-first"]
[[pool]]
name = "ssd"
size = "32MiB"
reserve = "16MiB"
[[pool]]
name = "hdd"
size = "128MiB"
emulate = "hdd-7200"
[[volume]]
size = "96MiB"
"#;

/// Pools that hold all of these bytes of the volume.
fn pools_of(up: &Up, range: &Range<u64>) -> Vec<u64> {
    let map = json(up, "volume map v0");
    let runs = map.as_array().unwrap().iter().filter(|run| {
        let number = |key: &str| run[key].as_u64().unwrap();
        let start = number("offset_bytes");
        start < range.end && range.start < start + number("length_bytes")
    });
    let pools = |run: &serde_json::Value| -> Vec<u64> {
        run["pools"].as_array().unwrap().iter().map(|pool| pool.as_u64().unwrap()).collect()
    };
    let sets: Vec<Vec<u64>> = runs.map(pools).collect();
    let first = sets.first().unwrap();
    first.iter().copied().filter(|pool| sets.iter().all(|set| set.contains(pool))).collect()
}

/// Bytes that clients read from each pool.
fn read_bytes(up: &Up) -> Vec<u64> {
    let status = json(up, "status");
    let pools = status["pools"].as_array().unwrap();
    pools.iter().map(|pool| pool["counters"]["read_bytes"].as_u64().unwrap()).collect()
}

fn where_it_lies(folder: &Path, file: &str) -> Range<u64> {
    let document = run(folder, &format!("hint path --dry-run --data pools {file}")).stdout();
    let found = ranges(&document);
    assert_eq!(found.len(), 1, "a new file on an empty file system is in one piece");
    found[0].clone()
}

#[test]
fn a_cold_file_is_fetched_when_it_is_opened_and_read_from_the_fast_pool_then() {
    let folder = program::folder("prefetch-watch");
    if !clients_are_here() || !mounting_works(&folder, "mkfs.ext4") {
        return;
    }
    std::fs::write(folder.join("up.toml"), CONFIG).unwrap();
    let (up, _) = Up::start_config(&folder, "up.toml");
    let mounted = Mounted::new(&folder).unwrap();
    mounted.shell("mkfs.ext4 -q DEVICE && mount DEVICE tree");
    mounted.shell("for f in cold other; do head -c 4M /dev/urandom > tree/$f; done; sync -f tree");
    let (cold, other) = (where_it_lies(&folder, "tree/cold"), where_it_lies(&folder, "tree/other"));
    assert_eq!((pools_of(&up, &cold), pools_of(&up, &other)), (vec![1], vec![1]));

    let mut watch = beside(&folder, "hint watch --mount tree --data pools");
    let mut said = BufReader::new(watch.0.stderr.take().unwrap()).lines();
    assert!(said.next().unwrap().unwrap().contains("watching"));
    mounted.shell("head -c 1 tree/cold >/dev/null");
    until("a copy on the fast pool", || pools_of(&up, &cold).contains(&0));
    assert!(hints_done(&folder)["prefetched_chunks"].as_u64().unwrap() >= 4);
    assert!(pools_of(&up, &cold).contains(&1), "it stays on the disk, too");
    // What nobody opened is not fetched, but where a chunk has bytes of both.
    let alone = other.start.max(cold.end.next_multiple_of(1 << 20))..other.end;
    assert_eq!(pools_of(&up, &alone), [1]);

    let before = read_bytes(&up);
    let read = format!("read {} {}", cold.start, cold.end - cold.start);
    up.run("qemu-io", &["-f", "raw", "-c", &read, crate::up::URI]).unwrap();
    let after = read_bytes(&up);
    // Whole blocks of 4 KiB are read, because checksums are of whole blocks.
    let blocks = cold.end.next_multiple_of(4096) - cold.start / 4096 * 4096;
    assert_eq!(after[0] - before[0], blocks, "from the fast pool");
    assert_eq!(after[1], before[1], "nothing from the disk");

    let pid = rustix::process::Pid::from_child(&watch.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(watch.0.wait().unwrap().code(), Some(0));
    assert_eq!(source(&folder, "watch").unwrap()["ranges"], 0);
    drop(mounted);
    assert_eq!(up.stop("-TERM"), Some(0));
}
