//! Telling a placement what a recorded one was told.
//!
//! 1. Accesses go to the placement, at their times.
//! 2. At an epoch's end the view is brought up to date, the placement is asked, and what it
//!    proposes is compared with the proposal recorded, move by move.
//! 3. Where the recording says that a placement took over, the recorded one starts anew; a rival
//!    goes on.
//!
//! An epoch that a recording breaks off in is not judged. State: the view (2 B a chunk) and one
//! epoch's proposals, [`MOVES_MAX`] at most.

use super::homes::RecordedView;
use serde::Serialize;
use std::collections::BTreeSet;
use thermocline_policy::placement::shadow::Shadows;
use thermocline_policy::placement::{
    Budget, ChunkAccess, How, Move, Placement, PoolChange, PoolLoad, Sla, VolumeView,
};
use thermocline_policy::registry::PolicySpec;
use thermocline_trace::TraceError;
use thermocline_trace::recording::{Access, Epoch, Event, EventReader, Homes, Routed};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// Most moves that a recording holds of one epoch, 12 B each: 16 TiB in chunks of 1 MiB.
pub(super) const MOVES_MAX: usize = 1 << 24;

/// A recording that cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A recording that cannot be read.
    #[error(transparent)]
    Read(#[from] TraceError),
    /// Its placement, or the rival, cannot be built, or one from outside failed.
    #[error("{0}")]
    Placement(String),
    /// A recording that says what cannot be.
    #[error("the recording makes no sense at its {0}. epoch: {1}; was it made by another program?")]
    Content(u64, &'static str),
}

/// Two proposals part here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// Moves before it, which are equal.
    pub index: usize,
    /// Move proposed then; `None`: nothing more.
    pub recorded: Option<Move>,
    /// Move proposed now.
    pub proposed: Option<Move>,
}

/// One epoch, replayed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EpochRow {
    /// Counted from 1.
    pub epoch: u64,
    /// Time of its end, in seconds on the engine's clock.
    pub at_s: f64,
    /// Requests that came in it.
    pub requests: u64,
    /// Accesses that the placement saw in it.
    pub accesses: u64,
    /// Moves proposed then.
    pub recorded: u64,
    /// Moves proposed now.
    pub proposed: u64,
    /// Moves in both proposals.
    pub common: u64,
    /// True if they are the same moves in the same order, and requests to mirrored chunks were
    /// routed alike.
    pub equal: bool,
}

/// A recording told to a placement again.
pub struct Replay {
    events: EventReader,
    /// True if another placement than the recorded one is fed.
    rival: bool,
    name: String,
    placement: Option<Box<dyn Placement>>,
    view: RecordedView,
    /// One more than the highest volume that a chunk was said to be of.
    volumes_named: u32,
    epoch: Option<Epoch>,
    epochs: u64,
    requests: u64,
    accesses: u64,
    recorded: Vec<Move>,
    proposed: Vec<Move>,
    /// True if a router said something else than the recorded one, in this epoch.
    misrouted: bool,
    shadows: Shadows,
    /// Shadows that begin when it is first known where chunks are.
    coming: Vec<(String, Box<dyn Placement>)>,
}

impl Replay {
    /// A replay of a recording, under the placement that it names, or under a rival.
    ///
    /// # Errors
    /// When the rival is no placement, or a setting of it is wrong.
    pub fn new(events: EventReader, rival: Option<&PolicySpec>) -> Result<Replay, ReplayError> {
        let view = RecordedView::of(events.chunk().unwrap_or_default());
        Ok(Replay {
            events,
            rival: rival.is_some(),
            name: rival.map(PolicySpec::spelled_out).unwrap_or_default(),
            placement: rival.map(build).transpose()?,
            view,
            volumes_named: 0,
            epoch: None,
            epochs: 0,
            requests: 0,
            accesses: 0,
            recorded: Vec::new(),
            proposed: Vec::new(),
            misrouted: false,
            shadows: Shadows::default(),
            coming: Vec::new(),
        })
    }

    /// The next epoch; `None` at the end.
    ///
    /// # Errors
    /// When the recording cannot be read or makes no sense, or names a placement that is not in
    /// the registry.
    pub fn next_epoch(&mut self) -> Result<Option<EpochRow>, ReplayError> {
        while let Some(event) = self.events.next_event()? {
            match event {
                Event::Placed { name, .. } => self.place(&name)?,
                Event::Pools { place, gone, .. } => self.change_pools(place, gone)?,
                Event::Asked(_) => self.requests += 1,
                Event::Accessed(access) => self.observe(&access),
                Event::Epoch(epoch) => self.begin(epoch)?,
                Event::Homes(homes) => self.settle(&homes)?,
                Event::Proposed { chunk, to, mirror } => {
                    let how = if mirror { How::Mirror } else { How::Move };
                    self.note(Move { chunk, to, how })?;
                }
                Event::Routed(routed) => self.route(&routed),
                Event::Promised { volume, figures } => self.set_sla(volume, &figures)?,
                Event::EpochEnded => return self.judge().map(Some),
                Event::Answered { .. } | Event::Ended => {}
            }
        }
        Ok(None)
    }

    /// Lets a placement run as a shadow, from the first epoch's end on: what it would have done is
    /// judged as live ([`Shadows`]), on every chunk and at the recorded copy rate.
    ///
    /// # Errors
    /// When it is no placement, or a setting of it is wrong.
    pub fn shadow(&mut self, spec: &PolicySpec) -> Result<(), ReplayError> {
        self.coming.push((spec.label.clone(), build(spec)?));
        Ok(())
    }

    /// The shadows.
    pub fn shadows(&self) -> &Shadows {
        &self.shadows
    }

    /// Pools that the last epoch had.
    pub fn pool_count(&self) -> u16 {
        self.view.pool_count()
    }

    /// End of the last epoch.
    pub fn now(&self) -> Nanos {
        self.view.at()
    }

    /// Rate at which operations might copy, by the recording; `None`: as much as they wanted.
    fn copy_rate(&self) -> Option<Bytes> {
        let rate = self.about().iter().find(|(key, _)| key == "thermocline.recording.rate")?;
        rate.1.strip_suffix(" a second")?.parse().ok()
    }

    fn end_epoch_of_shadows(&mut self, at: Nanos) -> Result<(), ReplayError> {
        for (name, placement) in std::mem::take(&mut self.coming) {
            self.shadows
                .begin(at, &self.view, (&name, placement), Some(1))
                .map_err(|error| ReplayError::Placement(error.to_string()))?;
        }
        // Also of those that have just begun: the next epoch is a whole one for them.
        let rate = self.copy_rate();
        self.shadows.end_epoch(at, &self.view, rate);
        Ok(())
    }

    /// The placement that is fed, with all its settings.
    pub fn placement(&self) -> &str {
        &self.name
    }

    /// Facts about the machine, by the recording.
    pub fn about(&self) -> &[(String, String)] {
        self.events.about()
    }

    /// That the recording was cut off, in words, if it was; known at the end.
    pub fn torn(&self) -> Option<String> {
        self.events.torn()
    }

    /// Bytes of the file read, for progress.
    pub fn bytes_read(&self) -> u64 {
        self.events.bytes_read()
    }

    /// The last epoch's proposals: then, and now.
    pub fn proposals(&self) -> (&[Move], &[Move]) {
        (&self.recorded, &self.proposed)
    }

    /// First difference of the last epoch's proposals; `None`: there is none.
    pub fn difference(&self) -> Option<Difference> {
        let (then, now) = (&self.recorded, &self.proposed);
        let longer = then.len().max(now.len());
        let index = (0..longer).find(|&index| then.get(index) != now.get(index))?;
        let (recorded, proposed) = (then.get(index).copied(), now.get(index).copied());
        Some(Difference { index, recorded, proposed })
    }

    /// Pool of a chunk at the last epoch's end (`None`: nowhere), and the reasons of the placement
    /// that is fed.
    pub fn explain(&self, chunk: ChunkId) -> (Option<PoolId>, Vec<String>) {
        let reasons = self.placement.as_ref().map(|placement| placement.explain(chunk));
        (self.view.homes.pool_of(chunk), reasons.unwrap_or_default())
    }

    /// Bytes of a chunk; `None`: the recording has not said yet.
    pub fn chunk_size(&self) -> Option<Bytes> {
        self.events.chunk()
    }

    fn wrong(&self, what: &'static str) -> ReplayError {
        ReplayError::Content(self.epochs + 1, what)
    }

    fn place(&mut self, name: &str) -> Result<(), ReplayError> {
        if self.epoch.is_some() {
            return Err(self.wrong("the placement changes while it decides"));
        }
        if self.rival {
            return Ok(());
        }
        self.name = name.to_string();
        self.placement = match name {
            "" => None,
            name => {
                let spec = PolicySpec::parse(name).map_err(|error| {
                    ReplayError::Placement(format!(
                        "the recording was made under `{name}`, which cannot be built here: {error}"
                    ))
                })?;
                Some(build(&spec)?)
            }
        };
        Ok(())
    }

    fn observe(&mut self, access: &Access) {
        self.accesses += 1;
        self.volumes_named = self.volumes_named.max(access.chunk.volume.0 + 1);
        let Access { at, chunk, offset, bytes, write } = *access;
        let access = ChunkAccess { at, chunk, offset, bytes, write };
        if let Some(placement) = &mut self.placement {
            placement.observe(&access);
        }
        self.shadows.observe(&access);
    }

    /// Tells the placement of a pool that has joined, or is gone.
    fn change_pools(&mut self, place: PoolId, gone: bool) -> Result<(), ReplayError> {
        if self.epoch.is_some() {
            return Err(self.wrong("pools change while the placement decides"));
        }
        let change = if gone { PoolChange::Left(place) } else { PoolChange::Joined(place) };
        if !self.view.pools_changed(change) {
            return Err(self.wrong("a pool joins or goes where there can be none"));
        }
        if let Some(placement) = &mut self.placement {
            placement.pools_changed(change);
        }
        self.shadows.pools_changed(change);
        Ok(())
    }

    /// A volume's SLA changes from this epoch on.
    fn set_sla(&mut self, volume: VolumeId, figures: &[u64]) -> Result<(), ReplayError> {
        self.in_epoch()?;
        self.volumes_named = self.volumes_named.max(volume.0 + 1);
        self.view.slas.remove(&volume);
        let sla = Sla::from_figures(figures);
        if sla.is_none() && !figures.is_empty() {
            return Err(self.wrong("an SLA makes no sense"));
        }
        self.view.slas.extend(sla.map(|sla| (volume, sla)));
        Ok(())
    }

    /// Asks the router what the recorded one was asked.
    fn route(&mut self, routed: &Routed) {
        let loads = routed.pools.iter();
        let loads = loads.map(|figures| PoolLoad::from_figures(figures).unwrap_or_default().0);
        let loads: Vec<PoolLoad> = loads.collect();
        let router = self.placement.as_mut().and_then(|placement| placement.router());
        let route = router.map(|router| router.route(&loads));
        let shares = route.map(|route| [route.reads, route.writes]);
        self.misrouted |= !self.rival && shares != Some(routed.shares);
    }

    fn begin(&mut self, epoch: Epoch) -> Result<(), ReplayError> {
        if self.epoch.is_some() {
            return Err(self.wrong("it begins before the one before has ended"));
        }
        if self.placement.is_none() {
            return Err(ReplayError::Placement(
                "the recording does not say which placement decided: it was begun after the \
                 placement, or the placement has no name in the registry; name one with --policy"
                    .to_string(),
            ));
        }
        if epoch.pools.is_empty() {
            return Err(self.wrong("it has no pools"));
        }
        if !self.view.turn_to(&epoch) {
            return Err(self.wrong("it has fewer pools than the one before"));
        }
        self.recorded.clear();
        self.epoch = Some(epoch);
        Ok(())
    }

    fn in_epoch(&self) -> Result<(), ReplayError> {
        match self.epoch {
            Some(_) => Ok(()),
            None => Err(self.wrong("something stands outside an epoch's end")),
        }
    }

    /// A move that was proposed then.
    fn note(&mut self, step: Move) -> Result<(), ReplayError> {
        self.in_epoch()?;
        if self.recorded.len() >= MOVES_MAX {
            return Err(self.wrong("more moves are proposed than are believed"));
        }
        self.recorded.push(step);
        Ok(())
    }

    fn settle(&mut self, homes: &Homes) -> Result<(), ReplayError> {
        self.in_epoch()?;
        if homes.pool.is_some_and(|pool| usize::from(pool.0) >= self.view.pools.len()) {
            return Err(self.wrong("a chunk is on a pool that there is not"));
        }
        self.volumes_named = self.volumes_named.max(homes.chunk.volume.0 + 1);
        if !self.view.homes.set(homes.chunk, homes.count, homes.pool) {
            return Err(self.wrong("it has more chunks than are believed"));
        }
        if let Some(second) = homes.second {
            if usize::from(second.pool().0) >= self.view.pools.len() {
                return Err(self.wrong("a chunk's second copy is on a pool that there is not"));
            }
            self.view.homes.set_second(homes.chunk, homes.count, second);
        }
        Ok(())
    }

    fn judge(&mut self) -> Result<EpochRow, ReplayError> {
        self.in_epoch()?;
        if self.volumes_named > self.view.volume_count() {
            return Err(self.wrong("a chunk is of a volume that there is not"));
        }
        let epoch = self.epoch.take().expect("just seen");
        self.end_epoch_of_shadows(epoch.at)?;
        let placement = self.placement.as_mut().expect("without one an epoch does not begin");
        self.proposed.clear();
        let budget = Budget { moves: epoch.budget };
        placement.propose(epoch.at, &self.view, budget, &mut self.proposed);
        self.epochs += 1;
        if let Some(problem) = placement.failure() {
            let problem = format!("the placement failed in epoch {}: {problem}", self.epochs);
            return Err(ReplayError::Placement(problem));
        }
        // Also where the moves differ: what was routed in this epoch says nothing of the next.
        let misrouted = std::mem::take(&mut self.misrouted);
        let row = EpochRow {
            epoch: self.epochs,
            at_s: epoch.at.as_secs_f64(),
            requests: std::mem::take(&mut self.requests),
            accesses: std::mem::take(&mut self.accesses),
            recorded: self.recorded.len() as u64,
            proposed: self.proposed.len() as u64,
            common: common(&self.recorded, &self.proposed),
            equal: self.recorded == self.proposed && !misrouted,
        };
        Ok(row)
    }
}

/// Number of moves that stand in both.
fn common(one: &[Move], other: &[Move]) -> u64 {
    if one == other {
        return one.len() as u64;
    }
    let known = |step: &Move| (step.chunk, step.to, step.how);
    let one: BTreeSet<_> = one.iter().map(known).collect();
    other.iter().filter(|step| one.contains(&known(step))).count() as u64
}

fn build(spec: &PolicySpec) -> Result<Box<dyn Placement>, ReplayError> {
    spec.build_placement().map_err(|error| ReplayError::Placement(error.to_string()))
}

#[cfg(test)]
mod tests;
