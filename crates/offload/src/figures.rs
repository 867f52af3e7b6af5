//! The figures of a pool for Prometheus, in the OpenMetrics text format.
//!
//! Names follow Prometheus's conventions: they begin with `thermocline_accel_`; units are seconds
//! and bytes and end the name; counters end in `_total`.

use crate::api::{InterfaceStatus, PoolStatus};
use axum::response::Response;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;
use thermocline_admin::metrics::{Value, answer, family};

#[derive(Debug)]
struct Figures(PoolStatus);

/// The figures of this status.
pub(crate) fn answer_of(status: PoolStatus) -> Response {
    answer("thermocline_accel", Figures(status))
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let status = &self.0;
        let packets = &status.packets;
        let counters = [
            ("packets_offered", "Packets that came to functions", packets.offered),
            ("packets_passed", "Packets that left them", packets.passed),
            ("packets_of_strangers", "Packets of no tenant", packets.dropped_strangers),
            ("packets_after_their_last_hop", "Packets without a hop left", packets.dropped_hops),
            ("packets_dropped", "Packets that functions dropped", packets.dropped_by_functions),
            ("packets_dropped_by_rules", "Of those, by a rule", packets.dropped_by_rules),
            ("packets_lost", "Packets before full queues and the like", packets.lost),
            ("alerts", "Packets that a rule reported", packets.alerts),
            ("mappings_made", "Mappings of NAT that were made", packets.mappings_made),
            ("mappings_ended", "Mappings of NAT that ended", packets.mappings_ended),
            ("ports_exhausted", "Hosts that were refused a port", packets.ports_exhausted),
            ("loads", "Functions that were loaded", packets.loads),
            ("failures", "Slots that failed", packets.failures),
            ("moves", "Shares that moved to another slot", packets.moved),
            ("states_lost", "States that were lost with a slot", packets.states_lost),
        ];
        for (name, help, value) in counters {
            family(&mut encoder, (name, help), vec![(Vec::new(), Value::Counter(value))])?;
        }
        let uptime = vec![(Vec::new(), Value::Gauge(status.uptime_seconds))];
        family(&mut encoder, ("uptime_seconds", "Time since the start"), uptime)?;
        let functions = |value: fn(&crate::api::FunctionStatus) -> f64| {
            let series = status.functions.iter();
            let one = |it: &'_ crate::api::FunctionStatus| Value::Gauge(value(it));
            series.map(|it| (vec![("function", it.name.as_str())], one(it))).collect::<Vec<_>>()
        };
        let running = functions(|it| f64::from(it.running));
        family(&mut encoder, ("slots_running", "Slots that run a function"), running)?;
        let flows = functions(|it| it.flows as f64);
        family(&mut encoder, ("flows", "Flows that a function knows"), flows)?;
        let interfaces = |value: fn(&InterfaceStatus) -> u64| {
            let sides = ["inside", "outside"].into_iter().zip(&status.interfaces);
            let one = |it: &InterfaceStatus| Value::Counter(value(it));
            sides.map(|(side, it)| (vec![("side", side)], one(it))).collect::<Vec<_>>()
        };
        let received = interfaces(|it| it.received_bytes);
        family(&mut encoder, ("received_bytes", "Bytes that came"), received)?;
        let sent = interfaces(|it| it.sent_bytes);
        family(&mut encoder, ("sent_bytes", "Bytes that were sent"), sent)?;
        let refused = interfaces(|it| it.refused);
        family(&mut encoder, ("refused", "Packets not taken by the interface"), refused)
    }
}
