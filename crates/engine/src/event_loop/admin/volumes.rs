//! Volumes: made, grown, deleted; where they live and where they are used.

use super::super::clients::{Answered, Urgency};
use super::super::heat::{COLUMNS, ROW};
use super::{AdminApi, refused};
use crate::VolumeDevice;
use crate::api::{Extent, Heat, Volume};
use thermocline_admin::api::{Refused, Severity};
use thermocline_nbd::Export;
use thermocline_policy::placement::Sla;
use thermocline_units::{Bytes, ChunkId, VolumeId};
use thermocline_volume::{Action, VolumeStatus};

/// Extents told at once.
const EXTENTS_MAX: usize = 10_000;
/// Clients named at once, and one.
const CLIENTS_TOLD: usize = 7;
/// Chunks of a heat column that are looked at to tell where it lives.
const SAMPLES: u64 = 64;

impl AdminApi<'_> {
    /// Volumes that exist.
    pub fn volumes(&self) -> Vec<Volume> {
        let volume = |volume: VolumeStatus| Volume {
            name: volume.name,
            identity: volume.identity,
            number: volume.id.0,
            size_bytes: volume.size.0,
            sla: volume.sla.as_ref().map(Into::into),
        };
        self.engine.group.volumes().map(volume).collect()
    }

    /// Volumes by id, with their names and sizes.
    pub(crate) fn volume_sizes(&self) -> Vec<(VolumeId, String, Bytes)> {
        let export =
            |export: &Export| (VolumeId(export.volume), export.name.clone(), Bytes(export.size));
        self.engine.exports.iter().map(export).collect()
    }

    /// Sets the SLA of a volume; `None` ends it. It is not kept over a restart.
    ///
    /// # Errors
    /// When there is no such volume.
    pub fn set_sla(&mut self, name: &str, sla: Option<Sla>) -> Result<(), Refused> {
        let volume = self.volume(name)?;
        self.engine.group.set_sla(volume, sla).map_err(refused)
    }

    fn volume_told(&self, name: &str) -> Volume {
        let found = self.volumes().into_iter().find(|volume| volume.name == name);
        found.expect("it was just made or grown")
    }

    /// Makes a volume that reads as zeroes; without a name it gets `v` and its number, or the next
    /// that is free.
    ///
    /// # Errors
    /// When the name is taken or will not do, the size will not do, or there is no room for more
    /// volumes.
    pub fn create_volume(&mut self, name: Option<&str>, size: Bytes) -> Result<Volume, Refused> {
        let now = self.engine.now();
        let id = self.engine.group.create_named_volume(now, name, size).map_err(refused)?;
        self.engine.name_exports();
        self.engine.counts.note_volume(id, size.0);
        let name = self.name_of(id);
        self.engine.event(Severity::Info, "volume", format!("{name} of {size} was made"));
        Ok(self.volume_told(&name))
    }

    /// Makes a volume larger. Clients see the new size when they attach it again: the NBD standard
    /// has no message for it.
    ///
    /// # Errors
    /// When there is no such volume, or the size is smaller than it is.
    pub fn grow_volume(&mut self, name: &str, size: Bytes) -> Result<Volume, Refused> {
        let id = self.volume(name)?;
        let now = self.engine.now();
        self.engine.group.grow_volume(now, id, size).map_err(refused)?;
        self.engine.name_exports();
        self.engine.counts.note_volume(id, size.0);
        self.engine.event(Severity::Info, "volume", format!("{name} has {size} now"));
        Ok(self.volume_told(name))
    }

    /// Gives a volume to a machine in this process, as a device; from then on no client may attach
    /// it, and nobody deletes it.
    ///
    /// # Errors
    /// When there is no such volume, it is held already, clients have it attached, or the system
    /// gives no pair of sockets.
    pub fn hold_volume(&mut self, name: &str, holder: &str) -> Result<VolumeDevice, Refused> {
        let id = self.volume(name)?;
        if let Some(holder) = self.engine.holders.get(&id) {
            return Err(Refused::conflict(format!("{name} is in use by {holder} already")));
        }
        if let [client, ..] = &self.engine.attached(id)[..] {
            let text = format!("{name} is attached by {client}; detach it there first");
            return Err(Refused::conflict(text));
        }
        let (mailbox, size) = (self.engine.mailbox(), Bytes(self.size_of(id)));
        let device = VolumeDevice::new(mailbox, (id, name), size);
        let device = device.map_err(|error| Refused::unavailable(error.to_string()))?;
        self.engine.holders.insert(id, holder.to_string());
        self.engine.name_exports();
        Ok(device)
    }

    /// Carries out a request of a machine that holds a volume.
    pub(crate) fn ask_within(
        &mut self,
        volume: VolumeId,
        action: Action,
        urgency: Urgency,
        answered: Answered,
    ) {
        self.engine.ask_within(volume, action, urgency, answered);
    }

    /// Deletes a volume with all it holds.
    ///
    /// # Errors
    /// When there is no such volume, or clients have it attached.
    pub fn delete_volume(&mut self, name: &str) -> Result<(), Refused> {
        let id = self.volume(name)?;
        if let Some(holder) = self.engine.holders.get(&id) {
            let text = format!("{name} is in use by {holder} in this process");
            return Err(Refused::conflict(text));
        }
        let attached = self.engine.attached(id);
        if let Some((last, others)) = attached.split_last() {
            let mut who = last.clone();
            if !others.is_empty() {
                let shown = others.len().min(CLIENTS_TOLD);
                let more = others.len() - shown;
                who = format!("{}, {who}", others[..shown].join(", "));
                who += &if more > 0 { format!(" and {more} more") } else { String::new() };
            }
            let text = format!("{name} is attached by {who}; detach it there first");
            return Err(Refused::conflict(text));
        }
        let now = self.engine.now();
        self.engine.group.delete_volume(now, id).map_err(refused)?;
        // The next volume may have its number.
        self.engine.give_up_refused(now, |_, volume| volume == id);
        self.engine.cancel_jobs_of(id);
        self.engine.name_exports();
        self.engine.counts.forget_volume(id);
        self.engine.event(Severity::Info, "volume", format!("{name} was deleted"));
        Ok(())
    }

    pub(super) fn volume(&self, name: &str) -> Result<VolumeId, Refused> {
        let export = self.engine.exports.iter().find(|export| export.name == name);
        let missing = || {
            let names: Vec<&str> =
                self.engine.exports.iter().map(|export| export.name.as_str()).collect();
            let hint = match &names[..] {
                [] => "there are none: make one first".to_string(),
                names => format!("there are: {}", names.join(", ")),
            };
            Refused::missing(format!("there is no volume {name}; {hint}"))
        };
        export.map(|export| VolumeId(export.volume)).ok_or_else(missing)
    }

    /// The name of a volume; of one that is being deleted, its number.
    pub(super) fn name_of(&self, volume: VolumeId) -> String {
        let export = self.engine.exports.iter().find(|export| export.volume == volume.0);
        export.map_or_else(|| volume.to_string(), |export| export.name.clone())
    }

    fn size_of(&self, volume: VolumeId) -> u64 {
        let export = self.engine.exports.iter().find(|export| export.volume == volume.0);
        export.map_or(0, |export| export.size)
    }

    /// Homes of the chunks of a range, runs of equal ones together; at most 10,000 runs.
    ///
    /// # Errors
    /// When there is no such volume, or the range begins beyond its end.
    pub fn extents(
        &self,
        name: &str,
        offset: u64,
        length: Option<u64>,
    ) -> Result<Vec<Extent>, Refused> {
        let volume = self.volume(name)?;
        let range = self.chunks_of(volume, offset, length)?;
        let chunk_size = self.engine.group.chunk_size().0;
        let size = self.size_of(volume);
        let mut extents: Vec<Extent> = Vec::new();
        for index in range {
            let Some(chunk) = self.engine.group.locate(ChunkId { volume, index }) else { break };
            let start = u64::from(index) * chunk_size;
            let extent = Extent {
                offset_bytes: start,
                length_bytes: chunk_size.min(size - start),
                pools: chunk.copies.iter().map(|copy| copy.place.pool.0).collect(),
                kept_on: chunk.kept_on().map(|pool| pool.0),
                redirected_to: chunk.redirected_to.map(|pool| pool.0),
                mirrored_on: chunk.mirrored_on.map(|pool| pool.0),
                pinned: chunk.pinned,
                reads: u64::from(chunk.reads),
                writes: u64::from(chunk.writes),
            };
            let full = extents.len() == EXTENTS_MAX;
            match extents.last_mut() {
                Some(last) if is_alike(last, &extent) => {
                    last.length_bytes += extent.length_bytes;
                    last.reads += extent.reads;
                    last.writes += extent.writes;
                }
                _ if full => break,
                _ => extents.push(extent),
            }
        }
        Ok(extents)
    }

    /// The chunks that a range of bytes touches.
    pub(super) fn chunks_of(
        &self,
        volume: VolumeId,
        offset: u64,
        length: Option<u64>,
    ) -> Result<std::ops::Range<u32>, Refused> {
        let size = self.size_of(volume);
        let end = length.map_or(Some(size), |length| offset.checked_add(length));
        let end = end.filter(|&end| end <= size && offset < end).ok_or_else(|| {
            let name = self.name_of(volume);
            let size = Bytes(size);
            Refused::invalid(format!("the range is empty, or ends beyond {name}: it has {size}"))
        })?;
        let chunk_size = self.engine.group.chunk_size().0;
        Ok((offset / chunk_size) as u32..end.div_ceil(chunk_size) as u32)
    }

    /// Accesses to a volume in the last minutes, from a row on.
    ///
    /// # Errors
    /// When there is no such volume.
    pub fn heat(&self, name: &str, from_row: u64) -> Result<Heat, Refused> {
        let volume = self.volume(name)?;
        let heat = self.engine.counts.heat_of(volume).expect("every volume has a heat map");
        let (first_row, rows) = heat.rows_from(from_row);
        let columns = 0..COLUMNS;
        Ok(Heat {
            volume: name.to_string(),
            column_bytes: heat.column,
            row_seconds: ROW.as_secs_f64(),
            first_row,
            rows,
            pools: columns.map(|column| self.shares(volume, column, heat.column)).collect(),
        })
    }

    /// The share of a column's chunks on each pool; of large ones, of a sample.
    fn shares(&self, volume: VolumeId, column: u64, bytes: u64) -> Vec<f64> {
        let group = &self.engine.group;
        let chunk_size = group.chunk_size().0;
        let mut counts = vec![0_u64; usize::from(group.pool_count())];
        let size = self.size_of(volume);
        let (start, end) = (column * bytes, size.min((column + 1) * bytes));
        if start >= end {
            return vec![0.0; counts.len()];
        }
        let (first, last) = (start / chunk_size, (end - 1) / chunk_size);
        let step = (last - first + 1).div_ceil(SAMPLES);
        let mut looked = 0;
        for index in (first..=last).step_by(step as usize) {
            looked += 1;
            if let Some(pool) = group.pool_of(ChunkId { volume, index: index as u32 }) {
                counts[usize::from(pool.0)] += 1;
            }
        }
        counts.into_iter().map(|count| count as f64 / f64::from(looked)).collect()
    }
}

/// True if two neighbouring runs can be told as one.
fn is_alike(one: &Extent, other: &Extent) -> bool {
    let place =
        |extent: &Extent| (extent.kept_on, extent.redirected_to, extent.mirrored_on, extent.pinned);
    one.pools == other.pools && place(one) == place(other)
}
