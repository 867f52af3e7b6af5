//! A device on a file or a block device.
//!
//! 1. Requests go to the ring in the order of submission; what finds it full waits in a queue.
//! 2. A read or write that the kernel cuts short goes on from there; an interrupted one is tried
//!    again.
//! 3. Zeroes and discards punch holes where the device can ([`mod@zeroing`] finds that out when it
//!    is opened); where it cannot, zeroes are written and a discard does nothing. A device that
//!    takes its word back is written zeroes for both: whoever discards was told that zeroes follow.
//! 4. A file in memory needs no ring: its requests are done when they are submitted.
//! 5. A file is locked while it is open here, and a block device is opened exclusively: a second
//!    instance is refused, and so is a device that is mounted or part of another one. The file
//!    below a loop device is locked with it ([`mod@backing`]).
//! 6. A device that does not answer is given up in the end ([`crate::Patience`]): whoever waits is
//!    answered then. The kernel keeps the buffers of what it still has, and its answers, if they
//!    come, are dropped. The lock stays for as long: nobody else writes there before.

mod backing;
mod growing;
mod opening;
mod zeroing;

pub use backing::lock_backing_file;
pub use growing::Grower;
pub use opening::{OpenDeviceError, OpenOptions, take_back_file};

use crate::buffer::{Aligned, is_aligned};
use crate::memory;
use crate::ring::{Answer, Ask, Ring};
use crate::{Health, Patience};
use bytes::Bytes as Buffer;
use opening::{block_device, device_size, is_at, lock, open_file};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use thermocline_ports::{Completion, Device, DeviceError, Geometry, Io, Payload, SECTOR, Ticket};
use thermocline_units::{Bytes, Nanos, Slab};

/// Zeroes are written so many bytes at a time.
const ZEROES: u32 = 1 << 20;
/// Time between two looks at a device with requests under way.
const LOOK_EVERY: Nanos = Nanos::from_secs(1);
/// A look that comes so much too late is not the device's fault: this machine slept, or was held
/// up, and the clock went on. Requests are given their time anew then.
const ASLEEP: Nanos = Nanos::from_secs(10);
/// Pause before the kernel is offered again what it did not take.
const OFFER_AGAIN: Nanos = Nanos(1_000_000);

/// A request in flight.
struct Pending {
    ticket: Ticket,
    kind: Kind,
    /// Bytes still to be moved, from `offset`.
    offset: u64,
    left: u64,
    /// Bytes that a read has so far, when it was cut short.
    head: Vec<u8>,
}

enum Kind {
    Read,
    Write {
        data: Buffer,
        durable: bool,
    },
    /// Zeroes, written.
    Zeroes,
    /// Zeroes, or a discard, by a hole.
    Hole,
    Flush,
}

/// A file or a block device.
pub struct FileDevice {
    file: OwnedFd,
    /// The file below a loop device, locked for as long as the device is open.
    _backing: Option<OwnedFd>,
    path: PathBuf,
    geometry: Geometry,
    direct: bool,
    /// True if zeroes are holes; false from the first refusal on.
    punches: bool,
    /// True if requests are done at once; see [`memory`].
    in_memory: bool,
    ring: Ring,
    /// Pending requests by tag.
    pending: Slab<Pending>,
    /// Tags that wait for room in the ring.
    queue: VecDeque<u32>,
    done: Vec<Completion>,
    zeroes: Buffer,
    patience: Patience,
    health: Health,
    /// Time of the next look at what is under way.
    look_at: Nanos,
    /// Time at which the kernel is offered again what it did not take.
    offer_at: Option<Nanos>,
}

impl FileDevice {
    /// Opens a file or a block device for reading and writing, and locks it.
    ///
    /// # Errors
    /// When it cannot be opened, is in use, is of another kind, or is smaller than a sector.
    pub fn open(path: &Path, options: OpenOptions) -> Result<FileDevice, OpenDeviceError> {
        let device = FileDevice::open_as(path, options, OFlags::RDWR)?;
        let punches = zeroing::can_punch(&device.file, device.geometry.size);
        let geometry = Geometry { discard_zeroes: punches, ..device.geometry };
        Ok(FileDevice { geometry, punches, ..device })
    }

    /// Opens a file or a block device for reading only, and locks it just the same: nothing of it
    /// changes, and nobody else changes it meanwhile. Writes are answered with errors.
    ///
    /// # Errors
    /// When it cannot be opened, is in use, is of another kind, or is smaller than a sector.
    pub fn open_to_read(path: &Path) -> Result<FileDevice, OpenDeviceError> {
        FileDevice::open_as(path, OpenOptions::default(), OFlags::RDONLY)
    }

    fn open_as(
        path: &Path,
        options: OpenOptions,
        access: OFlags,
    ) -> Result<FileDevice, OpenDeviceError> {
        let failed =
            |errno: Errno| OpenDeviceError::Open { path: path.to_path_buf(), source: errno.into() };
        let (file, direct) = match open_file(path, options, access) {
            Err(Errno::BUSY) => return Err(OpenDeviceError::Busy { path: path.to_path_buf() }),
            opened => opened.map_err(failed)?,
        };
        if !lock(&file).map_err(failed)? || !is_at(&file, path) {
            return Err(OpenDeviceError::InUse { path: path.to_path_buf() });
        }
        let backing = lock_backing_file(&file)
            .map_err(|file| OpenDeviceError::OtherName { path: path.to_path_buf(), file })?;
        let size = device_size(&file, path, options.create)?;
        let size = Bytes(size / u64::from(SECTOR) * u64::from(SECTOR));
        if size.0 == 0 {
            return Err(OpenDeviceError::Empty { path: path.to_path_buf(), size: size.0 });
        }
        let ring = Ring::new().map_err(|source| OpenDeviceError::Ring { source })?;
        // The node of a block device is in memory, the device is not.
        let in_memory = block_device(&file).is_none() && memory::is_in_memory(&file);
        Ok(FileDevice {
            file,
            _backing: backing,
            path: path.to_path_buf(),
            geometry: Geometry { size, discard_zeroes: false, far: false },
            direct,
            punches: false,
            in_memory,
            ring,
            pending: Slab::default(),
            queue: VecDeque::new(),
            done: Vec::new(),
            zeroes: Aligned::zeroed(ZEROES as usize).freeze(),
            patience: options.patience,
            health: Health::Well,
            look_at: Nanos(0),
            offer_at: None,
        })
    }

    /// See [`crate::Disk::allocate`].
    pub(crate) fn allocate(&self, bytes: Bytes) -> io::Result<()> {
        if block_device(&self.file).is_some() {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, bytes.0) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            other => other.map_err(io::Error::from),
        }
    }

    /// True if requests go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Path of the device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// State of the device as of the last `poll`, as far as its answers tell.
    pub fn health(&self) -> Health {
        self.health
    }

    /// Limits for the time that the device may take for one request.
    pub fn patience(&self) -> Patience {
        self.patience
    }

    /// Readable when something is answered; for `poll(2)`.
    pub fn readiness(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// True if answers wait that need no kernel.
    pub fn has_answers(&self) -> bool {
        !self.done.is_empty()
    }

    /// Blocks until something was answered, for a second at most, so that whoever waits can look
    /// at the clock; returns at once when nothing is in flight.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn wait(&mut self) -> io::Result<()> {
        if self.done.is_empty() && !self.ring.is_idle() && self.health != Health::GivenUp {
            self.ring.wait()?;
        }
        Ok(())
    }

    fn pump(&mut self, now: Nanos) {
        while self.ring.has_room() {
            let Some(tag) = self.queue.pop_front() else { break };
            let pending = &self.pending[tag];
            let ask = match &pending.kind {
                Kind::Read => {
                    let into = Aligned::used(pending.left as usize);
                    Ask::Read { offset: pending.offset, into }
                }
                Kind::Write { data, durable } => {
                    let from = data.slice(data.len() - pending.left as usize..);
                    Ask::Write { offset: pending.offset, from, durable: *durable }
                }
                Kind::Zeroes => {
                    let length = pending.left.min(u64::from(ZEROES)) as usize;
                    let from = self.zeroes.slice(..length);
                    Ask::Write { offset: pending.offset, from, durable: false }
                }
                Kind::Hole => Ask::Punch { offset: pending.offset, length: pending.left },
                Kind::Flush => Ask::Sync,
            };
            self.ring.push(now, self.file.as_fd(), tag, ask);
        }
        let taken = self.ring.submit();
        let taken = taken.unwrap_or_else(|e| panic!("io_uring refuses its own entries: {e}"));
        self.offer_at = (!taken).then_some(Nanos(now.0 + OFFER_AGAIN.0));
    }

    fn take_answers(&mut self) {
        while let Some(answer) = self.ring.take() {
            // Late ones of a device that was given up are nobody's any more.
            if self.health != Health::GivenUp {
                self.answered(answer);
            }
        }
    }

    fn answered(&mut self, answer: Answer) {
        let moved = match answer.result {
            Ok(moved) => u64::from(moved),
            Err(error) if is_passing(&error) => return self.queue.push_front(answer.tag),
            Err(error) if self.refuses_holes(answer.tag, &error) => {
                return self.queue.push_front(answer.tag);
            }
            Err(error) => return self.finish(answer.tag, Err(device_error(&error))),
        };
        let pending = &mut self.pending[answer.tag];
        if let Kind::Flush | Kind::Hole = pending.kind {
            return self.finish(answer.tag, Ok(Payload::EMPTY));
        }
        if moved == 0 {
            // The file ends before the device does: somebody cut it.
            return self.finish(answer.tag, Err(DeviceError::Io));
        }
        if let Some(read) = answer.read {
            if moved == pending.left && pending.head.is_empty() {
                return self.finish(answer.tag, Ok(Payload::Bytes(read)));
            }
            pending.head.extend_from_slice(&read[..moved as usize]);
        }
        pending.offset += moved;
        pending.left -= moved;
        if pending.left > 0 {
            return self.queue.push_front(answer.tag);
        }
        let head = std::mem::take(&mut pending.head);
        let payload = if head.is_empty() { Payload::EMPTY } else { Payload::from(head) };
        self.finish(answer.tag, Ok(payload));
    }

    /// True if `error` says that there are no holes to be had; zeroes are written instead then.
    fn refuses_holes(&mut self, tag: u32, error: &io::Error) -> bool {
        let kind = &mut self.pending[tag].kind;
        let refuses = matches!(kind, Kind::Hole) && zeroing::is_refusal(error);
        if refuses {
            *kind = Kind::Zeroes;
            self.punches = false;
        }
        refuses
    }

    /// Judges the device by the oldest of its requests.
    fn look_at_the_clock(&mut self, now: Nanos) {
        if now < self.look_at || self.health == Health::GivenUp {
            return;
        }
        if now.saturating_sub(self.look_at) > ASLEEP {
            self.ring.count_anew(now);
        }
        self.look_at = Nanos(now.0 + LOOK_EVERY.0);
        self.health = self.patience.judge(now, self.ring.oldest());
        if self.health == Health::GivenUp {
            self.ring.abandon();
            self.queue.clear();
            self.offer_at = None;
            let tags: Vec<u32> = self.pending.iter().map(|(tag, _)| tag).collect();
            tags.into_iter().for_each(|tag| self.finish(tag, Err(DeviceError::Gone)));
        }
    }

    fn finish(&mut self, tag: u32, result: Result<Payload, DeviceError>) {
        let pending = self.pending.remove(tag);
        self.done.push(Completion { ticket: pending.ticket, result });
    }
}

impl Device for FileDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, _now: Nanos, ticket: Ticket, io: Io) {
        let (offset, left) = io.range().map_or((0, 0), |(offset, length)| (offset.0, length.0));
        let sector = u64::from(SECTOR);
        let inside = offset + left <= self.geometry.size.0;
        let whole = (offset | left).is_multiple_of(sector);
        assert!(inside && whole && (left > 0 || io == Io::Flush), "a range outside the device");
        if self.health == Health::GivenUp {
            self.done.push(Completion { ticket, result: Err(DeviceError::Gone) });
            return;
        }
        if self.in_memory {
            let result = self.at_once(io).map_err(|errno| device_error(&errno.into()));
            self.done.push(Completion { ticket, result });
            return;
        }
        let kind = match io {
            Io::Read { .. } => Kind::Read,
            Io::Write { data, fua, .. } => Kind::Write { data: self.sendable(&data), durable: fua },
            Io::WriteZeroes { .. } | Io::Discard { .. } if self.punches => Kind::Hole,
            Io::WriteZeroes { .. } => Kind::Zeroes,
            Io::Flush => Kind::Flush,
            Io::Discard { .. } if self.geometry.discard_zeroes => Kind::Zeroes,
            Io::Discard { .. } => {
                self.done.push(Completion { ticket, result: Ok(Payload::EMPTY) });
                return;
            }
        };
        let pending = Pending { ticket, kind, offset, left, head: Vec::new() };
        self.queue.push_back(self.pending.insert(pending));
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        // First, so that the kernel has room for the answers of what it is asked next.
        self.take_answers();
        self.pump(now);
        self.take_answers();
        if !self.queue.is_empty() {
            self.pump(now);
        }
        self.look_at_the_clock(now);
        done.append(&mut self.done);
    }

    /// Time at which the kernel is offered again what it did not take; else only the world knows.
    fn next_event(&self) -> Option<Nanos> {
        self.offer_at
    }
}

impl FileDevice {
    /// Does a request to a file in memory. There is nothing to flush: a crash loses all of it.
    fn at_once(&self, io: Io) -> Result<Payload, Errno> {
        let file = &self.file;
        match io {
            Io::Read { offset, length } => {
                return memory::read(file, offset.0, length as usize).map(Payload::Bytes);
            }
            Io::Write { offset, data: Payload::Bytes(bytes), .. } => {
                memory::write(file, offset.0, &bytes)?;
            }
            Io::Write { offset, data: Payload::Zeroes(length), .. } => {
                self.zero_at_once(offset.0, u64::from(length))?;
            }
            Io::WriteZeroes { offset, length, .. } => self.zero_at_once(offset.0, length.0)?,
            Io::Discard { offset, length } if self.punches => {
                memory::punch(file, offset.0, length.0)?;
            }
            Io::Discard { .. } | Io::Flush => {}
        }
        Ok(Payload::EMPTY)
    }

    fn zero_at_once(&self, offset: u64, length: u64) -> Result<(), Errno> {
        if self.punches {
            return memory::punch(&self.file, offset, length);
        }
        let mut at = 0;
        while at < length {
            let step = (length - at).min(u64::from(ZEROES));
            memory::write(&self.file, offset + at, &self.zeroes[..step as usize])?;
            at += step;
        }
        Ok(())
    }

    /// The contents as a buffer that direct I/O takes.
    fn sendable(&self, data: &Payload) -> Buffer {
        match data {
            Payload::Zeroes(length) if *length <= ZEROES => self.zeroes.slice(..*length as usize),
            Payload::Zeroes(length) => Aligned::zeroed(*length as usize).freeze(),
            Payload::Bytes(bytes) if self.direct && !is_aligned(bytes) => {
                Aligned::copy_of(bytes).freeze()
            }
            Payload::Bytes(bytes) => bytes.clone(),
        }
    }
}

/// True if trying again is all there is to do.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

fn device_error(error: &io::Error) -> DeviceError {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT) => DeviceError::NoSpace,
        Some(Errno::NODEV | Errno::NXIO | Errno::NOMEDIUM) => DeviceError::Gone,
        Some(Errno::TIMEDOUT | Errno::TIME) => DeviceError::TimedOut,
        _ => DeviceError::Io,
    }
}

#[cfg(test)]
mod tests;
