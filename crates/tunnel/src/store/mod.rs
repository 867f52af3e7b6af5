//! The chunk cache of one end: bytes in a ring, found by content and by name.
//!
//! 1. Chunks lie one behind the other in an arena of fixed size, in the order in which they came. A
//!    new one overwrites the oldest.
//! 2. A chunk that was used since it came (or was moved) is not overwritten: it moves to the front
//!    once, as in CLOCK. At most [`MOVES_MAX`] are moved for one new chunk, so that inserting stays
//!    O(1).
//! 3. Two indices hold numbers of entries: by fingerprint (what the sender asks: has this content
//!    been sent?) and by name (what the receiver is asked for). A fingerprint only leads to
//!    candidates: whoever asks by content compares the bytes.
//!
//! Source of the idea that the cache is a ring of what was sent: Spring and Wetherall, SIGCOMM
//! 2000. VNRE evicts the least recently used chunk; CLOCK comes near it without a list (8 B less a
//! chunk).
//!
//! A store may have a second tier on a device (`disk`), which gets what memory gives up.
//!
//! Memory: 24 to 26 B an entry and 5 B a slot of each index, which are 7/9 to 7/8 full: 35 to 39 B
//! a chunk beside its bytes. Invariants: entries are in the order of the ring; what an index holds
//! is an entry; every byte that is handed out was inserted under that very name.

mod disk;
mod index;
#[cfg(test)]
mod tests;

use disk::Disk;
pub use disk::{DiskCounts, DiskDone, DiskJob, Ticket};
use index::Index;
use std::collections::VecDeque;
use thermocline_units::Bytes;
use thermocline_units::mutants::mutant;

/// Chunks that are kept for one that comes.
const MOVES_MAX: u32 = 8;
/// Chunks that what is needed of memory is fetched before.
const AHEAD: usize = 8;
/// A longer chunk is not kept, bytes: what an entry can say.
pub const CHUNK_BYTES_MAX: usize = (1 << 23) - 1;
/// Entries are counted modulo this, so that one value of 32 bits is free for empty slots.
const NUMBERS: u64 = u32::MAX as u64;

/// The end that gave a chunk its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// This end.
    Us,
    /// The other end.
    Peer,
}

/// The name of a chunk: who sent it first, and its number among what they sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name {
    /// The end that gave it.
    pub owner: Owner,
    /// Counted from 0 in each run of that end; below 2^63.
    pub number: u64,
}

impl Name {
    pub(crate) fn packed(self) -> u64 {
        assert!(self.number < 1 << 63, "names last for 2^63 chunks");
        self.number << 1 | u64::from(self.owner == Owner::Peer)
    }

    pub(crate) fn unpacked(packed: u64) -> Name {
        let owner = if packed & 1 == 1 { Owner::Peer } else { Owner::Us };
        Name { owner, number: packed >> 1 }
    }
}

/// Place (40 bits), length (23 bits) and the mark of use, in one word.
#[derive(Debug, Clone, Copy)]
struct Extent(u64);

impl Extent {
    fn new(place: usize, length: usize) -> Extent {
        assert!(place < 1 << 40 && length <= CHUNK_BYTES_MAX, "{place}, {length} do not fit");
        Extent((place as u64) << 24 | (length as u64) << 1)
    }

    fn place(self) -> usize {
        (self.0 >> 24) as usize
    }

    fn length(self) -> usize {
        (self.0 >> 1) as usize & CHUNK_BYTES_MAX
    }

    fn is_used(self) -> bool {
        self.0 & 1 == 1
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    fingerprint: u64,
    name: u64,
    extent: Extent,
}

/// A chunk as it lies in a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk<'a> {
    pub(crate) name: Name,
    pub(crate) fingerprint: u64,
    /// True if it was used since it came: it moves once instead of being overwritten.
    pub(crate) is_used: bool,
    pub(crate) bytes: &'a [u8],
}

/// Counts of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreCounts {
    /// Chunks that came.
    pub inserted: u64,
    /// Chunks that were overwritten.
    pub evicted: u64,
    /// Chunks that were kept because they had been used.
    pub kept: u64,
}

/// A bounded cache of chunks.
pub struct Store {
    arena: Vec<u8>,
    /// Bytes that are kept: `most`, or what the other end keeps if that is less.
    capacity: usize,
    most: usize,
    seed: u64,
    /// Position of the next chunk.
    head: usize,
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// Number of the oldest entry, modulo [`NUMBERS`].
    oldest: u64,
    by_content: Index,
    by_name: Index,
    disk: Disk,
    counts: StoreCounts,
}

impl Store {
    /// An empty store that holds up to `capacity` bytes of chunks; below 1 TiB. Memory is taken as
    /// chunks come. `seed` must not be guessed: the other end chooses names, and could choose such
    /// as meet in one place.
    ///
    /// # Panics
    /// If the capacity is 1 TiB or more.
    pub fn new(capacity: Bytes, seed: u64) -> Store {
        assert!(capacity.0 < 1 << 40, "{capacity} are more than an entry can say");
        Store {
            arena: Vec::new(),
            capacity: capacity.0 as usize,
            most: capacity.0 as usize,
            seed,
            head: 0,
            entries: VecDeque::new(),
            oldest: 0,
            by_content: Index::new(),
            by_name: Index::new(),
            disk: Disk::new(0, seed),
            counts: StoreCounts::default(),
        }
    }

    /// The same with room for so many bytes of chunks on a device, which does what
    /// [`Store::next_disk_job`] says; below 1 TiB. What is there already is not used.
    ///
    /// # Panics
    /// If it is 1 TiB or more.
    #[must_use]
    pub fn with_disk(mut self, capacity: Bytes) -> Store {
        self.disk = Disk::new(capacity.0, self.seed);
        self
    }

    /// Bytes of chunks that it may hold at most, in memory and on the device if that was not given
    /// up, whatever the other end holds.
    pub fn most(&self) -> Bytes {
        Bytes(self.most as u64 + self.disk.most())
    }

    /// Holds no more than the other end, which keeps so many bytes of chunks: what only one end has
    /// would be referred to, asked for and sent without compression. Both ends see the same chunks
    /// in nearly the same order, so rings of one size hold nearly the same. A ring that becomes
    /// smaller begins anew, unless all that it holds lies in the smaller one.
    pub fn limit(&mut self, other: Bytes) {
        let capacity = (self.most as u64).min(other.0) as usize;
        let fits = |entry: &Entry| entry.extent.place() + entry.extent.length() <= capacity;
        if self.head > capacity || !self.entries.iter().all(fits) {
            self.entries.clear();
            self.by_content = Index::new();
            self.by_name = Index::new();
            (self.oldest, self.head) = (0, 0);
        }
        self.capacity = capacity;
        self.arena.truncate(capacity);
        self.disk.limit(other.0 - capacity as u64);
    }

    /// The next job for the device; jobs are done in their order.
    pub fn next_disk_job(&mut self) -> Option<DiskJob> {
        self.disk.next_job()
    }

    /// Takes note of the end of a job; what came of it, if it was a read. `None` in place of bytes:
    /// the chunk is lost.
    pub fn disk_done(&mut self, done: DiskDone) -> Option<(Ticket, Option<Vec<u8>>)> {
        self.disk.done(done)
    }

    /// Wants a chunk read that [`Store::get`] does not have; `None` if the device has none of this
    /// name and length, or owes too many reads.
    pub fn fetch(&mut self, name: Name, length: usize) -> Option<Ticket> {
        self.disk.fetch(name.packed(), length)
    }

    /// Goes on without the device.
    pub(crate) fn give_up_disk(&mut self) {
        self.disk.give_up();
    }

    /// Counts of the device since the beginning.
    pub fn disk_counts(&self) -> DiskCounts {
        self.disk.counts()
    }

    /// Chunks in memory.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Counts since the beginning.
    pub fn counts(&self) -> StoreCounts {
        self.counts
    }

    /// Memory beside the arena, bytes.
    pub fn overhead(&self) -> Bytes {
        let entries = self.entries.capacity() * size_of::<Entry>();
        let indices = self.by_content.memory() + self.by_name.memory();
        Bytes((entries + indices + self.disk.overhead()) as u64)
    }

    /// Keeps a chunk under `name`, with its fingerprint. A chunk that is longer than an eighth of
    /// the capacity is not kept, so that one cannot drive out all others. The caller guarantees
    /// that names are not given twice.
    pub fn insert(&mut self, name: Name, fingerprint: u64, bytes: &[u8]) {
        if bytes.is_empty() || bytes.len() > (self.capacity / 8).min(CHUNK_BYTES_MAX) {
            return;
        }
        if self.number_of(name.packed()).is_some() {
            return;
        }
        self.make_room(bytes.len());
        if self.arena.len() < self.head + bytes.len() {
            self.arena.resize(self.head + bytes.len(), 0);
        }
        self.arena[self.head..][..bytes.len()].copy_from_slice(bytes);
        let extent = Extent::new(self.head, bytes.len());
        self.head += bytes.len();
        self.counts.inserted += 1;
        self.append(Entry { fingerprint, name: name.packed(), extent });
    }

    /// All chunks, the oldest one first.
    pub(crate) fn all_chunks(&self) -> impl Iterator<Item = Chunk<'_>> {
        self.entries.iter().map(|entry| Chunk {
            name: Name::unpacked(entry.name),
            fingerprint: entry.fingerprint,
            is_used: entry.extent.is_used(),
            bytes: self.bytes_of(entry),
        })
    }

    /// Keeps a chunk of another store as that one had it.
    pub(crate) fn take_in(&mut self, chunk: &Chunk<'_>) {
        self.insert(chunk.name, chunk.fingerprint, chunk.bytes);
        if chunk.is_used {
            let _ = self.get(chunk.name);
        }
    }

    /// Starts fetching where a chunk of this fingerprint would be found, which is to be asked for
    /// within a microsecond or so. A hint.
    pub fn expect(&self, fingerprint: u64) {
        self.by_content.expect(fingerprint);
    }

    /// Expects, as [`Store::expect`] does, a chunk that is asked for by name.
    pub fn expect_name(&self, name: Name) {
        self.by_name.expect(spread(self.seed, name.packed()));
    }

    /// The name of a chunk with this content, and notes its use.
    pub fn find(&mut self, fingerprint: u64, bytes: &[u8]) -> Option<Name> {
        let Some(at) = self.find_in_memory(fingerprint, bytes) else {
            let name = Name::unpacked(self.disk.find(fingerprint, bytes)?);
            // The other end reads it, and has it in memory too then.
            self.insert(name, fingerprint, bytes);
            return Some(name);
        };
        Some(Name::unpacked(self.touch(at).name))
    }

    fn find_in_memory(&self, fingerprint: u64, bytes: &[u8]) -> Option<u32> {
        self.by_content.find(fingerprint, |number| {
            let entry = self.entry(number);
            let is_blind = mutant("reference_without_a_look_at_the_bytes");
            (entry.fingerprint == fingerprint
                || (is_blind && entry.fingerprint >> 56 == fingerprint >> 56))
                && (self.bytes_of(entry) == bytes || is_blind)
        })
    }

    /// The bytes of a chunk, and notes its use; `None` if it is not (or no longer) in memory.
    pub fn get(&mut self, name: Name) -> Option<&[u8]> {
        let packed = name.packed();
        match self.number_of(packed) {
            Some(number) => {
                let entry = self.touch(number);
                Some(self.bytes_of(&entry))
            }
            None => self.disk.get_fresh(packed),
        }
    }

    /// Keeps a chunk whose bytes were lost or went bad here, under the name that it has.
    pub fn restore(&mut self, name: Name, fingerprint: u64, bytes: &[u8]) {
        let packed = name.packed();
        match self.number_of(packed).map(|number| self.entry(number).extent) {
            Some(extent) if extent.length() == bytes.len() => {
                self.arena[extent.place()..][..bytes.len()].copy_from_slice(bytes);
            }
            Some(_) => {} // Not the chunk that was meant; what is here stays findable by content.
            None => self.insert(name, fingerprint, bytes),
        }
    }

    /// Drops every chunk that `owner` named: their names mean nothing any more.
    pub fn forget(&mut self, owner: Owner) {
        let kept: Vec<Entry> = std::mem::take(&mut self.entries)
            .into_iter()
            .filter(|entry| Name::unpacked(entry.name).owner != owner)
            .collect();
        self.disk.forget(owner);
        self.by_content = Index::new();
        self.by_name = Index::new();
        self.oldest = 0;
        for entry in kept {
            self.append(entry);
        }
    }

    /// Changes a byte of some chunk, as a bad memory would.
    #[cfg(test)]
    pub(crate) fn spoil(&mut self, rng: &mut thermocline_units::Rng) {
        if !self.entries.is_empty() {
            let entry = self.entries[rng.below(self.entries.len() as u64) as usize];
            self.arena[entry.extent.place()] ^= 0x40;
        }
    }

    /// Evicts from the oldest on until `length` bytes fit at the head.
    fn make_room(&mut self, length: usize) {
        let mut moves_left = MOVES_MAX;
        loop {
            let wraps = self.head + length > self.capacity;
            // The oldest chunk lies ahead of the head, or the ring has not come round.
            let in_the_way = self.entries.front().is_some_and(|oldest| {
                let place = oldest.extent.place();
                place >= self.head && (wraps || place < self.head + length)
            });
            if in_the_way {
                self.evict(&mut moves_left);
            } else if wraps {
                self.head = 0;
            } else {
                return;
            }
        }
    }

    /// Takes the oldest entry out; one that was used goes to the head, if moves are left.
    fn evict(&mut self, moves_left: &mut u32) {
        let number = self.oldest as u32;
        let entry = *self.entries.front().expect("the caller saw one");
        if let Some(later) = self.entries.get(AHEAD) {
            self.by_content.expect(later.fingerprint);
            self.by_name.expect(spread(self.seed, later.name));
        }
        // A chunk whose fingerprint another one had is found by its name only.
        self.by_content.remove(entry.fingerprint, number);
        self.by_name.remove(spread(self.seed, entry.name), number);
        self.entries.pop_front();
        self.oldest = (self.oldest + 1) % NUMBERS;
        if entry.extent.is_used() && *moves_left > 0 {
            *moves_left -= 1;
            self.counts.kept += 1;
            let (place, length) = (entry.extent.place(), entry.extent.length());
            assert!(place >= self.head, "a chunk moves towards the head only");
            self.arena.copy_within(place..place + length, self.head);
            let extent = Extent::new(self.head, length);
            self.head += length;
            self.append(Entry { extent, ..entry });
        } else {
            self.counts.evicted += 1;
            let bytes = &self.arena[entry.extent.place()..][..entry.extent.length()];
            self.disk.insert(entry.name, entry.fingerprint, bytes);
        }
    }

    fn append(&mut self, entry: Entry) {
        let number = ((self.oldest + self.entries.len() as u64) % NUMBERS) as u32;
        if self.entries.len() == self.entries.capacity() {
            // By a sixteenth: doubling would leave half of the memory unused.
            self.entries.reserve_exact(self.entries.len() / 16 + 64);
        }
        self.entries.push_back(entry);
        let Store { entries, oldest, by_content, by_name, seed, .. } = self;
        let entry_of = |number| &entries[offset(*oldest, number)];
        // One entry a fingerprint: equal ones would lie in one place, and each would be looked at.
        let fingerprint = entry.fingerprint;
        if by_content.find(fingerprint, |n| entry_of(n).fingerprint == fingerprint).is_none() {
            by_content.insert(fingerprint, number, |n| entry_of(n).fingerprint);
        }
        // An end counts its names: this one comes soon.
        by_name.expect(spread(*seed, entry.name.wrapping_add((AHEAD as u64) << 1)));
        let named = spread(*seed, entry.name);
        by_name.insert(named, number, |n| spread(*seed, entry_of(n).name));
    }

    /// The number of the entry of this name.
    fn number_of(&self, packed: u64) -> Option<u32> {
        let hash = spread(self.seed, packed);
        self.by_name.find(hash, |number| self.entry(number).name == packed)
    }

    fn entry(&self, number: u32) -> &Entry {
        &self.entries[offset(self.oldest, number)]
    }

    fn touch(&mut self, number: u32) -> Entry {
        let at = offset(self.oldest, number);
        let entry = &mut self.entries[at];
        entry.extent.0 |= 1;
        *entry
    }

    fn bytes_of(&self, entry: &Entry) -> &[u8] {
        &self.arena[entry.extent.place()..][..entry.extent.length()]
    }
}

/// Position of an entry among those from `oldest` on.
fn offset(oldest: u64, number: u32) -> usize {
    ((u64::from(number) + NUMBERS - oldest) % NUMBERS) as usize
}

/// Spreads names, which are counted, over 64 bits (Steele, Lea, Flood, SplitMix, 2014).
fn spread(seed: u64, name: u64) -> u64 {
    let name = name ^ seed;
    let mixed = (name ^ (name >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
