//! Traits of a pool for placements, worked out from its device profile.
//!
//! Rates and latencies of single requests by hand, from the same numbers by which the model in
//! `ports` costs time; queues, spreads and caches are left out. Good for ranking pools and for
//! estimates; what a pool really does, its load says.
//!
//! - *Equal servers*: a request takes a server and the lane.
//! - *Flash*: a read takes a die, the channel and the lane. Random writes of a full device go
//!   through its garbage collection: each page is programmed (1 + o) / 2o times at
//!   over-provisioning o, the greedy collector's usual estimate.
//! - *Disk*: a random request takes the mean seek (8/15 of the square-root curve), half a turn and
//!   the transfer at the mean rate. The queue's reordering, about twice as fast, is left out.
//! - *Objects*: a request takes the mean time to the first byte, of a lognormal.

use thermocline_policy::placement::{PoolTraits, Service};
use thermocline_ports::model::{Disk, Flash, Lane, Medium, Object, Parallel, Profile};
use thermocline_units::Nanos;

/// Bytes of the requests that traits speak of.
const UNIT: f64 = 4096.0;
/// The 99th percentile of the standard normal distribution.
const NORMAL_P99: f64 = 2.326;

/// Abilities of a device of `profile`. A profile knows nothing of price, power or wear.
pub fn traits_of(profile: &Profile) -> PoolTraits {
    let services = match &profile.medium {
        Medium::Parallel(parallel) => of_parallel(parallel),
        Medium::Flash(flash) => of_flash(flash),
        Medium::Disk(disk) => of_disk(disk),
        Medium::Object(object) => of_object(object),
    };
    PoolTraits { services, price_per_gib: None, milliwatts: None, overwrites: None }
}

/// `latency` in nanoseconds, `rate` in units a second.
fn service(latency: f64, rate: f64) -> Service {
    Service { latency: Nanos(latency as u64), per_second: (rate as u64).max(1) }
}

/// Nanoseconds that a request of one unit takes in a lane, and units that it streams a second.
fn lane(lane: &Lane) -> (f64, f64) {
    let rate = lane.bytes_per_s as f64;
    (lane.command.0 as f64 + UNIT / rate * 1e9, rate / UNIT)
}

fn of_parallel(parallel: &Parallel) -> [Service; 4] {
    let per_byte = parallel.server_bytes_per_s.map_or(0.0, |rate| 1e9 / rate as f64);
    let side = |mean: Nanos, shared: &Lane| {
        let (in_lane, stream) = lane(shared);
        let busy = mean.0 as f64 + UNIT * per_byte;
        let random = (f64::from(parallel.servers) * 1e9 / busy).min(1e9 / in_lane);
        [service(busy + in_lane, random), service(busy + in_lane, stream)]
    };
    let reads = side(parallel.read_service, &parallel.read);
    let writes = side(parallel.write_service, &parallel.write);
    [reads[0], writes[0], reads[1], writes[1]]
}

fn of_flash(flash: &Flash) -> [Service; 4] {
    let dies = f64::from(flash.dies);
    let (read_lane, read_stream) = lane(&flash.read);
    let (write_lane, write_stream) = lane(&flash.write);
    let busy = flash.sense.0 as f64 + UNIT / flash.die_bytes_per_s as f64 * 1e9;
    let read = flash.read_overhead.0 as f64 + busy + read_lane;
    let write = flash.write_overhead.0 as f64 + write_lane;
    let programmed = f64::from(flash.program_pages) * flash.page.0 as f64 / UNIT;
    let sustained = dies * programmed / flash.program.0 as f64 * 1e9;
    let spare = flash.over_provisioning.max(0.01);
    let amplification = ((1.0 + spare) / (2.0 * spare)).max(1.0);
    [
        service(read, (dies * 1e9 / busy).min(1e9 / read_lane)),
        service(write, (sustained / amplification).min(1e9 / write_lane)),
        service(read, read_stream),
        service(write, write_stream.min(sustained)),
    ]
}

fn of_disk(disk: &Disk) -> [Service; 4] {
    let rate = (disk.outer_bytes_per_s + disk.inner_bytes_per_s) as f64 / 2.0;
    let seek = disk.seek_min.0 as f64 + disk.seek_stroke.0 as f64 * 8.0 / 15.0;
    let half_turn = 30e9 / f64::from(disk.rpm);
    let transfer = UNIT / rate * 1e9;
    let random = disk.overhead.0 as f64 + seek + half_turn + transfer;
    let (random, stream) =
        (service(random, 1e9 / random), service(disk.overhead.0 as f64 + transfer, rate / UNIT));
    [random, random, stream, stream]
}

fn of_object(object: &Object) -> [Service; 4] {
    let median = object.first_byte_median.0 as f64;
    let sigma = (object.first_byte_p99.0 as f64 / median).ln().max(0.0) / NORMAL_P99;
    let first = median * (sigma * sigma / 2.0).exp();
    let stream = object.stream_bytes_per_s as f64;
    let side = |shared: &Lane| {
        let (in_lane, whole) = lane(shared);
        let latency = first + UNIT / stream * 1e9 + in_lane;
        [service(latency, 1e9 / in_lane), service(latency, whole)]
    };
    let (reads, writes) = (side(&object.read), side(&object.write));
    [reads[0], writes[0], reads[1], writes[1]]
}

#[cfg(test)]
mod tests;
