//! Objects of a bucket: whatever a store shows for a record or an extent is refused, or is sound.
//!
//! The first byte chooses; the rest is what the store shows. From 128 on its checksums are mended
//! first, so that the decoders behind them are reached.
#![no_main]

use thermocline_ports_os::objects::format::{BLOCK, Generation, Name, Record, decode_header};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [how, bytes @ ..] = data else { return };
    let mended = (*how >= 128).then(|| mend(bytes));
    let bytes = mended.as_deref().unwrap_or(bytes);
    match how % 4 {
        3 => whole_object(bytes),
        0 => {
            let Some(record) = Record::decode(bytes) else { return };
            let extents = record.shape.extents();
            assert!(record.shape.is_sound() && extents > 0);
            assert!(record.entries.iter().all(|&(extent, _)| extent < extents));
            assert_eq!(record.shape.bytes_of(extents - 1).end, record.shape.size.0);
            assert_eq!(Record::decode(&record.encode()), Some(record));
        }
        1 => {
            let [length, start, end, bytes @ ..] = bytes else { return };
            let length = (u32::from(*length) + 1) * 512;
            let blocks = u32::from(start % 40)..u32::from(end % 40).min(length.div_ceil(BLOCK));
            let name = Name { identity: 7, extent: 3, generation: Generation(1 << 40) };
            if let Some(contents) = name.decode(&blocks, length, bytes) {
                let first = u64::from(blocks.start) * u64::from(BLOCK);
                let last = (u64::from(blocks.end) * u64::from(BLOCK)).min(u64::from(length));
                assert_eq!(contents.len() as u64, last - first);
            }
        }
        _ => {
            decode_header(bytes);
            let last = String::from_utf8_lossy(bytes);
            if let Some((extent, generation)) = Name::parse_key(&last) {
                let name = Name { identity: 7, extent, generation };
                assert!(name.key().ends_with(&last.to_ascii_lowercase()));
            }
        }
    }
});

/// Gives a record or a header the checksum of what it holds.
fn mend(bytes: &[u8]) -> Vec<u8> {
    let mut mended = bytes.to_vec();
    if let Some(behind) = bytes.get(12..) {
        mended[8..12].copy_from_slice(&crc32c::crc32c(behind).to_le_bytes());
    }
    mended
}

/// An extent that was written with these contents, of which some blocks are asked for: they come
/// back, and with a byte changed they do not.
fn whole_object(bytes: &[u8]) {
    let [start, end, at, flip, contents @ ..] = bytes else { return };
    let length = contents.len() as u32 / 512 * 512;
    let blocks = length.div_ceil(BLOCK);
    if length == 0 {
        return;
    }
    let start = u32::from(*start) % blocks;
    let asked = start..start + 1 + u32::from(*end) % (blocks - start);
    let name = Name { identity: 7, extent: 3, generation: Generation(1 << 40) };
    let object = name.encode(&contents[..length as usize]);
    let range = Name::range(&asked, length);
    let mut shown = object[range.start as usize..range.end as usize].to_vec();
    let found = name.decode(&asked, length, &shown).expect("it is what was written");
    let from = asked.start as usize * BLOCK as usize;
    assert_eq!(found, contents[from..from + found.len()]);
    let index = usize::from(*at) * 31 % shown.len();
    shown[index] ^= flip | 1;
    assert!(name.decode(&asked, length, &shown).is_none(), "byte {index}");
}
