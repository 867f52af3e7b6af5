//! Interim answers (1xx, such as 103 Early Hints) on their way to a client of HTTP/1.1.
//!
//! hyper sends none for a server, so they are written beside it, between two messages: only while
//! everything that hyper has written was flushed. One that finds no such moment before the final
//! answer begins goes directly before it, which is where it belongs. Clients of HTTP/1.0 know no
//! interim answers; to clients of HTTP/2 they cannot be sent.

use super::headers;
use hyper::{HeaderMap, StatusCode};
use std::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Acquire, Release},
};
use std::sync::{Mutex, PoisonError};

/// Bytes of interim answers that wait; further ones are dropped, which does no harm.
const WAITING_MAX: usize = 64 * 1024;

/// Interim answers that wait for a moment to be written.
#[derive(Debug, Default)]
pub(super) struct Interim {
    bytes: Mutex<Vec<u8>>,
    is_waiting: AtomicBool,
}

impl Interim {
    /// Adds an answer as it came from a server.
    pub(super) fn push(&self, status: StatusCode, fields: &HeaderMap) {
        // 100 is between two neighbours, and 101 is no interim answer.
        if status.as_u16() < 102 {
            return;
        }
        let mut fields = fields.clone();
        headers::to_client(&mut fields, false);
        let mut text = format!("HTTP/1.1 {}", status.as_u16()).into_bytes();
        text.push(b' ');
        text.extend(status.canonical_reason().unwrap_or_default().as_bytes());
        text.extend(b"\r\n");
        for (name, value) in &fields {
            text.extend(name.as_str().as_bytes());
            text.extend(b": ");
            text.extend(value.as_bytes());
            text.extend(b"\r\n");
        }
        text.extend(b"\r\n");
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() + text.len() <= WAITING_MAX {
            bytes.extend(text);
            self.is_waiting.store(true, Release);
        }
    }

    /// Returns true if there is something to write.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Acquire)
    }

    /// Takes all that waits.
    pub(super) fn take(&self) -> Vec<u8> {
        if !self.is_waiting.swap(false, AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
