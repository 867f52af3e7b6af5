//! Heat maps of volumes: accesses by place and time.
//!
//! A volume is cut into [`COLUMNS`] equal columns; every [`ROW`] a row of counts is closed, and the
//! last [`ROWS`] are kept: 1 KiB a row and volume. O(1) a request that stays in its column.

use std::collections::VecDeque;
use thermocline_units::Nanos;

/// Places that are told apart.
pub(super) const COLUMNS: u64 = 256;
/// The time that a row stands for.
pub(super) const ROW: Nanos = Nanos::from_secs(2);
/// Rows that are kept: five minutes.
const ROWS: usize = 150;

/// Accesses to a volume by place and time.
pub(super) struct HeatMap {
    /// Bytes of a column.
    pub(super) column: u64,
    open: Vec<u32>,
    rows: VecDeque<Vec<u32>>,
    /// The number of the first row that is kept.
    pub(super) first: u64,
}

impl HeatMap {
    pub(super) fn new(size: u64) -> HeatMap {
        HeatMap {
            column: size.div_ceil(COLUMNS).max(1),
            open: vec![0; COLUMNS as usize],
            rows: VecDeque::new(),
            first: 0,
        }
    }

    /// Counts an access to `length` bytes at `offset`, in every column that it touches.
    pub(super) fn note(&mut self, offset: u64, length: u64) {
        let first = (offset / self.column) as usize;
        let last = ((offset + length.max(1) - 1) / self.column) as usize;
        for count in self.open.iter_mut().take(last + 1).skip(first) {
            *count = count.saturating_add(1);
        }
    }

    /// Closes the row.
    pub(super) fn close_row(&mut self) {
        let next = if self.rows.len() < ROWS {
            vec![0; COLUMNS as usize]
        } else {
            self.first += 1;
            let mut oldest = self.rows.pop_front().expect("it is full");
            oldest.fill(0);
            oldest
        };
        self.rows.push_back(std::mem::replace(&mut self.open, next));
    }

    /// The rows from number `from` on, and the number of the first of them.
    pub(super) fn rows_from(&self, from: u64) -> (u64, Vec<Vec<u32>>) {
        let skip = from.saturating_sub(self.first);
        let rows = self.rows.iter().skip(skip as usize).cloned().collect();
        (self.first + skip.min(self.rows.len() as u64), rows)
    }
}

#[cfg(test)]
mod tests;
