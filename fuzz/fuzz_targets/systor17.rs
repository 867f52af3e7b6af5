//! The reader of `systor17` traces: any bytes are requests or an error, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    thermocline_fuzz::read(Some(thermocline_trace::Format::Systor17), data);
});
