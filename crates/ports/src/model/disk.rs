//! A disk: one head over spinning platters.
//!
//! 1. Up to `queue_depth` requests are in the disk's queue; further ones wait in order in front of
//!    it. When the head is free it takes the request of the queue with the shortest positioning
//!    time, or the oldest one when that has been in the queue for longer than `age_max`. What it
//!    waited in front of the queue the disk does not know: counted along, every request of a long
//!    backlog would be too old when it came, and the disk would serve in the order of arrival.
//! 2. Positioning is a seek, `seek_min + seek_stroke · √d` over the share d of the stroke, and the
//!    rotation until the first sector passes. Tracks are one spiral: the head passes byte x at a
//!    fixed time after byte 0, given by the transfer rate from the outer to the inner edge, so a
//!    request that follows on its predecessor without a gap needs no positioning, and one that
//!    comes a moment late waits a whole turn.
//! 3. After a read the head goes on into the read-ahead buffer; a read that continues there waits
//!    for the medium only.
//! 4. The write cache is off: writes are durable at completion, a flush has nothing to do.
//! 5. Writes to shingled tracks go where `shingles` says.
//!
//! Seek curve and queueing: Ruemmler and Wilkes, "An introduction to disk drive modeling" (1994);
//! shortest positioning with an age bound: Jacobson and Wilkes, "Disk scheduling algorithms based
//! on rotational position" (1991). State: 72 B a request.

use super::profile::Disk;
use super::schedule::{Kind, Request, Schedule};
use super::shingles::{Place, ShingleModel};
use std::collections::VecDeque;
use thermocline_units::{Bytes, Nanos};

/// Adding and subtracting this rounds an `f64` below 2⁵¹ to a whole number.
const WHOLE: f64 = 6_755_399_441_055_744.0; // 1.5 × 2⁵²

/// A request and where it begins on the spiral.
#[derive(Debug)]
struct Job {
    request: Request,
    /// Time at which it came into the queue.
    entered: Nanos,
    /// Nanoseconds from byte 0 to its first byte.
    angle: f64,
}

/// The head's last place, and when it was there.
#[derive(Debug, Clone, Copy)]
struct Head {
    offset: u64,
    at: Nanos,
}

#[derive(Debug)]
pub(super) struct DiskModel {
    size: f64,
    strokes_per_byte: f64,
    /// Nanoseconds a turn.
    turn: f64,
    turns_per_ns: f64,
    seek_min: f64,
    seek_stroke: f64,
    outer_ns_per_byte: f64,
    /// Inner rate over outer rate.
    narrowing: f64,
    overhead: u64,
    age_max: u64,
    read_ahead: f64,
    queue_depth: usize,
    queue: Vec<Job>,
    backlog: VecDeque<Request>,
    head: Head,
    /// End of the last read, and when the medium was there.
    stream: Head,
    free: Nanos,
    shingles: Option<ShingleModel>,
}

impl DiskModel {
    pub(super) fn new(profile: &Disk, size: Bytes) -> DiskModel {
        let outer = profile.outer_bytes_per_s as f64;
        let start = Head { offset: 0, at: Nanos(0) };
        DiskModel {
            size: size.0 as f64,
            strokes_per_byte: 1.0 / size.0 as f64,
            turn: 60e9 / f64::from(profile.rpm),
            turns_per_ns: f64::from(profile.rpm) / 60e9,
            seek_min: profile.seek_min.0 as f64,
            seek_stroke: profile.seek_stroke.0 as f64,
            outer_ns_per_byte: 1e9 / outer,
            narrowing: profile.inner_bytes_per_s as f64 / outer,
            overhead: profile.overhead.0,
            age_max: profile.age_max.0,
            read_ahead: profile.read_ahead.0 as f64,
            queue_depth: profile.queue_depth as usize,
            queue: Vec::with_capacity(profile.queue_depth as usize),
            backlog: VecDeque::new(),
            head: start,
            stream: Head { offset: u64::MAX, at: Nanos(0) },
            free: Nanos(0),
            shingles: profile.shingles.as_ref().map(|shingles| ShingleModel::new(shingles, size)),
        }
    }

    pub(super) fn submit(&mut self, request: Request, schedule: &mut Schedule) {
        let now = request.submitted;
        self.advance(now, schedule);
        match request.kind {
            Kind::Flush | Kind::Discard => {
                return schedule.push(request, Nanos(now.0 + self.overhead + 1));
            }
            _ if self.queue.len() < self.queue_depth => self.enqueue(request, now),
            _ => self.backlog.push_back(request),
        }
        self.advance(now, schedule);
    }

    /// Starts everything that can start until `now`.
    pub(super) fn advance(&mut self, now: Nanos, schedule: &mut Schedule) {
        while self.free <= now {
            if self.queue.is_empty() {
                if !self.clean_while_idle(now, schedule) {
                    return;
                }
                continue;
            }
            // An idle disk starts at once, so whoever finds others in the queue came before `free`.
            let from = self.free.max(self.queue[0].entered);
            let job = self.queue.swap_remove(self.choose(from));
            if let Some(request) = self.backlog.pop_front() {
                self.enqueue(request, from);
            }
            let end = self.serve(&job, from, schedule);
            schedule.counters.busy.0 += end.0 - from.0;
            self.free = end;
            schedule.push(job.request, end);
        }
    }

    fn enqueue(&mut self, request: Request, entered: Nanos) {
        let angle = self.passing_time(request.offset);
        self.queue.push(Job { request, entered, angle });
    }

    /// The index of the candidate to serve next.
    fn choose(&self, from: Nanos) -> usize {
        if self.queue.len() == 1 {
            return 0;
        }
        let (mut best, mut least) = (0, f64::INFINITY);
        let (mut oldest, mut age) = (0, 0);
        for (index, job) in self.queue.iter().enumerate() {
            let waited = from.saturating_sub(job.entered).0;
            if waited > age {
                (oldest, age) = (index, waited);
            }
            let ready = job.entered.0 + self.overhead;
            let wait = ready.saturating_sub(from.0);
            let start = Nanos(from.0 + wait);
            let cost = wait as i64 as f64 + self.position(job.request.offset, job.angle, start);
            if cost < least {
                (best, least) = (index, cost);
            }
        }
        if age > self.age_max { oldest } else { best }
    }

    /// Serves a request from `from` on; returns its end.
    fn serve(&mut self, job: &Job, from: Nanos, schedule: &mut Schedule) -> Nanos {
        let request = &job.request;
        let start = Nanos(from.0.max(job.entered.0 + self.overhead));
        if request.kind == Kind::Read {
            return match self.continue_stream(request, start) {
                Some(end) => end,
                None => {
                    let end = self.transfer(request.offset, request.length, job.angle, start);
                    self.stream = Head { offset: request.offset + request.length, at: end };
                    end
                }
            };
        }
        self.stream.offset = u64::MAX;
        let Some(shingles) = &mut self.shingles else {
            return self.transfer(request.offset, request.length, job.angle, start);
        };
        match shingles.place(request.offset, request.length) {
            Place::Home => self.transfer(request.offset, request.length, job.angle, start),
            Place::Cache { at, bands } => {
                schedule.counters.shingles.cached.0 += request.length;
                let start = (0..bands).fold(start, |start, _| self.clean(start, schedule));
                self.transfer(at, request.length, self.passing_time(at), start)
            }
        }
    }

    /// A read that goes on where the last one ended finds the medium at work, or its data buffered.
    fn continue_stream(&mut self, request: &Request, start: Nanos) -> Option<Nanos> {
        if request.offset != self.stream.offset || self.read_ahead == 0.0 {
            return None;
        }
        let end = request.offset + request.length;
        let transfer = self.passing_time(end) - self.passing_time(request.offset);
        let ahead = self.read_ahead * transfer / request.length as f64;
        let idle = start.0 as f64 - self.stream.at.0 as f64;
        let at = if idle <= ahead {
            Nanos(self.stream.at.0 + transfer as u64)
        } else {
            Nanos(start.0 + (transfer - ahead).max(0.0) as u64)
        };
        self.stream = Head { offset: end, at };
        self.head = Head { offset: end, at: at.max(start) };
        Some(self.head.at)
    }

    /// Positions and transfers; returns the end.
    fn transfer(&mut self, offset: u64, length: u64, angle: f64, start: Nanos) -> Nanos {
        let position = self.position(offset, angle, start);
        let time = position + self.passing_time(offset + length) - angle;
        let at = Nanos(start.0 + time as u64);
        self.head = Head { offset: offset + length, at };
        at
    }

    /// Time from `start` until the head is over the byte at `offset`.
    #[inline]
    fn position(&self, offset: u64, angle: f64, start: Nanos) -> f64 {
        if offset == self.head.offset && start == self.head.at {
            return 0.0;
        }
        let seek = self.seek(offset.abs_diff(self.head.offset));
        let turns = (angle - (start.0 as i64 as f64 + seek)) * self.turns_per_ns;
        let part = turns - ((turns + WHOLE) - WHOLE); // `floor` is a call
        seek + (part + f64::from(u8::from(part < 0.0))) * self.turn
    }

    /// Time to move the head over so many bytes; none within a track.
    #[inline]
    pub(super) fn seek(&self, distance: u64) -> f64 {
        let distance = distance as i64 as f64;
        match distance * self.outer_ns_per_byte < self.turn {
            true => 0.0,
            false => self.seek_min + self.seek_stroke * (distance * self.strokes_per_byte).sqrt(),
        }
    }

    /// Nanoseconds from byte 0 to `offset` at the rate of the medium, which falls linearly: the
    /// integral of one over the rate.
    #[inline]
    fn passing_time(&self, offset: u64) -> f64 {
        let x = offset as f64;
        if self.narrowing == 1.0 {
            return x * self.outer_ns_per_byte;
        }
        let slope = (self.narrowing - 1.0) / self.size;
        (slope * x).ln_1p() / slope * self.outer_ns_per_byte
    }

    /// Rewrites one band while nobody waits; whether there was time and need.
    fn clean_while_idle(&mut self, now: Nanos, schedule: &mut Schedule) -> bool {
        let Some(shingles) = &mut self.shingles else { return false };
        let Some(start) = shingles.idle_start(self.free) else { return false };
        if start >= now {
            return false;
        }
        self.free = self.clean(start, schedule);
        schedule.counters.busy.0 += self.free.0 - start.0;
        if let Some(shingles) = &mut self.shingles {
            shingles.cleaned_until(self.free);
        }
        true
    }

    /// Rewrites the band whose cached data is oldest: reads it, fetches what is cached, writes it.
    fn clean(&mut self, start: Nanos, schedule: &mut Schedule) -> Nanos {
        let shingles = self.shingles.as_mut().expect("only shingled disks clean");
        let Some(band) = shingles.take_oldest() else { return start };
        let mut end = start;
        for (offset, length) in
            [(band.offset, band.length), (0, band.cached), (band.offset, band.length)]
        {
            end = self.transfer(offset, length, self.passing_time(offset), end);
        }
        schedule.counters.shingles.bands_cleaned += 1;
        schedule.counters.shingles.cleaning.0 += end.0 - start.0;
        end
    }
}
