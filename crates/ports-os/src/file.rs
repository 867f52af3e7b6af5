//! A device on a file or a block device.
//!
//! 1. Requests go to the ring in the order of submission; what finds it full waits in a queue.
//! 2. A read or write that the kernel cuts short goes on from there; an interrupted one is tried
//!    again.
//! 3. Zeroes and discards punch holes where the file system can; where it cannot, zeroes are
//!    written and a discard does nothing. Which of the two holds is found out when the device is
//!    opened.
//! 4. A file in memory needs no ring: its requests are done when they are submitted.
//! 5. A file is locked while it is open here, and a block device is opened exclusively: a second
//!    instance is refused, and so is a device that is mounted or part of another one.

use crate::buffer::{Aligned, is_aligned};
use crate::memory;
use crate::ring::{Answer, Ask, Ring};
use bytes::Bytes as Buffer;
use rustix::fs::{FallocateFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thermocline_ports::model::ProfileError;
use thermocline_ports::{Completion, Device, DeviceError, Geometry, Io, Payload, SECTOR, Ticket};
use thermocline_units::{Bytes, Nanos, Slab};

/// Zeroes are written so many bytes at a time.
const ZEROES: u32 = 1 << 20;
/// How long a device may stay locked that a killed process had: long for what one process has under
/// way on a slow disk, short for people who started a second engine.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_RETRY: Duration = Duration::from_millis(5);

/// How a device is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Make the file, of this size, when there is none; a file that exists keeps its size.
    pub create: Option<Bytes>,
    /// Go through the page cache although the file system allows to go past it.
    pub buffered: bool,
}

/// Why a device cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenDeviceError {
    /// The path cannot be opened as asked.
    #[error("{path}: {source}")]
    Open {
        /// Which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else has it.
    #[error("{path} is in use by another process; stop that first")]
    InUse {
        /// Which path.
        path: PathBuf,
    },
    /// The kernel has lent it to somebody: it is mounted, or part of another device.
    #[error(
        "{path} is in use: it is mounted, part of another device (lsblk shows of which), or open in \
         another engine; release it first"
    )]
    Busy {
        /// Which path.
        path: PathBuf,
    },
    /// Neither a file nor a block device.
    #[error("{path} is neither a file nor a block device")]
    Kind {
        /// Which path.
        path: PathBuf,
    },
    /// Nothing fits.
    #[error("{path} has no room: {size} bytes are less than a sector of 512")]
    Empty {
        /// Which path.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
    /// The device cannot be slowed to the profile.
    #[error("{path} cannot be emulated as asked: {source}")]
    Emulation {
        /// Which path.
        path: PathBuf,
        /// What the profile said.
        source: ProfileError,
    },
    /// The bucket cannot be used.
    #[error("{path}: {source}")]
    Bucket {
        /// `s3://bucket/prefix`.
        path: PathBuf,
        /// Why.
        source: Box<crate::objects::ObjectError>,
    },
    /// The kernel has no io_uring.
    #[error(
        "io_uring is not available ({source}); it needs Linux 5.6, and must not be forbidden (sysctl kernel.io_uring_disabled)"
    )]
    Ring {
        /// What the system said.
        source: io::Error,
    },
}

/// What is known about a request in flight.
struct Pending {
    ticket: Ticket,
    kind: Kind,
    /// Bytes still to be moved, from `offset`.
    offset: u64,
    left: u64,
    /// What a read has so far, when it was cut short.
    head: Vec<u8>,
}

enum Kind {
    Read,
    Write { data: Buffer, durable: bool },
    Zeroes,
    Discard,
    Flush,
}

/// See the module.
pub struct FileDevice {
    file: OwnedFd,
    path: PathBuf,
    geometry: Geometry,
    direct: bool,
    punches: bool,
    /// Whether requests are done at once; see [`memory`].
    in_memory: bool,
    ring: Ring,
    /// By tag.
    pending: Slab<Pending>,
    /// Tags that wait for room in the ring.
    queue: VecDeque<u32>,
    done: Vec<Completion>,
    zeroes: Buffer,
}

impl FileDevice {
    /// Opens a file or a block device for reading and writing, and locks it.
    ///
    /// # Errors
    /// When it cannot be opened, is in use, is of another kind, or is smaller than a sector.
    pub fn open(path: &Path, options: OpenOptions) -> Result<FileDevice, OpenDeviceError> {
        let device = FileDevice::open_as(path, options, OFlags::RDWR)?;
        let punches = can_punch(&device.file, device.geometry.size);
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
        if !lock(&file).map_err(failed)? {
            return Err(OpenDeviceError::InUse { path: path.to_path_buf() });
        }
        let size = device_size(&file, path, options.create)?;
        let size = Bytes(size / u64::from(SECTOR) * u64::from(SECTOR));
        if size.0 == 0 {
            return Err(OpenDeviceError::Empty { path: path.to_path_buf(), size: size.0 });
        }
        let ring = Ring::new().map_err(|source| OpenDeviceError::Ring { source })?;
        // The node of a block device is in memory, the device is not.
        let in_memory = !is_block_device(&file) && memory::is_in_memory(&file);
        Ok(FileDevice {
            file,
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
        })
    }

    /// See [`crate::Disk::allocate`].
    pub(crate) fn allocate(&self, bytes: Bytes) -> io::Result<()> {
        if is_block_device(&self.file) {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, bytes.0) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            other => other.map_err(io::Error::from),
        }
    }

    /// Whether requests go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Where the device is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Readable when something is answered; for `poll(2)`.
    pub fn readiness(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// Whether answers wait that need no kernel.
    pub fn has_answers(&self) -> bool {
        !self.done.is_empty()
    }

    /// Blocks until something was answered; returns at once when nothing is in flight.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn wait(&mut self) -> io::Result<()> {
        if self.done.is_empty() && !self.ring.is_idle() {
            self.ring.wait()?;
        }
        Ok(())
    }

    fn pump(&mut self) {
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
                Kind::Zeroes if !self.punches => {
                    let length = pending.left.min(u64::from(ZEROES)) as usize;
                    let from = self.zeroes.slice(..length);
                    Ask::Write { offset: pending.offset, from, durable: false }
                }
                Kind::Zeroes | Kind::Discard => {
                    Ask::Punch { offset: pending.offset, length: pending.left }
                }
                Kind::Flush => Ask::Sync,
            };
            self.ring.push(self.file.as_fd(), tag, ask);
        }
        if let Err(error) = self.ring.submit() {
            assert!(is_passing(&error), "io_uring refuses its own entries: {error}");
        }
    }

    fn answered(&mut self, answer: Answer) {
        let moved = match answer.result {
            Ok(moved) => u64::from(moved),
            Err(error) if is_passing(&error) => return self.queue.push_front(answer.tag),
            Err(error) => return self.finish(answer.tag, Err(device_error(&error))),
        };
        let pending = &mut self.pending[answer.tag];
        let whole = match pending.kind {
            Kind::Flush | Kind::Discard => true,
            Kind::Zeroes => self.punches,
            Kind::Read | Kind::Write { .. } => false,
        };
        if whole {
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
        if self.in_memory {
            let result = self.at_once(io).map_err(|errno| device_error(&errno.into()));
            self.done.push(Completion { ticket, result });
            return;
        }
        let kind = match io {
            Io::Read { .. } => Kind::Read,
            Io::Write { data, fua, .. } => Kind::Write { data: self.sendable(&data), durable: fua },
            Io::WriteZeroes { .. } => Kind::Zeroes,
            Io::Flush => Kind::Flush,
            Io::Discard { .. } if self.punches => Kind::Discard,
            Io::Discard { .. } => {
                self.done.push(Completion { ticket, result: Ok(Payload::EMPTY) });
                return;
            }
        };
        let pending = Pending { ticket, kind, offset, left, head: Vec::new() };
        self.queue.push_back(self.pending.insert(pending));
    }

    fn poll(&mut self, _now: Nanos, done: &mut Vec<Completion>) {
        self.pump();
        while let Some(answer) = self.ring.take() {
            self.answered(answer);
        }
        if !self.queue.is_empty() {
            self.pump();
        }
        done.append(&mut self.done);
    }

    /// Only the world knows.
    fn next_event(&self) -> Option<Nanos> {
        None
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

/// Locks a file against other processes; false: it stays in use.
///
/// A process that was killed is gone before its ring is: the kernel finishes what is under way,
/// and drops the ring's files, a little later. Until then its requests may still change the file,
/// and it stays locked, so a restart at once has to wait.
fn lock(file: &OwnedFd) -> Result<bool, Errno> {
    let start = Instant::now();
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if start.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(LOCK_RETRY);
            }
            Err(Errno::WOULDBLOCK) => return Ok(false),
            other => return other.map(|()| true),
        }
    }
}

/// Opens past the page cache where that is allowed: (file, whether it is).
fn open_file(path: &Path, options: OpenOptions, access: OFlags) -> Result<(OwnedFd, bool), Errno> {
    let mut flags = access | OFlags::CLOEXEC;
    if names_block_device(path) {
        // Refused while it is mounted or part of another device, and kept from both while it is
        // ours. What stands for that is an open(2) with O_EXCL alone.
        flags |= OFlags::EXCL;
    } else if options.create.is_some() {
        flags |= OFlags::CREATE;
    }
    let mode = Mode::RUSR | Mode::WUSR;
    if !options.buffered {
        match rustix::fs::open(path, flags | OFlags::DIRECT, mode) {
            Err(Errno::INVAL) => {} // As tmpfs of older kernels says it.
            other => return other.map(|file| (file, true)),
        }
    }
    rustix::fs::open(path, flags, mode).map(|file| (file, false))
}

/// Bytes of the device; a file that is empty is given the size asked for.
fn device_size(file: &OwnedFd, path: &Path, create: Option<Bytes>) -> Result<u64, OpenDeviceError> {
    let failed =
        |errno: Errno| OpenDeviceError::Open { path: path.to_path_buf(), source: errno.into() };
    let stat = rustix::fs::fstat(file).map_err(failed)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let size = stat.st_size as u64;
            match create.filter(|_| size == 0) {
                Some(wanted) => {
                    rustix::fs::ftruncate(file, wanted.0).map_err(failed)?;
                    Ok(wanted.0)
                }
                None => Ok(size),
            }
        }
        FileType::BlockDevice => {
            rustix::fs::seek(file, rustix::fs::SeekFrom::End(0)).map_err(failed)
        }
        _ => Err(OpenDeviceError::Kind { path: path.to_path_buf() }),
    }
}

/// Whether holes can be punched, tried where it changes nothing: behind the device's end.
fn can_punch(file: &OwnedFd, size: Bytes) -> bool {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, flags, size.0.next_multiple_of(4096), 4096) {
        Ok(()) => true,
        // A block device has nothing behind its end, and says so; it does zero what is inside.
        Err(errno) => matches!(errno, Errno::INVAL | Errno::NOSPC) && is_block_device(file),
    }
}

fn is_block_device(file: &OwnedFd) -> bool {
    rustix::fs::fstat(file)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice)
}

/// True if a path leads to a block device.
fn names_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Whether trying again is all there is to do.
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
