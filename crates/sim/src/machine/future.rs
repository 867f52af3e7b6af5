//! A load as a clairvoyant placement is told it: which chunks will be accessed, and when.
//!
//! In an open loop the times are those of the trace. In a closed loop nobody knows them: accesses
//! are taken to come as fast as they came until now.
//!
//! State: 40 B an access.

use super::load::Load;
use super::run::{Arrivals, MachineOptions};
use thermocline_policy::placement::{ChunkAccess, Foresight};
use thermocline_trace::Op;
use thermocline_units::{Bytes, ChunkId, Nanos};

/// A load as a clairvoyant placement is told it.
#[derive(Debug)]
pub(super) struct FutureAccesses {
    accesses: Vec<ChunkAccess>,
    /// True if accesses come at their times.
    timed: bool,
}

impl FutureAccesses {
    /// Accesses that `load` will make.
    pub(super) fn of(load: &Load, options: &MachineOptions) -> FutureAccesses {
        let first = load.demands.first().map_or(Nanos(0), |demand| demand.at);
        let (speed, timed) = match options.arrivals {
            Arrivals::Open { speed } => (speed, true),
            Arrivals::Closed { .. } => (1.0, false),
        };
        let mut accesses = Vec::new();
        for demand in load.demands.iter().filter(|d| matches!(d.op, Op::Read | Op::Write)) {
            let (start, length) = (demand.offset().0, demand.length().0);
            for index in demand.chunks(options.chunk) {
                let begin = u64::from(index) * options.chunk.0;
                let from = start.max(begin);
                let end = (start + length).min(begin + options.chunk.0);
                accesses.push(ChunkAccess {
                    at: Nanos((demand.at.saturating_sub(first).0 as f64 / speed) as u64),
                    chunk: ChunkId { volume: demand.volume(), index },
                    offset: Bytes(from - begin),
                    bytes: Bytes(end - from),
                    write: demand.op == Op::Write,
                });
            }
        }
        FutureAccesses { accesses, timed }
    }
}

impl Foresight for FutureAccesses {
    fn ahead(
        &self,
        passed: u64,
        elapsed: Nanos,
        span: Nanos,
        visit: &mut dyn FnMut(&ChunkAccess),
    ) -> Nanos {
        let passed = usize::try_from(passed).unwrap_or(usize::MAX).min(self.accesses.len());
        let coming = &self.accesses[passed..];
        let Some((first, last)) = coming.first().zip(coming.last()) else { return Nanos(0) };
        if self.timed {
            let end = first.at.0.saturating_add(span.0);
            coming.iter().take_while(|access| access.at.0 < end).for_each(visit);
            return span.min(last.at.saturating_sub(first.at));
        }
        let rate = passed as f64 / elapsed.as_secs_f64().max(1e-9);
        let count = (rate * span.as_secs_f64()) as usize;
        coming.iter().take(count).for_each(visit);
        let filled = count.min(coming.len()) as f64 / rate.max(1e-9);
        span.min(Nanos((filled * 1e9) as u64))
    }
}
