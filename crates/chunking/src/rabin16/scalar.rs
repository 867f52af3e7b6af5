//! The fingerprint, rolled byte by byte: `f' = f·x^8 + b_new + b_old·x^256`.

use super::{Marks, Tests, WINDOW, times_x};

/// `h·x^16` for the byte `h` that a shift by eight bits pushes out at the top.
static PUSHED: [u16; 256] = table(16);
/// `b·x^256` for the byte `b` that leaves the window.
static LEAVING: [u16; 256] = table(8 * WINDOW as u32);

const fn table(bits: u32) -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = times_x(byte as u16, bits);
        byte += 1;
    }
    table
}

pub(super) fn roll(value: u16, leaving: u8, entering: u8) -> u16 {
    let shifted = (value << 8) ^ PUSHED[usize::from(value >> 8)];
    shifted ^ u16::from(entering) ^ LEAVING[usize::from(leaving)]
}

pub(super) fn mark(tests: Tests, bytes: &[u8], marks: &mut Marks) {
    marks.clear(bytes.len());
    let Some(last) = bytes.len().checked_sub(1) else { return };
    let mut value = 0;
    for &byte in &bytes[..last.min(WINDOW - 1)] {
        value = roll(value, 0, byte);
    }
    for (at, window) in bytes.windows(WINDOW).enumerate() {
        let leaving = if at == 0 { 0 } else { bytes[at - 1] };
        value = roll(value, leaving, window[WINDOW - 1]);
        if value & tests.loose == 0 {
            marks.set(at + WINDOW - 1, value & tests.strict == 0);
        }
    }
}
