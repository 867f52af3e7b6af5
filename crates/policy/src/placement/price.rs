//! Prices, in time that users wait: of requests to a pool, and of a copy.
//!
//! 1. A unit that is asked for waits as long as on the idle pool (`demand::Costs`), times how much
//!    longer reads, and writes, took in the epochs before than that: measured, half of it new each
//!    epoch.
//! 2. The wait beyond that of an idle pool times requests a second is how many are in the queue (N,
//!    Little's law). In an M/M/1 queue of that length the pool is busy ρ of its time, ρ²/(1 − ρ) =
//!    N. A second more of work delays those in the queue, who is being served, and who comes before
//!    the queue is as short again: (N + ρ)/(1 − ρ) seconds in all. What a unit takes of the pool's
//!    time costs that, too; one that is not asked for any more saves it.
//! 3. A copy is a seek a piece and its bytes from the pool's streams. It costs the same a second,
//!    and half a piece's time to all who arrive meanwhile.
//!
//! All in seconds of waiting a second. `auto` decides by these prices, and hints are scored by
//! them. State: some numbers a pool.

use super::{Pattern, PoolLoad, PoolTraits};
use crate::migration::DISK_PIECE;
use thermocline_units::Nanos;

/// Believable slowdowns of requests against the idle pool.
const LONGER: std::ops::RangeInclusive<f64> = 0.02..=100.0;
/// Fuller than this a pool does not count: a long queue says how long it is, not that it stays.
const FULLEST: f64 = 0.8;
/// Weight of the newest epoch, at least: predictions and what came of them have like prices.
const NEWEST: f64 = 0.2;
/// Bytes that a copy keeps a pool busy with at once.
const PIECE: f64 = DISK_PIECE.0 as f64;
const UNIT: f64 = 4096.0;

/// Requests a second: random reads, random writes, and units of 4 KiB read and written one after
/// the other.
pub(crate) type Ask = [f32; 4];

/// Price of requests and of copies on a pool.
#[derive(Debug, Clone)]
pub(crate) struct Price {
    /// Seconds for a unit of each kind of [`Ask`].
    units: [f64; 4],
    /// Slowdown of reads and writes against the idle pool.
    longer: [f64; 2],
    queue: f64,
    /// Requests waiting and served at once.
    there: f64,
    arrivals: f64,
    /// Epochs learnt from.
    epochs: u32,
    /// Seconds that a piece's seek takes, to read and to write.
    seeks: [f64; 2],
    /// Bytes a second of streams that read and write.
    streams: [f64; 2],
}

impl Default for Price {
    fn default() -> Price {
        Price {
            units: [0.0; 4],
            longer: [1.0; 2],
            queue: 0.0,
            there: 0.0,
            arrivals: 0.0,
            epochs: 0,
            seeks: [0.0; 2],
            streams: [1.0; 2],
        }
    }
}

/// Seconds that a unit of each kind waits on an idle pool, and that it takes of its time.
fn idle(traits: &PoolTraits) -> ([f64; 4], [f64; 4]) {
    let takes = Pattern::ALL.map(|pattern| 1.0 / traits.of(pattern).per_second.max(1) as f64);
    let mut waits = takes;
    for pattern in Pattern::RANDOM {
        waits[pattern as usize] = traits.of(pattern).latency.as_secs_f64();
    }
    (waits, takes)
}

impl Price {
    /// Learns from an epoch in which `asked` was asked of the pool a second.
    pub(crate) fn learn(&mut self, traits: &PoolTraits, load: &PoolLoad, asked: Ask, epoch: Nanos) {
        let (waits, takes) = idle(traits);
        let seconds = epoch.as_secs_f64();
        self.epochs = self.epochs.saturating_add(1);
        let newest = NEWEST.max(1.0 / f64::from(self.epochs));
        let expected = |at: usize| f64::from(asked[at]) * waits[at] * seconds;
        let sides = [(load.reads, load.read_latency), (load.writes, load.write_latency)];
        let (mut excess, mut there) = (0.0, 0.0);
        for (side, (count, latency)) in sides.into_iter().enumerate() {
            let (came, wait) =
                (count as f64 * latency.as_secs_f64(), expected(side) + expected(side + 2));
            there += came;
            if count == 0 || wait <= 0.0 {
                continue;
            }
            let longer = (came / wait).clamp(*LONGER.start(), *LONGER.end());
            self.longer[side] += (longer - self.longer[side]) * newest;
            excess += (came - wait).max(0.0);
        }
        self.queue += (excess / seconds - self.queue) * newest;
        self.there += (there / seconds - self.there) * newest;
        self.arrivals += (load.requests() as f64 / seconds - self.arrivals) * newest;
        let others = self.delay();
        self.seeks = [takes[0], takes[1]];
        self.units = std::array::from_fn(|at| waits[at] * self.longer[at % 2] + takes[at] * others);
        self.streams = [Pattern::SequentialRead, Pattern::SequentialWrite]
            .map(|pattern| traits.of(pattern).per_second.max(1) as f64 * UNIT);
    }

    /// Seconds that all users wait for a second of the pool's time.
    fn delay(&self) -> f64 {
        let full = self.full();
        (self.queue + full) / (1.0 - full)
    }

    /// Fullness of the pool, 0 to 1, by its queue; not more than by all that are there, ρ/(1 − ρ).
    fn full(&self) -> f64 {
        let queue = self.queue;
        let by_queue = ((queue * queue + 4.0 * queue).sqrt() - queue) / 2.0;
        by_queue.min(self.there / (1.0 + self.there)).min(FULLEST)
    }

    /// True if the pool is as full as prices can tell, or fuller: it may not keep up.
    pub(crate) fn is_overloaded(&self) -> bool {
        self.full() >= FULLEST
    }

    /// Seconds a second that users wait for what is asked.
    #[inline]
    pub(crate) fn of(&self, asked: &Ask) -> f64 {
        asked.iter().zip(&self.units).map(|(&asked, unit)| f64::from(asked) * unit).sum()
    }

    /// Seconds that users wait for a copy of so many bytes from here (`side` 0) or to here (1).
    pub(crate) fn copy(&self, bytes: f64, side: usize) -> f64 {
        let piece = self.seeks[side] + bytes.min(PIECE) / self.streams[side];
        let busy = piece * (bytes / PIECE).max(1.0);
        busy * (self.delay() + self.arrivals * piece / 2.0 / (1.0 - self.full()))
    }
}
