//! Tencent cloud block storage: `Timestamp,Offset,Size,IOType,VolumeID`.
//!
//! Source: Y. Zhang et al., "OSCA: An Online-Model Based Cache Allocation Scheme in Cloud Block
//! Storage Systems", USENIX ATC 2020 (SNIA IOTTA 27917). Timestamp counts seconds since 1970,
//! Offset and Size 512-byte sectors; IOType is 0 for a read and 1 for a write. No response times.
//!
//! The files join the logs of several machines and are not sorted: requests are sorted within the
//! window, and those later than it are lifted to the present when late by at most ten seconds,
//! that is, ten ticks of the clock they were recorded with.

use super::Problem;
use super::msr::split_commas;
use super::text::{Context, LineFormat, request};
use crate::numbers::{Excerpt, Scanner, Word, scaled_field, whole_field};
use crate::order::OrderRule;
use crate::request::{Op, Request};
use crate::volumes::Volumes;
use thermocline_units::Nanos;

/// Bytes of a sector.
const SECTOR_BYTES: u64 = 512;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// The ops and the comma behind them.
const READ: Word = Word::of(b"0,");
const WRITE: Word = Word::of(b"1,");

/// Parser of Tencent's block traces.
#[derive(Debug)]
pub(crate) struct Tencent;

impl LineFormat for Tencent {
    fn layout(&self) -> &str {
        "Timestamp,Offset,Size,IOType,VolumeID"
    }

    fn order(&self) -> OrderRule {
        OrderRule::Window(Nanos::from_secs(10))
    }

    #[inline(always)]
    fn read_quickly(&mut self, text: &[u8], volumes: &mut Volumes) -> Option<(Request, usize)> {
        let mut scanner = Scanner::new(text);
        let time = scanner.number_then(b',')?.checked_mul(SECOND_NS)?;
        let offset = scanner.number_then(b',')?.checked_mul(SECTOR_BYTES)?;
        let length = scanner.number_then(b',')?.checked_mul(SECTOR_BYTES)?;
        let op = match scanner.accept_either(READ, WRITE)? {
            true => Op::Read,
            false => Op::Write,
        };
        let start = scanner.position();
        scanner.number_then(b'\n')?;
        let volume = volumes.id_of(text.get(start..scanner.position() - 1)?).ok()?;
        Some((request(time, volume, op, offset, length), scanner.position()))
    }

    fn read_line(
        &mut self,
        line: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Option<Request>, Problem> {
        let [time, offset, size, op, volume] = split_commas(line)?;
        let time = scaled_field("the timestamp", time, SECOND_NS)?;
        let offset = scaled_field("the offset", offset, SECTOR_BYTES)?;
        let length = scaled_field("the size", size, SECTOR_BYTES)?;
        let op = match op {
            b"0" => Op::Read,
            b"1" => Op::Write,
            other => {
                return Err(Problem::new(format!(
                    "the I/O type `{}` is neither 0 (read) nor 1 (write)",
                    Excerpt(other)
                )));
            }
        };
        whole_field("the volume id", volume)?;
        let volume = context.volumes.id_of(volume)?;
        Ok(Some(request(time, volume, op, offset, length)))
    }
}
