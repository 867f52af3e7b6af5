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
            answered.push(Answered { side, task, result });
        }
    }

    /// Moment of the devices' next answer, as far as it is known.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        [self.cache.next_event(), self.origin.next_event()].into_iter().flatten().min()
    }
}
