//! The figures of a tunnel's end for Prometheus, in the OpenMetrics text format.
//!
//! Names follow Prometheus's conventions: they begin with `thermocline_tunnel_`; units are seconds
//! and bytes and end the name; counters end in `_total`. Links are told apart by the other end's
//! key, classes of flows by the server's port.

use crate::{ClassStatus, LinkStatus, Status};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;
use thermocline_admin::metrics::{Value, family};

#[derive(Debug)]
pub(super) struct Figures(pub(super) Status);

/// Names of metrics begin with it.
pub(super) const PREFIX: &str = "thermocline_tunnel";

type OfLink = fn(&LinkStatus) -> Option<Value<'static>>;
type OfClass = fn(&ClassStatus) -> Value<'static>;

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.whole(&mut encoder)?;
        self.accelerator(&mut encoder)?;
        self.links(&mut encoder)?;
        self.classes(&mut encoder)
    }
}

impl Figures {
    fn whole(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Figures(status) = self;
        let up = status.links.iter().filter(|link| link.is_up).count();
        let gauges = [
            ("uptime_seconds", "Time since the start", status.for_s),
            ("links", "Links to other ends that are up", up as f64),
            ("link_down_seconds", "Time since there is no link", status.down_for_s.unwrap_or(0.0)),
            ("clients", "Clients, or servers, that are connected", status.clients as f64),
        ];
        for (name, help, value) in gauges {
            family(encoder, (name, help), vec![(Vec::new(), Value::Gauge(value))])?;
        }
        let counters = [
            ("connections", "Links that came up", status.connections),
            ("flows", "Flows that began", status.flows),
            ("flows_refused", "Flows that were refused", status.refused),
            ("flows_cut", "Flows that were cut before their end", status.cut),
            ("flows_passed", "Flows that went past the tunnel", status.passed),
            ("lingered", "Times that bytes waited for more until a timer rang", status.lingered),
        ];
        for (name, help, value) in counters {
            family(encoder, (name, help), vec![(Vec::new(), Value::Counter(value))])?;
        }
        Ok(())
    }

    fn accelerator(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(accelerator) = &self.0.accelerator else { return Ok(()) };
        let up = Value::Gauge(if accelerator.is_up { 1.0 } else { 0.0 });
        family(encoder, ("accelerator_up", "1 while it cuts"), vec![(Vec::new(), up)])?;
        let counters = [
            ("accelerator_jobs", "Jobs that it was given", accelerator.jobs),
            ("accelerator_bytes", "Bytes that it cut and that were used", accelerator.bytes),
            ("accelerator_jobs_failed", "Jobs done in its place", accelerator.jobs_failed),
            ("accelerator_false_answers", "Answers found to be false", accelerator.false_answers),
            ("accelerator_failures", "Times that it failed", accelerator.failures),
        ];
        for (name, help, value) in counters {
            family(encoder, (name, help), vec![(Vec::new(), Value::Counter(value))])?;
        }
        Ok(())
    }

    fn links(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let figures: [(&str, &str, OfLink); 10] = [
            ("link_flows", "Flows that are not over", |link| Some(Value::Gauge(link.flows as f64))),
            ("link_round_trip_seconds", "Time from a ping to its answer", |link| {
                link.round_trip_us.map(|us| Value::Gauge(us as f64 / 1e6))
            }),
            ("link_rate_bytes_per_second", "What the link takes while more waits", |link| {
                link.link_bytes_per_s.map(|rate| Value::Gauge(rate as f64))
            }),
            ("link_sent_bytes", "Bytes sent on the present connection", |link| {
                Some(Value::Counter(link.sent_bytes))
            }),
            ("link_received_bytes", "Bytes that came on the present connection", |link| {
                Some(Value::Counter(link.received_bytes))
            }),
            ("link_chunks_asked_by_peer", "Chunks that the other end did not hold", |link| {
                Some(Value::Counter(link.chunks_asked_of_us))
            }),
            ("link_chunks_asked", "Chunks that this end did not hold", |link| {
                Some(Value::Counter(link.chunks_asked_by_us))
            }),
            ("link_disk_chunks", "Chunks that memory gave up and the disk got", |link| {
                link.disk.as_ref().map(|disk| Value::Counter(disk.inserted))
            }),
            ("link_disk_chunks_read", "Chunks that were read from the disk", |link| {
                link.disk.as_ref().map(|disk| Value::Counter(disk.read))
            }),
            ("link_disk_chunks_lost", "Chunks that the disk lost, or was too slow for", |link| {
                link.disk.as_ref().map(|disk| Value::Counter(disk.lost + disk.dropped))
            }),
        ];
        for (name, help, figure) in figures {
            let series = self
                .0
                .links
                .iter()
                .filter_map(|link| Some((vec![("peer", link.key.as_str())], figure(link)?)));
            family(encoder, (name, help), series.collect())?;
        }
        Ok(())
    }

    fn classes(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let figures: [(&str, &str, OfClass); 7] = [
            ("class_bytes", "Bytes of clients", |class| Value::Counter(class.bytes)),
            ("class_sent_bytes", "Bytes sent for them", |class| Value::Counter(class.sent)),
            ("class_saved_bytes", "Bytes that the other end had already", |class| {
                Value::Counter(class.saved)
            }),
            ("class_chunks", "Chunks that were cut", |class| Value::Counter(class.chunks)),
            ("class_references", "Chunks that went as references", |class| {
                Value::Counter(class.references)
            }),
            ("class_processing_seconds", "Time of cutting, finding and packing", |class| {
                Value::Seconds(class.processing_us as f64 / 1e6)
            }),
            ("class_chunk_bytes", "Chunk size in force; 0: nothing is cut", |class| {
                Value::Gauge(class.chunk_bytes.unwrap_or(0).into())
            }),
        ];
        let numbers: Vec<Vec<String>> = self.0.links.iter().map(class_numbers).collect();
        for (name, help, figure) in figures {
            let mut series = Vec::new();
            for (link, numbers) in self.0.links.iter().zip(&numbers) {
                for (class, number) in link.classes.iter().zip(numbers) {
                    let labels = vec![("peer", link.key.as_str()), ("class", number.as_str())];
                    series.push((labels, figure(class)));
                }
            }
            family(encoder, (name, help), series)?;
        }
        Ok(())
    }
}

fn class_numbers(link: &LinkStatus) -> Vec<String> {
    link.classes.iter().map(|class| class.class.to_string()).collect()
}
