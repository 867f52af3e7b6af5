//! The device of a host's second level: the agent's requests to it, and its answers.
//!
//! The first block of the device says what it is for, so that nobody's data is overwritten; slots
//! lie behind it. What slots held before this start is not known to the agent, and is overwritten.

use crate::HostingError;
use std::collections::BTreeSet;
use thermocline_admin::api::Severity;
use thermocline_admin::notes::Notes;
use thermocline_hostcache::{Agent, BLOCK_BYTES, FlashCounts, FlashFailed, FlashRequest};
use thermocline_ports::{Completion, Device, Geometry, Io, Payload, Ticket};
use thermocline_ports_os::LiveDevice;
use thermocline_units::{Bytes, Nanos};

/// The first bytes of a device of a second level.
pub const FLASH_LABEL: &[u8; 32] = b"THERMOCLINE host cache, level 2\n";

/// Slots that a device of this size has: whole blocks behind the label.
pub(super) fn flash_slots(size: Bytes) -> u32 {
    let blocks = size.0 / BLOCK_BYTES as u64;
    u32::try_from(blocks.saturating_sub(1)).unwrap_or(u32::MAX - 1)
}

/// Writes the label to a device that is free for it.
///
/// # Errors
/// The device fails, or has no room for a block beside the label.
pub fn label_flash(device: &mut dyn LiveDevice) -> Result<(), HostingError> {
    let path = device.name();
    let failed = |text: String| HostingError::Store { path: path.clone(), text };
    let Geometry { size, .. } = device.geometry();
    if flash_slots(size) == 0 {
        return Err(failed(format!("{size} are too few for a second level; give 1 MiB or more")));
    }
    let mut label = vec![0; BLOCK_BYTES];
    label[..FLASH_LABEL.len()].copy_from_slice(FLASH_LABEL);
    let write = Io::Write { offset: Bytes(0), data: Payload::from(label), fua: true };
    device.submit(Nanos(0), Ticket(0), write);
    let mut done = Vec::new();
    while done.is_empty() {
        device.wait()?;
        device.poll(Nanos(0), &mut done);
    }
    let Completion { result, .. } = done.remove(0);
    result.map(drop).map_err(|error| failed(error.to_string()))
}

/// Time between two events about a device that goes on failing.
const TOLD_EVERY: Nanos = Nanos::from_secs(10);

/// The device, and what is under way on it.
pub(super) struct Second {
    device: Box<dyn LiveDevice>,
    done: Vec<Completion>,
    /// Tickets of reads.
    reads: BTreeSet<u64>,
    /// Counts as they were told last.
    told: FlashCounts,
    /// Moment from which on the next of them may be told.
    next_told: Nanos,
}

impl Second {
    pub(super) fn new(device: Box<dyn LiveDevice>) -> Second {
        let (done, reads) = (Vec::new(), BTreeSet::new());
        Second { device, done, reads, told: FlashCounts::default(), next_told: Nanos(0) }
    }

    pub(super) fn device(&self) -> &dyn LiveDevice {
        &*self.device
    }

    /// Carries requests and answers; true if there were any.
    pub(super) fn turn(&mut self, agent: &mut Agent, now: Nanos) -> bool {
        let mut moved = false;
        while let Some((number, request)) = agent.next_flash_request() {
            moved = true;
            let place = |slot: u32| Bytes((u64::from(slot) + 1) * BLOCK_BYTES as u64);
            let io = match request {
                FlashRequest::Write { slot, bytes } => {
                    let data = Payload::from(bytes.to_vec());
                    Io::Write { offset: place(slot), data, fua: false }
                }
                FlashRequest::Read { slot } => {
                    self.reads.insert(number);
                    Io::Read { offset: place(slot), length: BLOCK_BYTES as u32 }
                }
            };
            self.device.submit(now, Ticket(number), io);
        }
        self.device.poll(now, &mut self.done);
        for Completion { ticket, result } in self.done.drain(..) {
            moved = true;
            let is_read = self.reads.remove(&ticket.0);
            let result = match result {
                Ok(data) if is_read => Ok(data.to_vec().into()),
                Ok(_) => Ok(bytes::Bytes::new()),
                Err(_) => Err(FlashFailed),
            };
            agent.flash_ended(now, ticket.0, result);
        }
        moved
    }

    /// Tells what has gone wrong since it was told last, once in [`TOLD_EVERY`].
    pub(super) fn tell(&mut self, now: Nanos, agent: &Agent, notes: &Notes) {
        let Some(counts) = agent.flash_counts() else { return };
        let is_worse = counts.damaged > self.told.damaged
            || counts.failed > self.told.failed
            || counts.is_off != self.told.is_off;
        if !is_worse || now < self.next_told && !counts.is_off {
            return;
        }
        self.next_told = Nanos(now.0 + TOLD_EVERY.0);
        let name = self.device.name();
        if counts.damaged > self.told.damaged {
            let text = format!(
                "{name} brought wrong bytes; the store was asked instead, {} times so far; check \
                 the device",
                counts.damaged
            );
            notes.note(Severity::Warning, "flash", text);
        }
        if counts.failed > self.told.failed && !counts.is_off {
            let text = format!("{name} failed, {} times so far", counts.failed);
            notes.note(Severity::Warning, "flash", text);
        }
        if counts.is_off && !self.told.is_off {
            let text = format!("{name} fails all the time, and is used no more until a restart");
            notes.note(Severity::Error, "flash", text);
        }
        self.told = counts;
    }
}
