//! A pool at run time: its slots, its traffic, its share of operations.

use crate::format::{Membership, PoolRecord};
use crate::map::place::{Place, Role};
use crate::opening::error::CreateError;
use crate::pools::extents::Extents;
use crate::pools::flight::{Flight, Owner};
use crate::pools::slots::Slots;
use crate::pools::tables::Tables;
use crate::sizes::NAME_BYTES_MAX;
use thermocline_policy::balance::Latency;
use thermocline_policy::migration::{Allowance, WearBudget};
use thermocline_policy::placement::{PoolLoad, PoolTraits};
use thermocline_policy::tactics::{Chosen, Probing};
use thermocline_ports::Geometry;
use thermocline_units::{Bytes, Latencies, Nanos};

/// Time in which a pool's latency is forgotten where nobody reads, in seconds: a slow moment must
/// not keep readers away for ever, and a slow pool not be tried all the time.
const READ_DECAY_S: f64 = 10.0;

/// The device of a pool that is not there.
pub(crate) const NO_DEVICE: Geometry =
    Geometry { size: Bytes(0), discard_zeroes: false, far: false };

/// A pool as the caller hands it over. Pools are given fastest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSpec {
    /// For people; at most 16 bytes.
    pub name: String,
    /// The device.
    pub geometry: Geometry,
    /// True if all of the device reads as zeroes now.
    pub zeroed: bool,
    /// Chunks kept free for prefetched copies.
    pub reserve_chunks: u32,
}

/// State of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolState {
    /// Not yet named in a durable superblock; takes no chunks.
    Joining,
    /// A pool that serves.
    Active,
    /// Takes no chunks, its own are moving away.
    Draining,
    /// Empty, and takes no chunks.
    Drained,
    /// Failed; chunks that were only there answer with I/O errors.
    Dead,
    /// On its way out.
    Removing,
    /// No longer part of the group; its device may be taken away.
    Removed,
}

/// Counts since the group was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolCounters {
    /// Reads for clients.
    pub reads: u64,
    /// Writes for clients.
    pub writes: u64,
    /// Bytes read for clients.
    pub read_bytes: u64,
    /// Bytes written for clients.
    pub written_bytes: u64,
    /// Bytes read by operations.
    pub copied_out_bytes: u64,
    /// Bytes written by operations.
    pub copied_in_bytes: u64,
    /// Bytes of journal, checkpoints and superblocks.
    pub metadata_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Blocks read that did not have their checksums.
    pub checksum_errors: u64,
    /// Requests that failed.
    pub errors: u64,
}

impl PoolCounters {
    /// Counts since `earlier`.
    pub fn since(&self, earlier: &PoolCounters) -> PoolCounters {
        PoolCounters {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            read_bytes: self.read_bytes - earlier.read_bytes,
            written_bytes: self.written_bytes - earlier.written_bytes,
            copied_out_bytes: self.copied_out_bytes - earlier.copied_out_bytes,
            copied_in_bytes: self.copied_in_bytes - earlier.copied_in_bytes,
            metadata_bytes: self.metadata_bytes - earlier.metadata_bytes,
            flushes: self.flushes - earlier.flushes,
            checksum_errors: self.checksum_errors - earlier.checksum_errors,
            errors: self.errors - earlier.errors,
        }
    }
}

/// A pool, as `pool_status` tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolStatus {
    /// For people.
    pub name: String,
    /// Its place in the order of speed; 0 is the fastest, and removed pools are behind all others.
    pub rank: u16,
    /// Its state.
    pub state: PoolState,
    /// Chunks that it can hold.
    pub slots_total: u32,
    /// Chunks that it holds, with those on their way in or out.
    pub slots_used: u32,
    /// Prefetched copies among these.
    pub prefetched: u32,
    /// Slots in use with slow copies that moves to faster pools left behind.
    pub kept: u32,
    /// Slots that are lent to lines of 4 KiB; they do not count as used.
    pub lent: u32,
    /// True while its device answers writes with "no space": it gets no new chunks.
    pub full: bool,
    /// Client requests on the device now.
    pub in_flight: u32,
    /// True if it lies across a network, or is slowed to what does.
    pub far: bool,
    /// True if chunks get tables of block checksums on it.
    pub checksums: bool,
    /// Counts since opening.
    pub counters: PoolCounters,
}

/// Pools to which the chunks of a pool that is drained may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Evacuation {
    /// From a pool that is here only to others that are.
    #[default]
    Near,
    /// Moves to pools across a network, too.
    Anywhere,
}

/// Counts at an epoch's end.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    counters: PoolCounters,
    /// Reads and writes: how many had been answered, and how long all of them took.
    answered: [(u64, Nanos); 2],
}

impl Counted {
    /// Load between `before` and now.
    fn since(&self, before: &Counted) -> PoolLoad {
        let did = self.counters.since(&before.counters);
        let mean = |side: usize| {
            let ((count, sum), (count_then, sum_then)) =
                (self.answered[side], before.answered[side]);
            Nanos(sum.saturating_sub(sum_then).0 / (count - count_then).max(1))
        };
        PoolLoad {
            reads: did.reads,
            writes: did.writes,
            read_bytes: Bytes(did.read_bytes),
            written_bytes: Bytes(did.written_bytes),
            read_latency: mean(0),
            write_latency: mean(1),
        }
    }
}

/// One pool: its slots, its counts, and its device's state.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) state: PoolState,
    /// Pools to which its chunks go while it is drained.
    pub(crate) evacuation: Evacuation,
    /// True if its device is dead, which the state of a dead pool that is being removed hides.
    pub(crate) gone: bool,
    pub(crate) geometry: Geometry,
    pub(crate) slots: Slots,
    pub(crate) reserve: u32,
    pub(crate) prefetched: u32,
    /// Slots with copies that moves left behind.
    pub(crate) kept: u32,
    /// Slots that are lent to lines ([`crate::lines`]) or on their way back, and of these those
    /// that can be taken back at once.
    pub(crate) lent: u32,
    pub(crate) lent_idle: u32,
    pub(crate) first_slot: u64,
    pub(crate) has_region: bool,
    /// True if chunks get tables of checksums on it.
    pub(crate) checksums: bool,
    /// The slots that continue each of its checkpoint areas.
    pub(crate) extents: [Extents; 2],
    /// Places of the tables of its checksums.
    pub(crate) tables: Tables,
    /// Slots that it has grown by, highest first, which chunks get when a superblock says so.
    pub(crate) held: Vec<u32>,
    /// Moment at which it is to be asked whether it has room again, and probes in a row that found
    /// none; `None`: it has room.
    pub(crate) probe: Option<(Nanos, u32)>,
    /// True if writes completed since the last flush was sent.
    pub(crate) dirty: bool,
    pub(crate) in_flight: u32,
    /// Requests of these that nobody waits for.
    pub(crate) background_in_flight: u32,
    pub(crate) copies_in_flight: u32,
    pub(crate) counters: PoolCounters,
    /// Latencies of client reads and of client writes.
    pub(crate) latencies: [Latencies; 2],
    /// Abilities of its device, where somebody said so.
    pub(crate) traits: Option<PoolTraits>,
    /// Its load in the last epoch, and the counts when that ended.
    pub(crate) load: PoolLoad,
    counted: Counted,
    /// Counts when the router was last asked.
    counted_in_round: Counted,
    /// Time of a client's read for each that was queued before it, and itself.
    read: Latency,
    /// Bytes that operations may move here.
    pub(crate) allowance: Allowance,
    /// Bytes that moves of placements may write here in a day.
    pub(crate) wear: WearBudget,
}

impl Pool {
    pub(crate) fn new(
        record: &PoolRecord,
        tables: Tables,
        geometry: Geometry,
        state: PoolState,
        clean: bool,
    ) -> Pool {
        let mut slots = Slots::new(record.slots, clean);
        record.extents.iter().flat_map(Extents::slots).for_each(|slot| slots.claim(slot));
        tables.among(0..record.slots).for_each(|slot| slots.claim(slot));
        Pool {
            name: record.name.clone(),
            state,
            evacuation: Evacuation::default(),
            gone: false,
            geometry,
            slots,
            reserve: record.reserve,
            prefetched: 0,
            kept: 0,
            lent: 0,
            lent_idle: 0,
            first_slot: record.first_slot,
            has_region: record.has_metadata_region,
            checksums: record.checksums,
            extents: record.extents.clone(),
            tables,
            held: Vec::new(),
            probe: None,
            dirty: false,
            in_flight: 0,
            background_in_flight: 0,
            copies_in_flight: 0,
            counters: PoolCounters::default(),
            latencies: Default::default(),
            traits: None,
            load: PoolLoad::default(),
            counted: Counted::default(),
            counted_in_round: Counted::default(),
            read: Latency::assumed(0.0),
            allowance: Allowance::default(),
            wear: WearBudget::default(),
        }
    }

    /// True if requests may be sent to it.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, PoolState::Dead | PoolState::Removed) && !self.gone
    }

    /// True if chunks may be placed on it.
    pub(crate) fn takes_chunks(&self) -> bool {
        self.state == PoolState::Active
    }

    /// True if chunks may be placed on it now.
    pub(crate) fn has_space(&self) -> bool {
        self.takes_chunks() && !self.is_full()
    }

    /// Notes that the device had no room for a write.
    pub(crate) fn note_no_space(&mut self, now: Nanos, tactic: &Chosen<dyn Probing>) {
        let first = || Nanos(now.0.saturating_add(tactic.ask(|tactic| tactic.pause(0)).0));
        self.probe.get_or_insert_with(|| (first(), 0));
    }

    /// True while its device has no room, as far as is known.
    pub(crate) fn is_full(&self) -> bool {
        self.probe.is_some()
    }

    /// Number of slots that hold metadata.
    pub(crate) fn metadata_slots(&self) -> u32 {
        let areas: u32 = self.extents.iter().map(Extents::count).sum();
        areas + self.tables.count(self.slots.total())
    }

    /// Number of slots that chunks are on, or on their way to or from.
    pub(crate) fn slots_used(&self) -> u32 {
        self.slots.used() - self.metadata_slots() - self.held.len() as u32 - self.lent
    }

    /// Slots that whoever needs one gets: free ones, and those that lines give back at once.
    pub(crate) fn room(&self) -> u32 {
        self.slots.free() + self.lent_idle
    }

    /// Number of slots that chunks may have.
    pub(crate) fn slots_for_chunks(&self) -> u32 {
        self.slots.total() - self.metadata_slots() - self.held.len() as u32
    }

    /// True if it lies across a network: what keeps it from being first choice.
    pub(crate) fn is_far(&self) -> bool {
        self.geometry.far
    }

    /// A copy of this role is here now.
    pub(crate) fn count_copy(&mut self, role: Role) {
        match role {
            Role::Wanted => {}
            Role::Prefetched => self.prefetched += 1,
            Role::Kept => self.kept += 1,
        }
        assert!(self.prefetched + self.kept <= self.slots_used(), "copies are on slots");
    }

    /// A copy of this role has gone from here, or has become a wanted one.
    pub(crate) fn uncount_copy(&mut self, role: Role) {
        match role {
            Role::Wanted => {}
            Role::Prefetched => {
                assert!(self.prefetched > 0, "each prefetched copy was counted");
                self.prefetched -= 1;
            }
            Role::Kept => {
                assert!(self.kept > 0, "each kept copy was counted");
                self.kept -= 1;
            }
        }
    }

    /// Slots to be had beyond what is kept for prefetched copies.
    pub(crate) fn free_beside_reserve(&self) -> u32 {
        self.room().saturating_sub(self.reserve.saturating_sub(self.prefetched))
    }

    /// True if a request that nobody waits for gets in nobody's way here.
    pub(crate) fn is_free_of_foreground(&self) -> bool {
        self.in_flight == self.background_in_flight || self.is_far()
    }

    /// Offset of byte `at` of `place` on the device.
    pub(crate) fn address(&self, place: Place, at: u32, chunk_size: u32) -> Bytes {
        Bytes(self.first_slot + u64::from(place.slot) * u64::from(chunk_size) + u64::from(at))
    }

    /// Expected time of a read here, in seconds, as far as the last [`READ_DECAY_S`] tell.
    pub(crate) fn expected_wait(&self, now: Nanos) -> f64 {
        self.read.cost(now, self.in_flight, READ_DECAY_S)
    }

    /// Files a client's request that took so long; it was the `queued`th under way when it was
    /// sent.
    pub(crate) fn note_latency(&mut self, now: Nanos, writes: bool, took: Nanos, queued: u32) {
        assert!(queued > 0, "a request counts itself");
        self.latencies[usize::from(writes)].record(took);
        if !writes {
            let each = took.as_secs_f64() / f64::from(queued.max(1));
            self.read.mean(now, each, READ_DECAY_S);
        }
    }

    /// Counts a request that is sent.
    pub(crate) fn count_departure(
        &mut self,
        owner: Owner,
        writes: bool,
        bytes: u32,
        background: bool,
    ) {
        let bytes = u64::from(bytes);
        self.background_in_flight += u32::from(background);
        match owner {
            Owner::SubRequest { .. } | Owner::LineRead { .. } => {
                self.in_flight += 1;
                if writes {
                    self.counters.writes += 1;
                    self.counters.written_bytes += bytes;
                } else {
                    self.counters.reads += 1;
                    self.counters.read_bytes += bytes;
                }
            }
            Owner::Copy { .. } | Owner::Scrub { .. } | Owner::Repair { .. } => {
                self.copies_in_flight += 1;
                if writes {
                    self.counters.copied_in_bytes += bytes;
                } else {
                    self.counters.copied_out_bytes += bytes;
                }
            }
            Owner::Flush => self.counters.flushes += 1,
            Owner::Clean { .. } | Owner::Probe { .. } | Owner::LineFill { .. } => {}
            _ => self.counters.metadata_bytes += bytes,
        }
        assert!(self.background_in_flight <= self.in_flight, "only clients' parts are background");
    }

    /// Counts a request that was answered.
    pub(crate) fn count_arrival(&mut self, now: Nanos, flight: &Flight) {
        match flight.owner {
            Owner::SubRequest { .. } | Owner::LineRead { .. } => {
                let took = now.saturating_sub(flight.since);
                self.note_latency(now, flight.writes, took, flight.queued);
                assert!(self.in_flight > 0, "each request of clients is answered once");
                self.in_flight -= 1;
                self.background_in_flight -= u32::from(flight.background);
            }
            Owner::Copy { .. } | Owner::Scrub { .. } | Owner::Repair { .. } => {
                assert!(self.copies_in_flight > 0, "each request of operations is answered once");
                self.copies_in_flight -= 1;
            }
            _ => {}
        }
    }

    /// Sums up the epoch that ends for the placement.
    pub(crate) fn end_epoch(&mut self) {
        let now = self.count();
        let before = std::mem::replace(&mut self.counted, now);
        self.load = now.since(&before);
    }

    /// Its load since this was last asked.
    pub(crate) fn end_round(&mut self) -> PoolLoad {
        let now = self.count();
        let before = std::mem::replace(&mut self.counted_in_round, now);
        now.since(&before)
    }

    fn count(&self) -> Counted {
        let answered = self.latencies.each_ref().map(|all| (all.count(), all.sum()));
        Counted { counters: self.counters, answered }
    }

    pub(crate) fn record(&self) -> PoolRecord {
        let membership = match self.state {
            PoolState::Joining | PoolState::Active => Membership::Active,
            PoolState::Draining | PoolState::Drained => Membership::Draining,
            PoolState::Dead => Membership::Dead,
            PoolState::Removing | PoolState::Removed => Membership::Removed,
        };
        PoolRecord {
            name: self.name.clone(),
            membership,
            slots: self.slots.total(),
            reserve: self.reserve,
            first_slot: self.first_slot,
            has_metadata_region: self.has_region,
            checksums: self.checksums,
            extents: self.extents.clone(),
        }
    }

    /// Its state, as that of the pool of this rank.
    pub(crate) fn status(&self, rank: u16) -> PoolStatus {
        PoolStatus {
            name: self.name.clone(),
            rank,
            state: self.state,
            slots_total: self.slots_for_chunks(),
            slots_used: self.slots_used(),
            prefetched: self.prefetched,
            kept: self.kept,
            lent: self.lent,
            full: self.is_full(),
            in_flight: self.in_flight,
            far: self.geometry.far,
            checksums: self.checksums,
            counters: self.counters,
        }
    }
}

/// Checks the name of a pool beside those of the others.
pub(crate) fn check_name<'a>(
    name: &str,
    mut others: impl Iterator<Item = &'a str>,
) -> Result<(), CreateError> {
    check_pool_name(name)?;
    match others.any(|other| other == name) {
        true => Err(CreateError::NameTaken(name.to_string())),
        false => Ok(()),
    }
}

/// Checks what a pool shall be called. The superblock bounds its length; names are parts of paths
/// and of quoted labels.
///
/// # Errors
/// When it is empty, longer than 16 bytes, or has characters that a path or a label has not.
pub fn check_pool_name(name: &str) -> Result<(), CreateError> {
    let plain = name.chars().all(|c| !c.is_control() && c != '/' && c != '"');
    match plain && !name.is_empty() && name.len() <= NAME_BYTES_MAX {
        true => Ok(()),
        false => Err(CreateError::Name(name.to_string())),
    }
}
