//! Cost of a chunk that comes to a full chunk cache, in nanoseconds of wall time:
//! `store [MIB [CHUNK_BYTES [MILLIONS]]]`.
//!
//! Chunks are unlike, so that each is looked for, not found, kept, and drives another one out.
// A program that measures and reports, not a decision.
#![allow(clippy::print_stdout, clippy::disallowed_types, clippy::disallowed_macros)]

use std::time::Instant;
use thermocline_tunnel::{Name, Owner, Store};
use thermocline_units::{Bytes, Rng};

fn main() {
    let arguments: Vec<u64> = std::env::args()
        .skip(1)
        .map(|word| word.parse().expect("a measurement stops at what does not work"))
        .collect();
    let word = |at: usize, default: u64| arguments.get(at).copied().unwrap_or(default);
    let (mib, length, millions) = (word(0, 256), word(1, 2048) as usize, word(2, 1));
    let mut rng = Rng::seeded(1);
    // As an end does: all fingerprints of a segment are known before the first is looked for.
    let segment = (65536 / length).max(1) as u64;
    let mut chunk: Vec<u8> = (0..length).map(|_| rng.next_u64() as u8).collect();
    let mut store = Store::new(Bytes::from_mib(mib), 7);
    let mut number = 0;
    let mut come = |count: u64| {
        let began = Instant::now();
        let mut fingerprints = Vec::new();
        for at in 0..count {
            if at % segment == 0 {
                fingerprints = (0..segment).map(|_| rng.next_u64()).collect();
                fingerprints.iter().for_each(|&fingerprint| store.expect(fingerprint));
            }
            let fingerprint = fingerprints[(at % segment) as usize];
            chunk[..8].copy_from_slice(&fingerprint.to_le_bytes());
            assert!(store.find(fingerprint, &chunk).is_none(), "chunks are unlike");
            store.insert(Name { owner: Owner::Us, number }, fingerprint, &chunk);
            number += 1;
        }
        began.elapsed().as_secs_f64() * 1e9 / count as f64
    };
    come(2 * (mib << 20) / length as u64);
    let rounds: Vec<f64> = (0..5).map(|_| come(millions * 200_000)).collect();
    println!("{mib} MiB, chunks of {length} B: {rounds:.0?} ns a chunk");
}
