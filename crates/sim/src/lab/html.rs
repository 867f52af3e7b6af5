//! The report of `lab cache` as a page: curves over size where there are several, and the full
//! table.

use super::curve::Curves;
use super::results::{Report, Row};
use thermocline_charts::format::{Quantity, bytes};
use thermocline_charts::{
    Axis, BarChart, BarSeries, Cell, LineChart, Page, Series, Stacking, Table,
};
use thermocline_units::text::counted;

/// Function that gives a row's value in a chart.
type Measure = fn(&Row) -> f64;

/// A column of the table: heading, kind, value.
type Column = (&'static str, Quantity, Measure);

/// Curves of a chart that can be told apart; of more, a page shows the best and offers the others.
const SHOWN_MAX: usize = 10;

const COLUMNS: [Column; 12] = [
    ("hit ratio, requests", Quantity::Share, |row| row.request_hit_ratio),
    ("lines", Quantity::Share, |row| row.line_hit_ratio),
    ("bytes", Quantity::Share, |row| row.byte_hit_ratio),
    ("reads", Quantity::Share, |row| row.reads.request_hit_ratio()),
    ("writes", Quantity::Share, |row| row.writes.request_hit_ratio()),
    ("I/O cost as in Tai 2015", Quantity::Seconds, |row| row.cost_source_s),
    ("I/O cost at real sizes", Quantity::Seconds, |row| row.cost_real_s),
    ("disk head busy", Quantity::Seconds, |row| row.disk_head_s),
    ("flash writes", Quantity::Bytes, |row| row.flash_written_bytes as f64),
    ("moved", Quantity::Bytes, |row| row.moved_bytes as f64),
    ("written back", Quantity::Count, |row| row.written_back as f64),
    ("policy memory", Quantity::Bytes, |row| {
        (row.memory_resident_bytes + row.memory_index_bytes) as f64
    }),
];

impl Report {
    /// The report as one self-contained HTML page; `command` made it.
    pub fn to_html(&self, command: &str) -> String {
        let mut page = Page::new("Which cache, at which size, at what cost")
            .lede(self.lede())
            .section("Hit ratio");
        page = self
            .chart(page, "Requests served by flash", Quantity::Share, |row| row.request_hit_ratio);
        page = self.chart(page, "Lines served by flash", Quantity::Share, |row| row.line_hit_ratio);
        page = page.section("I/O cost").paragraph(
            "The source charges caches in operations of 4 KiB and flash managers in operations of \
             128 KiB. At real sizes both are charged what the devices would do.",
        );
        page = self.chart(page, "I/O cost at real sizes", Quantity::Seconds, |row| row.cost_real_s);
        page = self.chart(page, "I/O cost as the source charges it", Quantity::Seconds, |row| {
            row.cost_source_s
        });
        page = page.section("Wear");
        page = self
            .chart(page, "Flash written", Quantity::Bytes, |row| row.flash_written_bytes as f64);
        page = page.section("All figures");
        for size in self.sizes() {
            page = page.table(&self.table(size));
        }
        if !self.failures.is_empty() {
            let mut table = Table::new("Results that are missing", ["policy", "size", "error"]);
            for failed in &self.failures {
                let cells = [&failed.policy, &failed.size, &failed.error];
                table.row(cells.map(Cell::text));
            }
            page = page.table(&table);
        }
        page.made_by(self.version, command).to_html()
    }

    fn lede(&self) -> String {
        let mut lede = format!(
            "{} to {}, {} touched, working set {}; writes go {}. \
             Traces: {}.",
            counted(self.requests, "request"),
            counted(self.volumes, "volume"),
            counted(self.lines, "line"),
            bytes(self.working_set_bytes as f64),
            self.write_mode,
            self.traces.join(", "),
        );
        for repair in self.repairs.iter().chain(&self.notes) {
            lede.push_str(&format!(" Note: {repair}."));
        }
        lede
    }

    /// Bytes are counts where objects are cached.
    fn amount(&self, quantity: Quantity) -> Quantity {
        let counts = self.counts_objects() && quantity == Quantity::Bytes;
        if counts { Quantity::Count } else { quantity }
    }

    fn policies(&self) -> Vec<&str> {
        let mut policies: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !policies.contains(&row.policy.as_str()) {
                policies.push(&row.policy);
            }
        }
        policies
    }

    /// Group of a policy's switch.
    fn group(&self, row: Option<&Row>) -> &'static str {
        match row {
            Some(row) if row.clairvoyant => "bound",
            Some(row) if row.unit_bytes != self.line_bytes.max(1) => "flash managers",
            _ => "caches",
        }
    }

    /// The policies whose curves are seen from the start: all, or of many the bound, LRU, and those
    /// that served most requests at any size.
    fn shown(&self) -> Vec<&str> {
        let mut policies = self.policies();
        if policies.len() <= SHOWN_MAX {
            return policies;
        }
        let rank = |policy: &&str| {
            let rows = || self.rows.iter().filter(|row| row.policy == **policy);
            let always = rows().any(|row| row.clairvoyant) || *policy == "lru";
            let hits: f64 = rows().map(|row| row.request_hit_ratio).sum();
            if always { f64::INFINITY } else { hits }
        };
        policies.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        policies.truncate(SHOWN_MAX);
        policies
    }

    /// Curves over the size; bars when there is only one size.
    fn chart(&self, page: Page, title: &str, quantity: Quantity, measure: Measure) -> Page {
        let y = Axis::linear(unit_of(quantity), quantity);
        let sizes = self.sizes();
        if let [size] = sizes.as_slice() {
            return page.chart(&self.bars(title, size, y, measure));
        }
        let shown = self.shown();
        let series = self.policies().into_iter().map(|policy| {
            let rows = || self.rows.iter().filter(move |row| row.policy == policy);
            let points = rows().map(|row| (row.capacity_bytes as f64, measure(row))).collect();
            let shown = shown.contains(&policy);
            let series = Series::new(policy, points).in_group(self.group(rows().next()), shown);
            if rows().any(|row| row.clairvoyant) { series.as_reference() } else { series }
        });
        page.chart(&LineChart {
            title: title.to_string(),
            note: String::new(),
            x: Axis::log("flash", self.amount(Quantity::Bytes)),
            y,
            series: series.collect(),
        })
    }

    fn bars(&self, title: &str, size: &str, y: Axis, measure: Measure) -> BarChart {
        BarChart {
            title: title.to_string(),
            note: format!("flash of {size}"),
            y,
            group_label: String::new(),
            groups: self.rows.iter().map(|row| row.policy.clone()).collect(),
            series: vec![BarSeries {
                name: title.to_string(),
                values: self.rows.iter().map(measure).collect(),
            }],
            stacking: Stacking::Beside,
        }
    }

    fn table(&self, size: &str) -> Table {
        let heads = std::iter::once("policy").chain(COLUMNS.iter().map(|(head, ..)| *head));
        let mut table = Table::new(format!("Flash of {size}"), heads);
        for row in self.rows.iter().filter(|row| row.size == size) {
            let cells = COLUMNS.iter().map(|(_, kind, of)| Cell::number(*kind, of(row)));
            table.row(std::iter::once(Cell::text(&row.policy)).chain(cells));
        }
        table
    }
}

/// Unit of a vertical axis.
fn unit_of(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Share => "share of all",
        Quantity::Seconds => "device time",
        Quantity::Bytes => "bytes",
        Quantity::Count | Quantity::Plain => "",
    }
}

/// Miss-ratio curves as one self-contained HTML page; `command` made it.
pub fn curves_html(curves: &Curves, version: &str, command: &str) -> String {
    let series = curves.curves.iter().map(|curve| {
        let points = || curve.points.iter();
        let series =
            Series::new(&curve.policy, points().map(|p| (p.bytes as f64, p.miss_ratio)).collect());
        series.with_errors(points().map(|p| p.error).collect())
    });
    let chart = LineChart {
        title: "Miss ratio by line".to_string(),
        note: curves.made_from(),
        x: Axis::log("cache", Quantity::Bytes),
        y: Axis::linear("misses", Quantity::Share).between(0.0, 1.0),
        series: series.collect(),
    };
    let mut page = Page::new("Miss-ratio curves").lede(curves.made_from()).chart(&chart);
    if curves.rate < 1.0 {
        page = page.paragraph(
            "Bars show where the true ratio lies in 95 of 100 samples, as far as the sample can \
             tell.",
        );
    }
    let mut table = Table::new("All points", ["policy", "cache", "misses", "error"]);
    for curve in &curves.curves {
        for point in &curve.points {
            table.row([
                Cell::text(&curve.policy),
                Cell::number(Quantity::Bytes, point.bytes as f64),
                Cell::number(Quantity::Share, point.miss_ratio),
                Cell::number(Quantity::Share, point.error),
            ]);
        }
    }
    page.table(&table).made_by(version, command).to_html()
}
