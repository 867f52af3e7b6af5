//! The characteristics of a workload for people: a table for each question, then one row a volume.

use crate::table;
use comfy_table::Table;
use std::fmt::Write;
use thermocline_charts::format::count;
use thermocline_sim::stat::StatReport;
use thermocline_trace::stat::{
    Amount, BIN, Characteristics, Concentration, Histogram, NEAR, PAGE, REACCESS_WITHIN, Timing,
};
use thermocline_units::{Bytes, Nanos};

/// Cells of the longest bar.
const BAR_CELLS: f64 = 30.0;
/// Mark where there is nothing to tell.
const NOTHING: &str = "–";

/// The report; `volumes`: with a row for each.
pub(super) fn text(report: &StatReport, volumes: bool) -> String {
    let whole = &report.found.whole;
    let tables = [amounts(whole), popularity(whole), order_and_arrivals(whole), sizes(whole)];
    let mut out = format!("{}\n", heading(report));
    for repair in &report.repairs {
        writeln!(out, "note: {repair}").expect("a String takes every text");
    }
    for table in tables {
        writeln!(out, "\n{table}").expect("a String takes every text");
    }
    if volumes {
        writeln!(out, "\n{}\n{}", volume_table(report), legend())
            .expect("a String takes every text");
    } else if whole.volumes > 1 {
        out.push_str("--volumes shows each volume.\n");
    }
    out
}

fn heading(report: &StatReport) -> String {
    let whole = &report.found.whole;
    let volumes = match whole.volumes {
        1 => "1 volume".to_string(),
        several => format!("{} volumes", count(several)),
    };
    let span = whole.timing.as_ref().map(|timing| format!(" over {}", timing.span));
    format!(
        "{}: {} requests to {volumes}{}",
        report.traces.join(", "),
        count(whole.requests()),
        span.unwrap_or_default()
    )
}

fn amounts(whole: &Characteristics) -> Table {
    let mut table = table::plain(["Amounts and sizes", "reads", "writes", "both"]);
    let (reads, writes) = (whole.reads, whole.writes);
    let both =
        Amount { requests: reads.requests + writes.requests, bytes: reads.bytes + writes.bytes };
    let of_amounts = |name: &str, of: &dyn Fn(Amount) -> String| {
        [name.to_string(), of(reads), of(writes), of(both)]
    };
    table.add_row(of_amounts("requests", &|amount| count(amount.requests)));
    table.add_row(of_amounts("share of requests", &|amount| {
        percent(Some(amount.requests as f64 / both.requests as f64).filter(|x| x.is_finite()))
    }));
    table.add_row(of_amounts("bytes", &|amount| bytes(amount.bytes)));
    let distinct = [whole.footprint_read, whole.footprint_written, whole.footprint];
    let distinct = distinct.map(|footprint| footprint.to_string());
    table.add_row(std::iter::once(format!("working set ({PAGE} pages)")).chain(distinct));
    let sizes = [&whole.read_sizes, &whole.write_sizes, &whole.sizes()];
    let of_sizes = |name: &str, of: &dyn Fn(&Histogram) -> Option<u64>| {
        let cells = sizes.map(|sizes| or_nothing(of(sizes).map(bytes)));
        std::iter::once(name.to_string()).chain(cells).collect::<Vec<String>>()
    };
    table.add_row(of_sizes("request size, mean", &|of| of.mean().map(|mean| mean as u64)));
    for (name, share) in [("  median", 0.5), ("  90 % up to", 0.9), ("  99 % up to", 0.99)] {
        table.add_row(of_sizes(name, &|of| of.percentile(share)));
    }
    table.add_row(of_sizes("  largest", &Histogram::max));
    table.add_row(volume_size(whole));
    table.add_row(one("reads to writes, requests", decimal(whole.read_write_ratio_requests())));
    table.add_row(one("reads to writes, bytes", decimal(whole.read_write_ratio_bytes())));
    for (name, amount) in [("flushes", whole.flushes), ("trims", whole.trims)] {
        if amount.requests > 0 {
            table.add_row(one(name, count(amount.requests)));
        }
    }
    if whole.trims.bytes > 0 {
        table.add_row(one("bytes trimmed", bytes(whole.trims.bytes)));
    }
    table::align_numbers(&mut table);
    table
}

fn volume_size(whole: &Characteristics) -> [String; 4] {
    let name = if whole.volumes > 1 { "volume sizes, sum" } else { "volume size" };
    one(name, whole.size.to_string())
}

/// A row whose only value stands in the last column.
fn one(name: &str, value: String) -> [String; 4] {
    [name.to_string(), String::new(), String::new(), value]
}

fn popularity(whole: &Characteristics) -> Table {
    let chunks = format!("{BIN} chunks");
    let mut table = table::plain([
        "Popularity".to_string(),
        format!("{PAGE} pages\nby accesses"),
        format!("{chunks}\nby accesses"),
        format!("{chunks}\nby bytes"),
    ]);
    let tops = [whole.page_accesses, whole.chunk_accesses, whole.chunk_bytes];
    let row = |name: &str, of: fn(&Concentration) -> Option<f64>| {
        let cells = tops.map(|top| percent(of(&top)));
        std::iter::once(name.to_string()).chain(cells).collect::<Vec<String>>()
    };
    let pages = count(whole.footprint.div_floor(PAGE));
    table.add_row(["touched".to_string(), pages, count(whole.chunks)]);
    table.add_row(row("on the top 5 % of those", |top| top.top_5));
    table.add_row(row("on the top 20 % of those", |top| top.top_20));
    if let Some(timing) = &whole.timing {
        let (page, chunk) = (timing.page_reaccess, timing.chunk_reaccess);
        let again = format!("accessed again within {REACCESS_WITHIN}");
        table.add_row([again, percent(page.of_accesses), percent(chunk.of_accesses)]);
        let returns = "  of accesses but the first".to_string();
        table.add_row([returns, percent(page.of_returns), percent(chunk.of_returns)]);
        let in_chunks = |name: &str, value: String| [name.to_string(), String::new(), value];
        table.add_row(in_chunks("fewer than 10 accesses a day", percent(timing.rare_chunks)));
        table.add_row(in_chunks("1,000 accesses a day or more", percent(timing.frequent_chunks)));
        let mean = decimal_text(timing.active_chunks_mean);
        table.add_row(in_chunks("active in 5 min, mean", mean));
        table.add_row(in_chunks("active in 5 min, most", count(timing.active_chunks_max)));
    }
    table::align_numbers(&mut table);
    table
}

fn order_and_arrivals(whole: &Characteristics) -> Table {
    let mut table = table::plain(["Order and arrivals", ""]);
    let order = whole.sequentiality;
    let near = format!("sequential: within {NEAR} of the one before");
    table.add_row([near, percent(order.near)]);
    table.add_row(["  exactly where the one before ended".to_string(), percent(order.contiguous)]);
    match &whole.timing {
        Some(timing) => arrivals(&mut table, whole, timing),
        None => {
            table.add_row(["times", "none in this trace"]);
        }
    }
    if whole.responses.count() > 0 {
        times(&mut table, "response time", &whole.responses);
        if whole.responses.count() < whole.requests() {
            table.add_row(["  recorded for".to_string(), count(whole.responses.count())]);
        }
    }
    table::align_numbers(&mut table);
    table
}

fn arrivals(table: &mut Table, whole: &Characteristics, timing: &Timing) {
    let rate = whole.requests() as f64 / timing.span.as_secs_f64();
    let rate = (timing.span.0 > 0).then(|| format!("{} /s", decimal_text(rate)));
    table.add_row(["arrivals, mean".to_string(), or_nothing(rate)]);
    let most = format!("{} /s", count(timing.per_second_max));
    table.add_row(["  busiest second".to_string(), most]);
    times(table, "time between requests", &timing.gaps);
    let index = decimal(timing.index_of_dispersion);
    table.add_row(["index of dispersion of these (Poisson: 1)".to_string(), index]);
    let counts = decimal(timing.per_second_variance_over_mean);
    table.add_row(["arrivals a second, variance over mean".to_string(), counts]);
}

/// Rows of a distribution of times.
fn times(table: &mut Table, name: &str, of: &Histogram) {
    let time = |value: Option<u64>| or_nothing(value.map(|ns| Nanos(ns).to_string()));
    table.add_row([format!("{name}, mean"), time(of.mean().map(|mean| mean as u64))]);
    for (name, share) in [("  median", 0.5), ("  90 % up to", 0.9), ("  99 % up to", 0.99)] {
        table.add_row([name.to_string(), time(of.percentile(share))]);
    }
    table.add_row(["  longest".to_string(), time(of.max())]);
}

fn sizes(whole: &Characteristics) -> Table {
    let mut table = table::plain(["Request sizes", "reads", "writes", ""]);
    let all = whole.sizes();
    let counted = |of: &Histogram, power: u64| {
        let found = of.powers_of_two().into_iter().find(|(at, _)| *at == power);
        found.map_or(0, |(_, count)| count)
    };
    for (power, sum) in all.powers_of_two() {
        let share = sum as f64 / all.count() as f64;
        table.add_row([
            format!("{} to below {}", Bytes(power), Bytes(power.saturating_mul(2))),
            count(counted(&whole.read_sizes, power)),
            count(counted(&whole.write_sizes, power)),
            format!("{:>7} {}", percent(Some(share)), bar(share)),
        ]);
    }
    table::align_numbers(&mut table);
    if let Some(bars) = table.column_mut(3) {
        bars.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    table
}

fn bar(share: f64) -> String {
    "█".repeat((share * BAR_CELLS).round() as usize)
}

/// Columns of the volumes' table: heading, and how a volume fills it.
type Column = (&'static str, fn(&Characteristics) -> String);

/// Those of Table 3.3 of Ge 2017 and of Table 12 of Tai 2015, but for the hit ratio.
const COLUMNS: [Column; 13] = [
    ("requests", |of| count(of.requests())),
    ("read", |of| bytes(of.reads.bytes)),
    ("written", |of| bytes(of.writes.bytes)),
    ("R/W", |of| decimal(of.read_write_ratio_requests())),
    ("volume\nsize", |of| of.size.to_string()),
    ("working\nset", |of| of.footprint.to_string()),
    ("IO on\ntop 5 %", |of| hundredths(of.chunk_accesses.top_5)),
    ("IO on\ntop 20 %", |of| hundredths(of.chunk_accesses.top_20)),
    ("data on\ntop 5 %", |of| hundredths(of.chunk_bytes.top_5)),
    ("data on\ntop 20 %", |of| hundredths(of.chunk_bytes.top_20)),
    ("pages\nagain", |of| hundredths(page_again(of))),
    ("chunks\nagain", |of| hundredths(chunk_again(of))),
    ("seq.", |of| hundredths(of.sequentiality.near)),
];

/// Meaning of the short headings of the volumes' table.
fn legend() -> String {
    [
        " R/W: reads to writes. Behind the sizes, in per cent:".to_string(),
        format!(" IO, data: accesses and bytes on the most popular {BIN} chunks;"),
        format!(
            " again: accesses to the same page or chunk within {REACCESS_WITHIN} of the one before;"
        ),
        format!(" seq.: requests within {NEAR} of the one before."),
    ]
    .join("\n")
}

fn page_again(of: &Characteristics) -> Option<f64> {
    of.timing.as_ref().and_then(|timing| timing.page_reaccess.of_accesses)
}

fn chunk_again(of: &Characteristics) -> Option<f64> {
    of.timing.as_ref().and_then(|timing| timing.chunk_reaccess.of_accesses)
}

fn volume_table(report: &StatReport) -> Table {
    let headings = COLUMNS.map(|(heading, _)| heading);
    let mut table = table::plain(std::iter::once("Volume").chain(headings));
    for (name, volume) in report.volumes() {
        let cells = COLUMNS.map(|(_, cell)| cell(volume));
        table.add_row(std::iter::once(name.to_string()).chain(cells));
    }
    if report.found.whole.volumes > 1 {
        let cells = COLUMNS.map(|(_, cell)| cell(&report.found.whole));
        table.add_row(std::iter::once("all".to_string()).chain(cells));
    }
    table::align_numbers(&mut table);
    table
}

fn bytes(number: u64) -> String {
    Bytes(number).to_string()
}

fn or_nothing(text: Option<String>) -> String {
    text.unwrap_or_else(|| NOTHING.to_string())
}

fn percent(share: Option<f64>) -> String {
    or_nothing(share.map(|share| format!("{:.1} %", share * 100.0)))
}

/// A percentage in a column whose heading says that it is one.
fn hundredths(share: Option<f64>) -> String {
    or_nothing(share.map(|share| format!("{:.1}", share * 100.0)))
}

fn decimal(number: Option<f64>) -> String {
    or_nothing(number.map(decimal_text))
}

/// A number with three digits at least.
fn decimal_text(number: f64) -> String {
    if number < 100.0 { format!("{number:.2}") } else { count(number.round() as u64) }
}
