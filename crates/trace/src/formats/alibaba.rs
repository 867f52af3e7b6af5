//! Alibaba block traces: `device_id,opcode,offset,length,timestamp`.
//!
//! Source: J. Li et al., "An In-Depth Analysis of Cloud Block Storage Workloads in Large-Scale
//! Production", IISWC 2020, and the README of alibaba/block-traces. Opcode is `R` or `W`, offset
//! and length count bytes, the timestamp microseconds since 1970; the volume is the device. No
//! response times.

use super::Problem;
use super::msr::{read_or_write, split_commas};
use super::text::{Context, LineFormat, request};
use crate::numbers::{Scanner, Word, scaled_field, whole_field};
use crate::order::OrderRule;
use crate::request::{Op, Request};
use crate::volumes::Volumes;
use thermocline_units::Nanos;

/// Nanoseconds of a microsecond.
const MICROSECOND_NS: u64 = 1_000;

/// The ops and the comma behind them.
const READ: Word = Word::of(b"R,");
const WRITE: Word = Word::of(b"W,");

/// Parser of Alibaba's block traces.
#[derive(Debug)]
pub(crate) struct Alibaba;

impl LineFormat for Alibaba {
    fn layout(&self) -> &str {
        "device_id,opcode,offset,length,timestamp"
    }

    fn order(&self) -> OrderRule {
        OrderRule::Window(Nanos(0))
    }

    #[inline(always)]
    fn read_quickly(&mut self, text: &[u8], volumes: &mut Volumes) -> Option<(Request, usize)> {
        let mut scanner = Scanner::new(text);
        scanner.number_then(b',')?;
        let device = text.get(..scanner.position() - 1)?;
        let op = match scanner.accept_either(READ, WRITE)? {
            true => Op::Read,
            false => Op::Write,
        };
        let offset = scanner.number_then(b',')?;
        let length = scanner.number_then(b',')?;
        let time = scanner.number_then(b'\n')?.checked_mul(MICROSECOND_NS)?;
        let volume = volumes.id_of(device).ok()?;
        Some((request(time, volume, op, offset, length), scanner.position()))
    }

    fn read_line(
        &mut self,
        line: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Option<Request>, Problem> {
        let [device, op, offset, length, time] = split_commas(line)?;
        whole_field("the device id", device)?;
        let op = read_or_write(op)?;
        let offset = whole_field("the offset", offset)?;
        let length = whole_field("the length", length)?;
        let time = scaled_field("the timestamp", time, MICROSECOND_NS)?;
        let volume = context.volumes.id_of(device)?;
        Ok(Some(request(time, volume, op, offset, length)))
    }
}
