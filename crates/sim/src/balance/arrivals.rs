//! Times at which requests arrive: by a process, or as in a trace.

use super::mmpp::Mmpp;
use std::sync::Arc;
use thermocline_trace::{Batch, TraceError, TraceReader};
use thermocline_units::Nanos;

/// A request of a trace, as a balancer sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Time of arrival, since the first.
    pub at: Nanos,
    /// Its length in bytes.
    pub bytes: u32,
}

/// Arrivals of requests.
#[derive(Debug, Clone)]
pub enum Arrivals {
    /// Drawn anew for each seed.
    Process(Mmpp),
    /// Arrivals as recorded, the same for each seed; at least two, not all at one moment.
    Trace(Arc<[Arrival]>),
}

/// Arrivals that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ArrivalsError {
    /// The trace is not what its format promises.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is no time between requests.
    #[error("the trace has {0} requests and no time between them; a load cannot be made of that")]
    TooFew(usize),
}

impl Arrivals {
    /// Mean seconds between arrivals.
    pub fn gap_s(&self) -> f64 {
        match self {
            Arrivals::Process(process) => process.gap_s(),
            Arrivals::Trace(arrivals) => {
                let last = arrivals.last().map_or(0.0, |arrival| arrival.at.as_secs_f64());
                last / (arrivals.len() - 1) as f64
            }
        }
    }
}

/// Reads the times and lengths of the first `count` requests of a trace. `progress` is told bytes
/// of input.
///
/// # Errors
/// When the trace cannot be read, or has no two requests at different times.
pub fn read_arrivals(
    reader: &mut dyn TraceReader,
    count: usize,
    progress: &dyn Fn(u64),
) -> Result<Arrivals, ArrivalsError> {
    let mut arrivals = Vec::new();
    let mut batch = Batch::default();
    while arrivals.len() < count {
        reader.read_batch(&mut batch)?;
        if batch.requests.is_empty() {
            break;
        }
        let some = batch.requests.iter().take(count - arrivals.len());
        arrivals.extend(some.map(|request| Arrival {
            at: request.time,
            bytes: request.length.0.min(u32::MAX.into()) as u32,
        }));
        progress(reader.bytes_read());
    }
    let first = arrivals.first().map_or(Nanos(0), |arrival| arrival.at);
    arrivals.iter_mut().for_each(|arrival| arrival.at = arrival.at.saturating_sub(first));
    match arrivals.last() {
        Some(last) if last.at > Nanos(0) => Ok(Arrivals::Trace(arrivals.into())),
        _ => Err(ArrivalsError::TooFew(arrivals.len())),
    }
}
