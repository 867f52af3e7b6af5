//! Images with random bytes changed: whatever they say, a survey ends, and stays inside its volume.

use crate::ranges::Ranges;
use crate::tools::{are_here, folder, sh};
use crate::tree;
use std::path::Path;
use thermocline_fs::{Catalog, Image, Limits, Survey};
use thermocline_units::{Bytes, Rng};

/// Changes about `count` bytes where there is something: in known ranges, mostly metadata.
fn flip(image: &mut [u8], places: &Ranges, random: &mut Rng, count: u64) -> Vec<(usize, u8)> {
    let mut undo = Vec::new();
    for _ in 0..count {
        let range = &places.0[random.below(places.0.len() as u64) as usize];
        // Superblocks and headers are at the beginning of what they stand in.
        let reach = if random.below(2) == 0 {
            4096.min(range.end - range.start)
        } else {
            range.end - range.start
        };
        let at = (range.start + random.below(reach)) as usize;
        undo.push((at, image[at]));
        image[at] = match random.below(3) {
            0 => 0xff,
            1 => 0,
            _ => random.next_u64() as u8,
        };
    }
    undo
}

/// Surveys `image` twice with many sets of changes: checksums do not save the reader, because
/// structures without one are among them, and `has_sums` is a bit that is flipped as well.
fn survive(make: &str, image: Vec<u8>) {
    let mut image = Image(image);
    let size = image.0.len() as u64;
    let mut catalog = Catalog::default();
    let mut take = |found: thermocline_fs::Found<'_>| catalog.apply(&found);
    Survey::new(Bytes(0), Limits::default()).run(&mut image, &mut take).unwrap();
    let metadata = catalog.metadata().map(|(stretch, _)| stretch.offset.0..stretch.end().0);
    let places = Ranges::new(metadata);
    let mut random = Rng::seeded(6);
    let (mut read, mut refused) = (0, 0);
    for round in 0..300 {
        let mut survey = Survey::new(Bytes(0), Limits::default());
        let mut undo = Vec::new();
        for _ in 0..2 {
            let count = 1 + random.below(20);
            undo.extend(flip(&mut image.0, &places, &mut random, count));
            let mut last = Catalog::default();
            match survey.run(&mut image, &mut |found| last.apply(&found)) {
                Ok(summary) => {
                    read += 1;
                    assert!(summary.read.0 <= 2 * size + (16 << 20), "{make}, round {round}");
                }
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().is_empty());
                }
            }
            let end = Ranges::of(&last).0.last().map_or(0, |range| range.end);
            assert!(end <= size, "{make}, round {round}: byte {end} of {size}");
        }
        for (at, byte) in undo.into_iter().rev() {
            image.0[at] = byte;
        }
    }
    assert!(read > 150, "{make}: {read} read, {refused} refused");
}

fn with_image(programs: &[&str], makes: &[&str]) {
    if !are_here(programs) {
        return;
    }
    for make in makes {
        let folder = folder();
        tree::grow(&folder.path().join("tree"), 5, 60);
        let _turn = crate::mount::turn();
        sh(folder.path(), make);
        survive(make, std::fs::read(Path::new(folder.path()).join("image")).unwrap());
    }
}

#[test]
fn changed_bytes_of_ext_end_no_survey_in_a_panic() {
    with_image(
        &["mke2fs"],
        &[
            "mke2fs -q -F -t ext2 -b 1024 -d tree image 24M",
            "mke2fs -q -F -t ext4 -b 1024 -O ^metadata_csum -d tree image 24M",
            "mke2fs -q -F -t ext4 -b 4096 -O inline_data -d tree image 24M",
        ],
    );
}

#[test]
fn changed_bytes_of_btrfs_end_no_survey_in_a_panic() {
    let make = "mkfs.btrfs -q --mixed -n 4096";
    with_image(
        &["mkfs.btrfs"],
        &[
            &format!("truncate -s 32M image; {make} --csum sha256 --rootdir tree image 2>&1"),
            &format!("truncate -s 32M image; {make} --rootdir tree image 2>&1"),
        ],
    );
}

#[test]
fn changed_bytes_of_xfs_end_no_survey_in_a_panic() {
    if !are_here(&["mkfs.xfs"]) {
        return;
    }
    let folder = folder();
    let wide = folder.path().join("tree/wide");
    tree::grow(&folder.path().join("tree"), 5, 60);
    std::fs::create_dir(&wide).unwrap();
    for number in 0..900 {
        std::fs::write(wide.join(format!("a-name-with-some-length-{number}")), b"").unwrap();
    }
    // Version 4 has no checksums, so that everything behind them is reached.
    for options in ["-m crc=0 -d agcount=4", "-b size=1024"] {
        tree::make_xfs(folder.path(), &format!("{options} -f"), "64M");
        survive(options, std::fs::read(folder.path().join("image")).unwrap());
    }
}
