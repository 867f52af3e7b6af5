//! The reader of `msr`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    thermocline_fuzz::read(Some(thermocline_trace::Format::Msr), data);
});
