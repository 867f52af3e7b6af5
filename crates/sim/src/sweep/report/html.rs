//! The report as a page: means by size, savings trace by trace, all tables.

use super::text::{EQUAL_HEADS, POLICY_HEADS, equal_cells};
use super::{FamilyReport, Measure, SizeReport, SweepReport};
use thermocline_charts::format::Quantity;
use thermocline_charts::{
    Axis, BarChart, BarSeries, Cell, LineChart, Page, Series, Stacking, Table,
};
use thermocline_units::text::counted;

impl SweepReport {
    /// The report as one self-contained HTML page; `command` made it.
    pub fn to_html(&self, command: &str) -> String {
        let title = if self.title.is_empty() { "Sweep" } else { &self.title };
        let mut page = Page::new(title).lede(self.lede()).paragraph(
            "Saved is the part of the baseline's value that a policy saves on a trace; where it \
             costs more, minus the part of its own value that the baseline saves. Seeds of a trace \
             are averaged first. The interval is of the mean saving, by bootstrap over traces.",
        );
        for family in &self.families {
            page = self.family(page, family);
        }
        if !self.errors_shown.is_empty() {
            let mut table = Table::new("Errors", ["where", "error"]);
            for (at, error) in &self.errors_shown {
                table.row([Cell::text(at), Cell::text(error)]);
            }
            page = page.section("Errors").table(&table);
        }
        page.made_by(&self.version, command).to_html()
    }

    fn family(&self, page: Page, family: &FamilyReport) -> Page {
        let name = &family.family;
        let mut page = page.section(&format!("{name}: {}", counted(family.traces, "trace")));
        page = page.chart(&self.means(family));
        for size in &family.sizes {
            if size.savings.iter().any(|(_, savings)| savings.len() > 1) {
                page = page.chart(&self.savings(name, size));
            }
            page = self.tables(page, size);
        }
        page
    }

    /// Bars of the mean, a group a size.
    fn means(&self, family: &FamilyReport) -> BarChart {
        let mut policies: Vec<&str> = Vec::new();
        for policy in family.sizes.iter().flat_map(|size| &size.policies) {
            if !policies.contains(&policy.policy.as_str()) {
                policies.push(&policy.policy);
            }
        }
        // A policy without results has no bar: the lowest one would look best.
        let value = |size: &SizeReport, name: &str| {
            size.policies.iter().find(|policy| policy.policy == name).map_or(f64::NAN, |p| p.mean)
        };
        let bars = |name: &str| BarSeries {
            name: name.to_string(),
            values: family.sizes.iter().map(|size| value(size, name)).collect(),
        };
        BarChart {
            title: format!("{}: {}", family.family, self.measure),
            note: "mean over traces; less is better".to_string(),
            y: Axis::linear(self.measure.to_string(), quantity(self.measure)),
            group_label: "cache size".to_string(),
            groups: family.sizes.iter().map(|size| size.size.clone()).collect(),
            series: policies.into_iter().map(bars).collect(),
            stacking: Stacking::Beside,
        }
    }

    /// Savings of every policy over the part of the traces that save less.
    fn savings(&self, family: &str, size: &SizeReport) -> LineChart {
        let series = size.savings.iter().map(|(policy, savings)| {
            let last = savings.len().max(2) - 1;
            let point = |(i, saving): (usize, &f64)| (i as f64 / last as f64, *saving);
            Series::new(policy, savings.iter().enumerate().map(point).collect())
        });
        LineChart {
            title: format!("{family}, {}: saved against {}", size.size, self.baseline),
            note: "every trace, the least saving at the left".to_string(),
            x: Axis::linear("part of the traces", Quantity::Share).between(0.0, 1.0),
            y: Axis::linear("saved", Quantity::Share),
            series: series.collect(),
        }
    }

    fn tables(&self, page: Page, size: &SizeReport) -> Page {
        let mut table = Table::new(format!("Size {}", size.size), POLICY_HEADS);
        for policy in &size.policies {
            table.row(self.policy_cells(policy).map(Cell::text));
        }
        let part = Quantity::Share.show(self.flash_writes);
        let title = format!("I/O cost at flash writes of at most {part} of the baseline's");
        let mut equal = Table::new(title, EQUAL_HEADS);
        for row in &size.equal_writes {
            equal.row(equal_cells(row).map(Cell::text));
        }
        page.table(&table).table(&equal)
    }
}

fn quantity(measure: Measure) -> Quantity {
    match measure {
        _ if measure.is_share() => Quantity::Share,
        Measure::Cost | Measure::DiskHead => Quantity::Seconds,
        _ => Quantity::Plain,
    }
}
