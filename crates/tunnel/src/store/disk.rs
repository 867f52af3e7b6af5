//! The second tier of a chunk cache: chunks that memory had to give up, on a device.
//!
//! 1. Chunks that leave memory unused are collected in a segment. A full segment is written in one
//!    piece over the oldest one, whose chunks are forgotten first: the device is a ring.
//! 2. The index is in memory. Whoever asks by name gets a ticket, and the bytes when the device has
//!    read them. Whoever asks by content has the bytes in hand: they are compared by a keyed digest
//!    (BLAKE3, 64 bits beside the fingerprint's 64), because reading them to compare would take as
//!    long as sending them.
//! 3. The device is another's: this tier says which jobs it wants done ([`Disk::next_job`]) and is
//!    told how they ended. Jobs must be done in their order, so that a read which was wanted before
//!    its place is written over still finds its chunk.
//! 4. What the device returns is held against the digest. A chunk that was lost or went bad is
//!    forgotten; the other end is asked for it. After a failed write the tier is given up, and no
//!    longer counted in what this end says that it keeps.
//! 5. A device that is slower than the chunks that come gets no more than [`WRITES_MAX`] segments
//!    at a time. Others are dropped and counted.
//!
//! Memory: 32 B an entry and 5 B a slot of each index: 43 to 47 B a chunk; and up to
//! [`WRITES_MAX`] + 1 segments.

use super::index::Index;
use super::{Extent, NUMBERS, Name, Owner, offset, spread};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Bytes of a segment at most; a smaller tier has sixteen.
const SEGMENT_BYTES_MAX: u64 = 1 << 20;
const SEGMENTS_MIN: u64 = 16;
/// Segments that may wait to be written.
const WRITES_MAX: usize = 16;

/// Reads that the device may owe: what flows asked for that are gone is read all the same.
pub(super) const READS_MAX: usize = 16_384;

/// Number of a read, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// Something that the device is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskJob {
    /// Write these bytes. Nothing needs to be forced to the device.
    Write {
        /// Offset, bytes.
        place: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// Read a chunk.
    Read {
        /// Number of the read.
        ticket: Ticket,
        /// Offset, bytes.
        place: u64,
        /// Bytes to read.
        length: usize,
    },
}

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskDone {
    /// A segment was written, or could not be.
    Written {
        /// True if it was.
        is_written: bool,
    },
    /// A chunk was read; `None` if the device did not return all of it.
    Read {
        /// Number of the read.
        ticket: Ticket,
        /// Its bytes.
        bytes: Option<Vec<u8>>,
    },
}

/// Counts of the tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskCounts {
    /// Chunks that came from memory.
    pub inserted: u64,
    /// Chunks whose place was written over.
    pub evicted: u64,
    /// Chunks that were dropped because the device was behind.
    pub dropped: u64,
    /// Chunks that were read and right.
    pub read: u64,
    /// Chunks that the device did not return, or not as they were written.
    pub lost: u64,
    /// The device failed to write, or hung; the tier is empty from then on.
    pub has_failed: bool,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    fingerprint: u64,
    digest: u64,
    name: u64,
    extent: Extent,
}

/// The index of the chunks on a device, and what it is to do.
pub(super) struct Disk {
    most: u64,
    segment_bytes: usize,
    segments: usize,
    key: [u8; 32],
    seed: u64,
    /// The segment that is being filled, and its bytes so far.
    filling: usize,
    fresh: Vec<u8>,
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// Number of the oldest entry, modulo [`NUMBERS`].
    oldest: u64,
    by_content: Index,
    by_name: Index,
    jobs: VecDeque<DiskJob>,
    /// Segments that were handed out and are not written yet.
    writes: usize,
    /// Reads under way: the name and the digest of each.
    reads: BTreeMap<Ticket, (u64, u64)>,
    next_ticket: u64,
    counts: DiskCounts,
}

impl Disk {
    /// An empty tier of so many bytes; below 1 TiB. 0: none.
    pub(super) fn new(most: u64, seed: u64) -> Disk {
        assert!(most < 1 << 40, "{most} bytes are more than an entry can say");
        let mut disk = Disk {
            most,
            segment_bytes: 0,
            segments: 0,
            key: blake3::derive_key("thermocline tunnel disk tier", &seed.to_le_bytes()),
            seed,
            filling: 0,
            fresh: Vec::new(),
            entries: VecDeque::new(),
            oldest: 0,
            by_content: Index::new(),
            by_name: Index::new(),
            jobs: VecDeque::new(),
            writes: 0,
            reads: BTreeMap::new(),
            next_ticket: 0,
            counts: DiskCounts::default(),
        };
        disk.resize(most);
        disk
    }

    /// Bytes that it may hold, whatever the other end holds; 0 when it was given up.
    pub(super) fn most(&self) -> u64 {
        if self.counts.has_failed { 0 } else { self.most }
    }

    /// Holds at most `bytes`. A tier of another size begins anew.
    pub(super) fn limit(&mut self, bytes: u64) {
        let bytes = bytes.min(self.most);
        if geometry(bytes) != (self.segment_bytes, self.segments) && !self.counts.has_failed {
            self.clear();
            self.resize(bytes);
        }
    }

    pub(super) fn counts(&self) -> DiskCounts {
        self.counts
    }

    /// Memory of entries and indices, bytes.
    pub(super) fn overhead(&self) -> usize {
        let entries = self.entries.capacity() * size_of::<Entry>();
        entries + self.by_content.memory() + self.by_name.memory()
    }

    /// Keeps a chunk that leaves memory.
    pub(super) fn insert(&mut self, name: u64, fingerprint: u64, bytes: &[u8]) {
        if self.segments == 0 || bytes.len() > self.segment_bytes {
            return;
        }
        if self.number_of(name).is_some() {
            return; // It came from here, and its place was not written over since.
        }
        if self.fresh.len() + bytes.len() > self.segment_bytes {
            self.write_out();
        }
        let place = self.filling * self.segment_bytes + self.fresh.len();
        self.fresh.extend_from_slice(bytes);
        self.counts.inserted += 1;
        let (digest, extent) = (self.digest(bytes), Extent::new(place, bytes.len()));
        self.append(Entry { fingerprint, digest, name, extent });
    }

    /// The name of a chunk of this content.
    pub(super) fn find(&self, fingerprint: u64, bytes: &[u8]) -> Option<u64> {
        let number = self.by_content.find(fingerprint, |number| {
            let entry = self.entry(number);
            entry.fingerprint == fingerprint && entry.extent.length() == bytes.len()
        })?;
        let entry = self.entry(number);
        (entry.digest == self.digest(bytes)).then_some(entry.name)
    }

    /// The bytes of a chunk that waits to be written.
    pub(super) fn get_fresh(&self, name: u64) -> Option<&[u8]> {
        let extent = self.entry(self.number_of(name)?).extent;
        let start = extent.place().checked_sub(self.filling * self.segment_bytes)?;
        self.fresh.get(start..start + extent.length())
    }

    /// Wants a chunk read; `None` if none of this name and length is here, or the device owes
    /// [`READS_MAX`] reads.
    pub(super) fn fetch(&mut self, name: u64, length: usize) -> Option<Ticket> {
        if self.reads.len() >= READS_MAX {
            return None;
        }
        let entry = *self.entry(self.number_of(name)?);
        if entry.extent.length() != length {
            return None;
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.reads.insert(ticket, (name, entry.digest));
        let place = entry.extent.place() as u64;
        self.jobs.push_back(DiskJob::Read { ticket, place, length });
        Some(ticket)
    }

    /// The next job for the device, to be done after those before.
    pub(super) fn next_job(&mut self) -> Option<DiskJob> {
        self.jobs.pop_front()
    }

    /// Takes note of the end of a job. The bytes of a chunk that was read, if they are right.
    pub(super) fn done(&mut self, done: DiskDone) -> Option<(Ticket, Option<Vec<u8>>)> {
        match done {
            DiskDone::Written { is_written } => {
                // Also an answer that is owed to the store before this one may come.
                self.writes = self.writes.saturating_sub(1);
                if !is_written {
                    self.give_up();
                }
                None
            }
            DiskDone::Read { ticket, bytes } => {
                let (name, digest) = self.reads.remove(&ticket)?;
                let bytes = bytes.filter(|bytes| {
                    self.digest(bytes) == digest || mutant("the_device_is_believed")
                });
                met_if(bytes.is_none(), "the disk tier lost a chunk");
                match &bytes {
                    Some(_) => self.counts.read += 1,
                    None => {
                        self.counts.lost += 1;
                        self.remove(name);
                    }
                }
                Some((ticket, bytes))
            }
        }
    }

    /// Holds nothing from now on.
    pub(super) fn give_up(&mut self) {
        met("the disk tier is given up");
        self.clear();
        self.resize(0);
        self.counts.has_failed = true;
    }

    /// Drops every chunk that `owner` named.
    pub(super) fn forget(&mut self, owner: Owner) {
        let kept = std::mem::take(&mut self.entries);
        self.forget_all();
        for entry in kept {
            if Name::unpacked(entry.name).owner != owner {
                self.append(entry);
            }
        }
    }

    fn resize(&mut self, bytes: u64) {
        (self.segment_bytes, self.segments) = geometry(bytes);
    }

    fn clear(&mut self) {
        self.forget_all();
        self.fresh.clear();
        self.filling = 0;
    }

    fn forget_all(&mut self) {
        self.entries.clear();
        self.by_content = Index::new();
        self.by_name = Index::new();
        self.oldest = 0;
    }

    /// Hands the full segment out to be written, and makes room in the next one.
    fn write_out(&mut self) {
        if self.writes >= WRITES_MAX {
            met("the disk tier drops what the device is too slow for");
            let first = self.filling * self.segment_bytes;
            let end = first + self.fresh.len();
            while let Some(last) = self.entries.back().copied() {
                if !(first..end).contains(&last.extent.place()) {
                    break;
                }
                let number = (self.oldest + self.entries.len() as u64 - 1) % NUMBERS;
                self.unindex(&last, number as u32);
                self.entries.pop_back();
                self.counts.dropped += 1;
            }
            return self.fresh.clear();
        }
        let place = (self.filling * self.segment_bytes) as u64;
        let bytes = std::mem::take(&mut self.fresh).into();
        self.jobs.push_back(DiskJob::Write { place, bytes });
        self.writes += 1;
        self.filling = (self.filling + 1) % self.segments;
        let within = self.filling * self.segment_bytes..(self.filling + 1) * self.segment_bytes;
        while let Some(oldest) = self.entries.front().copied() {
            let is_kept = mutant("a_segment_is_written_over_before_its_chunks_are_forgotten");
            if !within.contains(&oldest.extent.place()) || is_kept {
                break;
            }
            self.unindex(&oldest, self.oldest as u32);
            self.entries.pop_front();
            self.oldest = (self.oldest + 1) % NUMBERS;
            self.counts.evicted += 1;
        }
    }

    fn append(&mut self, entry: Entry) {
        let number = ((self.oldest + self.entries.len() as u64) % NUMBERS) as u32;
        self.entries.push_back(entry);
        let Disk { entries, oldest, by_content, by_name, seed, .. } = self;
        let entry_of = |number| &entries[offset(*oldest, number)];
        // One entry a fingerprint, as in memory.
        let fingerprint = entry.fingerprint;
        if by_content.find(fingerprint, |n| entry_of(n).fingerprint == fingerprint).is_none() {
            by_content.insert(fingerprint, number, |n| entry_of(n).fingerprint);
        }
        by_name.insert(spread(*seed, entry.name), number, |n| spread(*seed, entry_of(n).name));
    }

    /// Makes a chunk unfindable; its entry goes when its segment does.
    fn remove(&mut self, name: u64) {
        if let Some(number) = self.number_of(name) {
            let entry = *self.entry(number);
            self.unindex(&entry, number);
        }
    }

    fn unindex(&mut self, entry: &Entry, number: u32) {
        self.by_content.remove(entry.fingerprint, number);
        self.by_name.remove(spread(self.seed, entry.name), number);
    }

    fn number_of(&self, name: u64) -> Option<u32> {
        self.by_name.find(spread(self.seed, name), |number| self.entry(number).name == name)
    }

    fn entry(&self, number: u32) -> &Entry {
        &self.entries[offset(self.oldest, number)]
    }

    fn digest(&self, bytes: &[u8]) -> u64 {
        let digest = blake3::keyed_hash(&self.key, bytes);
        u64::from_le_bytes(*digest.as_bytes().first_chunk().expect("a digest has 32 bytes"))
    }
}

/// Bytes of a segment, and how many there are, in a tier of so many bytes.
fn geometry(bytes: u64) -> (usize, usize) {
    let segment = (bytes / SEGMENTS_MIN).min(SEGMENT_BYTES_MAX);
    if segment == 0 { (0, 0) } else { (segment as usize, (bytes / segment) as usize) }
}
