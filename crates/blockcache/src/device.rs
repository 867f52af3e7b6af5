//! A device with a block cache in front of it, or without.

use crate::{BlockCache, Status};
use thermocline_ports::{Completion, Device, Geometry, Io, Ticket};
use thermocline_units::Nanos;

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
        let (main, fast) = match self {
            PoolDevice::Bare(device) => (device, None),
            PoolDevice::Cached(cache) => {
                let (fast, slow) = cache.devices_mut();
                (slow, Some(fast))
            }
        };
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
        match self {
            PoolDevice::Bare(device) => device.submit(now, ticket, io),
            PoolDevice::Cached(cache) => cache.submit(now, ticket, io),
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        match self {
            PoolDevice::Bare(device) => device.poll(now, done),
            PoolDevice::Cached(cache) => cache.poll(now, done),
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        match self {
            PoolDevice::Bare(device) => device.next_event(),
            PoolDevice::Cached(cache) => cache.next_event(),
        }
    }
}
