//! Bytes as saved mappings of a pool, also behind a right checksum.
#![no_main]

use thermocline_offload::saved::decode;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = decode(data);
    let sum = crc32c::crc32c(data).to_be_bytes();
    let _ = decode(&[&b"TCACCEL1"[..], &sum, data].concat());
});
