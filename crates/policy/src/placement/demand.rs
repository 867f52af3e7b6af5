//! Demand that a chunk puts on a pool: the share of the pool's time that its accesses take.
//!
//! A pool is a server: a random request takes it 1/rate, what exceeds 4 KiB of it goes at the rate
//! of a stream, and a sequential byte takes it 1/(stream's bytes a second). The sum is the share of
//! the pool's time that the chunk takes: EDT's performance part of resource consumption (Guerra et
//! al., FAST 2011), with reads and writes told apart because flash does, and the combined model of
//! IOPS and throughput of ChewAnalyzer's pool status (Ge 2017 §3.3, eq. 3.5).

use super::activity::Activity;
use super::{Pattern, PoolTraits, Service};
use thermocline_units::{Nanos, prefetch};

const UNIT: f64 = 4096.0;

/// Seconds for a unit of 4 KiB of each pattern.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Costs {
    random_read: f64,
    random_write: f64,
    sequential_read: f64,
    sequential_write: f64,
}

impl Costs {
    /// Costs of units in the pool's time.
    pub(super) fn of(traits: &PoolTraits) -> Costs {
        let time = |service: Service| 1.0 / service.per_second as f64;
        let [random_read, random_write, sequential_read, sequential_write] =
            traits.services.map(time);
        Costs { random_read, random_write, sequential_read, sequential_write }
    }

    /// Waiting time of users for a unit on the idle pool: a random request its latency, which is
    /// longer than its share of the time where a pool serves many at once; a stream its time.
    pub(super) fn waiting(traits: &PoolTraits) -> Costs {
        let alone = |pattern| traits.of(pattern).latency.as_secs_f64();
        Costs {
            random_read: alone(Pattern::RandomRead),
            random_write: alone(Pattern::RandomWrite),
            ..Costs::of(traits)
        }
    }
}

/// Requests and bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Demand {
    pub(super) random_reads: f64,
    pub(super) random_writes: f64,
    pub(super) random_read_bytes: f64,
    pub(super) random_written_bytes: f64,
    pub(super) sequential_read_bytes: f64,
    pub(super) sequential_written_bytes: f64,
}

impl Demand {
    /// Seconds a second that it costs: the share of a pool's time, when these are its costs.
    #[inline]
    pub(super) fn time(&self, pool: &Costs) -> f64 {
        let beyond = |bytes: f64, requests: f64| (bytes / UNIT - requests).max(0.0);
        let read =
            beyond(self.random_read_bytes, self.random_reads) + self.sequential_read_bytes / UNIT;
        let written = beyond(self.random_written_bytes, self.random_writes)
            + self.sequential_written_bytes / UNIT;
        self.random_reads * pool.random_read
            + self.random_writes * pool.random_write
            + read * pool.sequential_read
            + written * pool.sequential_write
    }

    pub(super) fn written_bytes(&self) -> f64 {
        self.random_written_bytes + self.sequential_written_bytes
    }

    /// Units of 4 KiB or requests a second, whichever are more: to compare demands where no pool is
    /// meant.
    pub(super) fn weight(&self) -> f64 {
        let bytes = self.random_read_bytes + self.sequential_read_bytes + self.written_bytes();
        (self.random_reads + self.random_writes).max(bytes / UNIT)
    }

    /// True if it is nothing.
    pub(super) fn is_none(&self) -> bool {
        *self == Demand::default()
    }

    /// This, with `share` of what was before.
    pub(super) fn blend(self, before: Demand, share: f64) -> Demand {
        let (now, then): ([f32; 6], [f32; 6]) = (self.into(), before.into());
        let share = share as f32;
        std::array::from_fn::<f32, 6, _>(|at| now[at] * (1.0 - share) + then[at] * share).into()
    }
}

/// Less than this is nothing: one request or byte in twelve days.
const NOTHING: f64 = 1e-6;

impl From<Demand> for [f32; 6] {
    fn from(demand: Demand) -> [f32; 6] {
        let Demand {
            random_reads,
            random_writes,
            random_read_bytes,
            random_written_bytes,
            sequential_read_bytes,
            sequential_written_bytes,
        } = demand;
        let numbers = [
            random_reads,
            random_writes,
            random_read_bytes,
            random_written_bytes,
            sequential_read_bytes,
            sequential_written_bytes,
        ];
        numbers.map(|number| if number < NOTHING { 0.0 } else { number as f32 })
    }
}

impl From<[f32; 6]> for Demand {
    fn from(numbers: [f32; 6]) -> Demand {
        let [
            random_reads,
            random_writes,
            random_read_bytes,
            random_written_bytes,
            sequential_read_bytes,
            sequential_written_bytes,
        ] = numbers.map(f64::from);
        Demand {
            random_reads,
            random_writes,
            random_read_bytes,
            random_written_bytes,
            sequential_read_bytes,
            sequential_written_bytes,
        }
    }
}

/// Demands of chunks by number, fading from epoch to epoch. State: 24 B a chunk.
#[derive(Debug, Default)]
pub(super) struct Faded(Vec<[f32; 6]>);

impl Faded {
    /// Takes an epoch in, with `memory` of what was before.
    pub(super) fn fade(&mut self, activity: &Activity, epoch: Nanos, memory: f64) {
        let per_second = 1.0 / epoch.as_secs_f64();
        self.0.resize(activity.chunks.len() as usize, [0.0; 6]);
        for (number, faded) in (0..).zip(&mut self.0) {
            let now = activity.counts(number).demand(per_second);
            *faded = now.blend(Demand::from(*faded), memory).into();
        }
    }

    /// Chunks that there are demands of; their numbers are below this.
    pub(super) fn len(&self) -> u32 {
        self.0.len() as u32
    }

    #[inline]
    pub(super) fn of(&self, number: u32) -> Demand {
        Demand::from(self.0[number as usize])
    }

    /// Says that the demand of a chunk is wanted soon.
    #[inline]
    pub(super) fn prefetch(&self, number: u32) {
        prefetch(&self.0, number as usize);
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.0.capacity() * size_of::<[f32; 6]>()) as u64
    }
}

#[cfg(test)]
mod tests;
