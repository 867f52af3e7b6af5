//! Surveys of file systems whose bytes were forged.
//!
//! The first byte chooses an image (`images.rs`); then repeatedly a place (3 bytes), a length (1),
//! and as many bytes that stand there instead. The survey runs twice, the second time over further
//! changes. It may end with an error; it says nothing outside the volume, and its listener takes
//! everything.
#![no_main]

use std::sync::OnceLock;
use thermocline_fs::{Catalog, Found, Image, Limits, Survey, partitions};
use thermocline_fuzz::images;
use thermocline_units::Bytes;

/// Enough for any sound image of this size, and little enough for many runs a second.
const LIMITS: Limits =
    Limits { files: 1 << 12, extents_per_file: 1 << 10, ranges: 1 << 12, read: None };

fn forge(image: &mut Image, edits: &[u8]) {
    let mut rest = edits;
    while let [a, b, c, length, tail @ ..] = rest {
        let at = u32::from_le_bytes([*a, *b, *c, 0]) as usize % images::SIZE;
        let count = usize::from(*length).min(tail.len()).min(images::SIZE - at);
        image.0[at..at + count].copy_from_slice(&tail[..count]);
        rest = &tail[count..];
    }
}

fn check(found: &Found<'_>) {
    let stretch = match found {
        Found::Metadata { stretch, .. } | Found::MetadataGone { stretch, .. } => stretch,
        Found::Extent(extent) => &extent.stretch,
        _ => return,
    };
    assert!(stretch.length.0 > 0 && stretch.end().0 <= images::SIZE as u64, "{found:?}");
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    static IMAGES: OnceLock<[(&str, Vec<u8>); 4]> = OnceLock::new();
    let images = IMAGES.get_or_init(images::all);
    let [choice, edits @ ..] = data else { return };
    let mut image = Image(images[usize::from(*choice) % images.len()].1.clone());
    let (first, second) = edits.split_at(edits.len() / 2);
    let mut survey = Survey::new(Bytes(0), LIMITS);
    let mut catalog = Catalog::default();
    for edits in [first, second] {
        forge(&mut image, edits);
        let _ = survey.run(&mut image, &mut |found| {
            check(&found);
            catalog.apply(&found);
        });
    }
    for entry in catalog.files() {
        catalog.path(entry.file.id);
    }
    let _ = partitions(&mut image);
});
