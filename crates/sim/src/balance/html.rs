//! The report of `lab balance` as a page: waits, tails, how busy each site was, the full table.

use super::report::{BalanceReport, Row};
use thermocline_charts::format::Quantity;
use thermocline_charts::{Axis, BarChart, BarSeries, Cell, Page, Stacking, Table};

/// A column of the table: heading, kind, value.
type Column = (&'static str, Quantity, fn(&Row) -> f64);

const COLUMNS: [Column; 12] = [
    ("mean wait", Quantity::Seconds, |row| row.wait_s.mean),
    ("± 95 %", Quantity::Seconds, |row| row.wait_s.ci95),
    ("times the bound", Quantity::Plain, |row| row.times_bound.mean),
    ("p50 wait", Quantity::Seconds, |row| row.wait_p50_s.mean),
    ("p99 wait", Quantity::Seconds, |row| row.wait_p99_s.mean),
    ("mean response", Quantity::Seconds, |row| row.response_s.mean),
    ("p50 response", Quantity::Seconds, |row| row.response_p50_s.mean),
    ("p99 response", Quantity::Seconds, |row| row.response_p99_s.mean),
    ("least busy", Quantity::Share, |row| row.busy_range().0),
    ("most busy", Quantity::Share, |row| row.busy_range().1),
    ("bursts known", Quantity::Share, |row| row.bursts_known.unwrap_or(f64::NAN)),
    ("candidates", Quantity::Plain, |row| row.candidates.unwrap_or(f64::NAN)),
];

impl BalanceReport {
    /// The report as one self-contained HTML page; `command` made it.
    pub fn to_html(&self, command: &str) -> String {
        let mut page = Page::new("Balancers under this load").lede(self.about.join(". ") + ".");
        page = page.section("How long requests wait").chart(&self.waits());
        page = page.chart(&self.tails());
        page = page.section("How busy sites are").chart(&self.busy());
        page = page.section("All figures").table(&self.table());
        page.made_by(self.version, command).to_html()
    }

    fn bars(&self, title: &str, series: Vec<BarSeries>, y: Axis) -> BarChart {
        BarChart {
            title: title.to_string(),
            note: "means over seeds; bounds first".to_string(),
            y,
            group_label: String::new(),
            groups: self.rows.iter().map(|row| row.policy.clone()).collect(),
            series,
            stacking: Stacking::Beside,
        }
    }

    fn series(&self, name: &str, of: fn(&Row) -> f64) -> BarSeries {
        BarSeries { name: name.to_string(), values: self.rows.iter().map(of).collect() }
    }

    fn waits(&self) -> BarChart {
        let series = vec![
            self.series("mean wait", |row| row.wait_s.mean),
            self.series("mean response", |row| row.response_s.mean),
        ];
        self.bars("Mean wait and response", series, Axis::linear("time", Quantity::Seconds))
    }

    fn tails(&self) -> BarChart {
        let series = vec![
            self.series("p50 wait", |row| row.wait_p50_s.mean),
            self.series("p99 wait", |row| row.wait_p99_s.mean),
        ];
        self.bars("Median and tail of waits", series, Axis::linear("wait", Quantity::Seconds))
    }

    fn busy(&self) -> BarChart {
        let series = vec![
            self.series("least busy site", |row| row.busy_range().0),
            self.series("most busy site", |row| row.busy_range().1),
        ];
        self.bars("Busy share of the time", series, Axis::linear("busy", Quantity::Share))
    }

    fn table(&self) -> Table {
        let heads = std::iter::once("policy").chain(COLUMNS.iter().map(|(head, ..)| *head));
        let mut table = Table::new("Waits and responses", heads);
        for row in &self.rows {
            let name =
                if row.bound { format!("{} (bound)", row.policy) } else { row.policy.clone() };
            let cells = COLUMNS.iter().map(|(_, kind, of)| Cell::number(*kind, of(row)));
            table.row(std::iter::once(Cell::text(name)).chain(cells));
        }
        table
    }
}
