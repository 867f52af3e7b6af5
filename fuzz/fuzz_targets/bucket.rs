//! Objects of a bucket: whatever a store shows for a record or an extent is refused, or is sound.
//!
//! The first byte chooses; the rest is what the store shows. Checksums are not looked at under a
//! fuzzer, so that the decoders behind them are reached.
#![no_main]

use thermocline_ports_os::objects::format::{BLOCK, Generation, Name, Record, decode_header};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [how, bytes @ ..] = data else { return };
    match how % 3 {
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
