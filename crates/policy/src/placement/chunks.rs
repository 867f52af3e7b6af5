//! The chunks a flash manager has met, numbered densely in the order of their first access.
//!
//! *Bin* is the sources' word for a chunk (Tai 2015 §4.2.1.2: 1 MB). Counters live in flat arrays
//! indexed by chunk number; the map from chunk to number is one page table a volume, its pages
//! allocated when first touched, so that a sparse 64 TiB volume costs what it uses. Chunks are
//! never forgotten: the sources keep their heat map for every block of a volume.
//!
//! State: 12 B a chunk (8 its id, 4 its number), the 12 B of address of Tai 2015 §4.2.2.3.

use thermocline_units::ChunkId;

/// Chunks in one page of the table.
const PAGE_CHUNKS: usize = 1 << PAGE_BITS;
const PAGE_BITS: u32 = 10;

/// Not met yet.
const UNKNOWN: u32 = u32::MAX;

type Page = Box<[u32]>;

/// Chunk to number and back.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    volumes: Vec<Vec<Option<Page>>>,
    ids: Vec<ChunkId>,
    /// Pages allocated.
    pages: u64,
}

impl Chunks {
    /// The number of `chunk`, new or old; a new one is the largest.
    #[inline]
    pub(super) fn number(&mut self, chunk: ChunkId) -> u32 {
        let (volume, page) = (chunk.volume.0 as usize, chunk.index as usize >> PAGE_BITS);
        let slot = chunk.index as usize & (PAGE_CHUNKS - 1);
        if let Some(Some(found)) = self.volumes.get(volume).and_then(|v| v.get(page))
            && found[slot] != UNKNOWN
        {
            return found[slot];
        }
        self.add(chunk, (volume, page, slot))
    }

    /// The number of `chunk`, if it was met.
    pub(super) fn find(&self, chunk: ChunkId) -> Option<u32> {
        let page =
            self.volumes.get(chunk.volume.0 as usize)?.get(chunk.index as usize >> PAGE_BITS)?;
        let number = page.as_ref()?[chunk.index as usize & (PAGE_CHUNKS - 1)];
        (number != UNKNOWN).then_some(number)
    }

    #[cold]
    fn add(&mut self, chunk: ChunkId, (volume, page, slot): (usize, usize, usize)) -> u32 {
        if self.volumes.len() <= volume {
            self.volumes.resize_with(volume + 1, Vec::new);
        }
        let table = &mut self.volumes[volume];
        if table.len() <= page {
            table.resize_with(page + 1, || None);
        }
        let found = table[page].get_or_insert_with(|| {
            self.pages += 1;
            vec![UNKNOWN; PAGE_CHUNKS].into_boxed_slice()
        });
        let number = u32::try_from(self.ids.len()).expect("fewer than 2³² chunks fit in memory");
        found[slot] = number;
        self.ids.push(chunk);
        number
    }

    /// Chunks met so far; their numbers are below this.
    pub(super) fn len(&self) -> u32 {
        self.ids.len() as u32
    }

    #[inline]
    pub(super) fn id(&self, number: u32) -> ChunkId {
        self.ids[number as usize]
    }

    pub(super) fn bytes(&self) -> u64 {
        let tables: usize =
            self.volumes.iter().map(|v| v.capacity() * size_of::<Option<Page>>()).sum();
        self.ids.capacity() as u64 * 8 + self.pages * PAGE_CHUNKS as u64 * 4 + tables as u64
    }
}
