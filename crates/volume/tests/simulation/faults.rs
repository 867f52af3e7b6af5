//! Steps that harm disks: errors, silence, full disks, deaths, and bits that flip.
//!
//! Only what the group promises to survive: one pool at a time misbehaves or dies, and only when
//! another one holds the metadata; a bit flips only in a chunk with checksums.

use crate::model::Deed;
use crate::plan::Step;
use crate::run::Runner;
use thermocline_ports::SECTOR;
use thermocline_units::{Bytes, ChunkId, Nanos, VolumeId};
use thermocline_volume::{OperationKind, Place, PoolState};

/// Chunks that are read beside a rotten one, at most.
const OTHERS_READ: usize = 4;

/// A chunk whose unflushed writes died with its only pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loss {
    chunk: ChunkId,
    pool: usize,
    event: u64,
}

/// A bit that flipped: of which chunk, in which copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rot {
    pub(crate) chunk: ChunkId,
    pub(crate) place: Place,
}

/// A bit that is to flip.
struct Target {
    rot: Rot,
    /// The sector of its volume.
    sector: u64,
    /// The byte of the disk, and the bit in it.
    offset: Bytes,
    mask: u8,
    /// Other chunks with checksums, by volume and index, to be read beside this one.
    others: Vec<(u32, u32)>,
}

impl Runner<'_> {
    /// Does one step that harms a disk.
    pub(crate) fn harm(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Trouble { pool, fail, time_out, delay } => {
                // What fails too often is given up, so only a pool that can be missed misbehaves.
                if let Some(pool) = self.spare(pool) {
                    self.world.calm();
                    self.world.trouble(pool, fail, time_out, delay);
                    self.mark("troubles");
                }
            }
            Step::FailNth { pool, nth } => {
                let pool = usize::from(self.pool(pool).0);
                self.world.disk_mut(pool).fail_nth(nth.max(1).into());
            }
            Step::FailCopy { volume, chunk, copy, nth } => {
                if let Some(chunk) = self.chunk_of(volume, chunk) {
                    let pools = self.places_of(chunk).into_iter().map(|place| place.pool);
                    let pools: Vec<_> = pools.chain(self.redirected(chunk)).collect();
                    if let Some(pool) = pools.get(usize::from(copy) % pools.len().max(1)) {
                        self.world.disk_mut(pool.0.into()).fail_nth(nth.max(1).into());
                    }
                }
            }
            Step::Unplug { pool } => {
                if let Some(pool) = self.spare(pool) {
                    self.world.calm();
                    self.note_volatile(pool)?;
                    self.world.unplug_until_crash(pool);
                    self.note_lost();
                    self.mark("disks unplugged for a while");
                }
            }
            Step::FillUp { pool } => {
                if let Some(pool) = self.spare(pool) {
                    self.world.calm();
                    self.world.disk_mut(pool).fill_up();
                    self.mark("disks filled up");
                }
            }
            Step::Kill { pool } => {
                if let Some(pool) = self.spare(pool) {
                    self.world.calm();
                    self.note_volatile(pool)?;
                    self.world.disk_mut(pool).kill();
                    self.note_lost();
                    self.mark("disks killed");
                }
            }
            Step::Flip { nth, copy, bit } => self.flip(nth, copy, bit)?,
            _ => unreachable!("{step:?} harms no disk"),
        }
        Ok(())
    }

    /// Notes the chunks that have unflushed writes on this disk and are nowhere else: when it dies,
    /// the next flush of their volume must fail.
    fn note_volatile(&mut self, pool: usize) -> Result<(), String> {
        if self.state_of(pool) == Some(PoolState::Dead) {
            return Ok(()); // Given up before: that was told then.
        }
        let event = self.world.events();
        let Some(disk) = self.world.on_disk()? else { return Ok(()) };
        let chunk_size = self.plan.settings.chunk_size;
        for chunk in self.mapped_chunks() {
            let places = self.places_of(chunk);
            let [place] = places[..] else { continue };
            if usize::from(place.pool.0) != pool || self.redirected(chunk).is_some() {
                continue;
            }
            let Some(at) = disk.pools.get(pool) else { continue };
            let offset = Bytes(at.first_slot + u64::from(place.slot) * chunk_size.0);
            if self.world.disk_mut(pool).is_volatile(offset, chunk_size) {
                self.losses.push(Loss { chunk, pool, event });
            }
        }
        Ok(())
    }

    /// A flush of `volume` that was submitted at `event` was answered: a failure says that
    /// something may be lost; success must not hide that.
    pub(crate) fn check_losses(
        &mut self,
        volume: VolumeId,
        event: u64,
        well: bool,
    ) -> Result<(), String> {
        if !well {
            self.losses.retain(|loss| loss.chunk.volume != volume);
            return Ok(());
        }
        let hidden = self.losses.iter().find(|loss| {
            let there = self.places_of(loss.chunk);
            let there = there.iter().any(|place| usize::from(place.pool.0) == loss.pool);
            loss.chunk.volume == volume && loss.event < event && there
        });
        match hidden {
            Some(loss) => Err(format!(
                "a flush was answered well, but pool {} died with unflushed writes to {}",
                loss.pool, loss.chunk
            )),
            None => Ok(()),
        }
    }

    /// The pool of this number, if the group can go on without it: another one that is well holds
    /// the metadata.
    fn spare(&self, number: u8) -> Option<usize> {
        let pool = usize::from(self.pool(number).0);
        let disk = self.world.on_disk().ok()??;
        let other = disk.replicas.iter().map(|&replica| usize::from(replica)).any(|replica| {
            replica != pool
                && self.world.is_usable(replica)
                && !matches!(self.state_of(replica), Some(PoolState::Dead))
                && (self.state_of(replica) != Some(PoolState::Removing)
                    || !self.world.erred_since(replica, 0))
        });
        (other && self.world.is_usable(pool)).then_some(pool)
    }

    /// Flips a bit in a copy of a chunk with checksums. Reading it must show the contents that got
    /// checksums, or fail where there is no other copy; a scrub must find it.
    fn flip(&mut self, nth: u32, copy: u8, bit: u32) -> Result<(), String> {
        if self.placing {
            return Ok(()); // There may always be a move under way.
        }
        self.world.calm();
        for _ in 0..2 {
            // A copy that moves has its checksums voided: what the group wants to move by itself,
            // too.
            self.settle()?;
            self.until("coming to rest", |runner| runner.world.group().operations_pending() == 0)?;
            self.wait(Nanos::from_micros(250_000))?;
        }
        if self.world.group().operations_pending() > 0 {
            return Ok(());
        }
        let Some(target) = self.choose_rot(nth, copy, bit)? else {
            return Ok(());
        };
        let Target { rot, offset, mask, .. } = target;
        let pool = usize::from(rot.place.pool.0);
        self.world.disk_mut(pool).flip_bit(offset, mask);
        let start = Bytes(offset.0 / u64::from(SECTOR) * u64::from(SECTOR));
        let rotten = self.world.disk_mut(pool).peek(start, SECTOR);
        self.rot = Some(rot);
        self.mark("bits flipped");
        let places = self.places_of(rot.chunk);
        let bare = |place: &Place| {
            let status = self.world.group().pool_status(place.pool);
            status.is_some_and(|pool| !pool.checksums)
        };
        match bare(&rot.place) {
            true => self.mark("bits flipped in a copy without a table"),
            false if places.iter().any(bare) => self.mark("bits flipped beside a bare copy"),
            false => {}
        }
        self.world.tell(|| format!("a bit of {} flips on pool {pool}", rot.chunk));
        let volume = self.model.volumes().into_iter().find(|v| v.id == rot.chunk.volume);
        let birth = volume.expect("chunks with checksums belong to volumes").birth;
        self.meet_rot(&target, birth, bit)?;
        let now = self.world.now;
        self.world.group_mut().scrub(now);
        let said = self.world.exchange();
        self.hear(said)?;
        self.until("scrubbing", |runner| !runner.world.group().scrub_status().running)?;
        // A crash must not bring a copy back that was dropped: once its checksums are void by a
        // write, nothing tells that it is rotten.
        self.submit(birth, rot.chunk.volume, 0..0, Deed::Flush, None)?;
        let said = self.world.exchange();
        self.hear(said)?;
        self.settle()?;
        self.rot = None;
        let copies = self.places_of(rot.chunk);
        // The slot may hold a copy that was made anew.
        let still = self.world.disk_mut(pool).peek(start, SECTOR) == rotten;
        if copies.contains(&rot.place) && still {
            let on_disk = self.world.on_disk()?.ok_or("the disks hold no group")?;
            let checksummed =
                on_disk.checksummed.contains_key(&(rot.chunk.volume.0, rot.chunk.index));
            if copies.len() > 1 && checksummed {
                return Err(format!(
                    "a scrub left the rotten copy {:?} of {}",
                    rot.place, rot.chunk
                ));
            }
            self.world.disk_mut(pool).flip_bit(offset, mask);
        } else {
            self.mark("rotten copies found");
        }
        Ok(())
    }

    /// Whoever meets the rotten block first: a read of its sector, a read of all the chunk, an
    /// operation, or nobody before the scrub.
    fn meet_rot(&mut self, target: &Target, birth: u32, bit: u32) -> Result<(), String> {
        let &Target { rot, sector, .. } = target;
        let per_chunk = self.sectors_per_chunk();
        let first = sector / per_chunk * per_chunk;
        let volumes = self.model.volumes();
        let size = volumes.iter().find(|v| v.birth == birth).map_or(0, |v| v.sectors.count());
        let whole = first..(first + per_chunk).min(size);
        let read = match bit % 4 {
            0 => sector..sector + 1,
            1 => whole,
            2 => return Ok(()),
            _ => {
                self.operate_on(OperationKind::Migrate, rot.chunk, (bit / 4 % 8) as u8);
                let said = self.world.exchange();
                self.hear(said)?;
                self.settle()?;
                whole
            }
        };
        self.submit(birth, rot.chunk.volume, read, Deed::Read, None)?;
        if (bit / 32).is_multiple_of(2) {
            self.read_with_checksums(&target.others)?;
        }
        let said = self.world.exchange();
        self.hear(said)?;
        self.settle()
    }

    /// Reads a sector of each of these chunks: their checksums come into memory while a read is
    /// under way.
    fn read_with_checksums(&mut self, others: &[(u32, u32)]) -> Result<(), String> {
        let per_chunk = self.sectors_per_chunk();
        for &(volume, index) in others {
            let living = self.model.volumes().into_iter().find(|living| living.id.0 == volume);
            if let Some((birth, id)) = living.map(|living| (living.birth, living.id)) {
                let first = u64::from(index) * per_chunk;
                self.submit(birth, id, first..first + 1, Deed::Read, None)?;
            }
        }
        Ok(())
    }

    /// A bit in a copy of a chunk with checksums.
    fn choose_rot(&self, nth: u32, copy: u8, bit: u32) -> Result<Option<Target>, String> {
        let disk = self.world.on_disk()?.ok_or("the disks hold no group")?;
        let volumes = self.model.volumes();
        let checksummed: Vec<(u32, u32)> = disk
            .checksummed
            .keys()
            .copied()
            .filter(|(volume, _)| volumes.iter().any(|living| living.id.0 == *volume))
            .collect();
        let Some(&(volume, index)) = checksummed.get(nth as usize % checksummed.len().max(1))
        else {
            return Ok(None);
        };
        let volume = *volumes.iter().find(|living| living.id.0 == volume).expect("just filtered");
        let chunk = ChunkId { volume: volume.id, index };
        if self.redirected(chunk).is_some() {
            return Ok(None); // It has no checksums now; the journal has not heard of that yet.
        }
        let copies = self.places_of(chunk);
        let Some(&place) = copies.get(usize::from(copy) % copies.len().max(1)) else {
            return Ok(None);
        };
        let pool = usize::from(place.pool.0);
        if !self.world.is_usable(pool) {
            return Ok(None);
        }
        let per_chunk = self.sectors_per_chunk();
        let first = u64::from(index) * per_chunk;
        let sectors = per_chunk.min(volume.sectors.count() - first);
        let byte = u64::from(bit / 8) % (sectors * u64::from(SECTOR));
        let slot = u64::from(place.slot) * per_chunk * u64::from(SECTOR);
        let offset = Bytes(disk.pools[pool].first_slot + slot + byte);
        let sector = first + byte / u64::from(SECTOR);
        let others = checksummed.iter().filter(|&&of| of != (volume.id.0, index));
        let others = others.take(OTHERS_READ).copied().collect();
        let (rot, mask) = (Rot { chunk, place }, (bit % 8) as u8);
        Ok(Some(Target { rot, sector, offset, mask, others }))
    }
}
