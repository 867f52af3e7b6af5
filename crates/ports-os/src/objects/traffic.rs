//! Traffic to and from an object store: counted, priced, and told.
//!
//! Counted where the requests leave, so that what is tried again, and what the library asks for by
//! itself, is in. The counters are shared with the thread that talks to the store.

use super::bucket::BucketError;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use thermocline_units::Bytes;

/// Characters of an error that are kept.
const ERROR_CHARACTERS_MAX: usize = 300;

/// A store's prices, in any currency. 0: nothing, or not known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Prices {
    /// For a thousand writes or listings.
    pub puts_1000: f64,
    /// For a thousand reads.
    pub gets_1000: f64,
    /// For a GiB that is read.
    pub download_gib: f64,
    /// For a GiB that is stored for a month.
    pub month_gib: f64,
}

/// Kinds of requests, as stores price them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Put,
    Get,
    List,
    Delete,
    /// Credentials, and whatever else goes elsewhere.
    Other,
}

/// Counts of requests, and what they cost.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    prices: Prices,
    requests: [AtomicU64; 5],
    failed: AtomicU64,
    up: AtomicU64,
    down: AtomicU64,
    last_error: Mutex<Option<String>>,
}

/// Status of a device's bucket; counts are since it was opened.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BucketStatus {
    /// Requests that write: objects, parts, records.
    pub puts: u64,
    /// Requests that read.
    pub gets: u64,
    /// Pages listed.
    pub lists: u64,
    /// Requests that delete.
    pub deletes: u64,
    /// Requests of these that failed, or were not answered in time; most were tried again.
    pub failed: u64,
    /// Bytes sent, headers aside.
    pub sent: Bytes,
    /// Bytes received, headers aside.
    pub received: Bytes,
    /// Objects that hold extents.
    pub objects: u64,
    /// Bytes of these.
    pub stored: Bytes,
    /// Bytes written that are only in memory.
    pub unsent: Bytes,
    /// Bytes that were asked for ahead of streams of reads.
    pub read_ahead: Bytes,
    /// Bytes of these that were read, as far as they are out of memory again.
    pub read_ahead_used: Bytes,
    /// Cost of the requests by the prices that were given; none: there are no prices.
    pub cost: Option<f64>,
    /// Cost of a month of the objects; none: there are no prices.
    pub cost_month: Option<f64>,
    /// The last thing that went wrong.
    pub last_error: Option<String>,
}

impl Traffic {
    pub(super) fn new(prices: Prices) -> Traffic {
        Traffic { prices, ..Traffic::default() }
    }

    /// A request leaves with so many bytes.
    pub(super) fn note_request(&self, verb: Verb, bytes: u64) {
        self.requests[verb as usize].fetch_add(1, Relaxed);
        self.up.fetch_add(bytes, Relaxed);
    }

    /// An answer came with so many bytes.
    pub(super) fn note_answer(&self, bytes: u64) {
        self.down.fetch_add(bytes, Relaxed);
    }

    /// A request failed.
    pub(super) fn note_failure(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    /// Something is given up.
    pub(super) fn note_error(&self, error: &BucketError) {
        let text = error.to_string().chars().take(ERROR_CHARACTERS_MAX).collect();
        *self.last_error.lock().expect("nobody panics with it") = Some(text);
    }

    pub(super) fn status(&self, objects: u64, extent: u32, unsent: Bytes) -> BucketStatus {
        let of = |verb: Verb| self.requests[verb as usize].load(Relaxed);
        let (puts, gets, lists) = (of(Verb::Put), of(Verb::Get), of(Verb::List));
        let (sent, received) = (Bytes(self.up.load(Relaxed)), Bytes(self.down.load(Relaxed)));
        let stored = Bytes(objects * super::format::object_bytes(extent));
        let gib = |bytes: Bytes| bytes.0 as f64 / (1u64 << 30) as f64;
        let priced = self.prices != Prices::default();
        let Prices { puts_1000, gets_1000, download_gib, month_gib } = self.prices;
        let cost = (puts + lists) as f64 / 1e3 * puts_1000
            + gets as f64 / 1e3 * gets_1000
            + gib(received) * download_gib;
        BucketStatus {
            puts,
            gets,
            lists,
            deletes: of(Verb::Delete),
            failed: self.failed.load(Relaxed),
            sent,
            received,
            objects,
            stored,
            unsent,
            read_ahead: Bytes(0),
            read_ahead_used: Bytes(0),
            cost: priced.then_some(cost),
            cost_month: priced.then_some(gib(stored) * month_gib),
            last_error: self.last_error.lock().expect("nobody panics with it").clone(),
        }
    }
}
