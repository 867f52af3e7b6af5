//! Sending side of a stream: what waits, the credit for it, and whether it is ended.

use crate::format::{CHARGE_BYTES_MIN, charge};
use crate::pool::Pool;
use bytes::Bytes;
use std::collections::VecDeque;
use thermocline_units::mutants::mutant;

/// State of a direction: the user may go on, has ended it, and the end has left as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Open,
    Ending,
    Ended,
}

/// Bytes that wait to be sent on a stream. State: 56 bytes and what waits.
#[derive(Debug)]
pub(crate) struct Queue {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    credit: u64,
    direction: Direction,
    /// The user had more than there was room for.
    wanting: bool,
}

impl Queue {
    /// An empty queue of a stream on which `credit` bytes may be sent.
    pub(crate) fn new(credit: u32) -> Queue {
        Queue {
            pieces: VecDeque::new(),
            bytes: 0,
            credit: credit.into(),
            direction: Direction::Open,
            wanting: false,
        }
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Credit for what waits and what comes.
    pub(crate) fn credit(&self) -> u64 {
        self.credit
    }

    /// State of the direction.
    pub(crate) fn direction(&self) -> Direction {
        self.direction
    }

    /// Bytes that fit now.
    pub(crate) fn room(&self, pool: &Pool, most: u32) -> usize {
        let most = pool.most(self.bytes as u64).min(most.into()) as usize;
        most.saturating_sub(self.bytes)
    }

    /// Takes what fits off the front of `bytes`; how much that was.
    pub(crate) fn push(&mut self, bytes: &mut Bytes, pool: &mut Pool, most: u32) -> usize {
        assert_eq!(self.direction, Direction::Open, "nothing follows the end");
        let fits = bytes.len().min(self.room(pool, most));
        self.wanting |= fits < bytes.len();
        if fits > 0 {
            pool.resize(self.bytes as u64, (self.bytes + fits) as u64);
            self.pieces.push_back(bytes.split_to(fits));
            self.bytes += fits;
        }
        fits
    }

    /// Nothing follows what waits.
    pub(crate) fn end(&mut self) {
        if self.direction == Direction::Open {
            self.direction = Direction::Ending;
        }
        self.wanting = false;
    }

    /// Adds credit; false: it would be more than `most`.
    pub(crate) fn grant(&mut self, bytes: u32, most: u32) -> bool {
        self.credit += u64::from(bytes);
        self.credit <= most.into()
    }

    /// True if a frame could leave.
    pub(crate) fn is_ready(&self) -> bool {
        match self.bytes {
            0 => self.direction == Direction::Ending,
            _ => self.credit >= CHARGE_BYTES_MIN,
        }
    }

    /// Bytes that the next frame could have.
    pub(crate) fn sendable(&self) -> usize {
        if self.credit < CHARGE_BYTES_MIN { 0 } else { self.bytes.min(self.credit as usize) }
    }

    /// True if a frame with the next `count` bytes is the last one; then the direction has ended.
    pub(crate) fn ends_with(&mut self, count: usize) -> bool {
        let last = count == self.bytes || mutant("end_overtakes_data");
        let ends = self.direction == Direction::Ending && last;
        if ends {
            self.direction = Direction::Ended;
        }
        ends
    }

    /// Hands the next `count` bytes to `give`, piece by piece, and pays for them.
    pub(crate) fn take(&mut self, count: usize, pool: &mut Pool, mut give: impl FnMut(Bytes)) {
        if !mutant("credit_not_paid") {
            self.credit -= charge(count);
        }
        pool.resize(self.bytes as u64, (self.bytes - count) as u64);
        self.bytes -= count;
        let mut left = count;
        while left > 0 {
            let piece = self.pieces.front_mut().expect("the bytes that were counted");
            if piece.len() > left {
                give(piece.split_to(left));
                return;
            }
            left -= piece.len();
            self.pieces.pop_front().into_iter().for_each(&mut give);
        }
        if self.pieces.is_empty() {
            self.pieces = VecDeque::new(); // An idle stream keeps no memory.
        }
    }

    /// True, once, if the user had too much and there is room again: half of the floor or more.
    pub(crate) fn takes_again(&mut self, pool: &Pool, most: u32) -> bool {
        let enough = (u64::from(most) / 2).min(pool.floor().div_ceil(2)).max(1);
        let again = self.wanting && self.room(pool, most) as u64 >= enough;
        self.wanting &= !again || mutant("writable_told_twice");
        again && !mutant("writable_forgotten")
    }

    /// Drops what waits: the stream is over. An end that has not left never will.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        pool.resize(self.bytes as u64, 0);
        (self.pieces, self.bytes, self.wanting) = (VecDeque::new(), 0, false);
    }
}
