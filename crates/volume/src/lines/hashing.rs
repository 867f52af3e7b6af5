//! Places of a line among lent slots, whose number changes.
//!
//! Jump consistent hashing (Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm",
//! 2014): with n slots a line is in the last of a series of growing numbers that is below n. One
//! slot more takes its share of all lines, and moves no others; and the series has every place that
//! the line may have had when fewer were lent. State: none. O(log n).

/// The series for a line of this hash below `slots`, ascending; the last one is its place now.
pub(super) fn places(hash: u64, slots: u32) -> impl Iterator<Item = u32> {
    let (mut key, mut next) = (hash, 0_u64);
    std::iter::from_fn(move || {
        let place = next;
        if place >= u64::from(slots) {
            return None;
        }
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let jump = (1_u64 << 31) as f64 / ((key >> 33) + 1) as f64;
        next = ((place + 1) as f64 * jump) as u64;
        Some(place as u32)
    })
}
