//! The store behind the server. It reads contents and makes durable when it answers, which is later
//! and in any order. It changes maps at once, or in some seeds when it answers as well; then what
//! must see a write waits for it.

use super::scene::{BLOCKS, bytes_of, hash_of};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use thermocline_hostcache::{
    Hash, MemoryStore, Outcome, Shortage, StoreAnswer, StoreItem, StoreRequest, VolumeInfo,
};
use thermocline_units::Rng;
use thermocline_units::situations::{met, met_if};

type Pending = (u32, Result<StoreAnswer, StoreRequest>);

pub(super) struct Storage {
    store: MemoryStore,
    /// Requests that are not answered yet.
    pending: Vec<Pending>,
    sweeping: bool,
    /// Volumes with their domains: an image, two clones of it, one of another domain, and those
    /// that took the places of deleted ones.
    domains: BTreeMap<u32, u8>,
    /// True if writes take effect late.
    has_slow_writes: bool,
    /// True if reads take so long that a sweep can come in between.
    has_slow_reads: bool,
    /// Random numbers for the times without room; `None`: there is always room.
    shortages: Option<Rng>,
    /// Hashes of the bytes that came in each domain.
    came: [BTreeSet<Hash>; 2],
}

impl Storage {
    /// A store with an image, its clones `a` and `b`, and `other` of the second domain.
    pub(super) fn new(image: &[u8]) -> Storage {
        let mut store = MemoryStore::default();
        let base = store.create("image", BLOCKS, 0);
        let items = image.iter().map(|&value| match value {
            0 => StoreItem::Zero,
            _ => StoreItem::Data(bytes_of(value).into(), hash_of(&bytes_of(value))),
        });
        store.perform(StoreRequest::Write { volume: base, block: 0, items: items.collect() });
        store.clone_of(base, "a");
        store.clone_of(base, "b");
        store.create("other", BLOCKS, 1);
        let domains = BTreeMap::from([(1, 0), (2, 0), (3, 0), (4, 1)]);
        domains.keys().for_each(|&volume| drop(store.perform(StoreRequest::Flush { volume })));
        let came =
            [image.iter().map(|&value| hash_of(&bytes_of(value))).collect(), BTreeSet::new()];
        Storage {
            store,
            pending: Vec::new(),
            sweeping: false,
            domains,
            has_slow_writes: false,
            has_slow_reads: false,
            shortages: None,
            came,
        }
    }

    pub(super) fn draw(&mut self, rng: &mut Rng, more: &mut Rng) {
        self.has_slow_reads = rng.below(5) == 0;
        self.has_slow_writes = more.below(3) == 0;
    }

    /// Says whether the store has no room now and then.
    pub(super) fn draw_shortages(&mut self, mut rng: Rng) {
        self.shortages = (rng.below(3) == 0).then_some(rng);
    }

    /// Begins or ends a time without room, perhaps.
    pub(super) fn fill_or_empty(&mut self) {
        let Some(rng) = &mut self.shortages else { return };
        if rng.below(10) == 0 {
            let kinds = [Shortage::Store, Shortage::Logical, Shortage::Physical];
            let shortage = kinds.get(rng.below(6) as usize).copied();
            self.store.set_shortage(shortage);
        }
    }

    /// Has room from now on.
    pub(super) fn mend(&mut self) {
        self.shortages = None;
        self.store.set_shortage(None);
    }

    /// A volume as the server knows it.
    pub(super) fn info(&mut self, name: &str) -> VolumeInfo {
        match self.store.perform(StoreRequest::Open { name: name.to_string() }) {
            StoreAnswer::Volume(Some(info)) => info,
            other => panic!("{other:?}"),
        }
    }

    /// Deletes a volume.
    pub(super) fn delete(&mut self, info: &VolumeInfo) {
        self.store.delete(info.volume);
        self.domains.remove(&info.volume);
    }

    /// Makes a volume of zeroes like one that was deleted.
    pub(super) fn make_anew(&mut self, name: &str, info: &VolumeInfo) {
        let number = self.store.create(name, info.blocks, info.domain);
        self.domains.insert(number, info.domain);
    }

    /// Takes a request of the server.
    pub(super) fn begin(&mut self, op: u32, request: StoreRequest) {
        let answer = match request {
            StoreRequest::Fetch { .. }
            | StoreRequest::Flush { .. }
            | StoreRequest::Fence { .. } => Err(request),
            StoreRequest::Write { .. } if self.has_slow_writes => Err(request),
            StoreRequest::Lookup { .. } | StoreRequest::Map { .. }
                if self.waits(self.pending.len(), &request) =>
            {
                Err(request)
            }
            request => Ok(self.perform(request)),
        };
        self.pending.push((op, answer));
    }

    /// True if a request must wait for a write that was handed out before it: it is at this place
    /// among those that are not answered.
    fn waits(&self, at: usize, request: &StoreRequest) -> bool {
        let Some((volume, blocks)) = blocks_of(request) else { return false };
        let is_fence = matches!(request, StoreRequest::Fence { .. });
        let earlier = self.pending[..at].iter().filter_map(|(_, earlier)| earlier.as_ref().err());
        let waits =
            earlier.filter(|earlier| is_write(earlier)).filter_map(blocks_of).any(|(of, other)| {
                of == volume && other.start < blocks.end && blocks.start < other.end
            });
        met_if(waits && is_fence, "a fence waited for a write");
        waits
    }

    /// Answers some of the requests, or all of them once the faults have stopped.
    pub(super) fn answer(
        &mut self,
        rng: &mut Rng,
        is_mended: bool,
        mut to: impl FnMut(u32, StoreAnswer),
    ) {
        for _ in 0..self.pending.len() {
            if !is_mended && rng.below(3) == 0 {
                continue;
            }
            let at = rng.below(self.pending.len() as u64) as usize;
            if self.pending[at].1.as_ref().is_err_and(|request| self.waits(at, request)) {
                continue;
            }
            let is_slow_write = self.pending[at].1.as_ref().is_err_and(is_write);
            if is_slow_write && !is_mended && rng.below(60) > 0 {
                continue;
            }
            let is_fetch = matches!(self.pending[at].1, Err(StoreRequest::Fetch { .. }));
            if is_fetch && self.has_slow_reads && !is_mended && rng.below(40) > 0 {
                continue;
            }
            let (op, answer) = self.pending.remove(at);
            to(op, answer.unwrap_or_else(|request| self.perform(request)));
        }
    }

    /// Carries out a request, and checks that content known by its name has come as bytes in the
    /// same domain.
    fn perform(&mut self, request: StoreRequest) -> StoreAnswer {
        let (volume, items) = match &request {
            StoreRequest::Write { volume, items, .. } => (volume, items.clone()),
            StoreRequest::Sharers { .. } => {
                let answer = self.store.perform(request);
                return self.without_writes(answer);
            }
            _ => return self.store.perform(request),
        };
        let Some(&domain) = self.domains.get(volume) else {
            met("a write came to a volume that was deleted");
            return StoreAnswer::Failed;
        };
        let of_domain = &mut self.came[usize::from(domain)];
        let answer = self.store.perform(request);
        let StoreAnswer::Written(outcomes) = &answer else {
            panic!("a write was answered otherwise")
        };
        for (item, outcome) in items.iter().zip(outcomes) {
            let Outcome::Written(content) = outcome else { continue };
            if let StoreItem::Data(_, hash) = item {
                of_domain.insert(*hash);
            }
            assert!(of_domain.contains(&content.hash), "content of another domain was known");
        }
        answer
    }

    /// Sharers without blocks that are being written, whose new content is not known.
    fn without_writes(&self, answer: StoreAnswer) -> StoreAnswer {
        let StoreAnswer::Sharers(mut sharers) = answer else { panic!("{answer:?}") };
        let requests = self.pending.iter().filter_map(|(_, request)| request.as_ref().err());
        let writes: Vec<_> =
            requests.filter(|request| is_write(request)).filter_map(blocks_of).collect();
        let is_written = |(volume, block): &(u32, u32)| {
            writes.iter().any(|(of, blocks)| of == volume && blocks.contains(block))
        };
        sharers.retain(|sharer| !is_written(sharer));
        StoreAnswer::Sharers(sharers)
    }

    /// Simulates the server's death: unflushed writes are lost, block by block.
    pub(super) fn crash(&mut self, rng: &mut Rng) {
        self.pending.clear();
        self.store.crash(rng);
        self.sweeping = false;
    }

    /// Runs half a sweep.
    pub(super) fn sweep(&mut self) {
        if self.sweeping {
            if self.store.finish_sweep() > 0 {
                met("a sweep dropped content");
            }
        } else {
            self.store.begin_sweep();
        }
        self.sweeping = !self.sweeping;
    }

    /// Checks that after a sweep there is no garbage, and nothing is missing.
    pub(super) fn check(&mut self) {
        for &volume in self.domains.keys() {
            self.store.perform(StoreRequest::Flush { volume });
        }
        self.store.begin_sweep();
        self.store.finish_sweep();
        assert_eq!(self.store.check(), (0, 0), "content is left over or missing");
    }
}

fn is_write(request: &StoreRequest) -> bool {
    matches!(request, StoreRequest::Write { .. })
}

/// Blocks that a request changes, or whose changes it must see.
fn blocks_of(request: &StoreRequest) -> Option<(u32, Range<u32>)> {
    match request {
        StoreRequest::Write { volume, block, items } => {
            Some((*volume, *block..*block + items.len() as u32))
        }
        StoreRequest::Lookup { volume, block, count } => {
            Some((*volume, *block..*block + u32::from(*count)))
        }
        StoreRequest::Map { volume, .. } | StoreRequest::Fence { volume, .. } => {
            Some((*volume, 0..u32::MAX))
        }
        _ => None,
    }
}
