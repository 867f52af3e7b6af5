//! `thermocline fs` on images: a whole one, partitions, and what holds no file system.

use crate::mounted::shell;
use crate::program::{folder, run};
use serde_json::Value;
use std::path::Path;

/// A folder with `image`, an ext4 that holds three files; `None` without the programs.
#[allow(clippy::print_stderr)] // The gate repeats such lines at its end.
fn image(test: &str) -> Option<std::path::PathBuf> {
    let folder = folder(test);
    let make = "export PATH=$PATH:/sbin:/usr/sbin; mkdir -p tree/inner; \
                head -c 3000000 /dev/zero | tr '\\0' x > tree/large; \
                echo small > tree/inner/small.txt; printf 'x' > \"$(printf 'tree/e\\033[2J')\"; \
                mke2fs -q -F -t ext4 -d tree image 32M";
    if shell(&folder, "PATH=$PATH:/sbin:/usr/sbin command -v mke2fs").is_err() {
        eprintln!("SKIPPED: needs mke2fs");
        return None;
    }
    shell(&folder, make).unwrap();
    Some(folder)
}

fn as_json(folder: &Path, name: &str) -> Value {
    let ran = run(folder, &format!("fs {name} --json")).succeeded();
    serde_json::from_str(&ran.stdout()).unwrap()
}

#[test]
fn an_image_is_told_by_kinds_of_metadata_size_classes_and_largest_files() {
    let Some(folder) = image("fs-whole") else { return };
    let told = as_json(&folder, "image");
    let system = &told["systems"][0];
    assert_eq!(system["kind"], "ext4");
    assert_eq!((&system["files"], &system["directories"]), (&3.into(), &3.into()));
    assert_eq!((&system["at_bytes"], &system["torn"]), (&0.into(), &0.into()));
    assert_eq!(system["size_bytes"], 32 << 20);
    assert_eq!(system["largest"][0]["path"], "/large");
    assert_eq!(system["largest"][0]["size_bytes"], 3_000_000);
    assert_eq!(system["largest"][1]["path"], "/inner/small.txt");
    let counts: Vec<_> =
        system["classes"].as_array().unwrap().iter().map(|c| &c["files"]).collect();
    assert_eq!(counts, [2, 0, 1, 0, 0, 0]);
    let kinds: Vec<_> =
        system["metadata"].as_array().unwrap().iter().map(|kind| &kind["what"]).collect();
    assert!(kinds.iter().any(|kind| *kind == "inode-table"), "{kinds:?}");

    let table = run(&folder, "fs image --top 3").succeeded().stdout();
    assert!(table.contains("ext4 of 32 MiB") && table.contains("1 MiB to 10 MiB"), "{table}");
    assert!(!table.contains('\u{1b}'), "a name cannot speak to the terminal");
}

#[test]
fn file_systems_in_partitions_are_found_where_they_are() {
    let Some(folder) = image("fs-parts") else { return };
    // One primary partition of type Linux at 1 MiB.
    let mut disk = vec![0_u8; (33 << 20) + 512];
    disk[446 + 4] = 0x83;
    disk[446 + 8..446 + 12].copy_from_slice(&2048_u32.to_le_bytes());
    disk[446 + 12..446 + 16].copy_from_slice(&65536_u32.to_le_bytes());
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    disk[1 << 20..33 << 20].copy_from_slice(&std::fs::read(folder.join("image")).unwrap());
    std::fs::write(folder.join("disk"), disk).unwrap();
    let told = as_json(&folder, "disk");
    assert_eq!(told["systems"][0]["at_bytes"], 1 << 20);
    let whole = as_json(&folder, "image");
    assert_eq!(told["systems"][0]["metadata"], whole["systems"][0]["metadata"]);
}

#[test]
fn what_holds_no_file_system_is_refused_and_what_cannot_be_read_is_said() {
    let folder = folder("fs-none");
    std::fs::write(folder.join("empty"), vec![0; 1 << 20]).unwrap();
    run(&folder, "fs empty").ended_with(2).says("holds no ext2, ext3, ext4, XFS or btrfs");
    run(&folder, "fs missing").ended_with(2).says("missing");
    let mut odd = vec![0; 1 << 20];
    odd[1024 + 0x38..1024 + 0x3a].copy_from_slice(&[0x53, 0xef]);
    odd[1024 + 0x60] = 0x8;
    std::fs::write(folder.join("odd"), odd).unwrap();
    run(&folder, "fs odd").ended_with(1).says("is the journal of another file system");
}
