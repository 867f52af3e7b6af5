//! The table of stored blocks: 24 bytes each, by number.
//!
//! The table consists of pages, so that its growth moves nothing. Its counts of references are a
//! cache: they are counted anew when a store is opened, and `check` compares them with the maps.

use crate::index::Index;
use crate::name::BlockId;
use thermocline_units::VolumeId;

const PAGE: usize = 1 << 14;

/// Entry of a block in memory, 24 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C, packed(4))]
pub(crate) struct Entry {
    /// First bytes of the hash, mixed with the domain.
    pub(crate) short: u64,
    /// Address of its slot, in blocks from the device's start; 0: the number is free.
    pub(crate) place: u32,
    pub(crate) generation: u32,
    /// Leaves of maps that name it, once for each entry.
    pub(crate) refs: u32,
    /// The volume whose write stored it.
    pub(crate) owner: u32,
}

/// Table of stored blocks by number, and the index by hash.
#[derive(Debug)]
pub(crate) struct Blocks {
    pages: Vec<Box<[Entry]>>,
    /// Highest number ever given; numbers begin at 1.
    top: u32,
    free: Vec<u32>,
    used: u32,
    pub(crate) index: Index,
}

impl Blocks {
    pub(crate) fn new() -> Blocks {
        Blocks { pages: Vec::new(), top: 0, free: Vec::new(), used: 0, index: Index::new() }
    }

    /// The highest number that was ever given.
    pub(crate) fn top(&self) -> u32 {
        self.top
    }

    /// Numbers in use.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// Bytes of memory, the index included.
    pub(crate) fn memory(&self) -> usize {
        self.pages.len() * PAGE * size_of::<Entry>()
            + self.free.capacity() * size_of::<u32>()
            + self.index.memory()
    }

    pub(crate) fn entry(&self, number: u32) -> Entry {
        let number = number as usize;
        self.pages.get(number / PAGE).map_or(Entry::default(), |page| page[number % PAGE])
    }

    fn entry_mut(&mut self, number: u32) -> &mut Entry {
        let number = number as usize;
        &mut self.pages[number / PAGE][number % PAGE]
    }

    /// True if the number names a stored block.
    pub(crate) fn is_used(&self, number: u32) -> bool {
        number != 0 && self.entry(number).place != 0
    }

    pub(crate) fn id(&self, number: u32) -> BlockId {
        BlockId { number, generation: self.entry(number).generation }
    }

    /// Extends the table up to `number`.
    fn reach(&mut self, number: u32) {
        while self.pages.len() * PAGE <= number as usize {
            self.pages.push(vec![Entry::default(); PAGE].into());
        }
        self.top = self.top.max(number);
    }

    /// Gives a block a free number, under which the index finds it from now on.
    pub(crate) fn give(&mut self, entry: Entry) -> u32 {
        let number = self.free.pop().unwrap_or(self.top + 1);
        self.reach(number);
        self.restore(number, entry);
        self.find_by_hash(number);
        number
    }

    /// Sets the entry of a number, as found on the device, without adding it to the index.
    pub(crate) fn restore(&mut self, number: u32, entry: Entry) {
        self.reach(number);
        let slot = self.entry_mut(number);
        let was_used = slot.place != 0;
        *slot = entry;
        self.used = self.used + u32::from(entry.place != 0) - u32::from(was_used);
    }

    /// Adds the number to the index.
    pub(crate) fn find_by_hash(&mut self, number: u32) {
        let Blocks { pages, index, .. } = self;
        let short = |number: u32| pages[number as usize / PAGE][number as usize % PAGE].short;
        index.insert(short(number), number, short);
    }

    /// Removes the number from the index; returns false if it was not there.
    pub(crate) fn hide(&mut self, number: u32) -> bool {
        let Blocks { pages, index, .. } = self;
        let short = |number: u32| pages[number as usize / PAGE][number as usize % PAGE].short;
        index.remove(short(number), number, short)
    }

    /// Frees the number.
    pub(crate) fn release(&mut self, number: u32) {
        self.hide(number);
        self.restore(number, Entry::default());
        self.free.push(number);
    }

    /// Collects the free numbers below the highest one, after an opening. The lowest is given
    /// first.
    pub(crate) fn count_free(&mut self) {
        let free = (1..=self.top).rev().filter(|&number| self.entry(number).place == 0);
        self.free = free.collect();
    }

    pub(crate) fn move_to(&mut self, number: u32, place: u32) {
        self.entry_mut(number).place = place;
    }

    /// Adds a reference; returns true if it is the first.
    pub(crate) fn add_ref(&mut self, number: u32) -> bool {
        let entry = self.entry_mut(number);
        entry.refs += 1;
        entry.refs == 1
    }

    /// Drops a reference; returns true if it was the last.
    pub(crate) fn drop_ref(&mut self, number: u32) -> bool {
        let entry = self.entry_mut(number);
        entry.refs -= 1;
        entry.refs == 0
    }

    /// The volume that a block is charged to.
    pub(crate) fn owner(&self, number: u32) -> VolumeId {
        VolumeId(self.entry(number).owner)
    }

    /// Number of a block with this short hash for which `is_usable` is true.
    pub(crate) fn candidate(
        &self,
        short: u64,
        mut is_usable: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        self.index.find(short, |number| self.entry(number).short == short && is_usable(number))
    }
}
