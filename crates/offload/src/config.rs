//! Settings of a live pool: plain data.

use std::net::Ipv4Addr;
use std::path::PathBuf;

/// The longest name of a tenant or a card, bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Network functions by name, in the order of their numbers.
pub const FUNCTIONS: [&str; 2] = ["nat", "dpi"];
/// Scheduler of a pool whose configuration names none. A slot is a thread here, no faster than the
/// pool's own, and the way there takes a packet longer than its work does. So a slot is only given
/// where it relieves the pool's thread.
pub const SCHEDULER: &str = "by-cost:from=0.2";
/// External ports are given out from this one on.
pub(crate) const FIRST_PORT: u16 = 1024;
/// Slots of all cards.
pub const SLOTS_MAX: usize = 64;
/// Tenants.
pub const TENANTS_MAX: usize = 256;

/// A network: an address and the length of its prefix.
pub type Network = (Ipv4Addr, u8);

/// One of the two sides that packets come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideConfig {
    /// The interface: `packet:NAME` or `tun:NAME`.
    pub interface: String,
    /// Address of the pool there, and its network; needed on Ethernet.
    pub address: Option<Network>,
    /// Router for addresses outside that network.
    pub gateway: Option<Ipv4Addr>,
}

/// A tenant: whose packets they are, and what becomes of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantConfig {
    /// Its name.
    pub name: String,
    /// Networks of its hosts, on the inside.
    pub networks: Vec<Network>,
    /// Addresses that its hosts share outside; none: it has no NAT.
    pub external: Vec<Ipv4Addr>,
    /// Functions of its chain, from the inside to the outside.
    pub chain: Vec<String>,
    /// Token by which it asks for slots; none: it cannot.
    pub token: Option<String>,
    /// Slots that its requests may have at a time; [`SLOTS_MAX`]: all.
    pub slots_max: usize,
}

/// A card: slots that are threads of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardConfig {
    /// Its name.
    pub name: String,
    /// Its slots.
    pub slots: usize,
}

/// Rules of the inspection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Name of their file, for messages.
    pub file: String,
    /// Their text.
    pub text: String,
}

/// A live pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    /// The side of the tenants' hosts.
    pub inside: SideConfig,
    /// The rest of the world.
    pub outside: SideConfig,
    /// Tenants.
    pub tenants: Vec<TenantConfig>,
    /// Cards.
    pub cards: Vec<CardConfig>,
    /// Scheduler, by its name in the registry.
    pub scheduler: String,
    /// Parts into which the hosts of a tenant are divided; each is at one slot at a time, and has
    /// its own part of the external ports.
    pub shares: u32,
    /// Flows of a function and a tenant.
    pub flows_max: usize,
    /// Rules of the inspection; none: `dpi` lets everything pass.
    pub rules: Option<Rules>,
    /// Folder for what survives a restart.
    pub state: PathBuf,
}
