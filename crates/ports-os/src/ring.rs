//! One io_uring: the only place that hands memory to the kernel.
//!
//! Invariant: whatever buffer a submitted request points to is kept in `in_flight` until its
//! completion was taken from the ring. Dropping the ring waits for what is in flight first; a ring
//! that was abandoned is dropped without, and then the buffers stay as long as the process does.
//!
//! The kernel may take less than it is given: for want of memory (EAGAIN), because answers must be
//! taken first (EBUSY), or for a signal. What it did not take stays in the submission queue, in its
//! order, and goes with the next call.

use crate::buffer::Aligned;
use bytes::Bytes as Buffer;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;
use thermocline_units::Nanos;

/// Requests that the ring takes at once; the rest waits outside.
pub(crate) const DEPTH: u32 = 256;
/// Longest wait of one call for an answer: whoever waits looks at the clock then.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Pause of a call that waits for the kernel to take something.
const PAUSE: Duration = Duration::from_millis(1);

/// A request to the kernel.
pub(crate) enum Ask {
    Read {
        offset: u64,
        into: Aligned,
    },
    Write {
        offset: u64,
        from: Buffer,
        durable: bool,
    },
    Sync,
    /// Give the range back to the file system; it reads as zeroes then.
    Punch {
        offset: u64,
        length: u64,
    },
}

/// Memory that belongs to a request in flight.
enum Held {
    Into(Aligned),
    From { _bytes: Buffer },
    Nothing,
}

/// A request in the kernel's hands, or on its way there.
struct Flight {
    tag: u32,
    held: Held,
    /// Time at which it was pushed.
    since: Nanos,
}

/// A request that the kernel has answered.
pub(crate) struct Answer {
    pub(crate) tag: u32,
    /// Bytes moved, or the error.
    pub(crate) result: io::Result<u32>,
    /// Memory that a read filled.
    pub(crate) read: Option<Buffer>,
}

pub(crate) struct Ring {
    ring: IoUring,
    /// Requests by slot, which is the kernel's name of each.
    in_flight: Vec<Option<Flight>>,
    free: Vec<u32>,
    abandoned: bool,
    #[cfg(test)]
    pub(crate) script: tests::Script,
}

impl Ring {
    /// # Errors
    /// When the kernel has no io_uring, or forbids it.
    pub(crate) fn new() -> io::Result<Ring> {
        let ring = IoUring::builder().setup_clamp().build(DEPTH)?;
        let in_flight = (0..DEPTH).map(|_| None).collect();
        Ok(Ring {
            ring,
            in_flight,
            free: (0..DEPTH).rev().collect(),
            abandoned: false,
            #[cfg(test)]
            script: tests::Script::default(),
        })
    }

    /// True if another request can be pushed.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.free.len() == DEPTH as usize
    }

    /// Time at which the oldest request that is not answered was pushed; `None`: there is none.
    pub(crate) fn oldest(&self) -> Option<Nanos> {
        self.in_flight.iter().flatten().map(|flight| flight.since).min()
    }

    /// Takes everything in flight as pushed at `now`.
    pub(crate) fn count_anew(&mut self, now: Nanos) {
        self.in_flight.iter_mut().flatten().for_each(|flight| flight.since = now);
    }

    /// Gives up what is in flight: it may never be answered.
    pub(crate) fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// Queues a request on `file`; `tag` comes back with its answer.
    ///
    /// # Panics
    /// When the ring has no room.
    pub(crate) fn push(&mut self, now: Nanos, file: BorrowedFd<'_>, tag: u32, ask: Ask) {
        let slot = self.free.pop().expect("the caller asked for room");
        let fd = types::Fd(file.as_raw_fd());
        let (entry, held) = match ask {
            Ask::Read { offset, mut into } => {
                let slice = into.as_mut_slice();
                let read = opcode::Read::new(fd, slice.as_mut_ptr(), slice.len() as u32);
                (read.offset(offset).build(), Held::Into(into))
            }
            Ask::Write { offset, from, durable } => {
                let write = opcode::Write::new(fd, from.as_ptr(), from.len() as u32);
                let flags = if durable { RWF_DSYNC } else { 0 };
                (write.offset(offset).rw_flags(flags).build(), Held::From { _bytes: from })
            }
            Ask::Sync => {
                let sync = opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC);
                (sync.build(), Held::Nothing)
            }
            Ask::Punch { offset, length } => {
                let punch = opcode::Fallocate::new(fd, length).offset(offset);
                (punch.mode(PUNCH_HOLE | KEEP_SIZE).build(), Held::Nothing)
            }
        };
        self.in_flight[slot as usize] = Some(Flight { tag, held, since: now });
        self.submit_entry(&entry.user_data(u64::from(slot)));
    }

    #[allow(unsafe_code)] // The kernel works in memory that the ring keeps; see the module.
    fn submit_entry(&mut self, entry: &squeue::Entry) {
        // SAFETY: the entry points at a buffer that `in_flight` owns until the completion is taken;
        // moving the owner does not move the bytes, which live on the heap.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("no more requests are in flight than the ring is deep");
    }

    /// Hands what was pushed to the kernel; true if it took all of it. The rest is kept for the
    /// next call.
    ///
    /// # Errors
    /// When the kernel refuses the system call for good.
    pub(crate) fn submit(&mut self) -> io::Result<bool> {
        if self.ring.submission().is_empty() {
            return Ok(true);
        }
        match self.enter() {
            Err(error) if !is_passing(&error) => Err(error),
            _ => Ok(self.ring.submission().is_empty()),
        }
    }

    /// The system call that hands requests over.
    fn enter(&mut self) -> io::Result<usize> {
        #[cfg(test)]
        if let Some(refusal) = self.script.refusals.pop_front() {
            return refusal;
        }
        self.ring.submit()
    }

    /// Waits until something is answered, or a second has passed.
    ///
    /// # Errors
    /// When the kernel refuses the system call for good.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        if !self.submit()? {
            // Perhaps nothing is in the kernel that could be answered.
            std::thread::sleep(PAUSE);
            return Ok(());
        }
        let timeout = types::Timespec::from(WAIT_MAX);
        let until = types::SubmitArgs::new().timespec(&timeout);
        let waited = match self.ring.params().is_feature_ext_arg() {
            true => self.ring.submitter().submit_with_args(1, &until),
            false => self.ring.submit_and_wait(1),
        };
        match waited {
            Err(error) if is_passing(&error) || is_timeout(&error) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Takes an answer, when there is one.
    pub(crate) fn take(&mut self) -> Option<Answer> {
        #[cfg(test)]
        if self.script.withholds {
            return None;
        }
        let entry: cqueue::Entry = self.ring.completion().next()?;
        let slot = entry.user_data() as u32;
        let Flight { tag, held, .. } =
            self.in_flight[slot as usize].take().expect("the slot is in flight");
        self.free.push(slot);
        let result = match entry.result() {
            code if code < 0 => Err(io::Error::from_raw_os_error(-code)),
            moved => Ok(moved as u32),
        };
        let read = match held {
            Held::Into(buffer) => Some(buffer.freeze()),
            Held::From { .. } | Held::Nothing => None,
        };
        Some(Answer { tag, result, read })
    }
}

impl AsFd for Ring {
    /// Readable when something is answered.
    #[allow(unsafe_code)] // io-uring 0.7 has no safe way to borrow its descriptor.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is the ring's own and open as long as `self` is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

impl Drop for Ring {
    /// The kernel may still write into buffers: they must not go before it is done.
    fn drop(&mut self) {
        while !self.is_idle() {
            if self.abandoned || self.wait().is_err() {
                // Rather leak the buffers than have them reused under the kernel's hands.
                std::mem::forget(std::mem::take(&mut self.in_flight));
                return;
            }
            while self.take().is_some() {}
        }
    }
}

/// `RWF_DSYNC` of `pwritev2(2)`: durable at completion.
const RWF_DSYNC: i32 = 0x2;
/// `FALLOC_FL_KEEP_SIZE` and `FALLOC_FL_PUNCH_HOLE` of `fallocate(2)`.
const KEEP_SIZE: i32 = 0x1;
const PUNCH_HOLE: i32 = 0x2;

/// True if an error of the system call passes by itself, or once answers were taken.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, ResourceBusy, WouldBlock};
    matches!(error.kind(), Interrupted | ResourceBusy | WouldBlock)
}

/// True if the system call waited for as long as it was told to.
fn is_timeout(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::TIME)
}

#[cfg(test)]
mod tests;
