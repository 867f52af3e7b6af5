//! Surveys of images made by hand, which the fuzz target uses as well: what they hold, what damage
//! does, what limits cut.

use crate::*;
use std::collections::BTreeMap;
use thermocline_units::Bytes;

#[allow(unreachable_pub)] // It is the fuzz crate's file.
#[path = "../../../fuzz/src/images.rs"]
mod images;

/// The images, those with checksums sealed.
fn all() -> [(&'static str, Vec<u8>); 4] {
    let [ext, xfs, (name, mut image), btrfs] = images::all();
    let inodes = (0..5).map(|index| (4 * 4096 + index * 512, 512, 100));
    let blocks = [(0, 512, 224), (512, 512, 216), (1024, 512, 312), (3 * 4096, 4096, 52)];
    let others = [(30 * 4096, 4096, 64), (40 * 4096, 4096, 4)];
    for (start, length, at) in inodes.chain(blocks).chain(others) {
        let sum = crc32c::crc32c(&image[start..start + length]);
        image[start + at..start + at + 4].copy_from_slice(&sum.to_le_bytes());
    }
    [ext, xfs, (name, image), btrfs]
}

fn look(image: &[u8], limits: Limits) -> Result<(Catalog, Summary), FsError> {
    let mut catalog = Catalog::default();
    let mut blocks = Image(image.to_vec());
    let summary = survey(&mut blocks, Bytes(0), &mut |found| catalog.apply(&found), limits)?;
    Ok((catalog, summary))
}

/// Size and places of files by their paths.
type Files = BTreeMap<String, (u64, Vec<Place>)>;

fn files(catalog: &Catalog) -> Files {
    let of = |entry: &Entry| {
        let path = String::from_utf8(catalog.path(entry.file.id)).unwrap();
        let places = entry.extents.iter().map(|extent| extent.stretch);
        let places = places.map(|stretch| (stretch.offset.0, stretch.length.0)).collect();
        (path, (entry.file.size.0, places))
    };
    catalog.files().filter(|entry| entry.file.kind == FileKind::Regular).map(of).collect()
}

/// Offset and length.
type Place = (u64, u64);

fn expected<const N: usize>(rows: [(&str, u64, &[Place]); N]) -> Files {
    rows.map(|(path, size, places)| (path.to_string(), (size, places.to_vec()))).into()
}

const K: u64 = 1024;

#[test]
fn images_made_by_hand_are_told_as_they_were_made() {
    for (name, image) in all() {
        let (catalog, summary) = look(&image, Limits::default()).unwrap();
        assert_eq!((summary.torn, summary.cut), (0, 0), "{name}");
        let rows = match name {
            "ext4" => expected([
                ("/file", 3000, &[(30 * K, 3 * K)]),
                ("/mapped", 14 * K, &[(40 * K, 12 * K), (61 * K, 2 * K)]),
                ("/tree", 9000, &[(80 * K, 4 * K), (90 * K, 3 * K)]),
            ]),
            "btrfs" => expected([
                ("/copy/file", 20_480, &[(512 * K, 8 * K)]),
                ("/file", 20_480, &[(512 * K, 8 * K), (540 * K, 12 * K)]),
                ("/inline", 5, &[]),
            ]),
            _ => expected([
                ("/file", 9000, &[(200 * K, 12 * K)]),
                ("/tree", 40_000, &[(240 * K, 16 * K), (280 * K, 12 * K)]),
            ]),
        };
        // The second extent of the snapshot's file is in a leaf that it shares.
        let mut told = files(&catalog);
        if let Some((_, places)) = told.get_mut("/copy/file") {
            places.truncate(1);
            assert_eq!(summary.shared, 1);
        }
        assert_eq!(told, rows, "{name}");
    }
}

#[test]
fn a_byte_that_is_changed_or_cut_off_makes_no_panic_and_nothing_outside() {
    let bounds = Limits { files: 1 << 12, extents_per_file: 64, ranges: 1 << 12, read: None };
    for (name, image) in all() {
        let places: Vec<usize> = (0..image.len()).filter(|at| image[*at] != 0).collect();
        assert!(places.len() > 100, "{name}");
        let mut forged = image.clone();
        for at in places {
            for change in [0x01, 0x80, 0xff] {
                forged[at] ^= change;
                check_inside(&forged, bounds);
                forged[at] = image[at];
            }
            check_inside(&image[..at], bounds);
        }
    }
}

fn check_inside(image: &[u8], limits: Limits) {
    let mut blocks = Image(image.to_vec());
    let mut said = |found: Found<'_>| {
        let stretch = match found {
            Found::Metadata { stretch, .. } => stretch,
            Found::Extent(extent) => extent.stretch,
            _ => return,
        };
        assert!(stretch.end().0 <= image.len() as u64);
    };
    let _ = survey(&mut blocks, Bytes(0), &mut said, limits);
}

#[test]
fn limits_end_a_survey_or_cut_a_file() {
    let usual = Limits::default();
    for (name, image) in all() {
        let refused = |limits: Limits| match look(&image, limits) {
            Err(FsError::TooMany { what, .. }) => what,
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(refused(Limits { files: 1, ..usual }), "files");
        assert_eq!(refused(Limits { ranges: 2, ..usual }), "ranges of metadata");
        let read = Some(Bytes(8192));
        assert_eq!(refused(Limits { read, ..usual }), "bytes read in one survey");
        let (catalog, summary) = look(&image, Limits { extents_per_file: 1, ..usual }).unwrap();
        assert!(summary.cut > 0, "{name}");
        assert!(catalog.files().all(|entry| entry.extents.len() + entry.metadata.len() <= 1));
    }
}

/// Offset in the image of node `number` of the btrfs that is made by hand, and of its entries.
const fn node_at(number: usize) -> (usize, usize) {
    let at = (128 << 10) + number * 4096;
    (at, at + 101)
}

/// Puts little-endian numbers of 32 bits one behind the other.
fn put(image: &mut [u8], at: usize, numbers: [u32; 2]) {
    let bytes = numbers.map(u32::to_le_bytes).concat();
    image[at..at + 8].copy_from_slice(&bytes);
}

/// Each of hundreds of items was taken for as long as the leaf, and copied.
#[test]
fn a_leaf_of_btrfs_whose_items_share_bytes_is_torn() {
    let [.., (_, whole)] = all();
    let (_, entries) = node_at(5);
    let place = |image: &[u8], index: usize| {
        let entry = &image[entries + index * 25..][..25];
        [17, 21].map(|at| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap()))
    };
    let [first, second] = [place(&whole, 0), place(&whole, 1)];
    // A leaf with a gap, one with items that overlap, and one whose first item does not end it.
    for (index, forged) in [
        (1, [second[0] - 1, second[1]]),
        (1, [second[0], second[1] + first[1]]),
        (0, [first[0] - 1, first[1]]),
        (0, [u32::MAX, first[1]]),
    ] {
        let mut image = whole.clone();
        put(&mut image, entries + index * 25 + 17, forged);
        let (catalog, summary) = look(&image, Limits::default()).unwrap();
        assert!(summary.torn > 0, "{index}: {forged:?}");
        assert!(!files(&catalog).contains_key("/inline"), "{index}: {forged:?}");
    }
}

/// Writes a later commit of the btrfs that is made by hand, in place: the roots of some trees, by
/// the number of their node, are new, and have so many children.
fn commit(image: &mut [u8], trees: &[(usize, u8)]) {
    const LATER: u8 = 8;
    image[(64 << 10) + 72] = LATER;
    image[node_at(1).0 + 80] = LATER;
    let roots = node_at(1).1;
    for (number, children) in trees {
        let (node, _) = node_at(*number);
        (image[node + 80], image[node + 96]) = (LATER, *children);
        for index in 1..=2 {
            let entry = roots + index * 25;
            let place = u32::from_le_bytes(image[entry + 17..entry + 21].try_into().unwrap());
            let item = roots + place as usize;
            if image[item + 176..item + 184] == (node as u64).to_le_bytes() {
                image[item + 160] = LATER;
            }
        }
    }
}

/// The leaf of a file that was deleted is not among those that no tree has any more, if a snapshot
/// has it still, or if another leaf was written in its place.
#[test]
fn a_file_of_btrfs_is_gone_though_its_leaf_has_another_owner_or_generation() {
    let [.., (_, first)] = all();
    let id = |tree, inode| FileId { tree, inode };
    let (node, entries) = node_at(5);
    let mut left = first.clone();
    commit(&mut left, &[(3, 1)]);
    let mut written_over = first.clone();
    commit(&mut written_over, &[(3, 2), (6, 1)]);
    written_over[node + 80] = 8;
    written_over[node_at(3).1 + 33 + 25] = 8;
    for index in 1..4 {
        written_over[entries + index * 25] = 3; // The low byte of 259.
    }
    for (image, now) in [(left, id(256, 258)), (written_over, id(5, 259))] {
        let (mut survey, mut catalog) =
            (Survey::new(Bytes(0), Limits::default()), Catalog::default());
        for image in [&first, &image] {
            let mut blocks = Image(image.clone());
            let summary = survey.run(&mut blocks, &mut |found| catalog.apply(&found)).unwrap();
            assert_eq!(summary.torn, 0);
        }
        assert!(catalog.file(id(5, 258)).is_none(), "{now:?}");
        assert!(catalog.file(now).is_some(), "{now:?}");
    }
}

#[test]
fn a_name_of_more_than_255_bytes_is_left_out() {
    let [.., (_, whole)] = all();
    let (node, entries) = node_at(7);
    for (length, is_told) in [(255, true), (256, false)] {
        let mut image = whole.clone();
        // The leaf's last item was an extent; now it is the name before that.
        image[node + 96] = 4;
        let entry = entries + 3 * 25;
        let end = u32::from_le_bytes(whole[entry - 8..entry - 4].try_into().unwrap());
        let size = 10 + length as u32;
        put(&mut image, entry + 17, [end - size, size]);
        let item = entries + (end - size) as usize;
        image[item..item + 8].fill(0);
        image[item + 8..item + 10].copy_from_slice(&(length as u16).to_le_bytes());
        image[item + 10..item + 10 + length].fill(b'n');
        let (catalog, summary) = look(&image, Limits::default()).unwrap();
        assert_eq!(summary.torn, 0);
        let told = files(&catalog).contains_key(&format!("/copy/{}", "n".repeat(length)));
        assert_eq!(told, is_told, "{length} B");
    }
}

#[test]
fn another_file_system_in_the_same_place_begins_anew() {
    let [(_, ext), (_, xfs), ..] = all();
    let mut survey = Survey::new(Bytes(0), Limits::default());
    let mut catalog = Catalog::default();
    for (image, kind) in [(&ext, Kind::Ext4), (&xfs, Kind::Xfs), (&ext, Kind::Ext4)] {
        let mut blocks = Image(image.clone());
        let summary = survey.run(&mut blocks, &mut |found| catalog.apply(&found)).unwrap();
        assert_eq!(summary.kind, kind);
        assert!(catalog == look(image, Limits::default()).unwrap().0);
    }
}

#[test]
fn a_medium_that_fails_ends_the_survey_with_the_place() {
    struct Broken(Image);
    impl Blocks for Broken {
        fn size(&self) -> Bytes {
            self.0.size()
        }
        fn read_at(&mut self, offset: Bytes, into: &mut [u8]) -> Result<(), ReadError> {
            match offset.0 >= 2048 {
                true => Err(ReadError("no more".to_string())),
                false => self.0.read_at(offset, into),
            }
        }
    }
    let [(_, ext), ..] = all();
    let ended = survey(&mut Broken(Image(ext)), Bytes(0), &mut |_| {}, Limits::default());
    let error = ended.unwrap_err();
    assert!(matches!(error, FsError::Read { at: Bytes(2048), .. }), "{error}");
    assert!(error.to_string().contains("no more"));
}

#[test]
fn file_systems_behind_a_partition_table_are_found() {
    let [(_, ext), .., (_, btrfs)] = all();
    let mut disk = vec![0; 4 << 20];
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    for (index, (first, image)) in [(2048_u32, &ext), (4096, &btrfs)].into_iter().enumerate() {
        let entry = 446 + index * 16;
        disk[entry + 4] = 0x83;
        disk[entry + 8..entry + 12].copy_from_slice(&first.to_le_bytes());
        disk[entry + 12..entry + 16].copy_from_slice(&2048_u32.to_le_bytes());
        disk[first as usize * 512..][..image.len()].copy_from_slice(image);
    }
    let mut disk = Image(disk);
    let found = systems(&mut disk).unwrap();
    let kinds: Vec<_> = found.iter().map(|system| (system.kind, system.at.0)).collect();
    assert_eq!(kinds, [(Kind::Ext4, 1 << 20), (Kind::Btrfs, 2 << 20)]);
    // The superblock of a file system that filled the disk before hides them not.
    disk.0[1024..2048].copy_from_slice(&ext[1024..2048]);
    assert_eq!(systems(&mut disk).unwrap(), found);
    // A table whose partitions hold nothing known does not hide the whole.
    let mut whole = disk.clone();
    whole.0[1 << 20..].fill(0);
    let kinds: Vec<_> = systems(&mut whole).unwrap().iter().map(|s| (s.kind, s.at.0)).collect();
    assert_eq!(kinds, [(Kind::Ext4, 0)]);
    let mut catalog = Catalog::default();
    survey(&mut disk, Bytes(1 << 20), &mut |found| catalog.apply(&found), Limits::default())
        .unwrap();
    assert_eq!(files(&catalog)["/file"], (3000, vec![((1 << 20) + 30 * K, 3 * K)]));
}
