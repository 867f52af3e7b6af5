//! The first stream: what the ends say to each other.

use crate::format::{CONTROL_HEADER_BYTES, Control, FormatError, value};
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, VecDeque};
use thermocline_wire::{Session, StreamId};

/// Bytes of messages that may wait for the other end to take them, beside what flows hold for it:
/// an end that asks for chunks and takes no answers is refused.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Messages both ways.
#[derive(Default)]
pub(crate) struct Talk {
    stream: Option<StreamId>,
    incoming: BytesMut,
    outgoing: VecDeque<Bytes>,
    /// Bytes in `outgoing`.
    waiting: usize,
    /// Segments of flows that are complete: the newest counts, which are said when earlier messages
    /// are gone.
    complete: BTreeMap<u32, u64>,
    /// Chunks that the other end was asked for and has not given.
    awaited: u64,
    asked_of_us: u64,
    asked_by_us: u64,
}

impl Talk {
    /// The stream; `None` before there is one.
    pub(crate) fn stream(&self) -> Option<StreamId> {
        self.stream
    }

    pub(crate) fn begin(&mut self, stream: StreamId) {
        assert!(self.stream.is_none(), "there is one first stream");
        self.stream = Some(stream);
    }

    /// Chunks that the other end asked for, and that this one did.
    pub(crate) fn asked(&self) -> (u64, u64) {
        (self.asked_of_us, self.asked_by_us)
    }

    /// Queues a message.
    pub(crate) fn say(&mut self, message: Control) {
        if let Control::Complete { flow, segments } = message {
            self.complete.insert(flow, segments);
            return;
        }
        self.queue(message.head().into());
        match message {
            Control::Missing { tokens, .. } => {
                self.asked_by_us += tokens.len() as u64;
                self.awaited += tokens.len() as u64;
            }
            Control::Fill { bytes, .. } => {
                self.asked_of_us += 1;
                self.queue(bytes);
            }
            Control::Dropped { flow, .. } => {
                self.complete.remove(&flow);
            }
            Control::Complete { .. } => unreachable!("told above"),
        }
    }

    fn queue(&mut self, bytes: Bytes) {
        self.waiting += bytes.len();
        self.outgoing.push_back(bytes);
    }

    /// True if messages wait.
    pub(crate) fn has_something(&self) -> bool {
        !self.outgoing.is_empty() || !self.complete.is_empty()
    }

    /// Gives the connection as much as it takes.
    pub(crate) fn pump(&mut self, session: &mut Session) {
        let Some(stream) = self.stream else { return };
        loop {
            while let Some(part) = self.outgoing.front_mut() {
                let before = part.len();
                let sent = session.send(stream, part);
                self.waiting -= before - part.len();
                if sent.is_err() || !part.is_empty() {
                    return;
                }
                self.outgoing.pop_front();
            }
            let Some((flow, segments)) = self.complete.pop_first() else { return };
            self.queue(Control::Complete { flow, segments }.head().into());
        }
    }

    /// Refuses an end that takes no answers. `held`: bytes that flows hold for it. Many flows that
    /// refer to what is still on its way elsewhere may all be asked for, but only as long as they
    /// are held.
    pub(crate) fn check(&self, held: usize) -> Result<(), FormatError> {
        if self.waiting <= WAITING_BYTES_MAX + held {
            return Ok(());
        }
        let expected = "64 MiB above what flows hold: it asks and takes no answers";
        Err(value(
            "what waits for the other end on the first stream",
            self.waiting as u64,
            expected,
        ))
    }

    /// Takes bytes of messages; those that are whole.
    ///
    /// # Errors
    /// A message breaks the format, or a chunk comes that nobody asked for.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Control>, FormatError> {
        self.incoming.extend_from_slice(bytes);
        let mut messages = Vec::new();
        while let Some(length) = Control::body_length(&self.incoming)? {
            if self.incoming.len() < CONTROL_HEADER_BYTES + length {
                break;
            }
            let message = self.incoming.split_to(CONTROL_HEADER_BYTES + length).freeze();
            let message = Control::read(&message)?;
            if let Control::Fill { token, .. } = &message {
                self.awaited = self.awaited.checked_sub(1).ok_or_else(|| {
                    value("the index of a fill", (*token).into(), "a chunk that was asked for")
                })?;
            }
            messages.push(message);
        }
        Ok(messages)
    }
}
