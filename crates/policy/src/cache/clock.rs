//! CLOCK (Corbató 1969) and its counting generalisation GCLOCK (Smith 1978).
//!
//! 1. A hit raises the line's counter, of `bits` bits, by one until it is full. One bit is CLOCK.
//! 2. A miss of a full cache moves the hand over the frames: each line with a counter above zero
//!    loses one and is passed, the first at zero is evicted.
//! 3. The new line takes the frame under the hand, which moves on, with its counter at `first`.
//!
//! With the same widths and starts the misses are libCacheSim 0.3.5's (`n_bit_counter`,
//! `init_freq`).
//!
//! Since the hand has just passed the new line's frame, this is FIFO with reinsertion, frame by
//! frame. Counters are bit-sliced: the hand passes up to 64 frames a step. A discarded line's frame
//! is taken by the next line that comes, wherever the hand is.
//!
//! State: 4 B and `bits` bits a cached line, 4 B more a frame emptied by a discard; 4 B a distinct
//! line. O(1) an access, amortised over the hits that raise counters.

use super::{Outcome, Replacement};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting};
use thermocline_units::{LineId, prefetch};

pub(crate) const ENTRY: Entry = Entry {
    name: "clock",
    summary: "one hand over fixed frames gives every line that was hit another turn",
    source: "Corbató 1969; counters: Smith 1978",
    settings: &[
        Setting {
            name: "bits",
            default: "1",
            unit: "bits, 1 to 3",
            help: "width of a line's counter; 1 is CLOCK, more is GCLOCK",
        },
        Setting { name: "first", default: "0", unit: "hits", help: "a new line's counter" },
    ],
    build: Build::Cache(|geometry, settings| {
        let bits = settings.count("bits", 1, 3)?;
        let first = settings.count("first", 0, (1 << bits) - 1)? as u8;
        Ok(match bits {
            1 => Box::new(Clock::<1>::new(geometry.lines, first)),
            2 => Box::new(Clock::<2>::new(geometry.lines, first)),
            _ => Box::new(Clock::<3>::new(geometry.lines, first)),
        })
    }),
};

/// Number of frames ahead of the hand for which index words are asked.
const AHEAD: usize = 16;

/// Frames, their counters and the hand.
#[derive(Debug)]
pub(crate) struct Clock<const BITS: usize> {
    /// One more than the frame of each line; 0 for none.
    index: Vec<u32>,
    /// The line in each frame that has been filled so far.
    frames: Vec<u32>,
    /// Counters of 64 frames at a time: word `b` has bit `b` of each.
    counters: Vec<[u64; BITS]>,
    /// The next frame to look at.
    hand: u32,
    /// Frames emptied by discards.
    vacant: Vec<u32>,
    capacity: u32,
    first: u8,
}

impl<const BITS: usize> Clock<BITS> {
    /// An empty cache of `capacity` ≥ 1 lines, whose counters start at `first`.
    pub(crate) fn new(capacity: u32, first: u8) -> Clock<BITS> {
        assert!(capacity > 0, "a cache holds at least one line");
        Clock {
            index: Vec::new(),
            frames: Vec::new(),
            counters: Vec::new(),
            hand: 0,
            vacant: Vec::new(),
            capacity,
            first,
        }
    }

    /// Adds one to the counter of `frame` unless it is full.
    #[inline(always)]
    fn raise(&mut self, frame: u32) {
        let word = &mut self.counters[frame as usize / 64];
        let bit = 1 << (frame % 64);
        if BITS == 1 {
            word[0] |= bit;
        } else if word.iter().any(|b| b & bit == 0) {
            let mut carry = bit;
            for plane in word {
                (*plane, carry) = (*plane ^ carry, *plane & carry);
            }
        }
    }

    /// Sets the counter of `frame` to where it starts.
    #[inline(always)]
    fn start(&mut self, frame: u32) {
        let bit = 1 << (frame % 64);
        for (b, plane) in self.counters[frame as usize / 64].iter_mut().enumerate() {
            *plane = if self.first >> b & 1 == 1 { *plane | bit } else { *plane & !bit };
        }
    }

    /// Moves the hand to the first frame at zero, taking one from every counter passed, and past
    /// it.
    #[inline(always)]
    fn turn(&mut self) -> u32 {
        loop {
            let start = self.hand & !63;
            let frames = (self.capacity - start).min(64);
            let ahead = (!0 >> (64 - frames)) & (!0 << (self.hand % 64));
            let word = &mut self.counters[start as usize / 64];
            let raised = word.iter().fold(0, |all, plane| all | plane);
            let zero = !raised & ahead;
            let mut borrow =
                if zero == 0 { ahead } else { ahead & ((zero & zero.wrapping_neg()) - 1) };
            for plane in word {
                (*plane, borrow) = (*plane ^ borrow, !*plane & borrow);
            }
            let passed = if zero == 0 { frames } else { zero.trailing_zeros() + 1 };
            self.hand = if start + passed == self.capacity { 0 } else { start + passed };
            if zero != 0 {
                return start + passed - 1;
            }
        }
    }

    /// A frame for a new line, and what that did.
    #[inline(always)]
    fn free_frame(&mut self) -> (u32, Outcome) {
        if let Some(frame) = self.vacant.pop() {
            return (frame, Outcome::ADMITTED);
        }
        let filled = self.frames.len() as u32;
        if filled < self.capacity {
            self.frames.push(0);
            if filled.is_multiple_of(64) {
                self.counters.push([0; BITS]);
            }
            return (filled, Outcome::ADMITTED);
        }
        let frame = self.turn();
        if let Some(coming) = self.frames.get(frame as usize + AHEAD) {
            prefetch(&self.index, *coming as usize);
        }
        let victim = LineId(self.frames[frame as usize]);
        self.index[victim.index()] = 0;
        (frame, Outcome::evicting(victim))
    }
}

impl<const BITS: usize> Replacement for Clock<BITS> {
    fn reserve(&mut self, universe: u32) {
        super::grow(&mut self.index, universe);
    }

    #[inline(always)]
    fn access(&mut self, line: LineId) -> Outcome {
        let word = self.index[line.index()];
        if word != 0 {
            self.raise(word - 1);
            return Outcome::HIT;
        }
        let (frame, outcome) = self.free_frame();
        self.frames[frame as usize] = line.0;
        self.start(frame);
        self.index[line.index()] = frame + 1;
        outcome
    }

    fn contains(&self, line: LineId) -> bool {
        self.index[line.index()] != 0
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        let word = std::mem::take(&mut self.index[line.index()]);
        if word != 0 {
            self.vacant.push(word - 1);
        }
        word != 0
    }

    fn resident(&self) -> u32 {
        self.frames.len() as u32 - self.vacant.len() as u32
    }

    fn footprint(&self) -> Footprint {
        let frames = self.frames.capacity() + self.vacant.capacity();
        Footprint {
            resident: frames as u64 * 4 + (self.counters.capacity() * BITS) as u64 * 8,
            index: self.index.len() as u64 * 4,
        }
    }

    #[inline(always)]
    fn prefetch_far(&self, line: LineId) {
        prefetch(&self.index, line.index());
    }
}

#[cfg(test)]
mod tests;
