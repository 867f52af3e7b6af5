//! The reader of `blkparse`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    thermocline_fuzz::read(Some(thermocline_trace::Format::Blkparse), data);
});
