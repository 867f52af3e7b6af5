//! The figures of a storage server and of a host's agent for Prometheus, in the OpenMetrics text
//! format.
//!
//! Names follow Prometheus's conventions: they begin with `thermocline_store_` and
//! `thermocline_host_`; units are seconds and bytes and end the name; counters end in `_total`.

use super::api::{FlashStatus, HostStatus, StoreStatus};
use axum::response::Response;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;
use thermocline_admin::metrics::{Value, answer, family};

/// Name, help and value.
type Figure = (&'static str, &'static str, Value<'static>);
/// Name and help of a family, and its series by the label's value.
type Family = (&'static str, &'static str, &'static str, Vec<(String, Value<'static>)>);

#[derive(Debug)]
struct Figures {
    plain: Vec<Figure>,
    labelled: Vec<Family>,
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (name, help, value) in &self.plain {
            family(&mut encoder, (name, help), vec![(Vec::new(), copy(value))])?;
        }
        for (name, help, label, series) in &self.labelled {
            let series =
                series.iter().map(|(of, value)| (vec![(*label, of.as_str())], copy(value)));
            family(&mut encoder, (name, help), series.collect())?;
        }
        Ok(())
    }
}

fn copy(value: &Value<'static>) -> Value<'static> {
    match value {
        Value::Gauge(value) => Value::Gauge(*value),
        Value::Counter(value) => Value::Counter(*value),
        Value::Seconds(value) => Value::Seconds(*value),
        Value::Histogram(value) => Value::Histogram(value),
    }
}

fn bytes(value: u64) -> Value<'static> {
    Value::Gauge(value as f64)
}

/// Those of a storage server.
pub(super) fn of_store(status: StoreStatus) -> Response {
    let count = Value::Counter;
    let plain = vec![
        ("uptime_seconds", "Time since the start", Value::Gauge(status.uptime_seconds)),
        ("capacity_bytes", "Blocks that can be stored", bytes(status.capacity_bytes)),
        ("stored_bytes", "Blocks that are stored", bytes(status.stored_bytes)),
        ("unreferenced_bytes", "Of those, in no volume", bytes(status.unreferenced_bytes)),
        ("mapped_bytes", "Blocks of all volumes", bytes(status.mapped_bytes)),
        ("hosts", "Hosts that are connected", Value::Gauge(status.hosts.len() as f64)),
        ("new_blocks", "Blocks that were stored", count(status.new_blocks)),
        (
            "deduplicated_blocks",
            "Written blocks that were there",
            count(status.deduplicated_blocks),
        ),
        ("damaged_blocks", "Blocks with another hash", count(status.damaged_blocks)),
        ("blocks_by_id", "Blocks told by number alone", count(status.blocks_by_id)),
        ("blocks_by_bytes", "Blocks whose bytes were sent", count(status.blocks_by_bytes)),
        ("blocks_by_peer", "Blocks that other hosts sent", count(status.blocks_by_peer)),
        ("known_writes", "Written blocks whose bytes were not sent", count(status.known_writes)),
        ("written_blocks", "Written blocks whose bytes came", count(status.written_blocks)),
        ("refused_blocks", "Written blocks without room", count(status.refused_blocks)),
    ];
    let of_hosts = |value: fn(&super::api::HostLink) -> u64| {
        let hosts = status.hosts.iter();
        hosts.map(|host| (host.host.to_string(), Value::Counter(value(host)))).collect()
    };
    let of_volumes = |value: fn(&super::api::StoreVolume) -> u64| {
        let volumes = status.volumes.iter();
        volumes.map(|volume| (volume.name.clone(), bytes(value(volume)))).collect()
    };
    let quotas = |of: fn(&super::api::StoreVolume) -> Option<u64>| {
        let bounded = status.volumes.iter().filter_map(|it| Some((it.name.clone(), of(it)?)));
        bounded.map(|(name, bound)| (name, bytes(bound))).collect()
    };
    let refused = status.volumes.iter();
    let refused = refused.map(|it| (it.name.clone(), count(it.refused_blocks))).collect();
    let labelled = vec![
        ("host_sent_bytes", "Bytes sent to a host", "host", of_hosts(|it| it.sent_bytes)),
        ("host_received_bytes", "Bytes from a host", "host", of_hosts(|it| it.received_bytes)),
        ("volume_mapped_bytes", "Of a volume", "volume", of_volumes(|it| it.mapped_bytes)),
        ("volume_charged_bytes", "Charged to it", "volume", of_volumes(|it| it.charged_bytes)),
        ("volume_logical_quota_bytes", "Its bound", "volume", quotas(|it| it.logical_quota_bytes)),
        (
            "volume_physical_quota_bytes",
            "Bound of what it is charged",
            "volume",
            quotas(|it| it.physical_quota_bytes),
        ),
        ("volume_refused_blocks", "Its written blocks without room", "volume", refused),
    ];
    answer("thermocline_store", Figures { plain, labelled })
}

/// Those of the second level of an agent's cache.
fn of_flash(flash: &FlashStatus) -> Vec<Figure> {
    let count = Value::Counter;
    vec![
        ("flash_slots", "Blocks that flash has room for", bytes(flash.slots)),
        ("flash_blocks", "Blocks on flash", bytes(flash.blocks)),
        ("flash_off", "1 once flash was given up", bytes(flash.is_off.into())),
        ("flash_hit_blocks", "Blocks read from flash", count(flash.hit_blocks)),
        ("flash_stored_blocks", "Blocks written to flash", count(flash.stored_blocks)),
        ("flash_passed_blocks", "Evicted blocks not kept there", count(flash.passed_blocks)),
        ("flash_damaged_blocks", "Wrong bytes from flash", count(flash.damaged_blocks)),
        ("flash_failures", "Failed requests of flash", count(flash.failures)),
    ]
}

/// Those of an agent.
pub(super) fn of_host(status: HostStatus) -> Response {
    let count = Value::Counter;
    let attached = status.volumes.iter().filter(|volume| volume.state == "attached").count();
    let plain = vec![
        ("uptime_seconds", "Time since the start", Value::Gauge(status.uptime_seconds)),
        ("connected", "1 while the server is there", bytes(status.is_connected.into())),
        ("volumes_attached", "Volumes that are served", bytes(attached as u64)),
        ("clients", "NBD clients", bytes(status.clients as u64)),
        ("cached_blocks", "Blocks in the cache", bytes(status.cached_blocks)),
        ("sent_bytes", "Bytes sent to the server", count(status.sent_bytes)),
        ("received_bytes", "Bytes from the server", count(status.received_bytes)),
        ("peer_received_bytes", "Bytes from other hosts", count(status.peer_received_bytes)),
        ("read_blocks", "Blocks that guests read", count(status.read_blocks)),
        ("hit_blocks", "Of those, from the cache", count(status.hit_blocks)),
        ("joined_blocks", "Of those, joined others", count(status.joined_blocks)),
        ("named_blocks", "Named by the server, and here", count(status.named_blocks)),
        ("peer_blocks", "Blocks that other hosts sent", count(status.peer_blocks)),
        ("served_blocks", "Blocks sent to other hosts", count(status.served_blocks)),
    ];
    let plain = plain.into_iter().chain(status.flash.iter().flat_map(of_flash)).collect();
    let refused = status.volumes.iter();
    let refused = refused.map(|it| (it.name.clone(), count(it.refused_writes))).collect();
    let refused = ("volume_refused_writes", "Writes without room", "volume", refused);
    answer("thermocline_host", Figures { plain, labelled: vec![refused] })
}
