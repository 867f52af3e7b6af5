//! Placement of writes on a drive-managed shingled disk.
//!
//! 1. A write that begins a band, or continues the write before it, streams to its home.
//! 2. Any other write is appended to a persistent cache, a log at the outer edge.
//! 3. When the cache is full, a write waits until the bands whose cached data is oldest have been
//!    rewritten, one by one, and it fits.
//! 4. After some idle time bands are rewritten until a request comes.
//!
//! After Skylight (Aghayev and Desnoyers, FAST '15). We differ: reads of cached data cost what
//! they cost at home, and a band's cached data is fetched in one go.
//! State: 60 B a band with cached data.

use super::profile::Shingles;
use std::collections::{BTreeMap, VecDeque};
use thermocline_units::{Bytes, Nanos};

/// The destination of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Write to its own address.
    Home,
    /// Write to the cache at `at`, after rewriting `bands` bands.
    Cache { at: u64, bands: u32 },
}

/// A band to rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Band {
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Bytes of it in the cache.
    pub(super) cached: u64,
}

#[derive(Debug)]
pub(super) struct ShingleModel {
    band: u64,
    capacity: u64,
    idle_after: u64,
    size: u64,
    /// Cached bytes by band.
    dirty: BTreeMap<u64, u64>,
    /// Dirty bands, oldest first.
    order: VecDeque<u64>,
    used: u64,
    /// Position at which the log goes on.
    log: u64,
    /// End of the last write.
    stream: u64,
    /// Until when an idle disk has been cleaning already.
    cleaned_until: Nanos,
}

impl ShingleModel {
    pub(super) fn new(profile: &Shingles, size: Bytes) -> ShingleModel {
        ShingleModel {
            band: profile.band.0,
            capacity: profile.cache.0.min(size.0),
            idle_after: profile.idle_after.0,
            size: size.0,
            dirty: BTreeMap::new(),
            order: VecDeque::new(),
            used: 0,
            log: 0,
            stream: u64::MAX,
            cleaned_until: Nanos(0),
        }
    }

    /// Decides where a write goes, and books it.
    pub(super) fn place(&mut self, offset: u64, length: u64) -> Place {
        let streams = offset == self.stream || offset.is_multiple_of(self.band);
        self.stream = offset + length;
        if streams || length > self.capacity {
            return Place::Home;
        }
        let bands = self.bands_until_fits(length);
        if self.log + length > self.capacity {
            self.log = 0;
        }
        let at = self.log;
        self.log += length;
        self.used += length;
        let band = offset / self.band;
        *self.dirty.entry(band).or_insert_with(|| {
            self.order.push_back(band);
            0
        }) += length;
        Place::Cache { at, bands }
    }

    /// Number of bands to rewrite before `length` more bytes fit.
    fn bands_until_fits(&self, length: u64) -> u32 {
        let mut used = self.used;
        let mut bands = 0;
        while used + length > self.capacity {
            used -= self.dirty[&self.order[bands as usize]];
            bands += 1;
        }
        bands
    }

    /// Takes the band whose first cached write is oldest.
    pub(super) fn take_oldest(&mut self) -> Option<Band> {
        let band = self.order.pop_front()?;
        let cached = self.dirty.remove(&band).expect("ordered bands are dirty");
        self.used -= cached;
        let offset = band * self.band;
        Some(Band { offset, length: self.band.min(self.size - offset), cached })
    }

    /// Time at which a disk that is idle since `free` would rewrite a band; `None` without cached
    /// data.
    pub(super) fn idle_start(&self, free: Nanos) -> Option<Nanos> {
        let wait = if free == self.cleaned_until { 0 } else { self.idle_after };
        (!self.order.is_empty()).then_some(Nanos(free.0 + wait))
    }

    /// The disk has been cleaning, unasked, until `end`.
    pub(super) fn cleaned_until(&mut self, end: Nanos) {
        self.cleaned_until = end;
    }
}
