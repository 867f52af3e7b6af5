//! Cleaning: the blocks left on a segment full of holes are moved, and the segment is free.
//!
//! The tactic of cleaning ([`thermocline_policy::tactics::Cleaning`]) chooses the victim among the
//! segments with enough holes. Its trailer lists the blocks that were written there. A block
//! is still there if the table has this place for it. Moved blocks are checked against their full
//! hashes, so that damage does not spread. They go to segments of their own, because old blocks are
//! likely to stay. One run of blocks is moved at a time. Reads and writes are sent as background
//! requests.

use crate::format::{Record, Stored, decode_trailer};
use crate::name::{BLOCK, ContentId};
use crate::segments::{Class, Segment, State};
use crate::settings::{CLEANING_RESERVE, MAP_RESERVE};
use crate::state::{Progress, StoreState};
use crate::tasks::{Task, offset};
use thermocline_policy::tactics::SegmentUse;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Blocks of one run.
const RUN_MAX: usize = 64;

#[derive(Debug)]
struct Run {
    blocks: Vec<(u32, Stored)>,
    data: Payload,
    /// Writes under way.
    outstanding: u32,
}

/// State of the cleaning that is under way.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    victim: Option<u32>,
    /// Blocks to be moved, the next one last.
    blocks: Vec<(u32, Stored)>,
    run: Option<Run>,
    /// True while a request is under way.
    is_busy: bool,
}

impl Cleaner {
    /// True if no segment is being cleaned.
    pub(crate) fn is_idle(&self) -> bool {
        self.victim.is_none()
    }

    /// Goes on with a cleaning, or begins one when few segments are free.
    pub(crate) fn pump(&mut self, state: &mut StoreState, progress: Progress) {
        if self.victim.is_some() {
            if !self.is_busy {
                self.read_run(state);
            }
            return;
        }
        let percent = u32::from(state.settings.clean_below_percent);
        let reserve = CLEANING_RESERVE + MAP_RESERVE + 1;
        let low = (state.layout.segments * percent / 100).max(reserve);
        if state.segments.free_count() >= low || state.segments.are_moving() {
            return;
        }
        // What a sweep would free need not be moved.
        let is_swept = progress.is_sweeping || state.wants.sweep;
        if state.sweepable() > state.layout.slots() / 2 && !is_swept {
            state.wants.sweep = true;
        } else if !progress.is_sweeping
            && let Some(victim) = victim(state, state.layout.slots() / 16 + 1)
        {
            self.begin(state, victim);
        }
    }

    /// Begins to clean a segment.
    pub(crate) fn begin(&mut self, state: &mut StoreState, victim: u32) {
        met("segment cleaned");
        state.counters.cleanings += 1;
        self.victim = Some(victim);
        self.is_busy = true;
        state.segments.get_mut(victim).readers += 1;
        let io = Io::Read {
            offset: offset(u64::from(state.layout.trailer(victim))),
            length: state.layout.trailer_blocks() * BLOCK,
        };
        state.send(Task::CleanTrailer, io);
    }

    /// The trailer of the segment was read, or was not.
    pub(crate) fn trailer_read(
        &mut self,
        state: &mut StoreState,
        result: Result<Payload, DeviceError>,
    ) {
        self.is_busy = false;
        let victim = self.victim.expect("cleaning");
        let slots = state.layout.slots();
        let trailer = result
            .ok()
            .and_then(|data| decode_trailer(&data.to_vec(), state.identity, victim, slots));
        let Some(trailer) = trailer else {
            met("trailer of a victim could not be read");
            return self.end(state, true);
        };
        let first = state.layout.first_slot(victim);
        let there = (first..).zip(trailer.entries).filter_map(|(place, entry)| {
            let entry = entry?;
            is_there(state, place, &entry).then_some((place, entry))
        });
        let mut blocks: Vec<(u32, Stored)> = there.collect();
        blocks.reverse();
        self.blocks = blocks;
    }

    /// Reads the next run.
    fn read_run(&mut self, state: &mut StoreState) {
        let mut blocks: Vec<(u32, Stored)> = Vec::new();
        while let Some((place, stored)) = self.blocks.last() {
            let goes_on = blocks.last().is_none_or(|(last, _)| last + 1 == *place);
            if !is_there(state, *place, stored) {
                met("block swept while its segment was cleaned");
                self.blocks.pop();
            } else if goes_on && blocks.len() < RUN_MAX {
                blocks.extend(self.blocks.pop());
            } else {
                break;
            }
        }
        let Some(&(place, _)) = blocks.first() else { return self.end(state, false) };
        let length = blocks.len() as u32 * BLOCK;
        self.run = Some(Run { blocks, data: Payload::EMPTY, outstanding: 0 });
        self.is_busy = true;
        state.send(Task::CleanRead, Io::Read { offset: offset(u64::from(place)), length });
    }

    /// The blocks of a run were read, or were not.
    pub(crate) fn run_read(
        &mut self,
        state: &mut StoreState,
        result: Result<Payload, DeviceError>,
    ) {
        self.is_busy = false;
        let victim = self.victim.expect("cleaning");
        let Some(mut run) = self.run.take() else { return };
        let Ok(data) = result else {
            state.segments.get_mut(victim).is_rotten = true;
            return;
        };
        let bytes = data.to_vec();
        let mut kept = Vec::new();
        let mut contents = Vec::new();
        for (&(place, stored), block) in run.blocks.iter().zip(bytes.chunks(BLOCK as usize)) {
            if ContentId::of(block) != stored.content {
                met("damaged block met while cleaning");
                state.counters.damaged += 1;
                state.segments.get_mut(victim).is_rotten = true;
                continue;
            }
            kept.push((place, stored));
            contents.extend_from_slice(block);
        }
        run.blocks = kept;
        run.data = Payload::from(contents);
        state.counters.cleaned_blocks += run.blocks.len() as u64;
        self.write_run(state, run);
    }

    fn write_run(&mut self, state: &mut StoreState, mut run: Run) {
        // Slots one behind the other are written at once: first place, index of the first block.
        let mut pieces: Vec<(u32, u32, u32)> = Vec::new();
        for index in 0..run.blocks.len() as u32 {
            let Some((place, opened)) = state.segments.take_slot(Class::Cold) else {
                met("cleaning found no free segment");
                break;
            };
            if let Some((segment, sequence)) = opened {
                state.journal.append(&Record::Open { segment, sequence, class: Class::Cold as u8 });
            }
            match pieces.last_mut() {
                Some((first, _, count)) if *first + *count == place => *count += 1,
                _ => pieces.push((place, index, 1)),
            }
        }
        if pieces.is_empty() {
            if !run.blocks.is_empty() {
                self.end(state, false);
            }
            return;
        }
        run.outstanding = pieces.len() as u32;
        let data = run.data.clone();
        self.run = Some(run);
        self.is_busy = true;
        for (place, first, count) in pieces {
            let data = data.slice(first * BLOCK..(first + count) * BLOCK);
            let io = Io::Write { offset: offset(u64::from(place)), data, fua: false };
            state.send(Task::CleanWrite { place, first, count }, io);
        }
    }

    /// Blocks of a run were written, or were not.
    pub(crate) fn run_written(
        &mut self,
        state: &mut StoreState,
        place: u32,
        first: u32,
        count: u32,
        result: Result<Payload, DeviceError>,
    ) {
        state.is_volatile = true;
        for index in 0..count {
            let run = self.run.as_ref().expect("under way");
            let (from, stored) = run.blocks[(first + index) as usize];
            let to = place + index;
            let is_there = is_there(state, from, &stored);
            met_if(!is_there, "block swept while it was moved");
            if result.is_err() || !(is_there || mutant("swept_block_moved")) {
                state.slot_written(to, None);
                continue;
            }
            state.journal.append(&Record::Block(to, stored));
            state.slot_written(to, Some(stored));
            state.blocks.move_to(stored.number, to);
            state.segments.leave(from);
        }
        let run = self.run.as_mut().expect("under way");
        run.outstanding -= 1;
        if run.outstanding == 0 {
            self.run = None;
            self.is_busy = false;
        }
    }

    fn end(&mut self, state: &mut StoreState, is_rotten: bool) {
        state.note_step();
        let victim = self.victim.take().expect("cleaning");
        self.blocks.clear();
        self.run = None;
        let segment = state.segments.get_mut(victim);
        segment.readers -= 1;
        segment.is_rotten |= is_rotten;
        state.wants.commit = true;
    }
}

/// The best segment to be cleaned, of those with at least so many holes.
pub(crate) fn victim(state: &StoreState, holes_min: u32) -> Option<u32> {
    let slots = state.layout.slots();
    let newest = state.segments.next_sequence;
    let holes = |segment: &Segment| slots - segment.live;
    let can_go = |segment: &Segment| {
        segment.state == State::Sealed && !segment.is_rotten && segment.live > 0
    };
    state.settings.tactics.cleaning.ask(|tactic| {
        let worth = |segment: &Segment| {
            let (live, age) = (segment.live, newest - segment.sequence);
            tactic.worth(&SegmentUse { slots, live, age })
        };
        let segments = state.segments.iter();
        let victims = segments.filter(|(_, it)| can_go(it) && holes(it) >= holes_min);
        victims.max_by_key(|(_, segment)| worth(segment)).map(|(victim, _)| victim)
    })
}

/// True if the block still lies there.
fn is_there(state: &StoreState, place: u32, stored: &Stored) -> bool {
    let entry = state.blocks.entry(stored.number);
    entry.place == place && entry.generation == stored.generation
}
