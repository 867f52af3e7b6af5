//! Chunks that were asked to leave a pool and stay: a hint pins them, or nothing copies them.
//!
//! One that is asked in [`ASKED`] epochs in a row and is still there is not asked in the [`REST`]
//! epochs after that. Else the same chunks would be chosen, and paid for, in each epoch.
//!
//! State: some 32 B a chunk that was asked lately.

use std::collections::BTreeMap;

/// Epochs in which a chunk is asked: a move waits in the machine's queue, too.
const ASKED: u8 = 3;
/// Epochs in which it is left alone then.
const REST: u8 = 64;

/// Chunks by number, with the epochs that they were asked in, or rest for, beyond [`ASKED`].
#[derive(Debug, Default)]
pub(super) struct Refusals(BTreeMap<u32, u8>);

impl Refusals {
    /// True if a chunk is not asked now.
    pub(super) fn rests(&self, number: u32) -> bool {
        self.0.get(&number).is_some_and(|&epochs| epochs >= ASKED)
    }

    /// Ends an epoch in which these chunks are asked, none of which rests; `is_there` is true of
    /// chunks that have not left yet.
    pub(super) fn note(&mut self, asked: &[u32], is_there: impl Fn(u32) -> bool) {
        let before = std::mem::take(&mut self.0);
        let resting = before.iter().filter(|(_, epochs)| **epochs >= ASKED);
        let resting =
            resting.filter(|(number, epochs)| is_there(**number) && **epochs < ASKED + REST);
        self.0 = resting.map(|(&number, &epochs)| (number, epochs + 1)).collect();
        for &number in asked {
            assert!(!self.rests(number), "who rests is not asked");
            self.0.insert(number, before.get(&number).map_or(1, |epochs| epochs + 1));
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.len() as u64 * 32
    }
}

#[cfg(test)]
mod tests;
