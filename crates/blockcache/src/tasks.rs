//! Requests to the two devices: the purpose of each, and which are under way.

use crate::format::Side;
use std::ops::Range;
use thermocline_ports::Io;

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
    /// A flush of a commit.
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

impl Task {
    /// The device that does such tasks; `None`: either.
    fn side(&self) -> Option<Side> {
        match self {
            Task::Piece { side, .. } | Task::Flush { side } => Some(*side),
            Task::Fill { .. } | Task::Table { .. } | Task::BackRead { .. } => Some(Side::Cache),
            Task::Dropped { .. } | Task::BackWrite { .. } => Some(Side::Origin),
            Task::Open => None,
        }
    }

    /// True if a device may do the task.
    pub(crate) fn is_of(&self, side: Side) -> bool {
        self.side().is_none_or(|own| own == side)
    }
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

/// A request that a step has left for one of the devices.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) side: Side,
    pub(crate) task: Task,
    pub(crate) io: Io,
}

/// Counts over the requests to both devices.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// True for a device, fast or slow, that has written data it has not flushed.
    volatile: [bool; 2],
    /// Requests on the slow device that clients wait for.
    awaited: u32,
}

impl Traffic {
    /// Notes a request that is sent.
    pub(crate) fn note_sent(&mut self, task: &Task) {
        self.awaited += u32::from(is_awaited_on_origin(task));
    }

    /// Notes that a device has answered. The task has changed its medium, or may have.
    pub(crate) fn note_answer(&mut self, side: Side, task: &Task) {
        if is_awaited_on_origin(task) {
            assert!(self.awaited > 0, "each request is answered once");
            self.awaited -= 1;
        }
        self.volatile[side as usize] |= changes_medium(task);
    }

    /// True while clients wait for the slow device.
    pub(crate) fn is_origin_awaited(&self) -> bool {
        self.awaited > 0
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
}
