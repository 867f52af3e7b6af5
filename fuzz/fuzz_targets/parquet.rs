//! The reader of `parquet`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    thermocline_fuzz::read(Some(thermocline_trace::Format::Parquet), data);
});
