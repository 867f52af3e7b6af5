//! An outcome as a page: each table as bars and as a table, and the verdicts.

use super::{Outcome, Panel, Table};
use crate::verdicts;
use thermocline_charts::format::Quantity;
use thermocline_charts::{Axis, BarChart, BarSeries, Cell, Page, Stacking};

impl Outcome {
    /// The outcome as one self-contained HTML page; `command` made it.
    pub fn to_html(&self, version: &str, command: &str) -> String {
        let mut page = Page::new(&self.title).lede(format!("{}. {}", self.source, self.about));
        for panel in &self.panels {
            page = page.section(&panel.title).paragraph(&panel.note);
            for table in &panel.tables {
                page = page.chart(&table.bars(panel)).table(&table.cells_as_table(panel));
            }
        }
        let verdicts = verdicts::table("", self.verdicts());
        page.section("Expected features").table(&verdicts).made_by(version, command).to_html()
    }
}

impl Table {
    /// Each row as a share of the first, a group a column.
    fn bars(&self, panel: &Panel) -> BarChart {
        let first = &self.lines[0];
        let share = |line: &super::Line| {
            let both = line.values.iter().zip(&first.values);
            both.map(|(value, first)| value.mean / first.mean * 100.0).collect()
        };
        let bars = |line: &super::Line| BarSeries { name: line.name.clone(), values: share(line) };
        BarChart {
            title: format!("{}, percent of `{}`", self.measure.name(), first.name),
            note: String::new(),
            y: Axis::linear("percent", Quantity::Count),
            group_label: String::new(),
            groups: panel.columns.clone(),
            series: self.lines.iter().map(bars).collect(),
            stacking: Stacking::Beside,
        }
    }

    fn cells_as_table(&self, panel: &Panel) -> thermocline_charts::Table {
        let heads = std::iter::once("").chain(panel.columns.iter().map(String::as_str));
        let mut table = thermocline_charts::Table::new(self.measure.heading(), heads);
        for line in &self.lines {
            let name = std::iter::once(Cell::text(&line.name));
            table.row(name.chain(self.cells(line).into_iter().map(Cell::text)));
        }
        table
    }
}
