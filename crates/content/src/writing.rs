//! Writes: of data, of names whose data is here, of zeroes; and pins.
//!
//! 1. A write locks its blocks (`locks`). Blocks that it changes in part are read first.
//! 2. Each block is hashed, except blocks of zeroes, which are not stored. If the index has the
//!    hash, the stored block is a candidate. It is accepted when its full hash is remembered and
//!    equal, or when it has been read and its hash is equal. From then on it is pinned.
//! 3. New blocks get room (`room`), a number and a slot, and are written.
//! 4. When all new blocks are on the device, the map is changed at once, and the records are
//!    queued. The write is answered then; with FUA it waits for a commit.
//!
//! Other writes may find a block while it is being written; they wait for it, too.

mod mapping;
mod piece;
mod runs;

use crate::blocks::Entry;
use crate::commit::Waiter;
use crate::format::{Record, Stored};
use crate::name::{BLOCK, ContentId, Domain};
use crate::reading::For;
use crate::request::{Completed, QuotaKind, RequestError, RequestId};
use crate::segments::Class;
use crate::settings::PINS_MAX;
use crate::store::{Fresh, Store, Task, offset};
use mapping::Mapping;
use piece::Piece;
use runs::{Run, Runs};
use std::ops::Range;
use thermocline_ports::{Device, DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;
use thermocline_units::{Bytes, VolumeId};

/// Kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    Names,
    Zero,
    Pin,
}

/// A write under way.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) id: RequestId,
    volume: VolumeId,
    domain: Domain,
    kind: Kind,
    pieces: Vec<Piece>,
    /// Whole blocks that become zeroes.
    zeroes: Range<u32>,
    fua: bool,
    outstanding: u32,
    error: Option<RequestError>,
    /// Number of nodes promised to it.
    promised: u32,
    /// Numbers that are pinned for it.
    pinned: Vec<u32>,
}

impl<D: Device> Store<D> {
    pub(crate) fn write_data(
        &mut self,
        id: RequestId,
        volume: VolumeId,
        at: u64,
        data: Payload,
        fua: bool,
    ) {
        let (pieces, blocks) = piece::of_data(at, &data);
        self.begin(id, volume, Kind::Data, pieces, blocks.end..blocks.end, blocks, fua);
    }

    pub(crate) fn write_names(
        &mut self,
        id: RequestId,
        volume: VolumeId,
        at: u64,
        contents: Vec<ContentId>,
        fua: bool,
    ) {
        let (pieces, blocks) = piece::of_names(at, contents);
        self.begin(id, volume, Kind::Names, pieces, blocks.end..blocks.end, blocks, fua);
    }

    pub(crate) fn write_zeroes(
        &mut self,
        id: RequestId,
        volume: VolumeId,
        at: u64,
        length: u64,
        fua: bool,
    ) {
        let size = self.volumes[&volume].size.0;
        let (pieces, zeroes, blocks) = piece::of_zeroes(at, length, size);
        self.begin(id, volume, Kind::Zero, pieces, zeroes, blocks, fua);
    }

    pub(crate) fn pin_content(&mut self, id: RequestId, domain: Domain, content: ContentId) {
        let write = Write {
            id,
            volume: VolumeId(0),
            domain,
            kind: Kind::Pin,
            pieces: vec![Piece::of_name(0, content)],
            zeroes: 0..0,
            fua: false,
            outstanding: 0,
            error: None,
            promised: 0,
            pinned: Vec::new(),
        };
        let write = self.writes.insert(write);
        self.seek(write);
    }

    #[allow(clippy::too_many_arguments)]
    fn begin(
        &mut self,
        id: RequestId,
        volume: VolumeId,
        kind: Kind,
        pieces: Vec<Piece>,
        zeroes: Range<u32>,
        blocks: Range<u32>,
        fua: bool,
    ) {
        let domain = self.volumes[&volume].domain;
        let write = self.writes.insert(Write {
            id,
            volume,
            domain,
            kind,
            pieces,
            zeroes,
            fua,
            outstanding: 0,
            error: None,
            promised: 0,
            pinned: Vec::new(),
        });
        if self.locks.ask(volume, blocks, write) || mutant("writes_to_a_block_at_once") {
            self.read_edges(write);
        } else {
            met("write waited for another one");
        }
    }

    /// Step 1.
    fn read_edges(&mut self, write: u32) {
        let (id, volume) = (self.writes[write].id, self.writes[write].volume);
        if !self.volumes.contains_key(&volume) {
            return self.end_write(write, Err(RequestError::NoVolume(volume)));
        }
        let edges: Vec<(u32, u32)> = (0u32..)
            .zip(&self.writes[write].pieces)
            .filter(|(_, piece)| piece.is_part())
            .map(|(index, piece)| (index, piece.block))
            .collect();
        // One more than there are, so that answers on the spot do not end the step.
        self.writes[write].outstanding = edges.len() as u32 + 1;
        for (piece, block) in edges {
            met("block read to be changed in part");
            self.read_blocks(id, volume, block, 1, For::Edge { write, piece });
        }
        self.step_done(write);
    }

    pub(crate) fn edge_read(
        &mut self,
        write: u32,
        piece: u32,
        result: Result<Payload, RequestError>,
    ) {
        match result {
            Ok(old) => self.writes[write].pieces[piece as usize].complete(&old),
            Err(error) => self.writes[write].error = Some(error),
        }
        self.step_done(write);
    }

    fn step_done(&mut self, write: u32) {
        let it = &mut self.writes[write];
        it.outstanding -= 1;
        if it.outstanding > 0 {
            return;
        }
        match it.error.take() {
            Some(error) => self.end_write(write, Err(error)),
            None => self.seek(write),
        }
    }

    /// Step 2: finds out, for each block, whether it is stored already.
    fn seek(&mut self, write: u32) {
        self.writes[write].outstanding = 1;
        for index in 0..self.writes[write].pieces.len() {
            self.seek_piece(write, index as u32);
        }
        self.sought(write);
    }

    fn seek_piece(&mut self, write: u32, index: u32) {
        let bits = self.settings.index_bits;
        let it = &mut self.writes[write];
        let domain = it.domain;
        let piece = &mut it.pieces[index as usize];
        if piece.is_settled() {
            return;
        }
        let Some(content) = piece.name() else { return };
        let Some(number) =
            self.blocks.candidate(content.short(domain, bits), |number| piece.may_be(number))
        else {
            return;
        };
        let fresh = self.fresh.get(&number).map(|fresh| fresh.content);
        match fresh.or_else(|| self.recall(number)) {
            Some(known) if known == content || mutant("short_hash_believed") => {
                self.settle(write, index, number);
            }
            Some(_) => {
                met("equal short hashes of different contents");
                self.writes[write].pieces[index as usize].reject(number);
                self.seek_piece(write, index);
            }
            None if mutant("short_hash_believed") => self.settle(write, index, number),
            None => {
                self.pin(number);
                let place = self.blocks.entry(number).place;
                let segment = self.segments.of(place);
                self.segments.get_mut(segment).readers += 1;
                self.writes[write].outstanding += 1;
                let io = Io::Read { offset: offset(u64::from(place)), length: BLOCK };
                self.send(Task::Verify { write, piece: index, number, place }, io);
            }
        }
    }

    pub(crate) fn verified(
        &mut self,
        write: u32,
        index: u32,
        number: u32,
        place: u32,
        result: Result<Payload, DeviceError>,
    ) {
        met("stored block read to be compared");
        self.counters.verified += 1;
        let segment = self.segments.of(place);
        self.segments.get_mut(segment).readers -= 1;
        let stored = result.ok().map(|payload| ContentId::of(&payload.to_vec()));
        let content = self.writes[write].pieces[index as usize].content();
        if let Some(stored) = stored.filter(|stored| Some(*stored) == content) {
            self.remember(number, stored);
            self.settle(write, index, number);
        } else {
            met("candidate was damaged or another block");
            self.writes[write].pieces[index as usize].reject(number);
            self.seek_piece(write, index);
        }
        self.unpin(number);
        self.sought(write);
    }

    /// Settles a piece to this stored block, and pins the block.
    fn settle(&mut self, write: u32, index: u32, number: u32) {
        self.counters.deduplicated += 1;
        self.pin(number);
        let it = &mut self.writes[write];
        it.pieces[index as usize].settle(number);
        it.pinned.push(number);
    }

    fn sought(&mut self, write: u32) {
        let it = &mut self.writes[write];
        it.outstanding -= 1;
        if it.outstanding > 0 {
            return;
        }
        let unknown = it.pieces.iter().filter(|piece| !piece.is_settled()).count() as u32;
        if it.kind == Kind::Pin {
            return self.end_pin(write);
        }
        if it.kind == Kind::Names && unknown > 0 {
            return self.end_write(write, Ok(Completed::Unknown));
        }
        if let Err(error) = self.within_quotas(write, unknown) {
            return self.end_write(write, Err(error));
        }
        let nodes = self.nodes_for(write);
        let is_trim = self.writes[write].kind == Kind::Zero && unknown == 0;
        self.writes[write].promised = nodes;
        if self.ask_room(write, unknown, nodes, is_trim) {
            self.fill(write);
        }
    }

    /// Goes on with a write that waited for room.
    pub(crate) fn room_found(&mut self, write: u32) {
        self.fill(write);
    }

    fn end_pin(&mut self, write: u32) {
        let number = self.writes[write].pieces[0].number();
        if number == 0 || self.failed.contains(&number) {
            return self.end_write(write, Ok(Completed::Unknown));
        }
        if self.client_pins.len() >= PINS_MAX {
            return self.end_write(write, Err(RequestError::TooMany));
        }
        // It may still be on its way; then the pin comes when it is there.
        if let Some(fresh) = self.fresh.get_mut(&number) {
            fresh.waiters.push(write);
            self.writes[write].outstanding = 1;
            return;
        }
        self.pinned(write);
    }

    fn pinned(&mut self, write: u32) {
        let number = self.writes[write].pieces[0].number();
        self.pin(number);
        *self.client_pins.entry(number).or_default() += 1;
        let id = self.blocks.id(number);
        self.end_write(write, Ok(Completed::Pinned(id)));
    }

    fn within_quotas(&self, write: u32, new: u32) -> Result<(), RequestError> {
        let it = &self.writes[write];
        let volume = self.volumes.get(&it.volume).ok_or(RequestError::NoVolume(it.volume))?;
        let (root, level) = (volume.root, volume.level);
        let grows = |piece: &&Piece| {
            let is_something = !piece.is_settled() || piece.number() != 0;
            is_something && self.nodes.get(root, level, piece.block) == 0
        };
        let block = u64::from(BLOCK);
        let more = it.pieces.iter().filter(grows).count() as u64;
        if more > 0 && (volume.mapped + more).saturating_mul(block) > volume.quotas.logical.0 {
            return Err(RequestError::Quota(QuotaKind::Logical));
        }
        let charged = self.ledger.charged.get(&it.volume).copied().unwrap_or(0);
        let charged = (charged + u64::from(new)).saturating_mul(block);
        if new > 0 && charged > volume.quotas.physical.0 {
            return Err(RequestError::Quota(QuotaKind::Physical));
        }
        Ok(())
    }

    /// Nodes that the write may make or copy, at most.
    fn nodes_for(&self, write: u32) -> u32 {
        let it = &self.writes[write];
        let level = self.volumes.get(&it.volume).map_or(0, |volume| u32::from(volume.level));
        let edges = match it.kind {
            Kind::Data | Kind::Names => it.pieces.len() as u32 / self.settings.fanout + 2,
            _ => 2,
        };
        edges * (level + 1)
    }

    /// Places and writes new blocks (step 3).
    fn fill(&mut self, write: u32) {
        if self.seeks_again(write) {
            return;
        }
        self.writes[write].outstanding = 1;
        let mut runs = Runs::default();
        for index in 0..self.writes[write].pieces.len() {
            let it = &self.writes[write];
            let (domain, piece) = (it.domain, &it.pieces[index]);
            let (content, is_settled) = (piece.content(), piece.is_settled());
            if !is_settled {
                let bits = self.settings.index_bits;
                let content = content.expect("what is not settled has a name");
                // It may have come since: from this write, or from another one.
                let fresh = &self.fresh;
                let same =
                    |number: u32| fresh.get(&number).is_some_and(|fresh| fresh.content == content);
                if let Some(number) = self.blocks.candidate(content.short(domain, bits), same) {
                    met("two equal blocks at once");
                    self.settle(write, index as u32, number);
                } else {
                    self.place_piece(write, index, content, &mut runs);
                }
            }
            let number = self.writes[write].pieces[index].number();
            if let Some(fresh) = self.fresh.get_mut(&number) {
                fresh.waiters.push(write);
                self.writes[write].outstanding += 1;
            }
        }
        for run in runs.into_iter() {
            let (data, Run { place, numbers, .. }) = (run.data(), run);
            let io = Io::Write { offset: offset(u64::from(place)), data, fua: false };
            self.send(Task::Fill { write, place, numbers }, io);
        }
        self.filled_one(write);
    }

    /// Gives a new block a number and a slot.
    fn place_piece(&mut self, write: u32, index: usize, content: ContentId, runs: &mut Runs) {
        let taken = self.segments.take_slot(Class::Hot);
        let (place, opened) = taken.expect("there was room for all of it");
        if let Some((segment, sequence)) = opened {
            self.commit.append(&Record::Open { segment, sequence, class: Class::Hot as u8 });
        }
        let it = &mut self.writes[write];
        let number = self.blocks.give(Entry {
            short: content.short(it.domain, self.settings.index_bits),
            place,
            generation: self.generation,
            refs: 0,
            owner: it.volume.0,
        });
        let piece = &mut it.pieces[index];
        piece.settle(number);
        it.pinned.push(number);
        runs.push(place, number, piece.data());
        self.pin(number);
        self.fresh.insert(number, Fresh { content, waiters: Vec::new() });
        self.counters.new_blocks += 1;
    }

    pub(crate) fn filled(
        &mut self,
        write: u32,
        place: u32,
        numbers: Vec<u32>,
        result: Result<Payload, DeviceError>,
    ) {
        self.is_volatile = true;
        let domain = self.writes[write].domain;
        let mut waiters = Vec::new();
        for (place, number) in (place..).zip(numbers) {
            let fresh = self.fresh.remove(&number).expect("on its way until now");
            waiters.extend(fresh.waiters);
            if let Err(error) = result {
                met("write of a new block failed");
                self.slot_written(place, None);
                waiters.iter().for_each(|&waiter| {
                    self.writes[waiter].error = Some(RequestError::Device(error));
                });
                self.blocks.hide(number);
                self.failed.insert(number);
                continue;
            }
            let owner = self.blocks.owner(number);
            let generation = self.blocks.entry(number).generation;
            let stored = Stored { number, generation, domain, owner, content: fresh.content };
            self.commit.append(&Record::Block(place, stored));
            self.remember(number, fresh.content);
            self.slot_written(place, Some(stored));
        }
        waiters.into_iter().for_each(|waiter| self.filled_one(waiter));
    }

    fn filled_one(&mut self, write: u32) {
        let it = &mut self.writes[write];
        it.outstanding -= 1;
        if it.outstanding > 0 {
            return;
        }
        match (it.error.take(), it.kind) {
            (Some(error), _) => self.end_write(write, Err(error)),
            (None, Kind::Pin) => self.pinned(write),
            (None, _) => self.apply(write),
        }
    }

    /// Step 4.
    fn apply(&mut self, write: u32) {
        let volume = self.writes[write].volume;
        let Store { nodes, blocks, ledger, commit, writes, volumes, .. } = self;
        let Some(it) = volumes.get_mut(&volume) else {
            return self.end_write(write, Err(RequestError::NoVolume(volume)));
        };
        let mut mapping = Mapping { id: volume, volume: it, nodes, blocks, ledger, commit };
        mapping.zero(writes[write].zeroes.clone());
        mapping.set(&writes[write].pieces);
        let version = it.version;
        self.end_write(write, Ok(Completed::Written { version }));
    }

    /// Ends a write: releases its locks, room and pins, and answers it.
    pub(crate) fn end_write(&mut self, write: u32, result: Result<Completed, RequestError>) {
        let Write { id, fua, promised, pinned, kind, pieces, .. } = self.writes.remove(write);
        // Promised are nodes to those who got as far as asking, and were not refused.
        if promised > 0 && result != Err(RequestError::NoSpace) {
            self.room.promised -= promised;
        }
        for number in pinned {
            self.unpin(number);
            self.free_failed(number);
        }
        drop(pieces);
        let forced = fua && matches!(result, Ok(Completed::Written { .. }));
        match result {
            Ok(completed) if forced && !mutant("forced_write_answered_at_once") => {
                self.commit.join(Waiter::Answer(id, completed));
            }
            result => self.answer(id, result),
        }
        if kind != Kind::Pin {
            for next in self.locks.end(write) {
                self.read_edges(next);
            }
        }
    }

    /// Frees the number of a block whose write failed, when no write waits for it any more.
    fn free_failed(&mut self, number: u32) {
        if !self.pins.contains_key(&number) && self.failed.remove(&number) {
            self.blocks.release(number);
        }
    }

    /// Looks again for pieces whose blocks were being written by others, and failed. Returns true
    /// if there are any.
    fn seeks_again(&mut self, write: u32) -> bool {
        let Store { writes, failed, room, .. } = self;
        let it = &mut writes[write];
        let mut any = false;
        for piece in it.pieces.iter_mut().filter(|piece| failed.contains(&piece.number())) {
            met("block found on its way never arrived");
            piece.unsettle();
            any = true;
        }
        if any {
            room.promised -= std::mem::take(&mut it.promised);
            self.seek(write);
        }
        any
    }

    /// Ends a pin that [`crate::Action::Pin`] gave; returns false if there is none.
    pub fn unpin_block(&mut self, block: crate::BlockId) -> bool {
        let number = block.number;
        self.is_touched = true;
        if self.blocks.id(number) != block || !self.client_pins.contains_key(&number) {
            return false;
        }
        let count = self.client_pins.get_mut(&number).expect("just seen");
        *count -= 1;
        if *count == 0 {
            self.client_pins.remove(&number);
        }
        self.unpin(number);
        true
    }

    /// True if the range is not empty and ends within the volume's size.
    pub(crate) fn is_within(&self, volume: VolumeId, at: Bytes, length: u64) -> bool {
        let end = at.0.checked_add(length);
        end.is_some_and(|end| length > 0 && end <= self.volumes[&volume].size.0)
    }
}
