//! Data of the API of a pool, in and out; times are in the unit that ends a name.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A pool at a glance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolStatus {
    /// Seconds since the start.
    pub uptime_seconds: f64,
    /// Scheduler.
    pub scheduler: String,
    /// Tenants.
    pub tenants: Vec<TenantStatus>,
    /// Cards.
    pub cards: Vec<Card>,
    /// Slots.
    pub slots: Vec<Slot>,
    /// Functions.
    pub functions: Vec<FunctionStatus>,
    /// The inside, then the outside.
    pub interfaces: Vec<InterfaceStatus>,
    /// Packets since the start.
    pub packets: Packets,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TenantStatus {
    /// Its name.
    pub name: String,
    /// Networks of its hosts.
    pub networks: Vec<String>,
    /// Addresses that they share outside.
    pub external: Vec<String>,
    /// Functions of its chain, from the inside to the outside.
    pub chain: Vec<String>,
    /// Slots that are kept for it.
    pub slots: Vec<usize>,
}

/// A card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Card {
    /// Its name.
    pub name: String,
    /// Slots that run a function.
    pub running: u32,
    /// Slots.
    pub slots: u32,
    /// True while it is drained: nothing is loaded there.
    pub drained: bool,
}

/// A slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Slot {
    /// Its number.
    pub slot: usize,
    /// Its card.
    pub card: String,
    /// `empty`, `loading`, `running`, `draining` or `failed`.
    pub state: String,
    /// Its function.
    pub function: Option<String>,
    /// Tenant for which it is kept.
    pub tenant: Option<String>,
    /// True if somebody chose its function; otherwise the scheduler does.
    pub chosen: bool,
    /// Shares of tenants' hosts whose packets go through it.
    pub shares: u32,
    /// Flows that its function knows.
    pub flows: usize,
    /// Packets that wait for it.
    pub waiting: usize,
    /// Nanoseconds a packet, measured.
    pub cost_ns: Option<f64>,
    /// Packets that it has processed since the start, whatever it held.
    pub processed: u64,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionStatus {
    /// Its name.
    pub name: String,
    /// Slots that run it.
    pub running: u32,
    /// Slots that an administrator wants; nothing: the scheduler decides.
    pub wanted: Option<usize>,
    /// Packets a second that came for it.
    pub offered_per_s: f64,
    /// Shares whose packets go through the processor for it.
    pub on_processor: u32,
    /// Packets that the processor has processed for it since the start.
    pub processor_processed: u64,
    /// Nanoseconds a packet on the processor, measured.
    pub processor_cost_ns: Option<f64>,
    /// Flows that it knows, on all slots and on the processor.
    pub flows: usize,
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InterfaceStatus {
    /// The interface as it was written.
    pub interface: String,
    /// Packets that came.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets that were sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that the interface did not take.
    pub refused: u64,
    /// Packets whose next hop did not answer.
    pub unanswered: u64,
    /// Packets without a way to their address.
    pub unrouted: u64,
}

/// Packets since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Packets {
    /// Packets that came to the functions.
    pub offered: u64,
    /// Packets that left them.
    pub passed: u64,
    /// Packets of no tenant, or that are no IPv4 packets.
    pub dropped_strangers: u64,
    /// Packets that had made their last hop, or would have left where they came from.
    pub dropped_hops: u64,
    /// Packets that a function dropped.
    pub dropped_by_functions: u64,
    /// Those of them that a rule dropped.
    pub dropped_by_rules: u64,
    /// Packets before full queues, full tables or failed slots, and of tenants without a chain.
    pub lost: u64,
    /// Packets that a rule reported.
    pub alerts: u64,
    /// Mappings that were made.
    pub mappings_made: u64,
    /// Mappings that ended.
    pub mappings_ended: u64,
    /// Hosts that were refused an external port.
    pub ports_exhausted: u64,
    /// Functions that were loaded.
    pub loads: u64,
    /// Slots that failed.
    pub failures: u64,
    /// Shares that moved from one slot to another.
    pub moved: u64,
    /// States that were lost with a slot.
    pub states_lost: u64,
}

/// A second of a pool: growth of its figures. A pool that had no time to end it makes a longer one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolSecond {
    /// Its number since the start.
    pub number: u64,
    /// Packets that came to the functions.
    pub offered: u64,
    /// Packets that left them.
    pub passed: u64,
    /// Packets that functions dropped.
    pub dropped: u64,
    /// Packets before full queues, full tables or failed slots, and of tenants without a chain.
    pub lost: u64,
    /// Bytes that came to both interfaces.
    pub received_bytes: u64,
    /// Functions that were loaded.
    pub loads: u64,
    /// Each slot.
    pub slots: Vec<WorkerSecond>,
    /// The processor, for each function.
    pub processor: Vec<WorkerSecond>,
}

/// A second of a slot, or of the processor for one function.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerSecond {
    /// Its function at the end of the second.
    pub function: Option<String>,
    /// Packets that it processed.
    pub packets: u64,
    /// Share of the second that these took, by the measured cost of a packet: 0 to 1.
    pub load: f64,
}

/// A chain that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewChain {
    /// Functions from the inside to the outside; none: the tenant's packets are dropped.
    pub functions: Vec<String>,
}

/// A number of slots that is wanted for a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCount {
    /// Slots; nothing: the scheduler decides.
    pub slots: Option<usize>,
}

/// A function that is wanted in a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLoad {
    /// Its name; nothing: the scheduler decides.
    pub function: Option<String>,
}

/// A state that is wanted for a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCardState {
    /// True: its slots are emptied, and stay empty.
    pub drained: bool,
}

/// A device profile, in Cyborg's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceProfile {
    /// Its name for the rest of the world.
    pub uuid: String,
    /// Its name.
    pub name: String,
    /// Tenant that made it; none: the administrator.
    #[serde(default)]
    pub tenant: Option<String>,
    /// Words about it.
    #[serde(default)]
    pub description: Option<String>,
    /// Its groups, each of which asks for accelerators.
    pub groups: Vec<std::collections::BTreeMap<String, String>>,
}

/// An accelerator request, in Cyborg's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Its name.
    pub uuid: String,
    /// Tenant whose flows use the slot.
    pub tenant: String,
    /// Its profile's name.
    pub profile: String,
    /// Number of the profile's group.
    pub group: usize,
    /// The function.
    pub function: String,
    /// `Initial`, `BindStarted`, `Bound` or `Unbound`.
    pub state: String,
    /// Its slot, from the binding on.
    #[serde(default)]
    pub slot: Option<usize>,
    /// Host for which it is bound, as its owner says.
    #[serde(default)]
    pub hostname: Option<String>,
    /// Resource provider, as its owner says.
    #[serde(default)]
    pub device_rp_uuid: Option<String>,
    /// Instance that uses it, as its owner says.
    #[serde(default)]
    pub instance_uuid: Option<String>,
}
