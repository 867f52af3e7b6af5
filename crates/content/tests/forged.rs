//! Opening a store on a forged device with valid checksums: the store is refused, or it works. The
//! fuzz target `content` does the same with chosen bytes.

#![allow(clippy::unwrap_used)]

use thermocline_content::BLOCK;
use thermocline_units::Rng;

#[allow(unreachable_pub)] // It is the fuzz crate's file.
#[path = "../../../fuzz/src/forged.rs"]
mod forged;

use forged::image;

/// Gives all blocks of metadata valid checksums.
fn mend(bytes: &mut [u8], metadata: &[usize]) {
    for &at in metadata {
        let block = &mut bytes[at * BLOCK as usize..][..BLOCK as usize];
        let (from, crc) = if block.starts_with(b"THERM") { (12, 8) } else { (8, 4) };
        let sum = crc32c::crc32c(&block[from..]);
        block[crc..crc + 4].copy_from_slice(&sum.to_le_bytes());
    }
}

fn open_forged(data: &[u8]) -> bool {
    forged::open_forged(data, mend)
}

#[test]
fn forged_metadata_is_refused_or_works() {
    let (bytes, metadata) = image();
    assert!(open_forged(&[]), "what nobody changed can be opened");
    let (mut opened, mut refused) = (0, 0);
    for seed in 0..1500 {
        let mut rng = Rng::seeded(seed);
        let mut input = Vec::new();
        for _ in 0..1 + rng.below(3) {
            let block = rng.below(metadata.len() as u64) as usize;
            let used = &bytes[metadata[block] * BLOCK as usize..][..BLOCK as usize];
            let end = used.iter().rposition(|&byte| byte != 0).unwrap() as u64 + 1;
            let at = block as u32 * BLOCK + (4 + rng.below(end - 4)) as u32;
            input.extend_from_slice(&at.to_le_bytes()[..3]);
            let length = 1 + rng.below(4);
            input.push(length as u8);
            for index in 0..length {
                let old = used.get((at % BLOCK) as usize + index as usize).copied().unwrap_or(0);
                let bytes = [0, 1, 255, old.wrapping_add(1), old ^ 0x80, rng.below(256) as u8];
                input.push(bytes[rng.below(6) as usize]);
            }
        }
        match open_forged(&input) {
            true => opened += 1,
            false => refused += 1,
        }
    }
    assert!(opened > 100 && refused > 100, "{opened} opened, {refused} refused");
}
