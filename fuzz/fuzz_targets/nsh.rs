//! Bytes as a service header: what is read and written again is read as the same.
#![no_main]

use thermocline_functions::packet::Nsh;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok((mut header, length)) = Nsh::parse(data) else { return };
    assert_eq!(header.len(), length);
    let mut bytes = Vec::new();
    header.write(&mut bytes).expect("it was read");
    assert_eq!(Nsh::parse(&bytes), Ok((header.clone(), length)));
    let mut hops = 0;
    while header.step() {
        hops += 1;
    }
    assert!(hops <= 63);
});
