//! Requests of guests: reads and writes together, and when those that wait go on.

use super::events::{Event, GUEST_REQUESTS_MAX, Gone, Ticket, VolumeKey};
use super::reading::Reads;
use super::state::AgentState;
use super::volume::State;
use super::writing::{Writes, write_again};
use thermocline_units::Nanos;

/// The requests of guests that are not answered.
#[derive(Debug, Default)]
pub(super) struct Guests {
    pub(super) reads: Reads,
    pub(super) writes: Writes,
}

impl Guests {
    /// Checks that `count` blocks of the volume may be requested.
    ///
    /// # Errors
    /// The reason why not.
    pub(super) fn check(
        &self,
        state: &AgentState,
        volume: VolumeKey,
        block: u32,
        count: u32,
    ) -> Result<(), Gone> {
        let it = state.volumes.get(&volume).filter(|volume| volume.blocks > 0);
        let it = it.ok_or(Gone::Volume)?;
        let end = u64::from(block) + u64::from(count);
        if count == 0 || end > u64::from(it.blocks) {
            return Err(Gone::Outside);
        }
        let waiting = self.reads.len() + self.writes.len();
        if waiting >= GUEST_REQUESTS_MAX { Err(Gone::TooMany) } else { Ok(()) }
    }

    /// Lets all reads wait that wait for the server or for other hosts.
    pub(super) fn park_all(&mut self, state: &mut AgentState) {
        self.reads.park_all(state);
    }

    /// The server knows the volume's lease: sends what waited for it, first the writes that it may
    /// have lost, then the rest.
    pub(super) fn go_on(&mut self, state: &mut AgentState, now: Nanos, key: VolumeKey) {
        state.volumes.get_mut(&key).expect("it is attached").state = State::Live;
        write_again(state, now, key);
        self.resume(state, now, key);
    }

    /// Lets the requests of a volume go on that waited for its lease.
    pub(super) fn resume(&mut self, state: &mut AgentState, now: Nanos, key: VolumeKey) {
        let Some(volume) = state.volumes.get_mut(&key).filter(|volume| volume.may_ask(now)) else {
            return;
        };
        let mut parked = std::mem::take(&mut volume.parked);
        parked.sort_by_key(|waiter| (waiter.ticket, waiter.block));
        self.reads.seek(state, now, parked);
        self.writes.begin_writes(state, &mut self.reads, now, key);
        self.writes.send_flushes(state, now, key);
    }

    /// Fails all requests of a volume, and these others of it.
    pub(super) fn give_up(
        &mut self,
        state: &mut AgentState,
        key: VolumeKey,
        mut tickets: Vec<Ticket>,
        why: Gone,
    ) {
        tickets.extend(self.reads.of(key));
        tickets.extend(self.writes.of(key));
        tickets.sort_unstable();
        tickets.dedup();
        for ticket in tickets {
            self.reads.forget(ticket);
            self.writes.forget(ticket);
            state.events.push_back(Event::Failed { ticket, why });
        }
    }
}
