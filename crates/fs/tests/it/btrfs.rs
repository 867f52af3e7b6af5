//! btrfs against `btrfs inspect-internal` and the kernel.

use crate::mount::{self, Mount};
use crate::ranges::{Ranges, assert_same};
use crate::tools::{again, are_here, folder, sh, survey};
use crate::tree;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use thermocline_fs::{Catalog, FileKind, Kind, Limits, Survey, What};
use thermocline_units::Bytes;

const PROGRAMS: [&str; 2] = ["mkfs.btrfs", "btrfs"];

/// Options of mkfs.btrfs.
const MAKES: [&str; 5] = [
    "",
    "-m single -n 4096",
    "-d dup -n 65536",
    "--mixed -n 4096",
    "--csum sha256 -O ^no-holes -R ^free-space-tree",
];

/// Chunks by logical address: their length, and the places of their copies.
type Chunks = BTreeMap<u64, (u64, Vec<u64>)>;

fn number(text: &str, head: &str) -> Option<u64> {
    let after = text.split_once(head)?.1;
    after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn chunks(folder: &Path) -> Chunks {
    let said = sh(folder, "btrfs inspect-internal dump-tree -t chunk image");
    let (mut chunks, mut at) = (Chunks::new(), 0);
    for line in said.lines() {
        if let Some(logical) = number(line, "FIRST_CHUNK_TREE CHUNK_ITEM ") {
            at = logical;
        } else if let Some(length) = number(line, "\t\tlength ") {
            chunks.insert(at, (length, Vec::new()));
        } else if let Some(place) = number(line, " offset ").filter(|_| line.contains("stripe ")) {
            chunks.get_mut(&at).unwrap().1.push(place);
        }
    }
    chunks
}

fn places(chunks: &Chunks, range: Range<u64>) -> Vec<Range<u64>> {
    let (start, (_, places)) = chunks.range(..=range.start).next_back().unwrap();
    places.iter().map(|place| place + range.start - start..place + range.end - start).collect()
}

/// Everything that the extent tree calls allocated, and the superblocks, in places of the device.
fn in_use(folder: &Path, end: u64) -> Ranges {
    let chunks = chunks(folder);
    let head = sh(folder, "btrfs inspect-internal dump-super image");
    let line = head.lines().find(|line| line.starts_with("nodesize")).unwrap();
    let node: u64 = line["nodesize".len()..].trim().parse().unwrap();
    let said = sh(folder, "btrfs inspect-internal dump-tree -t extent image");
    let mut ranges = Vec::new();
    for line in said.lines() {
        let Some(start) = number(line, "key (") else { continue };
        if let Some(length) = number(line, " EXTENT_ITEM ") {
            ranges.extend(places(&chunks, start..start + length));
        } else if line.contains(" METADATA_ITEM ") {
            ranges.extend(places(&chunks, start..start + node));
        }
    }
    let copies = [64 << 10, 64 << 20].into_iter().filter(|at| *at < end);
    Ranges::new(ranges.into_iter().chain(copies.map(|at| at..at + 4096)))
}

fn is_own(_: &Path) -> bool {
    false
}

#[test]
fn every_extent_of_the_extent_tree_is_named_and_no_other() {
    if !are_here(&PROGRAMS) {
        return;
    }
    for (seed, options) in MAKES.into_iter().enumerate() {
        let folder = folder();
        let folder = folder.path();
        tree::grow(&folder.join("tree"), seed as u64, 150);
        let _turn = mount::turn();
        sh(folder, "truncate -s 256M image");
        sh(folder, &format!("mkfs.btrfs -q {options} --rootdir tree image 2>&1"));
        let (catalog, summary) = survey(&folder.join("image"));
        assert_eq!((summary.kind, summary.torn, summary.cut), (Kind::Btrfs, 0, 0), "{options}");
        tree::assert_holds(options, &catalog, &folder.join("tree"), is_own);
        assert_same(options, &Ranges::of(&catalog), &in_use(folder, summary.size.0));
    }
}

/// Writes, compresses, shares, and makes snapshots; each is committed.
fn use_it(mounted: &Mount) {
    tree::grow(&mounted.tree.join("first"), 33, 250);
    mounted.sh("btrfs subvolume create inner; cp -r first/deep inner; sync -f .");
    mounted.sh("mkdir packed; btrfs property set packed compression zstd");
    mounted.sh("yes thermocline | head -c 3000000 > packed/yes; fallocate -l 2M packed/empty");
    mounted.sh("head -c 900000 /dev/urandom > written; sync -f .");
    mounted.sh("dd if=/dev/zero of=written bs=4096 seek=20 count=5 conv=notrunc status=none");
    mounted.sh("cp --reflink=always written again; sync -f .");
}

/// Files by their paths, of which snapshots have none of their own.
fn assert_maps(mounted: &Mount, catalog: &Catalog, ids_of_root: u64) {
    let chunk_end = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let by_path: BTreeMap<_, _> = catalog
        .files()
        .filter(|entry| entry.file.id.tree == ids_of_root)
        .map(|entry| (chunk_end(&catalog.path(entry.file.id)), entry))
        .collect();
    let mut compared = 0;
    for (path, theirs) in mounted.fiemap() {
        let Some(entry) = by_path.get(&path.to_string_lossy().into_owned()) else { continue };
        if entry.file.size.0 == 0 {
            continue;
        }
        assert_eq!(entry.file.kind, FileKind::Regular);
        let lengths: u64 = entry.extents.iter().map(|extent| extent.stretch.length.0).sum();
        let theirs: u64 = theirs.iter().map(|range| range.end - range.start).sum();
        assert!(lengths <= theirs || theirs == 0, "{path:?}: {lengths} B, FIEMAP {theirs} B");
        compared += 1;
    }
    assert!(compared > 100, "{compared} files were compared");
}

#[test]
fn a_second_survey_reads_changed_nodes_only_and_says_what_changed() {
    if !are_here(&PROGRAMS) || !mount::works("btrfs") {
        return;
    }
    let folder = folder();
    let (folder, image) = (folder.path(), folder.path().join("image"));
    sh(folder, "truncate -s 300M image");
    {
        let _turn = mount::turn();
        sh(folder, "mkfs.btrfs -q -n 4096 image");
    }
    let (mut survey_of, mut catalog) =
        (Survey::new(Bytes(0), Limits::default()), Catalog::default());
    let mounted = Mount::new(&image, ",noatime");
    use_it(&mounted);
    let first = again(&mut survey_of, &image, &mut catalog);
    assert_eq!(first.torn, 0, "mounted, and committed");
    tree::assert_holds("mounted", &catalog, &mounted.tree, is_own);
    assert_maps(&mounted, &catalog, 5);

    let nothing = again(&mut survey_of, &image, &mut catalog);
    assert_eq!((nothing.files, nothing.gone), (0, 0));
    assert!(nothing.read.0 <= 8192, "{:?}", nothing.read);

    mounted.sh("echo more >> written; sync -f .");
    let one = again(&mut survey_of, &image, &mut catalog);
    assert_eq!(one.torn, 0);
    assert!(one.read.0 * 2 < first.read.0, "{} then {}", first.read, one.read);
    assert_steps_agree(&image, &catalog);

    let steps = [
        "rm -r first/deep; mv again once; truncate -s 5000 packed/yes; sync -f .",
        "btrfs subvolume snapshot . copy; sync -f .",
        "echo apart >> copy/written; rm written; rm -r copy/packed; sync -f .",
        "for i in $(seq 400); do echo $i > packed/$i; done; rm once; sync -f .",
        "btrfs subvolume snapshot copy third; echo x > copy/new; sync -f .",
        "btrfs subvolume delete -c copy; sync -f .",
    ];
    for step in steps {
        mounted.sh(step);
        let summary = again(&mut survey_of, &image, &mut catalog);
        assert_eq!(summary.torn, 0, "{step}");
        assert_steps_agree(&image, &catalog);
    }
    mounted.end();
    again(&mut survey_of, &image, &mut catalog);
    assert_steps_agree(&image, &catalog);
    let rest = in_use(folder, 300 << 20);
    let ours = Ranges::of(&catalog);
    assert!(ours.minus(&rest).0.is_empty(), "only what is allocated is named");
    // What was overwritten of an extent stays allocated as long as the rest of it is in use.
    let overwritten = rest.minus(&ours);
    assert_eq!((overwritten.0.len(), overwritten.bytes()), (1, 5 * 4096));
}

/// Checks that what was told step by step names the same bytes as what is told at once; which of
/// several owners is named may differ.
fn assert_steps_agree(image: &Path, catalog: &Catalog) {
    let (fresh, _) = survey(image);
    assert_same("step by step and at once", &Ranges::of(catalog), &Ranges::of(&fresh));
    for entry in fresh.files() {
        let known = catalog
            .file(entry.file.id)
            .or_else(|| catalog.files().find(|other| other.file.id.inode == entry.file.id.inode));
        assert_eq!(known.map(|known| known.file.size), Some(entry.file.size), "{:?}", entry.file);
    }
    let trees: BTreeSet<u64> = catalog.files().map(|entry| entry.file.id.tree).collect();
    for tree in trees {
        let folder = image.parent().unwrap();
        let said = sh(folder, &format!("btrfs inspect-internal dump-tree -t {tree} image"));
        let inodes = said.lines().filter(|line| line.contains(" INODE_ITEM "));
        let inodes: BTreeSet<u64> = inodes.filter_map(|line| number(line, "key (")).collect();
        let ours = catalog.files().map(|entry| entry.file.id).filter(|id| id.tree == tree);
        for id in ours {
            assert!(inodes.contains(&id.inode), "{id:?} is gone, and is left");
        }
    }
}

#[test]
fn the_log_tree_and_the_old_cache_of_free_space_are_named() {
    if !are_here(&PROGRAMS) || !mount::works("btrfs") {
        return;
    }
    let folder = folder();
    let (folder, live) = (folder.path(), folder.path().join("live"));
    {
        let _turn = mount::turn();
        sh(folder, "truncate -s 3G live; mkfs.btrfs -q -R ^free-space-tree live 2>&1");
    }
    let mounted = Mount::new(&live, ",space_cache=v1,commit=300");
    tree::grow(&mounted.tree.join("first"), 3, 60);
    mounted.sh("head -c 20000000 /dev/zero > zeroes; sync -f .; echo 1 > one; sync -f .");
    mounted.sh("echo synced > log; sync log");
    sh(folder, "cp --sparse=always live image");
    drop(mounted);
    let (catalog, summary) = survey(&folder.join("image"));
    assert_eq!(summary.torn, 0);
    let of = |kind: What| {
        let metadata = catalog.metadata().filter(|(_, what)| *what == kind);
        Ranges::new(metadata.map(|(stretch, _)| stretch.offset.0..stretch.end().0))
    };
    assert!(of(What::SpaceCache).bytes() > 0 && of(What::LogTree).bytes() > 0);
    // Caches are kept of block groups of 100 MiB and more. The log's nodes are not in the extent
    // tree: after a crash they are free again.
    let ours = Ranges::of(&catalog).minus(&of(What::LogTree));
    assert_same("old cache", &ours, &in_use(folder, summary.size.0));
}

#[test]
fn several_devices_are_refused_with_their_number() {
    if !are_here(&PROGRAMS) {
        return;
    }
    let folder = folder();
    let _turn = mount::turn();
    sh(folder.path(), "truncate -s 200M image other; mkfs.btrfs -q -d raid1 -m raid1 image other");
    let mut blocks = crate::tools::ImageFile::open(folder.path().join("image"));
    let refused = thermocline_fs::survey(&mut blocks, Bytes(0), &mut |_| {}, Limits::default());
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("lies on 2 devices"), "{said}");
}
