//! A device whose traffic is folded into a digest.

use crate::device::{Completion, Device, DeviceError, Geometry, Io, Ticket};
use crate::payload::Payload;
use std::ops::{Deref, DerefMut};
use thermocline_units::{Digest, Nanos};

/// Folds an outcome. Zeroes and bytes that are zero are different.
pub fn fold_result(digest: &Digest, result: &Result<Payload, DeviceError>) {
    match result {
        Ok(payload) => fold_payload(digest, payload),
        Err(error) => digest.fold_text(error),
    }
}

fn fold_payload(digest: &Digest, payload: &Payload) {
    match payload {
        Payload::Zeroes(length) => digest.fold(u64::from(*length) | 1 << 63),
        Payload::Bytes(bytes) => digest.fold_bytes(bytes),
    }
}

fn fold_request(digest: &Digest, io: &Io) {
    let (offset, length) = io.range().unwrap_or_default();
    digest.fold(offset.0);
    digest.fold(length.0);
    match io {
        Io::Read { .. } => digest.fold(1),
        Io::Write { data, fua, .. } => {
            digest.fold(2 + u64::from(*fua));
            fold_payload(digest, data);
        }
        Io::Flush => digest.fold(4),
        Io::Discard { .. } => digest.fold(5),
        Io::WriteZeroes { .. } => digest.fold(6),
    }
}

/// A device whose requests and answers are folded into a digest.
#[derive(Debug, Clone)]
pub struct Recorded<D> {
    device: D,
    digest: Digest,
}

impl<D> Recorded<D> {
    /// A device that is recorded in `digest`.
    pub fn new(device: D, digest: &Digest) -> Recorded<D> {
        Recorded { device, digest: digest.clone() }
    }
}

impl<D> Deref for Recorded<D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.device
    }
}

impl<D> DerefMut for Recorded<D> {
    fn deref_mut(&mut self) -> &mut D {
        &mut self.device
    }
}

impl<D: Device> Device for Recorded<D> {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        self.digest.fold(now.0);
        self.digest.fold(ticket.0);
        fold_request(&self.digest, &io);
        self.device.submit(now, ticket, io);
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        let before = done.len();
        self.device.poll(now, done);
        for Completion { ticket, result } in done.iter().skip(before) {
            self.digest.fold(ticket.0);
            fold_result(&self.digest, result);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.device.next_event()
    }
}
