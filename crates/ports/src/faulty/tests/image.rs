//! Extents against a plain array of sectors.

use super::super::image::{Content, Image, bytes_of};
use super::{filled, fills};
use crate::DeviceError;
use thermocline_units::Rng;

#[test]
fn extents_hold_what_a_plain_array_holds() {
    const SECTORS: u64 = 64;
    for seed in 0..50 {
        let mut rng = Rng::seeded(seed);
        let mut image = Image::new(Content::Zeroes);
        let mut plain = vec![0_u8; SECTORS as usize];
        for step in 1..=200_u8 {
            let start = rng.below(SECTORS);
            let end = start + 1 + rng.below((SECTORS - start).min(20));
            let (content, fill) = match rng.below(3) {
                0 => (Content::Zeroes, 0),
                _ => (Content::from(filled(step, (end - start) as usize)), step),
            };
            image.write(start..end, content);
            plain[start as usize..end as usize].fill(fill);
            let from = rng.below(SECTORS);
            let to = from + 1 + rng.below(SECTORS - from);
            let shown = image.read(from..to).expect("nothing is unreadable");
            assert_eq!(u64::from(shown.len()), bytes_of(to - from));
            assert_eq!(fills(&shown), plain[from as usize..to as usize], "seed {seed}");
        }
    }
}

#[test]
fn garbage_depends_on_its_seed_and_place_only() {
    let image = Image::new(Content::Garbage(9));
    let whole = image.read(0..8).expect("readable").to_vec();
    let sector = image.read(3..4).expect("readable").to_vec();
    assert_eq!(whole[3 * 512..4 * 512], sector);
    assert_ne!(whole[..512], sector);
    let other = Image::new(Content::Garbage(10)).read(3..4).expect("readable").to_vec();
    assert_ne!(other, sector);
}

#[test]
fn a_range_with_one_unreadable_sector_cannot_be_read() {
    let mut image = Image::new(Content::Zeroes);
    image.write(5..6, Content::Unreadable);
    assert_eq!(image.read(0..8), Err(DeviceError::Io));
    assert!(image.read(0..5).is_ok());
    image.write(4..7, Content::Zeroes);
    assert!(image.read(0..8).is_ok());
}
