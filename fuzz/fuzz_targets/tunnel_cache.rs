//! A saved cache of a tunnel is anything, with a checksum that is right.
//!
//! Whatever is taken is saved again and read again as the same bytes, if all of it has room.
#![no_main]

use std::hash::Hasher;
use thermocline_tunnel::Cache;
use thermocline_units::Bytes;
use twox_hash::XxHash3_64;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut bytes = data.to_vec();
    let mut hasher = XxHash3_64::with_seed(0);
    hasher.write(data);
    bytes.extend(hasher.finish().to_le_bytes());
    let _ = Cache::read_saved(data, Bytes::from_kib(64));
    let Ok(cache) = Cache::read_saved(&bytes[..], Bytes::from_kib(64)) else { return };
    let mut saved = Vec::new();
    cache.write_saved(&mut saved).expect("memory takes it");
    let again = Cache::read_saved(&saved[..], Bytes::from_kib(64)).expect("it was just saved");
    let mut twice = Vec::new();
    again.write_saved(&mut twice).expect("memory takes it");
    assert!(saved == twice, "what was read is what was saved");
});
