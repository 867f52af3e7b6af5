//! Opening without a word on the format: decompression, detection, every reader.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| thermocline_fuzz::read(None, data));
