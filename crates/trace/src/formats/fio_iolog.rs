//! fio's I/O log, versions 2 and 3.
//!
//! Source: fio's HOWTO, "Trace file format v2" and "v3", and `iolog.c` of fio 3.36, which decides
//! where they differ. The first line is `fio version 2 iolog` or `fio version 3 iolog`; then
//!
//! ```text
//! v2:       filename add|open|close          v3: time filename add|open|close
//!           filename action offset length        time filename action offset length
//! ```
//!
//! Actions: read, write, trim; sync, datasync, sync_file_range and syncfs are flushes; wait, in
//! v2 only. Offset and length count bytes; a file is a volume, numbered when it is first named.
//! Times of v3 are microseconds since the job's start. v2 has none: `wait N` means, as fio
//! executes it, that what follows starts no earlier than N milliseconds after the start (the
//! HOWTO speaks of microseconds since the previous wait, which is not what fio does); without any
//! wait all times are 0, which the repairs say.

use super::Problem;
use super::arc::first_blank_separated;
use super::text::{Context, LineFormat, request};
use crate::numbers::{Excerpt, scaled_field, whole_field};
use crate::order::OrderRule;
use crate::request::{Op, Request};
use thermocline_units::Nanos;

/// Nanoseconds of a millisecond, the unit of a wait.
const MILLISECOND_NS: u64 = 1_000_000;

/// Nanoseconds of a microsecond, the unit of v3's times.
const MICROSECOND_NS: u64 = 1_000;

/// Fields a line of v3 may have.
const FIELDS_MAX: usize = 5;

/// Version that the first line promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

/// Parser of fio's I/O logs.
#[derive(Debug, Default)]
pub(crate) struct FioIolog {
    version: Option<Version>,
    waited_ns: u64,
    saw_wait: bool,
}

/// A line's fields after its time.
struct Action<'a> {
    time: u64,
    file: &'a [u8],
    action: &'a [u8],
    range: &'a [&'a [u8]],
}

impl FioIolog {
    fn perform(
        &mut self,
        action: Action<'_>,
        context: &mut Context<'_>,
    ) -> Result<Option<Request>, Problem> {
        let volume = context.volumes.id_of(action.file)?;
        let op = match action.action {
            b"add" | b"open" | b"close" => {
                return match action.range {
                    [] => Ok(None),
                    _ => Err(Problem::new("a file action has no offset and length".to_string())),
                };
            }
            b"wait" => return self.wait(action.range),
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Trim,
            b"sync" | b"datasync" | b"sync_file_range" | b"syncfs" => Op::Flush,
            other => {
                return Err(Problem::new(format!("fio has no action `{}`", Excerpt(other))));
            }
        };
        let (offset, length) = match action.range {
            [offset, length] => {
                (whole_field("the offset", offset)?, whole_field("the length", length)?)
            }
            _ if op == Op::Flush => (0, 0),
            _ => return Err(Problem::new("the offset and the length are missing".to_string())),
        };
        if op == Op::Flush {
            return Ok(Some(request(action.time, volume, op, 0, 0)));
        }
        Ok(Some(request(action.time, volume, op, offset, length)))
    }

    fn wait(&mut self, range: &[&[u8]]) -> Result<Option<Request>, Problem> {
        if self.version == Some(Version::Three) {
            return Err(Problem::new("there is no wait in version 3".to_string()));
        }
        let until = range.first().copied().unwrap_or_default();
        let until = scaled_field("the wait", until, MILLISECOND_NS)?;
        self.waited_ns = self.waited_ns.max(until);
        self.saw_wait = true;
        Ok(None)
    }
}

impl LineFormat for FioIolog {
    fn layout(&self) -> &str {
        match self.version {
            None => "fio version 3 iolog",
            Some(Version::Two) => "filename action offset length",
            Some(Version::Three) => "time filename action offset length",
        }
    }

    fn order(&self) -> OrderRule {
        OrderRule::Window(Nanos(0))
    }

    fn is_header(&self, _line: &[u8]) -> bool {
        false
    }

    fn repairs(&self, repairs: &mut Vec<String>) {
        if self.version == Some(Version::Two) && !self.saw_wait {
            repairs.push("the log is of version 2, without times; all are 0".to_string());
        }
    }

    fn read_line(
        &mut self,
        line: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Option<Request>, Problem> {
        let Some(version) = self.version else {
            self.version = match line.trim_ascii() {
                b"fio version 2 iolog" => Some(Version::Two),
                b"fio version 3 iolog" => Some(Version::Three),
                other => {
                    return Err(Problem::new(format!("the log opens with `{}`", Excerpt(other))));
                }
            };
            return Ok(None);
        };
        let mut places: [&[u8]; FIELDS_MAX + 1] = [&[]; FIELDS_MAX + 1];
        let fields = first_blank_separated(line, &mut places);
        let (time, fields) = match version {
            Version::Two => (self.waited_ns, fields),
            Version::Three => {
                let time = fields.first().copied().unwrap_or_default();
                let time = scaled_field("the time", time, MICROSECOND_NS)?;
                (time, fields.get(1..).unwrap_or_default())
            }
        };
        match fields {
            [file, action, range @ ..] if range.len() <= 2 => {
                self.perform(Action { time, file, action, range }, context)
            }
            _ => Err(Problem::new(format!("not an action on a file: `{}`", Excerpt(line)))),
        }
    }
}
