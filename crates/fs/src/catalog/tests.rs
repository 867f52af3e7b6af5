//! The rules of replacement, and what chunks hold.

use super::*;
use crate::found::{FileKind, State};

fn id(inode: u64) -> FileId {
    FileId { tree: 0, inode }
}

fn file(inode: u64, size: u64) -> Found<'static> {
    let kind = FileKind::Regular;
    Found::File(File { id: id(inode), kind, size: Bytes(size), modified_s: 0 })
}

fn stretch(offset: u64, length: u64) -> Stretch {
    Stretch { offset: Bytes(offset), length: Bytes(length) }
}

fn extent(inode: u64, offset: u64, length: u64) -> Found<'static> {
    let stretch = stretch(offset, length);
    Found::Extent(Extent { file: id(inode), at: Bytes(0), stretch, state: State::Written })
}

fn name(inode: u64, directory: u64, name: &'static [u8]) -> Found<'static> {
    Found::Name { file: id(inode), directory: id(directory), name }
}

fn catalog(said: &[Found<'_>]) -> Catalog {
    let mut catalog = Catalog::default();
    said.iter().for_each(|found| catalog.apply(found));
    catalog
}

#[test]
fn a_file_told_again_replaces_itself_with_what_it_owned() {
    let owned =
        Found::Metadata { stretch: stretch(0, 4), what: What::ExtentMap, owner: Some(id(9)) };
    let twice = [file(9, 5), extent(9, 0, 8), owned, file(9, 6), extent(9, 16, 8)];
    let once = [file(9, 6), extent(9, 16, 8)];
    assert_eq!(catalog(&twice), catalog(&once));
}

#[test]
fn what_is_gone_leaves_nothing_and_anew_leaves_nothing_at_all() {
    let (at, what) = (stretch(64, 64), What::Journal);
    let standing = Found::Metadata { stretch: at, what, owner: None };
    let files = [file(9, 5), extent(9, 0, 8), name(9, 2, b"a"), Found::Gone(id(9))];
    assert_eq!(catalog(&files), Catalog::default());
    let metadata = [standing, Found::MetadataGone { stretch: at, what }];
    assert_eq!(catalog(&metadata), Catalog::default());
    assert_eq!(catalog(&[file(9, 5), standing, Found::Anew]), Catalog::default());
}

#[test]
fn paths_go_up_as_far_as_names_do_and_a_loop_ends() {
    let names = [name(9, 8, b"c"), name(8, 7, b"b"), name(7, 2, b"a")];
    assert_eq!(catalog(&names).path(id(9)), b"/a/b/c");
    assert_eq!(catalog(&names).path(id(2)), b"/");
    let around = catalog(&[name(9, 8, b"c"), name(8, 9, b"b")]);
    assert_eq!(around.path(id(9)).len(), 2 * DEPTH_MAX);
}

#[test]
fn a_chunk_has_its_smallest_file_and_knows_of_metadata() {
    let journal = Found::Metadata { stretch: stretch(250, 10), what: What::Journal, owner: None };
    let said =
        [file(1, 900), extent(1, 0, 250), file(2, 30), extent(2, 199, 2), file(3, 0), journal];
    let chunks = catalog(&said).chunks(Bytes(100));
    let of =
        |metadata, smallest: Option<u64>| ChunkContents { metadata, smallest: smallest.map(Bytes) };
    let expected = [(0, of(false, Some(900))), (1, of(false, Some(30))), (2, of(true, Some(30)))];
    assert_eq!(chunks, BTreeMap::from(expected));
}
