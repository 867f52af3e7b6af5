//! Requests about volumes: checks of ranges and names, and what changes without the device.

use crate::format::{Record, VolumeRecord};
use crate::journal::Waiter;
use crate::name::{BLOCK, Domain};
use crate::request::{Completed, Quotas, RequestError, RequestId, Tag};
use crate::settings::{VOLUME_BLOCKS_MAX, VOLUMES_MAX, is_volume_name};
use crate::state::StoreState;
use crate::volume::Volume;
use thermocline_ports::SECTOR;
use thermocline_units::{Bytes, VolumeId};

pub(crate) type Checked = Result<(), RequestError>;

/// Checks that a range is in the volume, in whole units of `unit` bytes, and not longer than
/// `most` bytes; `u32::MAX` allows any length.
pub(crate) fn check_range(
    state: &StoreState,
    volume: VolumeId,
    offset: Bytes,
    length: u64,
    unit: u32,
    most: u32,
) -> Checked {
    if !state.volumes.contains_key(&volume) {
        return Err(RequestError::NoVolume(volume));
    }
    let unit = u64::from(unit);
    let is_aligned = offset.0.is_multiple_of(unit) && length.is_multiple_of(unit);
    let is_short = most == u32::MAX || length <= u64::from(most);
    // Names are of whole blocks; the last block of a volume may be cut off.
    let size = state.volumes[&volume].blocks() * u64::from(BLOCK);
    let is_names = unit == u64::from(BLOCK)
        && offset.0.checked_add(length).is_some_and(|end| length > 0 && end <= size);
    match is_aligned && is_short && (is_names || is_within(state, volume, offset, length)) {
        true => Ok(()),
        false => Err(RequestError::Range),
    }
}

pub(crate) fn check_writable(state: &StoreState, volume: VolumeId) -> Checked {
    match state.volumes[&volume].read_only {
        true => Err(RequestError::ReadOnly),
        false => Ok(()),
    }
}

fn check_name(state: &StoreState, name: &str) -> Checked {
    if !is_volume_name(name) {
        return Err(RequestError::Name);
    }
    if state.volumes.values().any(|volume| volume.name == name) {
        return Err(RequestError::NameTaken);
    }
    if state.volumes.len() >= VOLUMES_MAX || state.next_volume == u32::MAX {
        return Err(RequestError::TooMany);
    }
    Ok(())
}

fn next_id(state: &mut StoreState) -> VolumeId {
    state.next_volume += 1;
    VolumeId(state.next_volume - 1)
}

/// Makes an empty volume.
pub(crate) fn create(
    state: &mut StoreState,
    id: RequestId,
    name: String,
    size: Bytes,
    domain: Domain,
    quotas: Quotas,
) -> Checked {
    check_name(state, &name)?;
    let blocks = size.0.div_ceil(u64::from(BLOCK));
    let is_sound =
        blocks > 0 && blocks <= VOLUME_BLOCKS_MAX && size.0.is_multiple_of(u64::from(SECTOR));
    if !is_sound {
        return Err(RequestError::Range);
    }
    let volume = next_id(state);
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
    state.journal.append(&Record::Volume(record.clone()));
    state.volumes.insert(volume, Volume::of(record, 0, &state.nodes));
    state.journal.join(Waiter::Answer(id, Completed::Created(volume)));
    Ok(())
}

/// Makes a volume with the contents of another one.
pub(crate) fn clone_volume(
    state: &mut StoreState,
    id: RequestId,
    from: VolumeId,
    name: String,
    read_only: bool,
) -> Checked {
    if !state.volumes.contains_key(&from) {
        return Err(RequestError::NoVolume(from));
    }
    check_name(state, &name)?;
    let volume = next_id(state);
    let record = Record::Clone { id: volume, from, read_only, name: name.clone() };
    state.journal.append(&record);
    let copy = state.volumes[&from].copy(from, name, read_only, &mut state.nodes);
    state.volumes.insert(volume, copy);
    state.journal.join(Waiter::Answer(id, Completed::Created(volume)));
    Ok(())
}

/// Deletes a volume.
pub(crate) fn delete(state: &mut StoreState, id: RequestId, volume: VolumeId) -> Checked {
    let it = state.volumes.remove(&volume).ok_or(RequestError::NoVolume(volume))?;
    state.nodes.release(it.root);
    state.journal.append(&Record::Deleted(volume));
    state.journal.join(Waiter::Answer(id, Completed::Done));
    Ok(())
}

/// Keeps some bytes with a volume.
pub(crate) fn set_tag(
    state: &mut StoreState,
    id: RequestId,
    volume: VolumeId,
    tag: Tag,
) -> Checked {
    state.volumes.get_mut(&volume).ok_or(RequestError::NoVolume(volume))?.tag = tag;
    state.journal.append(&Record::Tag(volume, tag));
    state.journal.join(Waiter::Answer(id, Completed::Done));
    Ok(())
}

/// Changes the bounds of a volume.
pub(crate) fn set_quotas(
    state: &mut StoreState,
    id: RequestId,
    volume: VolumeId,
    quotas: Quotas,
) -> Checked {
    let it = state.volumes.get_mut(&volume).ok_or(RequestError::NoVolume(volume))?;
    it.quotas = quotas;
    state.journal.append(&Record::Quotas(volume, quotas));
    state.journal.join(Waiter::Answer(id, Completed::Done));
    Ok(())
}

/// True if the range is not empty and ends within the volume's size.
fn is_within(state: &StoreState, volume: VolumeId, at: Bytes, length: u64) -> bool {
    let end = at.0.checked_add(length);
    end.is_some_and(|end| length > 0 && end <= state.volumes[&volume].size.0)
}
