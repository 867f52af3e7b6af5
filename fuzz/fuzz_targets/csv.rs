//! Column maps and the reader of `csv` that they describe.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| thermocline_fuzz::read_columns(data));
