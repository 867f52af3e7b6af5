//! The state that all parts of a block cache share: lines, locks on them, answers for the machine
//! above, and what is to be sent to the devices. It decides nothing.
//!
//! The parts (`requests`, `commit`, `writeback`, `opening`) have state of their own beside it, and
//! are handed this one for each step. None calls another: a step leaves *effects*, which the cache
//! carries out when the step has ended, and requests to the devices, which it sends then.

use crate::LINE;
use crate::answers::Answers;
use crate::format::{ORIGIN_OFFSET, Side};
use crate::lines::Lines;
use crate::locks::Locks;
use crate::open_error::OpenError;
use crate::segments::Segment;
use crate::settings::Settings;
use crate::status::Status;
use crate::tasks::{Outgoing, Task, Traffic};
use std::collections::VecDeque;
use std::ops::Range;
use thermocline_ports::{DeviceError, Geometry, Io, Ticket};
use thermocline_units::situations::met;
use thermocline_units::{Bytes, Nanos};

/// Something that a step of one part leaves for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A commit of the table is wanted: it may set slots free.
    TableWanted,
    /// A forced write has ended, and waits until the table names its lines.
    WaitsForTable(Ticket),
    /// End of the last need for a lock.
    Unlocked(u32),
}

/// The shared state.
#[derive(Debug)]
pub(crate) struct CacheState {
    pub(crate) settings: Settings,
    /// Geometry of the device that the machine above sees.
    pub(crate) geometry: Geometry,
    pub(crate) identity: u64,
    pub(crate) lines: Lines,
    pub(crate) locks: Locks,
    /// For the machine above.
    pub(crate) answers: Answers,
    pub(crate) status: Status,
    pub(crate) traffic: Traffic,
    /// The latest moment it was told of.
    pub(crate) now: Nanos,
    failure: Option<OpenError>,
    effects: VecDeque<Effect>,
    outgoing: Vec<Outgoing>,
}

impl CacheState {
    /// State of a cache on which nothing is under way.
    pub(crate) fn new(settings: Settings, geometry: Geometry, lines: Lines) -> CacheState {
        let status = Status {
            lines: lines.slots(),
            memory: Bytes(lines.bytes()),
            policy: settings.policy.name(),
            ..Status::default()
        };
        CacheState {
            settings,
            geometry,
            identity: 0,
            lines,
            locks: Locks::default(),
            answers: Answers::default(),
            status,
            traffic: Traffic::default(),
            now: Nanos(0),
            failure: None,
            effects: VecDeque::new(),
            outgoing: Vec::new(),
        }
    }

    /// Reason for which nothing can be kept any more.
    pub(crate) fn failure(&self) -> Option<OpenError> {
        self.failure
    }

    /// Nothing can be kept from here on.
    pub(crate) fn fail(&mut self, error: DeviceError) {
        met("the cache has failed");
        self.failure = self.failure.or(Some(OpenError::Device(error)));
    }

    /// The cache cannot be opened.
    pub(crate) fn refuse(&mut self, error: OpenError) {
        self.failure = Some(error);
    }

    /// Leaves an effect.
    pub(crate) fn emit(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// The next effect to be carried out.
    pub(crate) fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Has a request sent to one of the devices when the step has ended. Offsets on the slow one
    /// are the machine's above, behind its label.
    pub(crate) fn send(&mut self, side: Side, task: Task, io: Io) {
        assert!(task.is_of(side), "{task:?} is not for the {side:?} device");
        self.traffic.note_sent(&task);
        self.outgoing.push(Outgoing { side, task, io });
    }

    /// True if no step has left something that is not carried out or sent.
    pub(crate) fn is_settled(&self) -> bool {
        self.effects.is_empty() && self.outgoing.is_empty()
    }

    /// Requests to be sent, in their order.
    pub(crate) fn take_outgoing(&mut self) -> std::vec::Drain<'_, Outgoing> {
        self.outgoing.drain(..)
    }

    /// The bytes of `line` that there are: the last line may be short.
    pub(crate) fn bytes_of(&self, line: u32) -> Range<u64> {
        let start = u64::from(line) * u64::from(LINE);
        start..(start + u64::from(LINE)).min(self.geometry.size.0)
    }

    /// True if `bytes` has all of the line.
    pub(crate) fn covers(&self, bytes: &Range<u64>, line: u32) -> bool {
        let whole = self.bytes_of(line);
        bytes.start <= whole.start && whole.end <= bytes.end
    }

    /// The device and the offset of a segment.
    pub(crate) fn place_of(&self, segment: &Segment) -> (Side, Bytes) {
        let start = segment.bytes.start;
        match segment.slot {
            Some(slot) => {
                let within = start % u64::from(LINE);
                (Side::Cache, Bytes(self.lines.slot_offset(slot).0 + within))
            }
            None => (Side::Origin, Bytes(ORIGIN_OFFSET + start)),
        }
    }
}
