//! Flash: dies that read, program and erase, behind a lane, a write buffer and a translation layer.
//!
//! 1. A request passes its direction's lane.
//! 2. A read goes to the dies that hold its pages, all at once: sense, then transfer over the die's
//!    channel. On a die it waits for other reads, and for a program or an erase at most `suspend`;
//!    that work then takes so much longer.
//! 3. A write takes slots of the buffer, in a ring, and is acknowledged when it has them. Slots are
//!    free again when their pages are programmed. Pages are gathered into batches, one die after
//!    the other.
//! 4. After each batch the die does the cleaning it owes (`ftl`): a sense for each moved page, a
//!    program for each batch of them, an erase at the end. All that time it is busy; a latency
//!    above the median is made of this.
//! 5. Without power-loss protection a flush, and a forced write, programs the batch that is being
//!    gathered and waits for all programs.
//!
//! After MQSim (Tavakkol et al., FAST '18) and FEMU (Li et al., FAST '18), reduced to what FCFS
//! servers can say; suspension as in Wu and He, "Reducing SSD read latency via NAND flash program
//! and erase suspension" (2012). State: `ftl`'s, 16 B a die, 8 B a page of the buffer.

use super::counters::FlashCounters;
use super::ftl::Ftl;
use super::lane::LaneModel;
use super::profile::Flash;
use super::schedule::{Kind, Request};
use super::stripe::Shape;
use thermocline_units::{Bytes, Nanos, Rng};

/// Blocks that a die has at least; smaller devices get smaller blocks, so that cleaning still has a
/// choice.
const BLOCKS_MIN: u32 = 256;

/// The time at which a die is free.
#[derive(Debug, Clone, Copy, Default)]
struct Die {
    /// From reads.
    reads: Nanos,
    /// From programs, erases and cleaning.
    rest: Nanos,
}

#[derive(Debug)]
pub(super) struct FlashModel {
    profile: Flash,
    read: LaneModel,
    write: LaneModel,
    page_bits: u32,
    /// Time to move a page between a die and the controller.
    page_transfer: f64,
    ftl: Ftl,
    dies: Vec<Die>,
    /// The times at which each slot of the buffer is free.
    slots: Vec<Nanos>,
    /// The slot that the next page takes.
    slot: usize,
    /// Pages in the batch that is being gathered.
    gathered: u32,
    /// The die that it goes to.
    die: u32,
    /// End of the last program.
    programmed: Nanos,
}

impl FlashModel {
    pub(super) fn new(profile: &Flash, size: Bytes) -> FlashModel {
        let pages = size.0.div_ceil(profile.page.0);
        let pages = u32::try_from(pages).expect("flash devices have less than 2^32 pages");
        let batch = profile.program_pages;
        let die_pages = pages.div_ceil(profile.dies);
        let block_pages =
            (die_pages / BLOCKS_MIN / batch * batch).clamp(batch, profile.block_pages);
        let ftl = Ftl::new(Shape {
            pages,
            dies: profile.dies,
            batch,
            block_pages,
            over_provisioning: profile.over_provisioning,
            preconditioned: profile.preconditioned,
        });
        FlashModel {
            read: LaneModel::new(&profile.read),
            write: LaneModel::new(&profile.write),
            page_bits: profile.page.0.trailing_zeros(),
            page_transfer: profile.page.0 as f64 * 1e9 / profile.die_bytes_per_s as f64,
            ftl,
            dies: vec![Die::default(); profile.dies as usize],
            slots: vec![Nanos(0); profile.buffer.div_floor(profile.page) as usize],
            slot: 0,
            gathered: 0,
            die: 0,
            programmed: Nanos(0),
            profile: profile.clone(),
        }
    }

    pub(super) fn due(
        &mut self,
        request: &Request,
        rng: &mut Rng,
        counters: &mut FlashCounters,
    ) -> Nanos {
        let now = request.submitted;
        match request.kind {
            Kind::Read => self.read(request, rng),
            Kind::Write => self.write(request, rng, counters),
            Kind::ForcedWrite => {
                let acknowledged = self.write(request, rng, counters);
                self.drain(acknowledged, counters)
            }
            Kind::Flush => {
                let through = Nanos(self.write.pass(now, 0).0 + 1);
                self.drain(through, counters)
            }
            Kind::Discard | Kind::WriteZeroes => {
                self.discard(request);
                Nanos(self.write.pass(now, 0).0 + 1)
            }
        }
    }

    /// Pages that a request touches, as (first, beyond the last).
    fn pages(&self, request: &Request) -> (u32, u32) {
        let end = (request.offset + request.length).div_ceil(1 << self.page_bits);
        ((request.offset >> self.page_bits) as u32, end as u32)
    }

    fn read(&mut self, request: &Request, rng: &mut Rng) -> Nanos {
        let through = self.read.pass(request.submitted, request.length);
        let (first, end) = self.pages(request);
        let mut latest = through;
        let mut page = first;
        while page < end {
            let Some((die, batch)) = self.ftl.locate(page) else {
                page += 1;
                continue;
            };
            let begin = page;
            page += 1;
            while page < end && self.ftl.locate(page) == Some((die, batch)) {
                page += 1;
            }
            let sense = self.profile.spread.draw(rng, self.profile.sense);
            let time = sense.0 + (f64::from(page - begin) * self.page_transfer) as u64;
            latest = latest.max(self.read_from(die, through, time));
        }
        Nanos(latest.0 + self.profile.spread.draw(rng, self.profile.read_overhead).0)
    }

    /// Occupies a die for a read that comes at `from`; returns its end.
    fn read_from(&mut self, die: u32, from: Nanos, time: u64) -> Nanos {
        let die = &mut self.dies[die as usize];
        let suspended = Nanos(from.0 + self.profile.suspend.0);
        let start = from.max(die.reads).max(die.rest.min(suspended));
        die.reads = Nanos(start.0 + time);
        if die.rest > start {
            die.rest.0 += time;
        }
        die.reads
    }

    fn write(&mut self, request: &Request, rng: &mut Rng, counters: &mut FlashCounters) -> Nanos {
        let through = self.write.pass(request.submitted, request.length);
        let (first, end) = self.pages(request);
        let mut admitted = through;
        for page in first..end {
            admitted = admitted.max(self.slots[self.slot]);
            if self.gathered == 0 {
                self.die = self.ftl.die_with_room(self.die);
            }
            self.ftl.write(page, self.die);
            self.gathered += 1;
            self.slot = (self.slot + 1) % self.slots.len();
            if self.gathered == self.profile.program_pages {
                self.program(admitted, counters);
            }
        }
        counters.host.0 += u64::from(end - first) << self.page_bits;
        Nanos(admitted.0 + self.profile.spread.draw(rng, self.profile.write_overhead).0)
    }

    /// Programs the gathered batch and does the cleaning that its die owes.
    fn program(&mut self, from: Nanos, counters: &mut FlashCounters) {
        let batch = self.profile.program_pages;
        let die = &mut self.dies[self.die as usize];
        let end = Nanos(die.rest.max(die.reads).max(from).0 + self.profile.program.0);
        let slots = self.slots.len();
        for back in 1..=self.gathered as usize {
            self.slots[(self.slot + slots - back) % slots] = end;
        }
        self.programmed = self.programmed.max(end);
        let cleaned = self.ftl.clean(self.die, batch);
        let moved = f64::from(cleaned.moved);
        let sense = self.profile.sense.0 as f64 / f64::from(self.profile.planes);
        let program = self.profile.program.0 as f64 / f64::from(batch);
        let cleaning =
            (moved * (sense + program)) as u64 + u64::from(cleaned.erased) * self.profile.erase.0;
        die.rest = Nanos(end.0 + cleaning);
        counters.programmed.0 += u64::from(batch + cleaned.moved) << self.page_bits;
        counters.erases += u64::from(cleaned.erased);
        counters.cleaning.0 += cleaning;
        self.gathered = 0;
        self.die = (self.die + 1) % self.profile.dies;
    }

    /// Time at which everything written until `from` is durable.
    fn drain(&mut self, from: Nanos, counters: &mut FlashCounters) -> Nanos {
        if self.profile.power_loss_protection {
            return from;
        }
        if self.gathered > 0 {
            self.ftl.pad(self.die, self.profile.program_pages - self.gathered);
            self.program(from, counters);
        }
        self.programmed.max(from)
    }

    /// Unmaps the pages that lie wholly in the range.
    fn discard(&mut self, request: &Request) {
        let first = request.offset.div_ceil(1 << self.page_bits);
        let end = (request.offset + request.length) >> self.page_bits;
        for page in first..end {
            self.ftl.forget(page as u32);
        }
    }
}
