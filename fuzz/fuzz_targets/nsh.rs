//! Service headers of any bytes: what is read is what is there, and what is written is read again.
#![no_main]

use thermocline_accel::nsh::{HEADER_BYTES, decode, encode};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok((header, next, length)) = decode(data) {
        assert!((HEADER_BYTES..=data.len()).contains(&length));
        assert_eq!(decode(&encode(header, next)), Ok((header, next, HEADER_BYTES)));
        // What stands behind a header says nothing about it.
        assert_eq!(decode(&data[..length]), Ok((header, next, length)));
    }
});
