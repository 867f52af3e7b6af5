//! The two devices of a block cache, and the requests that are under way on them.

use crate::format::Side;
use std::ops::Range;
use thermocline_ports::{Completion, Device, DeviceError, Io, Payload, Ticket};
use thermocline_units::{Nanos, Slab};

/// The purpose of a request to one of the devices.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    /// A piece of a client's request, which begins at byte `at` of the machine above.
    Piece {
        request: u32,
        side: Side,
        at: u64,
        length: u32,
        writes: bool,
    },
    /// Zeroes or a discard on the slow device.
    Dropped {
        request: u32,
    },
    /// Copying what was read into slots.
    Fill {
        request: u32,
        lines: Range<u32>,
    },
    /// A flush of a cycle.
    Flush {
        /// The device that is flushed.
        side: Side,
    },
    /// A run of the table's sectors; after so many failures.
    Table {
        sectors: Range<u32>,
        tries: u32,
    },
    /// Reading a run that is taken back, and writing it.
    BackRead {
        run: u32,
        at: u32,
    },
    BackWrite {
        run: u32,
    },
    /// The step of opening.
    Open,
}

/// True if a completed task leaves something that a flush must make durable.
fn changes_medium(task: &Task) -> bool {
    match task {
        Task::Piece { writes, .. } => *writes,
        // What fills a slot is written over in part, perhaps, and then it counts.
        Task::Fill { .. } | Task::Dropped { .. } | Task::BackWrite { .. } => true,
        // The table is written through.
        Task::Flush { .. } | Task::Table { .. } | Task::BackRead { .. } | Task::Open => false,
    }
}

/// True if a task is a client's, on the slow device.
fn is_awaited_on_origin(task: &Task) -> bool {
    matches!(task, Task::Piece { side: Side::Origin, .. } | Task::Dropped { .. })
}

/// A task that a device has answered.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) side: Side,
    pub(crate) task: Task,
    pub(crate) result: Result<Payload, DeviceError>,
}

/// Both devices.
pub(crate) struct Pair<C, O> {
    pub(crate) cache: C,
    pub(crate) origin: O,
    tasks: Slab<Task>,
    /// True for a device, fast or slow, that has written data it has not flushed.
    volatile: [bool; 2],
    landed: Vec<Completion>,
    /// Requests on the slow device that clients wait for.
    awaited: u32,
}

impl<C: Device, O: Device> Pair<C, O> {
    /// Devices on which nothing is under way.
    pub(crate) fn new(cache: C, origin: O) -> Pair<C, O> {
        let (tasks, landed) = (Slab::default(), Vec::new());
        Pair { cache, origin, tasks, volatile: [false; 2], landed, awaited: 0 }
    }

    /// Sends a request to one of the devices. Offsets on the slow one are the machine's above.
    pub(crate) fn send(&mut self, now: Nanos, side: Side, task: Task, io: Io) {
        self.awaited += u32::from(is_awaited_on_origin(&task));
        let ticket = Ticket(u64::from(self.tasks.insert(task)));
        match side {
            Side::Cache => self.cache.submit(now, ticket, io),
            Side::Origin => self.origin.submit(now, ticket, io),
        }
    }

    /// Appends the tasks that the devices have answered, those of the fast one first.
    pub(crate) fn take_answered(&mut self, now: Nanos, answered: &mut Vec<Answered>) {
        self.cache.poll(now, &mut self.landed);
        let from_cache = self.landed.len();
        self.origin.poll(now, &mut self.landed);
        for (index, Completion { ticket, result }) in self.landed.drain(..).enumerate() {
            let side = if index < from_cache { Side::Cache } else { Side::Origin };
            let task = self.tasks.remove(ticket.0 as u32);
            if is_awaited_on_origin(&task) {
                assert!(self.awaited > 0, "each request is answered once");
                self.awaited -= 1;
            }
            answered.push(Answered { side, task, result });
        }
    }

    /// True while clients wait for the slow device.
    pub(crate) fn is_origin_awaited(&self) -> bool {
        self.awaited > 0
    }

    /// Notes that a task has changed a device's medium, or may have.
    pub(crate) fn note_answer(&mut self, side: Side, task: &Task) {
        self.volatile[side as usize] |= changes_medium(task);
    }

    /// True if the device has written data that it has not flushed; from now on it counts as
    /// flushed.
    pub(crate) fn take_volatile(&mut self, side: Side) -> bool {
        std::mem::take(&mut self.volatile[side as usize])
    }

    /// Both devices have data that they have not flushed, or not.
    pub(crate) fn set_volatile(&mut self, volatile: bool) {
        self.volatile = [volatile; 2];
    }

    /// Moment of the devices' next answer, as far as it is known.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        [self.cache.next_event(), self.origin.next_event()].into_iter().flatten().min()
    }
}
