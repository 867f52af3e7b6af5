//! The reader of `arc`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    thermocline_fuzz::read(Some(thermocline_trace::Format::Arc), data);
});
