//! Finding the one bit of a block that flipped.

/// Content that `decode` reads from a block after one of its bits was changed; `None`: no such bit.
/// Content that `decode` reads from a block with one of its bits changed; `None`: no such bit.
/// of up to five bits apart in 512 bytes, of up to three in 4 KiB. Tries all bits, so a block of
/// 4 KiB takes about 20 ms.
///
/// ```
/// let decode = |block: &[u8]| (block == [1, 2]).then_some("whole");
/// assert_eq!(thermocline_units::with_one_bit_changed(&[1, 6], decode), Some("whole"));
/// assert_eq!(thermocline_units::with_one_bit_changed(&[1, 5], decode), None);
/// ```
pub fn with_one_bit_changed<T>(block: &[u8], decode: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    let mut block = block.to_vec();
    (0..block.len() * 8).find_map(|bit| {
        block[bit / 8] ^= 1 << (bit % 8);
        let found = decode(&block);
        block[bit / 8] ^= 1 << (bit % 8);
        found
    })
}
