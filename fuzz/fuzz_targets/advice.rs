//! Datagrams of the preloaded library: whatever is sent is refused, or says exactly what it holds.
#![no_main]

use thermocline_advice::{BACKGROUND_MS_MAX, Datagram, LIFE_MAX, Said, USAGE_MAX};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(datagram) = Datagram::decode(data) else { return };
    assert_eq!(datagram.encode(), data, "nothing in it was passed over");
    match datagram.said {
        Said::Life(life) => assert!(life <= LIFE_MAX),
        Said::Hint(hint) => {
            assert!(hint.is_sound() && hint.usage <= USAGE_MAX && hint.life <= LIFE_MAX);
            assert!(hint.background_ms <= BACKGROUND_MS_MAX);
            assert_eq!(hint.with_flags(hint.flags()), Some(hint));
        }
        Said::Advice(_) | Said::ReadAhead | Said::Priority(_) => {}
    }
});
