//! Characterisation of a workload: amounts, working set, popularity, order, sizes, arrivals; in one
//! pass.
//!
//! Steps for each request, which must come in order of time:
//! 1. Its volume's amounts, arrivals and response times; for a read or write also its size, and its
//!    distance to the end of the read or write before it in the volume.
//! 2. Every 4 KiB page that it touches: how often, when last, read or written (`places`).
//! 3. Every 1 MiB chunk that it touches: how often, when last, how many bytes; the first access in
//!    an interval of five minutes makes the chunk one of those that are active then.
//!
//! The whole workload's results come from the volumes' at the end; only its arrivals are followed
//! on their own, from the second volume on.
//!
//! Sources: Ge 2017, Table 3.3 and §3.2.3 (popularity, sequentiality); Tai 2015, Table 12 (volume
//! size, working set, re-access), eq. 2 (index of dispersion), §4.2.1 and Fig. 22 (chunks). Neither
//! says at which granularity it counts; docs/guides/traces.md says how we read them.
//!
//! State: 21–43 B a distinct page, 43–85 B a distinct chunk, some 10 to 200 KiB a volume with its
//! histograms; nothing that grows with the number of requests. It does not look at content hashes.

mod arrivals;
mod characteristics;
mod histogram;
mod places;
mod ranking;
mod table;
mod totals;
mod volume;

pub use arrivals::{COUNTED_IN, LAGS_MAX};
pub use characteristics::{
    Amount, Characteristics, Concentration, Reaccess, Sequentiality, Timing,
};
pub use histogram::Histogram;
pub use places::{BIN, BIN_TEXT, PAGE, REACCESS_WITHIN};
pub use volume::{CHUNKS_COUNTED_IN, NEAR};

use crate::{Batch, TraceError, TraceReader};
use arrivals::Arrivals;
use thermocline_units::{Bytes, Nanos};
use totals::{Frame, Totals};
use volume::{ActiveChunks, Volume};

/// Requests whose places are on their way to the processor's caches.
const AHEAD: usize = 8;
/// A day, for rates by the day.
const DAY: Nanos = Nanos::from_secs(86_400);
/// Readers number the requests of a trace without times by the nanosecond: where no two neighbours
/// lie farther apart than this, there are no times.
const UNTIMED_GAP_MAX: u64 = 1;

/// A trace that cannot be characterised.
#[derive(Debug, thiserror::Error)]
pub enum StatError {
    /// The trace could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A request is longer than any real one.
    #[error(
        "request {index} is {length} long; at most {max} are believed: is the trace's unit right?"
    )]
    TooLong {
        /// The request's number, from 0.
        index: u64,
        /// Its length.
        length: Bytes,
        /// The longest taken.
        max: Bytes,
    },
    /// There is nothing to characterise.
    #[error("the trace holds no request")]
    Empty,
}

/// The characteristics of a workload and of each of its volumes.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadCharacteristics {
    /// All volumes together.
    pub whole: Characteristics,
    /// Each volume; the index is the `VolumeId`.
    pub volumes: Vec<Characteristics>,
}

/// A workload being characterised.
///
/// ```
/// use thermocline_trace::stat::Characterisation;
/// use thermocline_trace::synth::presets::Preset;
/// use thermocline_trace::synth::{Synth, SynthSpec};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let vms = Preset::find("web").expect("a preset").vms(2);
/// let mut workload = Synth::new(&SynthSpec { seed: 1, requests: 10_000, vms })?;
/// let found = Characterisation::read(&mut workload, &|_| {})?;
/// assert_eq!(found.whole.requests(), 10_000);
/// assert!(found.whole.page_accesses.top_20 > found.whole.page_accesses.top_5);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Characterisation {
    volumes: Vec<Volume>,
    requests: u64,
    /// The volume of all requests so far, while there is but one.
    sole: Option<u32>,
    /// Arrivals of all volumes, once there are several.
    arrivals: Option<Box<Arrivals>>,
    active: ActiveChunks,
}

impl Characterisation {
    /// Characterises all that `reader` has left. `progress` is told now and then how many bytes of
    /// input have been consumed.
    ///
    /// # Errors
    /// When the trace cannot be read, holds nothing, or holds a request of absurd length.
    pub fn read(
        reader: &mut dyn TraceReader,
        progress: &dyn Fn(u64),
    ) -> Result<WorkloadCharacteristics, StatError> {
        let mut characterisation = Characterisation::default();
        let mut batch = Batch::default();
        loop {
            reader.read_batch(&mut batch)?;
            if batch.requests.is_empty() {
                return characterisation.finish();
            }
            characterisation.observe(&batch)?;
            progress(reader.bytes_read());
        }
    }

    /// Takes the next requests; their times must not run backwards.
    ///
    /// # Errors
    /// When a request is absurdly long.
    pub fn observe(&mut self, batch: &Batch) -> Result<(), StatError> {
        let requests = &batch.requests;
        for (i, request) in requests.iter().enumerate() {
            if let Some(coming) = requests.get(i + AHEAD)
                && let Some(volume) = self.volumes.get(coming.volume.0 as usize)
            {
                volume.prefetch(coming.offset);
            }
            let id = request.volume.0;
            if *self.sole.get_or_insert(id) != id && self.arrivals.is_none() {
                let first = self.sole.map_or(0, |sole| sole as usize);
                self.arrivals = Some(Box::new(self.volumes[first].arrivals.clone()));
            }
            if let Some(arrivals) = &mut self.arrivals {
                arrivals.arrive(request.time);
            }
            if id as usize >= self.volumes.len() {
                self.volumes.resize_with(id as usize + 1, Volume::default);
            }
            let begun = self.volumes[id as usize].take(request, self.requests)?;
            self.active.begin(request.time, begun);
            self.requests += 1;
        }
        Ok(())
    }

    /// The characteristics of everything taken.
    ///
    /// # Errors
    /// When nothing was.
    pub fn finish(self) -> Result<WorkloadCharacteristics, StatError> {
        let sole = self.sole.ok_or(StatError::Empty)?;
        let arrivals = self.arrivals.as_deref();
        let arrivals = arrivals.unwrap_or(&self.volumes[sole as usize].arrivals);
        let frame = Frame {
            timed: arrivals.gaps.max().is_some_and(|gap| gap > UNTIMED_GAP_MAX),
            days: (arrivals.last.saturating_sub(arrivals.first).0 as f64 / DAY.0 as f64).max(1.0),
            intervals: arrivals.last.0 / CHUNKS_COUNTED_IN.0 + 1,
        };
        let mut totals = Totals::default();
        let volumes = self.volumes.iter().map(|volume| {
            let own = Totals::of(volume);
            let found = own.characteristics(&volume.arrivals, &volume.active, &frame);
            totals.merge(own);
            found
        });
        let volumes = volumes.collect();
        Ok(WorkloadCharacteristics {
            whole: totals.characteristics(arrivals, &self.active, &frame),
            volumes,
        })
    }
}

#[cfg(test)]
mod tests;
