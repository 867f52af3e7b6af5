//! The format of saved mappings: there and back, every truncation, every flipped bit.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::{Saved, SavedError, decode, encode};
use thermocline_units::with_one_bit_changed;

#[test]
fn states_come_back_and_damage_is_found() {
    let mut saved = Saved::new();
    saved.insert(("a".to_string(), 3), vec![1, 2, 3]);
    saved.insert(("tenant".to_string(), 0), Vec::new());
    let bytes = encode(&saved);
    assert_eq!(decode(&bytes), Ok(saved));
    assert_eq!(decode(&encode(&Saved::new())), Ok(Saved::new()));
    for length in 0..bytes.len() {
        assert!(decode(&bytes[..length]).is_err(), "{length}");
    }
    assert_eq!(with_one_bit_changed(&bytes, |changed| decode(changed).ok()), None);
    assert_eq!(decode(b"something else"), Err(SavedError::Magic));
}
