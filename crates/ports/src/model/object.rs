//! An object store behind a link.
//!
//! 1. A request passes its direction's lane: the rate of requests that the store admits, and the
//!    link's bandwidth.
//! 2. The first byte comes after a lognormal time; what follows comes at the rate of one stream.
//!    The request is done when both lane and stream are. Streams are not limited in number.
//! 3. Writes are durable at completion: a flush has nothing to do.
//!
//! Lognormal by Box and Muller (1958). State: none per request.

use super::lane::LaneModel;
use super::profile::Object;
use super::schedule::{Kind, Request};
use thermocline_units::{Nanos, Rng};

/// The standard normal's 99th percentile.
const NORMAL_P99: f64 = 2.326_347_874;

#[derive(Debug)]
pub(super) struct ObjectModel {
    read: LaneModel,
    write: LaneModel,
    median: f64,
    sigma: f64,
    ns_per_byte: f64,
}

impl ObjectModel {
    pub(super) fn new(profile: &Object) -> ObjectModel {
        let ratio = profile.first_byte_p99.0 as f64 / profile.first_byte_median.0 as f64;
        ObjectModel {
            read: LaneModel::new(&profile.read),
            write: LaneModel::new(&profile.write),
            median: profile.first_byte_median.0 as f64,
            sigma: ratio.ln() / NORMAL_P99,
            ns_per_byte: 1e9 / profile.stream_bytes_per_s as f64,
        }
    }

    pub(super) fn due(&mut self, request: &Request, rng: &mut Rng) -> Nanos {
        let now = request.submitted;
        let (through, bytes) = match request.kind {
            Kind::Read => (self.read.pass(now, request.length), request.length),
            Kind::Write | Kind::ForcedWrite => {
                (self.write.pass(now, request.length), request.length)
            }
            Kind::Discard | Kind::WriteZeroes => (self.write.pass(now, 0), 0),
            Kind::Flush => return Nanos(now.0 + 1),
        };
        let first_byte = self.median * (self.sigma * normal(rng)).exp();
        let stream = first_byte + bytes as f64 * self.ns_per_byte;
        through.max(Nanos(now.0 + stream as u64))
    }
}

fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.unit_f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.unit_f64()).cos()
}
