//! A volume of an engine as a device of another machine in the process.
//!
//! 1. `submit` sends the request to the engine's loop, where it is one like a client's: counted,
//!    scheduled, and served from wherever its chunk is. Requests that the machine marks as
//!    background join the group's waiting queue.
//! 2. The loop puts the answer into a queue and sets a wakeup, a socket, on which the machine's
//!    thread waits.
//! 3. Every ticket is answered once. One that an engine that stops can no longer answer is answered
//!    with [`DeviceError::Gone`]: whatever is dropped on the way says so.
//!
//! The machine bounds what it has in flight; nothing here does. No clock: requests take the time
//! that the engine takes.

use crate::event_loop::{AdminApi, Urgency};
use crate::mailbox::Mailbox;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use thermocline_ports::{Completion, Device, DeviceError, Geometry, Io, Payload, SECTOR, Ticket};
use thermocline_ports_os::{LiveDevice, Worth};
use thermocline_units::{Bytes, Nanos, VolumeId};
use thermocline_volume::{Action, device_result};

/// A volume that a machine in the process holds ([`AdminApi::hold_volume`]).
pub struct VolumeDevice {
    mailbox: Mailbox,
    volume: VolumeId,
    name: String,
    geometry: Geometry,
    in_flight: usize,
    answers: Receiver<Completion>,
    way_back: WayBack,
    wakeup: UnixStream,
}

/// The way on which answers come back.
#[derive(Clone)]
struct WayBack {
    answers: Sender<Completion>,
    wakeup: Arc<UnixStream>,
}

/// An answer that is owed. It is given when this is dropped, if not before.
struct Owed {
    ticket: Ticket,
    way_back: WayBack,
    result: Result<Payload, DeviceError>,
}

impl Owed {
    fn give(mut self, result: Result<Payload, DeviceError>) {
        self.result = result;
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        let result = std::mem::replace(&mut self.result, Ok(Payload::EMPTY));
        // The machine may have gone.
        let _ = self.way_back.answers.send(Completion { ticket: self.ticket, result });
        // A wakeup that cannot be written any more is set.
        let _ = (&*self.way_back.wakeup).write(&[1]);
    }
}

impl VolumeDevice {
    /// The volume of this number and name as a device.
    ///
    /// # Errors
    /// When the system gives no pair of sockets.
    pub(crate) fn new(
        mailbox: Mailbox,
        (volume, name): (VolumeId, &str),
        size: Bytes,
    ) -> io::Result<VolumeDevice> {
        let (ringing, wakeup) = UnixStream::pair()?;
        ringing.set_nonblocking(true)?;
        wakeup.set_nonblocking(true)?;
        let (sender, answers) = channel();
        let sector = u64::from(SECTOR);
        let size = Bytes(size.0 / sector * sector);
        Ok(VolumeDevice {
            mailbox,
            volume,
            name: name.to_string(),
            geometry: Geometry { size, discard_zeroes: false, far: false },
            in_flight: 0,
            answers,
            way_back: WayBack { answers: sender, wakeup: Arc::new(ringing) },
            wakeup,
        })
    }
}

impl Device for VolumeDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, _: Nanos, ticket: Ticket, io: Io) {
        if let Some((offset, length)) = io.range() {
            let end = offset.0.checked_add(length.0).filter(|&end| end <= self.geometry.size.0);
            assert!(end.is_some(), "{offset:?} + {length:?} lies outside {}", self.name);
        }
        self.in_flight += 1;
        let urgency =
            if ticket.is_background() { Urgency::Background } else { Urgency::Foreground };
        let way_back = self.way_back.clone();
        let owed = Owed { ticket, way_back, result: Err(DeviceError::Gone) };
        let (volume, action) = (self.volume, Action::of_io(io));
        self.mailbox.send(move |admin: &mut AdminApi<'_>| {
            let answered = Box::new(move |result| owed.give(device_result(result)));
            admin.ask_within(volume, action, urgency, answered);
        });
    }

    fn poll(&mut self, _: Nanos, done: &mut Vec<Completion>) {
        // The wakeup first: what is answered from here on sets it anew.
        let mut rings = [0; 256];
        while matches!((&self.wakeup).read(&mut rings), Ok(count) if count > 0) {}
        for completion in self.answers.try_iter() {
            self.in_flight -= 1;
            done.push(completion);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        None
    }
}

impl LiveDevice for VolumeDevice {
    fn name(&self) -> String {
        format!("volume {}", self.name)
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    fn wait(&mut self) -> io::Result<()> {
        if self.in_flight == 0 {
            return Ok(());
        }
        let mut fds = [PollFd::new(&self.wakeup, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Parts become hints of a source of their own; a placement goes on to decide.
    fn note_worth(&mut self, parts: &[(Bytes, Bytes, Worth)]) {
        let (volume, parts) = (self.volume, parts.to_vec());
        let source = format!("holder of {}", self.name);
        self.mailbox.send(move |admin: &mut AdminApi<'_>| {
            admin.note_worth(volume, &source, &parts);
        });
    }
}
