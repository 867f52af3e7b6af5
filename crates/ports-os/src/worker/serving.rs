//! The other side of the protocol: a worker in Rust, which computes jobs with a function.
//!
//! 1. It says hello, then takes orders one by one, reads each job's bytes from its slot, and leaves
//!    the positions there. It ends when the host closes the socket.
//! 2. An order that cannot be is refused: a slot that is not there, more bytes than a slot has, a
//!    function whose numbers are not in order. Nothing of the host's memory beyond its slot is read
//!    or written.

use super::format::{self, Answered, ORDER_BYTES, POSITION_BYTES};
use super::process::SLACK;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use thermocline_ports::Payload;
use thermocline_ports::accelerator::{Abilities, Answer, Fingerprint, Job};
use thermocline_units::Bytes;

/// A worker that serves one host.
pub struct Serving {
    /// The host's messages.
    pub socket: UnixStream,
    /// The memory with the slots.
    pub memory: File,
    /// Number of slots, as the host's last argument but one says.
    pub slots: u32,
    /// Bytes of a slot's buffer, as its last argument says.
    pub buffer: Bytes,
    /// The only fingerprint it computes; `None`: all of them.
    pub only: Option<Fingerprint>,
}

impl Serving {
    /// A worker whose host is at its standard input, and whose memory is its standard output.
    ///
    /// # Errors
    /// They cannot be had.
    pub fn standard(slots: u32, buffer: Bytes, only: Option<Fingerprint>) -> io::Result<Serving> {
        let socket = io::stdin().as_fd().try_clone_to_owned()?.into();
        let memory = io::stdout().as_fd().try_clone_to_owned()?.into();
        Ok(Serving { socket, memory, slots, buffer, only })
    }

    /// Computes jobs with `compute` until the host goes.
    ///
    /// # Errors
    /// Socket or memory fail, or are none.
    pub fn run(mut self, compute: &mut dyn FnMut(&Job) -> Answer) -> io::Result<()> {
        self.socket.write_all(&format::put_hello(self.only, 1))?;
        let mut order = [0; ORDER_BYTES];
        loop {
            match self.socket.read_exact(&mut order) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                read => read?,
            }
            let answered = self.answer(&order, compute)?;
            self.socket.write_all(&format::put_answer(&answered))?;
        }
    }

    fn answer(
        &self,
        order: &[u8; ORDER_BYTES],
        compute: &mut dyn FnMut(&Job) -> Answer,
    ) -> io::Result<Answered> {
        let refused =
            |ticket| Answered { ticket, status: 1, count: 0, length: 0, early: false, cycles: 0 };
        let Some((ticket, slot, length, mut job)) = format::read_order(order) else {
            return Ok(refused(format::ticket_of(order)));
        };
        if slot >= self.slots || u64::from(length) > self.buffer.0 {
            return Ok(refused(ticket));
        }
        let slot_bytes = (1 + POSITION_BYTES as u64) * self.buffer.0 + SLACK;
        let at = u64::from(slot) * slot_bytes;
        let mut data = vec![0; length as usize];
        self.memory.read_exact_at(&mut data, at)?;
        job.data = Payload::from(data);
        let Serving { buffer, slots, only, .. } = *self;
        let abilities = Abilities { buffer_max: buffer, queue_depth: slots, units: 1, only };
        if !abilities.include(&job) {
            return Ok(refused(ticket));
        }
        let Answer { mut positions, length, early, cycles } = compute(&job);
        positions.truncate(buffer.0 as usize);
        let bytes = format::put_positions(&positions);
        self.memory.write_all_at(&bytes, at + buffer.0 + SLACK)?;
        let count = positions.len() as u32;
        Ok(Answered { ticket, status: 0, count, length, early, cycles })
    }
}
