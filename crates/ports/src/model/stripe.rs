//! The shape of a flash device, and where its pages lie before anything is written to it.
//!
//! A preconditioned device was written once, in order: batches of pages went to one die after the
//! other, and filled each die's blocks from the first on. Which page lies where is arithmetic then.

/// The shape of a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Logical pages.
    pub(super) pages: u32,
    /// Dies.
    pub(super) dies: u32,
    /// Pages that are written to one die at a time.
    pub(super) batch: u32,
    /// Pages a block; a multiple of `batch`.
    pub(super) block_pages: u32,
    /// Physical over logical space, minus one.
    pub(super) over_provisioning: f64,
    /// True if all pages are written before the first request.
    pub(super) preconditioned: bool,
}

impl Shape {
    /// Logical pages a die, where it gets most.
    pub(super) fn die_pages(&self) -> u32 {
        self.pages.div_ceil(self.batch).div_ceil(self.dies) * self.batch
    }

    /// Logical pages that the first writing put on `die`.
    pub(super) fn first_pages(&self, die: u32) -> u32 {
        let batches = self.pages.div_ceil(self.batch);
        let mine = batches.saturating_sub(die).div_ceil(self.dies);
        let holds_last = mine > 0 && (batches - 1) % self.dies == die;
        let missing = if holds_last { batches * self.batch - self.pages } else { 0 };
        mine * self.batch - missing
    }

    /// Place of a page in the first writing, as (die, page of the die); `None` when there was none.
    pub(super) fn first_place(&self, page: u32) -> Option<(u32, u32)> {
        let (batch, rest) = (page / self.batch, page % self.batch);
        let is_written = self.preconditioned && page < self.pages;
        is_written.then(|| (batch % self.dies, batch / self.dies * self.batch + rest))
    }

    /// The page that the first writing put there; `None` when there was none.
    pub(super) fn first_owner(&self, die: u32, slot: u32) -> Option<u32> {
        let batch = u64::from(slot / self.batch) * u64::from(self.dies) + u64::from(die);
        let page = batch * u64::from(self.batch) + u64::from(slot % self.batch);
        (self.preconditioned && page < u64::from(self.pages)).then_some(page as u32)
    }
}
