//! A block device, as a machine sees one.
//!
//! The contract, which the models, the faults and the real devices share:
//! - Requests in flight have no order among each other; overlapping ones may end either way.
//! - A read sees every write that completed before the read was submitted.
//! - A completed write is volatile. It is durable once a flush that was submitted after its
//!   completion completes, or at its own completion when it was submitted with `fua`.
//! - A flush that failed with [`DeviceError::Io`] or [`DeviceError::NoSpace`] may have forgotten
//!   volatile writes: each of their sectors is old or new, now or later, and a flush that follows
//!   may end well all the same (Linux marks pages clean that it could not write back; Rebello et
//!   al., Can Applications Recover from fsync Failures?, 2020). One that timed out forgot nothing;
//!   nor does a far device forget, which keeps what it could not send.
//! - After a crash each sector of a volatile write is old or new, in any combination; a sector is
//!   never torn. A write that failed leaves each of its sectors old or new, too.
//! - A discarded range reads as zeroes where `Geometry::discard_zeroes` says so, and as anything
//!   otherwise; like a write, a discard is volatile until flushed.

use crate::Payload;
use std::ops::Range;
use thermocline_units::{Bytes, Nanos};

/// The unit in which devices keep their promises: 512 B. Offsets and lengths are multiples of it.
pub const SECTOR: u32 = 512;

/// Names one request in flight on one device; chosen by who submits, unique while in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

impl Ticket {
    /// Bit of the tickets of requests that no client waits for, where whoever submits tells them
    /// apart. A device with priorities may serve the others first.
    pub const BACKGROUND: u64 = 1 << 63;

    /// True if no client waits for the request.
    pub fn is_background(self) -> bool {
        self.0 & Ticket::BACKGROUND != 0
    }
}

/// A request to a device. Offsets are bytes from the device's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Io {
    /// Read `length` bytes.
    Read {
        /// Offset of the first byte.
        offset: Bytes,
        /// Number of bytes.
        length: u32,
    },
    /// Write all of `data`; with `fua` it is durable at completion.
    Write {
        /// Offset of the first byte.
        offset: Bytes,
        /// The bytes to write.
        data: Payload,
        /// True if completion promises durability.
        fua: bool,
    },
    /// Make every write completed so far durable.
    Flush,
    /// Forget a range.
    Discard {
        /// Offset of the first byte.
        offset: Bytes,
        /// Number of bytes.
        length: Bytes,
    },
    /// Make a range read as zeroes, however the device does it cheapest.
    WriteZeroes {
        /// Offset of the first byte.
        offset: Bytes,
        /// Number of bytes.
        length: Bytes,
    },
}

impl Io {
    /// The range of bytes touched, as (offset, length); `None` for a flush.
    pub fn range(&self) -> Option<(Bytes, Bytes)> {
        match self {
            Io::Read { offset, length } => Some((*offset, Bytes(u64::from(*length)))),
            Io::Write { offset, data, .. } => Some((*offset, Bytes(u64::from(data.len())))),
            Io::Discard { offset, length } | Io::WriteZeroes { offset, length } => {
                Some((*offset, *length))
            }
            Io::Flush => None,
        }
    }
}

/// A request that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The request.
    pub ticket: Ticket,
    /// A read's contents (empty for everything else), or what went wrong.
    pub result: Result<Payload, DeviceError>,
}

/// A failure of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The medium could not do it; another try or another place may do.
    #[error("the device reports an I/O error")]
    Io,
    /// No answer in time; a write may or may not have happened.
    #[error("the device did not answer in time")]
    TimedOut,
    /// The device has no room left (thin or quota-bound devices).
    #[error("the device has no space left")]
    NoSpace,
    /// The device is gone and will not come back by itself.
    #[error("the device is gone")]
    Gone,
}

/// Properties of a device; constant while it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Usable bytes from offset 0; a multiple of [`SECTOR`].
    pub size: Bytes,
    /// True if a discarded range reads as zeroes.
    pub discard_zeroes: bool,
    /// True if it lies across a network, in a store of whole objects: a request takes tens of
    /// milliseconds whatever its length, and a small write rewrites much.
    pub far: bool,
}

impl Geometry {
    /// A range of bytes in sectors.
    ///
    /// # Panics
    /// When it lies outside the device, is empty, or is not made of whole sectors.
    pub(crate) fn sectors(&self, offset: Bytes, length: Bytes) -> Range<u64> {
        let sector = u64::from(SECTOR);
        let end = offset.0.checked_add(length.0).filter(|&end| end <= self.size.0);
        let Some(end) = end else { panic!("{offset:?} + {length:?} lies outside {self:?}") };
        assert!(
            offset.0.is_multiple_of(sector) && end.is_multiple_of(sector) && length.0 > 0,
            "{offset:?} + {length:?} is not a run of whole sectors"
        );
        offset.0 / sector..end / sector
    }
}

/// A block device.
///
/// The caller guarantees that ranges lie inside `geometry().size`, are multiples of [`SECTOR`] and
/// not empty, and that time does not run backwards. The implementer must answer every ticket
/// exactly once, and must panic on a range outside the device: that is a bug of the caller.
///
/// ```
/// use thermocline_ports::model::{ModelDevice, Profile};
/// use thermocline_ports::{Device, Io, Payload, Ticket};
/// use thermocline_units::{Bytes, Nanos};
///
/// let mut flash = ModelDevice::new(&Profile::built_in("nvme").unwrap(), 1);
/// let write = Io::Write { offset: Bytes(0), data: Payload::Zeroes(4096), fua: false };
/// flash.submit(Nanos(0), Ticket(7), write);
/// let mut done = Vec::new();
/// while let Some(at) = flash.next_event() {
///     flash.poll(at, &mut done);
/// }
/// assert!(done.len() == 1 && done[0].ticket == Ticket(7) && done[0].result.is_ok());
/// ```
pub trait Device {
    /// Size and habits.
    fn geometry(&self) -> Geometry;

    /// Takes a request at `now`. Never blocks; everything that goes wrong comes out of `poll`. A
    /// real device may keep it until it is polled, so poll it before you wait for its readiness.
    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io);

    /// Appends what completed until `now`, in order of completion.
    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>);

    /// Virtual time at which `poll` will next have something; `None` when nothing is in flight, or
    /// when only the world knows (a real device).
    fn next_event(&self) -> Option<Nanos>;
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn geometry(&self) -> Geometry {
        (**self).geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        (**self).submit(now, ticket, io);
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        (**self).poll(now, done);
    }

    fn next_event(&self) -> Option<Nanos> {
        (**self).next_event()
    }
}
