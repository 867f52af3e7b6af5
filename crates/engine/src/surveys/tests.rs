//! Runs of a survey: the first one says everything, the next ones only changes.

use super::{Change, Surveyed, gone, source};
use thermocline_fs::{Catalog, Extent, File, FileId, FileKind, Found, State, Stretch, What};
use thermocline_policy::hints::Facts;
use thermocline_units::{Bytes, VolumeId};

const ROOT: FileId = FileId { tree: 0, inode: 2 };
const FILE: FileId = FileId { tree: 0, inode: 12 };

fn stretch(offset: u64, length: u64) -> Stretch {
    Stretch { offset: Bytes(offset), length: Bytes(length) }
}

fn file(size: u64) -> Found<'static> {
    file_of(FILE.inode, size)
}

fn file_of(inode: u64, size: u64) -> Found<'static> {
    let id = FileId { tree: 0, inode };
    Found::File(File { id, kind: FileKind::Regular, size: Bytes(size), modified_s: 0 })
}

fn extent(offset: u64, length: u64) -> Found<'static> {
    extent_of(FILE.inode, offset, length)
}

fn extent_of(inode: u64, offset: u64, length: u64) -> Found<'static> {
    let (at, stretch) = (Bytes(0), stretch(offset, length));
    Found::Extent(Extent { file: FileId { tree: 0, inode }, at, stretch, state: State::Written })
}

fn name(name: &[u8]) -> Found<'_> {
    Found::Name { file: FILE, directory: ROOT, name }
}

fn bitmap(offset: u64) -> Found<'static> {
    Found::Metadata { stretch: stretch(offset, 4096), what: What::BlockBitmap, owner: None }
}

fn run(catalog: &mut Catalog, found: &[Found<'_>]) -> Vec<Surveyed> {
    let mut change = Change::default();
    for found in found {
        change.note(catalog, found);
        catalog.apply(found);
    }
    let mut said = Vec::new();
    let told: Result<(), ()> = change.say(catalog, &mut |news| {
        said.push(news);
        Ok(())
    });
    told.unwrap();
    said
}

fn data(size: u64, name: &str) -> Facts {
    Facts {
        file_size: Some(Bytes(size)),
        directory: Some("/".to_string()),
        file_name: Some(name.to_string()),
        ..Facts::default()
    }
}

#[test]
fn a_first_run_says_everything_and_the_next_ones_what_changed() {
    let mut catalog = Catalog::default();
    let all = [Found::Anew, bitmap(0), file(5000), name(b"a.txt"), extent(8192, 8192)];
    let metadata = Facts { metadata: true, ..Facts::default() };
    assert_eq!(
        run(&mut catalog, &all),
        [
            Surveyed::Anew,
            Surveyed::Here(0..4096, metadata),
            Surveyed::Here(8192..16384, data(5000, "a.txt"))
        ]
    );
    assert_eq!(run(&mut catalog, &[]), []);
    // The file grew, and moved.
    assert_eq!(
        run(&mut catalog, &[file(9000), extent(32768, 12288)]),
        [Surveyed::Void(8192..16384), Surveyed::Here(32768..45056, data(9000, "a.txt"))]
    );
    // It has another name.
    assert_eq!(
        run(&mut catalog, &[name(b"b.txt")]),
        [Surveyed::Here(32768..45056, data(9000, "b.txt"))]
    );
    // It is gone, and a bitmap with it.
    let gone = Found::MetadataGone { stretch: stretch(0, 4096), what: What::BlockBitmap };
    assert_eq!(
        run(&mut catalog, &[Found::Gone(FILE), gone]),
        [Surveyed::Void(32768..45056), Surveyed::Void(0..4096)]
    );
}

/// The hints of a living file were voided with those of another that shares its bytes.
#[test]
fn what_shares_bytes_with_what_changes_is_said_again_the_smallest_last() {
    let mut catalog = Catalog::default();
    let nameless = |size| Facts {
        file_size: Some(Bytes(size)),
        directory: Some("/".into()),
        ..Facts::default()
    };
    let (small, large) = (|| nameless(4096), || nameless(65536));
    let first = [
        Found::Anew,
        file_of(20, 4096),
        extent_of(20, 8192, 4096),
        file_of(21, 65536),
        extent_of(21, 0, 65536),
        file_of(22, 512),
        extent_of(22, 1 << 20, 4096),
    ];
    let said = run(&mut catalog, &first);
    let smallest_last = [
        Surveyed::Here(0..65536, large()),
        Surveyed::Here(8192..12288, small()),
        Surveyed::Here(1 << 20..(1 << 20) + 4096, nameless(512)),
    ];
    assert_eq!(said[1..], smallest_last);
    // A third file shares bytes with both, and is the largest.
    let third = [file_of(23, 1 << 20), extent_of(23, 4096, 8192)];
    let both = [Surveyed::Here(4096..12288, large()), Surveyed::Here(8192..12288, small())];
    let huge = Surveyed::Here(4096..12288, nameless(1 << 20));
    assert_eq!(run(&mut catalog, &third), [&[huge][..], &both].concat());
    // It goes: what is left in its place is said again, no more of it than was voided.
    let gone = Found::Gone(FileId { tree: 0, inode: 23 });
    let said = run(&mut catalog, &[gone]);
    assert_eq!(said, [&[Surveyed::Void(4096..12288)][..], &both].concat());
    // So is metadata that stands where a file was, or other metadata.
    run(&mut catalog, &[bitmap(1 << 20)]);
    let gone = Found::Gone(FileId { tree: 0, inode: 22 });
    let range = 1 << 20..(1 << 20) + 4096;
    let metadata = Facts { metadata: true, ..Facts::default() };
    let expected = [Surveyed::Void(range.clone()), Surveyed::Here(range, metadata)];
    assert_eq!(run(&mut catalog, &[gone]), expected);
}

/// A path of 4096 names of 255 bytes was said with each range of a file, all at once.
#[test]
fn the_path_of_a_deep_directory_is_cut_where_it_is_too_long() {
    let mut catalog = Catalog::default();
    let id = |inode| FileId { tree: 0, inode };
    let name = [b'd'; 255];
    catalog.apply(&Found::Anew);
    for inode in 101..300 {
        catalog.apply(&Found::Name { file: id(inode), directory: id(inode - 1), name: &name });
    }
    let deep = Found::Name { file: FILE, directory: id(299), name: b"deep.txt" };
    let said = run(&mut catalog, &[file(512), deep, extent(0, 512)]);
    let [Surveyed::Here(_, facts)] = &said[..] else { panic!("{said:?}") };
    let above = format!("/{}", "d".repeat(255)).repeat(16);
    assert_eq!(facts.directory.as_deref(), Some(&*above), "4 KiB of it");
    assert_eq!(facts.file_name.as_deref(), Some("deep.txt"));
}

/// Its hints stayed for ever, and held for whatever came to its place.
#[test]
fn a_file_system_that_is_not_found_any_more_is_gone_from_its_volume_only() {
    let at = |volume, offset| (VolumeId(volume), Bytes(offset));
    let known = [at(0, 0), at(1, 0), at(1, 1 << 20), at(1, 2 << 20)];
    let gone = |volume, found: &[Bytes]| gone(known.iter(), VolumeId(volume), found);
    assert_eq!(gone(1, &[Bytes(1 << 20)]), [Bytes(0), Bytes(2 << 20)]);
    assert_eq!(gone(0, &[]), [Bytes(0)]);
    assert_eq!(gone(0, &[Bytes(0), Bytes(4096)]), []);
    let sources = [source("db", Bytes(0)), source("db", Bytes(4096))];
    assert_eq!(sources, ["fs/db", "fs/db+4096"], "the name under which it spoke");
}

/// A file of thousands of extents that share bytes with other files had each of these said again in
/// as many parts.
#[test]
fn what_is_said_again_has_a_bound() {
    let mut catalog = Catalog::default();
    let (large, others) = (1 << 30, 20);
    let mut first = Vec::new();
    for inode in 20..20 + others {
        first.extend([file_of(inode, large + inode), extent_of(inode, 0, large)]);
    }
    run(&mut catalog, &first);
    let pieces = (0..10_000).map(|at| extent(at * 8192, 4096));
    let fragmented: Vec<_> = std::iter::once(file(1)).chain(pieces).collect();
    let said = run(&mut catalog, &fragmented);
    let again = said.len() - 10_000;
    assert!(again <= others as usize * super::TOUCHED_MAX, "{again} parts are said again");
    let end = said.last().unwrap();
    assert!(matches!(end, Surveyed::Here(range, _) if range.end == 9_999 * 8192 + 4096), "{end:?}");
    let covered = said.iter().filter_map(|said| match said {
        Surveyed::Here(range, facts) if facts.file_size == Some(Bytes(large + 20)) => Some(range),
        _ => None,
    });
    let bytes: u64 = covered.map(|range| range.end - range.start).sum();
    assert!(bytes >= 10_000 * 4096, "all that was touched is said again: {bytes}");
}
