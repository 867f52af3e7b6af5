//! Opening a store of de-duplicated blocks whose device was forged: it is refused, or it works.
//!
//! The store and what the input changes are described in `src/forged.rs`. Checksums are not looked
//! at under a fuzzer, so that the decoders behind them are reached.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    thermocline_fuzz::forged::open_forged(data, |_, _| {});
});
