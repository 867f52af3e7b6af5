//! Cleaning: the blocks left on a segment full of holes are moved, and the segment is free.
//!
//! The victim is the segment with the highest product of holes and age, divided by its blocks
//! (Rosenblum and Ousterhout, 1992). Its trailer lists the blocks that were written there. A block
//! is still there if the table has this place for it. Moved blocks are checked against their full
//! hashes, so that damage does not spread. They go to segments of their own, because old blocks are
//! likely to stay. One run of blocks is moved at a time. Reads and writes are sent as background
//! requests.

use crate::format::{Record, Stored, decode_trailer};
use crate::name::{BLOCK, ContentId};
use crate::segments::{Class, State};
use crate::settings::{CLEANING_RESERVE, MAP_RESERVE};
use crate::store::{Store, Task, offset};
use thermocline_ports::{Device, DeviceError, Io, Payload};
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
    pub(crate) fn is_idle(&self) -> bool {
        self.victim.is_none()
    }
}

impl<D: Device> Store<D> {
    /// Goes on with a cleaning, or begins one when few segments are free.
    pub(crate) fn pump_cleaner(&mut self) {
        if self.cleaner.victim.is_some() {
            if !self.cleaner.is_busy {
                self.clean_run();
            }
            return;
        }
        let percent = u32::from(self.settings.clean_below_percent);
        let reserve = CLEANING_RESERVE + MAP_RESERVE + 1;
        let low = (self.layout.segments * percent / 100).max(reserve);
        if self.segments.free_count() >= low || self.segments.are_moving() {
            return;
        }
        // What a sweep would free need not be moved.
        if self.sweepable() > self.layout.slots() / 2 && self.sweep.is_idle() && !self.sweep.wanted
        {
            self.sweep.wanted = true;
        } else if self.sweep.is_idle() && self.segments.free_count() < low {
            let slots = self.layout.slots();
            self.choose_victim(slots / 16 + 1);
        }
    }

    /// Begins to clean the best segment that has holes; returns false if there is none.
    pub(crate) fn clean_some(&mut self) -> bool {
        self.choose_victim(1)
    }

    fn choose_victim(&mut self, holes_min: u32) -> bool {
        let slots = self.layout.slots();
        let newest = self.segments.next_sequence;
        let worth = |live: u32, sequence: u64| {
            u64::from(slots - live) * (newest - sequence) * 1024 / u64::from(live + 1)
        };
        let victim = self
            .segments
            .iter()
            .filter(|(_, segment)| segment.state == State::Sealed && !segment.is_rotten)
            .filter(|(_, segment)| segment.live > 0 && slots - segment.live >= holes_min)
            .max_by_key(|(_, segment)| worth(segment.live, segment.sequence));
        let Some((victim, _)) = victim else { return false };
        met("segment cleaned");
        self.counters.cleanings += 1;
        self.cleaner.victim = Some(victim);
        self.cleaner.is_busy = true;
        self.segments.get_mut(victim).readers += 1;
        let io = Io::Read {
            offset: offset(u64::from(self.layout.trailer(victim))),
            length: self.layout.trailer_blocks() * BLOCK,
        };
        self.send(Task::CleanTrailer, io);
        true
    }

    pub(crate) fn clean_trailer_read(&mut self, result: Result<Payload, DeviceError>) {
        self.cleaner.is_busy = false;
        let victim = self.cleaner.victim.expect("cleaning");
        let slots = self.layout.slots();
        let trailer = result
            .ok()
            .and_then(|data| decode_trailer(&data.to_vec(), self.identity, victim, slots));
        let Some(trailer) = trailer else {
            met("trailer of a victim could not be read");
            return self.end_cleaning(true);
        };
        let first = self.layout.first_slot(victim);
        let there = (first..).zip(trailer.entries).filter_map(|(place, entry)| {
            let entry = entry?;
            self.is_there(place, &entry).then_some((place, entry))
        });
        let mut blocks: Vec<(u32, Stored)> = there.collect();
        blocks.reverse();
        self.cleaner.blocks = blocks;
    }

    /// True if the block still lies there.
    fn is_there(&self, place: u32, stored: &Stored) -> bool {
        let entry = self.blocks.entry(stored.number);
        entry.place == place && entry.generation == stored.generation
    }

    /// Reads the next run.
    fn clean_run(&mut self) {
        let mut blocks: Vec<(u32, Stored)> = Vec::new();
        while let Some((place, stored)) = self.cleaner.blocks.last() {
            let goes_on = blocks.last().is_none_or(|(last, _)| last + 1 == *place);
            if !self.is_there(*place, stored) {
                met("block swept while its segment was cleaned");
                self.cleaner.blocks.pop();
            } else if goes_on && blocks.len() < RUN_MAX {
                blocks.extend(self.cleaner.blocks.pop());
            } else {
                break;
            }
        }
        let Some(&(place, _)) = blocks.first() else { return self.end_cleaning(false) };
        let length = blocks.len() as u32 * BLOCK;
        self.cleaner.run = Some(Run { blocks, data: Payload::EMPTY, outstanding: 0 });
        self.cleaner.is_busy = true;
        self.send(Task::CleanRead, Io::Read { offset: offset(u64::from(place)), length });
    }

    pub(crate) fn clean_read(&mut self, result: Result<Payload, DeviceError>) {
        self.cleaner.is_busy = false;
        let victim = self.cleaner.victim.expect("cleaning");
        let Some(mut run) = self.cleaner.run.take() else { return };
        let Ok(data) = result else {
            self.segments.get_mut(victim).is_rotten = true;
            return;
        };
        let bytes = data.to_vec();
        let mut kept = Vec::new();
        let mut contents = Vec::new();
        for (&(place, stored), block) in run.blocks.iter().zip(bytes.chunks(BLOCK as usize)) {
            if ContentId::of(block) != stored.content {
                met("damaged block met while cleaning");
                self.counters.damaged += 1;
                self.segments.get_mut(victim).is_rotten = true;
                continue;
            }
            kept.push((place, stored));
            contents.extend_from_slice(block);
        }
        run.blocks = kept;
        run.data = Payload::from(contents);
        self.counters.cleaned_blocks += run.blocks.len() as u64;
        self.write_run(run);
    }

    fn write_run(&mut self, mut run: Run) {
        // Slots one behind the other are written at once: first place, index of the first block.
        let mut pieces: Vec<(u32, u32, u32)> = Vec::new();
        for index in 0..run.blocks.len() as u32 {
            let Some((place, opened)) = self.segments.take_slot(Class::Cold) else {
                met("cleaning found no free segment");
                break;
            };
            if let Some((segment, sequence)) = opened {
                self.commit.append(&Record::Open { segment, sequence, class: Class::Cold as u8 });
            }
            match pieces.last_mut() {
                Some((first, _, count)) if *first + *count == place => *count += 1,
                _ => pieces.push((place, index, 1)),
            }
        }
        if pieces.is_empty() {
            if !run.blocks.is_empty() {
                self.end_cleaning(false);
            }
            return;
        }
        run.outstanding = pieces.len() as u32;
        let data = run.data.clone();
        self.cleaner.run = Some(run);
        self.cleaner.is_busy = true;
        for (place, first, count) in pieces {
            let data = data.slice(first * BLOCK..(first + count) * BLOCK);
            let io = Io::Write { offset: offset(u64::from(place)), data, fua: false };
            self.send(Task::CleanWrite { place, first, count }, io);
        }
    }

    pub(crate) fn clean_written(
        &mut self,
        place: u32,
        first: u32,
        count: u32,
        result: Result<Payload, DeviceError>,
    ) {
        self.is_volatile = true;
        for index in 0..count {
            let run = self.cleaner.run.as_ref().expect("under way");
            let (from, stored) = run.blocks[(first + index) as usize];
            let to = place + index;
            let is_there = self.is_there(from, &stored);
            met_if(!is_there, "block swept while it was moved");
            if result.is_err() || !(is_there || mutant("swept_block_moved")) {
                self.slot_written(to, None);
                continue;
            }
            self.commit.append(&Record::Block(to, stored));
            self.slot_written(to, Some(stored));
            self.blocks.move_to(stored.number, to);
            self.segments.leave(from);
        }
        let run = self.cleaner.run.as_mut().expect("under way");
        run.outstanding -= 1;
        if run.outstanding == 0 {
            self.cleaner.run = None;
            self.cleaner.is_busy = false;
        }
    }

    fn end_cleaning(&mut self, is_rotten: bool) {
        self.steps += 1;
        let victim = self.cleaner.victim.take().expect("cleaning");
        self.cleaner.blocks.clear();
        self.cleaner.run = None;
        let segment = self.segments.get_mut(victim);
        segment.readers -= 1;
        segment.is_rotten |= is_rotten;
        self.commit.wanted = true;
    }
}
