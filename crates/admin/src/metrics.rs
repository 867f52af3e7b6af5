//! Figures for Prometheus, in the OpenMetrics text format: families of series of one name, told
//! apart by labels.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;
use thermocline_units::{Latencies, Nanos};

/// An answer with what `figures` collects, in the text format; names begin with `prefix`.
pub fn answer(prefix: &str, figures: impl Collector + 'static) -> Response {
    let mut registry = Registry::with_prefix(prefix);
    registry.register_collector(Box::new(figures));
    let mut out = String::new();
    text::encode(&mut out, &registry).expect("a string takes everything");
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], out).into_response()
}

/// Bounds of the histograms' buckets: 8 µs to 16 s, doubling; one without a bound comes last.
fn bounds() -> Vec<Nanos> {
    (0..22).map(|step| Nanos(8_000 << step)).collect()
}

/// A value of one series.
#[derive(Debug)]
pub enum Value<'a> {
    /// A value that goes up and down.
    Gauge(f64),
    /// A count.
    Counter(u64),
    /// A counter of seconds.
    Seconds(f64),
    /// A distribution of latencies.
    Histogram(&'a Latencies),
}

impl EncodeMetric for Value<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        match self {
            Value::Gauge(value) => encoder.encode_gauge(value),
            Value::Counter(value) => encoder.encode_counter::<NoLabelSet, _, u64>(value, None),
            Value::Seconds(value) => encoder.encode_counter::<NoLabelSet, _, u64>(value, None),
            Value::Histogram(latencies) => {
                let bounds = bounds();
                let seconds = bounds.iter().map(|bound| bound.as_secs_f64()).chain([f64::INFINITY]);
                let buckets: Vec<(f64, u64)> = seconds.zip(latencies.between(&bounds)).collect();
                let sum = latencies.sum().as_secs_f64();
                encoder.encode_histogram::<NoLabelSet>(sum, latencies.count(), &buckets, None)
            }
        }
    }

    fn metric_type(&self) -> MetricType {
        match self {
            Value::Gauge(_) => MetricType::Gauge,
            Value::Counter(_) | Value::Seconds(_) => MetricType::Counter,
            Value::Histogram(_) => MetricType::Histogram,
        }
    }
}

/// Series of one name, told apart by labels.
pub type Series<'a> = Vec<(Vec<(&'static str, &'a str)>, Value<'a>)>;

/// Writes one family: nothing where there is no series.
///
/// # Errors
/// When the encoder's writer fails.
pub fn family(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    series: Series<'_>,
) -> Result<(), fmt::Error> {
    let Some(kind) = series.first().map(|(_, value)| value.metric_type()) else { return Ok(()) };
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in &series {
        value.encode(family.encode_family(&labels.as_slice())?)?;
    }
    Ok(())
}
