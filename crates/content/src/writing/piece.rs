//! Requests cut into blocks: the contents of each written block, and the stored block that has
//! them.

use crate::name::{BLOCK, ContentId};
use std::ops::Range;
use thermocline_ports::Payload;
use thermocline_units::situations::met;

/// Contents that a piece brings.
#[derive(Debug, Clone)]
enum Source {
    /// These bytes of the block; the rest stays.
    Part { from: u32, data: Payload },
    /// All of the block.
    Data(Payload),
    /// A name only.
    Name,
}

/// A block of a write.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) block: u32,
    source: Source,
    content: Option<ContentId>,
    /// The stored block, once it is known. 0: zeroes, or not yet known.
    number: u32,
    is_settled: bool,
    /// Candidates that turned out to be others, or damaged.
    rejected: Vec<u32>,
}

impl Piece {
    fn new(block: u32, source: Source) -> Piece {
        let rejected = Vec::new();
        Piece { block, source, content: None, number: 0, is_settled: false, rejected }
    }

    fn of_part(index: u64, from: u64, part: Payload) -> Piece {
        let source = match part.len() {
            BLOCK => Source::Data(part),
            _ => Source::Part { from: from as u32, data: part },
        };
        Piece::new(index as u32, source)
    }

    /// A block of this content, which is stored or not.
    pub(super) fn of_name(block: u32, content: ContentId) -> Piece {
        Piece { content: Some(content), ..Piece::new(block, Source::Name) }
    }

    /// True if the block must be read first.
    pub(super) fn is_part(&self) -> bool {
        matches!(self.source, Source::Part { .. })
    }

    /// Completes a part of a block with the rest of the block from `old`.
    pub(super) fn complete(&mut self, old: &Payload) {
        let Source::Part { from, data } = &self.source else {
            unreachable!("edges are parts until they are read")
        };
        let mut bytes = old.to_vec();
        let from = *from as usize;
        data.copy_to(&mut bytes[from..from + data.len() as usize]);
        self.source = Source::Data(Payload::from(bytes));
    }

    /// True once its stored block is known, or once it is known to be zeroes.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// The stored block; 0: zeroes, or not known.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Its name, if it has one yet.
    pub(super) fn content(&self) -> Option<ContentId> {
        self.content
    }

    /// Its name, computed if it has none yet. `None` if it is zeroes; it is then settled.
    pub(super) fn name(&mut self) -> Option<ContentId> {
        if self.content.is_none() {
            match &self.source {
                Source::Data(Payload::Bytes(bytes)) if !is_zero(bytes) => {
                    self.content = Some(ContentId::of(bytes));
                }
                Source::Data(_) => self.is_settled = true,
                _ => unreachable!("edges were read, and names are there from the beginning"),
            }
        }
        self.content
    }

    /// The bytes of a block that is to be stored.
    pub(super) fn data(&self) -> Payload {
        let Source::Data(data) = &self.source else { unreachable!("names are never new") };
        data.clone()
    }

    /// Settles it to this stored block.
    pub(super) fn settle(&mut self, number: u32) {
        (self.number, self.is_settled) = (number, true);
    }

    /// Excludes a candidate that has other contents or is damaged.
    pub(super) fn reject(&mut self, number: u32) {
        self.rejected.push(number);
    }

    /// Makes it unsettled again, because the write of its stored block failed.
    pub(super) fn unsettle(&mut self) {
        self.rejected.push(self.number);
        (self.number, self.is_settled) = (0, false);
    }

    pub(super) fn may_be(&self, number: u32) -> bool {
        !self.rejected.contains(&number)
    }
}

/// The blocks of a write of bytes at an offset, and their range.
pub(super) fn of_data(at: u64, data: &Payload) -> (Vec<Piece>, Range<u32>) {
    let block = u64::from(BLOCK);
    let end = at + u64::from(data.len());
    let mut pieces = Vec::new();
    for index in at / block..end.div_ceil(block) {
        let (from, to) = (at.max(index * block), end.min((index + 1) * block));
        let part = data.slice((from - at) as u32..(to - at) as u32);
        pieces.push(Piece::of_part(index, from % block, part));
    }
    (pieces, (at / block) as u32..end.div_ceil(block) as u32)
}

/// The blocks of a write of names at an offset, and their range.
pub(super) fn of_names(at: u64, contents: Vec<ContentId>) -> (Vec<Piece>, Range<u32>) {
    let first = (at / u64::from(BLOCK)) as u32;
    let zero = ContentId::of(&[0; BLOCK as usize]);
    let pieces = (first..).zip(contents).map(|(block, content)| {
        let piece = Piece::of_name(block, content);
        Piece { is_settled: content == zero, ..piece }
    });
    let pieces: Vec<Piece> = pieces.collect();
    let blocks = first..first + pieces.len() as u32;
    (pieces, blocks)
}

/// Zeroes in a volume of this size: the blocks that they change in part, those that they cover, and
/// the range of all.
pub(super) fn of_zeroes(at: u64, length: u64, size: u64) -> (Vec<Piece>, Range<u32>, Range<u32>) {
    let (block, end) = (u64::from(BLOCK), at + length);
    let (first, last) = (at / block, end.div_ceil(block));
    // Behind the volume's end there is nothing: its last block counts as whole.
    let whole_end = if end == size { last } else { end / block };
    let whole = at.div_ceil(block)..whole_end.max(at.div_ceil(block));
    let mut pieces = Vec::new();
    for index in [first, last - 1] {
        let (from, to) = (at.max(index * block), end.min((index + 1) * block));
        let is_edge = !whole.contains(&index);
        if is_edge && pieces.iter().all(|piece: &Piece| u64::from(piece.block) != index) {
            met("zeroes in part of a block");
            let part = Payload::Zeroes((to - from) as u32);
            pieces.push(Piece::of_part(index, from % block, part));
        }
    }
    (pieces, whole.start as u32..whole.end as u32, first as u32..last as u32)
}

/// True if there are only zeroes.
fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests;
