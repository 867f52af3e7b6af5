//! State of what is being written on one connection, shared by whoever hands messages to hyper and
//! the stream that hyper writes to.
//!
//! hyper writes fields behind a body only when `Trailer` announced them, which nobody can do for
//! fields that are not known yet. So it never gets them. The body leaves them here and ends; hyper
//! then writes the last chunk, and the stream puts them into it:
//!
//! 1. [`Outgoing::leave`] is called while hyper asks for the next frame and gets the end. hyper
//!    adds `0\r\n\r\n` to what it is to write before it writes or asks for anything else.
//! 2. From then on the stream holds back the last five bytes that hyper wrote.
//! 3. hyper flushes when it has no bytes left. The five must be `0\r\n\r\n`; the fields go between
//!    `0\r\n` and `\r\n`. If they are not, the connection is given up.
//! 4. Whoever begins another message first takes away what was left ([`Outgoing::begin`]).
//!
//! Only bodies in chunks may leave fields: bytes of a body with a length are the neighbour's.
//! Fields that matter for framing, for the hop, for access or for where a request came from never
//! stand behind a body ([`strip`]). State: 64 B a connection.

use super::headers;
use hyper::HeaderMap;
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, COOKIE, EXPECT, FORWARDED, HOST, HeaderName, MAX_FORWARDS, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::sync::{Mutex, PoisonError};

/// Last chunk of a body without fields behind it (RFC 9112 §7.1).
pub(super) const LAST_CHUNK: &[u8; 5] = b"0\r\n\r\n";
/// Bytes of fields behind a body; more are left out.
const TRAILERS_MAX: usize = 64 * 1024;

/// State of what is being written.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Lines of the fields behind the body that ends.
    trailers: Mutex<Vec<u8>>,
    is_left: AtomicBool,
    /// Bytes that the system has taken.
    written: AtomicU64,
}

impl Outgoing {
    /// A message begins: what was left for another is not for it.
    pub(super) fn begin(&self) {
        if self.is_left() {
            self.take();
        }
    }

    /// Leaves fields for the last chunk of the body that ends now, which must be in chunks.
    pub(super) fn leave(&self, fields: &HeaderMap) {
        let mut lines = Vec::new();
        for (name, value) in fields {
            lines.extend(name.as_str().as_bytes());
            lines.extend(b": ");
            lines.extend(value.as_bytes());
            lines.extend(b"\r\n");
        }
        if lines.is_empty() || lines.len() > TRAILERS_MAX {
            return;
        }
        *self.trailers.lock().unwrap_or_else(PoisonError::into_inner) = lines;
        self.is_left.store(true, Release);
    }

    /// True if fields wait for the last chunk.
    pub(super) fn is_left(&self) -> bool {
        self.is_left.load(Acquire)
    }

    /// Takes the lines of the fields that wait.
    pub(super) fn take(&self) -> Vec<u8> {
        if !self.is_left.swap(false, AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *self.trailers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts bytes that the system has taken.
    pub(super) fn wrote(&self, count: usize) {
        self.written.fetch_add(count as u64, Relaxed);
    }

    /// Number of bytes that the system has taken.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }
}

/// Returns true if a field may not stand behind a body (RFC 9110 §6.5.1): a reader that joined it
/// with the head would read the message in another way, or take it for this proxy's word.
fn is_of_head(name: &HeaderName) -> bool {
    let hop = ["keep-alive", "proxy-connection", "http2-settings"];
    [
        AUTHORIZATION,
        CACHE_CONTROL,
        CONNECTION,
        CONTENT_ENCODING,
        CONTENT_LENGTH,
        CONTENT_RANGE,
        CONTENT_TYPE,
        COOKIE,
        EXPECT,
        FORWARDED,
        HOST,
        MAX_FORWARDS,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        SET_COOKIE,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
        headers::LOAD,
    ]
    .contains(name)
        || name.as_str().starts_with("x-forwarded-")
        || hop.contains(&name.as_str())
}

/// Takes out fields that may not stand behind a body.
pub(super) fn strip(fields: &mut HeaderMap) {
    let named: Vec<HeaderName> = fields.keys().filter(|name| is_of_head(name)).cloned().collect();
    for name in named {
        fields.remove(name);
    }
}

#[cfg(test)]
mod tests;
