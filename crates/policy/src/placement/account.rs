//! Account of a placement: what its moves have saved and cost.

use thermocline_units::{Bytes, text};

/// Sums since a placement began, those of earlier runs from which it learnt included, and its last
/// decision. Times are seconds that users waited, or did not have to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Account {
    /// False if it only recommends: nothing moves.
    pub acts: bool,
    /// Time that users waited, as measured.
    pub waited: f64,
    /// Time that what is elsewhere than at first has saved, by the prices of pools; below 0: lost.
    pub saved: f64,
    /// Time for which copies made users wait, by the prices of pools.
    pub spent: f64,
    /// Time that moves were to save, for as long as they are held to it.
    pub promised: f64,
    /// Time that the same moves have saved.
    pub came: f64,
    /// Chunks that came to another pool.
    pub moved_chunks: u64,
    /// Moves that were proposed, or recommended, when it was last asked.
    pub proposed: u64,
    /// Seconds in each second that these are to save users.
    pub would_save: f64,
}

impl Account {
    /// Tells what has come since `before`, in a sentence; chunks have so many bytes.
    pub fn told_since(&self, before: &Account, chunk: Bytes) -> String {
        let waited = text::seconds(self.waited - before.waited);
        if !self.acts {
            return format!(
                "users waited {waited}; {} recommended would save {} in each second, and nothing \
                 moves",
                text::counted(self.proposed, "exchange"),
                text::seconds(self.would_save),
            );
        }
        let copied = Bytes((self.moved_chunks - before.moved_chunks) * chunk.0);
        format!(
            "users waited {waited}; moving saved {}, and {copied} of copies cost {}; {} were \
             promised, and {} came",
            text::seconds(self.saved - before.saved),
            text::seconds(self.spent - before.spent),
            text::seconds(self.promised - before.promised),
            text::seconds(self.came - before.came),
        )
    }
}

#[cfg(test)]
mod tests;
