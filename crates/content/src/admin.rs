//! Intake of requests: checks of ranges and names, and the start of each operation.

use crate::commit::Waiter;
use crate::format::{Record, VolumeRecord, is_name};
use crate::name::{BLOCK, Domain};
use crate::reading::For;
use crate::request::{Action, Completed, Quotas, Request, RequestError, RequestId, Tag};
use crate::settings::{REQUEST_BYTES_MAX, REQUESTS_MAX, VOLUME_BLOCKS_MAX, VOLUMES_MAX};
use crate::store::{Service, Store, Volume};
use thermocline_ports::{Device, SECTOR};
use thermocline_units::{Bytes, Nanos, VolumeId};

type Checked = Result<(), RequestError>;

impl<D: Device> Store<D> {
    /// Takes a request; `poll` returns its answer.
    pub fn submit(&mut self, now: Nanos, request: Request) {
        self.now = self.now.max(now);
        self.is_touched = true;
        let Request { id, action } = request;
        if self.service != Service::Ready {
            return self.answer(id, Err(RequestError::Stopped));
        }
        if self.writes.len() + self.reads.len() >= REQUESTS_MAX {
            return self.answer(id, Err(RequestError::TooMany));
        }
        if let Err(error) = self.begin_action(id, action) {
            self.answer(id, Err(error));
        }
    }

    fn begin_action(&mut self, id: RequestId, action: Action) -> Checked {
        let block = u64::from(BLOCK);
        match action {
            Action::Read { volume, offset, length } => {
                self.check_range(volume, offset, u64::from(length), SECTOR, REQUEST_BYTES_MAX)?;
                let first = offset.0 / block;
                let end = (offset.0 + u64::from(length)).div_ceil(block);
                let wanted = For::Client { from: (offset.0 % block) as u32, length };
                self.read_blocks(id, volume, first as u32, (end - first) as u32, wanted);
            }
            Action::Identify { volume, offset, blocks } => {
                let most = REQUEST_BYTES_MAX / BLOCK;
                let has_room = blocks > 0 && blocks <= most && offset.0.is_multiple_of(block);
                let it = self.volumes.get(&volume).ok_or(RequestError::NoVolume(volume))?;
                if !has_room || offset.0 / block + u64::from(blocks) > it.blocks() {
                    return Err(RequestError::Range);
                }
                self.read_blocks(id, volume, (offset.0 / block) as u32, blocks, For::Names);
            }
            Action::Write { volume, offset, data, fua } => {
                let length = u64::from(data.len());
                self.check_range(volume, offset, length, SECTOR, REQUEST_BYTES_MAX)?;
                self.check_writable(volume)?;
                self.write_data(id, volume, offset.0, data, fua);
            }
            Action::WriteKnown { volume, offset, contents, fua } => {
                let length = contents.len() as u64 * block;
                self.check_range(volume, offset, length, BLOCK, REQUEST_BYTES_MAX)?;
                self.check_writable(volume)?;
                self.write_names(id, volume, offset.0, contents, fua);
            }
            Action::Zero { volume, offset, length, fua } => {
                self.check_range(volume, offset, length.0, SECTOR, u32::MAX)?;
                self.check_writable(volume)?;
                self.write_zeroes(id, volume, offset.0, length.0, fua);
            }
            Action::Fetch { block } => self.read_by_number(id, block),
            Action::Flush => self.commit.join(Waiter::Answer(id, Completed::Done)),
            Action::Pin { domain, content } => self.pin_content(id, domain, content),
            Action::Create { name, size, domain, quotas } => {
                self.create(id, name, size, domain, quotas)?;
            }
            Action::Clone { from, name, read_only } => {
                self.clone_volume(id, from, name, read_only)?
            }
            Action::Delete { volume } => self.delete(id, volume)?,
            Action::SetTag { volume, tag } => {
                self.volumes.get_mut(&volume).ok_or(RequestError::NoVolume(volume))?.tag = tag;
                self.commit.append(&Record::Tag(volume, tag));
                self.commit.join(Waiter::Answer(id, Completed::Done));
            }
            Action::SetQuotas { volume, quotas } => {
                let it = self.volumes.get_mut(&volume).ok_or(RequestError::NoVolume(volume))?;
                it.quotas = quotas;
                self.commit.append(&Record::Quotas(volume, quotas));
                self.commit.join(Waiter::Answer(id, Completed::Done));
            }
        }
        Ok(())
    }

    /// Checks that a range is in the volume, in whole units of `unit` bytes, and not longer than
    /// `most` bytes; `u32::MAX` allows any length.
    fn check_range(
        &self,
        volume: VolumeId,
        offset: Bytes,
        length: u64,
        unit: u32,
        most: u32,
    ) -> Checked {
        if !self.volumes.contains_key(&volume) {
            return Err(RequestError::NoVolume(volume));
        }
        let unit = u64::from(unit);
        let is_aligned = offset.0.is_multiple_of(unit) && length.is_multiple_of(unit);
        let is_short = most == u32::MAX || length <= u64::from(most);
        // Names are of whole blocks; the last block of a volume may be cut off.
        let size = self.volumes[&volume].blocks() * u64::from(BLOCK);
        let is_names = unit == u64::from(BLOCK)
            && offset.0.checked_add(length).is_some_and(|end| length > 0 && end <= size);
        match is_aligned && is_short && (is_names || self.is_within(volume, offset, length)) {
            true => Ok(()),
            false => Err(RequestError::Range),
        }
    }

    fn check_writable(&self, volume: VolumeId) -> Checked {
        match self.volumes[&volume].read_only {
            true => Err(RequestError::ReadOnly),
            false => Ok(()),
        }
    }

    fn check_name(&self, name: &str) -> Checked {
        if !is_name(name) || self.volumes.values().any(|volume| volume.name == name) {
            return Err(RequestError::Name);
        }
        if self.volumes.len() >= VOLUMES_MAX || self.next_volume == u32::MAX {
            return Err(RequestError::TooMany);
        }
        Ok(())
    }

    fn next_id(&mut self) -> VolumeId {
        self.next_volume += 1;
        VolumeId(self.next_volume - 1)
    }

    fn create(
        &mut self,
        id: RequestId,
        name: String,
        size: Bytes,
        domain: Domain,
        quotas: Quotas,
    ) -> Checked {
        self.check_name(&name)?;
        let blocks = size.0.div_ceil(u64::from(BLOCK));
        let is_sound =
            blocks > 0 && blocks <= VOLUME_BLOCKS_MAX && size.0.is_multiple_of(u64::from(SECTOR));
        if !is_sound {
            return Err(RequestError::Range);
        }
        let volume = self.next_id();
        let record = VolumeRecord {
            id: volume,
            name,
            size,
            domain,
            read_only: false,
            quotas,
            mapped: 0,
            version: 0,
            origin: VolumeId(0),
            tag: Tag::default(),
            root: 0,
        };
        self.commit.append(&Record::Volume(record.clone()));
        self.volumes.insert(volume, Volume::of(record, 0, &self.nodes));
        self.commit.join(Waiter::Answer(id, Completed::Created(volume)));
        Ok(())
    }

    fn clone_volume(
        &mut self,
        id: RequestId,
        from: VolumeId,
        name: String,
        read_only: bool,
    ) -> Checked {
        if !self.volumes.contains_key(&from) {
            return Err(RequestError::NoVolume(from));
        }
        self.check_name(&name)?;
        let volume = self.next_id();
        let record = Record::Clone { id: volume, from, read_only, name: name.clone() };
        self.commit.append(&record);
        let copy = self.volumes[&from].copy(from, name, read_only, &mut self.nodes);
        self.volumes.insert(volume, copy);
        self.commit.join(Waiter::Answer(id, Completed::Created(volume)));
        Ok(())
    }

    fn delete(&mut self, id: RequestId, volume: VolumeId) -> Checked {
        let it = self.volumes.remove(&volume).ok_or(RequestError::NoVolume(volume))?;
        self.nodes.release(it.root);
        self.commit.append(&Record::Deleted(volume));
        self.commit.join(Waiter::Answer(id, Completed::Done));
        Ok(())
    }
}
