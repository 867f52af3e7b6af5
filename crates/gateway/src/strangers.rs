//! Connections that have not shown their key: so many in all, and fewer from one address.
//!
//! Whoever reaches the listener can fill these places with silence. So
//!
//! 1. one address (of IPv6: one network of 64 bits) gets an eighth of them;
//! 2. addresses from which a key was shown before have places of their own;
//! 3. when all are taken, who has waited longest goes, if that was long enough for a handshake.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// An address gets one place in so many.
const SHARE: usize = 8;
/// Known addresses have one place more for so many others.
const KNOWN_SHARE: usize = 4;
/// Addresses that are remembered.
const KNOWN_MAX: usize = 1024;
/// Time that everybody has for a handshake, however many wait.
const GRACE: Duration = Duration::from_secs(1);

struct Waiting {
    number: u64,
    address: IpAddr,
    since: Instant,
    must_go: Arc<Notify>,
}

#[derive(Default)]
struct State {
    /// Oldest first.
    waiting: VecDeque<Waiting>,
    next: u64,
    /// Addresses where keys were shown, the last ones at the end.
    known: VecDeque<IpAddr>,
}

/// The places.
pub struct Strangers {
    most: usize,
    state: Mutex<State>,
}

/// A place, until it is dropped.
pub struct Stranger {
    of: Arc<Strangers>,
    number: u64,
    address: IpAddr,
    must_go: Arc<Notify>,
}

/// The network that counts as one address.
fn whole(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        address @ IpAddr::V4(_) => address,
    }
}

impl Strangers {
    /// `most` places, none of them taken.
    pub fn new(most: usize) -> Arc<Strangers> {
        Arc::new(Strangers { most, state: Mutex::default() })
    }

    /// A place for a connection from `address`; `None` when it gets none.
    pub fn let_wait(self: &Arc<Strangers>, address: IpAddr, now: Instant) -> Option<Stranger> {
        let address = whole(address);
        let mut state = self.lock();
        let of_address = state.waiting.iter().filter(|other| other.address == address).count();
        if of_address >= (self.most / SHARE).max(1) {
            // Whoever has silent connections open is not kept out by them for long.
            state.make_way(now, |other| other.address == address)?;
        } else if state.waiting.len() >= self.most {
            let has_own = state.known.contains(&address)
                && state.waiting.len() < self.most + self.most.div_ceil(KNOWN_SHARE);
            if !has_own {
                state.make_way(now, |_| true)?;
            }
        }
        let (number, must_go) = (state.next, Arc::new(Notify::new()));
        state.next += 1;
        let since = now;
        state.waiting.push_back(Waiting { number, address, since, must_go: must_go.clone() });
        Some(Stranger { of: self.clone(), number, address, must_go })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Has the oldest of these go, if it has waited long enough.
    fn make_way(&mut self, now: Instant, of: impl Fn(&Waiting) -> bool) -> Option<()> {
        let at = self.waiting.iter().position(of)?;
        if now.saturating_duration_since(self.waiting[at].since) < GRACE {
            return None;
        }
        self.waiting.remove(at)?.must_go.notify_one();
        Some(())
    }
}

impl Stranger {
    /// Waits until another one needs the place more.
    pub async fn must_go(&self) {
        self.must_go.notified().await;
    }

    /// Takes note that it has shown its key: its address has places of its own from now on.
    pub fn is_known(&self) {
        let mut state = self.of.lock();
        state.known.retain(|known| *known != self.address);
        state.known.push_back(self.address);
        if state.known.len() > KNOWN_MAX {
            state.known.pop_front();
        }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.of.lock().waiting.retain(|waiting| waiting.number != self.number);
    }
}

#[cfg(test)]
mod tests;
