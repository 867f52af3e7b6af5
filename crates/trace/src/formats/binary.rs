//! Code that both binary formats share: fixed-size records, checks, order, errors with the byte.
//!
//! The file's order is kept (see `order.rs`); a record that ends early is an error, a request of
//! zero bytes is left out and counted.

use super::text::END_MAX;
use super::{Problem, ReaderState};
use crate::TraceReader;
use crate::error::TraceError;
use crate::input::{Records, Source};
use crate::order::Steady;
use crate::request::{Batch, Op, Request};
use crate::volumes::Volumes;
use thermocline_units::Nanos;

/// A format of records of one size.
pub(crate) trait RecordFormat: Send + 'static {
    /// Greatest step back of a time that is lifted.
    const TOLERANCE: Nanos;
    /// True if records name objects and not addresses.
    const NAMES_OBJECTS: bool = false;

    /// Bytes of a record.
    fn record_bytes(&self) -> usize;

    /// Reads one record; `None` when it is no request. The time is absolute.
    fn read_record(
        &mut self,
        record: &[u8],
        volumes: &mut Volumes,
    ) -> Result<Option<Request>, Problem>;

    /// Appends the format's own omissions.
    fn repairs(&self, _repairs: &mut Vec<String>) {}
}

/// Reads any [`RecordFormat`].
pub(crate) struct BinaryReader<F> {
    records: Records,
    format: F,
    volumes: Volumes,
    steady: Steady,
    state: ReaderState,
}

impl<F: RecordFormat> BinaryReader<F> {
    pub(crate) fn new(source: Source, format: F) -> BinaryReader<F> {
        BinaryReader {
            records: Records::new(source, format.record_bytes()),
            format,
            volumes: Volumes::default(),
            steady: Steady::new(F::TOLERANCE),
            state: ReaderState::default(),
        }
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        let record_bytes = self.format.record_bytes();
        while batch.requests.len() < Batch::CAPACITY {
            let position = self.records.position(0);
            let available = self.records.available()?;
            if available.is_empty() {
                break;
            }
            let mut used = 0;
            let mut wrong = None;
            for record in available.chunks_exact(record_bytes) {
                if batch.requests.len() == Batch::CAPACITY {
                    break;
                }
                let place = || format!("byte {}", position + (used * record_bytes) as u64);
                let taken =
                    self.format.read_record(record, &mut self.volumes).and_then(
                        |found| match found {
                            Some(request) => {
                                admit(request, &mut self.steady, &mut self.state, place)
                            }
                            None => Ok(None),
                        },
                    );
                match taken {
                    Ok(Some(request)) => batch.requests.push(request),
                    Ok(None) => {}
                    Err(problem) => {
                        wrong = Some(problem);
                        break;
                    }
                }
                used += 1;
            }
            if let Some(problem) = wrong {
                let byte = self.records.position(used);
                return Err(self.records.malformed(byte, problem.to_string()));
            }
            self.records.consume(used);
        }
        self.state.requests += batch.requests.len() as u64;
        if self.state.requests == 0 {
            let problem = "there is no request in the input; is it of this format?";
            return Err(self.records.malformed_whole(problem.to_string()));
        }
        Ok(())
    }
}

/// The problem with a record that has fewer bytes than its format's.
#[cold]
pub(super) fn cut_off() -> Problem {
    Problem::new("the record is cut off".to_string())
}

/// The checks that hold for any request.
#[inline(always)]
fn admit(
    mut request: Request,
    steady: &mut Steady,
    state: &mut ReaderState,
    place: impl Fn() -> String,
) -> Result<Option<Request>, Problem> {
    if request.length.0 == 0 && request.op != Op::Flush {
        state.note_zero_sized(place);
        return Ok(None);
    }
    if request.offset.0.checked_add(request.length.0).is_none_or(|end| end > END_MAX) {
        return Err(Problem::new(format!(
            "a request of {} bytes at byte {} of its volume ends beyond 2^63 − 1",
            request.length.0, request.offset.0
        )));
    }
    steady.admit(&mut request, place)?;
    Ok(Some(request))
}

impl<F: RecordFormat> TraceReader for BinaryReader<F> {
    fn read_batch(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        batch.clear();
        if self.state.failed {
            let byte = self.records.position(0);
            return Err(self.records.malformed(byte, super::FAILED_BEFORE.to_string()));
        }
        let filled = self.fill(batch);
        if filled.is_err() {
            batch.clear();
            self.state.failed = true;
        }
        filled
    }

    fn volumes(&self) -> &[String] {
        self.volumes.names()
    }

    fn repairs(&self) -> Vec<String> {
        let mut repairs = Vec::new();
        self.steady.repairs(&mut repairs);
        self.state.repairs(&mut repairs);
        self.format.repairs(&mut repairs);
        repairs
    }

    fn names_objects(&self) -> bool {
        F::NAMES_OBJECTS
    }

    fn position(&self) -> String {
        format!("{} at byte {} or before", self.records.name(), self.records.position(0))
    }

    fn bytes_read(&self) -> u64 {
        self.records.raw_bytes()
    }
}
