//! Families of metrics: series of one name, told apart by labels, as the text format writes them.

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;
use thermocline_units::{Latencies, Nanos};

/// Bounds of the histograms' buckets: 8 µs to 16 s, doubling; one without a bound comes last.
fn bounds() -> Vec<Nanos> {
    (0..22).map(|step| Nanos(8_000 << step)).collect()
}

/// A value of one series.
#[derive(Debug)]
pub(crate) enum Value<'a> {
    Gauge(f64),
    Counter(u64),
    /// A counter of seconds.
    Seconds(f64),
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
pub(crate) type Series<'a> = Vec<(Vec<(&'static str, &'a str)>, Value<'a>)>;

pub(crate) fn family(
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
