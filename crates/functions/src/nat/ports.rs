//! External ports: which are free, which mapping each belongs to, and which hosts own them.
//!
//! For each external address and protocol there is a bit and a mapping's number for each port: 264
//! KiB, made when the first port is given out. A host keeps its external address while it owns
//! ports. It knows hosts and ports, not flows.

use super::Settings;
use super::settings::Allocation;
use crate::table::{Arena, Index, NONE, hash};
use crate::{Event, Protocol};
use std::net::Ipv4Addr;
use thermocline_units::Rng;
use thermocline_units::mutants::mutant;

const PORTS: usize = 1 << 16;

/// Port numbers of one external address and protocol.
#[derive(Debug)]
struct Space {
    used: Vec<u64>,
    mappings: Vec<u32>,
}

impl Space {
    fn new() -> Space {
        Space { used: vec![0; PORTS / 64], mappings: vec![0; PORTS] }
    }

    fn is_used(&self, port: u16) -> bool {
        self.used[usize::from(port) / 64] >> (port % 64) & 1 != 0
    }

    /// The first free port of `first..=last` from `start` on, around the end; `parity`: with this
    /// lowest bit.
    fn find(&self, (first, last): (u16, u16), start: u16, parity: Option<u16>) -> Option<u16> {
        let mask = parity.map_or(u64::MAX, |odd| 0x5555_5555_5555_5555 << odd);
        self.find_up((start, last), mask)
            .or_else(|| (start > first).then(|| self.find_up((first, start - 1), mask))?)
    }

    fn find_up(&self, (first, last): (u16, u16), mask: u64) -> Option<u16> {
        let (low, high) = (usize::from(first) / 64, usize::from(last) / 64);
        (low..=high).find_map(|at| {
            let mut free = !self.used[at] & mask;
            if at == low {
                free &= u64::MAX << (first % 64);
            }
            if at == high {
                free &= u64::MAX >> (63 - last % 64);
            }
            (free != 0).then(|| (at * 64) as u16 + free.trailing_zeros() as u16)
        })
    }
}

#[derive(Debug, Clone, Copy)]
struct Host {
    address: u32,
    ports: u32,
    /// The block that it took last; [`NONE`] without.
    block: u32,
    pool: u16,
    blocks: u16,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    host: u32,
    /// The next block of the host.
    next: u32,
    used: u16,
}

/// A port that a mapping may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) host: u32,
    pub(super) pool: u16,
    pub(super) port: u16,
}

/// Reason why there is no port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No port is free.
    Exhausted,
    /// The host has as many as it may.
    ByHost,
}

/// All external ports.
#[derive(Debug)]
pub(super) struct Ports {
    external: Vec<Ipv4Addr>,
    range: (u16, u16),
    allocation: Allocation,
    host_ports_max: u32,
    spaces: Vec<[Option<Space>; 3]>,
    hosts: Arena<Host>,
    index: Index,
    blocks: Vec<Block>,
    key: u64,
    rng: Rng,
}

impl Ports {
    pub(super) fn new(settings: &Settings) -> Ports {
        let mut rng = Rng::seeded(settings.seed);
        let mut ports = Ports {
            external: settings.external.clone(),
            range: settings.ports,
            allocation: settings.allocation,
            host_ports_max: settings.host_ports_max,
            spaces: settings.external.iter().map(|_| [None, None, None]).collect(),
            hosts: Arena::new(settings.flows_max),
            index: Index::new(settings.flows_max),
            blocks: Vec::new(),
            key: rng.next_u64(),
            rng,
        };
        let blocks = settings.external.len() * ports.blocks_of_pool();
        ports.blocks = vec![Block { host: NONE, next: NONE, used: 0 }; blocks];
        ports
    }

    fn block_ports(&self) -> Option<usize> {
        match self.allocation {
            Allocation::Blocks { ports, .. } => Some(ports.into()),
            Allocation::Preserve | Allocation::Random => None,
        }
    }

    fn blocks_of_pool(&self) -> usize {
        let range = usize::from(self.range.1) - usize::from(self.range.0) + 1;
        self.block_ports().map_or(0, |ports| range / ports)
    }

    pub(super) fn address(&self, pool: u16) -> Ipv4Addr {
        self.external[usize::from(pool)]
    }

    pub(super) fn pool_of(&self, address: Ipv4Addr) -> Option<u16> {
        self.external.iter().position(|&a| a == address).map(|at| at as u16)
    }

    /// The mapping that has a port.
    #[inline]
    pub(super) fn mapping(&self, protocol: Protocol, pool: u16, port: u16) -> Option<u32> {
        let space = self.spaces[usize::from(pool)][protocol as usize].as_ref()?;
        space.mappings[usize::from(port)].checked_sub(1)
    }

    /// Notes which mapping has a port that was granted.
    pub(super) fn assign(&mut self, protocol: Protocol, granted: Granted, mapping: u32) {
        let space = space(&mut self.spaces, granted.pool, protocol);
        space.mappings[usize::from(granted.port)] = mapping + 1;
    }

    fn find_host(&self, address: Ipv4Addr) -> (u32, Option<u32>) {
        let hash = hash(self.key, &[address.to_bits().into()]);
        let is_it = |slot| self.hosts[slot].address == address.to_bits();
        (hash, self.index.find(hash, is_it))
    }

    /// Finds a port for a host's flow from its port `wanted`, and takes it.
    pub(super) fn take(
        &mut self,
        protocol: Protocol,
        address: Ipv4Addr,
        wanted: u16,
        events: &mut Vec<Event>,
    ) -> Result<Granted, Refusal> {
        let (_, host) = self.find_host(address);
        if let Some(host) = host {
            if self.hosts[host].ports >= self.host_ports_max {
                return Err(Refusal::ByHost);
            }
            let pool = self.hosts[host].pool;
            let port = self.choose(protocol, pool, Some(host), wanted)?;
            return Ok(self.grant(protocol, address, pool, port, events));
        }
        if self.host_ports_max == 0 {
            return Err(Refusal::ByHost);
        }
        // A new host begins anywhere among the external addresses that have room for it.
        let pools = self.external.len() as u64;
        let start = self.rng.below(pools);
        for nth in 0..pools {
            let pool = ((start + nth) % pools) as u16;
            if let Ok(port) = self.choose(protocol, pool, None, wanted) {
                return Ok(self.grant(protocol, address, pool, port, events));
            }
        }
        Err(Refusal::Exhausted)
    }

    /// True if this port may be given out here.
    pub(super) fn has(&self, port: u16) -> bool {
        (self.range.0..=self.range.1).contains(&port)
    }

    /// Takes exactly this port for a host; `None` if it, or the host's other ports, do not allow
    /// it.
    pub(super) fn claim(
        &mut self,
        protocol: Protocol,
        address: Ipv4Addr,
        (pool, port): (u16, u16),
        events: &mut Vec<Event>,
    ) -> Option<Granted> {
        let (_, host) = self.find_host(address);
        let elsewhere = host.is_some_and(|host| self.hosts[host].pool != pool);
        let block = self.block_of(pool, port);
        let foreign = block.is_some_and(|block| {
            let owner = self.blocks[block].host;
            owner != NONE && Some(owner) != host
        });
        let is_used = space(&mut self.spaces, pool, protocol).is_used(port);
        if elsewhere || foreign || is_used || !self.has(port) {
            return None;
        }
        Some(self.grant(protocol, address, pool, port, events))
    }

    fn choose(
        &mut self,
        protocol: Protocol,
        pool: u16,
        host: Option<u32>,
        wanted: u16,
    ) -> Result<u16, Refusal> {
        let range = self.range;
        if let Allocation::Blocks { per_host, .. } = self.allocation {
            return self.choose_in_blocks(protocol, pool, host, per_host);
        }
        let width = u64::from(range.1) - u64::from(range.0) + 1;
        let start = range.0 + self.rng.below(width) as u16;
        let space = space(&mut self.spaces, pool, protocol);
        if self.allocation == Allocation::Preserve {
            let is_free = !space.is_used(wanted) || mutant("port_given_twice");
            if (range.0..=range.1).contains(&wanted) && is_free {
                return Ok(wanted);
            }
            if let Some(port) = space.find(range, start, Some(wanted & 1)) {
                return Ok(port);
            }
        }
        space.find(range, start, None).ok_or(Refusal::Exhausted)
    }

    fn choose_in_blocks(
        &mut self,
        protocol: Protocol,
        pool: u16,
        host: Option<u32>,
        per_host: u16,
    ) -> Result<u16, Refusal> {
        let ports = self.block_ports().expect("only called with blocks") as u64;
        let mut block = host.map_or(NONE, |host| self.hosts[host].block);
        while block != NONE {
            let (_, first) = self.place(block as usize);
            let last = first + (ports - 1) as u16;
            let start = first + self.rng.below(ports) as u16;
            let space = space(&mut self.spaces, pool, protocol);
            if let Some(port) = space.find((first, last), start, None) {
                return Ok(port);
            }
            block = self.blocks[block as usize].next;
        }
        if host.is_some_and(|host| self.hosts[host].blocks >= per_host) {
            return Err(Refusal::ByHost);
        }
        let count = self.blocks_of_pool();
        let base = usize::from(pool) * count;
        let start = self.rng.below(count as u64) as usize;
        let free = (0..count).map(|n| base + (start + n) % count);
        let block = free.into_iter().find(|&b| self.blocks[b].host == NONE);
        let (_, first) = self.place(block.ok_or(Refusal::Exhausted)?);
        // Ports in a free block may still be claimed by imported mappings of another protocol.
        let last = first + (ports - 1) as u16;
        let start = first + self.rng.below(ports) as u16;
        let space = space(&mut self.spaces, pool, protocol);
        space.find((first, last), start, None).ok_or(Refusal::Exhausted)
    }

    /// External address and first port of a block.
    fn place(&self, block: usize) -> (u16, u16) {
        let (count, ports) = (self.blocks_of_pool(), self.block_ports().unwrap_or(1));
        ((block / count) as u16, self.range.0 + (block % count * ports) as u16)
    }

    fn block_of(&self, pool: u16, port: u16) -> Option<usize> {
        let ports = self.block_ports()?;
        let within = usize::from(port.checked_sub(self.range.0)?) / ports;
        let count = self.blocks_of_pool();
        (within < count).then(|| usize::from(pool) * count + within)
    }

    fn grant(
        &mut self,
        protocol: Protocol,
        address: Ipv4Addr,
        pool: u16,
        port: u16,
        events: &mut Vec<Event>,
    ) -> Granted {
        let (hash, found) = self.find_host(address);
        let host = found.unwrap_or_else(|| {
            let bits = address.to_bits();
            let new = Host { address: bits, ports: 0, block: NONE, pool, blocks: 0 };
            let host = self.hosts.insert(new).expect("a host has a flow, and flows have room");
            self.index.insert(hash, host);
            host
        });
        self.hosts[host].ports += 1;
        let space = space(&mut self.spaces, pool, protocol);
        assert!(!space.is_used(port) || mutant("port_given_twice"), "a port that is in use");
        space.used[usize::from(port) / 64] |= 1 << (port % 64);
        if let Some(block) = self.block_of(pool, port) {
            if self.blocks[block].host == NONE {
                let next = self.hosts[host].block;
                self.blocks[block] = Block { host, next, used: 0 };
                self.hosts[host].block = block as u32;
                self.hosts[host].blocks += 1;
                let (first, ports) = self.block_event(block);
                events.push(Event::BlockTaken { host: address.into(), first, ports });
            }
            self.blocks[block].used += 1;
        }
        Granted { host, pool, port }
    }

    fn block_event(&self, block: usize) -> ((std::net::IpAddr, u16), u16) {
        let (pool, first) = self.place(block);
        ((self.address(pool).into(), first), self.block_ports().unwrap_or(0) as u16)
    }

    /// Frees a port, with its host's block and the host itself when they were the last.
    pub(super) fn free(&mut self, protocol: Protocol, granted: Granted, events: &mut Vec<Event>) {
        let Granted { host, pool, port } = granted;
        let space = space(&mut self.spaces, pool, protocol);
        space.mappings[usize::from(port)] = 0;
        if !mutant("port_stays_taken") {
            space.used[usize::from(port) / 64] &= !(1 << (port % 64));
        }
        if let Some(block) = self.block_of(pool, port) {
            self.blocks[block].used -= 1;
            if self.blocks[block].used == 0 {
                self.free_block(block, host, events);
            }
        }
        self.hosts[host].ports -= 1;
        if self.hosts[host].ports == 0 {
            let address = self.hosts.remove(host).address;
            self.index.remove(hash(self.key, &[address.into()]), host);
        }
    }

    fn free_block(&mut self, block: usize, host: u32, events: &mut Vec<Event>) {
        let next = self.blocks[block].next;
        if self.hosts[host].block == block as u32 {
            self.hosts[host].block = next;
        } else {
            let mut at = self.hosts[host].block as usize;
            while self.blocks[at].next != block as u32 {
                at = self.blocks[at].next as usize;
            }
            self.blocks[at].next = next;
        }
        self.hosts[host].blocks -= 1;
        self.blocks[block] = Block { host: NONE, next: NONE, used: 0 };
        let address = Ipv4Addr::from_bits(self.hosts[host].address);
        let (first, ports) = self.block_event(block);
        events.push(Event::BlockFreed { host: address.into(), first, ports });
    }

    /// Ports in use, over all addresses and protocols.
    pub(super) fn used(&self) -> usize {
        let spaces = self.spaces.iter().flatten().flatten();
        spaces.flat_map(|space| &space.used).map(|bits| bits.count_ones() as usize).sum()
    }

    /// Hosts that own ports.
    pub(super) fn hosts(&self) -> usize {
        self.hosts.len()
    }

    pub(super) fn memory(&self) -> usize {
        let spaces = self.spaces.iter().flatten().flatten().count();
        spaces * (PORTS / 8 + PORTS * 4)
            + self.hosts.memory()
            + self.index.memory()
            + self.blocks.capacity() * size_of::<Block>()
    }
}

fn space(spaces: &mut [[Option<Space>; 3]], pool: u16, protocol: Protocol) -> &mut Space {
    spaces[usize::from(pool)][protocol as usize].get_or_insert_with(Space::new)
}
