//! Choice between another try of a failed request and its error.

use super::{Kind, Tactic};
use crate::registry::{Build, Entry};
use std::sync::Arc;

/// Choice between a retry and an error.
pub trait RetryRule: Send + Sync {
    /// True if a request may be tried again while the budget holds so many retries, which arrivals
    /// and time fill.
    fn allows(&self, held: f64) -> bool;
}

struct TokenBucket;

impl RetryRule for TokenBucket {
    fn allows(&self, held: f64) -> bool {
        held >= 1.0
    }
}

struct NoRetries;

impl RetryRule for NoRetries {
    fn allows(&self, _held: f64) -> bool {
        false
    }
}

pub(super) const TOKEN_BUCKET: Entry = Entry {
    name: "token-bucket",
    summary: "a retry takes one of the tokens that arrivals and time bring",
    source: "Finagle's retry budget",
    settings: &[],
    build: Build::Tactic(Kind::Retries, |_| Ok(Tactic::Retries(Arc::new(TokenBucket)))),
};

pub(super) const NO_RETRIES: Entry = Entry {
    name: "no-retries",
    summary: "a failed request is answered with its error",
    source: "ours",
    settings: &[],
    build: Build::Tactic(Kind::Retries, |_| Ok(Tactic::Retries(Arc::new(NoRetries)))),
};
