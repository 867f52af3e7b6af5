//! Data types of the API of a storage server and of a host's agent. Plain data; sizes are bytes.

use serde::{Deserialize, Serialize};
use thermocline_admin::past::Totals;
use utoipa::ToSchema;

/// A storage server at a glance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StoreStatus {
    /// Its device.
    pub device: String,
    /// Address where hosts come in.
    pub listen: String,
    /// Protocol: what is done to send less.
    pub protocol: String,
    /// Seconds since the start.
    pub uptime_seconds: f64,
    /// Bytes of blocks that it can hold.
    pub capacity_bytes: u64,
    /// Bytes of blocks that it holds.
    pub stored_bytes: u64,
    /// Those of them that no volume has any more, and that `gc` frees.
    pub unreferenced_bytes: u64,
    /// Bytes that volumes hold together, each block counted in each volume.
    pub mapped_bytes: u64,
    /// Blocks that were stored since the start.
    pub new_blocks: u64,
    /// Blocks of writes that were stored already, since the start.
    pub deduplicated_blocks: u64,
    /// Blocks that had another hash than the one under which they were stored.
    pub damaged_blocks: u64,
    /// Blocks that hosts were told by number alone, because they had them.
    pub blocks_by_id: u64,
    /// Blocks whose bytes were sent to hosts.
    pub blocks_by_bytes: u64,
    /// Blocks that hosts got from other hosts.
    pub blocks_by_peer: u64,
    /// Written blocks that were known, and whose bytes were not sent.
    pub known_writes: u64,
    /// Written blocks whose bytes came.
    pub written_blocks: u64,
    /// Written blocks for which there was no room, since the start.
    #[serde(default)]
    pub refused_blocks: u64,
    /// Level at which the store's room is used, without what `gc` frees.
    #[serde(default)]
    pub room: RoomLevel,
    /// Hosts that are connected.
    pub hosts: Vec<HostLink>,
    /// Volumes.
    pub volumes: Vec<StoreVolume>,
}

/// A connection with another machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostLink {
    /// Its number.
    pub host: u16,
    /// Its address.
    pub from: String,
    /// Bytes that were sent to it, before encryption.
    pub sent_bytes: u64,
    /// Bytes that came from it.
    pub received_bytes: u64,
}

/// Level at which a bound is used.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum RoomLevel {
    /// Less than 80 % are used, or there is no bound.
    #[default]
    Ok,
    /// From 80 % on.
    Warning,
    /// From 95 % on.
    Critical,
    /// All of it is used: writes that need more are refused.
    Full,
}

/// A volume, clone, snapshot or image of a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StoreVolume {
    /// Its name.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// True for snapshots and images, which cannot be written.
    pub read_only: bool,
    /// Volume that it was made of, if that is still there.
    pub origin: Option<String>,
    /// Domain: with whom its blocks are shared.
    pub domain: u32,
    /// Bytes of blocks that are not zeroes.
    pub mapped_bytes: u64,
    /// Bytes of stored blocks that it is charged: those that it wrote first.
    pub charged_bytes: u64,
    /// Bound of what it may map; nothing: none.
    pub logical_quota_bytes: Option<u64>,
    /// Bound of what it may be charged; nothing: none.
    pub physical_quota_bytes: Option<u64>,
    /// Level at which its quotas are used, the worse of both.
    #[serde(default)]
    pub room: RoomLevel,
    /// Written blocks for which there was no room, since the start of the server.
    #[serde(default)]
    pub refused_blocks: u64,
    /// Host that may write to it now.
    pub host: Option<u16>,
}

/// A volume that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewStoreVolume {
    /// Its name.
    pub name: String,
    /// Its size; a multiple of 4 KiB.
    pub size_bytes: u64,
    /// Domain, 0 to 63: blocks are shared within one.
    #[serde(default)]
    pub domain: u32,
    /// Bound of what it may map.
    #[serde(default)]
    pub logical_quota_bytes: Option<u64>,
    /// Bound of what it may be charged.
    #[serde(default)]
    pub physical_quota_bytes: Option<u64>,
}

/// New quotas of a volume: what is not named stays, null means no bound.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaChange {
    /// Bound of what it may map; at least 4 KiB, and a multiple of it.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub logical_quota_bytes: Option<Option<u64>>,
    /// Bound of what it may be charged; at least 4 KiB, and a multiple of it.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub physical_quota_bytes: Option<Option<u64>>,
}

/// Reads a field that is there, perhaps as null.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// A clone or a snapshot that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewClone {
    /// Its name.
    pub name: String,
    /// True for a snapshot, which cannot be written.
    #[serde(default)]
    pub read_only: bool,
}

/// Outcome of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Swept {
    /// Bytes of blocks that no volume had any more.
    pub freed_bytes: u64,
}

/// Outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Checked {
    /// Things that do not hold; empty: everything does.
    pub flaws: Vec<String>,
}

/// A host's agent at a glance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostStatus {
    /// Its number.
    pub host: u16,
    /// The storage server.
    pub store: String,
    /// True while it is connected.
    pub is_connected: bool,
    /// Reason of the last trouble with the server.
    pub last_error: Option<String>,
    /// Protocol: what is done to send less.
    pub protocol: String,
    /// Seconds since the start.
    pub uptime_seconds: f64,
    /// Bytes that were sent to the server, before encryption.
    pub sent_bytes: u64,
    /// Bytes that came from the server.
    pub received_bytes: u64,
    /// Bytes that came from other hosts.
    pub peer_received_bytes: u64,
    /// Blocks that guests read.
    pub read_blocks: u64,
    /// Those of them from the cache.
    pub hit_blocks: u64,
    /// Those of them that joined others that were under way.
    pub joined_blocks: u64,
    /// Blocks that the server named and that were here.
    pub named_blocks: u64,
    /// Blocks that other hosts sent.
    pub peer_blocks: u64,
    /// Blocks that this host sent to others.
    pub served_blocks: u64,
    /// Blocks in the cache's memory.
    pub cached_blocks: u64,
    /// The cache's second level; null: there is none.
    #[serde(default)]
    pub flash: Option<FlashStatus>,
    /// NBD clients.
    pub clients: usize,
    /// Other hosts that are connected.
    pub peers: Vec<u16>,
    /// Volumes.
    pub volumes: Vec<HostVolume>,
}

/// The second level of a host's cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlashStatus {
    /// Its device.
    pub device: String,
    /// Blocks that it has room for.
    pub slots: u64,
    /// Blocks that it holds.
    pub blocks: u64,
    /// Blocks that were read from it since the start.
    pub hit_blocks: u64,
    /// Blocks that were written to it.
    pub stored_blocks: u64,
    /// Blocks that memory gave up and that were not kept here.
    pub passed_blocks: u64,
    /// Blocks that came back with wrong bytes; the store was asked instead.
    pub damaged_blocks: u64,
    /// Requests that failed.
    pub failures: u64,
    /// True once it was given up because it failed all the time.
    pub is_off: bool,
}

/// A second of a host: growth of its figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostSecond {
    /// Its number since the start.
    pub number: u64,
    /// Bytes sent to the server.
    pub sent_bytes: u64,
    /// Bytes that came from the server.
    pub received_bytes: u64,
    /// Bytes that came from other hosts.
    pub peer_received_bytes: u64,
    /// Blocks that guests read.
    pub read_blocks: u64,
    /// Those of them from the cache's memory.
    pub hit_blocks: u64,
    /// Those of them from its second level.
    pub flash_blocks: u64,
}

impl Totals for HostSecond {
    type Second = HostSecond;

    fn since(&self, before: &HostSecond, number: u64) -> HostSecond {
        let grown = |of: fn(&HostSecond) -> u64| of(self).saturating_sub(of(before));
        HostSecond {
            number,
            sent_bytes: grown(|it| it.sent_bytes),
            received_bytes: grown(|it| it.received_bytes),
            peer_received_bytes: grown(|it| it.peer_received_bytes),
            read_blocks: grown(|it| it.read_blocks),
            hit_blocks: grown(|it| it.hit_blocks),
            flash_blocks: grown(|it| it.flash_blocks),
        }
    }
}

/// A second of a storage server: growth of its figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StoreSecond {
    /// Its number since the start.
    pub number: u64,
    /// Bytes sent to hosts.
    pub sent_bytes: u64,
    /// Bytes that came from hosts.
    pub received_bytes: u64,
    /// Blocks that were stored.
    pub new_blocks: u64,
    /// Written blocks that were stored already.
    pub deduplicated_blocks: u64,
}

impl Totals for StoreSecond {
    type Second = StoreSecond;

    fn since(&self, before: &StoreSecond, number: u64) -> StoreSecond {
        let grown = |of: fn(&StoreSecond) -> u64| of(self).saturating_sub(of(before));
        StoreSecond {
            number,
            sent_bytes: grown(|it| it.sent_bytes),
            received_bytes: grown(|it| it.received_bytes),
            new_blocks: grown(|it| it.new_blocks),
            deduplicated_blocks: grown(|it| it.deduplicated_blocks),
        }
    }
}

/// A volume at a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostVolume {
    /// Its name, and that of its NBD export.
    pub name: String,
    /// `attached`, `waiting` for the server or for another host, or `lost` to another host.
    pub state: String,
    /// Reason why it is not attached.
    pub why: Option<String>,
    /// Its size.
    pub size_bytes: u64,
    /// Fencing number of its lease.
    pub fence: u64,
    /// Writes of guests that were refused for want of room, since it was named to this agent.
    #[serde(default)]
    pub refused_writes: u64,
    /// Room that was short last, and what to do.
    #[serde(default)]
    pub last_refusal: Option<String>,
}
