//! Metadata that a medium returns damaged: refused, told, and saved when that is asked for.

use crate::program;
use crate::up::{URI, Up, clients_are_here, contents};
use std::path::Path;

const CONFIG: &str = r#"
data = "pools"
chunk-size = "64KiB"
journal = "256KiB"
[[pool]]
name = "only"
size = "64MiB"
[[volume]]
size = "16MiB"
"#;
/// Offset of the journal, and of a byte of a record in its second block.
const JOURNAL: usize = 8192;

fn flip(folder: &Path, at: usize) {
    let path = folder.join("pools/only.pool");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[at] ^= 0x10;
    std::fs::write(&path, bytes).unwrap();
}

#[test]
fn a_flipped_bit_in_the_journal_of_a_killed_engine_is_refused_told_and_set_right_when_asked() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("damage");
    std::fs::write(folder.join("engine.toml"), CONFIG).unwrap();
    let wanted = contents(8 << 20);
    std::fs::write(folder.join("in"), &wanted).unwrap();
    let (up, _) = Up::start_config(&folder, "engine.toml");
    up.run("nbdcopy", &["--flush", "in", URI]).unwrap();
    // Another commit: the one before it was durable.
    up.run("qemu-io", &["-f", "raw", "-c", "write -P 7 12M 64k", "-c", "flush", URI]).unwrap();
    up.stop("-KILL");

    flip(&folder, JOURNAL + 100);
    let damaged = std::fs::read(folder.join("pools/only.pool")).unwrap();
    let checked = program::run(&folder, "check engine.toml").ended_with(1).stdout();
    assert!(checked.contains("journal is damaged"), "{checked}");
    program::run(&folder, "up engine.toml").ended_with(1).says("thermocline check --salvage");
    let told = program::run(&folder, "check engine.toml --salvage").succeeded();
    assert!(told.stdout().contains("1 blocks with one flipped bit"), "{}", told.stdout());
    let after = std::fs::read(folder.join("pools/only.pool")).unwrap();
    assert!(after == damaged, "nothing of this has changed a byte");

    let (up, _) = Up::start_with_arguments(&folder, &["engine.toml", "--salvage"]);
    up.run("nbdcopy", &[URI, "out"]).unwrap();
    let got = std::fs::read(folder.join("out")).unwrap();
    assert!(got[..wanted.len()] == wanted && got[12 << 20] == 7);
    assert_eq!(up.stop("-TERM"), Some(0));
    program::run(&folder, "check engine.toml").succeeded();

    // After a stop in order there is no journal whose damage could matter.
    flip(&folder, JOURNAL + 100);
    let (up, _) = Up::start_config(&folder, "engine.toml");
    up.run("nbdcopy", &[URI, "out"]).unwrap();
    let got = std::fs::read(folder.join("out")).unwrap();
    assert!(got[..wanted.len()] == wanted && got[12 << 20] == 7);
    assert_eq!(up.stop("-TERM"), Some(0));
}
