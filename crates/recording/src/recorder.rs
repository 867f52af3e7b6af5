//! The observer that makes a recording of what it hears.
//!
//! 1. Requests, answers and accesses go to the encoder as they come.
//! 2. At an epoch's end the placement's view is taken down whole, compared with the last one, and
//!    the difference goes to the encoder, then the proposal.
//! 3. Closed blocks go to the sink. A sink that takes no more ends the recording, and so do more
//!    chunks, or more moves in an epoch, than a recording can hold: the recorder is deaf from then
//!    on, the group does not notice.
//! 4. Dropping the recorder ends the recording as it should.
//!
//! Costs O(1) a request, and O(pools × chunks) an epoch, which is what placements cost too. State:
//! 4 B a chunk and some 40 B a request under way.

use super::homes::Homes;
use super::replay::MOVES_MAX;
use std::collections::BTreeMap;
use thermocline_policy::placement::{
    ChunkAccess, How, Move, PoolChange, PoolLoad, Route, Sla, VolumeView,
};
use thermocline_trace::recording::{
    self, Access, Ask, Asked, Encoder, Epoch, PoolFill, Routed, SecondCopy,
};
use thermocline_units::{Bytes, Nanos, PoolId, VolumeId};
use thermocline_volume::settings;
use thermocline_volume::{Action, Decision, Group, Observer, Request, RequestId};

const _: () = assert!(settings::VOLUMES_MAX <= recording::VOLUMES_MAX as usize);
const _: () = assert!(settings::VOLUME_CHUNKS_MAX <= recording::CHUNKS_MAX as u64);

/// Destination of blocks of records, to be packed and written. Must not wait: the volume waits with
/// it.
pub trait Sink: Send {
    /// Takes a block; false when the recording is over.
    fn take(&mut self, block: Vec<u8>) -> bool;

    /// The recorder ends the recording by itself, for this reason: the last block has come.
    fn ended(&mut self, _why: &str) {}
}

impl<F: FnMut(Vec<u8>) -> bool + Send> Sink for F {
    fn take(&mut self, block: Vec<u8>) -> bool {
        self(block)
    }
}

/// Recorder of what a volume's placement is told.
pub struct Recorder<S: Sink> {
    /// `None` when the sink takes no more.
    encoder: Option<Encoder>,
    sink: S,
    /// Numbers in the recording, and times of arrival, by request under way.
    under_way: BTreeMap<RequestId, (u64, Nanos)>,
    /// Places of chunks at the last epoch's end; and room to take down where they live now.
    homes: Homes,
    looked: Homes,
    /// SLAs at that time.
    slas: BTreeMap<VolumeId, Sla>,
}

impl<S: Sink> Recorder<S> {
    /// A recorder for `group`, to be given to [`Group::set_observer`] before the placement is set.
    pub fn new(group: &Group, sink: S) -> Recorder<S> {
        let encoder = Encoder::new(group.chunk_size(), &about(group));
        let (homes, looked) = (Homes::default(), Homes::default());
        let (under_way, slas) = (BTreeMap::new(), BTreeMap::new());
        let mut recorder =
            Recorder { encoder: Some(encoder), sink, under_way, homes, looked, slas };
        recorder.pass_on();
        recorder
    }

    /// Gives closed blocks to the sink.
    fn pass_on(&mut self) {
        let Some(encoder) = &mut self.encoder else { return };
        while let Some(block) = encoder.take_block() {
            if !self.sink.take(block) {
                self.encoder = None;
                self.under_way.clear();
                return;
            }
        }
    }

    /// Takes down where chunks live and the SLAs, and tells what changed; false where there are
    /// more chunks than a recording can hold.
    fn look(&mut self, view: &dyn VolumeView) -> bool {
        let Some(encoder) = &mut self.encoder else { return true };
        self.looked.clear();
        let mut fits = true;
        for pool in (0..view.pool_count()).map(PoolId) {
            view.visit_pool(pool, &mut |chunk| fits &= self.looked.set(chunk, 1, Some(pool)));
        }
        if !fits {
            return false;
        }
        view.visit_mirrors(&mut |chunk, pool| {
            self.looked.set_second(chunk, 1, SecondCopy::Mirror(pool));
        });
        view.visit_kept(&mut |chunk, pool| {
            self.looked.set_second(chunk, 1, SecondCopy::Kept(pool));
        });
        for volume in (0..view.volume_count()).map(VolumeId) {
            let (now, then) = (view.sla(volume), self.slas.get(&volume).copied());
            if now != then {
                let figures = now.map_or(Vec::new(), |sla| sla.figures().to_vec());
                encoder.promised(volume, &figures);
                self.slas.remove(&volume);
                self.slas.extend(now.map(|sla| (volume, sla)));
            }
        }
        self.looked.changes(&self.homes, |run| encoder.homes(&run));
        std::mem::swap(&mut self.looked, &mut self.homes);
        true
    }
}

/// Facts about the machine in a recording, beside the chunk size.
fn about(group: &Group) -> Vec<(String, String)> {
    let pools = group.pools_there().iter().filter_map(|&pool| group.pool_status(pool));
    let pools: Vec<String> =
        pools.map(|pool| format!("{} of {} chunks", pool.name, pool.slots_total)).collect();
    let settings = group.settings();
    let rate = settings.copying.rate_per_second;
    let tactics = settings.tactics.in_force().into_iter().map(|(_, name)| name);
    let pair = |key: &str, value: String| (format!("thermocline.recording.{key}"), value);
    vec![
        pair("chunk", group.chunk_size().to_string()),
        pair("epoch", settings.epoch.to_string()),
        pair("pools", pools.join(", ").chars().take(1000).collect()),
        pair("tactics", tactics.collect::<Vec<_>>().join(", ").chars().take(1000).collect()),
        pair("rate", rate.map_or("none".to_string(), |rate| format!("{rate} a second"))),
    ]
}

fn asked(now: Nanos, request: &Request) -> Asked {
    let (ask, offset, length, forced) = match &request.action {
        Action::Read { offset, length } => (Ask::Read, *offset, u64::from(*length), false),
        Action::Write { offset, payload, fua } => {
            (Ask::Write, *offset, u64::from(payload.len()), *fua)
        }
        Action::WriteZeroes { offset, length, fua } => (Ask::Zero, *offset, length.0, *fua),
        Action::Discard { offset, length } => (Ask::Trim, *offset, length.0, false),
        Action::Flush => (Ask::Flush, Bytes(0), 0, false),
    };
    Asked { at: now, volume: request.volume, ask, offset, length: Bytes(length), forced }
}

fn epoch(decision: &Decision<'_>) -> Epoch {
    let view = decision.view;
    let pool = |pool| PoolFill {
        capacity: view.capacity_chunks(pool),
        used: view.used_chunks(pool),
        figures: view.load(pool).figures().into_iter().chain(view.traits(pool).figures()).collect(),
    };
    Epoch {
        at: decision.at,
        budget: decision.budget.moves,
        volumes: view.volume_count(),
        length: Some(view.epoch()),
        pools: (0..view.pool_count()).map(PoolId).map(pool).collect(),
    }
}

impl<S: Sink> Observer for Recorder<S> {
    fn asked(&mut self, now: Nanos, request: &Request) {
        let Some(encoder) = &mut self.encoder else { return };
        let number = encoder.asked(&asked(now, request));
        self.under_way.insert(request.id, (number, now));
        self.pass_on();
    }

    fn answered(&mut self, now: Nanos, request: RequestId, done: bool) {
        let Some((number, since)) = self.under_way.remove(&request) else { return };
        let Some(encoder) = &mut self.encoder else { return };
        encoder.answered(number, now.saturating_sub(since), done);
        self.pass_on();
    }

    fn placed(&mut self, now: Nanos, name: &str) {
        let Some(encoder) = &mut self.encoder else { return };
        encoder.placed(now, name);
        self.pass_on();
    }

    fn pools_changed(&mut self, now: Nanos, change: PoolChange) {
        self.homes.pools_changed(change);
        let Some(encoder) = &mut self.encoder else { return };
        let (PoolChange::Joined(place) | PoolChange::Left(place)) = change;
        encoder.pools(now, place, matches!(change, PoolChange::Left(_)));
        self.pass_on();
    }

    fn accessed(&mut self, access: &ChunkAccess) {
        let Some(encoder) = &mut self.encoder else { return };
        let ChunkAccess { at, chunk, offset, bytes, write } = *access;
        encoder.accessed(&Access { at, chunk, offset, bytes, write });
        self.pass_on();
    }

    fn routed(&mut self, now: Nanos, loads: &[PoolLoad], route: Route) {
        let Some(encoder) = &mut self.encoder else { return };
        let pools = loads.iter().map(|load| load.figures().to_vec()).collect();
        encoder.routed(&Routed { at: now, pools, shares: [route.reads, route.writes] });
        self.pass_on();
    }

    fn decided(&mut self, decision: &Decision<'_>) {
        let Some(encoder) = &mut self.encoder else { return };
        encoder.epoch(&epoch(decision));
        let problem = match (self.look(decision.view), decision.moves.len() <= MOVES_MAX) {
            (false, _) => Some("the volumes have more chunks than a recording can hold (2^28)"),
            (_, false) => Some("an epoch has more moves than a recording can hold (2^24)"),
            (true, true) => None,
        };
        let Some(encoder) = &mut self.encoder else { return };
        if let Some(problem) = problem {
            // Readers hold as many. The epoch has no end, and is left out by them.
            encoder.end();
            self.pass_on();
            self.encoder = None;
            self.under_way.clear();
            (self.homes, self.looked) = (Homes::default(), Homes::default());
            self.sink.ended(problem);
            return;
        }
        for Move { chunk, to, how } in decision.moves {
            encoder.proposed(*chunk, *to, *how == How::Mirror);
        }
        encoder.epoch_ended();
        self.pass_on();
    }
}

impl<S: Sink> Drop for Recorder<S> {
    fn drop(&mut self) {
        if let Some(encoder) = &mut self.encoder {
            encoder.end();
        }
        self.pass_on();
    }
}

#[cfg(test)]
mod tests;
