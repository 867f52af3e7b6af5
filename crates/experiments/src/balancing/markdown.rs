//! An outcome as Markdown: readable on a terminal and kept beside the experiment.

use super::{Line, Measure, Outcome, Panel};
use crate::verdicts;
use std::fmt::Write;
use thermocline_sim::balance::Estimate;

impl Outcome {
    /// The whole outcome as Markdown.
    pub fn to_markdown(&self) -> String {
        let mut out = String::new();
        self.write(&mut out).expect("a String takes every text");
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "# {}\n\nSource: {}.\n\n{}\n", self.title, self.source, self.about.trim())?;
        self.processes.iter().try_for_each(|process| writeln!(out, "- {process}"))?;
        self.panels.iter().try_for_each(|panel| panel.write(out))?;
        verdicts::sum(out, self.verdicts());
        Ok(())
    }
}

impl Panel {
    fn write(&self, out: &mut String) -> std::fmt::Result {
        let mean = match self.measure {
            Measure::Wait => "Mean wait in seconds",
            Measure::Response => "Mean response in milliseconds, then the 99th percentile",
        };
        writeln!(out, "\n## {}\n\n{mean}; {}. {}\n", self.title, self.size, self.note)?;
        self.head(out)?;
        for line in &self.lines {
            writeln!(out, "| {} | {} |", line.name, self.cells(line).join(" | "))?;
        }
        self.write_ratios(out)?;
        self.write_known(out)?;
        if !self.verdicts.is_empty() {
            writeln!(out)?;
        }
        verdicts::list(out, &self.verdicts);
        Ok(())
    }
}

impl Panel {
    fn head(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "| | {} |", self.columns.join(" | "))?;
        writeln!(out, "|---|{}", "---:|".repeat(self.columns.len()))
    }

    /// Every line over one of them, seed by seed, and what it probes.
    fn write_ratios(&self, out: &mut String) -> std::fmt::Result {
        let Some(beside) = &self.beside else { return Ok(()) };
        let base = self.line(beside);
        writeln!(
            out,
            "\nThe same mean over that of {beside}, seed by seed, ± the 95 % confidence interval; \
             in brackets probes a request, where there are any.\n"
        )?;
        self.head(out)?;
        for line in self.lines.iter().filter(|line| line.name != *beside) {
            let cell = |column: usize| {
                let ratio = Panel::ratio(line, base, column);
                let probes = line.probes[column];
                let probes = if probes > 0.0 { format!(" ({probes:.1})") } else { String::new() };
                let uncertain = digits(ratio.ci95);
                format!("{} ±{uncertain}{probes}", digits(ratio.mean))
            };
            let cells: Vec<String> = (0..self.columns.len()).map(cell).collect();
            writeln!(out, "| {} | {} |", line.name, cells.join(" | "))?;
        }
        Ok(())
    }

    /// Writes the share of arrivals at which rules were right about bursts.
    fn write_known(&self, out: &mut String) -> std::fmt::Result {
        if !self.bursts_known {
            return Ok(());
        }
        writeln!(out, "\nShare of the arrivals at which a rule was right about the burst, %.\n")?;
        self.head(out)?;
        for line in self.lines.iter().filter(|line| line.bursts_known.iter().any(Option::is_some)) {
            let cell = |share: &Option<f64>| {
                share.map_or(String::new(), |share| format!("{:.1}", share * 100.0))
            };
            let cells: Vec<String> = line.bursts_known.iter().map(cell).collect();
            writeln!(out, "| {} | {} |", line.name, cells.join(" | "))?;
        }
        Ok(())
    }

    /// A line's figures, each with the published one in brackets where there is one.
    pub(super) fn cells(&self, line: &Line) -> Vec<String> {
        let uncertain = |ci95: f64| {
            if ci95.is_finite() { format!(" ±{}", digits(ci95)) } else { String::new() }
        };
        let wait = |(ours, published): (&Estimate, &Option<f64>)| {
            let published = published.map_or(String::new(), |figure| format!(" ({figure})"));
            format!("{}{}{published}", digits(ours.mean), uncertain(ours.ci95))
        };
        let response = |(mean, p99): (&Estimate, &Estimate)| {
            let (ours, ci95) = (digits(mean.mean * 1e3), uncertain(mean.ci95 * 1e3));
            format!("{ours}{ci95}, {}", digits(p99.mean * 1e3))
        };
        match self.measure {
            Measure::Wait => line.wait_s.iter().zip(&line.published).map(wait).collect(),
            Measure::Response => {
                line.response_s.iter().zip(&line.response_p99_s).map(response).collect()
            }
        }
    }
}

/// Three significant digits, or whole seconds.
fn digits(value: f64) -> String {
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}")
}
