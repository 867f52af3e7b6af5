//! A volume at an agent: its lease, its map, and its waiting requests.

use super::events::{Gone, Ticket, VolumeKey};
use crate::map::Map;
use crate::messages::Hash;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;

/// A block of a guest's read that waits for its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiter {
    pub(super) volume: VolumeKey,
    pub(super) block: u32,
    pub(super) ticket: Ticket,
}

/// Relation to the server. A volume is `Asked` until its first lease, `Loading` while its map
/// comes, `Live` while it is attached on this connection, `Away` after that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Asked,
    Loading,
    Live,
    Away,
}

/// A block whose write is not durable yet.
#[derive(Debug)]
pub(super) struct Unflushed {
    /// `None`: zeroes.
    pub(super) data: Option<(Bytes, Hash)>,
    /// The guest's write that waits for it.
    pub(super) ticket: Option<Ticket>,
    pub(super) fua: bool,
    /// Number of its answer among all answers to writes; `None` while it is not answered.
    pub(super) answered: Option<u64>,
    /// True if it is being sent again to a server that may have lost it.
    pub(super) is_again: bool,
    /// True if it was sent again, found no room, and is sent once more after a while.
    pub(super) waits_for_room: bool,
    /// Write of the block that was answered and is not durable, while this one is not answered. It
    /// counts if this one is refused.
    pub(super) before: Option<Box<Before>>,
}

/// Write of a block that a later one may replace.
#[derive(Debug)]
pub(super) struct Before {
    /// `None`: zeroes.
    pub(super) data: Option<(Bytes, Hash)>,
    /// Number of its answer among all answers to writes.
    pub(super) answered: u64,
}

/// A guest's write that has not begun.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) ticket: Ticket,
    pub(super) block: u32,
    /// `None`: zeroes.
    pub(super) blocks: Vec<Option<Bytes>>,
    pub(super) fua: bool,
}

#[derive(Debug)]
pub(super) struct Volume {
    pub(super) name: String,
    /// The server's number of the volume; valid from the first lease on.
    pub(super) number: u32,
    pub(super) fence: u64,
    pub(super) blocks: u32,
    pub(super) base: u32,
    pub(super) state: State,
    /// End of the lease by this host's clock, margin deducted.
    pub(super) until: Nanos,
    /// Duration of the lease here, margin deducted; below, the time of its request on this
    /// connection.
    pub(super) lease: Nanos,
    pub(super) lease_since: Nanos,
    pub(super) map: Map,
    pub(super) unflushed: BTreeMap<u32, Unflushed>,
    /// Blocks of `unflushed` that were sent again and are not answered.
    pub(super) again: usize,
    /// Time at which those of them are sent once more that found no room.
    pub(super) room_at: Option<Nanos>,
    pub(super) queue: VecDeque<Queued>,
    /// Reads that wait for the server.
    pub(super) parked: Vec<Waiter>,
    /// Flushes that wait for the server.
    pub(super) flushes: VecDeque<Ticket>,
    /// True while a flush that the agent began by itself is under way.
    pub(super) is_flushing: bool,
    /// True once the map of the image has been taken over.
    pub(super) has_map: bool,
}

impl Volume {
    pub(super) fn new(name: &str) -> Volume {
        Volume {
            name: name.to_string(),
            number: 0,
            fence: 0,
            blocks: 0,
            base: 0,
            state: State::Asked,
            until: Nanos(0),
            lease: Nanos(0),
            lease_since: Nanos(0),
            map: Map::default(),
            unflushed: BTreeMap::new(),
            again: 0,
            room_at: None,
            queue: VecDeque::new(),
            parked: Vec::new(),
            flushes: VecDeque::new(),
            is_flushing: false,
            has_map: false,
        }
    }

    pub(super) fn may_serve(&self, now: Nanos) -> bool {
        let holds = now < self.until || mutant("a_lease_is_kept_too_long");
        holds && matches!(self.state, State::Live | State::Away)
    }

    /// True if requests may be sent to the server.
    pub(super) fn may_ask(&self, now: Nanos) -> bool {
        self.state == State::Live && self.may_serve(now)
    }

    /// Tickets of all waiting requests, except reads and writes that have begun.
    pub(super) fn waiting(&mut self) -> Vec<(Ticket, Gone)> {
        let queued = self.queue.drain(..).map(|write| write.ticket);
        queued.chain(self.flushes.drain(..)).map(|ticket| (ticket, Gone::Volume)).collect()
    }
}
