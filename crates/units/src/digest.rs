//! A digest of everything that passes in a simulation: two runs with one digest were the same.
//! Proves that a change of structure changed no decision and no order of events.

use std::cell::Cell;
use std::fmt::Debug;
use std::rc::Rc;

/// A digest that several parts of a simulation fold words into, in the order of their events.
/// Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Digest(Rc<Cell<u64>>);

impl Digest {
    /// The digest of all words so far.
    pub fn value(&self) -> u64 {
        self.0.get()
    }

    /// Folds a word (FNV-1a's step, word by word).
    pub fn fold(&self, word: u64) {
        let mixed = (self.0.get() ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.0.set(mixed.rotate_left(29));
    }

    /// Folds bytes, and their number.
    pub fn fold_bytes(&self, bytes: &[u8]) {
        self.fold(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.fold(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.fold(u64::from(*byte)));
    }

    /// Folds the text of a value.
    pub fn fold_text(&self, value: &impl Debug) {
        self.fold_bytes(format!("{value:?}").as_bytes());
    }
}
