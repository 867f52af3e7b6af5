//! An outcome as a page: the source's tables, its Figure 16 redrawn from our figures, the verdicts.

use super::sheets::Sheet;
use super::{Outcome, Point};
use crate::verdicts;
use thermocline_charts::format::Quantity;
use thermocline_charts::{Axis, Cell, LineChart, Page, Series, Table};

impl Outcome {
    /// The outcome as one self-contained HTML page; `command` made it.
    pub fn to_html(&self, version: &str, command: &str) -> String {
        let lede = format!("{}. {}", self.source, self.setup());
        let mut page = Page::new(&self.title).lede(lede);
        for sheet in self.sheets() {
            page = page.section(&sheet.title).table(&sheet.table());
        }
        page = page
            .section("Figure 16, drawn")
            .chart(&self.figure("α of eq. 4", "α, standard deviations", &self.alpha))
            .chart(&self.figure("e of eq. 16", "e, %", &self.e))
            .section("Expected features");
        let verdicts = verdicts::table("", &self.verdicts);
        page.table(&verdicts).made_by(version, command).to_html()
    }

    fn figure(&self, title: &str, x: &str, points: &[Point]) -> LineChart {
        let series = |name: &str, of: &dyn Fn(&Point) -> f64| {
            Series::new(name, points.iter().map(|point| (point.value, of(point))).collect())
        };
        let migrated = |runs: &super::Runs| runs.mean(|run| run.migrated_percent / 100.0);
        LineChart {
            title: title.to_string(),
            note: String::new(),
            x: Axis::linear(x, Quantity::Plain),
            y: Axis::linear("share", Quantity::Share),
            series: vec![
                series("bursty slots migrated", &|point| migrated(&point.lmst)),
                series("response over NMsT's", &|point| self.over_nmst(&point.lmst)),
            ],
        }
    }
}

impl Sheet {
    fn table(&self) -> Table {
        let mut table = Table::new("", self.head.iter().map(String::as_str));
        for row in &self.rows {
            table.row(row.iter().map(Cell::text));
        }
        table
    }
}
