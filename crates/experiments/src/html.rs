//! An outcome as a page: the source's figures, redrawn from our figures, and the verdicts.

use super::{Outcome, Panel, verdicts};
use thermocline_charts::format::Quantity;
use thermocline_charts::{Axis, BarChart, BarSeries, LineChart, Page, Series, Stacking};
use thermocline_sim::lab::Row;

impl Outcome {
    /// The outcome as one self-contained HTML page; `command` made it.
    pub fn to_html(&self, version: &str, command: &str) -> String {
        let traces = if self.published_traces {
            "The source's own traces."
        } else {
            "Stand-in traces: the source's own were not given, so only the shape can be compared."
        };
        let mut page = Page::new(&self.title).lede(format!("{}. {traces}", self.source));
        for panel in &self.panels {
            page = page
                .section(&panel.workload)
                .chart(&panel.hit_ratios())
                .chart(&panel.costs("as the source charges it", |row| row.cost_source_s))
                .chart(&panel.costs("at real sizes", |row| row.cost_real_s))
                .table(&verdicts::table("Expected features", &panel.verdicts));
        }
        page.made_by(version, command).to_html()
    }
}

impl Panel {
    fn distinct<'a>(&'a self, of: impl Fn(&'a Row) -> &'a str) -> Vec<&'a str> {
        let mut found: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !found.contains(&of(row)) {
                found.push(of(row));
            }
        }
        found
    }

    /// Figures 20 and 24 of Tai 2015.
    fn hit_ratios(&self) -> LineChart {
        let curve = |policy: &&str| {
            let rows = self.rows.iter().filter(|row| row.policy == *policy);
            let points = rows.map(|row| (row.capacity_bytes as f64, row.request_hit_ratio));
            Series::new(*policy, points.collect())
        };
        LineChart {
            title: "Requests served by flash".to_string(),
            note: format!("epochs of {}", self.epoch),
            x: Axis::log("flash", Quantity::Bytes),
            y: Axis::linear("share of requests", Quantity::Share),
            series: self.distinct(|row| &row.policy).iter().map(curve).collect(),
        }
    }

    /// Figures 21 and 25 of Tai 2015.
    fn costs(&self, accounting: &str, cost: fn(&Row) -> f64) -> BarChart {
        let bars = |policy: &&str| BarSeries {
            name: policy.to_string(),
            values: self.rows.iter().filter(|row| row.policy == *policy).map(cost).collect(),
        };
        BarChart {
            title: format!("I/O cost, {accounting}"),
            note: String::new(),
            y: Axis::linear("device time", Quantity::Seconds),
            group_label: "flash".to_string(),
            groups: self.distinct(|row| &row.size).iter().map(ToString::to_string).collect(),
            series: self.distinct(|row| &row.policy).iter().map(bars).collect(),
            stacking: Stacking::Beside,
        }
    }
}
