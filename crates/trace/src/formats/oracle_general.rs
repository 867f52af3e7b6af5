//! oracleGeneral of libCacheSim: binary records of 24 bytes, little-endian.
//!
//! ```text
//! 0 time u32, seconds | 4 object id u64 | 12 size u32, bytes | 16 next access i64
//! ```
//!
//! Source: libCacheSim, `oracleGeneralBin.h`. The next access is the number of the record in
//! which the object comes again, −1 or 2^63 − 1 when it does not; it is not used here. There is
//! no op: all are reads.
//!
//! An object id is not an address, but our requests have addresses. The rule: object `id` starts
//! at sector `id mod 2^53` of 512 bytes, on the volume called `objects` for ids below 2^53 and
//! `objects-K` for `K = id div 2^53` above. So (1) distinct ids have distinct (volume, offset)
//! pairs, and a simulation whose objects are those pairs, at any size, is exact; (2) the id can
//! be had back: `K · 2^53 + offset / 512`; (3) where ids are sector numbers, as in libCacheSim's
//! block traces, offsets are true addresses and agree with the vscsi original; (4) there are at
//! most 2,048 volumes, however ids are spread. Where ids are hashes or counters, neighbouring ids
//! share a cache line of 4 KiB, and only object-wise simulation means anything.

use super::Problem;
use super::binary::{RecordFormat, cut_off};
use super::text::request;
use crate::request::{Op, Request};
use crate::volumes::Volumes;
use thermocline_units::{Nanos, VolumeId};

/// Bytes of a record.
pub(super) const RECORD_BYTES: usize = 24;

/// Bits of an id that go into the offset; with 512-byte sectors the offset stays below 2^62.
const OFFSET_BITS: u32 = 53;

/// Bytes between two ids.
const SECTOR_BYTES: u64 = 512;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Parser of libCacheSim's oracleGeneral traces.
#[derive(Debug, Default)]
pub(crate) struct OracleGeneral {
    low: Option<VolumeId>,
}

/// The fields of a record that detection and reading look at.
pub(super) struct Record {
    pub(super) seconds: u32,
    pub(super) id: u64,
    pub(super) size: u32,
    pub(super) next: i64,
}

impl Record {
    #[inline(always)]
    pub(super) fn of(bytes: &[u8]) -> Option<Record> {
        let bytes: &[u8; RECORD_BYTES] = bytes.try_into().ok()?;
        let [t0, t1, t2, t3, id @ .., s0, s1, s2, s3, n0, n1, n2, n3, n4, n5, n6, n7] = bytes;
        let id: &[u8; 8] = id;
        Some(Record {
            seconds: u32::from_le_bytes([*t0, *t1, *t2, *t3]),
            id: u64::from_le_bytes(*id),
            size: u32::from_le_bytes([*s0, *s1, *s2, *s3]),
            next: i64::from_le_bytes([*n0, *n1, *n2, *n3, *n4, *n5, *n6, *n7]),
        })
    }
}

#[cold]
fn volume_above(high: u64, volumes: &mut Volumes) -> Result<VolumeId, Problem> {
    volumes.id_of(format!("objects-{high}").as_bytes())
}

impl RecordFormat for OracleGeneral {
    const TOLERANCE: Nanos = Nanos::from_secs(10);
    const NAMES_OBJECTS: bool = true;

    fn record_bytes(&self) -> usize {
        RECORD_BYTES
    }

    #[inline(always)]
    fn read_record(
        &mut self,
        record: &[u8],
        volumes: &mut Volumes,
    ) -> Result<Option<Request>, Problem> {
        let record = Record::of(record).ok_or_else(cut_off)?;
        let time = u64::from(record.seconds) * SECOND_NS;
        let volume = match record.id >> OFFSET_BITS {
            0 => volumes.id_once(&mut self.low, b"objects")?,
            high => volume_above(high, volumes)?,
        };
        let offset = (record.id & ((1 << OFFSET_BITS) - 1)) * SECTOR_BYTES;
        Ok(Some(request(time, volume, Op::Read, offset, u64::from(record.size))))
    }
}
