//! Storage-class memory: c equal servers behind a lane in each direction.
//!
//! 1. A request passes its direction's lane: command time and bytes over bandwidth.
//! 2. It takes the server that is free first, for a service time drawn around its mean and, where
//!    servers have a rate of their own, its bytes over that.
//! 3. Writes are durable at completion; flushes and discards cost a lane's command and no server.
//!
//! c follows from Little's law: most requests per second × latency at depth one.
//! State: 8 B a server.

use super::lane::LaneModel;
use super::profile::Parallel;
use super::schedule::{Kind, Request};
use super::spread::Spread;
use thermocline_units::{Nanos, Rng};

#[derive(Debug)]
pub(super) struct ParallelModel {
    read: LaneModel,
    write: LaneModel,
    read_service: Nanos,
    write_service: Nanos,
    /// Nanoseconds per byte of a server.
    per_byte: f64,
    spread: Spread,
    free: Vec<Nanos>,
}

impl ParallelModel {
    pub(super) fn new(profile: &Parallel) -> ParallelModel {
        ParallelModel {
            read: LaneModel::new(&profile.read),
            write: LaneModel::new(&profile.write),
            read_service: profile.read_service,
            write_service: profile.write_service,
            per_byte: profile.server_bytes_per_s.map_or(0.0, |rate| 1e9 / rate as f64),
            spread: profile.spread.clone(),
            free: vec![Nanos(0); profile.servers as usize],
        }
    }

    pub(super) fn due(&mut self, request: &Request, rng: &mut Rng) -> Nanos {
        let now = request.submitted;
        let (through, service) = match request.kind {
            Kind::Read => (self.read.pass(now, request.length), self.read_service),
            Kind::Write | Kind::ForcedWrite => {
                (self.write.pass(now, request.length), self.write_service)
            }
            Kind::Flush | Kind::Discard | Kind::WriteZeroes => {
                return Nanos(self.write.pass(now, 0).0 + 1);
            }
        };
        let transfer = (request.length as f64 * self.per_byte) as u64;
        let service = Nanos(self.spread.draw(rng, service).0 + transfer);
        let server = self.free.iter_mut().min().expect("a profile has a server");
        *server = Nanos(through.max(*server).0 + service.0);
        *server
    }
}
