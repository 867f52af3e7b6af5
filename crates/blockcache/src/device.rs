//! A device with a block cache in front of it, or without.

use crate::{BlockCache, Status};
use thermocline_ports::{Completion, Device, Geometry, Io, Ticket};
use thermocline_units::{Bytes, Nanos};

/// The device below a pool.
pub enum PoolDevice<D> {
    /// The device itself.
    Bare(D),
    /// A slow device behind a cache on a fast one.
    Cached(Box<BlockCache<D, D>>),
}

impl<D: Device> PoolDevice<D> {
    /// The device that the pool is named after: behind the cache, if there is one.
    pub fn main(&self) -> &D {
        match self {
            PoolDevice::Bare(device) => device,
            PoolDevice::Cached(cache) => cache.origin(),
        }
    }

    /// The fast device of the cache.
    pub fn fast(&self) -> Option<&D> {
        match self {
            PoolDevice::Bare(_) => None,
            PoolDevice::Cached(cache) => Some(cache.cache()),
        }
    }

    /// All devices: the main one, and the cache's.
    pub fn devices(&self) -> impl Iterator<Item = &D> {
        std::iter::once(self.main()).chain(self.fast())
    }

    /// The same, to wait for them; requests there are the cache's business.
    pub fn devices_mut(&mut self) -> impl Iterator<Item = &mut D> {
        let size = self.geometry().size;
        let (main, fast) = match self {
            PoolDevice::Bare(device) => (device, None),
            PoolDevice::Cached(cache) => {
                let (fast, slow) = cache.devices_mut();
                (slow, Some(fast))
            }
        };
        debug_assert!(main.geometry().size >= size, "the main device holds what the pool offers");
        std::iter::once(main).chain(fast)
    }

    /// Status of the cache.
    pub fn cache_status(&self) -> Option<Status> {
        match self {
            PoolDevice::Bare(_) => None,
            PoolDevice::Cached(cache) => Some(cache.status()),
        }
    }
}

impl<D: Device> Device for PoolDevice<D> {
    fn geometry(&self) -> Geometry {
        match self {
            PoolDevice::Bare(device) => device.geometry(),
            PoolDevice::Cached(cache) => cache.geometry(),
        }
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        debug_assert!(ends_within(&io, self.geometry().size), "the request ends within the device");
        match self {
            PoolDevice::Bare(device) => device.submit(now, ticket, io),
            PoolDevice::Cached(cache) => cache.submit(now, ticket, io),
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        let before = done.len();
        match self {
            PoolDevice::Bare(device) => device.poll(now, done),
            PoolDevice::Cached(cache) => cache.poll(now, done),
        }
        assert!(done.len() >= before, "answers are added to those that wait, and none is taken");
    }

    fn next_event(&self) -> Option<Nanos> {
        match self {
            PoolDevice::Bare(device) => device.next_event(),
            PoolDevice::Cached(cache) => cache.next_event(),
        }
    }
}

/// True if a request touches nothing behind `size`.
fn ends_within(io: &Io, size: Bytes) -> bool {
    let end = |(offset, length): (Bytes, Bytes)| offset.0.checked_add(length.0);
    io.range().is_none_or(|range| end(range).is_some_and(|end| end <= size.0))
}
