//! The report as Markdown: reads well in a terminal and in a repository.

use super::stats::INTERVAL_TRACES_MIN;
use super::{EqualWrites, Measure, Paired, PolicyReport, SizeReport, SweepReport};
use thermocline_charts::format::{Quantity, count};
use thermocline_units::text::counted;

/// A table: its rows of cells, the first of which is the heading.
struct Grid(Vec<Vec<String>>);

impl Grid {
    fn new(heading: &[&str]) -> Grid {
        Grid(vec![heading.iter().map(|text| text.to_string()).collect()])
    }

    /// Columns as wide as their widest cell; all but the first to the right.
    fn to_markdown(&self) -> String {
        let columns = self.0.first().map_or(0, Vec::len);
        let width = |i: usize| self.0.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(|i| width(i).max(3)).collect();
        let mut text = String::new();
        for (n, row) in self.0.iter().enumerate() {
            let cells = row.iter().enumerate().map(|(i, cell)| match i {
                0 => format!(" {cell:<0$} |", widths[i]),
                _ => format!(" {cell:>0$} |", widths[i]),
            });
            text.push_str(&format!("|{}\n", cells.collect::<String>()));
            if n == 0 {
                let rules = widths.iter().enumerate().map(|(i, width)| match i {
                    0 => format!("{}|", "-".repeat(width + 2)),
                    _ => format!("{}:|", "-".repeat(width + 1)),
                });
                text.push_str(&format!("|{}\n", rules.collect::<String>()));
            }
        }
        text + "\n"
    }
}

impl Measure {
    /// A value of it, with its unit.
    pub(super) fn show(self, value: f64) -> String {
        match self {
            _ if self.is_share() => Quantity::Share.show(value),
            Measure::Cost | Measure::DiskHead => Quantity::Seconds.show(value),
            _ => Quantity::Plain.show(value),
        }
    }
}

/// A saving in percent with its sign.
pub(super) fn percent(part: f64) -> String {
    format!("{:+.1} %", part * 100.0)
}

impl SweepReport {
    /// Facts about the sweep in a sentence or two.
    pub(super) fn lede(&self) -> String {
        let mut text = format!(
            "{} of {} jobs done, {} results are errors. Measure: {}; less is better. Baseline: {}.",
            count(self.jobs_done),
            count(self.jobs),
            count(self.errors),
            self.measure,
            self.baseline
        );
        if self.jobs_done < self.jobs {
            text.push_str(&format!(
                " {} jobs have not run yet, or could not read their traces; the command of the \
                 sweep runs them. Its figures may still change.",
                count(self.jobs - self.jobs_done)
            ));
        }
        let sizes = self.families.iter().flat_map(|family| &family.sizes);
        let mut saved = sizes.flat_map(|size| &size.policies).filter_map(|row| row.saved.as_ref());
        if saved.any(|saved| saved.low.is_none()) {
            let few = INTERVAL_TRACES_MIN;
            text.push_str(&format!(" Of fewer than {few} traces no interval can be said."));
        }
        text
    }

    /// The report as Markdown.
    pub fn to_markdown(&self) -> String {
        let title = if self.title.is_empty() { "Sweep" } else { &self.title };
        let mut text = format!("# {title}\n\n{}\n\n", self.lede());
        for family in &self.families {
            let traces = counted(family.traces, "trace");
            text.push_str(&format!("## {}: {traces}\n\n", family.family));
            for size in &family.sizes {
                text.push_str(&format!("Size {}:\n\n{}", size.size, self.table(size)));
                text.push_str(&self.equal_table(size));
            }
        }
        if !self.errors_shown.is_empty() {
            text.push_str(&format!("## Errors ({})\n\n", count(self.errors)));
            for (at, error) in &self.errors_shown {
                text.push_str(&format!("- {at}: {error}\n"));
            }
        }
        text.trim_end().to_string() + "\n"
    }

    fn table(&self, size: &SizeReport) -> String {
        let mut grid = Grid::new(&POLICY_HEADS);
        grid.0.extend(size.policies.iter().map(|policy| self.policy_cells(policy).to_vec()));
        grid.to_markdown()
    }

    /// The cells of a policy under [`POLICY_HEADS`].
    pub(super) fn policy_cells(&self, policy: &PolicyReport) -> [String; 12] {
        let show = |value| self.measure.show(value);
        let [mean, interval, p10, worst, better, worse] = saved_cells(policy.saved.as_ref());
        let bound = if policy.bound { " (bound)" } else { "" };
        [
            format!("{}{bound}", policy.policy),
            count(policy.traces),
            policy.rank.map_or(String::from("-"), |rank| format!("{rank:.2}")),
            show(policy.mean),
            show(policy.p90),
            show(policy.worst),
            mean,
            interval,
            p10,
            worst,
            format!("{better}/{worse}"),
            policy.processor_ns.map_or(String::from("-"), |ns| format!("{ns:.0} ns")),
        ]
    }

    fn equal_table(&self, size: &SizeReport) -> String {
        let mut grid = Grid::new(&EQUAL_HEADS);
        grid.0.extend(size.equal_writes.iter().map(|row| equal_cells(row).to_vec()));
        let part = Quantity::Share.show(self.flash_writes);
        format!(
            "I/O cost at flash writes of at most {part} of the baseline's:\n\n{}",
            grid.to_markdown()
        )
    }
}

/// Headings of the table of policies.
pub(super) const POLICY_HEADS: [&str; 12] = [
    "policy",
    "traces",
    "rank",
    "mean",
    "P90",
    "worst",
    "saved",
    "95 %",
    "saved P10",
    "saved worst",
    "better/worse",
    "processor",
];

/// Headings of the table at equal flash writes.
pub(super) const EQUAL_HEADS: [&str; 8] =
    ["policy", "variants", "traces", "writes more", "I/O cost", "saved", "95 %", "better/worse"];

fn saved_cells(saved: Option<&Paired>) -> [String; 6] {
    let Some(saved) = saved else { return std::array::from_fn(|_| "-".to_string()) };
    [
        percent(saved.mean),
        saved.low.zip(saved.high).map_or(String::from("-"), |(low, high)| {
            format!("{} to {}", percent(low), percent(high))
        }),
        percent(saved.p10),
        percent(saved.worst),
        count(saved.better),
        count(saved.worse),
    ]
}

/// The cells of a policy under [`EQUAL_HEADS`].
pub(super) fn equal_cells(row: &EqualWrites) -> [String; 8] {
    let [mean, interval, _, _, better, worse] = saved_cells(row.saved.as_ref());
    [
        row.policy.clone(),
        count(row.variants),
        count(row.traces),
        count(row.writes_more),
        row.cost_s.map_or(String::from("-"), |cost| Quantity::Seconds.show(cost)),
        mean,
        interval,
        format!("{better}/{worse}"),
    ]
}
