//! Rate of requests: a budget of requests and bytes, and a link that is emulated.
//!
//! 1. A request waits for a connection, of which there is a bounded number.
//! 2. Then for its turn by the budget: so many requests a second, so many bytes a second. What an
//!    answer brings is charged when it is there, to those that come next.
//! 3. Then for the link, where there is one: its bytes pass the lane up, and are under way for the
//!    latency; the answer's pass the lane down, and are under way as long. Lanes are the models'
//!    ([`LaneModel`]), on the wall clock.

use std::sync::Mutex;
use std::time::{Duration, Instant};
use thermocline_ports::model::{Lane, LaneModel, LinkProfile};
use thermocline_units::{Bytes, Nanos};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Limits on requests to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests under way at once, and connections.
    pub connections: u32,
    /// Requests a second, at most; none: as many as there are.
    pub requests_per_s: Option<u32>,
    /// Bytes a second, in both directions together; none: as many as there are.
    pub bytes_per_s: Option<Bytes>,
    /// Longest time of one try of a request.
    pub deadline: Nanos,
    /// Most retries of a request that failed.
    pub retries: u32,
    /// Longest time that tries go on, counted from the first.
    pub retry_for: Nanos,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 32,
            requests_per_s: None,
            bytes_per_s: None,
            deadline: Nanos::from_secs(20),
            retries: 6,
            retry_for: Nanos::from_secs(60),
        }
    }
}

/// Practically no limit: more than any machine moves.
const BOUNDLESS: u64 = 1 << 50;

/// The pace of requests to a store.
#[derive(Debug)]
pub(super) struct Pace {
    began: Instant,
    connections: Semaphore,
    budget: Mutex<LaneModel>,
    /// Charged without a request's share.
    bytes: Lane,
    link: Option<Link>,
}

#[derive(Debug)]
struct Link {
    latency: Duration,
    up: Mutex<LaneModel>,
    down: Mutex<LaneModel>,
}

impl Pace {
    pub(super) fn new(limits: &Limits, link: Option<LinkProfile>) -> Pace {
        let command =
            limits.requests_per_s.map_or(0, |rate| 1_000_000_000 / u64::from(rate.max(1)));
        let bytes_per_s = limits.bytes_per_s.map_or(BOUNDLESS, |rate| rate.0.max(1));
        let bytes = Lane { bytes_per_s, command: Nanos(command) };
        let lane = |profile: LinkProfile| Mutex::new(LaneModel::new(&profile.lane));
        Pace {
            began: Instant::now(),
            connections: Semaphore::new(limits.connections.max(1) as usize),
            budget: Mutex::new(LaneModel::new(&bytes)),
            bytes,
            link: link.map(|profile| Link {
                latency: Duration::from_nanos(profile.latency.0),
                up: lane(profile),
                down: lane(profile),
            }),
        }
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.began.elapsed().as_nanos()).expect("584 years"))
    }

    /// A turn for a request; it lasts until what is returned is dropped.
    pub(super) async fn turn(&self) -> SemaphorePermit<'_> {
        self.connections.acquire().await.expect("nobody closes it")
    }

    /// Waits until a request with so many bytes may leave, and is at the store.
    pub(super) async fn leave(&self, bytes: u64) {
        let now = self.now();
        // A request leaves when the ones before it are through, not when it is itself.
        let through = self.budget.lock().expect("nobody panics with it").pass(now, bytes);
        let own =
            self.bytes.command.0 + bytes.saturating_mul(1_000_000_000) / self.bytes.bytes_per_s;
        self.until(Nanos(through.0.saturating_sub(own))).await;
        self.pass(|link| &link.up, bytes).await;
    }

    /// Waits until an answer's bytes would be here.
    pub(super) async fn arrive(&self, bytes: u64) {
        let now = self.now();
        if bytes > 0 && self.bytes.bytes_per_s < BOUNDLESS {
            // Without a request's share: that was charged when it left.
            let mut budget = self.budget.lock().expect("nobody panics with it");
            budget.pass_bytes(now, bytes);
        }
        self.pass(|link| &link.down, bytes).await;
    }

    async fn pass(&self, lane: impl Fn(&Link) -> &Mutex<LaneModel>, bytes: u64) {
        let Some(link) = &self.link else { return };
        let now = self.now();
        let through = lane(link).lock().expect("nobody panics with it").pass(now, bytes);
        self.until(through).await;
        tokio::time::sleep(link.latency).await;
    }

    async fn until(&self, at: Nanos) {
        let wait = at.saturating_sub(self.now());
        if wait > Nanos(0) {
            tokio::time::sleep(Duration::from_nanos(wait.0)).await;
        }
    }
}

#[cfg(test)]
mod tests;
