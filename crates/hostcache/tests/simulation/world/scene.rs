//! Random choices of a seed at its beginning: clocks, sizes, settings, the image.

use thermocline_hostcache::{
    Agent, AgentSettings, BLOCK_BYTES, FlashSettings, Hash, HostId, Protocol, ServerSettings,
};
use thermocline_units::{Nanos, Rng};

pub(super) const HOSTS: usize = 3;
pub(super) const BLOCKS: u32 = 24;
/// Durations of leases, of which each run of the server has one.
const LEASES: [Nanos; 4] =
    [Nanos::from_secs(1), Nanos::from_secs(1), Nanos::from_micros(300_000), Nanos::from_secs(3)];

pub(super) fn bytes_of(value: u8) -> Vec<u8> {
    vec![value; BLOCK_BYTES]
}

pub(super) fn hash_of(bytes: &[u8]) -> Hash {
    let mut state = [1_u64, 2, 3, 4];
    for (at, word) in bytes.chunks_exact(8).enumerate() {
        let word = u64::from_le_bytes(word.try_into().unwrap());
        let lane = &mut state[at % 4];
        *lane = (*lane ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    let mut hash = [0; 32];
    hash.chunks_exact_mut(8).zip(state).for_each(|(out, word)| {
        out.copy_from_slice(&word.to_le_bytes());
    });
    hash
}

/// A clock that runs a little wrong.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    ahead: u64,
    rate: f64,
}

impl Clock {
    pub(super) fn drawn(rng: &mut Rng) -> Clock {
        Clock { ahead: rng.below(1 << 40), rate: 0.98 + rng.unit_f64() * 0.04 }
    }

    pub(super) fn at(self, now: Nanos) -> Nanos {
        Nanos(self.ahead + (now.0 as f64 * self.rate) as u64)
    }
}

/// Sizes of caches and tables.
pub(super) struct Sizes {
    agent_blocks: u32,
    server_blocks: u32,
    places_min: usize,
    unflushed_bytes: u64,
}

impl Sizes {
    pub(super) fn drawn(rng: &mut Rng) -> Sizes {
        Sizes {
            agent_blocks: one(rng, &[2, 5, 40]),
            server_blocks: one(rng, &[1, 6, 40]),
            places_min: one(rng, &[1, 6, 1000]) as usize,
            unflushed_bytes: u64::from(one(rng, &[4, 1000])) * BLOCK_BYTES as u64,
        }
    }
}

fn one(rng: &mut Rng, of: &[u32]) -> u32 {
    of[rng.below(of.len() as u64) as usize]
}

/// Settings of hosts and of the server.
pub(super) struct Scene {
    pub(super) protocol: Protocol,
    /// Contents beside zeroes that guests write.
    pub(super) values: u64,
    lookup: &'static str,
    sizes: Sizes,
    cache_policy: &'static str,
    hash_first_always: bool,
    flash: Option<FlashSettings>,
    versions_max: u32,
}

impl Scene {
    pub(super) fn protocol(rng: &mut Rng) -> Protocol {
        let protocols = [6, 7, 7, 4, 3, 2, 5, 1, 0, 6];
        Protocol::ALL[protocols[rng.below(10) as usize]].1
    }

    /// Number of contents beside zeroes, and those of the image's blocks.
    pub(super) fn image(rng: &mut Rng) -> (u64, Vec<u8>) {
        let values = u64::from(one(rng, &[4, 9, 200]));
        (values, (0..BLOCKS).map(|_| rng.below(values + 1) as u8).collect())
    }

    pub(super) fn drawn(rng: &mut Rng, protocol: Protocol, sizes: Sizes, values: u64) -> Scene {
        let lookups = ["by-load", "peers-first", "server-first", "peers-first:from-peers=pass"];
        let policies = ["lru", "elru:n=4", "s3-fifo", "larc+lru"];
        Scene {
            protocol,
            values,
            sizes,
            lookup: lookups[rng.below(4) as usize],
            cache_policy: policies[rng.below(4) as usize],
            hash_first_always: rng.below(3) > 0,
            flash: None,
            versions_max: 1 << 16,
        }
    }

    /// Room for versions of written blocks: most seeds have too little.
    pub(super) fn draw_versions(&mut self, rng: &mut Rng) {
        self.versions_max = one(rng, &[0, 2, 5, 1 << 16]);
    }

    /// Second levels of hosts, in half of the seeds.
    pub(super) fn draw_flash(&mut self, rng: &mut Rng) {
        let policies = ["fifo", "lru", "s3-fifo", "larc+lru"];
        let policy = policies[rng.below(4) as usize].to_string();
        let blocks = one(rng, &[2, 6, 30]);
        self.flash = (rng.below(2) == 0).then_some(FlashSettings { blocks, policy });
    }

    /// The agent of a host that begins to run.
    pub(super) fn agent(&self, host: usize, seed: u64) -> Agent {
        let mut settings = AgentSettings::new(hash_of, HostId(host as u16), seed);
        settings.protocol = self.protocol;
        settings.cache_blocks = self.sizes.agent_blocks;
        settings.cache_policy = self.cache_policy.to_string();
        settings.lookup = self.lookup.to_string();
        settings.hash_first_always = self.hash_first_always;
        settings.peer_within = Nanos::from_micros(40_000);
        settings.answer_within = Nanos::from_secs(4);
        settings.unflushed_bytes_max = self.sizes.unflushed_bytes;
        settings.flash.clone_from(&self.flash);
        settings.versions_max = self.versions_max;
        Agent::new(settings).expect("the settings fit")
    }

    /// Settings of a server's run; `lease` chooses the duration of its leases.
    pub(super) fn server(&self, run: u16, seed: u64, lease: u64) -> ServerSettings {
        let mut settings = ServerSettings::new(hash_of, run, seed);
        settings.protocol = self.protocol;
        settings.lookup = self.lookup.to_string();
        settings.memory_blocks = self.sizes.server_blocks;
        settings.places_min = self.sizes.places_min;
        settings.lease = LEASES[lease as usize % LEASES.len()];
        settings.link_bytes_per_s = 1_000_000;
        settings
    }
}
