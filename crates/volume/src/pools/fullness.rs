//! Devices that have less room than their size: thin volumes, sparse files on a full file system.
//!
//! 1. A write that is answered with "no space" makes its pool full: it gets no new chunks and no
//!    copies of chunks.
//! 2. If the write was the first one to a new chunk, the chunk is placed on another pool, and the
//!    client does not notice.
//! 3. From time to time, as a tactic says ([`thermocline_policy::tactics::Probing`]), one block is
//!    written to a free slot. When that succeeds, the pool takes chunks again.
//!
//! A write to a part of an older chunk that its pool has no room for fails: its contents are there.

use crate::group_state::GroupState;
use crate::io::leaving::Leaving;
use crate::map::place::Place;
use crate::pools::flight::Owner;
use crate::sizes::BLOCK_BYTES;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::Nanos;

/// Moment at which the next full pool is to be probed.
pub(crate) fn next_probe(group: &GroupState) -> Option<Nanos> {
    let alive = group.pools.iter().filter(|pool| pool.is_alive());
    alive.filter_map(|pool| pool.probe).map(|(at, _)| at).min()
}

impl Leaving {
    /// Writes to full pools whose time has come.
    pub(crate) fn probe_full_pools(&mut self, group: &mut GroupState, now: Nanos) {
        let chunk = group.pools.sizes().chunk;
        for id in group.pools.ids() {
            let pool = &group.pools[id];
            let Some((_, failed)) = pool.probe.filter(|&(at, _)| pool.is_alive() && at <= now)
            else {
                continue;
            };
            group.lines.make_room(&mut group.pools, id);
            let pool = &mut group.pools[id];
            let Some((slot, _)) = pool.slots.take() else {
                // Nothing could be placed here anyway.
                pool.probe = None;
                continue;
            };
            let failed = failed.saturating_add(1);
            let pause = group.settings.tactics.probing.ask(|tactic| tactic.pause(failed));
            pool.probe = Some((Nanos(now.0.saturating_add(pause.0)), failed));
            let offset = pool.address(Place { pool: id, slot }, 0, chunk);
            // Bytes, not "zeroes", which a device may do without taking room.
            let data = Payload::from(vec![0; BLOCK_BYTES]);
            self.slot_leaves();
            group.pools.send(
                now,
                id,
                Owner::Probe { slot },
                Io::Write { offset, data, fua: false },
                false,
            );
        }
        assert!(next_probe(group).is_none_or(|at| at > now), "each is asked once at a time");
    }

    /// A full pool has taken the probe, or has not.
    pub(crate) fn probe_done(
        &mut self,
        group: &mut GroupState,
        now: Nanos,
        place: Place,
        result: Result<Payload, DeviceError>,
    ) {
        assert!(group.pools[place.pool].slots.is_taken(place.slot), "nobody else has the slot");
        self.slot_has_left();
        if result.is_ok() {
            group.pools[place.pool].probe = None;
        }
        self.free_slot(group, now, place);
    }
}

#[cfg(test)]
mod tests;
