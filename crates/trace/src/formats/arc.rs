//! The ARC paper's `.lis`: `start count ignored number`, separated by blanks.
//!
//! Source: N. Megiddo, D. Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003,
//! whose traces P1–P14, OLTP, S1–S3 and others have this layout. Each line asks for `count` pages
//! of 512 bytes from page `start` on; all are reads. There are no times: a request's time is its
//! number in the file, counted in nanoseconds from 0, which keeps order and says nothing about
//! rates; the repairs say so. The third and fourth fields must be numbers and are not used (OLTP
//! has 0 there).

use super::Problem;
use super::text::{Context, LineFormat, request};
use crate::numbers::{Excerpt, scaled_field, whole_field};
use crate::order::OrderRule;
use crate::request::{Op, Request};
use thermocline_units::Nanos;

/// Bytes of a page.
const PAGE_BYTES: u64 = 512;

/// Parser of ARC's `.lis` traces.
#[derive(Debug)]
pub(crate) struct ArcLines {
    volume: String,
    requests: u64,
}

impl ArcLines {
    pub(crate) fn new(volume: String) -> ArcLines {
        ArcLines { volume, requests: 0 }
    }
}

/// Repair reported by formats without times.
pub(super) const NO_TIMES: &str =
    "the trace has no times; a request's time is its number in the file, in nanoseconds";

impl LineFormat for ArcLines {
    fn layout(&self) -> &str {
        "start count ignored number"
    }

    fn order(&self) -> OrderRule {
        OrderRule::Steady(Nanos(0))
    }

    fn repairs(&self, repairs: &mut Vec<String>) {
        repairs.push(NO_TIMES.to_string());
    }

    fn read_line(
        &mut self,
        line: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Option<Request>, Problem> {
        let [start, count, ignored, number] = split_blanks(line)?;
        let offset = scaled_field("the start", start, PAGE_BYTES)?;
        let length = scaled_field("the count", count, PAGE_BYTES)?;
        whole_field("the third field", ignored)?;
        whole_field("the request number", number)?;
        let volume = context.volumes.id_of(self.volume.as_bytes())?;
        let time = self.requests;
        self.requests += 1;
        Ok(Some(request(time, volume, Op::Read, offset, length)))
    }
}

/// Splits at blanks into exactly `N` fields.
pub(super) fn split_blanks<const N: usize>(line: &[u8]) -> Result<[&[u8]; N], Problem> {
    let mut fields: [&[u8]; N] = [&[]; N];
    let mut count = 0;
    for field in blank_separated(line) {
        if let Some(place) = fields.get_mut(count) {
            *place = field;
        }
        count += 1;
    }
    if count != N {
        let found = if count == 1 { "1 field".to_string() } else { format!("{count} fields") };
        return Err(Problem::new(format!(
            "{found} where there should be {N}: `{}`",
            Excerpt(line)
        )));
    }
    Ok(fields)
}

/// The fields of a line separated by blanks and tabs.
pub(super) fn blank_separated(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|field| !field.is_empty())
}

/// The first fields of a line separated by blanks and tabs, as many as there are places.
pub(super) fn first_blank_separated<'a, 'p>(
    line: &'a [u8],
    places: &'p mut [&'a [u8]],
) -> &'p [&'a [u8]] {
    let mut count = 0;
    for (place, field) in places.iter_mut().zip(blank_separated(line)) {
        *place = field;
        count += 1;
    }
    places.get(..count).unwrap_or_default()
}
