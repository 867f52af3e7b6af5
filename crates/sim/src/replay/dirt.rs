//! Set of dirty lines in each size of cache: 1 to 64 bits a line.

use thermocline_units::LineId;

/// Dirty bits of every line, one a size.
#[derive(Debug)]
pub(super) struct Dirt {
    words: Vec<u64>,
    /// Bits a line: the sizes, rounded up to a power of two.
    width: u32,
    /// The bits of all sizes.
    all: u64,
    /// True if any line has ever been dirty.
    ever: bool,
}

impl Dirt {
    /// Nothing dirty, for 1 to 64 sizes.
    pub(super) fn new(sizes: usize) -> Dirt {
        assert!((1..=64).contains(&sizes), "one bit a size in a word of 64");
        let width = sizes.next_power_of_two() as u32;
        Dirt { words: Vec::new(), width, all: u64::MAX >> (64 - sizes), ever: false }
    }

    /// Lines below `universe` may be named from now on.
    pub(super) fn reserve(&mut self, universe: u32) {
        let words = (u64::from(universe) * u64::from(self.width)).div_ceil(64) as usize;
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
    }

    /// True if no line has ever been dirty.
    pub(super) fn never(&self) -> bool {
        !self.ever
    }

    #[inline]
    fn place(&self, line: LineId) -> (usize, u32) {
        let bit = u64::from(line.0) * u64::from(self.width);
        ((bit / 64) as usize, (bit % 64) as u32)
    }

    /// Makes the line dirty or clean in all sizes.
    #[inline]
    pub(super) fn set_all(&mut self, line: LineId, dirty: bool) {
        self.ever |= dirty;
        let (word, shift) = self.place(line);
        let word = &mut self.words[word];
        *word = if dirty { *word | self.all << shift } else { *word & !(self.all << shift) };
    }

    /// Makes the line clean in one size; whether it was dirty.
    #[inline]
    pub(super) fn clean(&mut self, line: LineId, size: usize) -> bool {
        let (word, shift) = self.place(line);
        let bit = 1 << (shift + size as u32);
        let was = self.words[word] & bit != 0;
        self.words[word] &= !bit;
        was
    }
}
