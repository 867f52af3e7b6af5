//! Judging answers: contents against the model, errors against what the disks did.
//!
//! An error is excused only by something that happened while the request was in flight, on disks
//! that matter to it, or by a dead disk.

use crate::model::{Deed, Flight};
use crate::run::Runner;
use std::collections::BTreeSet;
use thermocline_units::{ChunkId, PoolId};
use thermocline_volume::{Operation, OperationKind, Place, PoolState, Reply, RequestError};

impl Runner<'_> {
    /// Judges one answer.
    pub(crate) fn answer(&mut self, reply: Reply) -> Result<(), String> {
        if let Some((number, answer)) = &mut self.probe
            && *number == reply.id.0
        {
            *answer = Some(reply);
            return Ok(());
        }
        let number = reply.id.0;
        let flight = self.model.land(number)?;
        let excused = self.excused.remove(&number);
        if flight.deed == Deed::Flush {
            self.check_losses(flight.volume, flight.event, reply.result.is_ok())?;
        }
        match (&reply.result, flight.deed) {
            (Ok(pieces), Deed::Read) => self
                .model
                .observed(&flight, pieces)
                .map_err(|what| format!("request {number} read wrong contents: {what}"))?,
            (Ok(_), deed) => {
                self.model.answered(number, &flight, true);
                if deed == Deed::Flush {
                    let flushed = self.flushed.entry(flight.birth).or_default();
                    *flushed = flight.event.max(*flushed);
                }
            }
            (Err(error), deed) => {
                self.mark(match error {
                    RequestError::Io => "requests failed: Io",
                    RequestError::NoSpace => "requests failed: NoSpace",
                    RequestError::NoVolume => "requests failed: NoVolume",
                    RequestError::BadRange => "requests failed: BadRange",
                    RequestError::NotReady => "requests failed: NotReady",
                });
                self.excuse(&flight, excused, *error).map_err(|what| {
                    format!(
                        "request {number} ({deed:?} {:?} of {}) failed: {what}",
                        flight.range, flight.volume
                    )
                })?;
                if deed != Deed::Read {
                    self.model.answered(number, &flight, false);
                }
            }
        }
        Ok(())
    }

    /// True if an error has a reason.
    fn excuse(&self, flight: &Flight, excused: bool, error: RequestError) -> Result<(), String> {
        let excused = match error {
            // What a dead pool lost is said once, by the volume's first flush after it.
            RequestError::Io if flight.deed == Deed::Flush => {
                let flushed = self.flushed.get(&flight.birth).copied().unwrap_or(0);
                let since = flight.event.min(flushed);
                (0..self.pools.len()).any(|pool| {
                    self.is_bad(pool, flight.event) && self.world.erred_since(pool, since)
                })
            }
            RequestError::Io => excused || self.is_out_of_reach(flight),
            RequestError::NoSpace => {
                self.full.is_some_and(|at| at >= flight.event)
                    || !self.has_room()
                    || self.world.any_erred_since(flight.event)
            }
            RequestError::NoVolume => {
                self.model.volumes().iter().all(|volume| volume.birth != flight.birth)
            }
            RequestError::BadRange => false,
            // A pool that was given up may have been the last that could hold the metadata.
            RequestError::NotReady => self.world.any_erred_since(self.opened),
        };
        match excused {
            true => Ok(()),
            false => Err(format!("{error:?}, for no reason; {}", self.whereabouts(flight))),
        }
    }

    /// After an event: notes what may excuse errors that are answered later, when chunks have moved
    /// on and slots have been freed.
    pub(crate) fn note_excuses(&mut self) {
        let event = self.world.events();
        // As long as the group has not noticed a death it sends things there.
        let unnoticed = (0..self.pools.len())
            .any(|pool| self.world.is_dead(pool) && self.state_of(pool) != Some(PoolState::Dead));
        if self.world.has_erred_at(event) || unnoticed {
            self.note_lost();
        }
        if !self.model.flights().is_empty() && !self.has_room() {
            self.full = Some(event);
        }
    }

    /// Excuses the requests in flight that no pool could serve now.
    pub(crate) fn note_lost(&mut self) {
        let flights = self.model.flights().iter();
        let lost = flights.filter(|(_, flight)| self.is_out_of_reach(flight));
        let lost: Vec<u64> = lost.map(|(&number, _)| number).collect();
        self.excused.extend(lost);
    }

    /// True if every copy of one of the chunks is on a pool that failed meanwhile or is dead.
    pub(crate) fn is_out_of_reach(&self, flight: &Flight) -> bool {
        self.chunks_of(flight).any(|chunk| {
            let rot = self.rot.filter(|rot| rot.chunk == chunk).map(|rot| rot.place.pool);
            let bad =
                |pool: PoolId| rot == Some(pool) || self.is_bad(usize::from(pool.0), flight.event);
            if self.redirected(chunk).is_some_and(bad) {
                return true;
            }
            let pools = self.pools_of(chunk);
            match pools.is_empty() {
                // Discarded meanwhile: where it was is forgotten.
                true => (0..self.pools.len()).any(|pool| self.is_bad(pool, flight.event)),
                false => pools.into_iter().all(bad),
            }
        })
    }

    /// True if the pool failed at event `since` or later, or is given up.
    fn is_bad(&self, pool: usize, since: u64) -> bool {
        let given_up = self.state_of(pool) == Some(PoolState::Dead);
        self.world.erred_since(pool, since) || given_up && self.world.erred_since(pool, 0)
    }

    pub(crate) fn has_room(&self) -> bool {
        (0..self.pools.len()).any(|pool| {
            let status = self.world.group().pool_status(PoolId(pool as u16));
            status.is_some_and(|status| {
                let free = status.slots_total > status.slots_used;
                let takes = status.state == PoolState::Active && !status.full;
                takes && free && self.world.is_usable(pool)
            })
        })
    }

    /// An operation that is done has done what it says.
    pub(crate) fn check_moved(&self, operation: &Operation) -> Result<(), String> {
        let volume = operation.chunk.volume;
        if self.model.volumes().iter().all(|living| living.id != volume) {
            return Ok(()); // Deleted meanwhile.
        }
        let pools = self.pools_of(operation.chunk);
        let mirrored = operation.kind == OperationKind::Mirror
            && self.redirected(operation.chunk) == Some(operation.to);
        let there = pools.contains(&operation.to) || mirrored;
        let alone =
            operation.kind != OperationKind::Migrate || pools.first() == Some(&operation.to);
        // A prefetched copy goes away when its slot is wanted, which may be at once.
        match there && alone || operation.kind == OperationKind::Prefetch {
            true => Ok(()),
            false => Err(format!("{operation:?} is done, but the chunk is on {pools:?}")),
        }
    }

    /// Chunks that requests in flight may unmap: they can be anywhere the next moment.
    pub(crate) fn zeroing(&self) -> BTreeSet<ChunkId> {
        let zeroes = |deed| matches!(deed, Deed::WriteZeroes { .. } | Deed::Discard);
        let flights = self.model.flights().values().filter(|flight| zeroes(flight.deed));
        flights.flat_map(|flight| self.chunks_of(flight)).collect()
    }

    fn chunks_of(&self, flight: &Flight) -> impl Iterator<Item = ChunkId> {
        let per_chunk = self.sectors_per_chunk();
        let (volume, range) = (flight.volume, flight.range.clone());
        let chunks = range.start / per_chunk..range.end.div_ceil(per_chunk);
        chunks.map(move |index| ChunkId { volume, index: index as u32 })
    }

    /// Slots that hold a whole copy of the chunk.
    pub(crate) fn places_of(&self, chunk: ChunkId) -> Vec<Place> {
        let status = self.world.group().locate(chunk);
        let copies = status.into_iter().flat_map(|status| status.copies);
        copies.map(|copy| copy.place).collect()
    }

    /// The pool of a chunk's second part: redirected, or the other side of a mirror, which may be
    /// all there is of some blocks.
    pub(crate) fn redirected(&self, chunk: ChunkId) -> Option<PoolId> {
        let status = self.world.group().locate(chunk)?;
        status.redirected_to.or(status.mirrored_on)
    }

    pub(crate) fn pools_of(&self, chunk: ChunkId) -> Vec<PoolId> {
        self.places_of(chunk).into_iter().map(|place| place.pool).collect()
    }

    fn whereabouts(&self, flight: &Flight) -> String {
        let chunks: Vec<String> = self
            .chunks_of(flight)
            .map(|chunk| format!("{chunk} is on {:?}", self.pools_of(chunk)))
            .collect();
        let states = (0..self.pools.len()).map(|pool| {
            let status = self.world.group().pool_status(PoolId(pool as u16));
            status.map_or("?".to_string(), |s| {
                format!("p{pool} {:?} {}/{}", s.state, s.slots_used, s.slots_total)
            })
        });
        let states: Vec<String> = states.collect();
        format!("{}; {}", chunks.join(", "), states.join(", "))
    }
}
