//! A page-mapped flash translation layer: which page lives where, and what cleaning must move.
//!
//! 1. A logical page maps to any physical page of any die. Writes append to the die's open block;
//!    the page's old place becomes invalid.
//! 2. When a die has few free blocks left, its closed block with the fewest valid pages is the next
//!    victim (greedy). Its valid pages move to another open block of the same die; then it is
//!    erased. The work is spread over the writes that make it necessary: v moves for P − v writes,
//!    where the victim has v valid of P pages.
//! 3. Blocks are kept in lists by their number of valid pages, so each step is O(1) but for the
//!    walk to the next non-empty list, which invalidations undo one at a time.
//!
//! Greedy cleaning: Bux and Iliadis, "Performance of greedy garbage collection in flash-based SSDs"
//! (2010). We differ from devices: no wear levelling, no separation of hot and cold beyond host
//! and moved pages having blocks of their own.
//!
//! State: 8 B a page for the parts of the device that were written to (4 B each way), allocated as
//! they are; 8 B for each 256 logical pages and 28 B a block in any case, and 4 B a page of a block
//! for each die. A preconditioned device starts with logical pages striped over the dies in order,
//! which needs no state at all.

use super::stripe::Shape;

/// No page, no block.
const NONE: u32 = u32::MAX;

/// Pages whose mapping is allocated together.
const MAP_PAGES: usize = 256;

/// Blocks beside those that over-provisioning counts: one open for the host, one for moves, and
/// those kept free.
const SPARE_BLOCKS: u32 = 2 + FREE_BLOCKS;

/// Free blocks at which cleaning begins.
const FREE_BLOCKS: u32 = 2;

/// The work of cleaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cleaned {
    pub(super) moved: u32,
    pub(super) erased: u32,
}

/// A block that is being filled.
#[derive(Debug, Clone, Copy)]
struct Open {
    block: u32,
    filled: u32,
}

/// A block that is being emptied.
#[derive(Debug, Clone, Copy)]
struct Victim {
    block: u32,
    examined: u32,
    /// Moves due for each page that the host writes.
    pace: f64,
}

#[derive(Debug)]
struct Die {
    free: Vec<u32>,
    host: Open,
    moved: Open,
    victim: Option<Victim>,
    /// Moves that are due and not done.
    owed: f64,
    /// First closed block by number of valid pages.
    lists: Vec<u32>,
    /// No list below this has a block.
    lowest: u32,
    /// Valid pages on the die.
    valid: u32,
}

#[derive(Debug)]
pub(super) struct Ftl {
    shape: Shape,
    /// Blocks a die.
    blocks: u32,
    /// Valid pages beyond which a die takes no host writes.
    valid_max: u32,
    /// Physical pages of logical ones.
    map: Vec<Option<Box<[u32; MAP_PAGES]>>>,
    /// Logical pages of physical ones, by block.
    owners: Vec<Option<Box<[u32]>>>,
    /// Valid pages by block.
    valid: Vec<u32>,
    /// Neighbours in the block's list.
    links: Vec<(u32, u32)>,
    dies: Vec<Die>,
    /// The work of cleaning since it was last asked for.
    cleaned: Cleaned,
}

impl Ftl {
    pub(super) fn new(shape: Shape) -> Ftl {
        assert!(shape.block_pages.is_multiple_of(shape.batch), "blocks are whole batches");
        let die_pages = shape.die_pages();
        let physical = f64::from(die_pages) * (1.0 + shape.over_provisioning);
        let blocks = (physical / f64::from(shape.block_pages)).ceil() as u32 + SPARE_BLOCKS;
        let all = u64::from(blocks) * u64::from(shape.dies);
        assert!(all * u64::from(shape.block_pages) < u64::from(NONE), "pages are 32-bit numbers");
        let full = die_pages.div_ceil(shape.block_pages);
        let mut ftl = Ftl {
            blocks,
            valid_max: (f64::from(die_pages) * (1.0 + shape.over_provisioning / 2.0)) as u32 + 1,
            map: (0..shape.pages.div_ceil(MAP_PAGES as u32)).map(|_| None).collect(),
            owners: (0..all).map(|_| None).collect(),
            valid: vec![0; all as usize],
            links: vec![(NONE, NONE); all as usize],
            dies: Vec::new(),
            cleaned: Cleaned::default(),
            shape,
        };
        ftl.dies = (0..shape.dies).map(|die| ftl.new_die(die)).collect();
        if shape.preconditioned {
            for die in 0..shape.dies {
                ftl.fill_in_order(die, full);
            }
        }
        ftl
    }

    fn new_die(&self, die: u32) -> Die {
        let first = die * self.blocks;
        let used = if self.shape.preconditioned {
            self.shape.die_pages().div_ceil(self.shape.block_pages)
        } else {
            0
        };
        let mut free: Vec<u32> = (first + used..first + self.blocks).rev().collect();
        let mut open = || Open { block: free.pop().expect("spare blocks are free"), filled: 0 };
        let (host, moved) = (open(), open());
        Die {
            free,
            host,
            moved,
            victim: None,
            owed: 0.0,
            lists: vec![NONE; self.shape.block_pages as usize + 1],
            lowest: self.shape.block_pages,
            valid: 0,
        }
    }

    /// Closes the blocks that the first writing, in order, has filled.
    fn fill_in_order(&mut self, die: u32, full: u32) {
        let mut left = self.shape.first_pages(die);
        self.dies[die as usize].valid = left;
        for block in 0..full {
            let valid = left.min(self.shape.block_pages);
            left -= valid;
            self.valid[(die * self.blocks + block) as usize] = valid;
            self.link(die * self.blocks + block);
        }
    }

    /// The die whose turn `die` would be, or the next one that is not too full.
    pub(super) fn die_with_room(&self, die: u32) -> u32 {
        let candidates = (0..self.shape.dies).map(|step| (die + step) % self.shape.dies);
        let mut with_room = candidates.filter(|&d| self.dies[d as usize].valid < self.valid_max);
        with_room.next().expect("not all dies hold more than their share")
    }

    /// Place of a page, as (die, batch); `None` when it was never written.
    #[inline]
    pub(super) fn locate(&self, page: u32) -> Option<(u32, u32)> {
        let place = self.place_of(page);
        let die_pages = self.blocks * self.shape.block_pages;
        (place != NONE).then(|| (place / die_pages, place / self.shape.batch))
    }

    /// Writes a page to a die; cleaning must be called for.
    pub(super) fn write(&mut self, page: u32, die: u32) {
        self.forget(page);
        let mut open = self.dies[die as usize].host;
        if open.filled == self.shape.block_pages {
            self.link(open.block);
            open = Open { block: self.take_free(die), filled: 0 };
        }
        self.dies[die as usize].host = self.append(open, page, die);
    }

    /// Fills the rest of a batch with nothing.
    pub(super) fn pad(&mut self, die: u32, pages: u32) {
        self.dies[die as usize].host.filled += pages;
    }

    /// Unmaps a page.
    pub(super) fn forget(&mut self, page: u32) {
        let place = self.place_of(page);
        if place != NONE {
            self.invalidate(place);
            self.set_place(page, NONE);
        }
    }

    /// Does the cleaning that a die owes after `written` more pages; says what cleaning did since
    /// the last call.
    pub(super) fn clean(&mut self, die: u32, written: u32) -> Cleaned {
        self.choose_victim(die);
        let state = &mut self.dies[die as usize];
        if let Some(victim) = state.victim {
            state.owed += victim.pace * f64::from(written);
        }
        while self.dies[die as usize].owed >= 1.0 && self.dies[die as usize].victim.is_some() {
            self.clean_step(die);
        }
        std::mem::take(&mut self.cleaned)
    }

    /// Moves the victim's next valid page, or erases the victim when there is none.
    fn clean_step(&mut self, die: u32) {
        let Some(mut victim) = self.dies[die as usize].victim else { return };
        while victim.examined < self.shape.block_pages && self.valid[victim.block as usize] > 0 {
            let place = victim.block * self.shape.block_pages + victim.examined;
            victim.examined += 1;
            let page = self.owner_of(place);
            if page != NONE && self.place_of(page) == place {
                self.dies[die as usize].victim = Some(victim);
                self.dies[die as usize].owed -= 1.0;
                self.move_page(page, place, die);
                self.cleaned.moved += 1;
                return;
            }
        }
        self.dies[die as usize].victim = None;
        self.dies[die as usize].free.push(victim.block);
        self.cleaned.erased += 1;
        self.choose_victim(die);
    }

    fn move_page(&mut self, page: u32, place: u32, die: u32) {
        self.invalidate(place);
        let mut open = self.dies[die as usize].moved;
        if open.filled == self.shape.block_pages {
            self.link(open.block);
            let block = self.dies[die as usize].free.pop().expect("cleaning keeps a block free");
            open = Open { block, filled: 0 };
        }
        self.dies[die as usize].moved = self.append(open, page, die);
    }

    fn append(&mut self, open: Open, page: u32, die: u32) -> Open {
        let owners = self.owners[open.block as usize]
            .get_or_insert_with(|| vec![NONE; self.shape.block_pages as usize].into());
        owners[open.filled as usize] = page;
        self.valid[open.block as usize] += 1;
        self.dies[die as usize].valid += 1;
        self.set_place(page, open.block * self.shape.block_pages + open.filled);
        Open { filled: open.filled + 1, ..open }
    }

    /// A free block for the host; the last one is for moves.
    fn take_free(&mut self, die: u32) -> u32 {
        while self.dies[die as usize].free.len() < 2 {
            self.choose_victim(die);
            assert!(self.dies[die as usize].victim.is_some(), "invalid pages can be cleaned");
            self.clean_step(die);
        }
        self.dies[die as usize].free.pop().expect("there are two")
    }

    /// Takes the closed block with the fewest valid pages, if the die needs one and has none.
    fn choose_victim(&mut self, die: u32) {
        let full = self.shape.block_pages;
        let state = &mut self.dies[die as usize];
        if state.victim.is_some() || state.free.len() > FREE_BLOCKS as usize {
            return;
        }
        while state.lowest < full && state.lists[state.lowest as usize] == NONE {
            state.lowest += 1;
        }
        let block = state.lists[state.lowest as usize];
        if state.lowest == full || block == NONE {
            return;
        }
        let valid = state.lowest;
        self.unlink(block);
        let pace = f64::from(valid) / f64::from(full - valid);
        let state = &mut self.dies[die as usize];
        state.owed = state.owed.min(1.0).max(f64::from(u32::from(valid == 0)));
        state.victim = Some(Victim { block, examined: 0, pace: pace.max(1e-9) });
    }

    fn invalidate(&mut self, place: u32) {
        let block = place / self.shape.block_pages;
        let die = (block / self.blocks) as usize;
        let is_closed = self.dies[die].host.block != block
            && self.dies[die].moved.block != block
            && self.dies[die].victim.is_none_or(|victim| victim.block != block);
        if is_closed {
            self.unlink(block);
        }
        self.valid[block as usize] -= 1;
        self.dies[die].valid -= 1;
        if is_closed {
            self.link(block);
        }
    }

    fn link(&mut self, block: u32) {
        let die = &mut self.dies[(block / self.blocks) as usize];
        let valid = self.valid[block as usize];
        let next = std::mem::replace(&mut die.lists[valid as usize], block);
        die.lowest = die.lowest.min(valid);
        self.links[block as usize] = (NONE, next);
        if next != NONE {
            self.links[next as usize].0 = block;
        }
    }

    fn unlink(&mut self, block: u32) {
        let (before, after) = self.links[block as usize];
        if after != NONE {
            self.links[after as usize].0 = before;
        }
        match before {
            NONE => {
                let die = &mut self.dies[(block / self.blocks) as usize];
                die.lists[self.valid[block as usize] as usize] = after;
            }
            before => self.links[before as usize].1 = after,
        }
    }

    #[inline]
    fn place_of(&self, page: u32) -> u32 {
        match &self.map[page as usize / MAP_PAGES] {
            Some(places) => places[page as usize % MAP_PAGES],
            None => self.first_place(page),
        }
    }

    fn set_place(&mut self, page: u32, place: u32) {
        let index = page as usize / MAP_PAGES;
        if self.map[index].is_none() {
            let first = (index * MAP_PAGES) as u32;
            let places = std::array::from_fn(|i| self.first_place(first + i as u32));
            self.map[index] = Some(Box::new(places));
        }
        let places = self.map[index].as_mut().expect("just made");
        places[page as usize % MAP_PAGES] = place;
    }

    /// Place of a page while its part of the map has not been written to.
    fn first_place(&self, page: u32) -> u32 {
        let place = self.shape.first_place(page);
        place.map_or(NONE, |(die, slot)| die * self.blocks * self.shape.block_pages + slot)
    }

    fn owner_of(&self, place: u32) -> u32 {
        let block = place / self.shape.block_pages;
        if let Some(owners) = &self.owners[block as usize] {
            return owners[(place % self.shape.block_pages) as usize];
        }
        let die_pages = self.blocks * self.shape.block_pages;
        self.shape.first_owner(place / die_pages, place % die_pages).unwrap_or(NONE)
    }

    /// Checks that every page is where the books say, and that the books agree.
    #[cfg(test)]
    pub(super) fn audit(&self) {
        let mut valid = vec![0; self.valid.len()];
        let mut places = std::collections::BTreeSet::new();
        for page in 0..self.shape.pages {
            let place = self.place_of(page);
            if place != NONE {
                assert!(places.insert(place), "two pages in one place");
                assert_eq!(self.owner_of(place), page);
                valid[(place / self.shape.block_pages) as usize] += 1;
            }
        }
        assert_eq!(valid, self.valid);
        for (index, die) in self.dies.iter().enumerate() {
            let first = index * self.blocks as usize;
            let held: u32 = valid[first..first + self.blocks as usize].iter().sum();
            assert_eq!(held, die.valid);
            assert!(die.free.iter().all(|&block| valid[block as usize] == 0));
        }
    }
}
