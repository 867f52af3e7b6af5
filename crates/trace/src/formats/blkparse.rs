//! Text output of blkparse in its default format.
//!
//! ```text
//!   8,0    1        1     0.000000000  1234  Q  WS 2048 + 8 [proc]
//!   dev    cpu      number seconds     pid   event rwbs sector + sectors [process]
//! ```
//!
//! Source: blkparse(1), "Default output"; the rwbs letters from the kernel's `blk_fill_rwbs`. The
//! volume is the device `major,minor`; sectors have 512 bytes. One request passes through several
//! events, so exactly one kind is read, `Q` (queued) unless another is chosen; lines of other
//! events and messages are passed over.
//!
//! rwbs: a leading `F` asks for a flush first; then `R` reads, `W` writes, `D` and `E` discard
//! and erase, `N` is none of them. A flush without data (`FN`, and `FWS` without sectors, as the
//! kernel writes it) is a flush; one that comes with data is that read or write only, since the
//! flush is not an event of its own. Events that are none of these, or name no sectors, are left
//! out and counted. The summary that blkparse prints after
//! the events is recognised by its headings and passed over.

use super::Problem;
use super::arc::blank_separated;
use super::text::{Context, LineFormat, request};
use crate::numbers::{Excerpt, fraction_field, scaled_field, whole, whole_field};
use crate::order::{OrderRule, counted};
use crate::request::{Op, Request};
use std::collections::BTreeMap;
use thermocline_units::Nanos;

/// Bytes of a sector.
const SECTOR_BYTES: u64 = 512;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// The event read unless another is chosen: a request enters the block layer's queue.
const DEFAULT_EVENT: char = 'Q';

/// Kinds of events remembered for the message when the chosen one does not occur; there are 26
/// letters.
const EVENTS_MAX: usize = 32;

/// Parser of the output of blkparse.
#[derive(Debug)]
pub(crate) struct Blkparse {
    event: [u8; 4],
    event_bytes: usize,
    in_summary: bool,
    others: BTreeMap<u8, u64>,
    without_range: u64,
}

impl Blkparse {
    pub(crate) fn new(event: Option<char>) -> Blkparse {
        let mut bytes = [0; 4];
        let event_bytes = event.unwrap_or(DEFAULT_EVENT).encode_utf8(&mut bytes).len();
        Blkparse {
            event: bytes,
            event_bytes,
            in_summary: false,
            others: BTreeMap::new(),
            without_range: 0,
        }
    }

    fn event(&self) -> &[u8] {
        self.event.get(..self.event_bytes).unwrap_or_default()
    }

    fn note_other(&mut self, event: &[u8]) {
        let Some(kind) = event.first() else { return };
        if self.others.len() < EVENTS_MAX || self.others.contains_key(kind) {
            *self.others.entry(*kind).or_default() += 1;
        }
    }
}

/// True if a line opens the summary that follows the events.
fn opens_summary(line: &[u8]) -> bool {
    const HEADINGS: [&[u8]; 5] = [b"CPU", b"Total (", b"Throughput ", b"Events (", b"Skips:"];
    HEADINGS.iter().any(|heading| line.starts_with(heading))
}

/// `8,0`: two numbers and a comma.
fn is_device(field: &[u8]) -> bool {
    let mut parts = field.split(|byte| *byte == b',');
    let (major, minor) = (parts.next(), parts.next());
    [major, minor].iter().all(|part| part.is_some_and(|part| whole(part).is_some()))
        && parts.next().is_none()
}

/// Kind of an event with `rwbs`; `None` for what is no request.
fn op_of(rwbs: &[u8]) -> Option<Op> {
    let (flush, rest) = match rwbs {
        [b'F', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    match rest.first() {
        Some(b'R') => Some(Op::Read),
        Some(b'W') => Some(Op::Write),
        Some(b'D' | b'E') => Some(Op::Trim),
        _ if flush => Some(Op::Flush),
        _ => None,
    }
}

/// True of what follows the letters of an event without data: nothing, or `[process]`; behind a
/// completion's sector also the bracket of its error.
fn names_no_range(rest: [Option<&[u8]>; 3]) -> bool {
    let is_bracket = |field: Option<&[u8]>| field.is_some_and(|field| field.starts_with(b"["));
    rest[0].is_none() || is_bracket(rest[0]) || is_bracket(rest[1])
}

impl LineFormat for Blkparse {
    fn layout(&self) -> &str {
        "major,minor cpu number seconds pid event rwbs sector + sectors [process]"
    }

    fn order(&self) -> OrderRule {
        OrderRule::Window(Nanos(0))
    }

    fn is_header(&self, _line: &[u8]) -> bool {
        false
    }

    fn repairs(&self, repairs: &mut Vec<String>) {
        if self.without_range > 0 {
            repairs.push(format!(
                "{} without a range and left out (not reads, writes, discards or flushes)",
                counted(self.without_range, "event was", "events were")
            ));
        }
    }

    fn why_empty(&self) -> Option<String> {
        let kinds: Vec<String> = self
            .others
            .iter()
            .map(|(event, count)| format!("{} × {}", char::from(*event).escape_default(), count))
            .collect();
        (!kinds.is_empty()).then(|| {
            format!(
                "there is no event `{}` of blkparse with a request, but {}; choose one of these",
                self.event().escape_ascii(),
                kinds.join(", ")
            )
        })
    }

    fn read_line(
        &mut self,
        line: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Option<Request>, Problem> {
        let mut fields = blank_separated(line);
        let Some(device) = fields.next() else { return Ok(None) };
        if !is_device(device) {
            self.in_summary |= opens_summary(line);
            if self.in_summary {
                return Ok(None);
            }
            return Err(Problem::new(format!("`{}` is not a device like 8,0", Excerpt(device))));
        }
        let mut field =
            |what: &str| fields.next().ok_or_else(|| Problem::new(format!("{what} is missing")));
        whole_field("the cpu", field("the cpu")?)?;
        whole_field("the event's number", field("the event's number")?)?;
        let time = fraction_field("the time", field("the time")?, SECOND_NS)?;
        whole_field("the process id", field("the process id")?)?;
        let event = field("the event")?;
        if event != self.event() {
            self.note_other(event);
            return Ok(None);
        }
        let rwbs = field("rwbs")?;
        let (op, is_flush) = (op_of(rwbs), rwbs.starts_with(b"F"));
        let range = [fields.next(), fields.next(), fields.next()];
        let volume = context.volumes.id_of(device)?;
        let flush = Ok(Some(request(time, volume, Op::Flush, 0, 0)));
        match (op, range) {
            (Some(Op::Flush), _) => flush,
            (Some(_), [_, Some(b"+"), Some(b"0")]) if is_flush => flush,
            (Some(op), [Some(sector), Some(b"+"), Some(count)]) => {
                let offset = scaled_field("the sector", sector, SECTOR_BYTES)?;
                let length = scaled_field("the count of sectors", count, SECTOR_BYTES)?;
                Ok(Some(request(time, volume, op, offset, length)))
            }
            (Some(_), range) if is_flush && names_no_range(range) => flush,
            (Some(Op::Write), range) if names_no_range(range) => {
                self.without_range += 1;
                Ok(None)
            }
            (Some(_), _) => {
                Err(Problem::new(format!("no `sector + count` in `{}`", Excerpt(line))))
            }
            (None, _) => {
                self.without_range += 1;
                Ok(None)
            }
        }
    }
}
