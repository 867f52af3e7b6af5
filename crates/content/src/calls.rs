//! Calls of a store's owner: requests, and questions that need no device.

use crate::admin::{
    Checked, check_range, check_writable, clone_volume, create, delete, set_quotas, set_tag,
};
use crate::differences::{Differences, Walk};
use crate::journal::Waiter;
use crate::name::{BLOCK, BlockId, ContentId};
use crate::reading::For;
use crate::request::{Action, Completed, Request, RequestError, RequestId};
use crate::service::Service;
use crate::settings::{REQUEST_BYTES_MAX, REQUESTS_MAX};
use crate::store::Store;
use crate::writing::Order;
use thermocline_ports::{Device, SECTOR};
use thermocline_units::situations::met;
use thermocline_units::{Nanos, VolumeId};

impl<D: Device> Store<D> {
    /// Takes a request; `poll` returns its answer.
    pub fn submit(&mut self, now: Nanos, request: Request) {
        let state = &mut self.state;
        state.now = state.now.max(now);
        self.is_touched = true;
        let Request { id, action } = request;
        if state.service != Service::Ready {
            return state.answer(id, Err(RequestError::Stopped));
        }
        if self.writes.len() + self.reads.len() >= REQUESTS_MAX {
            return state.answer(id, Err(RequestError::TooMany));
        }
        if let Err(error) = self.begin_action(id, action) {
            self.state.answer(id, Err(error));
        }
        self.settle();
    }

    fn begin_action(&mut self, id: RequestId, action: Action) -> Checked {
        let state = &mut self.state;
        let block = u64::from(BLOCK);
        match action {
            Action::Read { volume, offset, length } => {
                check_range(state, volume, offset, u64::from(length), SECTOR, REQUEST_BYTES_MAX)?;
                let first = offset.0 / block;
                let end = (offset.0 + u64::from(length)).div_ceil(block);
                let wanted = For::Client { from: (offset.0 % block) as u32, length };
                self.reads.read_blocks(
                    state,
                    id,
                    volume,
                    first as u32,
                    (end - first) as u32,
                    wanted,
                );
            }
            Action::Identify { volume, offset, blocks } => {
                let most = REQUEST_BYTES_MAX / BLOCK;
                let has_room = blocks > 0 && blocks <= most && offset.0.is_multiple_of(block);
                let it = state.volumes.get(&volume).ok_or(RequestError::NoVolume(volume))?;
                if !has_room || offset.0 / block + u64::from(blocks) > it.blocks() {
                    return Err(RequestError::Range);
                }
                self.reads.read_blocks(
                    state,
                    id,
                    volume,
                    (offset.0 / block) as u32,
                    blocks,
                    For::Names,
                );
            }
            Action::Write { volume, offset, data, fua } => {
                let length = u64::from(data.len());
                check_range(state, volume, offset, length, SECTOR, REQUEST_BYTES_MAX)?;
                check_writable(state, volume)?;
                let order = Order { id, volume, at: offset.0, fua };
                self.writes.write_data(state, order, data);
            }
            Action::WriteKnown { volume, offset, contents, fua } => {
                let length = contents.len() as u64 * block;
                check_range(state, volume, offset, length, BLOCK, REQUEST_BYTES_MAX)?;
                check_writable(state, volume)?;
                let order = Order { id, volume, at: offset.0, fua };
                self.writes.write_names(state, order, contents);
            }
            Action::Zero { volume, offset, length, fua } => {
                check_range(state, volume, offset, length.0, SECTOR, u32::MAX)?;
                check_writable(state, volume)?;
                let order = Order { id, volume, at: offset.0, fua };
                self.writes.write_zeroes(state, order, length.0);
            }
            Action::Fetch { block } => self.fetch(id, block),
            Action::Flush => state.journal.join(Waiter::Answer(id, Completed::Done)),
            Action::Pin { domain, content } => self.writes.pin_content(state, id, domain, content),
            Action::Create { name, size, domain, quotas } => {
                create(state, id, name, size, domain, quotas)?;
            }
            Action::Clone { from, name, read_only } => {
                clone_volume(state, id, from, name, read_only)?
            }
            Action::Delete { volume } => delete(state, id, volume)?,
            Action::SetTag { volume, tag } => set_tag(state, id, volume, tag)?,
            Action::SetQuotas { volume, quotas } => set_quotas(state, id, volume, quotas)?,
        }
        Ok(())
    }

    /// Reads a block by its number.
    fn fetch(&mut self, id: RequestId, block: BlockId) {
        let (number, state) = (block.number, &mut self.state);
        let is_there = number != 0
            && state.blocks.is_used(number)
            && state.blocks.id(number) == block
            && !self.writes.is_arriving(number);
        if is_there {
            self.reads.read_by_number(state, id, block);
        } else {
            met("block that was swept is asked for by its number");
            state.answer(id, Ok(Completed::Unknown));
        }
    }

    /// Ends a pin that [`crate::Action::Pin`] gave; returns false if there is none.
    pub fn unpin_block(&mut self, block: BlockId) -> bool {
        self.is_touched = true;
        self.writes.unpin_block(&mut self.state, block)
    }

    /// Begins a sweep as soon as none is under way. It frees the blocks that were trimmed,
    /// overwritten or deleted so far, even if they are few.
    pub fn sweep(&mut self) {
        self.state.wants.sweep = true;
        self.is_touched = true;
    }

    /// True while a sweep is asked for or under way, or maps of deleted volumes are being taken
    /// apart.
    pub fn is_sweeping(&self) -> bool {
        self.state.wants.sweep || !self.sweep.is_idle() || self.state.nodes.has_doomed()
    }

    /// The name of a block's contents, if the block is there for the domain of this volume, and its
    /// name is remembered. Of other domains' blocks nothing is told.
    pub fn name_of(&self, volume: VolumeId, block: BlockId) -> Option<ContentId> {
        let domain = self.state.volumes.get(&volume)?.domain;
        let blocks = &self.state.blocks;
        if !blocks.is_used(block.number) || blocks.id(block.number) != block {
            return None;
        }
        let short = blocks.entry(block.number).short;
        let bits = self.state.settings.index_bits;
        self.state.recall(block.number).filter(|name| name.short(domain, bits) == short)
    }

    /// Version of a volume's map, and the numbers of `count` blocks from block `first` on, without
    /// I/O; `None` in the list stands for zeroes. The list ends at the end of the volume. Returns
    /// `None` if there is no such volume.
    pub fn map(
        &self,
        volume: VolumeId,
        first: u32,
        count: u32,
    ) -> Option<(u64, Vec<Option<BlockId>>)> {
        let it = self.state.volumes.get(&volume)?;
        let end = (u64::from(first) + u64::from(count)).min(it.blocks()) as u32;
        let number = |block| self.state.nodes.get(it.root, it.level, block);
        let ids = (first..end)
            .map(|block| Some(number(block)).filter(|&n| n != 0).map(|n| self.state.blocks.id(n)));
        Some((it.version, ids.collect()))
    }

    /// Number of places that have a stored block which a volume has at this place: as
    /// [`Store::share_count`], with each clone that shares nodes of maps on the way to it. 0 if the
    /// block is not stored any more.
    pub fn shares_at(&self, volume: VolumeId, place: u32, block: BlockId) -> u32 {
        let shares = self.share_count(block);
        let Some(it) = self.state.volumes.get(&volume).filter(|_| shares > 0) else {
            return shares;
        };
        if u64::from(place) >= it.blocks() {
            return shares;
        }
        shares.saturating_add(self.state.nodes.sharers(it.root, it.level, place))
    }

    /// Blocks from `first` on in which the map of a volume differs from that of another one of the
    /// same size, without I/O: at most `most`, and as many as are found in `steps` steps. What the
    /// maps share is not looked at. Returns `None` if a volume is not there or sizes differ.
    pub fn differences(
        &self,
        (volume, from): (VolumeId, VolumeId),
        first: u32,
        most: u32,
        steps: u64,
    ) -> Option<Differences> {
        let state = &self.state;
        let (one, other) = (state.volumes.get(&volume)?, state.volumes.get(&from)?);
        if one.blocks() != other.blocks() {
            return None;
        }
        let mut walk = Walk::new(&state.nodes, first, most as usize, steps);
        walk.go((one.root, other.root), one.level, 0);
        let id = |number: u32| Some(number).filter(|&n| n != 0).map(|n| state.blocks.id(n));
        let next = walk.next.filter(|&next| next < one.blocks());
        Some(Differences {
            blocks: walk.found.into_iter().map(|(at, number)| (at, id(number))).collect(),
            next: next.map(|next| next as u32),
            steps: walk.steps,
        })
    }
}
