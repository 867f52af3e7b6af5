//! A SOCKS5 client's words: in one piece or byte by byte, they mean the same, and what is asked for
//! can be said again.
#![no_main]

use thermocline_gateway::socks5::{Handshake, Refusal, Step};

fn run(data: &[u8], piece: usize) -> (Vec<Step>, Option<Refusal>) {
    let (mut handshake, mut steps) = (Handshake::default(), Vec::new());
    for part in data.chunks(piece) {
        handshake.receive(part);
        while !matches!(steps.last(), Some(Step::Connect(_))) {
            match handshake.step() {
                Ok(Some(step)) => steps.push(step),
                Ok(None) => break,
                Err(refusal) => return (steps, Some(refusal)),
            }
        }
    }
    (steps, None)
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let whole = run(data, data.len().max(1));
    assert_eq!(whole, run(data, 1));
    if let Some(Step::Connect(target)) = whole.0.last() {
        assert_eq!(target.to_string().parse().as_ref(), Ok(target));
    }
});
