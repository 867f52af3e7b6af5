//! The reader of `oracle-general` traces: any bytes are requests or an error, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    thermocline_fuzz::read(Some(thermocline_trace::Format::OracleGeneral), data);
});
