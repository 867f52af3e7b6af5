//! A disk with real contents that keeps `Device`'s contract, and nothing beyond it.
//!
//! 1. Each request draws its latency and its fate when it is submitted; completions leave in the
//!    order of their time, so requests overtake each other.
//! 2. A write takes effect when its completion is handed out; a read shows the contents either of
//!    the moment it was submitted or of the moment it completed. A flush covers the writes whose
//!    completions had been handed out when it was submitted, and no others.
//! 3. A write that fails or times out takes effect on any subset of its sectors.
//! 4. What a crash leaves of volatile writes is `log`'s part; so is what a failed flush leaves,
//!    where the disk is one that forgets.
//!
//! It costs no time as a real medium does: latencies are drawn without regard to size or place.

use super::faults::{Background, DELAY_FACTOR, Faults};
use super::happens;
use super::image::{Content, Effect, Image, bytes_of};
use super::log::{Log, Survival, tear};
use crate::{Completion, Device, DeviceError, Geometry, Io, Payload, SECTOR, Ticket};
use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;
use thermocline_units::{Bytes, Nanos, Rng};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Well,
    Full,
    Dead,
}

#[derive(Debug, Clone)]
enum Act {
    /// A read, with the contents at submission, where the read is to show those.
    Read {
        range: Range<u64>,
        early: Option<Result<Payload, DeviceError>>,
    },
    Change(Effect),
    /// Makes everything before this mark of the log durable.
    Flush {
        mark: u64,
    },
    /// A discard that leaves things as they were.
    Nothing,
}

#[derive(Debug, Clone)]
struct Pending {
    due: Nanos,
    sequence: u64,
    ticket: Ticket,
    act: Act,
    fate: Result<(), DeviceError>,
}

/// A disk in memory that misbehaves by seed. See `Device` for what it promises.
///
/// ```
/// use thermocline_ports::faulty::{Faults, SimDisk, Survival};
/// use thermocline_ports::{Device, Geometry, Io, Payload, Ticket};
/// use thermocline_units::{Bytes, Nanos, Rng};
///
/// let geometry = Geometry { size: Bytes::from_mib(1), discard_zeroes: true, far: false };
/// let mut disk = SimDisk::new(geometry, 7, Faults::NONE);
/// let write = Io::Write { offset: Bytes(0), data: Payload::from(vec![1; 512]), fua: true };
/// disk.submit(Nanos(0), Ticket(1), write);
/// let mut done = Vec::new();
/// disk.poll(disk.next_event().unwrap(), &mut done);
/// disk.crash(&mut Rng::seeded(1), Survival::Lost);
/// assert_eq!(disk.peek(Bytes(0), 512), Ok(Payload::from(vec![1; 512])));
/// ```
#[derive(Debug, Clone)]
pub struct SimDisk {
    geometry: Geometry,
    faults: Faults,
    rng: Rng,
    /// Contents that a read would show now.
    current: Image,
    log: Log,
    in_flight: BinaryHeap<Pending>,
    tickets: BTreeSet<Ticket>,
    condition: Condition,
    submitted: u64,
    fail_at: Option<u64>,
    flipped: Vec<Bytes>,
    now: Nanos,
}

impl SimDisk {
    /// A disk of `geometry` whose every whim follows from `seed`.
    ///
    /// # Panics
    /// When the size is not a multiple of [`SECTOR`].
    pub fn new(geometry: Geometry, seed: u64, faults: Faults) -> SimDisk {
        assert!(geometry.size.0.is_multiple_of(u64::from(SECTOR)), "the size is whole sectors");
        let mut rng = Rng::seeded(seed);
        let image = Image::new(match faults.background {
            Background::Zeroes => Content::Zeroes,
            Background::Garbage => Content::Garbage(rng.next_u64()),
        });
        SimDisk {
            geometry,
            faults,
            rng,
            current: image.clone(),
            log: Log::new(image),
            in_flight: BinaryHeap::new(),
            tickets: BTreeSet::new(),
            condition: Condition::Well,
            submitted: 0,
            fail_at: None,
            flipped: Vec::new(),
            now: Nanos(0),
        }
    }

    /// From now on, these faults; for requests in flight nothing changes.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// The latest moment it was told of.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Requests submitted since the disk was made.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// True if the first so many requests since the disk was made are answered, or were dropped.
    pub fn has_answered(&self, requests: u64) -> bool {
        self.in_flight.iter().all(|pending| pending.sequence > requests)
    }

    /// The `n`-th request from now (1 is the next one) fails with [`DeviceError::Io`]; replaces an
    /// earlier call's choice.
    ///
    /// # Panics
    /// When `n` is zero.
    pub fn fail_nth(&mut self, n: u64) {
        assert!(n > 0, "requests are counted from one");
        self.fail_at = Some(self.submitted + n);
    }

    /// Writes answer [`DeviceError::NoSpace`] and change nothing, until [`SimDisk::make_room`];
    /// except those to where bytes were written before, as on a thin volume or a sparse file.
    pub fn fill_up(&mut self) {
        if self.condition == Condition::Well {
            self.condition = Condition::Full;
        }
    }

    /// Ends [`SimDisk::fill_up`].
    pub fn make_room(&mut self) {
        if self.condition == Condition::Full {
            self.condition = Condition::Well;
        }
    }

    /// The disk dies for good: everything in flight and to come answers [`DeviceError::Gone`].
    pub fn kill(&mut self) {
        self.condition = Condition::Dead;
    }

    /// A disk that was killed answers again, with what it had; nothing changes for others.
    pub fn revive(&mut self) {
        if self.condition == Condition::Dead {
            self.condition = Condition::Well;
        }
    }

    /// The disk has so many bytes from now on, durably; what is new is as the disk was when made.
    ///
    /// # Panics
    /// When that is less than it has, or no whole number of sectors.
    pub fn grow(&mut self, size: Bytes) {
        assert!(size >= self.geometry.size, "a disk that shrinks is another one");
        assert!(size.0.is_multiple_of(u64::from(SECTOR)), "the size is whole sectors");
        self.geometry.size = size;
    }

    /// True if some sector of a range was changed since it was last made durable.
    ///
    /// # Panics
    /// When the range lies outside the disk, is empty, or is not made of whole sectors.
    pub fn is_volatile(&self, offset: Bytes, length: Bytes) -> bool {
        self.log.is_volatile(&self.geometry.sectors(offset, length))
    }

    /// True if [`SimDisk::kill`] was called.
    pub fn is_dead(&self) -> bool {
        self.condition == Condition::Dead
    }

    /// The power fails, or the program that uses the disk ends: everything in flight is dropped
    /// unanswered, volatile sectors survive as `survival` says, and the disk is ready again. A dead
    /// disk stays dead.
    pub fn crash(&mut self, rng: &mut Rng, survival: Survival) {
        let mut cut_off: Vec<Pending> = self.in_flight.drain().collect();
        cut_off.sort_unstable_by_key(|pending| pending.sequence);
        for pending in cut_off {
            let (Act::Change(effect), true) =
                (pending.act, pending.fate != Err(DeviceError::NoSpace))
            else {
                continue;
            };
            match survival {
                Survival::Cached if rng.below(2) == 0 => self.spread(effect),
                Survival::Cached => self.spread_some(&effect),
                _ => self.log.push(Effect { durable: false, ..effect }),
            }
        }
        self.tickets.clear();
        if let Some(left) = self.log.crash(rng, survival) {
            self.current = left.clone();
        }
    }

    /// Flips bit `bit` (0–7) of the byte at `offset`, now and for every crash to come, silently.
    /// A sector that cannot be read stays so.
    ///
    /// # Panics
    /// When `offset` lies outside the disk or `bit` is above 7.
    pub fn flip_bit(&mut self, offset: Bytes, bit: u8) {
        assert!(offset < self.geometry.size && bit < 8, "no such bit");
        let sector = offset.0 / u64::from(SECTOR);
        let Ok(contents) = self.current.read(sector..sector + 1) else { return };
        let mut bytes = contents.to_vec();
        bytes[(offset.0 % u64::from(SECTOR)) as usize] ^= 1 << bit;
        self.flipped.push(Bytes(bytes_of(sector)));
        self.spread(Effect {
            range: sector..sector + 1,
            content: Content::from(Payload::from(bytes)),
            durable: true,
        });
    }

    /// The sectors in which bits were flipped, by offset, oldest first; one may come twice, and may
    /// have been written over since.
    pub fn flipped(&self) -> &[Bytes] {
        &self.flipped
    }

    /// Makes the sectors of a range unreadable: reads of them fail with [`DeviceError::Io`] until
    /// they are written again.
    ///
    /// # Panics
    /// When the range lies outside the disk, is empty, or is not made of whole sectors.
    pub fn spoil(&mut self, offset: Bytes, length: u32) {
        let range = self.geometry.sectors(offset, Bytes(u64::from(length)));
        self.spread(Effect { range, content: Content::Unreadable, durable: true });
    }

    /// Contents that a read would show now, without one.
    ///
    /// # Errors
    /// [`DeviceError::Io`] when the range holds a spoilt sector.
    ///
    /// # Panics
    /// When the range lies outside the disk, is empty, or is not made of whole sectors.
    pub fn peek(&self, offset: Bytes, length: u32) -> Result<Payload, DeviceError> {
        self.current.read(self.geometry.sectors(offset, Bytes(u64::from(length))))
    }

    /// Contents that a read would show after a crash that loses everything volatile.
    ///
    /// # Errors
    /// [`DeviceError::Io`] when the range holds a spoilt sector.
    ///
    /// # Panics
    /// When the range lies outside the disk, is empty, or is not made of whole sectors.
    pub fn peek_durable(&self, offset: Bytes, length: u32) -> Result<Payload, DeviceError> {
        let range = self.geometry.sectors(offset, Bytes(u64::from(length)));
        self.log.durable(&range).read(range)
    }

    fn spread(&mut self, effect: Effect) {
        self.current.write(effect.range.clone(), effect.content.clone());
        self.log.push(effect);
    }

    /// The effect of `io`, as far as that is settled at submission.
    fn plan(&mut self, io: Io) -> Act {
        let range = io.range().map(|(offset, length)| self.geometry.sectors(offset, length));
        let Some(range) = range else { return Act::Flush { mark: self.log.mark() } };
        match io {
            Io::Read { .. } => {
                self.flip_by_chance(&range);
                let early = (self.rng.below(2) == 0).then(|| self.current.read(range.clone()));
                Act::Read { range, early }
            }
            Io::Write { data, fua, .. } => {
                Act::Change(Effect { range, content: Content::from(data), durable: fua })
            }
            Io::Discard { .. } if !self.geometry.discard_zeroes => match self.rng.below(3) {
                0 => Act::Nothing,
                1 => Act::Change(Effect { range, content: Content::Zeroes, durable: false }),
                _ => {
                    let content = Content::Garbage(self.rng.next_u64());
                    Act::Change(Effect { range, content, durable: false })
                }
            },
            Io::Discard { .. } | Io::WriteZeroes { .. } => {
                Act::Change(Effect { range, content: Content::Zeroes, durable: false })
            }
            Io::Flush => unreachable!("a flush has no range"),
        }
    }

    fn flip_by_chance(&mut self, range: &Range<u64>) {
        if happens(&mut self.rng, self.faults.flip) {
            let bytes = bytes_of(range.start) + self.rng.below(bytes_of(range.end - range.start));
            let bit = self.rng.below(8) as u8;
            self.flip_bit(Bytes(bytes), bit);
        }
    }

    /// The result of a request that is submitted now, and the time it takes.
    fn draw_fate(&mut self, takes_room: bool) -> (Result<(), DeviceError>, Nanos) {
        let mean = self.faults.latency_mean.0 as f64;
        let mut latency = Nanos(self.rng.exponential(mean) as u64 + 1);
        let fate = if self.fail_at == Some(self.submitted) {
            Err(DeviceError::Io)
        } else if self.condition == Condition::Full && takes_room {
            Err(DeviceError::NoSpace)
        } else if happens(&mut self.rng, self.faults.fail) {
            Err(DeviceError::Io)
        } else if happens(&mut self.rng, self.faults.time_out) {
            latency = self.faults.time_out_after;
            Err(DeviceError::TimedOut)
        } else {
            Ok(())
        };
        // A time-out is the longest that a request takes.
        if happens(&mut self.rng, self.faults.delay) && fate != Err(DeviceError::TimedOut) {
            latency.0 *= DELAY_FACTOR;
        }
        (fate, latency)
    }

    fn finish(&mut self, act: Act, fate: Result<(), DeviceError>) -> Result<Payload, DeviceError> {
        if self.condition == Condition::Dead {
            return Err(DeviceError::Gone);
        }
        match (act, fate) {
            (Act::Read { range, early }, Ok(())) => {
                return early.unwrap_or_else(|| self.current.read(range));
            }
            (Act::Change(effect), Ok(())) => self.spread(effect),
            (Act::Change(effect), Err(DeviceError::Io | DeviceError::TimedOut)) => {
                self.spread_some(&effect);
            }
            (Act::Flush { mark }, Ok(())) => self.log.write_back(mark),
            (Act::Flush { .. }, Err(DeviceError::Io)) if self.faults.forgets => {
                let left = self.log.crash(&mut self.rng, Survival::Torn);
                self.current = left.expect("torn writes are drawn").clone();
            }
            _ => {}
        }
        fate.map(|()| Payload::EMPTY)
    }

    /// A change that failed on the way: each of its sectors is old or new, and volatile.
    fn spread_some(&mut self, effect: &Effect) {
        let mut changed = Vec::new();
        tear(&mut self.rng, effect.range.clone(), 2, |run, choice| {
            if choice == 1 {
                changed.push(run);
            }
        });
        for run in changed {
            self.spread(Effect { durable: false, ..effect.part(run) });
        }
    }
}

impl Device for SimDisk {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        assert!(now >= self.now, "time does not run backwards");
        assert!(self.tickets.insert(ticket), "{ticket:?} is in flight already");
        self.now = now;
        self.submitted += 1;
        let takes_room = matches!(io, Io::Write { .. } | Io::WriteZeroes { .. })
            && self.condition == Condition::Full
            && !io.range().is_some_and(|(offset, length)| {
                let sectors = self.geometry.sectors(offset, length);
                self.current.is_backed(sectors)
            });
        let (fate, latency) = self.draw_fate(takes_room);
        let act = self.plan(io);
        let due = Nanos(now.0 + latency.0);
        self.in_flight.push(Pending { due, sequence: self.submitted, ticket, act, fate });
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        assert!(now >= self.now, "time does not run backwards");
        self.now = now;
        while self.in_flight.peek().is_some_and(|pending| pending.due <= now) {
            let Pending { ticket, act, fate, .. } = self.in_flight.pop().expect("just seen");
            self.tickets.remove(&ticket);
            let result = self.finish(act, fate);
            done.push(Completion { ticket, result });
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.in_flight.peek().map(|pending| pending.due)
    }
}

impl Ord for Pending {
    /// The earliest is the greatest, for a heap that gives the greatest first.
    fn cmp(&self, other: &Pending) -> Ordering {
        (other.due, other.sequence).cmp(&(self.due, self.sequence))
    }
}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Pending) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Pending) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pending {}
