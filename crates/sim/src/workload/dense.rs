//! Dense numbers for addresses, in order of first sight.
//!
//! An open-addressing table of 16-byte entries at most three quarters full. Four neighbouring
//! addresses share a home of four entries, 64 bytes: a request of several lines costs one miss of
//! the processor's caches for every four. Lookups come in batches with their homes prefetched.
//!
//! State: 37–59 B a distinct address: 21–43 of the table, 16 of the addresses by number.

use thermocline_units::{LineId, prefetch};

/// A line, chunk or object: its volume and its number there (or an object's 64-bit name).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) volume: u32,
    pub(crate) unit: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    unit: u64,
    volume: u32,
    id: u32,
}

const VACANT: Entry = Entry { unit: 0, volume: 0, id: u32::MAX };
/// Addresses that share a home; 4 × 16 B fill one 64-byte line of the processor's caches.
const NEIGHBOURS: u64 = 4;
/// The table grows beyond this part full: 3/4. Fuller tables probe longer, emptier ones miss more.
const FULL_MAX: (usize, usize) = (3, 4);
/// Lookups whose homes are on their way; more than the misses a core can have in flight.
const AHEAD: usize = 32;

/// More distinct addresses than ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany;

/// The map from addresses to dense ids.
#[derive(Debug)]
pub(crate) struct DenseIds {
    entries: Vec<Entry>,
    /// By id.
    addresses: Vec<Address>,
}

impl DenseIds {
    pub(crate) fn new() -> DenseIds {
        DenseIds { entries: vec![VACANT; 1 << 16], addresses: Vec::new() }
    }

    /// How many ids have been given.
    pub(crate) fn len(&self) -> u32 {
        self.addresses.len() as u32
    }

    /// Bytes of memory in use.
    pub(crate) fn bytes(&self) -> u64 {
        let addresses = self.addresses.capacity() * size_of::<Address>();
        (self.entries.len() * size_of::<Entry>() + addresses) as u64
    }

    /// Appends the id of every address to `ids`, giving new ones to addresses never seen.
    pub(crate) fn number(
        &mut self,
        addresses: &[Address],
        ids: &mut Vec<LineId>,
    ) -> Result<(), TooMany> {
        if u64::from(self.len()) + addresses.len() as u64 > u64::from(LineId::MAX.0) {
            return Err(TooMany);
        }
        while (self.addresses.len() + addresses.len()) * FULL_MAX.1
            > self.entries.len() * FULL_MAX.0
        {
            self.grow();
        }
        let mut homes = [0; AHEAD];
        for (home, &address) in homes.iter_mut().zip(addresses) {
            *home = self.home(address);
            prefetch(&self.entries, *home);
        }
        for (i, &address) in addresses.iter().enumerate() {
            let at = self.find_from(homes[i % AHEAD], address);
            if let Some(&coming) = addresses.get(i + AHEAD) {
                let home = self.home(coming);
                prefetch(&self.entries, home);
                homes[i % AHEAD] = home;
            }
            let mut id = self.entries[at].id;
            if id == VACANT.id {
                id = self.len();
                self.entries[at] = Entry { unit: address.unit, volume: address.volume, id };
                self.addresses.push(address);
            }
            ids.push(LineId(id));
        }
        Ok(())
    }

    /// The id of an address, if it has one.
    pub(crate) fn get(&self, address: Address) -> Option<LineId> {
        let id = self.entries[self.find(address)].id;
        (id != VACANT.id).then_some(LineId(id))
    }

    /// The address with this id.
    #[inline]
    pub(crate) fn address(&self, id: LineId) -> Address {
        self.addresses[id.index()]
    }

    /// The entry that holds the address, or the vacant one where it belongs.
    #[inline]
    fn find(&self, address: Address) -> usize {
        self.find_from(self.home(address), address)
    }

    #[inline]
    fn find_from(&self, home: usize, address: Address) -> usize {
        let mask = self.entries.len() - 1;
        let mut at = home;
        loop {
            let entry = self.entries[at];
            let same = entry.unit == address.unit && entry.volume == address.volume;
            if entry.id == VACANT.id || same {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    fn home(&self, address: Address) -> usize {
        let group = (address.unit / NEIGHBOURS) ^ (u64::from(address.volume) << 44);
        let hash = group.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let groups_log2 = self.entries.len().trailing_zeros() - NEIGHBOURS.trailing_zeros();
        let group = hash >> (u64::BITS - groups_log2);
        (group * NEIGHBOURS + address.unit % NEIGHBOURS) as usize
    }

    #[cold]
    fn grow(&mut self) {
        let bigger = vec![VACANT; self.entries.len() * 2];
        let smaller = std::mem::replace(&mut self.entries, bigger);
        for entry in smaller.into_iter().filter(|e| e.id != VACANT.id) {
            let at = self.find(Address { volume: entry.volume, unit: entry.unit });
            self.entries[at] = entry;
        }
    }
}
