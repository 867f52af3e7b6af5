//! Words that are meant, and those that are not.

use super::{edit_distance, nearest};

/// `--policy lur` was taken for `car`: two letters that are exchanged counted as two faults.
#[test]
fn exchanged_letters_are_one_fault() {
    assert_eq!(nearest("lur", ["arc", "car", "lru", "sieve"].into_iter()), Some("lru"));
    assert_eq!(nearest("LUR", ["lru"].into_iter()), Some("lru"));
    assert_eq!(nearest("nothing", ["lru"].into_iter()), None);
    let distances = [("", ""), ("", "abc"), ("abc", "bca"), ("ab", "ba"), ("kitten", "sitting")];
    let of = distances.map(|(one, other)| edit_distance(one, other));
    assert_eq!(of, [0, 3, 2, 1, 3]);
}
