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
use crate::format::{Record, Stored};
use crate::journal::Waiter;
use crate::locks::Locks;
use crate::name::{BLOCK, BlockId, ContentId, Domain};
use crate::request::{Completed, QuotaKind, RequestError, RequestId};
use crate::segments::Class;
use crate::settings::PINS_MAX;
use crate::state::{Ask, Edge, Effect, StoreState};
use crate::tasks::{TRIES_MAX, Task, offset};
use mapping::Mapping;
use piece::Piece;
use runs::{Run, Runs};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;
use thermocline_units::{Slab, VolumeId};

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
struct Write {
    id: RequestId,
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
    /// Part of its volume's quotas that it may use.
    claim: Claim,
    /// Numbers that are pinned for it.
    pinned: Vec<u32>,
}

/// Blocks by which a volume may grow: what it maps, and what it is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Claim {
    logical: u64,
    physical: u64,
}

/// A block whose data is on its way to the device.
#[derive(Debug)]
struct Fresh {
    content: ContentId,
    /// Writes that wait for it.
    waiters: Vec<u32>,
}

/// A write of a client: its request, its place, and true if it must be durable when it is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub(crate) id: RequestId,
    pub(crate) volume: VolumeId,
    /// The first byte.
    pub(crate) at: u64,
    pub(crate) fua: bool,
}

/// The writes under way, and the blocks that are on their way for them.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    under_way: Slab<Write>,
    locks: Locks,
    fresh: BTreeMap<u32, Fresh>,
    /// Blocks whose writes failed, while other writes that found them still hold them.
    failed: BTreeSet<u32>,
    /// Pins that clients asked for, among those of the store.
    client_pins: BTreeMap<u32, u32>,
    /// Claims of the writes under way, by volume: together they stay within its quotas.
    claims: BTreeMap<VolumeId, Claim>,
}

impl Writes {
    /// Number of writes under way.
    pub(crate) fn len(&self) -> usize {
        self.under_way.len()
    }

    /// True if none is under way, and no blocks are locked.
    pub(crate) fn are_done(&self) -> bool {
        self.under_way.is_empty() && self.locks.are_free()
    }

    /// True if a block is on its way, or its write has failed.
    pub(crate) fn is_arriving(&self, number: u32) -> bool {
        self.fresh.contains_key(&number) || self.failed.contains(&number)
    }

    /// Gives all writes up, and returns the requests of clients that wait for them.
    pub(crate) fn give_up(&mut self) -> Vec<RequestId> {
        let given_up = std::mem::take(&mut self.under_way);
        self.claims.clear();
        given_up.iter().map(|(_, write)| write.id).collect()
    }

    /// Writes bytes.
    pub(crate) fn write_data(&mut self, state: &mut StoreState, order: Order, data: Payload) {
        let (pieces, blocks) = piece::of_data(order.at, &data);
        self.begin(state, order, Kind::Data, pieces, blocks.end..blocks.end, blocks);
    }

    /// Writes blocks by the names of their contents.
    pub(crate) fn write_names(
        &mut self,
        state: &mut StoreState,
        order: Order,
        contents: Vec<ContentId>,
    ) {
        let (pieces, blocks) = piece::of_names(order.at, contents);
        self.begin(state, order, Kind::Names, pieces, blocks.end..blocks.end, blocks);
    }

    /// Makes bytes zeroes.
    pub(crate) fn write_zeroes(&mut self, state: &mut StoreState, order: Order, length: u64) {
        let size = state.volumes[&order.volume].size.0;
        let (pieces, zeroes, blocks) = piece::of_zeroes(order.at, length, size);
        self.begin(state, order, Kind::Zero, pieces, zeroes, blocks);
    }

    /// Pins the block of these contents for a client.
    pub(crate) fn pin_content(
        &mut self,
        state: &mut StoreState,
        id: RequestId,
        domain: Domain,
        content: ContentId,
    ) {
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
            claim: Claim::default(),
            pinned: Vec::new(),
        };
        let write = self.under_way.insert(write);
        self.seek(state, write);
    }

    fn begin(
        &mut self,
        state: &mut StoreState,
        order: Order,
        kind: Kind,
        pieces: Vec<Piece>,
        zeroes: Range<u32>,
        blocks: Range<u32>,
    ) {
        let Order { id, volume, fua, .. } = order;
        let domain = state.volumes[&volume].domain;
        let write = self.under_way.insert(Write {
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
            claim: Claim::default(),
            pinned: Vec::new(),
        });
        if self.locks.ask(volume, blocks, write) || mutant("writes_to_a_block_at_once") {
            self.unlocked(state, write);
        } else {
            met("write waited for another one");
        }
    }

    /// The blocks of a write are its own: those that it changes in part are read (step 1).
    pub(crate) fn unlocked(&mut self, state: &mut StoreState, write: u32) {
        let it = &mut self.under_way[write];
        let (id, volume) = (it.id, it.volume);
        if !state.volumes.contains_key(&volume) {
            return self.end(state, write, Err(RequestError::NoVolume(volume)));
        }
        let edges = (0u32..).zip(&it.pieces).filter(|(_, piece)| piece.is_part());
        let mut outstanding = 0;
        for (piece, block) in edges.map(|(index, piece)| (index, piece.block)) {
            met("block read to be changed in part");
            outstanding += 1;
            state.emit(Effect::ReadEdge { edge: Edge { write, piece }, id, volume, block });
        }
        it.outstanding = outstanding;
        if outstanding == 0 {
            self.seek(state, write);
        }
    }

    /// A block that a write changes in part was read, or was not.
    pub(crate) fn edge_read(
        &mut self,
        state: &mut StoreState,
        edge: Edge,
        result: Result<Payload, RequestError>,
    ) {
        let Edge { write, piece } = edge;
        let it = &mut self.under_way[write];
        match result {
            Ok(old) => it.pieces[piece as usize].complete(&old),
            Err(error) => it.error = Some(error),
        }
        it.outstanding -= 1;
        if it.outstanding > 0 {
            return;
        }
        match it.error.take() {
            Some(error) => self.end(state, write, Err(error)),
            None => self.seek(state, write),
        }
    }

    /// Step 2: finds out, for each block, whether it is stored already.
    fn seek(&mut self, state: &mut StoreState, write: u32) {
        self.under_way[write].outstanding = 1;
        for index in 0..self.under_way[write].pieces.len() {
            self.seek_piece(state, write, index as u32);
        }
        self.sought(state, write);
    }

    fn seek_piece(&mut self, state: &mut StoreState, write: u32, index: u32) {
        let bits = state.settings.index_bits;
        let it = &mut self.under_way[write];
        let domain = it.domain;
        let piece = &mut it.pieces[index as usize];
        if piece.is_settled() {
            return;
        }
        let Some(content) = piece.name() else { return };
        let Some(number) =
            state.blocks.candidate(content.short(domain, bits), |number| piece.may_be(number))
        else {
            return;
        };
        let fresh = self.fresh.get(&number).map(|fresh| fresh.content);
        match fresh.or_else(|| state.recall(number)) {
            Some(known) if known == content || mutant("short_hash_believed") => {
                self.settle(state, write, index, number);
            }
            Some(_) => {
                met("equal short hashes of different contents");
                self.under_way[write].pieces[index as usize].reject(number);
                self.seek_piece(state, write, index);
            }
            None if mutant("short_hash_believed") => self.settle(state, write, index, number),
            None => {
                state.pins.pin(number);
                let place = state.blocks.entry(number).place;
                let segment = state.segments.of(place);
                state.segments.get_mut(segment).readers += 1;
                self.under_way[write].outstanding += 1;
                let io = Io::Read { offset: offset(u64::from(place)), length: BLOCK };
                state.send(Task::Verify { write, piece: index, number, place }, io);
            }
        }
    }

    /// A stored block was read to be compared, or was not.
    pub(crate) fn verified(
        &mut self,
        state: &mut StoreState,
        write: u32,
        index: u32,
        number: u32,
        place: u32,
        result: Result<Payload, DeviceError>,
    ) {
        met("stored block read to be compared");
        state.counters.verified += 1;
        let segment = state.segments.of(place);
        state.segments.get_mut(segment).readers -= 1;
        let stored = result.ok().map(|payload| ContentId::of(&payload.to_vec()));
        let content = self.under_way[write].pieces[index as usize].content();
        if let Some(stored) = stored.filter(|stored| Some(*stored) == content) {
            state.remember(number, stored);
            self.settle(state, write, index, number);
        } else {
            met("candidate was damaged or another block");
            self.under_way[write].pieces[index as usize].reject(number);
            self.seek_piece(state, write, index);
        }
        state.pins.unpin(number);
        self.sought(state, write);
    }

    /// Settles a piece to this stored block, and pins the block.
    fn settle(&mut self, state: &mut StoreState, write: u32, index: u32, number: u32) {
        state.counters.deduplicated += 1;
        state.pins.pin(number);
        let it = &mut self.under_way[write];
        it.pieces[index as usize].settle(number);
        it.pinned.push(number);
    }

    fn sought(&mut self, state: &mut StoreState, write: u32) {
        let it = &mut self.under_way[write];
        it.outstanding -= 1;
        if it.outstanding > 0 {
            return;
        }
        let unknown = it.pieces.iter().filter(|piece| !piece.is_settled());
        // Equal blocks of a write are stored once, so they need room once.
        let unknown = unknown.map(Piece::content).collect::<BTreeSet<_>>().len() as u32;
        if it.kind == Kind::Pin {
            return self.end_pin(state, write);
        }
        if it.kind == Kind::Names && unknown > 0 {
            return self.end(state, write, Ok(Completed::Unknown));
        }
        let volume = self.under_way[write].volume;
        let others = self.claims.get(&volume).copied().unwrap_or_default();
        match claim_of(state, &self.under_way[write], unknown, others) {
            Err(error) => return self.end(state, write, Err(error)),
            Ok(claim) => self.take_claim(write, claim),
        }
        let it = &mut self.under_way[write];
        let nodes = nodes_for(state, it);
        let is_trim = it.kind == Kind::Zero && unknown == 0;
        it.promised = nodes;
        state.emit(Effect::RoomAsked(Ask { write, blocks: unknown, nodes, is_trim }));
    }

    /// Takes part of the volume's quotas for a write.
    fn take_claim(&mut self, write: u32, claim: Claim) {
        let it = &mut self.under_way[write];
        assert!(it.claim == Claim::default(), "a write claims once");
        it.claim = claim;
        if claim != Claim::default() {
            let all = self.claims.entry(it.volume).or_default();
            all.logical += claim.logical;
            all.physical += claim.physical;
        }
    }

    /// Gives back a write's part of its volume's quotas.
    fn drop_claim(&mut self, volume: VolumeId, claim: Claim) {
        let Some(all) = self.claims.get_mut(&volume) else {
            return assert!(claim == Claim::default(), "what was claimed is known");
        };
        all.logical -= claim.logical;
        all.physical -= claim.physical;
        if *all == Claim::default() {
            self.claims.remove(&volume);
        }
    }

    /// Nothing can make room for a write.
    pub(crate) fn refused(&mut self, state: &mut StoreState, write: u32) {
        self.end(state, write, Err(RequestError::NoSpace));
    }

    fn end_pin(&mut self, state: &mut StoreState, write: u32) {
        let number = self.under_way[write].pieces[0].number();
        if number == 0 || self.failed.contains(&number) {
            return self.end(state, write, Ok(Completed::Unknown));
        }
        if self.client_pins.len() >= PINS_MAX {
            return self.end(state, write, Err(RequestError::TooMany));
        }
        // It may still be on its way; then the pin comes when it is there.
        if let Some(fresh) = self.fresh.get_mut(&number) {
            fresh.waiters.push(write);
            self.under_way[write].outstanding = 1;
            return;
        }
        self.pinned(state, write);
    }

    fn pinned(&mut self, state: &mut StoreState, write: u32) {
        let number = self.under_way[write].pieces[0].number();
        state.pins.pin(number);
        *self.client_pins.entry(number).or_default() += 1;
        let id = state.blocks.id(number);
        self.end(state, write, Ok(Completed::Pinned(id)));
    }

    /// There is room: places and writes new blocks (step 3).
    pub(crate) fn fill(&mut self, state: &mut StoreState, write: u32) {
        if self.seeks_again(state, write) {
            return;
        }
        self.under_way[write].outstanding = 1;
        let mut runs = Runs::default();
        for index in 0..self.under_way[write].pieces.len() {
            let it = &self.under_way[write];
            let (domain, piece) = (it.domain, &it.pieces[index]);
            let (content, is_settled) = (piece.content(), piece.is_settled());
            if !is_settled {
                let bits = state.settings.index_bits;
                let content = content.expect("what is not settled has a name");
                // It may have come since: from this write, or from another one.
                let fresh = &self.fresh;
                let same =
                    |number: u32| fresh.get(&number).is_some_and(|fresh| fresh.content == content);
                if let Some(number) = state.blocks.candidate(content.short(domain, bits), same) {
                    met("two equal blocks at once");
                    self.settle(state, write, index as u32, number);
                } else {
                    self.place_piece(state, write, index, content, &mut runs);
                }
            }
            let number = self.under_way[write].pieces[index].number();
            if let Some(fresh) = self.fresh.get_mut(&number) {
                fresh.waiters.push(write);
                self.under_way[write].outstanding += 1;
            }
        }
        for run in runs.into_iter() {
            send_fill(state, write, run, 1);
        }
        self.arrived(state, write);
    }

    /// Gives a new block a number and a slot.
    fn place_piece(
        &mut self,
        state: &mut StoreState,
        write: u32,
        index: usize,
        content: ContentId,
        runs: &mut Runs,
    ) {
        let taken = state.segments.take_slot(Class::Hot);
        let (place, opened) = taken.expect("there was room for all of it");
        if let Some((segment, sequence)) = opened {
            state.journal.append(&Record::Open { segment, sequence, class: Class::Hot as u8 });
        }
        let it = &mut self.under_way[write];
        let number = state.blocks.give(Entry {
            short: content.short(it.domain, state.settings.index_bits),
            place,
            generation: state.generation,
            refs: 0,
            owner: it.volume.0,
        });
        let piece = &mut it.pieces[index];
        piece.settle(number);
        it.pinned.push(number);
        runs.push(place, number, piece.data());
        state.pins.pin(number);
        self.fresh.insert(number, Fresh { content, waiters: Vec::new() });
        state.counters.new_blocks += 1;
    }

    /// New blocks were written, or were not.
    pub(crate) fn filled(
        &mut self,
        state: &mut StoreState,
        write: u32,
        (place, numbers, tries): (u32, Vec<u32>, u32),
        result: Result<Payload, DeviceError>,
    ) {
        state.is_volatile = true;
        // Writes of others wait for these blocks, too: an error that passes shall not reach them.
        if matches!(result, Err(DeviceError::Io | DeviceError::TimedOut)) && tries < TRIES_MAX {
            met("new blocks were written again");
            return self.fill_again(state, write, place, &numbers, tries + 1);
        }
        let domain = self.under_way[write].domain;
        let mut waiters = Vec::new();
        for (place, number) in (place..).zip(numbers) {
            let fresh = self.fresh.remove(&number).expect("on its way until now");
            waiters.extend(fresh.waiters);
            if let Err(error) = result {
                met("write of a new block failed");
                state.slot_written(place, None);
                waiters.iter().for_each(|&waiter| {
                    self.under_way[waiter].error = Some(RequestError::Device(error));
                });
                state.blocks.hide(number);
                self.failed.insert(number);
                continue;
            }
            let owner = state.blocks.owner(number);
            let generation = state.blocks.entry(number).generation;
            let stored = Stored { number, generation, domain, owner, content: fresh.content };
            state.journal.append(&Record::Block(place, stored));
            state.remember(number, fresh.content);
            state.slot_written(place, Some(stored));
        }
        waiters.into_iter().for_each(|waiter| state.emit(Effect::Arrived(waiter)));
    }

    /// Writes new blocks again, to the same place, from the write that brought them: it waits for
    /// them as well, so it is here.
    fn fill_again(
        &self,
        state: &mut StoreState,
        write: u32,
        place: u32,
        numbers: &[u32],
        tries: u32,
    ) {
        let pieces = &self.under_way[write].pieces;
        let mut runs = Runs::default();
        for (place, &number) in (place..).zip(numbers) {
            let piece = pieces.iter().find(|piece| piece.is_settled() && piece.number() == number);
            runs.push(place, number, piece.expect("the write brought it").data());
        }
        for run in runs.into_iter() {
            send_fill(state, write, run, tries);
        }
    }

    /// A block for which a write waits is on the device, or failed.
    pub(crate) fn arrived(&mut self, state: &mut StoreState, write: u32) {
        let it = &mut self.under_way[write];
        it.outstanding -= 1;
        if it.outstanding > 0 {
            return;
        }
        match (it.error.take(), it.kind) {
            (Some(error), _) => self.end(state, write, Err(error)),
            (None, Kind::Pin) => self.pinned(state, write),
            (None, _) => self.apply(state, write),
        }
    }

    /// Step 4.
    fn apply(&mut self, state: &mut StoreState, write: u32) {
        let volume = self.under_way[write].volume;
        let StoreState { nodes, blocks, ledger, journal, volumes, .. } = state;
        let Some(it) = volumes.get_mut(&volume) else {
            return self.end(state, write, Err(RequestError::NoVolume(volume)));
        };
        let mut mapping = Mapping { id: volume, volume: it, nodes, blocks, ledger, journal };
        mapping.zero(self.under_way[write].zeroes.clone());
        mapping.set(&self.under_way[write].pieces);
        let version = it.version;
        self.end(state, write, Ok(Completed::Written { version }));
    }

    /// Ends a write: releases its locks, room and pins, and answers it.
    fn end(&mut self, state: &mut StoreState, write: u32, result: Result<Completed, RequestError>) {
        let Write { id, volume, fua, promised, claim, pinned, kind, pieces, .. } =
            self.under_way.remove(write);
        self.drop_claim(volume, claim);
        // Promised are nodes to those who got as far as asking, and were not refused.
        if promised > 0 && result != Err(RequestError::NoSpace) {
            state.promised -= promised;
        }
        for number in pinned {
            state.pins.unpin(number);
            self.free_failed(state, number);
        }
        drop(pieces);
        let forced = fua && matches!(result, Ok(Completed::Written { .. }));
        match result {
            Ok(completed) if forced && !mutant("forced_write_answered_at_once") => {
                state.journal.join(Waiter::Answer(id, completed));
            }
            result => state.answer(id, result),
        }
        if kind != Kind::Pin {
            for next in self.locks.end(write) {
                state.emit(Effect::Unlocked(next));
            }
        }
    }

    /// Frees the number of a block whose write failed, when no write waits for it any more.
    fn free_failed(&mut self, state: &mut StoreState, number: u32) {
        if !state.pins.holds(number) && self.failed.remove(&number) {
            state.blocks.release(number);
        }
    }

    /// Looks again for pieces whose blocks were being written by others, and failed. Returns true
    /// if there are any.
    fn seeks_again(&mut self, state: &mut StoreState, write: u32) -> bool {
        let it = &mut self.under_way[write];
        let mut any = false;
        for piece in it.pieces.iter_mut().filter(|piece| self.failed.contains(&piece.number())) {
            met("block found on its way never arrived");
            piece.unsettle();
            any = true;
        }
        if any {
            state.promised -= std::mem::take(&mut it.promised);
            let (volume, claim) = (it.volume, std::mem::take(&mut it.claim));
            self.drop_claim(volume, claim);
            self.seek(state, write);
        }
        any
    }

    /// Ends a pin of a client; returns false if there is none.
    pub(crate) fn unpin_block(&mut self, state: &mut StoreState, block: BlockId) -> bool {
        let number = block.number;
        if state.blocks.id(number) != block || !self.client_pins.contains_key(&number) {
            return false;
        }
        let count = self.client_pins.get_mut(&number).expect("just seen");
        *count -= 1;
        if *count == 0 {
            self.client_pins.remove(&number);
        }
        state.pins.unpin(number);
        true
    }
}

/// Writes new blocks to their places.
fn send_fill(state: &mut StoreState, write: u32, run: Run, tries: u32) {
    let (data, Run { place, numbers, .. }) = (run.data(), run);
    let io = Io::Write { offset: offset(u64::from(place)), data, fua: false };
    state.send(Task::Fill { write, place, numbers, tries }, io);
}

/// Part of its volume's quotas that a write with `new` blocks needs, beside the claims of others.
///
/// # Errors
/// A quota has not that much left.
fn claim_of(
    state: &StoreState,
    it: &Write,
    new: u32,
    others: Claim,
) -> Result<Claim, RequestError> {
    let others = if mutant("quotas_without_claims") { Claim::default() } else { others };
    let volume = state.volumes.get(&it.volume).ok_or(RequestError::NoVolume(it.volume))?;
    let (root, level) = (volume.root, volume.level);
    let grows = |piece: &&Piece| {
        let is_something = !piece.is_settled() || piece.number() != 0;
        is_something && state.nodes.get(root, level, piece.block) == 0
    };
    let block = u64::from(BLOCK);
    let more = it.pieces.iter().filter(grows).count() as u64;
    let mapped = (volume.mapped + others.logical + more).saturating_mul(block);
    if more > 0 && mapped > volume.quotas.logical.0 {
        return Err(RequestError::Quota(QuotaKind::Logical));
    }
    let charged = state.ledger.charged.get(&it.volume).copied().unwrap_or(0);
    let charged = (charged + others.physical + u64::from(new)).saturating_mul(block);
    if new > 0 && charged > volume.quotas.physical.0 {
        return Err(RequestError::Quota(QuotaKind::Physical));
    }
    Ok(Claim { logical: more, physical: u64::from(new) })
}

/// Nodes that the write may make or copy, at most.
fn nodes_for(state: &StoreState, it: &Write) -> u32 {
    let level = state.volumes.get(&it.volume).map_or(0, |volume| u32::from(volume.level));
    let edges = match it.kind {
        Kind::Data | Kind::Names => it.pieces.len() as u32 / state.settings.fanout + 2,
        _ => 2,
    };
    edges * (level + 1)
}
