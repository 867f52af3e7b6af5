//! Interim answers (1xx, such as 103 Early Hints) on their way to a client.
//!
//! hyper sends none for a server. To a client of HTTP/1.1 they are written beside it, between two
//! messages: only while everything that hyper has written was flushed. One that finds no such
//! moment before the final answer begins goes directly before it, which is where it belongs. To a
//! client of HTTP/2 each is a frame of the stream's own ([`super::streams`]). Clients of HTTP/1.0
//! know none. Servers of HTTP/2 are heard through hyper, which does not pass theirs on.

use super::headers;
use hyper::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use std::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Acquire, Release},
};
use std::sync::{Mutex, PoisonError};

/// Bytes of interim answers that wait; further ones are dropped, which does no harm.
const WAITING_MAX: usize = 64 * 1024;
/// Bytes that an answer or a field is taken for beside its own.
const EXTRA: usize = 32;

/// An interim answer.
pub(super) type Hint = (StatusCode, HeaderMap);

/// Interim answers that wait for a moment to be written.
#[derive(Debug, Default)]
pub(super) struct Interim {
    hints: Mutex<Hints>,
    is_waiting: AtomicBool,
}

#[derive(Debug, Default)]
struct Hints {
    waiting: Vec<Hint>,
    /// Their bytes; with [`Interim::take_some`] those of all that ever came.
    bytes: usize,
}

impl Interim {
    /// Adds an answer as it came from a server.
    pub(super) fn push(&self, status: StatusCode, fields: &HeaderMap) {
        // 100 is between two neighbours, and 101 is no interim answer.
        if status.as_u16() < 102 {
            return;
        }
        let mut fields = fields.clone();
        // One that names a coding is not of HTTP, and no body follows any of them.
        if headers::to_client(&mut fields, false).is_err() {
            return;
        }
        fields.remove(CONTENT_LENGTH);
        let size =
            |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + EXTRA;
        let bytes = EXTRA + fields.iter().map(size).sum::<usize>();
        let mut hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
        if hints.bytes + bytes <= WAITING_MAX {
            hints.bytes += bytes;
            hints.waiting.push((status, fields));
            self.is_waiting.store(true, Release);
        }
    }

    /// Returns true if there is something to write.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Acquire)
    }

    /// Takes all that waits, as HTTP/1.1.
    pub(super) fn take(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for (status, fields) in self.take_some() {
            text.extend(format!("HTTP/1.1 {} ", status.as_u16()).into_bytes());
            text.extend(status.canonical_reason().unwrap_or_default().as_bytes());
            text.extend(b"\r\n");
            for (name, value) in &fields {
                text.extend(name.as_str().as_bytes());
                text.extend(b": ");
                text.extend(value.as_bytes());
                text.extend(b"\r\n");
            }
            text.extend(b"\r\n");
        }
        if !text.is_empty() {
            self.hints.lock().unwrap_or_else(PoisonError::into_inner).bytes = 0;
        }
        text
    }

    /// Takes all that waits, for a reader that is not known to have read the last; it is the
    /// server's last word when it has said enough.
    pub(super) fn take_some(&self) -> Vec<Hint> {
        if !self.is_waiting.swap(false, AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut self.hints.lock().unwrap_or_else(PoisonError::into_inner).waiting)
    }
}
