//! Steps that ask something of the group, or do something to its disks.

use crate::model::{Deed, Flight, Volume};
use crate::plan::{PoolPlan, Span, Step};
use crate::run::{PATIENCE, Runner};
use crate::stamp::{self, Place};
use std::collections::BTreeSet;
use std::ops::Range;
use thermocline_ports::{Device, SECTOR};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};
use thermocline_volume::{
    Action, AdminError, Operation, OperationKind, PoolState, Priority, Request, RequestId, Service,
};

const SECTOR_BYTES: u64 = SECTOR as u64;

/// Volumes of a run: enough for any confusion.
const VOLUMES_MAX: usize = 6;
const POOLS_MAX: usize = 8;
/// Requests in flight above which whole volumes are filled slower.
const FLIGHTS_MAX: usize = 1000;

impl Runner<'_> {
    /// Does one step that needs the group in service.
    pub(crate) fn ask(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Read(span) => self.request(span, Deed::Read, None),
            Step::Write { span, fua, patience } => {
                self.request(span, Deed::Write { fua }, patience)
            }
            Step::WriteZeroes { span, fua } => self.request(span, Deed::WriteZeroes { fua }, None),
            Step::Discard(span) => self.request(span, Deed::Discard, None),
            Step::Flush { volume } => {
                self.request(Span { volume, sector: 0, sectors: 0 }, Deed::Flush, None)
            }
            Step::Operate { kind, nth, to } => {
                self.operate(kind, nth, to);
                Ok(())
            }
            Step::OperateOn { kind, volume, chunk, to } => {
                if let Some(chunk) = self.chunk_of(volume, chunk) {
                    self.operate_on(kind, chunk, to);
                }
                Ok(())
            }
            Step::Populate { volume, first, chunks } => self.populate(volume, first, chunks),
            Step::Cancel { nth } => {
                self.cancel(nth);
                Ok(())
            }
            Step::CreateVolume { sectors } => self.create_volume(sectors),
            Step::GrowVolume { volume, sectors } => self.grow_volume(volume, sectors),
            Step::DeleteVolume { volume } => self.delete_volume(volume),
            Step::Place { seed } => {
                let placement = seed.map(|seed| self.make_placement(seed));
                self.placing = seed.is_some() || !self.world.group().hints().is_empty();
                self.world.group_mut().set_placement(placement);
                Ok(())
            }
            Step::Lend { percent } => {
                self.world.group_mut().set_lent_percent(percent);
                Ok(())
            }
            Step::Hint { volume, seed } => {
                self.hint(volume, seed);
                Ok(())
            }
            Step::AddPool(_)
            | Step::AddPoolBefore { .. }
            | Step::GrowPool { .. }
            | Step::DrainPool { .. }
            | Step::UndrainPool { .. }
            | Step::RemovePool { .. }
            | Step::Scrub => {
                self.arrange(step);
                Ok(())
            }
            _ => self.harm(step),
        }
    }

    /// Changes pools.
    fn arrange(&mut self, step: &Step) {
        let now = self.world.now;
        match *step {
            Step::AddPool(pool) => self.add_pool(pool, None),
            Step::AddPoolBefore { pool, before } => self.add_pool(pool, Some(before)),
            Step::GrowPool { pool, chunks } => self.grow_pool(pool, chunks),
            Step::DrainPool { pool } => {
                let pool = self.pool(pool);
                // Refused while nothing else takes chunks: that is the group's to judge.
                let _ = self.world.group_mut().drain_pool(now, pool);
            }
            Step::UndrainPool { pool } => {
                let pool = self.pool(pool);
                if self.world.group_mut().undrain_pool(now, pool).is_ok() {
                    self.mark("drains taken back");
                }
            }
            Step::RemovePool { pool } => {
                let pool = self.removable(pool);
                let _ = self.world.group_mut().remove_pool(now, pool);
            }
            Step::Scrub => {
                self.world.group_mut().scrub(now);
            }
            _ => {}
        }
    }

    fn add_pool(&mut self, plan: PoolPlan, before: Option<u8>) {
        if self.pools.len() >= POOLS_MAX {
            return;
        }
        let before = before.map(|number| self.pool(number));
        let (now, spec) = (self.world.now, self.world.plug_in(&plan, &self.plan.settings));
        let fits = self.world.group_mut().check_pool(&spec).is_ok();
        let added = self.world.group_mut().add_pool_before(now, spec, before);
        assert!(fits == added.is_ok() || before.is_some(), "a check says what would be");
        match added {
            Ok(_) => {
                self.pools.push(plan);
                if before.is_some() {
                    self.mark("pools added before others");
                }
            }
            Err(_) => self.world.unplug(),
        }
    }

    /// True if pools were added, or have grown: their chunks may take what was kept for volumes.
    pub(crate) fn has_more_room_than_at_first(&self) -> bool {
        self.grown || self.pools.len() > self.plan.pools.len()
    }

    /// The disk is larger also when the pool does not grow, and what lies behind the pool then is
    /// not known to read as zeroes any more.
    fn grow_pool(&mut self, number: u8, chunks: u32) {
        let pool = self.pool(number);
        let index = usize::from(pool.0);
        if !self.world.is_usable(index) {
            return;
        }
        let more = u64::from(chunks) * self.plan.settings.chunk_size.0;
        let disk = self.world.disk_mut(index);
        let before = disk.geometry().size;
        let size = Bytes(before.0 + more);
        disk.grow(size);
        let zeroed_from = if self.pools[index].zeroed { before } else { Bytes(u64::MAX) };
        let now = self.world.now;
        let checked = self.world.group_mut().check_growth(pool, size);
        let grown = self.world.group_mut().grow_pool(now, pool, size, zeroed_from);
        assert_eq!(checked.is_ok(), grown.is_ok(), "a check says what would be: {checked:?}");
        self.world.tell(|| format!("{pool:?} shall have {size}: {grown:?}"));
        if grown.is_ok() {
            self.mark("pools grown");
            self.grown = true;
        }
    }

    fn request(&mut self, span: Span, deed: Deed, patience: Option<u32>) -> Result<(), String> {
        let Some((birth, volume, range)) = self.resolve(span) else { return Ok(()) };
        let range = if deed == Deed::Flush { 0..0 } else { range };
        self.submit(birth, volume, range, deed, patience)
    }

    /// Submits a request, and tells the model.
    pub(crate) fn submit(
        &mut self,
        birth: u32,
        volume: VolumeId,
        range: Range<u64>,
        deed: Deed,
        patience: Option<u32>,
    ) -> Result<(), String> {
        self.requests += 1;
        let number = self.requests;
        let action = action(number, birth, &range, deed);
        let deadline = patience.map(|us| Nanos(self.world.now.0 + u64::from(us) * 1000));
        let priority =
            deadline.map_or(Priority::Foreground, |deadline| Priority::Background { deadline });
        self.world.tell(|| format!("request {number}: {deed:?} {range:?} of {volume}"));
        let request = Request { id: RequestId(number), volume, action, priority };
        if !self.is_taken(request)? {
            return Ok(()); // The group is out of service.
        }
        let event = self.world.events();
        let flight = Flight { deed, birth, volume, range, submitted: 0, event };
        if self.is_out_of_reach(&flight) {
            self.excused.insert(number);
        }
        if !self.has_room() {
            self.full = Some(event);
        }
        self.model.submit(number, flight);
        Ok(())
    }

    /// Hands the group a request until it takes it; false if it goes out of service first. What
    /// waits for a pool that nobody else waits for is taken at once, while few pools have any.
    fn is_taken(&mut self, request: Request) -> Result<bool, String> {
        let (mut request, since) = (request, self.world.now);
        loop {
            if self.world.now.saturating_sub(since) > PATIENCE {
                return Err(format!("a request is not taken for an hour; {}", self.open_ends()));
            }
            if *self.world.group().service() != Service::Ready {
                return Ok(false);
            }
            let (now, number) = (self.world.now, request.id.0);
            let share = self.world.group().counts_for(&request);
            let Err(back) = self.world.group_mut().submit(now, request) else {
                self.shares.insert(number, share);
                return Ok(true);
            };
            let open = self.model.flights().keys().filter_map(|number| self.shares.get(number));
            let open: BTreeSet<Option<PoolId>> = open.copied().collect();
            // Each pool with requests in flight leaves half of what it finds.
            let left = self.plan.settings.limits.requests >> open.len();
            let shared = self.plan.pools.len() > 1; // One pool may have all of them.
            if shared && left > 0 && !open.contains(&share) {
                let what = "was handed back though nobody else waits for";
                return Err(format!("request {number} {what} {share:?}, beside {open:?}"));
            }
            let said = self.world.exchange();
            self.hear(said)?;
            if !self.event()? {
                return Err(format!("a request is never taken; {}", self.open_ends()));
            }
            request = back;
        }
    }

    /// Reads a volume behind the model's back.
    pub(crate) fn probe(&mut self, volume: VolumeId, range: Range<u64>) -> Result<(), String> {
        self.requests += 1;
        let action = action(self.requests, 0, &range, Deed::Read);
        let id = RequestId(self.requests);
        let request = Request { id, volume, action, priority: Priority::Foreground };
        self.probe = Some((id.0, None));
        let now = self.world.now;
        let handed_back = self.world.group_mut().submit(now, request).is_err();
        assert!(!handed_back, "hardly anything else is in flight");
        let said = self.world.exchange();
        self.hear(said)?;
        self.until("reading back", |runner| {
            runner.probe.as_ref().is_none_or(|(_, reply)| reply.is_some())
        })
    }

    /// Rather on a chunk that is mapped, and to a pool that may take it.
    fn operate(&mut self, kind: OperationKind, nth: u32, to: u8) {
        let mapped = self.mapped_chunks();
        let Some(&chunk) = mapped.get(nth as usize % mapped.len().max(1)) else { return };
        self.operate_on(kind, chunk, to);
    }

    pub(crate) fn operate_on(&mut self, kind: OperationKind, chunk: ChunkId, to: u8) {
        let held: Vec<PoolId> = self.places_of(chunk).iter().map(|place| place.pool).collect();
        let takes = |pool: &PoolId| {
            self.state_of(usize::from(pool.0)) == Some(PoolState::Active) && !held.contains(pool)
        };
        let mirrored = self.world.group().locate(chunk).and_then(|status| status.mirrored_on);
        let able: Vec<PoolId> = match mirrored {
            // To be made equal, or brought together on either side.
            Some(other) => held.iter().copied().chain([other]).collect(),
            None => (0..self.pools.len() as u16).map(PoolId).filter(takes).collect(),
        };
        let to = match able.is_empty() {
            true => self.pool(to),
            false => able[usize::from(to) % able.len()],
        };
        let operation = Operation { kind, chunk, to };
        let now = self.world.now;
        let started = self.world.group_mut().start(now, operation);
        self.world.tell(|| format!("{operation:?}: {started:?}"));
        match started {
            Ok(id) => {
                self.operations.insert(id, operation);
                self.note_lost();
            }
            Err(_) => self.mark("operations refused"),
        }
    }

    /// The chunk of this number in the volume of this number.
    pub(crate) fn chunk_of(&self, volume: u8, chunk: u32) -> Option<ChunkId> {
        let per_chunk = self.sectors_per_chunk();
        let volume = self.volume(volume)?;
        let count = volume.sectors.count().div_ceil(per_chunk);
        Some(ChunkId { volume: volume.id, index: (u64::from(chunk) % count) as u32 })
    }

    fn populate(&mut self, volume: u8, first: u32, chunks: u32) -> Result<(), String> {
        let per_chunk = self.sectors_per_chunk() as u32;
        for chunk in first..first + chunks {
            if self.model.flights().len() >= FLIGHTS_MAX {
                self.settle()?;
            }
            let sector = chunk * per_chunk + chunk % per_chunk / 8 * 8;
            let span = Span { volume, sector, sectors: 8 };
            self.request(span, Deed::Write { fua: false }, None)?;
            let said = self.world.exchange();
            self.hear(said)?;
        }
        Ok(())
    }

    pub(crate) fn mapped_chunks(&self) -> Vec<ChunkId> {
        let per_chunk = self.sectors_per_chunk();
        let chunks = self.model.volumes().into_iter().flat_map(|volume| {
            let count = volume.sectors.count().div_ceil(per_chunk) as u32;
            let id = volume.id;
            (0..count).map(move |index| ChunkId { volume: id, index })
        });
        chunks.filter(|&chunk| !self.places_of(chunk).is_empty()).collect()
    }

    /// One that is switching already cannot be cancelled; it ends all the same.
    fn cancel(&mut self, nth: u8) {
        let count = self.operations.len().max(1);
        let chosen = self.operations.keys().nth(usize::from(nth) % count).copied();
        if let Some(id) = chosen {
            let now = self.world.now;
            let found = self.world.group_mut().cancel(now, id);
            self.cancelled.extend(found.then_some(id));
            self.world.tell(|| format!("cancel {id:?}: {found}"));
        }
    }

    fn create_volume(&mut self, sectors: u32) -> Result<(), String> {
        if self.model.volumes().len() >= VOLUMES_MAX {
            return Ok(());
        }
        let (now, size) = (self.world.now, Bytes(u64::from(sectors) * SECTOR_BYTES));
        match self.world.group_mut().create_volume(now, size) {
            Ok(id) => self.model.create(id, sectors.into()),
            // Chunks that came later have taken the room that was kept for volumes.
            Err(AdminError::VolumeRoom) if self.has_more_room_than_at_first() => {
                self.mark("volumes refused for want of room");
                Ok(())
            }
            Err(error) => Err(format!("a volume of {size} was refused: {error}")),
        }
    }

    fn grow_volume(&mut self, volume: u8, sectors: u32) -> Result<(), String> {
        let Some(volume) = self.volume(volume) else { return Ok(()) };
        let (birth, id, to) =
            (volume.birth, volume.id, volume.sectors.count() + u64::from(sectors));
        let now = self.world.now;
        match self.world.group_mut().grow_volume(now, id, Bytes(to * SECTOR_BYTES)) {
            Ok(()) => {
                self.model.grow(birth, to);
                Ok(())
            }
            Err(error) => Err(format!("{id} may not grow to {to} sectors: {error}")),
        }
    }

    fn delete_volume(&mut self, volume: u8) -> Result<(), String> {
        let Some(volume) = self.volume(volume) else { return Ok(()) };
        let (birth, id, now) = (volume.birth, volume.id, self.world.now);
        match self.world.group_mut().delete_volume(now, id) {
            Ok(()) => {
                self.model.delete(birth);
                Ok(())
            }
            Err(error) => Err(format!("{id} may not be deleted: {error}")),
        }
    }

    pub(crate) fn state_of(&self, pool: usize) -> Option<PoolState> {
        self.world.group().pool_status(PoolId(pool as u16)).map(|status| status.state)
    }

    pub(crate) fn sectors_per_chunk(&self) -> u64 {
        self.plan.settings.chunk_size.0 / SECTOR_BYTES
    }

    fn volume(&self, number: u8) -> Option<&Volume> {
        let volumes = self.model.volumes();
        let count = volumes.len().max(1);
        volumes.get(usize::from(number) % count).copied()
    }

    pub(crate) fn pool(&self, number: u8) -> PoolId {
        PoolId(u16::from(number) % self.pools.len() as u16)
    }

    /// Rather a pool that can be removed than any.
    fn removable(&self, number: u8) -> PoolId {
        let ready = |&pool: &usize| {
            matches!(self.state_of(pool), Some(PoolState::Drained | PoolState::Dead))
        };
        let ready: Vec<usize> = (0..self.pools.len()).filter(ready).collect();
        match ready.is_empty() {
            true => self.pool(number),
            false => PoolId(ready[usize::from(number) % ready.len()] as u16),
        }
    }

    /// The volume and the sectors that a span means at this moment.
    fn resolve(&self, span: Span) -> Option<(u32, VolumeId, Range<u64>)> {
        let volume = self.volume(span.volume)?;
        let size = volume.sectors.count();
        let first = u64::from(span.sector) % size;
        let end = (first + u64::from(span.sectors).max(1)).min(size);
        Some((volume.birth, volume.id, first..end))
    }
}

fn action(number: u64, birth: u32, range: &Range<u64>, deed: Deed) -> Action {
    let offset = Bytes(range.start * SECTOR_BYTES);
    let sectors = range.end - range.start;
    let length = Bytes(sectors * SECTOR_BYTES);
    match deed {
        Deed::Read => Action::Read { offset, length: length.0 as u32 },
        Deed::Write { fua } => {
            let place = Place { birth, sector: range.start as u32 };
            let payload = stamp::payload(number, place, sectors as u32);
            Action::Write { offset, payload, fua }
        }
        Deed::WriteZeroes { fua } => Action::WriteZeroes { offset, length, fua },
        Deed::Discard => Action::Discard { offset, length },
        Deed::Flush => Action::Flush,
    }
}
