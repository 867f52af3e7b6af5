//! Servers behind a lane, from rates at several depths and two block sizes.
//!
//! 1. The lane: at saturation a request takes command + bytes/rate; small and large blocks give two
//!    equations.
//! 2. The service: what a single request takes beside the lane. The rate of a server: what a large
//!    single request takes longer. Servers: by Little's law, the highest rate times the service.
//! 3. Coordinate descent on the model itself: each parameter is tried larger and smaller by a
//!    factor that shrinks from 1.5 to 1.02; what brings the sum of squared logarithms of modelled
//!    over measured rates down is kept. Reads first, with the servers; then writes, with those
//!    given.
//! 4. Times vary around their mean as the latencies of single reads did, up to the 999th
//!    thousandth: what lies beyond is rather the machine's doing than the device's. The fit itself
//!    runs on times that do not vary, so that no trial is lucky.
//!
//! Steps 1 and 2 are exact for the model's own figures, step 3 shares out what the model cannot
//! express. Bounded: [`ROUNDS`] rounds of [`super::FIT_REQUESTS`] requests a load.

use super::plan::{LARGE, LoadName, READ_DEPTHS, WRITE_DEPTHS, time_of};
use super::{Access, Measurements, misfit, profile_of, servers_behind_a_lane};
use crate::model::{Lane, Medium, Parallel, Spread};
use crate::pattern::Outcome;
use thermocline_units::{Bytes, Nanos};

/// Factors that parameters are changed by.
const FACTORS: [f64; 6] = [1.5, 1.25, 1.12, 1.06, 1.03, 1.02];
/// Rounds with each factor.
const ROUNDS: usize = 6;
/// Servers of a model.
const SERVERS_MAX: f64 = 1024.0;
/// Bytes a second of a lane: what a profile may say.
const RATES: std::ops::RangeInclusive<f64> = 1e4..=1e12;
/// Shares at which the distribution of latencies is taken: straight lines between fewer points
/// would give the tail more weight than it has.
const SHARES: [f64; 11] = [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999];
/// Range of a profile's factors of a spread.
const FACTOR_RANGE: (f64, f64) = (0.01, 1000.0);

/// A direction's parameters, as the descent changes them: servers, service, command, rate of the
/// lane, rate of a server.
type Knobs = [f64; 5];

pub(super) fn fit(
    measured: &Measurements,
    access: Access,
    size: Bytes,
    assumed: &mut Vec<String>,
) -> Medium {
    assumed.push(
        "servers behind a lane: no translation layer and no cleaning, so the state in which the \
         device was measured lasts; flushes and discards cost a command"
            .into(),
    );
    let depths = READ_DEPTHS.map(LoadName::RandomRead);
    let reads: Vec<LoadName> = depths
        .into_iter()
        .chain([1, 32].map(LoadName::LargeRead))
        .chain([1, 32].map(LoadName::SequentialRead))
        .collect();
    let start = begin(measured, &depths, LoadName::SequentialRead(32), LoadName::LargeRead(1));
    let steady = Spread::new(vec![(0.0, 1.0), (1.0, 1.0)]).expect("it does not fall");
    let Medium::Parallel(mut medium) = servers_behind_a_lane(lane(&start), Nanos(1), steady) else {
        unreachable!("that is what it makes")
    };
    let trial = |medium: Parallel| profile_of(size, Medium::Parallel(medium));
    let set_reads = |medium: &mut Parallel, knobs: &Knobs| {
        medium.servers = servers(knobs);
        medium.read = lane(knobs);
        medium.read_service = Nanos(knobs[1] as u64);
        medium.server_bytes_per_s = Some(knobs[4] as u64);
    };
    let knobs = descend(start, &[0, 1, 2, 3, 4], |knobs| {
        let mut medium = medium.clone();
        set_reads(&mut medium, knobs);
        misfit(&trial(medium), measured, &reads)
    });
    set_reads(&mut medium, &knobs);
    (medium.write, medium.write_service) = (medium.read, medium.read_service);
    if access == Access::Destructive {
        let depths = WRITE_DEPTHS.map(LoadName::RandomWrite);
        let writes: Vec<LoadName> = depths
            .into_iter()
            .chain([1, 32].map(LoadName::LargeWrite))
            .chain([1, 32].map(LoadName::SequentialWrite))
            .collect();
        let mut start =
            begin(measured, &depths, LoadName::SequentialWrite(32), LoadName::LargeWrite(1));
        (start[0], start[4]) = (knobs[0], knobs[4]);
        let set_writes = |medium: &mut Parallel, knobs: &Knobs| {
            medium.write = lane(knobs);
            medium.write_service = Nanos(knobs[1] as u64);
        };
        let knobs = descend(start, &[1, 2, 3], |knobs| {
            let mut medium = medium.clone();
            set_writes(&mut medium, knobs);
            misfit(&trial(medium), measured, &writes)
        });
        set_writes(&mut medium, &knobs);
    }
    medium.spread = spread(measured, lane_time(&knobs));
    Medium::Parallel(medium)
}

/// Steps 1 and 2: `small` are loads of 4 KiB by rising depth, `large` one of 128 KiB at saturation,
/// `large_single` one of 128 KiB at depth one.
fn begin(
    measured: &Measurements,
    small: &[LoadName],
    large: LoadName,
    large_single: LoadName,
) -> Knobs {
    let rates = small.iter().map(|&name| measured.figures(name).iops);
    let highest = rates.fold(0.0, f64::max);
    let (small_time, large_time) =
        (time_of(highest).0 as f64, time_of(measured.figures(large).iops).0 as f64);
    let more = f64::from(LARGE) - 4096.0;
    let ns_per_byte = ((large_time - small_time) / more).max(large_time / f64::from(LARGE) / 4.0);
    let command = (small_time - 4096.0 * ns_per_byte).max(0.0);
    let single = measured.figures(small[0]).mean.0 as f64;
    let rate = (1e9 / ns_per_byte).clamp(*RATES.start(), *RATES.end());
    let longer = (measured.figures(large_single).mean.0 as f64 - single) / more - ns_per_byte;
    let server_rate = (1e9 / longer.max(1e-3)).clamp(*RATES.start(), *RATES.end());
    let server_time = 4096e9 / server_rate;
    let service = (single - command - 4096.0 * ns_per_byte - server_time).max(100.0);
    let servers = (highest * (service + server_time) / 1e9).ceil().clamp(1.0, SERVERS_MAX);
    [servers, service, command, rate, server_rate]
}

fn lane(knobs: &Knobs) -> Lane {
    Lane { bytes_per_s: knobs[3] as u64, command: Nanos(knobs[2] as u64) }
}

/// Time of 4 KiB in the lane.
fn lane_time(knobs: &Knobs) -> f64 {
    knobs[2] + 4096e9 / knobs[3]
}

fn servers(knobs: &Knobs) -> u32 {
    knobs[0].round() as u32
}

/// Step 3.
fn descend(start: Knobs, free: &[usize], misfit: impl Fn(&Knobs) -> f64) -> Knobs {
    let mut best = start;
    let mut least = misfit(&best);
    for factor in FACTORS {
        for _ in 0..ROUNDS {
            let before = least;
            for &knob in free {
                for change in [factor, 1.0 / factor] {
                    let mut trial = best;
                    trial[knob] = changed(knob, best[knob], change);
                    let found = if trial == best { least } else { misfit(&trial) };
                    if found < least {
                        (best, least) = (trial, found);
                    }
                }
            }
            if least >= before {
                break;
            }
        }
    }
    best
}

fn changed(knob: usize, value: f64, factor: f64) -> f64 {
    match knob {
        // Servers are whole.
        0 if factor > 1.0 => (value * factor).max(value + 1.0).round().min(SERVERS_MAX),
        0 => (value * factor).min(value - 1.0).round().max(1.0),
        1 => (value * factor).clamp(100.0, 1e9),
        // A command that takes no time can only become longer.
        2 if value < 10.0 && factor > 1.0 => 100.0,
        2 => (value * factor).min(1e9),
        _ => (value * factor).clamp(*RATES.start(), *RATES.end()),
    }
}

/// Step 4: how single random reads vary, without the time in the lane, which does not.
fn spread(measured: &Measurements, lane: f64) -> Spread {
    let load = measured.get(LoadName::RandomRead(1)).expect("reads are always measured");
    let latencies = &load.outcome.reads;
    let mean = (load.figures.mean.0 as f64 - lane).max(1.0);
    let mut lowest = FACTOR_RANGE.0;
    let mut points = Vec::with_capacity(SHARES.len() + 1);
    for share in SHARES {
        let latency = Outcome::quantile(latencies, share).0 as f64 - lane;
        lowest = (latency / mean).clamp(lowest, FACTOR_RANGE.1);
        points.push((share, lowest));
    }
    points.push((1.0, lowest));
    Spread::new(points).expect("shares rise, factors are bounded and do not fall")
}
