//! Dense numbers for addresses, in order of first sight.
//!
//! 1. A hash table a volume, of buckets of five entries: one line of the processor's caches, 64
//!    bytes. The volume being known, an entry is a unit and its number, 12 bytes.
//! 2. An address belongs in the bucket that its hash names, or in the next one with room. Lookups
//!    compare all five entries of a bucket at once, without a branch for each.
//! 3. Neighbouring lines share a bucket, four and four: a request of several lines costs one miss
//!    of the processor's caches for every four. Objects have no neighbours; each is hashed alone.
//! 4. Addresses are looked up in groups. A group's buckets are asked for while the group before is
//!    looked up, so that memory works meanwhile; then the addresses that are in their bucket get
//!    their numbers without a branch, whichever they are, and the others, overflowed or new, one
//!    by one.
//! 5. A table seven eighths full doubles (a small one grows fourfold). A bucket's entries go to
//!    neighbouring buckets, so old and new table are both passed through in order.
//! 6. Where all addresses are of one volume, nobody asks each of them for its table.
//!
//! The table keeps no list of addresses by number: it hands new ones out, and `names.rs` keeps
//! them. So a block can be numbered while replays look at the names of the one before.
//!
//! What bounds it is the processor's translation of addresses: a table half as large is worth more
//! than emptier buckets. State: 15–29 B a distinct address; up to 59 while a table has less than
//! 256 KiB.

use super::Unit;
use std::hint::select_unpredictable;
use thermocline_units::{LineId, prefetch};

/// A line, chunk or object: its volume and its number there (or an object's 64-bit name).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) volume: u32,
    pub(crate) unit: u64,
}

/// Whatever has an address.
pub(crate) trait Addressed {
    /// Its address.
    fn address(&self) -> Address;
}

impl Addressed for Address {
    #[inline(always)]
    fn address(&self) -> Address {
        *self
    }
}

/// Entries in a bucket.
const WAYS: usize = 5;
/// Neighbours that share a bucket, as a power of two; at most [`WAYS`].
const NEIGHBOURS_LOG2: u32 = 2;
/// A table grows beyond this part full: 7/8. Fuller tables probe longer, emptier ones miss more.
const FULL_MAX: (usize, usize) = (7, 8);
/// Buckets to begin with: 256 B, because a trace may have thousands of volumes.
const BUCKETS_MIN: usize = 1 << 2;
/// Below 256 KiB a table grows fourfold: it is passed through half as often. A larger one doubles,
/// so that it stays in the processor's caches as long as it can.
const BUCKETS_MANY: usize = 1 << 12;
/// Addresses in a group: looking them up takes longer than a load from memory. From 64 to 256 it is
/// the same.
const GROUP: usize = 128;
const _: () = assert!(GROUP <= 256, "a place in a group is a byte");

/// Five entries; filled from the first on, never emptied.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    units: [u64; WAYS],
    /// One more than the ids; 0 in an entry that holds nothing.
    ids: [u32; WAYS],
}

const EMPTY: Bucket = Bucket { units: [0; WAYS], ids: [0; WAYS] };
const _: () = assert!(size_of::<Bucket>() == 64, "one line of the processor's caches");

impl Bucket {
    /// One more than the number of `unit`, 0 if it is not here. A select for each entry: compilers
    /// make vectors of a plain loop, and comparing 64 bits in SSE2's takes three times as long.
    /// From the last to the first, because unit 0 is also what empty entries, the last ones, hold.
    #[inline(always)]
    fn entry(&self, unit: u64) -> u32 {
        let entries = self.units.iter().zip(&self.ids).rev();
        entries.fold(0, |found, (own, id)| select_unpredictable(*own == unit, *id, found))
    }

    /// The number of `unit`, if it is here.
    #[inline(always)]
    fn find(&self, unit: u64) -> Option<u32> {
        self.entry(unit).checked_sub(1)
    }

    /// The first entry that holds nothing.
    #[inline(always)]
    fn room(&self) -> Option<usize> {
        let taken = self.ids.iter().map(|id| usize::from(*id != 0)).sum();
        (taken < WAYS).then_some(taken)
    }

    /// Its units and their numbers.
    fn entries(&self) -> impl Iterator<Item = (u64, u32)> {
        let entries = self.units.iter().zip(&self.ids).take_while(|(_, id)| **id != 0);
        entries.map(|(unit, id)| (*unit, id - 1))
    }
}

/// One volume's table.
#[derive(Debug)]
struct Table {
    buckets: Vec<Bucket>,
    /// Units in it.
    count: usize,
    /// Bits of a hash that do not name a bucket.
    shift: u32,
    neighbours_log2: u32,
}

/// A table to look things up in.
#[derive(Debug, Clone, Copy)]
struct View<'a> {
    buckets: &'a [Bucket],
    shift: u32,
    neighbours_log2: u32,
}

impl View<'_> {
    /// Its upper bits name the bucket where the search for a unit begins.
    #[inline(always)]
    fn hash(&self, unit: u64) -> u64 {
        let hash = (unit >> self.neighbours_log2).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }

    /// The bucket where a hash belongs.
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }

    #[inline(always)]
    fn find(&self, unit: u64, hash: u64) -> Place {
        let mut at = self.home(hash);
        loop {
            let bucket = &self.buckets[at];
            if let Some(id) = bucket.find(unit) {
                return Place::Holds(id);
            }
            if let Some(way) = bucket.room() {
                return Place::Vacant(at, way);
            }
            at = (at + 1) & (self.buckets.len() - 1);
        }
    }
}

/// End of a search for a unit.
enum Place {
    /// Its id.
    Holds(u32),
    /// A key that is not in the table; it belongs into this bucket, at this entry.
    Vacant(usize, usize),
}

impl Table {
    #[inline(always)]
    fn view(&self) -> View<'_> {
        let Table { buckets, shift, neighbours_log2, .. } = self;
        View { buckets, shift: *shift, neighbours_log2: *neighbours_log2 }
    }

    fn new(neighbours_log2: u32) -> Table {
        let mut table = Table { buckets: Vec::new(), count: 0, shift: 0, neighbours_log2 };
        table.replace(BUCKETS_MIN);
        table
    }

    /// Enters a unit that is not in the table at the place that a search has found.
    #[inline(always)]
    fn enter(&mut self, (at, way): (usize, usize), unit: u64, id: u32) {
        self.buckets[at].units[way] = unit;
        self.buckets[at].ids[way] = id + 1;
        self.count += 1;
        if self.count * FULL_MAX.1 > self.buckets.len() * WAYS * FULL_MAX.0 {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let times = if self.buckets.len() < BUCKETS_MANY { 4 } else { 2 };
        let smaller = self.replace(self.buckets.len() * times);
        for (unit, id) in smaller.iter().flat_map(Bucket::entries) {
            let view = self.view();
            if let Place::Vacant(at, way) = view.find(unit, view.hash(unit)) {
                self.buckets[at].units[way] = unit;
                self.buckets[at].ids[way] = id + 1;
            }
        }
    }

    /// Empty buckets instead of the old ones, which it returns.
    fn replace(&mut self, buckets: usize) -> Vec<Bucket> {
        self.shift = u64::BITS - buckets.trailing_zeros();
        std::mem::replace(&mut self.buckets, vec![EMPTY; buckets])
    }
}

/// More distinct addresses than ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany;

/// The map from addresses to dense ids.
#[derive(Debug)]
pub(crate) struct DenseIds {
    /// Tables by volume.
    tables: Vec<Table>,
    count: u32,
    neighbours_log2: u32,
}

impl DenseIds {
    /// An empty map for units of this kind.
    pub(crate) fn new(unit: Unit) -> DenseIds {
        let neighbours_log2 = match unit {
            Unit::Lines(_) => NEIGHBOURS_LOG2,
            Unit::Objects => 0,
        };
        DenseIds { tables: Vec::new(), count: 0, neighbours_log2 }
    }

    /// Number of ids given.
    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    /// Bytes of memory in use.
    pub(crate) fn bytes(&self) -> u64 {
        let buckets: usize = self.tables.iter().map(|table| table.buckets.len()).sum();
        (buckets * size_of::<Bucket>() + self.tables.len() * size_of::<Table>()) as u64
    }

    /// Appends the id of every address to `ids`. Addresses never seen get new ids, in order, and
    /// are appended to `new`.
    pub(crate) fn number<T: Addressed>(
        &mut self,
        addresses: &[T],
        ids: &mut Vec<LineId>,
        new: &mut Vec<Address>,
    ) -> Result<(), TooMany> {
        if u64::from(self.len()) + addresses.len() as u64 > u64::from(LineId::MAX.0) {
            return Err(TooMany);
        }
        let volumes = || addresses.iter().map(|addressed| addressed.address().volume);
        let Some(first) = volumes().next() else { return Ok(()) };
        let others = volumes().fold(0, |others, volume| others | volume ^ first);
        let last = if others == 0 { first } else { volumes().max().unwrap_or(first) } as usize;
        if last >= self.tables.len() {
            let neighbours_log2 = self.neighbours_log2;
            self.tables.resize_with(last + 1, || Table::new(neighbours_log2));
        }
        let alone = (others == 0).then_some(last);
        let mut groups = addresses.chunks(GROUP);
        let mut group = groups.next().unwrap_or_default();
        let mut hashes = self.expect(group, alone);
        while !group.is_empty() {
            let coming = groups.next().unwrap_or_default();
            let coming_hashes = self.expect(coming, alone);
            self.number_group(group, &hashes, alone, ids, new);
            (group, hashes) = (coming, coming_hashes);
        }
        Ok(())
    }

    /// The table of an address's volume.
    #[inline(always)]
    fn table(&self, addressed: &impl Addressed) -> View<'_> {
        self.tables[addressed.address().volume as usize].view()
    }

    /// Numbers a group of addresses: first, without a branch, those that are in the bucket where
    /// they belong, then one by one those that overflowed or are new.
    #[inline(always)]
    fn number_group<T: Addressed>(
        &mut self,
        group: &[T],
        hashes: &[u64; GROUP],
        alone: Option<usize>,
        ids: &mut Vec<LineId>,
        new: &mut Vec<Address>,
    ) {
        let start = ids.len();
        let mut missing = [0; GROUP];
        let count = match alone {
            Some(volume) => {
                let table = self.tables[volume].view();
                number_known(group, hashes, |_| table, ids, &mut missing)
            }
            None => number_known(group, hashes, |own| self.table(own), ids, &mut missing),
        };
        for i in &missing[..count] {
            let i = usize::from(*i);
            ids[start + i] = LineId(self.id_of(group[i].address(), hashes[i], new));
        }
    }

    /// Asks for the buckets of a group of addresses, whose volumes have tables; their hashes.
    #[inline(always)]
    fn expect<T: Addressed>(&self, group: &[T], alone: Option<usize>) -> [u64; GROUP] {
        match alone {
            Some(volume) => {
                let table = self.tables[volume].view();
                ask_for(group, |_| table)
            }
            None => ask_for(group, |own| self.table(own)),
        }
    }

    /// The id of an address of a volume that has a table, a new one if it has none.
    #[inline(always)]
    fn id_of(&mut self, address: Address, hash: u64, new: &mut Vec<Address>) -> u32 {
        let table = &mut self.tables[address.volume as usize];
        match table.view().find(address.unit, hash) {
            Place::Holds(id) => id,
            Place::Vacant(at, way) => {
                let id = self.count;
                table.enter((at, way), address.unit, id);
                self.count += 1;
                new.push(address);
                id
            }
        }
    }

    /// The id of an address, if it has one.
    pub(crate) fn get(&self, address: Address) -> Option<LineId> {
        let table = self.tables.get(address.volume as usize)?.view();
        match table.find(address.unit, table.hash(address.unit)) {
            Place::Holds(id) => Some(LineId(id)),
            Place::Vacant(..) => None,
        }
    }

    /// All units of a volume that have ids, in no useful order. O(table).
    pub(crate) fn units_of(&self, volume: u32) -> impl Iterator<Item = (u64, LineId)> {
        let buckets = self.tables.get(volume as usize).into_iter().flat_map(|t| &t.buckets);
        buckets.flat_map(Bucket::entries).map(|(unit, id)| (unit, LineId(id)))
    }
}

/// Asks for the buckets of a group of addresses; their hashes.
#[inline(always)]
fn ask_for<'a, T: Addressed>(group: &[T], table: impl Fn(&T) -> View<'a>) -> [u64; GROUP] {
    let mut hashes = [0; GROUP];
    for (hash, addressed) in hashes.iter_mut().zip(group) {
        let table = table(addressed);
        *hash = table.hash(addressed.address().unit);
        prefetch(table.buckets, table.home(*hash));
    }
    hashes
}

/// Appends the ids of a group of addresses, and notes in `missing` which of them are not in the
/// bucket where they belong; how many. What is appended for those means nothing.
#[inline(always)]
fn number_known<'a, T: Addressed>(
    group: &[T],
    hashes: &[u64; GROUP],
    table: impl Fn(&T) -> View<'a>,
    ids: &mut Vec<LineId>,
    missing: &mut [u8; GROUP],
) -> usize {
    let mut count = 0;
    ids.extend(group.iter().zip(hashes).enumerate().map(|(i, (addressed, hash))| {
        let table = table(addressed);
        let entry = table.buckets[table.home(*hash)].entry(addressed.address().unit);
        missing[count % GROUP] = i as u8;
        count += usize::from(entry == 0);
        LineId(entry.wrapping_sub(1))
    }));
    for i in missing[..count].iter().map(|i| usize::from(*i)) {
        let table = table(&group[i]);
        prefetch(table.buckets, table.home(hashes[i]) + 1);
    }
    count
}
