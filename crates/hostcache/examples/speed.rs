//! Cost of a hit in time, and of a cached block in memory beside its bytes.
//!
//! `cargo run --release -p thermocline-hostcache --example speed`
//!
//! 1. An agent with a volume whose map it knows holds 262,144 blocks of 4 KiB (1 GiB); one core
//!    reads them at random through `read_cached`, and copies each to a buffer of its own, as a
//!    client's reply would be.
//! 2. The same with 4,096 blocks (16 MiB), and through `read` in requests of one block.
//! 3. Memory beside the bytes: of the agent for a cached block, of the server for a tracked one,
//!    from the sizes of what they hold.
//!
//! Times are of the process (user and system), so that others on the machine count little.

// A program that measures and reports, not a decision.
#![allow(clippy::print_stdout, clippy::disallowed_types, clippy::disallowed_macros)]

use thermocline_hostcache::{
    Agent, AgentSettings, BLOCK_BYTES, Event, Hash, HostId, MemoryStore, Protocol, Server,
    ServerSettings, StoreItem, StoreRequest, VolumeKey,
};
use thermocline_units::{Nanos, Rng};

const NOW: Nanos = Nanos(1);

fn hash_of(bytes: &[u8]) -> Hash {
    let mut hash = [0; 32];
    hash[..32].copy_from_slice(&bytes[..32]);
    hash
}

fn block_of(number: u64) -> Vec<u8> {
    let mut rng = Rng::seeded(number);
    let words = (0..BLOCK_BYTES / 8).flat_map(|_| rng.next_u64().to_le_bytes());
    words.collect()
}

/// Processor time of this process, seconds.
fn spent() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("the program sets it up so");
    let fields: Vec<&str> =
        stat.rsplit(')').next().expect("the program sets it up so").split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().expect("the program sets it up so")
        + fields[12].parse::<u64>().expect("the program sets it up so");
    ticks as f64 / 100.0
}

/// An agent and a server, without bytes between them, and a volume of so many blocks.
struct Pair {
    server: Server,
    store: MemoryStore,
    agent: Agent,
    volume: VolumeKey,
}

impl Pair {
    fn new(blocks: u32, policy: &str) -> Pair {
        let mut settings = ServerSettings::new(hash_of, 1, 7);
        settings.memory_blocks = 1;
        let server = Server::new(settings, NOW).expect("the program sets it up so");
        let mut settings = AgentSettings::new(hash_of, HostId(1), 7);
        (settings.cache_blocks, settings.cache_policy) = (blocks, policy.to_string());
        let mut store = MemoryStore::default();
        let base = store.create("image", blocks, 0);
        for block in 0..blocks {
            let bytes = block_of(u64::from(block) + 1);
            let hash = hash_of(&bytes);
            let items = vec![StoreItem::Data(bytes.into(), hash)];
            store.perform(StoreRequest::Write { volume: base, block, items });
        }
        store.clone_of(base, "guest");
        let mut pair = Pair {
            server,
            store,
            agent: Agent::new(settings).expect("the program sets it up so"),
            volume: VolumeKey(0),
        };
        pair.server.joined(HostId(1), 1).expect("the program sets it up so");
        pair.agent.connected(NOW);
        pair.volume = pair.agent.attach(NOW, "guest");
        pair.exchange();
        pair
    }

    fn exchange(&mut self) {
        loop {
            let mut is_quiet = true;
            while let Some(message) = self.agent.next_message() {
                self.server.hear(NOW, HostId(1), message).expect("the program sets it up so");
                is_quiet = false;
            }
            while let Some((op, request)) = self.server.next_store_request() {
                let answer = self.store.perform(request);
                self.server.stored(NOW, op, answer);
                is_quiet = false;
            }
            while let Some((_, message)) = self.server.next_message() {
                self.agent.hear(NOW, message).expect("the program sets it up so");
                is_quiet = false;
            }
            if is_quiet {
                return;
            }
        }
    }

    fn fill(&mut self, blocks: u32) {
        for block in (0..blocks).step_by(64) {
            self.agent.read(NOW, self.volume, block, 64).expect("the program sets it up so");
            self.exchange();
            while let Some(event) = self.agent.next_event() {
                if let Event::Read { bytes, .. } = event {
                    assert_eq!(bytes[..BLOCK_BYTES], block_of(u64::from(block) + 1)[..]);
                }
            }
        }
    }
}

fn hits(pair: &mut Pair, blocks: u32, count: u32) -> f64 {
    let mut rng = Rng::seeded(3);
    let mut reply = vec![0; 64 * BLOCK_BYTES];
    let began = spent();
    for at in 0..count as usize {
        let block = rng.below(u64::from(blocks)) as u32;
        let bytes = pair.agent.read_cached(NOW, pair.volume, block).expect("it is cached");
        let from = at % 64 * BLOCK_BYTES;
        reply[from..from + BLOCK_BYTES].copy_from_slice(bytes);
    }
    assert!(reply.iter().any(|byte| *byte != 0), "bytes were copied");
    f64::from(count) / (spent() - began)
}

fn requests(pair: &mut Pair, blocks: u32, count: u32) -> f64 {
    let mut rng = Rng::seeded(4);
    let began = spent();
    for _ in 0..count {
        let block = rng.below(u64::from(blocks)) as u32;
        pair.agent.read(NOW, pair.volume, block, 1).expect("the program sets it up so");
        assert!(matches!(pair.agent.next_event(), Some(Event::Read { .. })), "a hit is answered");
    }
    f64::from(count) / (spent() - began)
}

fn main() {
    assert_eq!(Protocol::ALL.len(), 8, "the default is one of them");
    for (blocks, count) in [(4096, 4_000_000), (262_144, 4_000_000)] {
        for policy in ["lru", "elru", "s3-fifo"] {
            let mut pair = Pair::new(blocks, policy);
            pair.fill(blocks);
            let rates: Vec<String> =
                (0..3).map(|_| format!("{:.2}", hits(&mut pair, blocks, count) / 1e6)).collect();
            let asked = requests(&mut pair, blocks, count / 4) / 1e6;
            let (cached, known, beside, maps) = pair.agent.memory();
            let (tracked, places) = pair.server.tracker_bytes();
            println!(
                "{blocks} blocks, {policy}: hits {} million/s; as requests {asked:.2}; agent {:.1} \
                 B a cached block ({cached} cached, {known} known), maps {:.1} B; server {:.1} B a \
                 tracked content",
                rates.join(" "),
                beside as f64 / f64::from(cached),
                maps as f64 / f64::from(cached),
                tracked as f64 / places as f64,
            );
        }
    }
}
