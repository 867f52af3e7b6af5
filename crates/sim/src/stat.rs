//! `trace stat`: what a workload and each of its volumes are like, as data.
//!
//! Units are in the names; a ratio that would divide by zero, and times that the trace does not
//! have, are null.

use crate::progress::{Amount, ProgressSink};
use crate::source::Traces;
use serde_json::{Value, json};
use thermocline_trace::stat::StatError;
use thermocline_trace::stat::{
    Amount as Moved, BIN, CHUNKS_COUNTED_IN, COUNTED_IN, Characterisation, Characteristics,
    Concentration, Histogram, LAGS_MAX, NEAR, PAGE, REACCESS_WITHIN, Reaccess, Timing,
    WorkloadCharacteristics,
};

/// Percentiles told of every distribution.
const PERCENTILES: [(&str, f64); 6] =
    [("p10", 0.1), ("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p99", 0.99)];

/// All that is reported.
pub struct StatReport {
    /// The traces, as they were named.
    pub traces: Vec<String>,
    /// Repairs by the readers.
    pub repairs: Vec<String>,
    /// Names of the volumes, by id.
    pub names: Vec<String>,
    /// The characteristics.
    pub found: WorkloadCharacteristics,
}

impl StatReport {
    /// Reads the traces to their end.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn read(traces: &Traces, sink: &dyn ProgressSink) -> Result<StatReport, StatError> {
        let mut reader = traces.open()?;
        sink.begin("characterising", Amount::Bytes(traces.size_bytes()));
        let found = Characterisation::read(&mut *reader, &|bytes| sink.at(bytes))?;
        let (repairs, names) = (reader.repairs(), reader.volumes().to_vec());
        Ok(StatReport { traces: traces.names(), repairs, names, found })
    }

    /// Volumes that have requests, with their names.
    pub fn volumes(&self) -> impl Iterator<Item = (&str, &Characteristics)> {
        let names = self.names.iter().map(String::as_str);
        names.zip(&self.found.volumes).filter(|(_, volume)| volume.requests() > 0)
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let volumes = self.volumes().map(|(name, of)| {
            let mut volume = characteristics(of);
            volume["name"] = json!(name);
            volume
        });
        json!({
            "traces": self.traces,
            "repairs": self.repairs,
            "definitions": {
                "page_bytes": PAGE.0,
                "chunk_bytes": BIN.0,
                "reaccess_within_s": REACCESS_WITHIN.as_secs_f64(),
                "near_bytes": NEAR.0,
                "active_chunks_interval_s": CHUNKS_COUNTED_IN.as_secs_f64(),
                "arrivals_interval_s": COUNTED_IN.as_secs_f64(),
                "index_of_dispersion_lags_max": LAGS_MAX,
            },
            "workload": characteristics(&self.found.whole),
            "volumes": volumes.collect::<Vec<Value>>(),
        })
    }
}

fn characteristics(of: &Characteristics) -> Value {
    json!({
        "volumes": of.volumes,
        "requests": of.requests(),
        "reads": amount(of.reads),
        "writes": amount(of.writes),
        "flushes": amount(of.flushes),
        "trims": amount(of.trims),
        "read_write_ratio_requests": of.read_write_ratio_requests(),
        "read_write_ratio_bytes": of.read_write_ratio_bytes(),
        "volume_size_bytes": of.size.0,
        "working_set_bytes": of.footprint.0,
        "working_set_read_bytes": of.footprint_read.0,
        "working_set_written_bytes": of.footprint_written.0,
        "chunks": of.chunks,
        "page_accesses": concentration(of.page_accesses),
        "chunk_accesses": concentration(of.chunk_accesses),
        "chunk_bytes": concentration(of.chunk_bytes),
        "sequential_near_share": of.sequentiality.near,
        "sequential_contiguous_share": of.sequentiality.contiguous,
        "size_bytes": distribution(&of.sizes()),
        "read_size_bytes": distribution(&of.read_sizes),
        "write_size_bytes": distribution(&of.write_sizes),
        "response_ns": distribution(&of.responses),
        "timing": of.timing.as_ref().map(timing),
    })
}

fn amount(of: Moved) -> Value {
    json!({ "requests": of.requests, "bytes": of.bytes })
}

fn concentration(of: Concentration) -> Value {
    json!({ "top_5_percent_share": of.top_5, "top_20_percent_share": of.top_20 })
}

fn reaccess(of: Reaccess) -> Value {
    json!({ "share_of_accesses": of.of_accesses, "share_of_returns": of.of_returns })
}

fn timing(of: &Timing) -> Value {
    json!({
        "span_s": of.span.as_secs_f64(),
        "interarrival_ns": distribution(&of.gaps),
        "index_of_dispersion": of.index_of_dispersion,
        "arrivals_per_s_variance_over_mean": of.per_second_variance_over_mean,
        "arrivals_per_s_max": of.per_second_max,
        "page_reaccess_5min": reaccess(of.page_reaccess),
        "chunk_reaccess_5min": reaccess(of.chunk_reaccess),
        "chunks_below_10_accesses_per_day_share": of.rare_chunks,
        "chunks_from_1000_accesses_per_day_share": of.frequent_chunks,
        "active_chunks_per_5min_mean": of.active_chunks_mean,
        "active_chunks_per_5min_max": of.active_chunks_max,
    })
}

/// A distribution in the unit that its key names; `from` and `count` of its powers of two: so many
/// values from it to below its double.
fn distribution(of: &Histogram) -> Value {
    let powers = of.powers_of_two().into_iter();
    let powers: Vec<Value> =
        powers.map(|(from, count)| json!({ "from": from, "count": count })).collect();
    let mut value = json!({
        "count": of.count(),
        "mean": of.mean(),
        "min": of.min(),
        "max": of.max(),
        "powers_of_two": powers,
    });
    for (name, share) in PERCENTILES {
        value[name] = json!(of.percentile(share));
    }
    value
}
