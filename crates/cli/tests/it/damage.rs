//! Metadata that a medium returns damaged: refused, told, and saved when that is asked for.

use crate::program;
use crate::up::{URI, Up, clients_are_here, contents};
use std::os::unix::fs::PermissionsExt;
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

    let export = "export v0 engine.toml -o saved.img";
    program::run(&folder, export).ended_with(1).says("journal is damaged");
    assert!(!folder.join("saved.img").exists());
    program::run(&folder, &format!("{export} --salvage")).succeeded();
    let saved = std::fs::read(folder.join("saved.img")).unwrap();
    assert!(saved.len() == 16 << 20 && saved[..wanted.len()] == wanted && saved[12 << 20] == 7);
    program::run(&folder, &format!("{export} --salvage")).ended_with(2).says("saved.img exists");
    let after = std::fs::read(folder.join("pools/only.pool")).unwrap();
    assert!(after == damaged, "an export has changed a byte");

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

const TWO: &str = r#"
data = "pools"
chunk-size = "64KiB"
journal = "256KiB"
[[pool]]
name = "small"
size = "8MiB"
[[pool]]
name = "large"
size = "64MiB"
[[volume]]
name = "db"
size = "16MiB"
"#;

/// People were told to erase the device, and that there was no volume group.
#[test]
fn a_flipped_bit_in_each_superblock_loses_nothing() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("damage-superblocks");
    std::fs::write(folder.join("engine.toml"), CONFIG).unwrap();
    let wanted = contents(4 << 20);
    std::fs::write(folder.join("in"), &wanted).unwrap();
    let (up, _) = Up::start_config(&folder, "engine.toml");
    up.run("nbdcopy", &["--flush", "in", URI]).unwrap();
    assert_eq!(up.stop("-TERM"), Some(0));
    // A bit of the mark that it begins with, and one of what it says.
    for byte in [2, 100] {
        [byte, byte + 4096].into_iter().for_each(|at| flip(&folder, at));
        program::run(&folder, "up engine.toml").ended_with(1).says("thermocline check --salvage");
        let export = format!("export v0 engine.toml --salvage -o {byte}.img");
        program::run(&folder, &export).succeeded();
        assert!(std::fs::read(folder.join(format!("{byte}.img"))).unwrap()[..4 << 20] == wanted);
        [byte, byte + 4096].into_iter().for_each(|at| flip(&folder, at));
    }
    program::run(&folder, "check engine.toml").succeeded();
}

/// The image replaced a pool that it was read from, and files of others beside its name.
fn refuses_to_write_over_what_is_in_use(folder: &Path) {
    let pool = folder.join("pools/large.pool");
    let before = std::fs::read(&pool).unwrap();
    std::os::unix::fs::symlink("pools/large.pool", folder.join("link.img")).unwrap();
    for output in ["pools/large.pool", "link.img"] {
        let export = format!("export db engine.toml --force -o {output}");
        program::run(folder, &export).ended_with(2).says("is a device of the group itself");
    }
    std::fs::write(folder.join("victim"), "precious").unwrap();
    std::os::unix::fs::symlink("victim", folder.join("x.img.part")).unwrap();
    program::run(folder, "export db engine.toml -o x.img").ended_with(2).says("x.img.part exists");
    assert_eq!(std::fs::read(folder.join("victim")).unwrap(), b"precious");
    assert!(!folder.join("x.img").exists() && before == std::fs::read(&pool).unwrap());
}

#[test]
fn what_the_pools_that_are_left_have_is_exported_and_the_rest_is_named() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("export");
    std::fs::write(folder.join("engine.toml"), TWO).unwrap();
    let wanted = contents(12 << 20);
    std::fs::write(folder.join("in"), &wanted).unwrap();
    let (up, _) = Up::start_config(&folder, "engine.toml");
    let uri = "nbd+unix:///db?socket=pools/nbd.sock";
    up.run("nbdcopy", &["--flush", "in", uri]).unwrap();
    program::run(&folder, "export db engine.toml -o busy.img").ended_with(1).says("in use");
    assert_eq!(up.stop("-TERM"), Some(0));

    program::run(&folder, "export nobody engine.toml -o x").ended_with(2).says("there are db");
    program::run(&folder, "export db engine.toml -o whole.img").succeeded();
    let whole = std::fs::read(folder.join("whole.img")).unwrap();
    assert!(whole.len() == 16 << 20 && whole[..wanted.len()] == wanted);
    assert!(whole[wanted.len()..].iter().all(|&byte| byte == 0));
    let mode = std::fs::metadata(folder.join("whole.img")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it holds what is on a volume");
    refuses_to_write_over_what_is_in_use(&folder);

    std::fs::remove_file(folder.join("pools/large.pool")).unwrap();
    let told = program::run(&folder, "export db engine.toml -o part.img").ended_with(1);
    assert!(told.stdout().contains("could not be read: zeroes here"), "{}", told.stdout());
    let part = std::fs::read(folder.join("part.img")).unwrap();
    assert_eq!(part.len(), 16 << 20);
    let (mut right, mut zeroes) = (0, 0);
    for (part, wanted) in part.chunks(4096).zip(wanted.chunks(4096)) {
        right += usize::from(part == wanted);
        zeroes += usize::from(part != wanted && part.iter().all(|&byte| byte == 0));
    }
    assert_eq!(right + zeroes, wanted.len() / 4096, "right or zeroes, nothing else");
    assert!(right > 1024 && zeroes > 512, "{right} blocks saved, {zeroes} not");
}
