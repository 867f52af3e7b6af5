//! SPC, the format of UMass's Financial and WebSearch: `ASU,LBA,Size,Opcode,Timestamp`.
//!
//! Source: Storage Performance Council, "SPC Trace File Format Specification", revision 1.0.1
//! (2002). The ASU (application storage unit) is the volume, LBA counts 512-byte blocks, Size
//! bytes, Opcode is `R` or `W` in any case, Timestamp seconds since the start with a fraction.
//! Further fields are allowed by the specification and ignored. No response times.

use super::Problem;
use super::msr::read_or_write;
use super::text::{Context, LineFormat, request};
use crate::numbers::{Excerpt, fraction_field, scaled_field, whole_field};
use crate::order::OrderRule;
use crate::request::Request;
use thermocline_units::Nanos;

/// Bytes of a logical block.
const BLOCK_BYTES: u64 = 512;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Parser of SPC traces.
#[derive(Debug)]
pub(crate) struct Spc;

impl LineFormat for Spc {
    fn layout(&self) -> &str {
        "ASU,LBA,Size,Opcode,Timestamp"
    }

    fn order(&self) -> OrderRule {
        OrderRule::Window(Nanos(0))
    }

    fn read_line(
        &mut self,
        line: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Option<Request>, Problem> {
        let mut fields = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let five = (fields.next(), fields.next(), fields.next(), fields.next(), fields.next());
        let (Some(unit), Some(block), Some(size), Some(op), Some(time)) = five else {
            return Err(Problem::new(format!("fewer than 5 fields: `{}`", Excerpt(line))));
        };
        whole_field("the ASU", unit)?;
        let offset = scaled_field("the LBA", block, BLOCK_BYTES)?;
        let length = whole_field("the size", size)?;
        let op = read_or_write(op)?;
        let time = fraction_field("the timestamp", time, SECOND_NS)?;
        let volume = context.volumes.id_of(unit)?;
        Ok(Some(request(time, volume, op, offset, length)))
    }
}
