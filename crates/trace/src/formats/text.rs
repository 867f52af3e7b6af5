//! Code that every format of one request a line shares: headers, blank lines, checks that hold for
//! any request, order, repairs, and errors with the line's number.
//!
//! Rules for every text format: a blank line holds nothing; the first line may be the format's
//! header; a read, write or trim of zero bytes addresses nothing and is left out and counted; no
//! request may end beyond [`END_MAX`]; a last line without a line end is taken and reported,
//! because a file cut off inside its last number looks just so.

use super::{Problem, ReaderState};
use crate::TraceReader;
use crate::error::TraceError;
use crate::input::{Lines, Source};
use crate::order::{OrderRule, Steady, Window, counted};
use crate::request::{Batch, ContentHash, Op, Request};
use crate::volumes::Volumes;
use thermocline_units::{Bytes, Nanos, VolumeId};

/// No request may end beyond this many bytes: no volume is larger, and sums stay in range.
pub(crate) const END_MAX: u64 = i64::MAX as u64;

/// Means of a line's parser beside the line.
pub(crate) struct Context<'a> {
    /// The trace's volumes.
    pub(crate) volumes: &'a mut Volumes,
    /// Content hashes of the request; only formats that keep the file's order have them.
    pub(crate) hashes: &'a mut Vec<ContentHash>,
}

/// A format with at most one request a line.
pub(crate) trait LineFormat: Send + 'static {
    /// The layout of a line, as messages show it and as a header line may spell it.
    fn layout(&self) -> &str;

    /// Treatment of disorder.
    fn order(&self) -> OrderRule;

    /// True if the first line is a header.
    fn is_header(&self, line: &[u8]) -> bool {
        line.eq_ignore_ascii_case(self.layout().as_bytes())
    }

    /// Adds what the format itself repaired or left out.
    fn repairs(&self, _repairs: &mut Vec<String>) {}

    /// The reason that there may be no request in the whole input, if the format knows one.
    fn why_empty(&self) -> Option<String> {
        None
    }

    /// Reads a line in the format's canonical spelling from the beginning of `text`, which goes
    /// on behind it: the request and the bytes of the line with its end. Whatever is unusual in
    /// the least is left, by `None`, to [`LineFormat::read_line`], which must agree where both
    /// read a line.
    #[inline(always)]
    fn read_quickly(&mut self, _text: &[u8], _volumes: &mut Volumes) -> Option<(Request, usize)> {
        None
    }

    /// Reads one line that is not blank; `None` when it holds no request. The time is absolute.
    fn read_line(
        &mut self,
        line: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Option<Request>, Problem>;
}

/// A request without response time and hashes.
#[inline(always)]
pub(crate) fn request(time: u64, volume: VolumeId, op: Op, offset: u64, length: u64) -> Request {
    Request {
        time: Nanos(time),
        volume,
        op,
        offset: Bytes(offset),
        length: Bytes(length),
        response: None,
        hashes: Default::default(),
    }
}

/// Kind of the next line.
enum NextLine {
    Request(Request),
    Nothing,
    End,
}

/// State of the sorting.
enum Ordering {
    Window(Box<Window>),
    Steady(Steady),
}

/// Reads any [`LineFormat`].
pub(crate) struct TextReader<F> {
    lines: Lines,
    format: F,
    volumes: Volumes,
    ordering: Ordering,
    state: ReaderState,
    at_end: bool,
}

impl<F: LineFormat> TextReader<F> {
    pub(crate) fn new(source: Source, format: F) -> TextReader<F> {
        let ordering = match format.order() {
            OrderRule::Window(tolerance) => Ordering::Window(Box::new(Window::new(tolerance))),
            OrderRule::Steady(tolerance) => Ordering::Steady(Steady::new(tolerance)),
        };
        TextReader {
            lines: Lines::new(source),
            format,
            volumes: Volumes::default(),
            ordering,
            state: ReaderState::default(),
            at_end: false,
        }
    }

    /// The next request of the file, with its absolute time.
    #[inline(always)]
    fn next_request(
        &mut self,
        hashes: &mut Vec<ContentHash>,
    ) -> Result<Option<Request>, TraceError> {
        loop {
            let quick = self.format.read_quickly(self.lines.buffered(), &mut self.volumes);
            let hashes_before = hashes.len();
            let request = match quick {
                Some((request, bytes)) => {
                    self.lines.step_over(bytes);
                    self.state.lines_seen += 1;
                    request
                }
                None => match self.next_line(hashes)? {
                    NextLine::Request(request) => request,
                    NextLine::Nothing => continue,
                    NextLine::End => return Ok(None),
                },
            };
            if request.length.0 == 0 && request.op != Op::Flush {
                hashes.truncate(hashes_before);
                self.state.note_zero_sized(|| format!("line {}", self.lines.number()));
                continue;
            }
            if request.offset.0.checked_add(request.length.0).is_none_or(|end| end > END_MAX) {
                return Err(self.complain(Problem::new(format!(
                    "a request of {} bytes at byte {} ends beyond 2^63 − 1",
                    request.length.0, request.offset.0
                ))));
            }
            self.state.requests += 1;
            return Ok(Some(request));
        }
    }

    /// Reads the next line with the careful parser.
    #[inline(always)]
    fn next_line(&mut self, hashes: &mut Vec<ContentHash>) -> Result<NextLine, TraceError> {
        let Some(line) = self.lines.next()? else {
            self.at_end = true;
            return Ok(NextLine::End);
        };
        if line.is_empty() {
            return Ok(NextLine::Nothing);
        }
        self.state.lines_seen += 1;
        if self.state.lines_seen == 1 && self.format.is_header(line) {
            return Ok(NextLine::Nothing);
        }
        let mut context = Context { volumes: &mut self.volumes, hashes };
        match self.format.read_line(line, &mut context) {
            Ok(Some(request)) => Ok(NextLine::Request(request)),
            Ok(None) => Ok(NextLine::Nothing),
            Err(problem) => Err(self.complain(problem)),
        }
    }

    #[cold]
    fn complain(&self, problem: Problem) -> TraceError {
        self.lines.malformed(format!("{problem}; expected `{}`", self.format.layout()))
    }

    fn read_window(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        loop {
            let Ordering::Window(window) = &mut self.ordering else {
                unreachable!("the caller matched the window")
            };
            if !window.is_drained() {
                window.give(batch);
                return Ok(());
            }
            if self.at_end && window.is_empty() {
                return Ok(());
            }
            self.fill_window()?;
            if let Ordering::Window(window) = &mut self.ordering {
                window.turn();
            }
        }
    }

    fn fill_window(&mut self) -> Result<(), TraceError> {
        let mut no_hashes = Vec::new();
        while !self.at_end {
            let Some(request) = self.next_request(&mut no_hashes)? else { break };
            let Ordering::Window(window) = &mut self.ordering else {
                unreachable!("the caller matched the window")
            };
            let pushed = window.push(request, || format!("line {}", self.lines.number()));
            if let Err(problem) = pushed {
                return Err(self.lines.malformed(problem.to_string()));
            }
            if window.is_full() {
                break;
            }
        }
        assert!(no_hashes.is_empty(), "a format with content hashes keeps the file's order");
        Ok(())
    }

    fn read_steady(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        while batch.requests.len() < Batch::CAPACITY && batch.hashes.len() < Batch::HASHES_MAX {
            let Some(mut request) = self.next_request(&mut batch.hashes)? else { break };
            let Ordering::Steady(steady) = &mut self.ordering else {
                unreachable!("the caller matched the steady rule")
            };
            let admitted = steady.admit(&mut request, || format!("line {}", self.lines.number()));
            if let Err(problem) = admitted {
                return Err(self.lines.malformed(problem.to_string()));
            }
            batch.requests.push(request);
        }
        Ok(())
    }

    /// The input is at its end: it must have held a request.
    fn check_end(&self) -> Result<(), TraceError> {
        if self.state.requests > 0 {
            return Ok(());
        }
        let reason = match (self.lines.number(), self.state.why_empty().or(self.format.why_empty()))
        {
            (0, _) => "the input is empty".to_string(),
            (_, Some(reason)) => reason,
            (lines, None) => {
                format!("there is no request in its {}", counted(lines, "line", "lines"))
            }
        };
        Err(self
            .lines
            .malformed_whole(format!("{reason}; expected lines of `{}`", self.format.layout())))
    }
}

impl<F: LineFormat> TraceReader for TextReader<F> {
    fn read_batch(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        batch.clear();
        if self.state.failed {
            return Err(self.lines.malformed(super::FAILED_BEFORE.to_string()));
        }
        let read = match self.ordering {
            Ordering::Window(_) => self.read_window(batch),
            Ordering::Steady(_) => self.read_steady(batch),
        };
        let read =
            read.and_then(|()| if batch.requests.is_empty() { self.check_end() } else { Ok(()) });
        if read.is_err() {
            batch.clear();
            self.state.failed = true;
        }
        read
    }

    fn volumes(&self) -> &[String] {
        self.volumes.names()
    }

    fn repairs(&self) -> Vec<String> {
        let mut repairs = Vec::new();
        match &self.ordering {
            Ordering::Window(window) => window.repairs(&mut repairs),
            Ordering::Steady(steady) => steady.repairs(&mut repairs),
        }
        self.state.repairs(&mut repairs);
        self.format.repairs(&mut repairs);
        if self.lines.is_unended() {
            repairs.push(format!(
                "the last line ({}) has no line end; if the file was cut off there, its last \
                 number may be short",
                self.lines.number()
            ));
        }
        repairs
    }

    fn position(&self) -> String {
        format!("{}:{} or before", self.lines.name(), self.lines.number())
    }

    fn bytes_read(&self) -> u64 {
        self.lines.raw_bytes()
    }
}
