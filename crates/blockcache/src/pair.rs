//! The two devices of a block cache, and the tasks of the requests that are under way on them.

use crate::format::Side;
use crate::tasks::{Outgoing, Task};
use thermocline_ports::{Completion, Device, DeviceError, Payload, Ticket};
use thermocline_units::{Nanos, Slab};

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
    landed: Vec<Completion>,
}

impl<C: Device, O: Device> Pair<C, O> {
    /// Devices on which nothing is under way.
    pub(crate) fn new(cache: C, origin: O) -> Pair<C, O> {
        Pair { cache, origin, tasks: Slab::default(), landed: Vec::new() }
    }

    /// Sends a request to its device.
    pub(crate) fn send(&mut self, now: Nanos, Outgoing { side, task, io }: Outgoing) {
        let size = match side {
            Side::Cache => self.cache.geometry().size,
            Side::Origin => self.origin.geometry().size,
        };
        let ends_at = io.range().map_or(0, |(offset, length)| offset.0 + length.0);
        assert!(ends_at <= size.0, "{task:?} ends at {ends_at}, behind the {side:?} device's end");
        let ticket = Ticket(u64::from(self.tasks.insert(task)));
        match side {
            Side::Cache => self.cache.submit(now, ticket, io),
            Side::Origin => self.origin.submit(now, ticket, io),
        }
    }

    /// Appends the tasks that the devices have answered, those of the fast one first.
    pub(crate) fn take_answered(&mut self, now: Nanos, answered: &mut Vec<Answered>) {
        assert!(self.landed.is_empty(), "completions are taken at once");
        self.cache.poll(now, &mut self.landed);
        let from_cache = self.landed.len();
        self.origin.poll(now, &mut self.landed);
        for (index, Completion { ticket, result }) in self.landed.drain(..).enumerate() {
            let side = if index < from_cache { Side::Cache } else { Side::Origin };
            let ticket = u32::try_from(ticket.0).expect("tickets are numbers of tasks");
            let task = self.tasks.remove(ticket);
            assert!(task.is_of(side), "{task:?} was answered by the other device");
            answered.push(Answered { side, task, result });
        }
    }

    /// True if a request is under way on one of them.
    pub(crate) fn is_busy(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Moment of the devices' next answer, as far as it is known.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        [self.cache.next_event(), self.origin.next_event()].into_iter().flatten().min()
    }
}
