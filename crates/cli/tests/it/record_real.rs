//! A recording of a real workload: a file system is made on the volume and mounted (nbdfuse and a
//! loop device), a source tree is copied, changed, copied again and deleted; then the recording is
//! replayed.
//!
//! Needs root, FUSE, loop devices, nbdfuse and e2fsprogs; says SKIPPED without them.
//! `THERMOCLINE_RECORD_TREE` names another tree to copy than this project's crates, and
//! `THERMOCLINE_RECORD_KEEP` a file to keep the recording in: docs/results/recording.md.

use crate::mounted::{Mounted, mounting_works};
use crate::program;
use crate::up::{Up, clients_are_here};
use serde_json::Value;

#[test]
fn the_proposals_of_a_mounted_file_systems_life_are_had_again() {
    let folder = program::folder("record-real");
    if !clients_are_here() || !mounting_works(&folder, "mkfs.ext4 e2fsck") {
        return;
    }
    let tree = std::env::var("THERMOCLINE_RECORD_TREE");
    let tree = tree.unwrap_or_else(|_| format!("{}/..", env!("CARGO_MANIFEST_DIR")));
    let engine = "--size 512MiB --no-emulation --policy baseline:k=24 --epoch 50ms --record r.tcr";
    let up = Up::start_with(&folder, engine);
    let mounted = Mounted::new(&folder).unwrap();
    mounted.shell("mkfs.ext4 -q DEVICE && mount DEVICE tree");
    // sync makes each step a load of the volume and not of the page cache only.
    mounted.shell(&format!("cp -r '{tree}' tree/one && sync -f tree"));
    mounted
        .shell("find tree/one -name '*.rs' | head -200 | while read f; do echo '//' >> $f; done");
    mounted.shell("cp -r tree/one tree/two && sync -f tree && umount tree && mount DEVICE tree");
    mounted.shell("diff -r tree/one tree/two && rm -rf tree/one && sync -f tree");
    mounted.shell("umount tree && e2fsck -fn DEVICE");
    drop(mounted);
    assert_eq!(up.stop("-TERM"), Some(0));

    let ran = program::run(&folder, "lab volume --replay r.tcr --json").succeeded();
    let told: Value = serde_json::from_str(&ran.stdout()).unwrap();
    let total = |what: &str| -> u64 {
        told["epochs"].as_array().unwrap().iter().map(|row| row[what].as_u64().unwrap()).sum()
    };
    assert_eq!((&told["equal"], &told["cut_off"]), (&Value::Bool(true), &Value::Null), "{told:#}");
    assert!(total("accesses") > 50, "{told:#}");
    if let Ok(keep) = std::env::var("THERMOCLINE_RECORD_KEEP") {
        std::fs::copy(folder.join("r.tcr"), keep).unwrap();
    }
}
