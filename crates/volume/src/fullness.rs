//! Devices that have less room than their size: thin volumes, sparse files on a full file system.
//!
//! 1. A write that is answered with "no space" makes its pool full: it gets no new chunks and no
//!    copies of chunks.
//! 2. If the write was the first one to a new chunk, the chunk is placed on another pool, and the
//!    client does not notice.
//! 3. Every [`PROBE_EVERY`] one block is written to a free slot. When that succeeds, the pool takes
//!    chunks again.
//!
//! A write to a part of an older chunk that its pool has no room for fails: its contents are there.

use crate::core::Core;
use crate::core::traffic::bit;
use crate::format::BLOCK_BYTES;
use crate::group::Group;
use crate::map::Place;
use crate::pools::flight::Owner;
use crate::pools::pool::PROBE_EVERY;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::{Nanos, PoolId};

impl Group {
    /// Moment at which the next full pool is to be probed.
    pub(crate) fn next_probe(&self) -> Option<Nanos> {
        let alive = self.core.pools.iter().filter(|pool| pool.is_alive());
        alive.filter_map(|pool| pool.probe_at).min()
    }

    /// Writes to full pools whose time has come.
    pub(crate) fn probe_full_pools(&mut self, now: Nanos) {
        let chunk = self.core.pools.sizes().chunk;
        for id in self.core.pools.ids() {
            let pool = &mut self.core.pools[id];
            if !pool.is_alive() || pool.probe_at.is_none_or(|at| at > now) {
                continue;
            }
            let Some((slot, _)) = pool.slots.take() else {
                // Nothing could be placed here anyway.
                pool.probe_at = None;
                continue;
            };
            pool.probe_at = Some(Nanos(now.0 + PROBE_EVERY.0));
            let offset = pool.address(Place { pool: id, slot }, 0, chunk);
            // Bytes, not "zeroes", which a device may do without taking room.
            let data = Payload::from(vec![0; BLOCK_BYTES]);
            self.slots_leaving += 1;
            self.send(now, id, Owner::Probe { slot }, Io::Write { offset, data, fua: false });
        }
    }

    /// A full pool has taken the probe, or has not.
    pub(crate) fn probe_done(
        &mut self,
        now: Nanos,
        place: Place,
        result: Result<Payload, DeviceError>,
    ) {
        self.slot_has_left();
        if result.is_ok() {
            self.core.pools[place.pool].probe_at = None;
        }
        self.free_slot(now, place);
    }

    /// A write to a chunk ends, which has written something: whoever placed the chunk and is not
    /// answered yet places it nowhere else, because these contents are there.
    pub(crate) fn stays_where_written(&mut self, part: u32) {
        let state = &self.core.parts[part];
        if state.succeeded == 0 || mutant("placed_elsewhere_after_a_write") {
            return;
        }
        let index = self.core.traffic_of(state.chunk);
        let Core { traffic, parts, .. } = &mut self.core;
        traffic[index].running.iter().for_each(|&other| parts[other].placed_on = None);
    }

    /// The first write to the new chunk of a part found no room: places the chunk on another pool.
    /// False where something else is or was on the chunk already; the write fails then.
    pub(crate) fn places_elsewhere(&mut self, now: Nanos, part: u32, pool: PoolId) -> bool {
        let state = &self.core.parts[part];
        let chunk = state.chunk;
        if state.placed_on != Some(pool) || state.outstanding > 0 || !self.core.map.is_simple(chunk)
        {
            return false;
        }
        let traffic = self.core.traffic_of(chunk);
        let others = self.core.traffic[traffic].running.iter().filter(|&&other| other != part);
        let alone = !others.into_iter().any(|&other| self.core.parts[other].is_write());
        let there = self.core.map.entry(chunk).first().is_some_and(|place| place.pool == pool);
        if !alone || !there || self.core.traffic[traffic].operation.is_some() {
            return false;
        }
        self.unmap(chunk);
        let state = &mut self.core.parts[part];
        state.placed_on = None;
        state.unfit |= bit(pool);
        self.open_chunk(now, part);
        true
    }
}
