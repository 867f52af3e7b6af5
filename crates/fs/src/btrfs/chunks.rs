//! From logical addresses to the device: the chunks of a btrfs.
//!
//! Invariants: every chunk lies on the one device, with one copy or with several whole ones (DUP).
//! An address range that does not lie in one chunk has no place; btrfs never makes such an extent.
//! State: 64 B a chunk, which is 256 MiB or more; [`CHUNKS_MAX`] at most.

use super::node::Key;
use crate::FsError;
use crate::field::{Little, piece};
use crate::pass::Pass;
use std::collections::BTreeMap;
use std::ops::Range;

const CHUNKS_MAX: usize = 1 << 20;
/// Copies of the most redundant profile, RAID1C4.
const COPIES_MAX: usize = 4;
const HEAD: usize = 48;
const STRIPE: usize = 32;
/// Profiles that cut a chunk into stripes: RAID0, RAID10, RAID5, RAID6.
const STRIPED: u64 = 0x8 | 0x40 | 0x80 | 0x100;

#[derive(Debug, Clone, Copy)]
struct Chunk {
    length: u64,
    copies: usize,
    places: [u64; COPIES_MAX],
}

/// All chunks, by logical address.
#[derive(Debug, Default)]
pub(super) struct Chunks(BTreeMap<u64, Chunk>);

impl Chunks {
    /// The chunks that the superblock names: each a key and a chunk item.
    pub(super) fn of_system(
        pass: &Pass<'_>,
        device: u64,
        mut bytes: &[u8],
    ) -> Result<Chunks, FsError> {
        let mut chunks = Chunks::default();
        while bytes.len() >= Key::SIZE + HEAD {
            let (key, item) = bytes.split_at(Key::SIZE);
            let length = HEAD + usize::from(Little(item).u16(44)) * STRIPE;
            chunks.add(pass, device, (Key::parse(key).offset, item))?;
            bytes = item.get(length..).unwrap_or_default();
        }
        Ok(chunks)
    }

    /// Adds a chunk item.
    ///
    /// # Errors
    /// When it lies on several devices, in whole or in parts.
    pub(super) fn add(
        &mut self,
        pass: &Pass<'_>,
        device: u64,
        (logical, item): (u64, &[u8]),
    ) -> Result<(), FsError> {
        let field = Little(item);
        let (length, profile) = (field.u64(0), field.u64(24));
        let count = usize::from(field.u16(44));
        let stripes = item.get(HEAD..).unwrap_or_default().chunks_exact(STRIPE).take(count);
        let places: Vec<(u64, u64)> =
            stripes.map(|stripe| (Little(stripe).u64(0), Little(stripe).u64(8))).collect();
        if places.len() != count || count == 0 || logical.checked_add(length).is_none() {
            return Err(pass.damaged("one of its chunks is cut off"));
        }
        let elsewhere = places.iter().any(|(holder, _)| *holder != device);
        if elsewhere || (profile & STRIPED != 0 && count > 1) || count > COPIES_MAX {
            let what = "has chunks striped over devices, and only single and DUP are read";
            return Err(pass.unsupported(what));
        }
        if self.0.len() >= CHUNKS_MAX {
            return Err(FsError::TooMany { what: "chunks of btrfs", most: CHUNKS_MAX as u64 });
        }
        let mut chunk = Chunk { length, copies: count, places: [0; COPIES_MAX] };
        for (to, (_, place)) in chunk.places.iter_mut().zip(places) {
            *to = place;
        }
        self.0.insert(logical, chunk);
        Ok(())
    }

    /// Takes the chunks of `others` in; of two at one address, theirs stays.
    pub(super) fn extend(&mut self, others: Chunks) {
        self.0.extend(others.0);
    }

    /// Places on the device of `length` bytes from `logical`: a range for each copy, none when they
    /// do not lie in one chunk.
    pub(super) fn places(&self, logical: u64, length: u64) -> impl Iterator<Item = Range<u64>> {
        let chunk = self.0.range(..=logical).next_back();
        let inside = chunk.and_then(|(start, chunk)| {
            let from = logical - start;
            let fits = from.checked_add(length).is_some_and(|end| end <= chunk.length);
            fits.then_some((from, *chunk))
        });
        inside.into_iter().flat_map(move |(from, chunk)| {
            let places = chunk.places.into_iter().take(chunk.copies);
            places.map(move |place| {
                let start = place.saturating_add(from);
                start..start.saturating_add(length)
            })
        })
    }
}

/// Bytes of an item that holds a name: its length stands in two bytes at `at`, the name behind
/// them.
pub(super) fn name_at(item: &[u8], at: usize) -> &[u8] {
    piece(item, at + 2, usize::from(Little(item).u16(at)))
}
