//! Places belong to one file at most, and requests go where the files are.

use super::set::{Batch, make};
use super::{FileId, Format, Telling, Tree};
use crate::machine::Step;
use std::ops::Range;
use thermocline_policy::hints::Usage;
use thermocline_units::{Bytes, Rng};

const MIB: u64 = 1 << 20;
const FORMATS: [Format; 2] = [Format::Ext4, Format::Btrfs];

fn tree(format: Format) -> Tree {
    Tree::new(format, Bytes::from_gib(8), 4, Telling { metadata: true, sizes: true, streams: true })
}

/// Everything that belongs to somebody, by address.
fn owned(tree: &Tree, files: &[FileId]) -> Vec<Range<u64>> {
    let of_files = files.iter().flat_map(|&file| tree.places(file));
    let mut all: Vec<Range<u64>> = tree.metadata().into_iter().chain(of_files).collect();
    all.sort_unstable_by_key(|range| range.start);
    all
}

fn check(tree: &Tree, files: &[FileId]) {
    let all = owned(tree, files);
    for pair in all.windows(2) {
        assert!(pair[0].end <= pair[1].start, "{pair:?} overlap");
    }
    assert!(all.last().is_none_or(|last| last.end <= Bytes::from_gib(8).0));
}

#[test]
fn no_byte_belongs_to_two_whatever_is_created_grown_rewritten_and_deleted() {
    for format in FORMATS {
        let (mut tree, mut rng, mut out) = (tree(format), Rng::seeded(7), Vec::new());
        let sizes = [4096, 64 << 10, 3 * MIB, 200 * MIB].map(Bytes).to_vec();
        let batch = Batch { count: 60, sizes, usage: Usage::Mixed };
        let mut files = make(&mut tree, &[batch], 4, &mut rng, &mut out).expect("room").remove(0);
        for _ in 0..2000 {
            let at = rng.below(files.len() as u64) as usize;
            let size = tree.size(files[at]);
            match rng.below(4) {
                0 => {
                    tree.delete(files[at], &mut out);
                    let new = tree.create(rng.below(4) as u32, size, Usage::Mixed, &mut out);
                    match new {
                        Some(file) => files[at] = file,
                        None => drop(files.swap_remove(at)),
                    }
                }
                1 => drop(tree.grow(files[at], 16 << 10, &mut out)),
                2 => {
                    let start = rng.below(size / 4096) * 4096;
                    let end = size.min(start + 8192);
                    tree.write(files[at], start..end, true, 4096, &mut out);
                }
                _ => tree.commit(&mut out),
            }
            out.clear();
        }
        check(&tree, &files);
    }
}

#[test]
fn requests_cover_the_part_of_the_file_that_was_asked_for_and_nothing_else() {
    for format in FORMATS {
        let (mut tree, mut out) = (tree(format), Vec::new());
        let file = tree.create(1, 300 * MIB, Usage::Mixed, &mut out).expect("room");
        tree.write(file, 8192..24576, true, 4096, &mut out);
        out.clear();
        tree.read(file, 4096..200 * MIB, 512 << 10, &mut out);
        let places: Vec<_> = tree.places(file).collect();
        let mut bytes = 0;
        for step in &out {
            let Step::Read(at, length) = step else { panic!("{step:?} is no read") };
            let end = at + u64::from(*length);
            assert!(places.iter().any(|place| place.start <= *at && end <= place.end));
            bytes += u64::from(*length);
        }
        assert_eq!(bytes, 200 * MIB - 4096);
    }
}

#[test]
fn a_commit_writes_metadata_only_and_nothing_when_nothing_changed() {
    for format in FORMATS {
        let (mut tree, mut out) = (tree(format), Vec::new());
        let commit = |tree: &mut Tree| {
            let mut out = Vec::new();
            (0..6).for_each(|_| tree.commit(&mut out));
            out
        };
        commit(&mut tree);
        assert!(commit(&mut tree).is_empty());
        tree.create(0, MIB, Usage::Mixed, &mut out).expect("room");
        let written = commit(&mut tree);
        let metadata = tree.metadata();
        let inside = |at: u64| metadata.iter().any(|range| range.contains(&at));
        assert!(written.iter().any(|step| matches!(step, Step::Flush)));
        for step in &written {
            if let Step::Write(at, length) = step {
                assert!(inside(*at) && inside(at + u64::from(*length) - 1), "{step:?}");
            }
        }
    }
}

#[test]
fn what_is_said_of_a_file_is_its_size_and_use_and_is_taken_back_with_it() {
    let (mut tree, mut out) = (tree(Format::Ext4), Vec::new());
    let file = tree.create(0, MIB, Usage::RandomWrite, &mut out).expect("room");
    let place = tree.places(file).next().expect("one");
    match &out[..] {
        [Step::Say(range, facts)] => {
            assert_eq!(*range, (place.start, place.end));
            assert_eq!((facts.file_size, facts.usage), (Some(Bytes(MIB)), Usage::RandomWrite));
        }
        other => panic!("{other:?}"),
    }
    out.clear();
    tree.delete(file, &mut out);
    assert!(matches!(&out[..], [Step::Unsay(range)] if *range == (place.start, place.end)));
}

#[test]
fn what_was_said_of_a_place_is_taken_back_when_it_is_written_elsewhere() {
    let (mut tree, mut out) = (tree(Format::Btrfs), Vec::new());
    let file = tree.create(0, MIB, Usage::RandomWrite, &mut out).expect("room");
    let place = tree.places(file).next().expect("one");
    out.clear();
    tree.write(file, 8192..16384, true, 8192, &mut out);
    let left = (place.start + 8192, place.start + 16384);
    assert!(matches!(&out[0], Step::Unsay(range) if *range == left), "{out:?}");
    assert!(matches!(&out[1], Step::Say(range, _) if range.0 >= place.end), "{out:?}");
}

#[test]
fn what_a_transaction_frees_is_discarded_before_it_is_taken_and_no_more_is() {
    let (mut tree, mut rng, mut out) = (tree(Format::Btrfs), Rng::seeded(3), Vec::new());
    let files: Vec<FileId> =
        (0..20).map(|_| tree.create(0, 3 * MIB, Usage::Mixed, &mut out).expect("room")).collect();
    tree.commit(&mut out);
    let mut on_their_way: Vec<(u64, u64)> = Vec::new();
    for _ in 0..50 {
        out.clear();
        let before = owned(&tree, &files);
        for _ in 0..20 {
            let at = rng.below(3 * MIB / 8192) * 8192;
            let file = files[rng.below(20) as usize];
            tree.write(file, at..at + 8192, true, 8192, &mut out);
        }
        let overlaps = |(from, to), range: &Range<u64>| range.start < to && from < range.end;
        let taken = owned(&tree, &files);
        for discard in on_their_way {
            assert!(!taken.iter().any(|range| overlaps(discard, range)), "{discard:?} is taken");
        }
        out.clear();
        tree.commit(&mut out);
        let discarded: Vec<(u64, u64)> = out
            .iter()
            .filter_map(|step| if let Step::Discard(range) = step { Some(*range) } else { None })
            .collect();
        let covered = |at: u64| discarded.iter().any(|range| (range.0..range.1).contains(&at));
        let after = owned(&tree, &files);
        let is_in = |all: &[Range<u64>], at: u64| all.iter().any(|range| range.contains(&at));
        let blocks = before.iter().flat_map(|range| range.clone().step_by(4096));
        for freed in blocks.filter(|&at| !is_in(&after, at)) {
            assert!(covered(freed), "{freed} was freed");
        }
        for kept in after.iter().flat_map(|range| range.clone().step_by(4096)) {
            assert!(!covered(kept), "{kept} is in use");
        }
        on_their_way = discarded;
    }
}

#[test]
fn a_set_that_does_not_fit_is_refused() {
    let (mut tree, mut out) = (tree(Format::Btrfs), Vec::new());
    let batch = Batch { count: 9, sizes: vec![Bytes::from_gib(1)], usage: Usage::Mixed };
    let made = make(&mut tree, &[batch], 4, &mut Rng::seeded(1), &mut out);
    assert!(made.is_err());
}
