//! The bytes of what `auto` has learnt. Drawn in `docs/formats/learnt.md`.
//!
//! Kept are the averages of chunks, the hottest [`CHUNKS_MAX`] of them, the returns of classes, and
//! the accounts. Not kept: prices, which an epoch teaches, and pairs that are watched.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

use super::Auto;
use super::ghosts::Returns;
use super::ledger::Ledger;
use super::pulse::LANES;
use crate::placement::Unreadable;
use crate::placement::price::Ask;
use thermocline_units::ChunkId;

const MAGIC: &[u8; 8] = b"TCAUTOLN";
/// Version of the layout. Version 1, without the accounts that fade, is read, too.
const VERSION: u32 = 2;
/// Chunks that are kept at most: 15 MB.
const CHUNKS_MAX: usize = 1 << 18;
/// Accounts of the ledger, without the count of chunks that came to another pool.
const ACCOUNTS: usize = 10;
/// Those of version 1.
const ACCOUNTS_1: usize = 7;
/// Magic 8, version 4, epochs 4, births 4, the accounts, chunks that came to another pool 8.
const HEADER_BYTES: usize = 20 + ACCOUNTS * size_of::<f64>() + 8;
/// Bytes of a class: number 4, three sums, the oldest 4.
const CLASS_BYTES: usize = 4 + size_of::<[f64; 3]>() + 4;
/// Bytes of a chunk: volume 4, index 4, first pool 1, averages.
const CHUNK_BYTES: usize = 9 + size_of::<[Ask; LANES.len()]>();

const _: () = {
    assert!(HEADER_BYTES == 108 && CLASS_BYTES == 32 && CHUNK_BYTES == 57, "as the page says");
    assert!(CHUNKS_MAX * CHUNK_BYTES < 15_000_000, "all chunks have 15 MB");
};

/// A chunk's averages, and its pool when it was met first.
pub(super) type Remembered = (ChunkId, u8, [Ask; LANES.len()]);

/// Reads numbers one after the other; `None` beyond the end.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// A finite number.
    fn f64(&mut self) -> Option<f64> {
        self.take().map(f64::from_le_bytes).filter(|number| number.is_finite())
    }

    /// A finite number of 0 or more.
    fn f32(&mut self) -> Option<f32> {
        self.take().map(f32::from_le_bytes).filter(|number| number.is_finite() && *number >= 0.0)
    }
}

impl Auto {
    /// The bytes of all that was learnt.
    pub(super) fn learnt(&self) -> Vec<u8> {
        let classes: Vec<(u32, &Returns)> = self.ghosts.classes().collect();
        let chunks = self.pulse.hottest(CHUNKS_MAX);
        let lists = classes.len() * CLASS_BYTES + chunks.len() * CHUNK_BYTES;
        let mut out = Vec::with_capacity(HEADER_BYTES + 4 + 4 + lists);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(self.pulse.epochs().to_le_bytes());
        out.extend(self.ghosts.epoch().to_le_bytes());
        self.ledger.accounts().iter().for_each(|account| out.extend(account.to_le_bytes()));
        out.extend(self.ledger.moved.to_le_bytes());
        out.extend((classes.len() as u32).to_le_bytes());
        for (number, returns) in classes {
            let (sums, oldest) = returns.parts();
            out.extend(number.to_le_bytes());
            sums.iter().for_each(|sum| out.extend(sum.to_le_bytes()));
            out.extend(oldest.to_le_bytes());
        }
        out.extend((chunks.len() as u32).to_le_bytes());
        for (ChunkId { volume, index }, first, lanes) in chunks {
            out.extend(volume.0.to_le_bytes());
            out.extend(index.to_le_bytes());
            out.push(first);
            lanes.iter().flatten().for_each(|average| out.extend(average.to_le_bytes()));
        }
        debug_assert_eq!(out.len(), HEADER_BYTES + 4 + 4 + lists, "as long as it is drawn");
        out
    }

    /// Goes on from such bytes, with the chunks that `exists` knows. On an error nothing has
    /// changed.
    pub(super) fn learn_from(
        &mut self,
        bytes: &[u8],
        exists: &dyn Fn(ChunkId) -> bool,
    ) -> Result<(), Unreadable> {
        let mut fresh = Auto { acts: self.acts, ..Auto::fresh() };
        fresh.read(bytes, exists).ok_or(Unreadable)?;
        let Auto { pulse, ghosts, ledger, .. } = fresh;
        (self.pulse, self.ghosts, self.ledger) = (pulse, ghosts, ledger);
        Ok(())
    }

    fn read(&mut self, bytes: &[u8], exists: &dyn Fn(ChunkId) -> bool) -> Option<()> {
        let mut from = Reader(bytes);
        if &from.take::<8>()? != MAGIC {
            return None;
        }
        let known = match from.u32()? {
            1 => ACCOUNTS_1,
            VERSION => ACCOUNTS,
            _ => return None,
        };
        // Half of what fits: they count on from here.
        let [epochs, births] = [from.u32()?, from.u32()?].map(|count| count.min(u32::MAX / 2));
        let mut accounts = [0.0; ACCOUNTS];
        for account in accounts.iter_mut().take(known) {
            *account = from.f64()?;
        }
        self.ledger = Ledger::of(accounts, from.u64()?);
        for _ in 0..from.u32()? {
            let number = from.u32()?;
            let returns = Returns::of([from.f64()?, from.f64()?, from.f64()?], from.u32()?)?;
            self.ghosts.set_class(number, returns)?;
        }
        self.ghosts.go_on_at(births);
        let count = from.u32()?;
        if count as usize > CHUNKS_MAX {
            return None;
        }
        let mut chunks: Vec<Remembered> = Vec::new();
        for _ in 0..count {
            let volume = thermocline_units::VolumeId(from.u32()?);
            let chunk = ChunkId { volume, index: from.u32()? };
            let [first] = from.take()?;
            let mut lanes = [[0.0; 4]; LANES.len()];
            for average in lanes.iter_mut().flatten() {
                *average = from.f32()?;
            }
            if exists(chunk) {
                chunks.push((chunk, first, lanes));
            }
        }
        self.pulse.go_on(epochs, &chunks);
        from.0.is_empty().then_some(())
    }
}
