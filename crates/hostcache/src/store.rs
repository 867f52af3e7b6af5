//! Requests of the server to its store, as plain data; and a store in memory.
//!
//! The server hands out [`StoreRequest`]s with the number of an operation and takes
//! [`StoreAnswer`]s. The code between them keeps this contract:
//! - **Order.** Requests that read or change maps act in the order in which they were handed out;
//!   answers may come in any order.
//! - **Numbers.** A number of a content is never used for other content in the store's run. Content
//!   that moves may get a new one.
//! - **Pins.** When a write by hash or number was answered as done, its content exists, even if a
//!   sweep had marked it before.
//! - **Durability.** After [`StoreAnswer::Done`] to a flush or a fence all writes that were
//!   answered before it was handed out survive a crash. Others are old or new, block by block.
//!
//! [`MemoryStore`] keeps it: the laboratory and the simulation run on it.

use crate::messages::{Hash, Shortage};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{Nanos, Rng};

/// A content as the store knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// Its number in this run.
    pub number: u64,
    /// Its hash.
    pub hash: Hash,
    /// Blocks of all volumes that have it.
    pub shares: u32,
}

/// A block that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreItem {
    /// Nothing happens to this block; the answer says that its content is unknown.
    Unknown,
    /// Zeroes.
    Zero,
    /// The content of this number, if it is there and in the volume's domain.
    Number(u64),
    /// The content of this hash, if it is there and in the volume's domain.
    Hash(Hash),
    /// These bytes, with their hash.
    Data(Bytes, Hash),
}

/// A request of the server to its store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreRequest {
    /// Returns a volume by its name.
    Open {
        /// Its name.
        name: String,
    },
    /// Stores durably which host may write to a volume, and makes the volume durable, so that the
    /// next host reads nothing that a crash can take back. Acts after all writes to the volume that
    /// were handed out before.
    Fence {
        /// The volume.
        volume: u32,
        /// The fencing number.
        fence: u64,
        /// The host.
        holder: u16,
        /// Longest lease under this number.
        lease: Nanos,
    },
    /// Returns the contents of blocks.
    Lookup {
        /// The volume.
        volume: u32,
        /// First block.
        block: u32,
        /// Blocks.
        count: u16,
    },
    /// Returns the bytes of a content.
    Fetch {
        /// Its number.
        number: u64,
    },
    /// Writes blocks.
    Write {
        /// The volume.
        volume: u32,
        /// First block.
        block: u32,
        /// The blocks.
        items: Vec<StoreItem>,
    },
    /// Makes a volume durable.
    Flush {
        /// The volume.
        volume: u32,
    },
    /// Returns blocks that have a content.
    Sharers {
        /// Its number.
        number: u64,
        /// Volumes to search.
        volumes: Vec<u32>,
        /// Largest number of blocks to return.
        cap: u32,
    },
    /// Returns a part of a map.
    Map {
        /// The volume.
        volume: u32,
        /// True for the map of its image, false for the differences from it.
        base: bool,
        /// First block.
        block: u32,
        /// Blocks at most.
        count: u32,
    },
    /// Returns contents by their hashes.
    Find {
        /// The hashes.
        hashes: Vec<Hash>,
        /// Bits of the domains in which they must be.
        domains: u64,
    },
}

/// A volume, as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Its number.
    pub volume: u32,
    /// Its blocks.
    pub blocks: u32,
    /// Domain in which its content may be recognised, 0 to 63.
    pub domain: u8,
    /// Image that it is a clone of; 0: none.
    pub base: u32,
    /// True for a snapshot, which nobody may write to.
    pub read_only: bool,
    /// Last fencing number; 0: none.
    pub fence: u64,
    /// Host that had it.
    pub holder: u16,
    /// Longest lease under the fencing number; 0: not known.
    pub lease: Nanos,
}

/// Outcome of the write of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was written, because the content is unknown.
    Unknown,
    /// Zeroes were written.
    Zero,
    /// This content was written.
    Written(Content),
    /// The block is as it was: there is no room for its content.
    Refused(Shortage),
}

/// An answer of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreAnswer {
    /// A volume, if there is one.
    Volume(Option<VolumeInfo>),
    /// Contents of blocks; `None` for zeroes.
    Contents(Vec<Option<Content>>),
    /// Bytes of a content, unless it was swept.
    Block(Option<Bytes>),
    /// Outcomes of the written blocks, in order.
    Written(Vec<Outcome>),
    /// A flush or a fence is durable.
    Done,
    /// Volume and block.
    Sharers(Vec<(u32, u32)>),
    /// Runs of a map, and the first block of the next part.
    Map(Vec<(u32, Vec<Option<Content>>)>, Option<u32>),
    /// The request failed.
    Failed,
}

#[derive(Debug)]
struct Stored {
    hash: Hash,
    bytes: Bytes,
    /// Bits of domains.
    domains: u64,
    sharers: Vec<(u32, u32)>,
    is_marked: bool,
}

#[derive(Debug)]
struct Volume {
    name: String,
    info: VolumeInfo,
    /// One more than the number of a content; 0 is zeroes.
    map: Vec<u32>,
}

/// A store in memory. Volumes are numbered from 1.
#[derive(Debug, Default)]
pub struct MemoryStore {
    volumes: Vec<Volume>,
    /// Contents by number; `None` was swept.
    contents: Vec<Option<Stored>>,
    by_hash: BTreeMap<Hash, u32>,
    /// Durable contents of blocks that were written since their last flush.
    durable: BTreeMap<(u32, u32), u32>,
    /// Room that writes do not get.
    shortage: Option<Shortage>,
}

impl MemoryStore {
    /// Makes a volume of zeroes.
    pub fn create(&mut self, name: &str, blocks: u32, domain: u8) -> u32 {
        assert!(domain < 64 && !name.is_empty(), "a volume has a name and a domain below 64");
        let volume = self.volumes.len() as u32 + 1;
        let read_only = false;
        let (fence, holder, lease) = (0, 0, Nanos(0));
        let info = VolumeInfo { volume, blocks, domain, base: 0, read_only, fence, holder, lease };
        let map = vec![0; blocks as usize];
        self.volumes.push(Volume { name: name.to_string(), info, map });
        volume
    }

    /// Has writes refused from now on that need this room, or none. Contents that are there take no
    /// room of the store, and blocks that have content take none of a logical quota.
    pub fn set_shortage(&mut self, shortage: Option<Shortage>) {
        self.shortage = shortage;
    }

    /// Makes a clone of an image, which must not be written to any more.
    pub fn clone_of(&mut self, base: u32, name: &str) -> u32 {
        let image = &self.volumes[base as usize - 1];
        let (blocks, domain) = (image.info.blocks, image.info.domain);
        let map = image.map.clone();
        let volume = self.create(name, blocks, domain);
        for (block, &word) in map.iter().enumerate().filter(|(_, word)| **word != 0) {
            self.stored(word).sharers.push((volume, block as u32));
        }
        let clone = &mut self.volumes[volume as usize - 1];
        clone.map = map;
        clone.info.base = base;
        volume
    }

    /// Deletes a volume, durably. Requests about it fail from now on; its number never comes again.
    pub fn delete(&mut self, volume: u32) {
        let it = &mut self.volumes[volume as usize - 1];
        it.name.clear();
        let map = std::mem::take(&mut it.map);
        for (block, word) in (0..).zip(map) {
            self.unshare(word, (volume, block));
        }
        self.durable.retain(|(of, _), _| *of != volume);
    }

    /// The number of the volume that a request is about.
    fn volume_of(request: &StoreRequest) -> Option<u32> {
        match request {
            StoreRequest::Fence { volume, .. }
            | StoreRequest::Lookup { volume, .. }
            | StoreRequest::Write { volume, .. }
            | StoreRequest::Flush { volume }
            | StoreRequest::Map { volume, .. } => Some(*volume),
            _ => None,
        }
    }

    fn stored(&mut self, word: u32) -> &mut Stored {
        self.contents[word as usize - 1].as_mut().expect("maps name content that is there")
    }

    fn content(&self, word: u32) -> Option<Content> {
        let number = word.checked_sub(1)?;
        // A map that names swept content is this store's fault; it is told when it is fetched.
        let stored = self.contents[number as usize].as_ref();
        let (hash, shares) = stored.map_or(([0; 32], 0), |s| (s.hash, s.sharers.len() as u32));
        Some(Content { number: number.into(), hash, shares })
    }

    /// Carries out a request at once.
    pub fn perform(&mut self, request: StoreRequest) -> StoreAnswer {
        let volume = MemoryStore::volume_of(&request);
        if volume.is_some_and(|volume| self.volumes[volume as usize - 1].name.is_empty()) {
            met("the store was asked for a volume that is gone");
            return StoreAnswer::Failed;
        }
        match request {
            StoreRequest::Open { name } => {
                let has_name = |volume: &&Volume| !name.is_empty() && volume.name == name;
                let volume = self.volumes.iter().find(has_name);
                StoreAnswer::Volume(volume.map(|volume| volume.info.clone()))
            }
            StoreRequest::Fence { volume, fence, holder, lease } => {
                self.durable.retain(|(of, _), _| *of != volume);
                let info = &mut self.volumes[volume as usize - 1].info;
                (info.fence, info.holder, info.lease) = (fence, holder, lease);
                StoreAnswer::Done
            }
            StoreRequest::Lookup { volume, block, count } => {
                let map = &self.volumes[volume as usize - 1].map;
                let words = &map[block as usize..block as usize + usize::from(count)];
                StoreAnswer::Contents(words.iter().map(|&word| self.content(word)).collect())
            }
            StoreRequest::Fetch { number } => {
                let stored = self.contents[number as usize].as_ref();
                StoreAnswer::Block(stored.map(|stored| stored.bytes.clone()))
            }
            StoreRequest::Write { volume, block, items } => {
                let blocks = (block..).zip(items);
                let write = |(block, item)| self.write(volume, block, item);
                StoreAnswer::Written(blocks.map(write).collect())
            }
            StoreRequest::Flush { volume } => {
                self.durable.retain(|(of, _), _| *of != volume);
                StoreAnswer::Done
            }
            StoreRequest::Sharers { number, volumes, cap } => {
                let stored = self.contents[number as usize].as_ref();
                let sharers = stored.map_or(&[][..], |stored| &stored.sharers);
                let wanted = sharers.iter().filter(|(volume, _)| volumes.contains(volume));
                StoreAnswer::Sharers(wanted.take(cap as usize).copied().collect())
            }
            StoreRequest::Map { volume, base, block, count } => {
                self.map_part(volume, base, block, count)
            }
            StoreRequest::Find { hashes, domains } => {
                let find = |hash: &Hash| {
                    let word = self.by_hash.get(hash).map(|number| number + 1)?;
                    let is_known = self.contents[word as usize - 1].as_ref()?.domains & domains;
                    if is_known != 0 { self.content(word) } else { None }
                };
                StoreAnswer::Contents(hashes.iter().map(find).collect())
            }
        }
    }

    fn map_part(&self, volume: u32, base: bool, block: u32, count: u32) -> StoreAnswer {
        let volume = &self.volumes[volume as usize - 1];
        let image = volume.info.base.checked_sub(1).map(|at| &self.volumes[at as usize].map);
        let Some(image) = image else { return StoreAnswer::Map(Vec::new(), None) };
        let map = if base { image } else { &volume.map };
        let mut runs: Vec<(u32, Vec<Option<Content>>)> = Vec::new();
        let mut told = 0;
        for at in block..volume.info.blocks {
            if told == count {
                return StoreAnswer::Map(runs, Some(at));
            }
            let word = map[at as usize];
            if !base && word == image[at as usize] {
                continue;
            }
            told += 1;
            match runs.last_mut() {
                Some((first, run)) if *first + run.len() as u32 == at => {
                    run.push(self.content(word))
                }
                _ => runs.push((at, vec![self.content(word)])),
            }
        }
        StoreAnswer::Map(runs, None)
    }

    fn write(&mut self, volume: u32, block: u32, item: StoreItem) -> Outcome {
        let domain = 1 << self.volumes[volume as usize - 1].info.domain;
        let known = |number: u32| {
            let stored = self.contents[number as usize].as_ref();
            let is_in_domain = |stored: &&Stored| {
                stored.domains & domain != 0 || mutant("a_domain_is_not_asked_for")
            };
            let word = stored.filter(is_in_domain).map(|_| number + 1);
            met_if(stored.is_some() && word.is_none(), "content is known in another domain only");
            word
        };
        let word = match item {
            StoreItem::Unknown => None,
            StoreItem::Zero => Some(0),
            StoreItem::Number(number) => known(number as u32),
            StoreItem::Hash(hash) => self.by_hash.get(&hash).and_then(|&number| known(number)),
            StoreItem::Data(bytes, hash) => return self.write_data((volume, block), bytes, hash),
        };
        let Some(word) = word else { return Outcome::Unknown };
        match self.shortage.filter(|_| word != 0 && self.grows((volume, block))) {
            Some(shortage) => Outcome::Refused(shortage),
            None => self.set((volume, block), word),
        }
    }

    /// True if the block of a volume whose logical quota is used up has no content yet.
    fn grows(&self, (volume, block): (u32, u32)) -> bool {
        self.shortage == Some(Shortage::Logical)
            && self.volumes[volume as usize - 1].map[block as usize] == 0
    }

    fn write_data(&mut self, place: (u32, u32), bytes: Bytes, hash: Hash) -> Outcome {
        let is_new = !self.by_hash.contains_key(&hash);
        let needs_room = |shortage: &Shortage| match shortage {
            Shortage::Logical => self.grows(place),
            Shortage::Store | Shortage::Physical => is_new,
        };
        if let Some(shortage) = self.shortage.filter(needs_room) {
            return Outcome::Refused(shortage);
        }
        let domain = 1 << self.volumes[place.0 as usize - 1].info.domain;
        let word = self.take_in(bytes, hash, domain);
        self.set(place, word)
    }

    fn set(&mut self, (volume, block): (u32, u32), word: u32) -> Outcome {
        if word != 0 {
            let stored = self.stored(word);
            let was_marked = std::mem::take(&mut stored.is_marked);
            stored.sharers.push((volume, block));
            if was_marked {
                met("a write pinned content that a sweep had marked");
                stored.is_marked = mutant("a_pinned_block_is_swept");
            }
        }
        let old =
            std::mem::replace(&mut self.volumes[volume as usize - 1].map[block as usize], word);
        self.durable.entry((volume, block)).or_insert(old);
        self.unshare(old, (volume, block));
        self.content(word).map_or(Outcome::Zero, Outcome::Written)
    }

    fn unshare(&mut self, word: u32, place: (u32, u32)) {
        let stored = word.checked_sub(1).and_then(|number| self.contents[number as usize].as_mut());
        if let Some(stored) = stored
            && let Some(at) = stored.sharers.iter().position(|sharer| *sharer == place)
        {
            stored.sharers.swap_remove(at);
        }
    }

    fn take_in(&mut self, bytes: Bytes, hash: Hash, domain: u64) -> u32 {
        if let Some(&number) = self.by_hash.get(&hash) {
            self.stored(number + 1).domains |= domain;
            return number + 1;
        }
        let number = self.contents.len() as u32;
        let sharers = Vec::new();
        self.contents.push(Some(Stored {
            hash,
            bytes,
            domains: domain,
            sharers,
            is_marked: false,
        }));
        self.by_hash.insert(hash, number);
        number + 1
    }

    /// Marks contents that no map names, neither now nor after a crash.
    pub fn begin_sweep(&mut self) {
        let durable: BTreeSet<u32> = self.durable.values().copied().collect();
        for (number, stored) in (1..).zip(&mut self.contents) {
            if let Some(stored) = stored {
                stored.is_marked = stored.sharers.is_empty() && !durable.contains(&number);
            }
        }
    }

    /// Drops marked contents that were not written since, and returns their number.
    pub fn finish_sweep(&mut self) -> usize {
        let before = self.by_hash.len();
        for stored in &mut self.contents {
            if stored.as_ref().is_some_and(|stored| stored.is_marked) {
                let stored = stored.take().expect("it is there");
                self.by_hash.remove(&stored.hash);
            }
        }
        before - self.by_hash.len()
    }

    /// Simulates a crash: each unflushed block is old or new afterwards.
    pub fn crash(&mut self, rng: &mut Rng) {
        for ((volume, block), old) in std::mem::take(&mut self.durable) {
            if rng.below(2) == 0 {
                continue;
            }
            met("a crash lost a write that was not flushed");
            let map = &mut self.volumes[volume as usize - 1].map;
            let word = std::mem::replace(&mut map[block as usize], old);
            self.unshare(word, (volume, block));
            if old != 0 {
                self.stored(old).sharers.push((volume, block));
            }
        }
        self.contents.iter_mut().flatten().for_each(|stored| stored.is_marked = false);
    }

    /// Number of contents that no map names, and of entries of maps whose content does not exist.
    /// Both are 0 after a whole sweep with everything flushed.
    pub fn check(&self) -> (usize, usize) {
        let unnamed = self.contents.iter().flatten().filter(|stored| stored.sharers.is_empty());
        let words = self.volumes.iter().flat_map(|volume| &volume.map).filter(|word| **word != 0);
        let missing = words.filter(|word| self.contents[**word as usize - 1].is_none());
        (unnamed.count(), missing.count())
    }
}
