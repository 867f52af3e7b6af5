//! An outcome as Markdown: readable on a terminal and kept beside the experiment.

use super::{Line, Outcome, Panel};
use crate::balance::Estimate;
use crate::experiment::verdicts;
use std::fmt::Write;

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
        writeln!(
            out,
            "\n## {}\n\nMean wait in seconds; {}. {}\n",
            self.title, self.size, self.note
        )?;
        writeln!(out, "| | {} |", self.columns.join(" | "))?;
        writeln!(out, "|---|{}", "---:|".repeat(self.columns.len()))?;
        for line in &self.lines {
            writeln!(out, "| {} | {} |", line.name, line.cells().join(" | "))?;
        }
        if !self.verdicts.is_empty() {
            writeln!(out)?;
        }
        verdicts::list(out, &self.verdicts);
        Ok(())
    }
}

impl Line {
    /// Our figures, each with the published one in brackets where there is one.
    pub(super) fn cells(&self) -> Vec<String> {
        let both = self.wait_s.iter().zip(&self.published);
        let cell = |(ours, published): (&Estimate, &Option<f64>)| {
            let uncertain = if ours.ci95.is_finite() {
                format!(" ±{}", digits(ours.ci95))
            } else {
                String::new()
            };
            let published = published.map_or(String::new(), |figure| format!(" ({figure})"));
            format!("{}{uncertain}{published}", digits(ours.mean))
        };
        both.map(cell).collect()
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
