//! The store behind the server. It changes maps at once, in order. It reads and makes durable when
//! it answers, which is later and in any order.

use super::scene::{BLOCKS, bytes_of, hash_of};
use std::collections::BTreeSet;
use thermocline_hostcache::{Hash, MemoryStore, StoreAnswer, StoreItem, StoreRequest};
use thermocline_units::Rng;
use thermocline_units::situations::met;

/// Volumes: an image, two clones of it, one of another domain.
const VOLUMES: u32 = 4;

pub(super) struct Storage {
    store: MemoryStore,
    /// Requests that are not answered yet.
    pending: Vec<(u32, Result<StoreAnswer, StoreRequest>)>,
    sweeping: bool,
    /// True if reads take so long that a sweep can come in between.
    has_slow_reads: bool,
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
        (1..=VOLUMES).for_each(|volume| drop(store.perform(StoreRequest::Flush { volume })));
        let came =
            [image.iter().map(|&value| hash_of(&bytes_of(value))).collect(), BTreeSet::new()];
        Storage { store, pending: Vec::new(), sweeping: false, has_slow_reads: false, came }
    }

    pub(super) fn draw(&mut self, rng: &mut Rng) {
        self.has_slow_reads = rng.below(5) == 0;
    }

    /// Takes a request of the server.
    pub(super) fn begin(&mut self, op: u32, request: StoreRequest) {
        let answer = match request {
            StoreRequest::Fetch { .. }
            | StoreRequest::Flush { .. }
            | StoreRequest::Fence { .. } => Err(request),
            request => Ok(self.perform(request)),
        };
        self.pending.push((op, answer));
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
            let is_fetch = matches!(self.pending[at].1, Err(StoreRequest::Fetch { .. }));
            if is_fetch && self.has_slow_reads && !is_mended && rng.below(40) > 0 {
                continue;
            }
            let (op, answer) = self.pending.swap_remove(at);
            to(op, answer.unwrap_or_else(|request| self.store.perform(request)));
        }
    }

    /// Carries out a request, and checks that content known by its name has come as bytes in the
    /// same domain.
    fn perform(&mut self, request: StoreRequest) -> StoreAnswer {
        let StoreRequest::Write { volume, items, .. } = &request else {
            return self.store.perform(request);
        };
        let of_domain = &mut self.came[usize::from(*volume == VOLUMES)];
        for item in items {
            if let StoreItem::Data(_, hash) = item {
                of_domain.insert(*hash);
            }
        }
        let answer = self.store.perform(request);
        let StoreAnswer::Written(contents) = &answer else {
            panic!("a write was answered otherwise")
        };
        for content in contents.iter().flatten().flatten() {
            assert!(of_domain.contains(&content.hash), "content of another domain was known");
        }
        answer
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
        for volume in 1..=VOLUMES {
            self.store.perform(StoreRequest::Flush { volume });
        }
        self.store.begin_sweep();
        self.store.finish_sweep();
        assert_eq!(self.store.check(), (0, 0), "content is left over or missing");
    }
}
