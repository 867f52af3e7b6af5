//! Count of each client's connections, so that none can have them all.
//!
//! A client is an IPv4 address, or the upper 64 bits of an IPv6 address, which is what one
//! customer of a network gets. State: 40 B a client that is connected.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Connections by client.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    clients: Mutex<BTreeMap<IpAddr, usize>>,
}

/// A connection of a client, while it is there.
pub(super) struct Member {
    crowd: Arc<Crowd>,
    client: IpAddr,
}

/// Bits of an IPv6 address that tell clients apart.
const PREFIX: u128 = !0 << 64;

fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & PREFIX)),
        address => address,
    }
}

impl Crowd {
    /// Counts a connection; `None` when its client has `most` already.
    pub(super) fn join(self: &Arc<Crowd>, address: IpAddr, most: usize) -> Option<Member> {
        let client = client_of(address);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let count = clients.entry(client).or_insert(0);
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Member { crowd: self.clone(), client })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut clients = self.crowd.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = clients.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests;
