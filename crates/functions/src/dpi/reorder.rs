//! Bytes that came ahead of a gap in their stream, and ends of streams, kept until the gap is
//! filled.
//!
//! The first bytes for a place count; a later segment that contradicts them is refused. Pieces of a
//! direction never overlap. Room is bounded for each direction and over all of them. A segment is
//! compared with the pieces that it touches alone, because a direction may have tens of thousands.

use super::scan::Key;
use std::collections::BTreeMap;
use thermocline_units::mutants::mutant;

/// Memory that a piece takes beside its bytes.
const PIECE_BYTES: usize = 96;

/// A refusal of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// A segment that contradicts bytes that are here.
    Conflict,
    /// There is no room.
    Full,
}

/// Pieces of all directions, by direction and position.
#[derive(Debug)]
pub(super) struct Reorder {
    pieces: BTreeMap<(Key, u64), Vec<u8>>,
    /// Ends of streams of which bytes before the end are missing.
    ends: BTreeMap<Key, u64>,
    /// Memory of the pieces of each direction that has any.
    held: BTreeMap<Key, usize>,
    bytes: usize,
    bytes_max: usize,
    direction_bytes_max: usize,
}

impl Reorder {
    pub(super) fn new(bytes_max: usize, direction_bytes_max: usize) -> Reorder {
        Reorder {
            pieces: BTreeMap::new(),
            ends: BTreeMap::new(),
            held: BTreeMap::new(),
            bytes: 0,
            bytes_max,
            direction_bytes_max,
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.bytes
    }

    fn of(&self, key: Key) -> impl DoubleEndedIterator<Item = (u64, &Vec<u8>)> {
        self.pieces.range((key, 0)..=(key, u64::MAX)).map(|(&(_, at), bytes)| (at, bytes))
    }

    /// Pieces that may have bytes in a range: the last one that begins at or before it, and all
    /// that begin within it.
    fn touching(&self, key: Key, at: u64, end: u64) -> impl Iterator<Item = (u64, &Vec<u8>)> {
        let before = self.pieces.range((key, 0)..=(key, at)).next_back();
        let from = before.map_or(at, |(&(_, start), _)| start);
        self.pieces.range((key, from)..(key, end.max(from))).map(|(&(_, at), bytes)| (at, bytes))
    }

    /// Start of what is kept.
    pub(super) fn first(&self, key: Key) -> Option<u64> {
        self.of(key).next().map(|(start, _)| start)
    }

    /// The place behind what is kept.
    pub(super) fn end(&self, key: Key) -> Option<u64> {
        self.of(key).next_back().map(|(start, bytes)| start + bytes.len() as u64)
    }

    /// The place where the stream ends, if it was kept.
    pub(super) fn known_end(&self, key: Key) -> Option<u64> {
        self.ends.get(&key).copied()
    }

    /// True if bytes at a position agree with all that is here for the same places.
    pub(super) fn agrees(&self, key: Key, at: u64, bytes: &[u8]) -> bool {
        let end = at + bytes.len() as u64;
        self.touching(key, at, end).all(|(start, piece)| {
            let (from, to) = (start.max(at), (start + piece.len() as u64).min(end));
            from >= to
                || mutant("later_bytes_of_an_overlap_are_believed")
                || piece[(from - start) as usize..(to - start) as usize]
                    == bytes[(from - at) as usize..(to - at) as usize]
        })
    }

    /// Keeps what is not here yet of bytes at a position.
    pub(super) fn keep(&mut self, key: Key, at: u64, bytes: &[u8]) -> Result<(), Refused> {
        if !self.agrees(key, at, bytes) {
            return Err(Refused::Conflict);
        }
        let end = at + bytes.len() as u64;
        let mut gaps = Vec::new();
        let mut from = at;
        for (start, piece) in self.touching(key, at, end) {
            if start > from {
                gaps.push((from, start));
            }
            from = from.max(start + piece.len() as u64);
        }
        if from < end {
            gaps.push((from, end));
        }
        let new: usize = gaps.iter().map(|(a, b)| (b - a) as usize + PIECE_BYTES).sum();
        let held = self.held.get(&key).copied().unwrap_or(0);
        if held + new > self.direction_bytes_max || self.bytes + new > self.bytes_max {
            return Err(Refused::Full);
        }
        if new > 0 {
            self.held.insert(key, held + new);
        }
        self.bytes += new;
        for (from, to) in gaps {
            let part = bytes[(from - at) as usize..(to - at) as usize].to_vec();
            self.pieces.insert((key, from), part);
        }
        Ok(())
    }

    /// Keeps the place where a stream ends, which bytes that are here must not lie behind.
    pub(super) fn keep_end(&mut self, key: Key, at: u64) -> Result<(), Refused> {
        if let Some(&known) = self.ends.get(&key) {
            return if known == at { Ok(()) } else { Err(Refused::Conflict) };
        }
        if self.end(key).is_some_and(|end| end > at) {
            return Err(Refused::Conflict);
        }
        if self.bytes + PIECE_BYTES > self.bytes_max {
            return Err(Refused::Full);
        }
        self.bytes += PIECE_BYTES;
        self.ends.insert(key, at);
        Ok(())
    }

    /// True if a stream has come to the end that was kept, which is forgotten then.
    pub(super) fn take_end(&mut self, key: Key, position: u64) -> bool {
        let reached = self.ends.get(&key).is_some_and(|&at| at <= position);
        if reached {
            self.forget_end(key);
        }
        reached
    }

    fn forget_end(&mut self, key: Key) {
        if self.ends.remove(&key).is_some() {
            self.bytes -= PIECE_BYTES;
        }
    }

    /// Takes the first piece if the stream has come to it, without what it has passed already.
    pub(super) fn next(&mut self, key: Key, position: u64) -> Option<Vec<u8>> {
        loop {
            let start = self.first(key)?;
            if start > position {
                return None;
            }
            let piece = self.remove(key, start);
            let passed = (position - start) as usize;
            if passed < piece.len() {
                return Some(piece[passed..].to_vec());
            }
        }
    }

    /// True if nothing is kept for a direction.
    pub(super) fn is_empty(&self, key: Key) -> bool {
        self.first(key).is_none() && !self.ends.contains_key(&key)
    }

    fn remove(&mut self, key: Key, start: u64) -> Vec<u8> {
        let piece = self.pieces.remove(&(key, start)).unwrap_or_default();
        let freed = piece.len() + PIECE_BYTES;
        self.bytes -= freed;
        if let Some(held) = self.held.get_mut(&key) {
            *held -= freed;
            if *held == 0 {
                self.held.remove(&key);
            }
        }
        piece
    }

    /// Forgets all of a direction.
    pub(super) fn forget(&mut self, key: Key) {
        while let Some(start) = self.first(key) {
            self.remove(key, start);
        }
        self.forget_end(key);
    }
}

#[cfg(test)]
mod tests;
