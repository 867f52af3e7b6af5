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
    Found::File(File { id: FILE, kind: FileKind::Regular, size: Bytes(size), modified_s: 0 })
}

fn extent(offset: u64, length: u64) -> Found<'static> {
    let (at, stretch) = (Bytes(0), stretch(offset, length));
    Found::Extent(Extent { file: FILE, at, stretch, state: State::Written })
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
    change.said(catalog)
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
