//! The contents of a disk: an ordered map of extents over a background.
//!
//! 1. An extent is a run of sectors with one content: bytes (a slice of the writer's buffer, never
//!    copied), zeroes, seeded garbage, or sectors that cannot be read.
//! 2. A write cuts the extents at its ends, drops what lies between and puts its own: O(log n).
//! 3. A read walks the extents of its range; gaps read as the background.
//!
//! About 100 B an extent; extents are as long as writes were, so a sector written alone costs that.

use crate::{DeviceError, Payload, SECTOR};
use bytes::Bytes as Buffer;
use std::collections::BTreeMap;
use std::ops::Range;

/// Contents of a run of sectors.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Zeroes,
    /// Bytes that follow from this seed and the sector's number.
    Garbage(u64),
    /// Reading fails until the sector is written again.
    Unreadable,
    /// Exactly as many bytes as the run is long.
    Bytes(Buffer),
}

impl Content {
    /// The content of `range` within a run that begins at sector `start`.
    fn part(&self, start: u64, range: &Range<u64>) -> Content {
        match self {
            Content::Bytes(bytes) => Content::Bytes(bytes.slice(
                bytes_of(range.start - start) as usize..bytes_of(range.end - start) as usize,
            )),
            other => other.clone(),
        }
    }

    /// Appends the sectors `range` of a run that begins at sector `start`.
    fn append_to(
        &self,
        start: u64,
        range: &Range<u64>,
        target: &mut Vec<u8>,
    ) -> Result<(), DeviceError> {
        let length = bytes_of(range.end - range.start) as usize;
        match self {
            Content::Zeroes => target.resize(target.len() + length, 0),
            Content::Garbage(seed) => {
                for sector in range.clone() {
                    append_garbage(*seed, sector, target);
                }
            }
            Content::Unreadable => return Err(DeviceError::Io),
            Content::Bytes(bytes) => {
                let from = bytes_of(range.start - start) as usize;
                target.extend_from_slice(&bytes[from..from + length]);
            }
        }
        Ok(())
    }
}

impl From<Payload> for Content {
    fn from(data: Payload) -> Content {
        match data {
            Payload::Zeroes(_) => Content::Zeroes,
            Payload::Bytes(bytes) => Content::Bytes(bytes),
        }
    }
}

/// Sectors to bytes.
pub(super) fn bytes_of(sectors: u64) -> u64 {
    sectors * u64::from(SECTOR)
}

/// 512 bytes that look like nothing: Weyl steps through the finaliser of SplitMix64.
fn append_garbage(seed: u64, sector: u64, target: &mut Vec<u8>) {
    let mut x = seed ^ sector.wrapping_mul(0xd6e8_feb8_6659_fd93);
    let mut bytes = [0; SECTOR as usize];
    for word in bytes.chunks_exact_mut(8) {
        x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word.copy_from_slice(&(z ^ (z >> 29)).to_le_bytes());
    }
    target.extend_from_slice(&bytes);
}

#[derive(Debug, Clone)]
struct Extent {
    end: u64,
    content: Content,
}

/// The contents of a disk, in sectors.
#[derive(Debug, Clone)]
pub(super) struct Image {
    /// Extents by first sector; never overlapping, never empty.
    extents: BTreeMap<u64, Extent>,
    background: Content,
}

impl Image {
    /// A disk that reads as `background` everywhere.
    pub(super) fn new(background: Content) -> Image {
        Image { extents: BTreeMap::new(), background }
    }

    /// Puts `content`, which is as long as `range`, at `range`.
    pub(super) fn write(&mut self, range: Range<u64>, content: Content) {
        if let Content::Bytes(bytes) = &content {
            assert_eq!(bytes.len() as u64, bytes_of(range.end - range.start));
        }
        self.cut_at(range.start);
        self.cut_at(range.end);
        while let Some((&start, _)) = self.extents.range(range.clone()).next() {
            self.extents.remove(&start);
        }
        self.extents.insert(range.start, Extent { end: range.end, content });
    }

    /// True if all of `range` holds bytes that were written: writing them again takes no room.
    pub(super) fn is_backed(&self, range: Range<u64>) -> bool {
        self.runs(range).all(|(_, content)| matches!(content, Content::Bytes(_)))
    }

    /// The contents of `range`, without copying where one extent or zeroes cover it.
    ///
    /// # Errors
    /// When the range holds an unreadable sector.
    pub(super) fn read(&self, range: Range<u64>) -> Result<Payload, DeviceError> {
        let (run, content) = self.run_at(range.start, range.end);
        let length = bytes_of(range.end - range.start);
        if run == range {
            match content {
                Content::Bytes(bytes) => return Ok(Payload::Bytes(bytes)),
                Content::Zeroes => {
                    return Ok(Payload::Zeroes(
                        u32::try_from(length).expect("reads are below 4 GiB"),
                    ));
                }
                Content::Garbage(_) | Content::Unreadable => {}
            }
        }
        let mut bytes = Vec::with_capacity(length as usize);
        for (run, content) in self.runs(range) {
            content.append_to(run.start, &run, &mut bytes)?;
        }
        Ok(Payload::from(bytes))
    }

    /// Runs that cover `range`, piece by piece, in order.
    pub(super) fn runs(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, Content)> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            (at < range.end).then(|| {
                let run = self.run_at(at, range.end);
                at = run.0.end;
                run
            })
        })
    }

    /// The run that holds sector `at`, from `at` on and not beyond `end`.
    fn run_at(&self, at: u64, end: u64) -> (Range<u64>, Content) {
        if let Some((&start, extent)) = self.extents.range(..=at).next_back()
            && at < extent.end
        {
            let run = at..extent.end.min(end);
            let content = extent.content.part(start, &run);
            return (run, content);
        }
        let next = self.extents.range(at..end).next().map_or(end, |(&start, _)| start);
        (at..next, self.background.clone())
    }

    /// Makes `at` a border between extents.
    fn cut_at(&mut self, at: u64) {
        let Some((&start, extent)) = self.extents.range_mut(..at).next_back() else { return };
        if extent.end <= at {
            return;
        }
        let tail = extent.content.part(start, &(at..extent.end));
        let head = extent.content.part(start, &(start..at));
        let end = std::mem::replace(&mut extent.end, at);
        extent.content = head;
        self.extents.insert(at, Extent { end, content: tail });
    }
}

/// A change of a run of sectors.
#[derive(Debug, Clone)]
pub(super) struct Effect {
    pub(super) range: Range<u64>,
    pub(super) content: Content,
    /// True if it survives every crash from now on.
    pub(super) durable: bool,
}

impl Effect {
    /// The same change of some of its sectors.
    pub(super) fn part(&self, range: Range<u64>) -> Effect {
        let content = self.content.part(self.range.start, &range);
        Effect { range, content, durable: self.durable }
    }
}
