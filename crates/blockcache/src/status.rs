//! Status of a block cache: its counters and how full it is.

use thermocline_units::Bytes;

/// Counters since the cache was opened, and its state now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// Lines that the fast device has room for.
    pub lines: u32,
    /// Lines whose contents are cached.
    pub cached: u32,
    /// Lines of these that the slow device does not have yet.
    pub dirty: u32,
    /// Bytes of reads that the fast device answered.
    pub read_hits: Bytes,
    /// Bytes of reads that the slow device answered, long ones aside.
    pub read_misses: Bytes,
    /// Bytes of long reads that went around the fast device.
    pub read_around: Bytes,
    /// Bytes of writes that the fast device took.
    pub written: Bytes,
    /// Bytes of writes that went around it.
    pub written_around: Bytes,
    /// Bytes copied to the fast device after a read of the slow one.
    pub filled: Bytes,
    /// Bytes taken back to the slow device.
    pub written_back: Bytes,
    /// Bytes written to the table of dirty lines.
    pub table: Bytes,
    /// Bytes of memory for the index.
    pub memory: Bytes,
    /// Name of the rule by which lines leave.
    pub policy: &'static str,
}

impl Status {
    /// Counters since `before`; a state that is no counter is as it is now.
    pub fn since(&self, before: &Status) -> Status {
        let counted = |now: Bytes, then: Bytes| Bytes(now.0 - then.0);
        Status {
            lines: self.lines,
            cached: self.cached,
            dirty: self.dirty,
            read_hits: counted(self.read_hits, before.read_hits),
            read_misses: counted(self.read_misses, before.read_misses),
            read_around: counted(self.read_around, before.read_around),
            written: counted(self.written, before.written),
            written_around: counted(self.written_around, before.written_around),
            filled: counted(self.filled, before.filled),
            written_back: counted(self.written_back, before.written_back),
            table: counted(self.table, before.table),
            memory: self.memory,
            policy: self.policy,
        }
    }

    /// Share of the bytes read that the fast device answered, of those that did not go around it;
    /// none before the first read.
    pub fn hit_ratio(&self) -> Option<f64> {
        let read = self.read_hits.0 + self.read_misses.0;
        (read > 0).then(|| self.read_hits.0 as f64 / read as f64)
    }
}
