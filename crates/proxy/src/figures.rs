//! A balancer's figures for Prometheus, in the OpenMetrics text format.
//!
//! Names follow Prometheus's conventions: they begin with `thermocline_balance_`; units are seconds
//! and bytes and end the name; counters end in `_total`. Backends are told apart by name.

use super::api::{BackendCounters, BackendStatus, BalanceStatus};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;
use thermocline_admin::metrics::{Value, family};
use thermocline_units::Latencies;

/// A copy of everything that is measured.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) status: BalanceStatus,
    /// Latencies by backend.
    pub(super) latencies: Vec<Latencies>,
}

/// Names of metrics begin with it.
pub(super) const PREFIX: &str = "thermocline_balance";

/// Takes one figure of a backend.
type OfBackend = fn(&BackendStatus) -> f64;
/// Takes one count of a backend.
type OfCounters = fn(&BackendCounters) -> u64;

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.whole(&mut encoder)?;
        self.backends(&mut encoder)?;
        self.ends(&mut encoder)?;
        let latencies = self.status.backends.iter().zip(&self.latencies);
        let series = latencies.map(|(backend, latencies)| {
            (vec![("backend", backend.name.as_str())], Value::Histogram(latencies))
        });
        let name = ("request_duration_seconds", "How long requests took that were served");
        family(&mut encoder, name, series.collect())
    }
}

impl Figures {
    fn whole(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let status = &self.status;
        let flag = |flag: bool| Some(f64::from(u8::from(flag)));
        let gauges = [
            ("uptime_seconds", "Time since the start", Some(status.uptime_seconds)),
            ("connections", "Connections of clients", Some(status.connections as f64)),
            ("requests_waiting", "Requests that wait for a place", Some(status.waiting.into())),
            ("panic", "Whether no backend is fit and all are tried", flag(status.panic)),
            ("balancers", "Balancers that reports tell of", Some(status.balancers.into())),
            ("bursting", "Whether the rule sees a burst", status.bursting.and_then(flag)),
            ("candidates", "Backends that the rule chooses among", status.candidates),
        ];
        for (name, help, value) in gauges {
            let series = value.map(|value| (Vec::new(), Value::Gauge(value)));
            family(encoder, (name, help), series.into_iter().collect())?;
        }
        let counters = [
            ("requests", "Requests that arrived", status.requests),
            ("connections_accepted", "Connections accepted", status.accepted),
            ("connections_refused", "Too many from an address", status.connections_refused),
            ("requests_turned_away", "Requests that found no place", status.turned_away),
            ("bad_requests", "Requests that are not served", status.bad_requests),
            ("retries_denied", "Retries over the budget", status.retries_denied),
            ("sent_bytes", "Bytes of bodies sent to clients", status.sent_bytes),
            ("probes_sent", "Probes sent to servers", status.probes.sent),
            ("probes_answered", "Probes whose answers were used", status.probes.answered),
            ("probes_late", "Probes without an answer in time", status.probes.late),
            ("probes_failed", "Probes without an answer of use", status.probes.failed),
            ("probes_skipped", "Probes not sent: too many under way", status.probes.skipped),
            ("log_lines_dropped", "Lost lines of the access log", status.log_lines_dropped),
        ];
        for (name, help, value) in counters {
            family(encoder, (name, help), vec![(Vec::new(), Value::Counter(value))])?;
        }
        Ok(())
    }

    fn backends(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let gauges: [(&str, &str, OfBackend); 3] = [
            ("backend_up", "Whether the backend is fit", |b| {
                f64::from(u8::from(b.state == "up" || b.state == "slow start"))
            }),
            ("backend_requests_in_flight", "Requests under way", |b| b.outstanding.into()),
            ("backend_weight", "Its weight, as it counts now", |b| b.weight * b.share),
        ];
        for (name, help, figure) in gauges {
            let series = self.status.backends.iter().map(|backend| {
                (vec![("backend", backend.name.as_str())], Value::Gauge(figure(backend)))
            });
            family(encoder, (name, help), series.collect())?;
        }
        let reported = self.status.backends.iter().filter_map(|backend| {
            let report = backend.report?;
            Some((vec![("backend", backend.name.as_str())], Value::Gauge(report.queue.into())))
        });
        let name = ("backend_reported_queue", "Requests there, by its own report");
        family(encoder, name, reported.collect())?;
        let counters: [(&str, &str, OfCounters); 4] = [
            ("backend_requests_sent", "Requests sent, retries included", |c| c.sent),
            ("backend_requests_retried", "Requests that failed and were tried again", |c| {
                c.retried
            }),
            ("backend_ejections", "Times it was ejected", |c| c.ejections),
            ("backend_reports", "Load reports used", |c| c.reports),
        ];
        for (name, help, figure) in counters {
            let series = self.status.backends.iter().map(|backend| {
                (
                    vec![("backend", backend.name.as_str())],
                    Value::Counter(figure(&backend.counters)),
                )
            });
            family(encoder, (name, help), series.collect())?;
        }
        Ok(())
    }

    /// Ends of requests, by backend.
    fn ends(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let ends: [(&'static str, OfCounters); 7] = [
            ("served", |c| c.served),
            ("error", |c| c.errors),
            ("unreachable", |c| c.unreachable),
            ("broken", |c| c.broken),
            ("timed_out", |c| c.timed_out),
            ("abandoned", |c| c.abandoned),
            ("declined", |c| c.declined),
        ];
        let mut series = Vec::new();
        for backend in &self.status.backends {
            for (end, figure) in ends {
                let labels = vec![("backend", backend.name.as_str()), ("end", end)];
                series.push((labels, Value::Counter(figure(&backend.counters))));
            }
        }
        family(encoder, ("backend_requests_ended", "Requests, by how they ended"), series)
    }
}
