//! Results of a calibration, as tables, as JSON and as a profile file.

use crate::table;
use serde_json::{Value, json};
use std::fmt::Write;
use thermocline_ports::calibration::{Calibration, Figures, Row};
use thermocline_units::Nanos;

/// The profile, with what is assumed in it as comments.
pub(super) fn profile_file(calibration: &Calibration) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "# {}.", how_far_off(calibration));
    for assumed in &calibration.assumed {
        let _ = writeln!(text, "# Assumed: {assumed}.");
    }
    text + &calibration.profile.to_toml()
}

pub(super) fn as_text(calibration: &Calibration, notes: &[String]) -> String {
    let mut text = String::new();
    let mut loads = table::plain([
        "load",
        "measured",
        "runs from",
        "to",
        "model",
        "error",
        "mean",
        "model",
        "p99",
        "model",
    ]);
    for row in &calibration.rows {
        let (measured, modelled) = (&row.measured, &row.modelled);
        loads.add_row([
            format!("{}{}", row.name, if row.fitted { "" } else { " *" }),
            rate(row, measured.iops),
            rate(row, row.iops_range.0),
            rate(row, row.iops_range.1),
            rate(row, modelled.iops),
            format!("{:+.1} %", 100.0 * row.error()),
            latency(measured.mean),
            latency(modelled.mean),
            latency(measured.p99),
            latency(modelled.p99),
        ]);
    }
    table::align_numbers(&mut loads);
    let _ = writeln!(text, "{}", table::fitted(&loads, &[2, 3, 7, 9, 6, 8]));
    let _ = writeln!(text, "{}\n", how_far_off(calibration));
    let weights = weights(calibration);
    let _ = writeln!(text, "what a request of 4 KiB costs, in reads (weights of access patterns):");
    for (name, weight) in weights {
        match weight {
            Some(weight) => writeln!(text, "  {name:<18}{weight:>10.3}"),
            None => writeln!(text, "  {name:<18}{:>10}", "–"),
        }
        .expect("a string takes everything");
    }
    text.push('\n');
    for note in notes {
        let _ = writeln!(text, "note: {note}");
    }
    for assumed in &calibration.assumed {
        let _ = writeln!(text, "assumed: {assumed}");
    }
    text
}

/// The errors in words.
fn how_far_off(calibration: &Calibration) -> String {
    let ((mean, worst), (mean_else, worst_else)) =
        (calibration.errors(), calibration.errors_elsewhere());
    format!(
        "the model's rates are off by {:.0} % in the mean and {:.0} % at worst where it was fitted, by \
         {:.0} % and {:.0} % on the loads marked *, which the fit has not seen",
        100.0 * mean,
        100.0 * worst,
        100.0 * mean_else,
        100.0 * worst_else
    )
}

/// Small blocks in requests, large ones in bytes.
fn rate(row: &Row, iops: f64) -> String {
    match row.pattern.block {
        4096 if iops >= 10_000.0 => format!("{:.1} kIOPS", iops / 1e3),
        4096 => format!("{iops:.0} IOPS"),
        block => format!("{:.0} MB/s", iops * f64::from(block) / 1e6),
    }
}

fn latency(time: Nanos) -> String {
    match time.0 {
        0..10_000_000 => format!("{:.1} µs", time.0 as f64 / 1e3),
        _ => format!("{:.1} ms", time.0 as f64 / 1e6),
    }
}

fn weights(calibration: &Calibration) -> [(&'static str, Option<f64>); 7] {
    let weights = &calibration.weights;
    let writes = weights.writes.as_ref();
    [
        ("read", Some(1.0)),
        ("write", writes.map(|writes| writes.write)),
        ("sequential read", Some(weights.sequential_read)),
        ("random read", Some(weights.random_read)),
        ("sequential write", writes.map(|writes| writes.sequential)),
        ("random write", writes.map(|writes| writes.random)),
        ("overwrite", writes.map(|writes| writes.overwrite)),
    ]
}

pub(super) fn as_json(calibration: &Calibration, notes: &[String]) -> Value {
    let figures = |figures: &Figures| {
        json!({
            "iops": figures.iops,
            "bytes_per_s": figures.mb_per_s * 1e6,
            "mean_ns": figures.mean.0,
            "p99_ns": figures.p99.0,
        })
    };
    let rows = calibration.rows.iter().map(|row| {
        json!({
            "load": row.name.to_string(),
            "block_bytes": row.pattern.block,
            "depth": row.pattern.depth,
            "reads": row.pattern.reads,
            "measured": figures(&row.measured),
            "modelled": figures(&row.modelled),
            "iops_min": row.iops_range.0,
            "iops_max": row.iops_range.1,
            "error": row.error(),
            "fitted": row.fitted,
        })
    });
    let ((mean, worst), (mean_else, worst_else)) =
        (calibration.errors(), calibration.errors_elsewhere());
    let weights: serde_json::Map<String, Value> = weights(calibration)
        .into_iter()
        .map(|(name, weight)| (name.replace(' ', "_"), json!(weight)))
        .collect();
    json!({
        "loads": rows.collect::<Vec<_>>(),
        "error_mean": mean,
        "error_max": worst,
        "error_mean_elsewhere": mean_else,
        "error_max_elsewhere": worst_else,
        "weights": weights,
        "assumed": calibration.assumed,
        "notes": notes,
        "profile": calibration.profile.to_toml(),
    })
}
