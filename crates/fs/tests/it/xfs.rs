//! XFS against xfs_db and the kernel.

use crate::mount::{self, Mount};
use crate::ranges::{Ranges, assert_same};
use crate::tools::{again, are_here, folder, sh, survey};
use crate::tree;
use std::collections::BTreeMap;
use std::path::Path;
use thermocline_fs::{Catalog, Kind, Limits, Summary, Survey, What};
use thermocline_units::Bytes;

const PROGRAMS: [&str; 2] = ["mkfs.xfs", "xfs_db"];

/// Options of mkfs.xfs. Kernels may mount only version 5 with blocks of at most a page, so trees
/// come into others with mkfs. The last two have blocks with 128 inodes, which is two clusters.
const MAKES: [&str; 7] = [
    "",
    "-b size=1024 -n size=8192 -m rmapbt=1,reflink=1 -i sparse=1,size=512",
    "-m crc=0 -n ftype=0 -b size=1024 -i size=256",
    "-m crc=0 -n size=16384",
    "-m bigtime=0,finobt=0,reflink=0 -b size=2048 -i nrext64=0,sparse=0",
    "-b size=65536 -i size=512",
    "-m crc=0 -b size=32768 -i size=256",
];

fn is_own(_: &Path) -> bool {
    false
}

/// The bytes that xfs_db calls free; it counts a group's free list among them.
fn free(folder: &Path) -> Ranges {
    let head = sh(folder, "xfs_db -r -c 'sb 0' -c 'p blocksize agblocks' image");
    let number = |name: &str| -> u64 {
        let line = head.lines().find(|line| line.starts_with(name)).unwrap();
        line.split(" = ").nth(1).unwrap().parse().unwrap()
    };
    let (size, group) = (number("blocksize"), number("agblocks"));
    let said = sh(folder, "xfs_db -r -c 'freesp -d' image");
    let lines = said.lines().skip(1).take_while(|line| !line.contains("from"));
    let ranges = lines.map(|line| {
        let numbers: Vec<u64> = line.split_whitespace().map(|n| n.parse().unwrap()).collect();
        let start = (numbers[0] * group + numbers[1]) * size;
        start..start + numbers[2] * size
    });
    Ranges::new(ranges)
}

/// Every byte that is not free is named, and no free one but the free lists.
fn assert_accounts(case: &str, folder: &Path, (catalog, summary): &(Catalog, Summary)) {
    let lists = catalog.metadata().filter(|(_, what)| *what == What::FreeList);
    let lists = Ranges::new(lists.map(|(stretch, _)| stretch.offset.0..stretch.end().0));
    let ours = Ranges::of(catalog).minus(&lists);
    assert_same(case, &ours, &free(folder).complement(summary.size.0));
    assert!(lists.minus(&free(folder)).0.is_empty(), "{case}: free lists are free");
}

fn assert_maps(case: &str, catalog: &Catalog, mounted: &Mount) {
    let by_path: BTreeMap<_, _> =
        catalog.files().map(|entry| (catalog.path(entry.file.id), entry)).collect();
    let mut compared = 0;
    for (path, theirs) in mounted.fiemap() {
        let Some(entry) = by_path.get(path.as_os_str().as_encoded_bytes()) else { continue };
        let ours = entry.extents.iter().map(|extent| extent.stretch);
        let ours = Ranges::new(ours.map(|stretch| stretch.offset.0..stretch.end().0));
        assert_same(&format!("{case}: {path:?}"), &ours, &Ranges::new(theirs));
        compared += 1;
    }
    assert!(compared > 50, "{case}: {compared} files were compared");
}

#[test]
fn every_block_that_is_not_free_is_named_and_belongs_to_its_file() {
    if !are_here(&PROGRAMS) || !mount::works("xfs") {
        return;
    }
    for (seed, options) in MAKES.into_iter().enumerate() {
        let folder = folder();
        let (folder, image) = (folder.path(), folder.path().join("image"));
        if options.contains("crc=0") || options.contains("65536") {
            tree::grow(&folder.join("tree"), seed as u64, 120);
            tree::make_xfs(folder, &format!("{options} -f"), "300M");
            let found = survey(&image);
            assert_eq!((found.1.kind, found.1.torn, found.1.cut), (Kind::Xfs, 0, 0), "{options}");
            tree::assert_holds(options, &found.0, &folder.join("tree"), is_own);
            assert_accounts(options, folder, &found);
            continue;
        }
        sh(folder, &format!("truncate -s 300M image; mkfs.xfs -q {options} image 2>&1"));
        let mounted = Mount::new(&image, "");
        tree::grow(&mounted.tree, seed as u64, 120);
        mounted.sh("mkdir wide; cd wide; touch $(seq -f 'a-name-with-some-length-%g' 900)");
        mounted.end();
        let found = survey(&image);
        // Read-only, so that nothing is written behind the survey's back.
        let mounted = Mount::new(&image, ",ro,norecovery");
        assert_eq!((found.1.kind, found.1.torn, found.1.cut), (Kind::Xfs, 0, 0), "{options}");
        tree::assert_holds(options, &found.0, &mounted.tree, is_own);
        assert_maps(options, &found.0, &mounted);
        drop(mounted);
        assert_accounts(options, folder, &found);
    }
}

#[test]
fn a_second_survey_says_what_changed() {
    if !are_here(&PROGRAMS) || !mount::works("xfs") {
        return;
    }
    let folder = folder();
    let (folder, image) = (folder.path(), folder.path().join("image"));
    sh(folder, "truncate -s 300M image; mkfs.xfs -q image");
    let step = |words: &str| {
        let mounted = Mount::new(&image, ",noatime");
        mounted.sh(words);
        mounted.end();
    };
    let (mut survey_of, mut catalog) =
        (Survey::new(Bytes(0), Limits::default()), Catalog::default());
    let mounted = Mount::new(&image, "");
    tree::grow(&mounted.tree, 99, 400);
    mounted.end();
    let first = again(&mut survey_of, &image, &mut catalog);
    let nothing = again(&mut survey_of, &image, &mut catalog);
    assert_eq!((nothing.files, nothing.gone, nothing.torn), (0, 0, 0));
    assert_eq!(nothing.unchanged, first.files + first.directories + first.symlinks);
    assert!(nothing.read < first.read, "{} then {}", first.read, nothing.read);

    step("echo one > one");
    again(&mut survey_of, &image, &mut catalog);
    step("echo more >> one");
    let one = again(&mut survey_of, &image, &mut catalog);
    assert_eq!((one.files, one.gone, one.torn), (1, 0, 0));
    let steps = [
        "mkdir many; cd many; for i in $(seq 1500); do echo $i > file-$i; done",
        "rm -r deep; mv many/file-7 seven; truncate -s 3M many/file-8; cp --reflink=always one two",
        "rm many/file-*",
    ];
    for words in steps {
        step(words);
        let summary = again(&mut survey_of, &image, &mut catalog);
        assert_eq!(summary.torn, 0, "{words}");
        let fresh = survey(&image);
        assert!(catalog == fresh.0, "{words}: step by step and at once is the same");
        assert_accounts(words, folder, &fresh);
    }
}

#[test]
fn a_realtime_volume_is_refused_with_the_reason() {
    if !are_here(&PROGRAMS) {
        return;
    }
    let folder = folder();
    let words = "truncate -s 300M image other; mkfs.xfs -q -r rtdev=other image 2>&1";
    sh(folder.path(), words);
    let mut blocks = crate::tools::ImageFile::open(folder.path().join("image"));
    let refused = thermocline_fs::survey(&mut blocks, Bytes(0), &mut |_| {}, Limits::default());
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("realtime"), "{said}");
}
