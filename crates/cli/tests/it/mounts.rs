//! File systems on a volume: made, mounted, filled with a source tree while its chunks are moved
//! from pool to pool, checked by their own tools, and found again by another engine on the same
//! pools.

use crate::mounted::{Mounted, mounting_works};
use crate::program;
use crate::up::{Up, clients_are_here};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A kind of file system.
struct Kind {
    /// For the folder.
    name: &'static str,
    /// Programs that it needs.
    programs: &'static str,
    make: &'static str,
    /// Looks for damage without mending it.
    check: &'static str,
}

/// Moves all of the volume to a pool while other things go on.
fn migration(folder: &Path, pool: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_thermocline"))
        .args(["migrate", "v0", "--wait", "--data", "pools", "--to", pool])
        .current_dir(folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Pools by number that hold anything of the volume.
fn pools_in_use(up: &Up) -> Vec<u32> {
    let map = up.run("nbdinfo", &["--map=thermocline:pool", crate::up::URI]).unwrap();
    let number = |line: &str| line.split_whitespace().nth(2).unwrap().parse().unwrap();
    let mut pools: Vec<u32> = map.lines().map(number).filter(|&pool| pool != 0).collect();
    pools.sort_unstable();
    pools.dedup();
    pools
}

fn a_file_system_keeps_its_files(kind: &Kind) {
    let Kind { name, programs, make, check } = kind;
    let folder = program::folder(&format!("mounts-{name}"));
    if !clients_are_here() || !mounting_works(&folder, programs) {
        return;
    }
    let source = format!("{}/..", env!("CARGO_MANIFEST_DIR"));
    let sums = "find . -type f -print0 | sort -z | xargs -0 sha256sum";
    let engine = "--size 512MiB --no-emulation";
    let up = Up::start_with(&folder, engine);
    let mounted = Mounted::new(&folder).unwrap();
    mounted.shell(&format!("{make} DEVICE && mount DEVICE tree"));
    mounted.shell(&format!("(cd '{source}' && {sums}) > sums && test -s sums"));

    let mut away = migration(&folder, "hdd");
    mounted.shell(&format!("cp -r '{source}' tree/one && sync -f tree"));
    assert!(away.wait().unwrap().success());
    let mut back = migration(&folder, "ssd");
    mounted.shell("cp -r tree/one tree/two && rm -r tree/one && sync -f tree");
    assert!(back.wait().unwrap().success());
    assert!(migration(&folder, "hdd").wait().unwrap().success());
    assert_eq!(pools_in_use(&up), [3], "all of it was moved to the slowest pool");
    let verify = "cd tree/two && sha256sum --check --quiet ../../sums";
    mounted.shell(&format!("umount tree && mount DEVICE tree && {verify}"));
    mounted.shell(&format!("umount tree && {check} DEVICE"));
    drop(mounted);
    assert_eq!(up.stop("-TERM"), Some(0));

    let up = Up::start_with(&folder, engine);
    let mounted = Mounted::new(&folder).unwrap();
    mounted.shell(&format!("{check} DEVICE && mount DEVICE tree && {verify}"));
    drop(mounted);
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn ext4_keeps_its_files_while_they_are_moved() {
    a_file_system_keeps_its_files(&Kind {
        name: "ext4",
        programs: "mkfs.ext4 e2fsck",
        make: "mkfs.ext4 -q",
        check: "e2fsck -fn",
    });
}

#[test]
fn xfs_keeps_its_files_while_they_are_moved() {
    a_file_system_keeps_its_files(&Kind {
        name: "xfs",
        programs: "mkfs.xfs xfs_repair",
        make: "mkfs.xfs -q",
        check: "xfs_repair -n",
    });
}

#[test]
fn btrfs_keeps_its_files_while_they_are_moved() {
    a_file_system_keeps_its_files(&Kind {
        name: "btrfs",
        programs: "mkfs.btrfs btrfs",
        make: "mkfs.btrfs -q",
        check: "btrfs check",
    });
}
