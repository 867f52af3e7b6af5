//! The pools of a group: their devices, their slots, their order by speed, and the requests that
//! are under way on them.
//!
//! The lowest machine of the volume. It sends requests, takes the answers to them and keeps the
//! counts. What an answer means, and what a pool's death means for chunks, is decided above.

pub(crate) mod fullness;
pub(crate) mod growing;
pub(crate) mod label;
pub(crate) mod layout;
pub(crate) mod tables;

pub(crate) mod extents;
pub(crate) mod flight;
pub(crate) mod pool;
pub(crate) mod ranks;
pub(crate) mod room;
pub(crate) mod slots;

use crate::map::place::Place;
use crate::pools::flight::{Flight, Owner, TRIES_MAX};
use crate::pools::pool::{Pool, PoolState};
use crate::pools::ranks::Ranks;
use crate::pools::tables::Places;
use crate::settings::Limits;
use std::ops::{Index, IndexMut};
use thermocline_policy::migration::{self, Allowance, Copying};
use thermocline_policy::placement::PoolChange;
use thermocline_policy::tactics::{Chosen, Probing, Waiting};
use thermocline_ports::{Completion, DeviceError, Io, Ticket};
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, Nanos, PoolId, Slab};

/// Bytes that are copied at a time from or to a far pool.
const FAR_PIECE: u32 = 8 << 20;

/// Sizes that a group was made with: they say where everything lies on a pool's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Bytes of a chunk.
    pub(crate) chunk: u32,
    /// Blocks of the journal's ring.
    pub(crate) journal_blocks: u32,
    /// Blocks of a checkpoint area in the metadata region; 0 in a group that is not yet read.
    pub(crate) area_blocks: u32,
    /// Bounds that tests make smaller.
    pub(crate) limits: Limits,
}

impl Sizes {
    /// Those of them that say where things lie.
    pub(crate) fn places(&self) -> Places {
        Places {
            chunk_size: self.chunk,
            journal_blocks: self.journal_blocks,
            area_blocks: self.area_blocks,
        }
    }
}

/// Fate of a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// Sent again.
    Again,
    /// Failed at its last try: the pool is to be given up.
    Spent,
    /// The pool was given up before.
    Dead,
}

/// All pools of a group, by id, and the requests under way on their devices.
#[derive(Debug)]
pub(crate) struct Pools {
    sizes: Sizes,
    all: Vec<Pool>,
    ranks: Ranks,
    /// Changes of the ranks that nobody was told of yet.
    changes: Vec<PoolChange>,
    flights: Slab<Flight>,
    /// Counts requests, so that an answer to an older one in the same place is noticed.
    generation: u32,
    out: Vec<(PoolId, Ticket, Io)>,
}

impl Pools {
    /// No pools yet.
    pub(crate) fn new(sizes: Sizes) -> Pools {
        Pools {
            sizes,
            all: Vec::new(),
            ranks: Ranks::default(),
            changes: Vec::new(),
            flights: Slab::default(),
            generation: 0,
            out: Vec::new(),
        }
    }

    /// Bytes of a chunk.
    pub(crate) fn chunk_bytes(&self) -> u32 {
        self.sizes.chunk
    }

    pub(crate) fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// Says where everything lies, before there is anything.
    pub(crate) fn set_sizes(&mut self, sizes: Sizes) {
        self.sizes = sizes;
    }

    /// Number of pools that there are or were.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Ids of all pools that there are or were, in their order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = PoolId> + use<> {
        (0..self.all.len() as u16).map(PoolId)
    }

    /// The pool, if there is or was one with this id.
    pub(crate) fn find(&self, id: PoolId) -> Option<&Pool> {
        self.all.get(usize::from(id.0))
    }

    /// Like [`Pools::find`].
    pub(crate) fn find_mut(&mut self, id: PoolId) -> Option<&mut Pool> {
        self.all.get_mut(usize::from(id.0))
    }

    /// All pools by id.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Pool> {
        self.all.iter()
    }

    /// All pools by id.
    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Pool> {
        self.all.iter_mut()
    }

    /// Their order by speed.
    pub(crate) fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// Puts these pools in the place of all that were, in this order of speed; in none, as long as
    /// it was not read.
    pub(crate) fn replace(&mut self, pools: Vec<Pool>, ranks: Ranks) {
        assert!(self.flights.is_empty(), "requests are under way on the pools before");
        let read = !ranks.order().is_empty();
        let all_ranked = pools.len() == ranks.order().len();
        assert!(!read || all_ranked, "each pool that is known has a rank");
        let gone = |id: PoolId| pools[usize::from(id.0)].state == PoolState::Removed;
        self.ranks = ranks.of_those(|id| !gone(id));
        self.all = pools;
    }

    /// Adds a pool that counts as faster than `before`, or as slower than all others.
    pub(crate) fn push(&mut self, pool: Pool, before: Option<PoolId>) {
        self.ranks = self.ranks.with_next(before);
        self.all.push(pool);
        assert_eq!(self.all.len(), self.ranks.order().len(), "each pool has a rank");
    }

    /// The pool that was added last has joined: placements are to know of it.
    pub(crate) fn note_joined(&mut self) {
        let last = self.ids().last().expect("one has joined");
        self.changes.push(PoolChange::Joined(self.ranks.rank_of(last)));
    }

    /// A pool that was to be removed is: it has no rank any more.
    pub(crate) fn retire(&mut self, id: PoolId) {
        assert_eq!(self[id].state, PoolState::Removing, "{id:?} was to be removed");
        self[id].state = PoolState::Removed;
        self.changes.push(PoolChange::Left(self.ranks.rank_of(id)));
        let there = |other: PoolId| self[other].state != PoolState::Removed;
        self.ranks = self.ranks.clone().of_those(there);
    }

    /// Changes of the ranks since this was last called, in order.
    pub(crate) fn take_changes(&mut self) -> Vec<PoolChange> {
        std::mem::take(&mut self.changes)
    }

    /// Takes away the pool that was added last; no request was ever sent to it.
    pub(crate) fn pop(&mut self) -> Option<Pool> {
        let last = PoolId(self.all.len().checked_sub(1)? as u16);
        assert!(self.flights.iter().all(|(_, flight)| flight.pool != last), "{last:?} is in use");
        self.ranks = self.ranks.without_last();
        self.all.pop()
    }

    /// True if some pool has tables of checksums: sums are made and verified then.
    pub(crate) fn keep_checksums(&self) -> bool {
        self.iter().any(|pool| pool.checksums && pool.state != PoolState::Removed)
    }

    /// Byte of its pool at which the table of checksums of a slot begins.
    pub(crate) fn table_address(&self, place: Place) -> Bytes {
        self[place.pool].tables.offset(place.slot)
    }

    /// True if some living pool was written since its last flush.
    pub(crate) fn any_dirty(&self) -> bool {
        self.all.iter().any(|pool| pool.dirty && pool.is_alive())
    }

    /// True if some pool can still be written.
    pub(crate) fn any_alive(&self) -> bool {
        self.all.iter().any(Pool::is_alive)
    }

    /// Requests under way.
    pub(crate) fn flights(&self) -> impl Iterator<Item = &Flight> {
        self.flights.iter().map(|(_, flight)| flight)
    }

    /// True if no request is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.flights.is_empty()
    }

    /// Appends the requests for devices, in the order in which they are to be submitted.
    pub(crate) fn take_io(&mut self, out: &mut Vec<(PoolId, Ticket, Io)>) {
        out.append(&mut self.out);
    }

    /// Sends a request to a device; `background`: nobody waits for it. The number of the request,
    /// as long as it is under way.
    pub(crate) fn send(
        &mut self,
        now: Nanos,
        pool: PoolId,
        owner: Owner,
        io: Io,
        background: bool,
    ) -> u32 {
        let (writes, bytes) = match &io {
            Io::Read { length, .. } => (false, *length),
            Io::Write { data, .. } => (true, data.len()),
            Io::Flush => (false, 0),
            Io::Discard { .. } | Io::WriteZeroes { .. } => (true, 0),
        };
        let device = &self[pool].geometry;
        let end = match &io {
            Io::Read { offset, length } => offset.0 + u64::from(*length),
            Io::Write { offset, data, .. } => offset.0 + u64::from(data.len()),
            Io::Discard { offset, length } | Io::WriteZeroes { offset, length } => {
                offset.0 + length.0
            }
            Io::Flush => 0,
        };
        assert!(end <= device.size.0, "a request ends within its device");
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let flight = Flight {
            generation,
            owner,
            pool,
            slot: 0,
            writes,
            bytes,
            since: now,
            queued: self[pool].in_flight + 1,
            background,
            tries: 0,
            io: owner.retries().then(|| io.clone()),
        };
        let index = self.flights.insert(flight);
        self[pool].count_departure(owner, writes, bytes, background);
        let ticket = Ticket(u64::from(generation) << 32 | u64::from(index));
        self.out.push((pool, ticket, io));
        index
    }

    /// Says which slot a client's request is for.
    pub(crate) fn note_slot(&mut self, flight: u32, slot: u32) {
        self.flights[flight].slot = slot;
    }

    /// A copy on a pool, as a choice between copies sees it.
    pub(crate) fn waiting(&self, pool: PoolId, now: Nanos) -> Waiting {
        let rank = self.ranks().rank_of(pool).0;
        Waiting { wait_s: self[pool].expected_wait(now), rank }
    }

    /// Takes a device's answer; the request that it answers. `probing` says when a device that has
    /// no room is asked again.
    ///
    /// # Panics
    /// When the ticket is not in flight: every request is answered once.
    pub(crate) fn land(
        &mut self,
        now: Nanos,
        pool: PoolId,
        completion: &Completion,
        probing: &Chosen<dyn Probing>,
    ) -> Flight {
        let flight = self.flights.remove(completion.ticket.0 as u32);
        assert!(
            flight.pool == pool && u64::from(flight.generation) == completion.ticket.0 >> 32,
            "a device answered a request that is not in flight"
        );
        let state = &mut self[pool];
        state.count_arrival(now, &flight);
        if completion.result.is_err() {
            state.counters.errors += 1;
        }
        if completion.result == Err(DeviceError::NoSpace) {
            state.note_no_space(now, probing);
        }
        // Even a failed write may have changed sectors.
        let failed = completion.result.is_err() && mutant("failed_write_leaves_its_pool_clean");
        state.dirty |= flight.writes && !flight.owner.is_forced() && !failed;
        flight
    }

    /// Sends a failed request of the machine's own again, unless that was its last try: a pool that
    /// cannot be written is no place for anything.
    pub(crate) fn send_again(&mut self, now: Nanos, flight: &Flight) -> Retry {
        assert!(flight.owner.retries(), "only requests for metadata and flushes are sent again");
        if !self[flight.pool].is_alive() {
            return Retry::Dead;
        }
        if flight.tries >= TRIES_MAX {
            return Retry::Spent;
        }
        let io = flight.io.clone().expect("owners that retry keep their request");
        let index = self.send(now, flight.pool, flight.owner, io, false);
        self.flights[index].tries = flight.tries + 1;
        Retry::Again
    }

    /// Notes that a pool has died, unless it had before: was it written since its last flush?
    pub(crate) fn bury(&mut self, pool: PoolId) -> Option<bool> {
        let state = &mut self[pool];
        if !state.is_alive() {
            return None;
        }
        match state.state {
            PoolState::Removing => state.gone = true,
            _ => state.state = PoolState::Dead,
        }
        assert!(!state.is_alive(), "a pool that died takes no requests");
        Some(std::mem::replace(&mut state.dirty, false))
    }
}

impl Index<PoolId> for Pools {
    type Output = Pool;

    /// # Panics
    /// When there never was such a pool.
    fn index(&self, id: PoolId) -> &Pool {
        &self.all[usize::from(id.0)]
    }
}

impl IndexMut<PoolId> for Pools {
    fn index_mut(&mut self, id: PoolId) -> &mut Pool {
        &mut self.all[usize::from(id.0)]
    }
}

impl Pools {
    /// Bytes that operations copy at a time between these pools, at most a chunk; many where one is
    /// far, because a request costs the same there whatever its length.
    pub(crate) fn piece_among(&self, copying: &Copying, pools: &[PoolId]) -> u32 {
        let at_once = pools.iter().map(|&pool| migration::Pools::at_once(self, pool));
        let piece = copying.piece_among(at_once).0 as u32;
        let has_far = pools.iter().any(|&pool| self[pool].is_far());
        piece.max(if has_far { FAR_PIECE } else { 0 }).min(self.chunk_bytes())
    }
}

impl migration::Pools for Pools {
    fn copies_in_flight(&self, pool: PoolId) -> u32 {
        self[pool].copies_in_flight
    }

    fn at_once(&self, pool: PoolId) -> Option<u32> {
        self[pool].traits.map(|traits| traits.at_once())
    }

    fn clients_in_flight(&self, pool: PoolId) -> u32 {
        if self[pool].is_far() { 0 } else { self[pool].in_flight }
    }

    fn allowance(&mut self, pool: PoolId) -> &mut Allowance {
        &mut self[pool].allowance
    }
}

#[cfg(test)]
pub(crate) mod tests;
