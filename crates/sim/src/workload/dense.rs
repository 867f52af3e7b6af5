//! Dense numbers for addresses, in order of first sight.
//!
//! 1. A hash table of buckets of four entries, 64 bytes each: one line of the processor's caches.
//! 2. An address belongs in the bucket that its hash names, or in the next one with room. Lookups
//!    compare all four entries of a bucket at once, without a branch for each.
//! 3. Neighbouring lines share a bucket, four and four: a request of several lines costs one miss
//!    of the processor's caches for every four. Objects have no neighbours; each is hashed alone.
//! 4. Whoever collects a batch of addresses says [`DenseIds::expect`] of each at once, so that the
//!    memory's work goes on under the collecting; the buckets are near when the batch is looked up.
//! 5. A table three quarters full doubles (a small one grows fourfold). A bucket's entries go to
//!    neighbouring buckets, so old and new table are both passed through in order.
//!
//! The table keeps no list of addresses by number: it hands new ones out, and `names.rs` keeps
//! them. So a block can be numbered while replays look at the names of the one before.
//!
//! State: 21–43 B a distinct address; up to 85 while the table has less than 64 MiB.

use super::Unit;
use thermocline_units::{LineId, prefetch};

/// A line, chunk or object: its volume and its number there (or an object's 64-bit name).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) volume: u32,
    pub(crate) unit: u64,
}

/// Entries in a bucket.
const WAYS: usize = 4;
/// The table grows beyond this part full: 3/4. Fuller tables probe longer, emptier ones miss more.
const FULL_MAX: (usize, usize) = (3, 4);
/// Buckets to begin with: 1 MiB.
const BUCKETS_MIN: usize = 1 << 14;
/// Below 64 MiB a table grows fourfold: what it leaves behind costs the kernel as much as what it
/// takes.
const BUCKETS_MANY: usize = 1 << 20;

/// Four entries; filled from the first on, never emptied.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    units: [u64; WAYS],
    volumes: [u32; WAYS],
    /// One more than the ids; 0 in an entry that holds nothing.
    ids: [u32; WAYS],
}

const EMPTY: Bucket = Bucket { units: [0; WAYS], volumes: [0; WAYS], ids: [0; WAYS] };
const _: () = assert!(size_of::<Bucket>() == 64, "one line of the processor's caches");

impl Bucket {
    /// The number of `address`, if it is here.
    #[inline(always)]
    fn find(&self, address: Address) -> Option<u32> {
        let mut found = 0;
        for way in 0..WAYS {
            let same = (self.units[way] == address.unit) & (self.volumes[way] == address.volume);
            found |= self.ids[way] & u32::from(same).wrapping_neg();
        }
        found.checked_sub(1)
    }

    /// The first entry that holds nothing.
    #[inline(always)]
    fn room(&self) -> Option<usize> {
        self.ids.iter().position(|id| *id == 0)
    }

    fn put(&mut self, way: usize, address: Address, id: u32) {
        self.units[way] = address.unit;
        self.volumes[way] = address.volume;
        self.ids[way] = id + 1;
    }

    /// Its addresses and their numbers.
    fn entries(&self) -> impl Iterator<Item = (Address, u32)> {
        let taken = (0..WAYS).take_while(|way| self.ids[*way] != 0);
        taken.map(|way| {
            (Address { volume: self.volumes[way], unit: self.units[way] }, self.ids[way] - 1)
        })
    }
}

/// More distinct addresses than ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany;

/// The map from addresses to dense ids.
#[derive(Debug)]
pub(crate) struct DenseIds {
    buckets: Vec<Bucket>,
    count: u32,
    /// Neighbours that share a bucket, as a power of two.
    neighbours_log2: u32,
}

impl DenseIds {
    /// An empty map for units of this kind.
    pub(crate) fn new(unit: Unit) -> DenseIds {
        let neighbours_log2 = match unit {
            Unit::Lines(_) => WAYS.trailing_zeros(),
            Unit::Objects => 0,
        };
        DenseIds { buckets: vec![EMPTY; BUCKETS_MIN], count: 0, neighbours_log2 }
    }

    /// How many ids have been given.
    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    /// Bytes of memory in use.
    pub(crate) fn bytes(&self) -> u64 {
        (self.buckets.len() * size_of::<Bucket>()) as u64
    }

    /// Asks for the bucket of an address that is in the next batch.
    #[inline(always)]
    pub(crate) fn expect(&self, address: Address) {
        prefetch(&self.buckets, self.home(address));
    }

    /// Appends the id of every address to `ids`. Addresses never seen get new ids, in order, and
    /// are appended to `new`.
    pub(crate) fn number(
        &mut self,
        addresses: &[Address],
        ids: &mut Vec<LineId>,
        new: &mut Vec<Address>,
    ) -> Result<(), TooMany> {
        if u64::from(self.len()) + addresses.len() as u64 > u64::from(LineId::MAX.0) {
            return Err(TooMany);
        }
        while (self.count as usize + addresses.len()) * FULL_MAX.1
            > self.buckets.len() * WAYS * FULL_MAX.0
        {
            self.grow();
        }
        ids.extend(addresses.iter().map(|&address| LineId(self.id_of(address, new))));
        Ok(())
    }

    /// The id of an address, a new one if it has none.
    #[inline(always)]
    fn id_of(&mut self, address: Address, new: &mut Vec<Address>) -> u32 {
        let (bucket, place) = self.find(address);
        match place {
            Place::Holds(id) => id,
            Place::Vacant(way) => {
                let id = self.count;
                self.buckets[bucket].put(way, address, id);
                self.count += 1;
                new.push(address);
                id
            }
        }
    }

    /// The id of an address, if it has one.
    pub(crate) fn get(&self, address: Address) -> Option<LineId> {
        match self.find(address).1 {
            Place::Holds(id) => Some(LineId(id)),
            Place::Vacant(_) => None,
        }
    }

    /// All addresses that have ids, in no useful order. O(table).
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Address, LineId)> {
        let entries = self.buckets.iter().flat_map(Bucket::entries);
        entries.map(|(address, id)| (address, LineId(id)))
    }

    /// The bucket that holds the address, or that it belongs in.
    #[inline(always)]
    fn find(&self, address: Address) -> (usize, Place) {
        let mut at = self.home(address);
        loop {
            let bucket = &self.buckets[at];
            if let Some(id) = bucket.find(address) {
                return (at, Place::Holds(id));
            }
            if let Some(way) = bucket.room() {
                return (at, Place::Vacant(way));
            }
            at = (at + 1) & (self.buckets.len() - 1);
        }
    }

    /// The bucket where the search for an address begins.
    #[inline(always)]
    fn home(&self, address: Address) -> usize {
        let group = (address.unit >> self.neighbours_log2) ^ (u64::from(address.volume) << 44);
        let hash = group.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (hash >> (u64::BITS - self.buckets.len().trailing_zeros())) as usize
    }

    #[cold]
    fn grow(&mut self) {
        let times = if self.buckets.len() < BUCKETS_MANY { 4 } else { 2 };
        let bigger = vec![EMPTY; self.buckets.len() * times];
        let smaller = std::mem::replace(&mut self.buckets, bigger);
        for (address, id) in smaller.iter().flat_map(Bucket::entries) {
            let (bucket, place) = self.find(address);
            if let Place::Vacant(way) = place {
                self.buckets[bucket].put(way, address, id);
            }
        }
    }
}

/// What a search for an address ended at.
enum Place {
    /// Its id.
    Holds(u32),
    /// It is not in the table; it belongs into this entry.
    Vacant(usize),
}
