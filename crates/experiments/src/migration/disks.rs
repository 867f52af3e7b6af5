//! Seven disks or so, request by request: priorities, and units that are copied while in use.
//!
//! 1. A disk serves one request at a time, for its size divided by the disk's rate, and then takes
//!    the oldest of the best rank that waits: strict applications, loose ones, copying, and, where
//!    copying outranks the unit that moves (SMsT), that unit's own requests.
//! 2. A unit is copied piece by piece: pieces are asked for at an even pace, read from the source,
//!    then written to the destination. A disk is part of one copy at a time; moves wait their turn
//!    in the order in which they were proposed.
//! 3. When the last piece is written the unit lives on its destination. What waits for it at the
//!    source is still answered there.
//!
//! Invariants: no request is lost; a disk is never idle while something waits; a unit is on exactly
//! one disk. Decides nothing about who moves. Times are milliseconds, sizes KiB.

use super::workload::Request;
use std::collections::VecDeque;

/// Ranks of requests, best first.
const STRICT: usize = 0;
const LOOSE: usize = 1;
const COPY: usize = 2;
const OUTRANKED: usize = 3;
const RANKS: usize = 4;

/// Purpose of a request to a disk.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Purpose {
    /// A request of an application; `moving` when its unit was being copied.
    Ask { moving: bool },
    /// The read of a piece of a unit that moves.
    CopyOut,
    /// The write of that piece.
    CopyIn,
}

#[derive(Debug, Clone, Copy)]
struct Job {
    at: f64,
    unit: u32,
    kib: f32,
    purpose: Purpose,
}

#[derive(Debug)]
struct Disk {
    kib_per_ms: f64,
    waiting: [VecDeque<Job>; RANKS],
    serving: Option<Job>,
    /// Time at which that is done; endless without.
    done_at: f64,
    busy_ms: f64,
}

/// A unit that shall move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Order {
    pub(super) unit: u32,
    pub(super) to: u16,
    /// KiB a ms at which it is copied.
    pub(super) kib_per_ms: f64,
}

#[derive(Debug, Clone, Copy)]
struct Copying {
    order: Order,
    from: u16,
    /// Time at which the next piece is asked for.
    next_at: f64,
    /// Pieces that were not asked for, and not written, yet.
    unread: u32,
    unwritten: u32,
}

/// A request that was answered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Answer {
    pub(super) unit: u32,
    /// From when it was asked to when it was answered, ms.
    pub(super) response: f64,
    /// True if its unit was being copied when it was asked.
    pub(super) moving: bool,
}

/// Copying of units.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copier {
    /// Pieces of a unit, and KiB of each.
    pub(super) pieces: u32,
    pub(super) piece_kib: f64,
    /// True if copying outranks the requests to the unit that moves.
    pub(super) outranks: bool,
}

/// The disks of a load, request by request.
#[derive(Debug)]
pub(super) struct Disks {
    disks: Vec<Disk>,
    /// Disks where units live, by unit, and whether their applications are strict.
    homes: Vec<u16>,
    strict: Vec<bool>,
    copier: Copier,
    orders: VecDeque<Order>,
    copies: Vec<Copying>,
}

impl Disks {
    /// Disks of these rates, with units where `homes` says.
    pub(super) fn new(rates: &[f64], homes: Vec<u16>, strict: Vec<bool>, copier: Copier) -> Disks {
        assert_eq!(homes.len(), strict.len(), "each unit has a home and a class");
        let disk = |&kib_per_ms| Disk {
            kib_per_ms,
            waiting: Default::default(),
            serving: None,
            done_at: f64::INFINITY,
            busy_ms: 0.0,
        };
        let (orders, copies) = (VecDeque::new(), Vec::new());
        Disks { disks: rates.iter().map(disk).collect(), homes, strict, copier, orders, copies }
    }

    pub(super) fn homes(&self) -> &[u16] {
        &self.homes
    }

    /// Disk to which `unit` is being moved, if it is.
    pub(super) fn destination(&self, unit: u32) -> Option<u16> {
        self.copies.iter().find(|copy| copy.order.unit == unit).map(|copy| copy.order.to)
    }

    /// Time that each disk was busy, ms.
    pub(super) fn busy_ms(&self) -> impl Iterator<Item = f64> {
        self.disks.iter().map(|disk| disk.busy_ms)
    }

    /// Moves of this slot; those of the last that did not begin are dropped.
    pub(super) fn order(&mut self, orders: impl Iterator<Item = Order>, now: f64) {
        self.orders.clear();
        self.orders.extend(orders);
        self.start_copies(now);
    }

    /// Serves `requests` and all that waits, until `end`.
    pub(super) fn serve(&mut self, requests: &[Request], end: f64, note: &mut impl FnMut(Answer)) {
        let mut requests = requests.iter().peekable();
        while !self.copies.is_empty() {
            let asked = requests.peek().map_or(f64::INFINITY, |request| request.at);
            let (disk, done) = self.next_done();
            let (copy, due) = self.next_piece();
            let now = asked.min(done).min(due);
            if now > end || now == f64::INFINITY {
                return;
            }
            if now == done {
                self.finish(disk, now, note);
            } else if now == due {
                self.ask_piece(copy, now);
            } else if let Some(request) = requests.next() {
                self.ask(request);
            }
        }
        // Without copies disks know nothing of each other, and none begins before the next slot.
        for request in requests {
            let disk = usize::from(self.homes[request.unit as usize]);
            self.catch_up(disk, request.at, note);
            self.ask(request);
        }
        (0..self.disks.len()).for_each(|disk| self.catch_up(disk, end, note));
    }

    /// Lets `disk` finish what is done by `now`.
    fn catch_up(&mut self, disk: usize, now: f64, note: &mut impl FnMut(Answer)) {
        while self.disks[disk].done_at <= now && self.disks[disk].serving.is_some() {
            self.finish(disk, self.disks[disk].done_at, note);
        }
    }

    fn next_done(&self) -> (usize, f64) {
        let done = self.disks.iter().map(|disk| disk.done_at).enumerate();
        done.fold((0, f64::INFINITY), |best, disk| if disk.1 < best.1 { disk } else { best })
    }

    fn next_piece(&self) -> (usize, f64) {
        let due = self.copies.iter().map(|copy| copy.next_at).enumerate();
        due.fold((0, f64::INFINITY), |best, copy| if copy.1 < best.1 { copy } else { best })
    }

    fn ask(&mut self, request: &Request) {
        let Request { at, unit, kib, .. } = *request;
        let moving = self.copies.iter().any(|copy| copy.order.unit == unit);
        let rank = match (moving && self.copier.outranks, self.strict[unit as usize]) {
            (true, _) => OUTRANKED,
            (false, true) => STRICT,
            (false, false) => LOOSE,
        };
        let job = Job { at, unit, kib, purpose: Purpose::Ask { moving } };
        self.disks[usize::from(self.homes[unit as usize])].take(job, rank, at);
    }

    fn ask_piece(&mut self, index: usize, now: f64) {
        let kib = self.copier.piece_kib;
        let copy = &mut self.copies[index];
        copy.unread -= 1;
        copy.next_at = match copy.unread {
            0 => f64::INFINITY,
            _ => now + kib / copy.order.kib_per_ms,
        };
        let job =
            Job { at: now, unit: copy.order.unit, kib: kib as f32, purpose: Purpose::CopyOut };
        self.disks[usize::from(copy.from)].take(job, COPY, now);
    }

    /// Ends what `disk` serves.
    fn finish(&mut self, disk: usize, now: f64, note: &mut impl FnMut(Answer)) {
        let job = self.disks[disk].serving.take().expect("only a busy disk gets done");
        self.disks[disk].next(now);
        match job.purpose {
            Purpose::Ask { moving } => {
                note(Answer { unit: job.unit, response: now - job.at, moving });
            }
            Purpose::CopyOut => {
                let to = self.destination(job.unit).expect("a piece belongs to a copy");
                let piece = Job { at: now, purpose: Purpose::CopyIn, ..job };
                self.disks[usize::from(to)].take(piece, COPY, now);
            }
            Purpose::CopyIn => self.written(job.unit, now),
        }
    }

    /// A piece of `unit` is written; with the last one it lives on its destination.
    fn written(&mut self, unit: u32, now: f64) {
        let index = self.copies.iter().position(|copy| copy.order.unit == unit);
        let index = index.expect("a piece belongs to a copy");
        self.copies[index].unwritten -= 1;
        if self.copies[index].unwritten > 0 {
            return;
        }
        let Copying { order, from, .. } = self.copies.swap_remove(index);
        self.homes[unit as usize] = order.to;
        let source = &mut self.disks[usize::from(from)];
        // A disk is part of one copy: all that was outranked waits for this unit.
        let outranked = std::mem::take(&mut source.waiting[OUTRANKED]);
        source.waiting[if self.strict[unit as usize] { STRICT } else { LOOSE }].extend(outranked);
        self.start_copies(now);
    }

    /// Begins the moves whose disks are part of no other copy, in order.
    fn start_copies(&mut self, now: f64) {
        let mut taken = vec![false; self.disks.len()];
        for copy in &self.copies {
            (taken[usize::from(copy.from)], taken[usize::from(copy.order.to)]) = (true, true);
        }
        let Disks { orders, copies, homes, copier, .. } = self;
        orders.retain(|order| {
            let from = homes[order.unit as usize];
            let (source, destination) = (usize::from(from), usize::from(order.to));
            if taken[source] || taken[destination] {
                // Those behind it must not overtake it: they may need the place that it leaves.
                (taken[source], taken[destination]) = (true, true);
                return true;
            }
            (taken[source], taken[destination]) = (true, true);
            let (unread, unwritten) = (copier.pieces, copier.pieces);
            copies.push(Copying { order: *order, from, next_at: now, unread, unwritten });
            false
        });
    }
}

impl Disk {
    /// Takes a job in, at once when idle.
    fn take(&mut self, job: Job, rank: usize, now: f64) {
        self.waiting[rank].push_back(job);
        if self.serving.is_none() {
            self.next(now);
        }
    }

    /// Begins the best of what waits.
    fn next(&mut self, now: f64) {
        self.serving = self.waiting.iter_mut().find_map(VecDeque::pop_front);
        self.done_at = match self.serving {
            Some(job) => {
                let takes = f64::from(job.kib) / self.kib_per_ms;
                self.busy_ms += takes;
                now + takes
            }
            None => f64::INFINITY,
        };
    }
}
