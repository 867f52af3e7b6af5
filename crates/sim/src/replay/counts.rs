//! Counters of a replay: hits by request, line and byte, and the I/Os each device saw.

use super::reads::Reads;
use thermocline_units::{Bytes, VolumeId};

/// One direction of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Side {
    /// Requests.
    pub requests: u64,
    /// Requests served by flash alone: all their lines were there.
    pub request_hits: u64,
    /// Lines touched.
    pub lines: u64,
    /// Lines touched that were on flash.
    pub line_hits: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes asked for that were on flash.
    pub byte_hits: u64,
}

/// I/Os one device did in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// I/Os that had to seek (every flash I/O counts as one).
    pub random: u64,
    /// Their bytes.
    pub random_bytes: u64,
    /// I/Os that began where the device's last one ended.
    pub sequential: u64,
    /// Their bytes.
    pub sequential_bytes: u64,
}

impl Traffic {
    /// I/Os of both kinds.
    pub fn ios(&self) -> u64 {
        self.random + self.sequential
    }

    /// Bytes of both kinds.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.random_bytes + self.sequential_bytes)
    }

    #[inline]
    fn add(&mut self, bytes: u64, sequential: bool) {
        if sequential {
            self.sequential += 1;
            self.sequential_bytes += bytes;
        } else {
            self.random += 1;
            self.random_bytes += bytes;
        }
    }
}

/// The disk's traffic, and where its head is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Disk {
    /// Reads.
    pub reads: Traffic,
    /// Writes.
    pub writes: Traffic,
    /// Volume (plus one, 0 before the first I/O) and offset after the last I/O.
    pub(super) head: (u32, u64),
}

impl Disk {
    /// One I/O at `offset` of `volume`.
    #[inline]
    pub(crate) fn access(&mut self, write: bool, volume: VolumeId, offset: u64, bytes: u64) {
        let sequential = self.head == (volume.0 + 1, offset);
        self.head = (volume.0 + 1, offset + bytes);
        let traffic = if write { &mut self.writes } else { &mut self.reads };
        traffic.add(bytes, sequential);
    }

    /// Place of the head: volume and offset; no volume before the first I/O.
    pub(super) fn place(&self) -> (u32, u64) {
        (self.head.0.wrapping_sub(1), self.head.1)
    }

    /// Many reads, some of them sequential, after which the head is at `place`.
    pub(super) fn read_many(&mut self, all: Reads, sequential: Reads, place: (u32, u64)) {
        self.head = (place.0.wrapping_add(1), place.1);
        self.reads.random += all.count - sequential.count;
        self.reads.random_bytes += all.bytes - sequential.bytes;
        self.reads.sequential += sequential.count;
        self.reads.sequential_bytes += sequential.bytes;
    }
}

/// One volume's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VolumeCounts {
    /// Reads and writes.
    pub requests: u64,
    /// Served by flash alone.
    pub request_hits: u64,
}

/// I/Os as the source's Tables 10 and 11 charge them: in units of 4 KiB for caches, 128 KiB
/// for flash managers, each alone (Tai 2015 §4.2.3.1, eq. 21).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceIos {
    /// N_SsdRead.
    pub flash_reads: u64,
    /// N_SsdWrt.
    pub flash_writes: u64,
    /// N_MdRead.
    pub disk_reads: u64,
    /// N_MdWrt.
    pub disk_writes: u64,
}

/// Everything one replay counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// Reads.
    pub reads: Side,
    /// Writes.
    pub writes: Side,
    /// Lines admitted to flash (chunks migrated in, for placements).
    pub admitted: u64,
    /// Lines or chunks that left flash to make room.
    pub evicted: u64,
    /// Dirty ones among them, written back.
    pub written_back: u64,
    /// Bytes moved between the devices in the background or because of a miss: admissions,
    /// write-backs, migrations.
    pub moved: u64,
    /// I/Os as the source charges them.
    pub source: SourceIos,
    /// Flash reads at their real sizes.
    pub flash_reads: Traffic,
    /// Flash writes at their real sizes.
    pub flash_writes: Traffic,
    /// The disk at real sizes.
    pub disk: Disk,
    /// Counts by volume id.
    pub volumes: Vec<VolumeCounts>,
}

impl Counts {
    pub(crate) fn new(volumes: usize) -> Counts {
        Counts { volumes: vec![VolumeCounts::default(); volumes], ..Counts::default() }
    }

    /// Forgets everything but where the disk's head is: the warm-up is over.
    pub(crate) fn restart(&mut self) {
        let head = self.disk.head;
        *self = Counts::new(self.volumes.len());
        self.disk.head = head;
    }

    /// Reads and writes together.
    pub fn total(&self) -> Side {
        let (r, w) = (&self.reads, &self.writes);
        Side {
            requests: r.requests + w.requests,
            request_hits: r.request_hits + w.request_hits,
            lines: r.lines + w.lines,
            line_hits: r.line_hits + w.line_hits,
            bytes: r.bytes + w.bytes,
            byte_hits: r.byte_hits + w.byte_hits,
        }
    }

    /// One I/O on flash, which has no head to move.
    #[inline]
    pub(crate) fn flash(&mut self, write: bool, bytes: u64) {
        let traffic = if write { &mut self.flash_writes } else { &mut self.flash_reads };
        traffic.add(bytes, false);
    }
}
