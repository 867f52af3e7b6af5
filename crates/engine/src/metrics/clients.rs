//! Metrics of NBD clients by listener, and of the memory that their requests share.

use crate::api::Clients;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;
use thermocline_admin::metrics::{Series, Value, family};

pub(super) fn encode(
    clients: &Clients,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let states = clients.listeners.iter().flat_map(|listener| {
        [("attached", listener.attached), ("handshake", listener.half_open)].map(
            |(state, count)| {
                let labels = vec![("listener", listener.name.as_str()), ("state", state)];
                (labels, Value::Gauge(count as f64))
            },
        )
    });
    let states: Series<'_> = states.collect();
    family(encoder, ("nbd_connections", "NBD connections"), states)?;
    let turned_away = clients.listeners.iter().flat_map(|listener| {
        listener.turned_away.iter().map(|(why, count)| {
            let labels = vec![("listener", listener.name.as_str()), ("reason", why.as_str())];
            (labels, Value::Counter(*count))
        })
    });
    let help = "NBD connections that were refused or closed by the engine";
    family(encoder, ("nbd_connections_turned_away", help), turned_away.collect())?;
    let gauges = [
        ("nbd_buffer_bytes", "Memory for contents of requests", clients.buffer_bytes),
        ("nbd_buffer_limit_bytes", "Most that it may be", clients.buffer_limit_bytes),
        ("nbd_requests_waiting", "Requests that wait for such memory", clients.waiting),
    ];
    for (name, help, value) in gauges {
        family(encoder, (name, help), vec![(Vec::new(), Value::Gauge(value as f64))])?;
    }
    Ok(())
}
