//! CloudPhysics vscsi: fixed binary records, little-endian, of version 1 or 2.
//!
//! Source: C. Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015; the layout
//! as libCacheSim reads it (`vscsi.h`):
//!
//! ```text
//! v1, 32 bytes:  0 serial u32 | 4 length u32 | 8 segments u32 | 12 opcode u16 | 14 version u16
//!               16 block u64  | 24 time u64
//! v2, 40 bytes:  0 opcode u16 | 2 version u16 | 4 serial u32 | 8 length u32 | 12 segments u32
//!               16 block u64  | 24 time u64   | 32 response u64
//! ```
//!
//! The version is the upper byte of its field. Time and response count microseconds, length
//! bytes, block 512 bytes. What a request does is told by the SCSI opcode (SBC-4): reads and
//! writes of 6, 10, 12 and 16 bytes with their verifying and same-data forms, cache
//! synchronisation as a flush. UNMAP keeps its ranges outside the record and so is left out and
//! counted, like commands that move no data.

use super::Problem;
use super::binary::{RecordFormat, cut_off};
use super::text::request;
use crate::order::counted;
use crate::request::{Op, Request};
use crate::volumes::Volumes;
use thermocline_units::{Nanos, VolumeId};

/// Bytes of a block.
const BLOCK_BYTES: u64 = 512;

/// Nanoseconds of a microsecond.
const MICROSECOND_NS: u64 = 1_000;

/// Problem when neither version fits.
pub(crate) const NO_VERSION: &str = "the first record is neither of version 1 (upper byte of the \
     field at byte 14) nor of version 2 (byte 2) of vscsi; name another format with --format";

/// Layout of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

impl Version {
    const fn record_bytes(self) -> usize {
        match self {
            Version::One => 32,
            Version::Two => 40,
        }
    }

    fn number(self) -> u8 {
        match self {
            Version::One => 1,
            Version::Two => 2,
        }
    }
}

/// The fields of a record that detection and reading look at.
struct Record {
    /// The version that the record itself tells.
    number: u8,
    opcode: u16,
    length: u32,
    block: u64,
    time: u64,
    /// 0 where the version has none.
    response: u64,
}

impl Record {
    #[inline(always)]
    fn of(version: Version, bytes: &[u8]) -> Option<Record> {
        let words = bytes.as_chunks().0;
        let &[w0, w1, w2, w3, b0, b1, t0, t1, ref behind @ ..] = words else { return None };
        let (kind, length, [r0, r1]) = match version {
            Version::One => (w3, w1, [[0; 4]; 2]),
            Version::Two => (w0, w2, *behind.first_chunk()?),
        };
        let number = |word: [u8; 4]| u32::from_le_bytes(word);
        let long = |low, high| u64::from(number(low)) | u64::from(number(high)) << 32;
        Some(Record {
            number: (number(kind) >> 24) as u8,
            opcode: number(kind) as u16,
            length: number(length),
            block: long(b0, b1),
            time: long(t0, t1),
            response: long(r0, r1),
        })
    }

    fn is_of(&self, version: Version) -> bool {
        self.number == version.number() && self.opcode <= OPCODE_MAX
    }
}

/// The version of which the first whole records of `sample` are; there must be one.
pub(crate) fn version_of(sample: &[u8]) -> Option<Version> {
    [Version::One, Version::Two].into_iter().find(|version| {
        let is_of_version =
            |bytes: &[u8]| Record::of(*version, bytes).is_some_and(|r| r.is_of(*version));
        let mut records = sample.chunks_exact(version.record_bytes()).take(RECORDS_JUDGED);
        records.next().is_some_and(is_of_version) && records.all(is_of_version)
    })
}

/// SCSI opcodes have one byte.
const OPCODE_MAX: u16 = 0xff;

/// Records whose version is looked at before the format is believed; what comes later is checked
/// as it is read.
const RECORDS_JUDGED: usize = 2;

/// Parser of VMware's vscsi traces.
#[derive(Debug)]
pub(crate) struct Vscsi {
    version: Version,
    volume: String,
    volume_id: Option<VolumeId>,
    left_out: u64,
    first_left_out: u16,
}

impl Vscsi {
    pub(crate) fn new(version: Version, volume: String) -> Vscsi {
        Vscsi { version, volume, volume_id: None, left_out: 0, first_left_out: 0 }
    }

    #[cold]
    fn leave_out(&mut self, opcode: u16) {
        if self.left_out == 0 {
            self.first_left_out = opcode;
        }
        self.left_out += 1;
    }
}

/// Kind of a SCSI command on the blocks it names; `None` for commands that name none.
#[inline]
fn op_of(opcode: u16) -> Option<Op> {
    match opcode {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Op::Read),
        0x0a | 0x2a | 0xaa | 0x8a => Some(Op::Write),
        0x2e | 0xae | 0x8e | 0x41 | 0x93 => Some(Op::Write),
        0x35 | 0x91 => Some(Op::Flush),
        _ => None,
    }
}

impl RecordFormat for Vscsi {
    const TOLERANCE: Nanos = Nanos::from_secs(1);

    fn record_bytes(&self) -> usize {
        self.version.record_bytes()
    }

    #[inline]
    fn read_record(
        &mut self,
        record: &[u8],
        volumes: &mut Volumes,
    ) -> Result<Option<Request>, Problem> {
        let record = Record::of(self.version, record).ok_or_else(cut_off)?;
        let Record { number, opcode, length, block, time, response } = record;
        if !record.is_of(self.version) {
            return Err(Problem::new(format!(
                "a record of version {number} with opcode {opcode:#x} where vscsi version {} is \
                 expected; the file is damaged here",
                self.version.number()
            )));
        }
        let Some(op) = op_of(opcode) else {
            self.leave_out(opcode);
            return Ok(None);
        };
        let too_large = |what: &str, value: u64| {
            Problem::new(format!("the {what} {value} is too large to be real"))
        };
        let offset = block.checked_mul(BLOCK_BYTES).ok_or_else(|| too_large("block", block))?;
        let time = time.checked_mul(MICROSECOND_NS).ok_or_else(|| too_large("time", time))?;
        let volume = volumes.id_once(&mut self.volume_id, self.volume.as_bytes())?;
        if op == Op::Flush {
            return Ok(Some(request(time, volume, op, 0, 0)));
        }
        let mut found = request(time, volume, op, offset, u64::from(length));
        found.response = match response.checked_mul(MICROSECOND_NS) {
            Some(0) => None,
            Some(response) => Some(Nanos(response)),
            None => return Err(too_large("response time", response)),
        };
        Ok(Some(found))
    }

    fn repairs(&self, repairs: &mut Vec<String>) {
        if self.left_out > 0 {
            repairs.push(format!(
                "{} neither read, write nor flush and left out; the first has opcode {:#04x}",
                counted(self.left_out, "command was", "commands were"),
                self.first_left_out
            ));
        }
    }
}
