//! A pool of bytes for what things need above a floor of their own.
//!
//! Each thing has its floor for itself; only what it has above that comes from here. So none can
//! take another's floor, and the sum of all has a bound.

/// Bytes above floors.
#[derive(Debug)]
pub(crate) struct Pool {
    floor: u64,
    size: u64,
    left: u64,
}

impl Pool {
    /// A pool of `size` bytes for things that have `floor` bytes of their own.
    pub(crate) fn new(floor: u32, size: u64) -> Pool {
        Pool { floor: floor.into(), size, left: size }
    }

    /// Bytes that each thing has of its own.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Bytes that nobody has.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// True if nobody has anything of it.
    #[cfg(test)]
    pub(crate) fn is_full(&self) -> bool {
        self.left == self.size
    }

    /// Bytes that a thing that has `now` bytes may have at most.
    pub(crate) fn most(&self, now: u64) -> u64 {
        now.max(self.floor) + self.left
    }

    /// A thing that had `before` bytes now has `after`.
    ///
    /// # Panics
    /// When that is more than there is.
    pub(crate) fn resize(&mut self, before: u64, after: u64) {
        let (before, after) = (before.saturating_sub(self.floor), after.saturating_sub(self.floor));
        self.left += before;
        assert!(self.left <= self.size, "a pool gets back what it gave");
        self.left = self.left.checked_sub(after).expect("a pool gives what it has");
    }
}
