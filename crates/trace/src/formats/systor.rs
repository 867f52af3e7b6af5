//! SYSTOR '17: `Timestamp,Response,IOType,LUN,Offset,Size`, with that header line.
//!
//! Source: C. Lee et al., "Understanding Storage Traffic Characteristics on Enterprise Virtual
//! Desktop Infrastructure", SYSTOR 2017 (SNIA IOTTA 4964). Timestamp and Response are seconds
//! with a fraction, Offset and Size bytes, IOType `R` or `W`; the volume is the LUN. A response
//! that is empty or 0 is unknown.

use super::Problem;
use super::msr::{read_or_write, split_commas};
use super::text::{Context, LineFormat, request};
use crate::numbers::{fraction_field, whole_field};
use crate::order::OrderRule;
use crate::request::Request;
use thermocline_units::Nanos;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Parser of SYSTOR '17 traces.
#[derive(Debug)]
pub(crate) struct Systor17;

impl LineFormat for Systor17 {
    fn layout(&self) -> &str {
        "Timestamp,Response,IOType,LUN,Offset,Size"
    }

    fn order(&self) -> OrderRule {
        OrderRule::Window(Nanos(0))
    }

    fn read_line(
        &mut self,
        line: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Option<Request>, Problem> {
        let [time, response, op, lun, offset, size] = split_commas(line)?;
        let time = fraction_field("the timestamp", time, SECOND_NS)?;
        let response = match response {
            b"" => 0,
            response => fraction_field("the response time", response, SECOND_NS)?,
        };
        let op = read_or_write(op)?;
        let offset = whole_field("the offset", offset)?;
        let length = whole_field("the size", size)?;
        let volume = context.volumes.id_of(lun)?;
        let mut found = request(time, volume, op, offset, length);
        found.response = (response > 0).then_some(Nanos(response));
        Ok(Some(found))
    }
}
