//! One flow at one end: its two halves, and what waits for the connection.

use crate::config::Target;
use crate::decoder::Decoder;
use crate::encoder::{Encoded, Encoder, Limits};
use crate::shadow::Scout;
use bytes::Bytes;
use std::collections::VecDeque;
use thermocline_chunking::Chunking;
use thermocline_policy::tunnel::Choice;
use thermocline_wire::StreamId;

/// Report on one flow, as this end sent for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowReport {
    /// The class in whose name it is decided on; see [`crate::CLASSES_MAX`].
    pub class: u16,
    /// Totals sent.
    pub sent: Encoded,
    /// The choice by which what comes next is cut.
    pub choice: Choice,
    /// Bytes that this end holds for the other one.
    pub held: usize,
    /// Bytes that wait for this end's client.
    pub waiting: usize,
}

/// A flow at one end.
pub(crate) struct Flow {
    pub(crate) stream: StreamId,
    pub(crate) class: u16,
    pub(crate) encoder: Encoder,
    pub(crate) decoder: Decoder,
    pub(crate) scout: Scout,
    /// The choice by which what waits in the encoder is cut.
    pub(crate) choice: Choice,
    /// Totals sent so far.
    pub(crate) sent: Encoded,
    /// Parts of segments that the connection has not taken.
    pub(crate) outgoing: VecDeque<Bytes>,
    /// Everything that came is to be sent now.
    pub(crate) flushes: bool,
    /// The client said its last byte.
    pub(crate) is_ending: bool,
    /// The connection was told so.
    pub(crate) has_ended: bool,
    /// The other end said its last byte.
    pub(crate) peer_ended: bool,
    /// Our client was told so.
    pub(crate) told_end: bool,
    /// Segments that the other end was told to be complete.
    pub(crate) told_complete: u64,
    /// The client was told that there is no room, and waits to hear of some.
    pub(crate) wants_room: bool,
}

impl Flow {
    pub(crate) fn new(
        stream: StreamId,
        target: &Target,
        class: u16,
        limits: Limits,
        run: u64,
        chunking: Chunking,
        choice: Choice,
    ) -> Flow {
        let scope = target.scope(stream.number(), run);
        Flow {
            stream,
            class,
            encoder: Encoder::new(limits, scope, chunking),
            decoder: Decoder::new(scope),
            scout: Scout::new(scope),
            choice,
            sent: Encoded::default(),
            outgoing: VecDeque::new(),
            flushes: false,
            is_ending: false,
            has_ended: false,
            peer_ended: false,
            told_end: false,
            told_complete: 0,
            wants_room: false,
        }
    }

    /// Bytes of the flow that this end holds for the other one.
    pub(crate) fn held(&self) -> usize {
        self.encoder.held()
    }

    /// Its report.
    pub(crate) fn report(&self) -> FlowReport {
        let (class, sent, choice) = (self.class, self.sent, self.choice);
        FlowReport { class, sent, choice, held: self.held(), waiting: self.decoder.waiting() }
    }

    /// True if nothing of the flow is left to do at this end.
    pub(crate) fn is_over(&self) -> bool {
        self.has_ended && self.told_end && self.encoder.held() == 0
    }
}
