//! An outcome as a page: each panel as bars and as a table, and the verdicts.

use super::{Measure, Outcome, Panel};
use crate::verdicts;
use thermocline_charts::format::Quantity;
use thermocline_charts::{Axis, BarChart, BarSeries, Cell, Page, Stacking, Table};

impl Outcome {
    /// The outcome as one self-contained HTML page; `command` made it.
    pub fn to_html(&self, version: &str, command: &str) -> String {
        let mut page = Page::new(&self.title).lede(format!("{}. {}", self.source, self.about));
        for process in &self.processes {
            page = page.paragraph(process);
        }
        for panel in &self.panels {
            page = page.section(&panel.title).paragraph(&format!("{}. {}", panel.size, panel.note));
            for column in 0..panel.columns.len() {
                page = page.chart(&panel.bars(column));
            }
            page = page.table(&panel.table());
        }
        let verdicts = verdicts::table("", self.verdicts());
        page.section("Expected features").table(&verdicts).made_by(version, command).to_html()
    }
}

impl Panel {
    /// One column: a group a policy, our figure and the source's side by side.
    fn bars(&self, column: usize) -> BarChart {
        let of_ours = self.lines.iter().map(|line| self.means(line)[column].mean).collect();
        let mut series = vec![BarSeries { name: "ours".to_string(), values: of_ours }];
        if self.lines.iter().any(|line| line.published[column].is_some()) {
            let figure = |line: &super::Line| line.published[column].unwrap_or(f64::NAN);
            let values = self.lines.iter().map(figure).collect();
            series.push(BarSeries { name: "the source's".to_string(), values });
        }
        BarChart {
            title: format!("{}: {}", self.title, self.columns[column]),
            note: String::new(),
            y: Axis::linear(self.measure.name(), Quantity::Seconds),
            group_label: String::new(),
            groups: self.lines.iter().map(|line| line.name.clone()).collect(),
            series,
            stacking: Stacking::Beside,
        }
    }

    fn table(&self) -> Table {
        let title = match self.measure {
            Measure::Wait => "Mean wait, s (the source's)",
            Measure::Response => "Mean response, ms, and 99th percentile",
        };
        let heads = std::iter::once("").chain(self.columns.iter().map(String::as_str));
        let mut table = Table::new(title, heads);
        for line in &self.lines {
            let name = std::iter::once(Cell::text(&line.name));
            table.row(name.chain(self.cells(line).into_iter().map(Cell::text)));
        }
        table
    }
}
