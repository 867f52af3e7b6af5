//! ext2, ext3 and ext4 against dumpe2fs, debugfs and the kernel.

use crate::mount::{self, Mount};
use crate::ranges::{Ranges, assert_same};
use crate::tools::{again, are_here, folder, sh, survey};
use crate::tree;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use thermocline_fs::{Catalog, Entry, FileKind, Kind, Limits, Survey, What};
use thermocline_units::Bytes;

const PROGRAMS: [&str; 3] = ["mke2fs", "dumpe2fs", "debugfs"];

/// Options of mke2fs, and the file system that they make.
const MAKES: [(&str, Kind); 15] = [
    ("-t ext2 -b 1024", Kind::Ext2),
    ("-t ext2 -b 4096 -O ^resize_inode,^sparse_super,^dir_index", Kind::Ext2),
    ("-t ext3 -b 1024", Kind::Ext3),
    ("-t ext4 -b 1024", Kind::Ext4),
    ("-t ext4 -b 4096", Kind::Ext4),
    ("-t ext4 -b 1024 -O meta_bg,^resize_inode -g 1024", Kind::Ext4),
    ("-t ext4 -b 1024 -O bigalloc -C 8192", Kind::Ext4),
    ("-t ext4 -b 4096 -O bigalloc -C 16384", Kind::Ext4),
    ("-t ext4 -b 1024 -O sparse_super2,^64bit", Kind::Ext4),
    ("-t ext4 -b 2048 -O ^metadata_csum,uninit_bg,^flex_bg -I 128", Kind::Ext4),
    ("-t ext4 -b 1024 -O mmp,quota,ea_inode,large_dir,casefold -I 512", Kind::Ext4),
    ("-t ext4 -b 4096 -O inline_data", Kind::Ext4),
    ("-t ext4 -b 1024 -O metadata_csum_seed,orphan_file", Kind::Ext4),
    ("-t ext4 -b 65536 -N 2048", Kind::Ext4),
    ("-t ext4 -b 1024 -O bigalloc,meta_bg,^resize_inode -C 8192", Kind::Ext4),
];

fn is_own(path: &Path) -> bool {
    path == Path::new("/lost+found")
}

/// The bytes that dumpe2fs does not call free. Of a free range it names the last cluster's first
/// block.
fn in_use(folder: &Path) -> (Ranges, u64) {
    let said = sh(folder, "dumpe2fs image 2>/dev/null");
    let number = |head: &str| -> u64 {
        let line = said.lines().find(|line| line.starts_with(head)).unwrap();
        line[head.len()..].trim().parse().unwrap()
    };
    let size = number("Block size:");
    let end = number("Block count:") * size;
    let cluster = if said.contains("Cluster size:") { number("Cluster size:") } else { size };
    let lists = said.lines().filter_map(|line| line.strip_prefix("  Free blocks:"));
    let ranges = lists.flat_map(|list| list.split(',')).filter_map(|range| {
        let (first, last) = range.trim().split_once('-').unwrap_or((range.trim(), range.trim()));
        let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
        Some(first * size..last * size + cluster)
    });
    let free = Ranges::new(ranges);
    let boot = number("First block:") * size;
    (Ranges::new(free.complement(end).0.into_iter().map(|r| r.start.max(boot)..r.end)), size)
}

/// The blocks of each inode as debugfs lists them, the map's own included.
fn blocks_of(folder: &Path, catalog: &Catalog, size: u64) -> BTreeMap<u64, Vec<Range<u64>>> {
    let ids: Vec<u64> = catalog.files().map(|entry| entry.file.id.inode).collect();
    let lines: Vec<String> = ids.iter().map(|id| format!("blocks <{id}>")).collect();
    std::fs::write(folder.join("commands"), lines.join("\n")).unwrap();
    let said = sh(folder, "debugfs -f commands image 2>/dev/null");
    let mut blocks = BTreeMap::new();
    let mut at = 0;
    for line in said.lines() {
        if let Some(rest) = line.strip_prefix("debugfs: blocks <") {
            at = rest.trim_end_matches('>').parse().unwrap();
            continue;
        }
        let numbers = line.split_whitespace().map(|number| number.parse::<u64>().unwrap());
        let ranges = numbers.map(|block| block * size..(block + 1) * size);
        blocks.entry(at).or_insert_with(Vec::new).extend(ranges);
    }
    blocks
}

#[test]
fn every_block_in_use_is_named_and_no_other_and_belongs_to_its_file() {
    if !are_here(&PROGRAMS) {
        return;
    }
    for (seed, (options, kind)) in MAKES.into_iter().enumerate() {
        let folder = folder();
        let folder = folder.path();
        tree::grow(&folder.join("tree"), seed as u64, 90);
        sh(folder, &format!("mke2fs -q -F {options} -d tree image 96M"));
        let (catalog, summary) = survey(&folder.join("image"));
        assert_eq!((summary.kind, summary.torn, summary.cut), (kind, 0, 0), "{options}");
        tree::assert_holds(options, &catalog, &folder.join("tree"), is_own);

        let (theirs, size) = in_use(folder);
        let cluster = options.split_once("-C ").map_or(size, |(_, after)| after.parse().unwrap());
        let ours = Ranges::of(&catalog).rounded(cluster);
        assert_same(options, &ours, &theirs.rounded(cluster));

        let theirs = blocks_of(folder, &catalog, size);
        // Of a short symbolic link debugfs takes the text for blocks.
        let is_short =
            |entry: &&Entry| entry.file.kind == FileKind::Symlink && entry.extents.is_empty();
        for entry in catalog.files().filter(|entry| !is_short(entry)) {
            let contents = entry.extents.iter().map(|extent| extent.stretch);
            let own = entry.metadata.iter().filter(|(_, what)| *what != What::Attributes);
            let ours = contents.chain(own.map(|(stretch, _)| *stretch));
            let ours = Ranges::new(ours.map(|stretch| stretch.offset.0..stretch.end().0));
            let theirs = Ranges::new(theirs.get(&entry.file.id.inode).cloned().unwrap_or_default());
            assert_same(&format!("{options}: {:?}", entry.file), &ours, &theirs);
        }
    }
}

#[test]
fn a_second_survey_reads_less_and_says_what_changed() {
    if !are_here(&PROGRAMS) || !mount::works("ext4") {
        return;
    }
    let folder = folder();
    let (folder, image) = (folder.path(), folder.path().join("image"));
    tree::grow(&folder.join("seed"), 7, 400);
    sh(folder, "mke2fs -q -F -t ext4 -d seed image 128M");
    let (mut survey_of, mut catalog) =
        (Survey::new(Bytes(0), Limits::default()), Catalog::default());
    let first = again(&mut survey_of, &image, &mut catalog);
    let nothing = again(&mut survey_of, &image, &mut catalog);
    assert_eq!((nothing.files, nothing.gone, nothing.torn), (0, 0, 0));
    assert_eq!(nothing.unchanged, first.files + first.directories + first.symlinks);
    assert!(nothing.read < first.read, "{} then {}", first.read, nothing.read);

    let mounted = Mount::new(&image, "");
    mounted.sh("mkdir -p many; for i in $(seq 1500); do echo $i > many/file-with-a-name-$i; done");
    mounted
        .sh("rm -r deep; mv many/file-with-a-name-7 seven; truncate -s 3M many/file-with-a-name-8");
    mounted.end();
    let changed = again(&mut survey_of, &image, &mut catalog);
    assert!(changed.gone > 40 && changed.files >= 1500, "{changed:?}");
    assert_eq!(changed.torn, 0);
    let (fresh, _) = survey(&image);
    assert!(catalog == fresh, "told step by step and at once is the same");
    let (theirs, size) = in_use(folder);
    assert_same("hashed directories", &Ranges::of(&fresh).rounded(size), &theirs);

    let mounted = Mount::new(&image, ",noatime");
    mounted.sh("echo more >> seven");
    mounted.end();
    let one = again(&mut survey_of, &image, &mut catalog);
    assert_eq!((one.files, one.gone, one.torn), (1, 0, 0));
}

#[test]
fn a_mounted_file_system_is_read_through_its_journal() {
    if !are_here(&PROGRAMS) || !mount::works("ext4") {
        return;
    }
    let folder = folder();
    let (folder, image) = (folder.path(), folder.path().join("image"));
    for options in ["-O metadata_csum", "-O ^metadata_csum,^64bit", "-J size=4"] {
        sh(folder, &format!("rm -f image; mke2fs -q -F -t ext4 {options} image 96M"));
        let mounted = Mount::new(&image, ",commit=600");
        tree::grow(&mounted.tree.join("first"), 21, 200);
        mounted.sh("sync -f .; rm -r first/deep; mkdir second; echo y > second/why; sync -f .");
        let (live, summary) = survey(&image);
        assert_eq!(summary.torn, 0, "{options}");
        tree::assert_holds(options, &live, &mounted.tree, is_own);
        let by_path: BTreeMap<_, _> =
            live.files().map(|entry| (live.path(entry.file.id), entry)).collect();
        for (path, theirs) in mounted.fiemap() {
            let Some(entry) = by_path.get(path.as_os_str().as_encoded_bytes()) else {
                continue; // another name of the same file
            };
            let ours = entry.extents.iter().map(|extent| extent.stretch);
            let ours = Ranges::new(ours.map(|stretch| stretch.offset.0..stretch.end().0));
            assert_same(&format!("{options}: {path:?}"), &ours, &Ranges::new(theirs));
        }
        // What a crash would leave, and what recovery makes of it.
        sh(folder, "cp --sparse=always image crashed");
        drop(mounted);
        let (before, _) = survey(&folder.join("crashed"));
        sh(folder, "e2fsck -fy crashed > said || test $? -le 1");
        let (after, _) = survey(&folder.join("crashed"));
        assert!(before == after, "{options}: read through the journal, and recovered");
    }
}

#[test]
fn a_mounted_file_system_is_surveyed_again_by_what_its_journal_names() {
    if !are_here(&PROGRAMS) || !mount::works("ext4") {
        return;
    }
    let folder = folder();
    let (folder, image) = (folder.path(), folder.path().join("image"));
    tree::grow(&folder.join("seed"), 13, 300);
    sh(folder, "mke2fs -q -F -t ext4 -b 1024 -J size=1 -N 8192 -d seed image 96M");
    let mounted = Mount::new(&image, ",commit=600");
    mounted.sh("touch new; sync -f .");
    let (mut survey_of, mut catalog) =
        (Survey::new(Bytes(0), Limits::default()), Catalog::default());
    let mut step = |words: &str| {
        mounted.sh(words);
        let summary = again(&mut survey_of, &image, &mut catalog);
        assert_eq!(summary.torn, 0, "{words}");
        assert!(catalog == survey(&image).0, "{words}: step by step and at once is the same");
        summary
    };
    let first = step("true");
    let nothing = step("true");
    assert_eq!((nothing.files, nothing.unchanged), (0, 0), "no inode is looked at");
    assert!(nothing.read.0 * 8 < first.read.0, "{} then {}", first.read, nothing.read);
    let one = step("echo 1 >> new; sync -f .");
    assert_eq!((one.files, one.gone), (1, 0));
    assert!(one.read.0 * 4 < first.read.0, "{} then {}", first.read, one.read);
    step("rm -r deep; mkdir more; for i in $(seq 50); do echo $i > more/$i; done; sync -f .");
    for round in 0..4 {
        step(&format!("rm -f more/{round}*; head -c 90000 /dev/zero > more/x{round}; sync -f ."));
    }
    // The journal goes around, so that all is looked at again.
    let words = "mkdir d1; touch $(seq -f d1/%g 150); sync -f .; rm -r d1; sync -f .";
    let around = step(&format!("for i in $(seq 25); do {words}; done; mkdir d2; sync -f ."));
    assert!(around.directories > 0 && around.unchanged > 200, "{around:?}");
    step("rm -r d2; touch last; sync -f .");
    mounted.end();
    let left = again(&mut survey_of, &image, &mut catalog);
    assert!(left.unchanged > 200 && catalog == survey(&image).0, "{left:?}");
}
