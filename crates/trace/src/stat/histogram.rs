//! A compact histogram of whole numbers, for percentiles of what is too long to keep.
//!
//! Steps:
//! 1. A value's row is its power of two, its cell in the row the next seven bits: 128 cells a row.
//!    Values below 256 have cells of their own.
//! 2. A percentile is the smallest value of the cell where the running count reaches it (nearest
//!    rank), never outside the smallest and largest value seen.
//!
//! After HdrHistogram (G. Tene, 2012), with the base of a cell reported in place of its middle, so
//! that request sizes come out as they are: a multiple of 512 B below 128 KiB is told exactly. What
//! is told lies at most 1/128 below the truth and never above it.
//!
//! State: 1 KiB for every power of two that occurs. Sum, smallest and largest are exact.

/// Bits of a value, below its highest, that are kept.
const CELL_BITS: u32 = 7;
const CELLS: usize = 1 << CELL_BITS;

/// Counts of values by size, in cells at most 1/128 wide relative to their values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    /// Row 0 holds the values below 128; row r > 0 those from 2^(r+6) to 2^(r+7).
    rows: Vec<Option<Box<[u64; CELLS]>>>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

#[inline]
fn place(value: u64) -> (usize, usize) {
    if value < CELLS as u64 {
        return (0, value as usize);
    }
    let power = value.ilog2();
    let cell = (value >> (power - CELL_BITS)) as usize & (CELLS - 1);
    ((power - CELL_BITS + 1) as usize, cell)
}

/// The smallest value of a cell.
fn base(row: usize, cell: usize) -> u64 {
    match row {
        0 => cell as u64,
        _ => ((CELLS + cell) as u64) << (row - 1),
    }
}

impl Histogram {
    /// Counts one value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let (row, cell) = place(value);
        if row >= self.rows.len() {
            self.rows.resize_with(row + 1, || None);
        }
        self.rows[row].get_or_insert_with(|| Box::new([0; CELLS]))[cell] += 1;
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// Counts everything that `other` counted.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        if other.rows.len() > self.rows.len() {
            self.rows.resize_with(other.rows.len(), || None);
        }
        for (mine, theirs) in self.rows.iter_mut().zip(&other.rows) {
            let Some(theirs) = theirs else { continue };
            let mine = mine.get_or_insert_with(|| Box::new([0; CELLS]));
            mine.iter_mut().zip(theirs.iter()).for_each(|(mine, theirs)| *mine += theirs);
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// Number of values counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exact mean; `None` when nothing was counted.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The smallest value, exactly; `None` when nothing was counted.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value, exactly; `None` when nothing was counted.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The value that `share` (0 to 1) of all values do not exceed, by nearest rank: at most 1/128
    /// below the truth, never above it. `None` when nothing was counted.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (base, count) in self.cells() {
            seen += count;
            if seen >= rank {
                return Some(base.clamp(self.min, self.max));
            }
        }
        None
    }

    /// Counts between powers of two: each pair is a power of two and how many values lie from it to
    /// below its double, ascending, without empty ones. A value of 0 counts as 1.
    pub fn powers_of_two(&self) -> Vec<(u64, u64)> {
        let mut powers: Vec<(u64, u64)> = Vec::new();
        for (base, count) in self.cells() {
            let power = 1 << base.max(1).ilog2();
            match powers.last_mut() {
                Some((last, sum)) if *last == power => *sum += count,
                _ => powers.push((power, count)),
            }
        }
        powers
    }

    /// Every occupied cell's smallest value and count, ascending.
    fn cells(&self) -> impl Iterator<Item = (u64, u64)> {
        let rows = self.rows.iter().enumerate();
        rows.filter_map(|(row, cells)| cells.as_ref().map(|cells| (row, cells)))
            .flat_map(|(row, cells)| {
                cells.iter().enumerate().map(move |(cell, count)| (base(row, cell), *count))
            })
            .filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests;
