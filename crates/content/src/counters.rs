//! Counts of what a store does.

/// Counts since the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Blocks that were stored.
    pub new_blocks: u64,
    /// Written blocks that were already stored.
    pub deduplicated: u64,
    /// Blocks of those that had to be read to compare them.
    pub verified: u64,
    /// Blocks that no map named any more and that were freed.
    pub swept_blocks: u64,
    /// Sweeps.
    pub sweeps: u64,
    /// Segments that were cleaned.
    pub cleanings: u64,
    /// Blocks that cleaning moved.
    pub cleaned_blocks: u64,
    /// Cycles that wrote the journal.
    pub commits: u64,
    /// Blocks written to the journal.
    pub journal_blocks: u64,
    /// Blocks written for nodes of maps and for roots.
    pub map_blocks: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Blocks that had another hash than the one under which they were stored.
    pub damaged: u64,
}
