//! The contents that an agent knows, by its own numbers: those of its cache and of its maps.
//!
//! A content may have a number of the server's (its *id*), may be cached, and may be named by maps.
//! It is forgotten when nothing holds it any more, and its own number is given to the next.
//!
//! State: 16 B a content and 4.6 to 5.7 B of index by id; a cached one takes 12 B, as much of index
//! by hash, and the policy's more.

use crate::blocks::{Blocks, Put};
use crate::flash::{Flash, FlashCounts, FlashFailed, FlashRead, FlashRequest, Found};
use crate::index::{Index, push_tight};
use crate::messages::{ContentId, Hash};
use crate::settings::HashOf;
use bytes::Bytes;
use thermocline_units::situations::met;

#[derive(Debug)]
pub(super) struct Contents {
    ids: Vec<u64>,
    /// Number of references: entries of maps, and reads that wait for it.
    refs: Vec<u32>,
    by_id: Index,
    by_mark: Index,
    free: Vec<u32>,
    blocks: Blocks,
    flash: Option<Flash>,
    hash_of: HashOf,
    /// Ids of contents that are not held any more, which the server does not know yet.
    evicted: Vec<ContentId>,
    /// The server is told of them.
    tells: bool,
}

/// The part of a hash that is kept: its first 8 bytes.
pub(super) fn mark_of(hash: &Hash) -> u64 {
    u64::from_le_bytes(hash[..8].try_into().expect("a hash has more than 8 bytes"))
}

impl Contents {
    pub(super) fn new(
        blocks: Blocks,
        flash: Option<Flash>,
        hash_of: HashOf,
        secret: u64,
        tells: bool,
    ) -> Contents {
        Contents {
            ids: Vec::new(),
            refs: Vec::new(),
            by_id: Index::new(secret),
            by_mark: Index::new(secret.rotate_left(17)),
            free: Vec::new(),
            blocks,
            flash,
            hash_of,
            evicted: Vec::new(),
            tells,
        }
    }

    /// A new content, without references.
    pub(super) fn add(&mut self) -> u32 {
        if let Some(content) = self.free.pop() {
            return content;
        }
        push_tight(&mut self.ids, 0);
        push_tight(&mut self.refs, 0);
        self.ids.len() as u32 - 1
    }

    pub(super) fn id(&self, content: u32) -> Option<ContentId> {
        Some(self.ids[content as usize]).filter(|&id| id != 0).map(ContentId)
    }

    pub(super) fn with_id(&self, id: ContentId) -> Option<u32> {
        self.by_id.find(id.0, |content| self.ids[content as usize] == id.0)
    }

    /// The cached content that has these bytes.
    pub(super) fn with_bytes(&self, hash: &Hash, bytes: &[u8]) -> Option<u32> {
        let mark = mark_of(hash);
        let is_it =
            |content| self.blocks.mark(content) == mark && self.blocks.peek(content) == Some(bytes);
        self.by_mark.find(mark, is_it)
    }

    /// The cached content that has this hash.
    pub(super) fn with_hash(&self, hash: &Hash, hash_of: HashOf) -> Option<u32> {
        let mark = mark_of(hash);
        self.by_mark.find(mark, |content| {
            let bytes = self.blocks.peek(content).expect("what is indexed by hash is cached");
            self.blocks.mark(content) == mark && hash_of(bytes) == *hash
        })
    }

    /// Gives a content an id that no other has.
    pub(super) fn set_id(&mut self, content: u32, id: ContentId) {
        self.clear_id(content);
        self.ids[content as usize] = id.0;
        let ids = &self.ids;
        self.by_id.insert(id.0, content, |content| ids[content as usize]);
    }

    fn clear_id(&mut self, content: u32) {
        let ids = &self.ids;
        if ids[content as usize] != 0 {
            self.by_id.remove(ids[content as usize], content, |content| ids[content as usize]);
            self.ids[content as usize] = 0;
        }
    }

    /// Forgets all ids: they were of another session.
    pub(super) fn clear_ids(&mut self) {
        self.ids.fill(0);
        self.by_id.clear();
        self.evicted.clear();
    }

    pub(super) fn change_refs(&mut self, content: u32, change: i32) {
        let refs = &mut self.refs[content as usize];
        *refs = refs.checked_add_signed(change).expect("references are counted up first");
        let refs = *refs;
        self.blocks.set_shares(content, refs);
        self.forget_unused(content);
    }

    fn forget_unused(&mut self, content: u32) {
        if self.refs[content as usize] == 0 && !self.blocks.holds(content) {
            if let Some(flash) = &mut self.flash {
                flash.forget(content);
            }
            self.clear_id(content);
            self.free.push(content);
        }
    }

    pub(super) fn is_cached(&self, content: u32) -> bool {
        self.blocks.holds(content)
    }

    #[inline]
    pub(super) fn get(&mut self, content: u32) -> Option<&[u8]> {
        self.blocks.get(content)
    }

    pub(super) fn peek(&self, content: u32) -> Option<&[u8]> {
        self.blocks.peek(content)
    }

    /// Caches a content with references, if the policy admits it. Without `hash` it cannot be found
    /// by its hash.
    pub(super) fn cache(&mut self, content: u32, bytes: &[u8], hash: Option<&Hash>) {
        assert!(self.refs[content as usize] > 0, "somebody wants it");
        if self.blocks.holds(content) {
            return;
        }
        // The mark of what leaves is looked up by its number, so it must go before its slot does.
        let mark = hash.map_or(0, mark_of);
        let (by_mark, flash) = (&mut self.by_mark, &mut self.flash);
        let (refs, hash_of) = (&self.refs, self.hash_of);
        let put = self.blocks.put(content, bytes, mark, |blocks, victim| {
            by_mark.remove(blocks.mark(victim), victim, |content| blocks.mark(content));
            let shares = refs[victim as usize];
            if let Some(flash) = flash.as_mut().filter(|_| shares > 0) {
                let bytes = blocks.peek(victim).expect("it leaves, and is there");
                flash.offer(victim, shares, bytes, || hash_of(bytes));
            }
        });
        match put {
            Put::Kept(left) => {
                if mark != 0 {
                    let blocks = &self.blocks;
                    self.by_mark.insert(mark, content, |content| blocks.mark(content));
                }
                self.blocks.set_shares(content, self.refs[content as usize]);
                if let Some(left) = left {
                    self.note_evicted(left);
                    self.forget_unused(left);
                }
            }
            Put::Passed => {
                met("a block was not admitted");
                self.note_evicted(content);
            }
        }
    }

    /// Queues the report to the server that a content is not held, where it keeps account.
    pub(super) fn note_evicted(&mut self, content: u32) {
        if let Some(id) = self.id(content).filter(|_| self.tells) {
            self.evicted.push(id);
        }
    }

    pub(super) fn take_evicted(&mut self, most: usize) -> Vec<ContentId> {
        let from = self.evicted.len().saturating_sub(most);
        self.evicted.split_off(from)
    }

    pub(super) fn evicted(&self) -> usize {
        self.evicted.len()
    }

    /// Contents that are cached.
    pub(super) fn cached(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.lines()
    }

    /// Looks for a content on the second level, and begins to read it if it is there. The content
    /// must keep a reference until [`Contents::flash_ended`] has told of it.
    pub(super) fn find_on_flash(&mut self, content: u32) -> Option<Found> {
        self.flash.as_mut()?.find(content)
    }

    /// The next request to the second level's device.
    pub(super) fn next_flash_request(&mut self) -> Option<(u64, FlashRequest)> {
        self.flash.as_mut()?.next_request()
    }

    /// Takes the answer to one; what became of a read.
    pub(super) fn flash_ended(
        &mut self,
        number: u64,
        result: Result<Bytes, FlashFailed>,
    ) -> Option<FlashRead> {
        self.flash.as_mut()?.ended(number, result, self.hash_of)
    }

    /// Counts of the second level; `None`: there is none.
    pub(super) fn flash_counts(&self) -> Option<FlashCounts> {
        self.flash.as_ref().map(Flash::counts)
    }

    /// Number of cached blocks, number of known contents, and bytes of memory without the blocks.
    pub(super) fn memory(&self) -> (u32, usize, u64) {
        let words = self.refs.capacity() + self.free.capacity();
        let own = self.ids.capacity() as u64 * 8 + words as u64 * 4;
        let flash = self.flash.as_ref().map_or(0, Flash::bytes);
        let blocks = self.blocks.overhead_bytes() + flash;
        let bytes = own + self.by_id.bytes() + self.by_mark.bytes() + blocks;
        (self.blocks.count(), self.ids.len() - self.free.len(), bytes)
    }
}
