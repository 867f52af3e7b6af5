//! Connections that have not shown their key: so many in all, and fewer from one address.
//!
//! Whoever reaches the listener can fill these places with silence; the bound for one address keeps
//! some for others. A party with many addresses can still fill them, for as long as a handshake may
//! take.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An address gets one place in so many.
const SHARE: usize = 8;

/// The places.
pub(crate) struct Strangers {
    most: usize,
    by_address: Mutex<BTreeMap<IpAddr, usize>>,
}

/// A place, until it is dropped.
pub(crate) struct Stranger {
    of: Arc<Strangers>,
    address: IpAddr,
}

impl Strangers {
    /// `most` places, none of them taken.
    pub(crate) fn new(most: usize) -> Arc<Strangers> {
        Arc::new(Strangers { most, by_address: Mutex::default() })
    }

    /// A place for a connection from `address`; `None` when it gets none.
    pub(crate) fn let_wait(self: &Arc<Strangers>, address: IpAddr) -> Option<Stranger> {
        let mut by_address = self.lock();
        let taken: usize = by_address.values().sum();
        let of_address = by_address.get(&address).copied().unwrap_or(0);
        if taken >= self.most || of_address >= (self.most / SHARE).max(1) {
            return None;
        }
        *by_address.entry(address).or_default() += 1;
        Some(Stranger { of: self.clone(), address })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut by_address = self.of.lock();
        let left = by_address.get(&self.address).map_or(0, |count| count.saturating_sub(1));
        match left {
            0 => by_address.remove(&self.address),
            left => by_address.insert(self.address, left),
        };
    }
}

#[cfg(test)]
mod tests;
