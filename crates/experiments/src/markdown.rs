//! An outcome as Markdown: readable on a terminal and kept beside the experiment.

use super::{Outcome, Panel, verdicts};
use std::fmt::Write;
use thermocline_sim::lab::Row;
use thermocline_units::Bytes;

impl Outcome {
    /// The whole outcome as Markdown.
    pub fn to_markdown(&self) -> String {
        let mut out = String::new();
        let traces = if self.published_traces {
            "the source's own traces"
        } else {
            "stand-in traces: the source's own were not given, so only the shape can be compared"
        };
        line(
            &mut out,
            format_args!("# {}\n\nSource: {}. Replayed: {traces}.", self.title, self.source),
        );
        for panel in &self.panels {
            panel.write(&mut out);
        }
        self.write_figures(&mut out);
        verdicts::sum(&mut out, self.panels.iter().flat_map(|panel| &panel.verdicts));
        out
    }

    /// Writes the source's figures beside ours.
    fn write_figures(&self, out: &mut String) {
        if self.figures.is_empty() {
            return;
        }
        let names: Vec<&str> = self.panels.iter().map(|panel| panel.workload.as_str()).collect();
        line(out, format_args!("\n## The source's figures beside ours\n"));
        line(
            out,
            format_args!(
                "Percent; ours at the largest size. ± is the 95 % confidence interval over draws of \
                 a made workload; a trace is one draw.\n"
            ),
        );
        line(out, format_args!("| | the source | {} |", names.join(" | ")));
        line(out, format_args!("|---|---:|{}", "---:|".repeat(names.len())));
        for (at, figure) in self.figures.iter().enumerate() {
            let ours = |panel: &Panel| match panel.figures[at] {
                Some(ours) if ours.ci95.is_finite() => {
                    format!("{:.2} ±{:.2}", ours.mean, ours.ci95)
                }
                Some(ours) => format!("{:.2}", ours.mean),
                None => String::new(),
            };
            let cells: Vec<String> = self.panels.iter().map(ours).collect();
            let (words, place) = (figure.words(), &figure.at);
            line(
                out,
                format_args!("| {words} | {} ({place}) | {} |", figure.percent, cells.join(" | ")),
            );
        }
    }

    /// True if every expected feature appeared.
    pub fn all_hold(&self) -> bool {
        self.panels.iter().flat_map(|panel| &panel.verdicts).all(|verdict| verdict.holds)
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a String takes every text");
}

impl Panel {
    fn write(&self, out: &mut String) {
        let set = Bytes(self.working_set_bytes);
        line(out, format_args!("\n## {}\n", self.workload));
        let files: Vec<&str> =
            self.traces.iter().map(|t| t.rsplit('/').next().unwrap_or(t)).collect();
        line(
            out,
            format_args!(
                "{} requests, working set {set}, epochs of {}; {}{}\n",
                self.requests,
                self.epoch,
                files.join(" + "),
                if self.draws > 1 {
                    format!("; tables are of the first of {} draws", self.draws)
                } else {
                    String::new()
                },
            ),
        );
        self.grid(out, "Requests served by flash, %", |row, _| row.request_hit_ratio * 100.0);
        self.grid(out, "I/O cost as the source charges it, % of LRU's", |row, base| {
            row.cost_source_s / base.cost_source_s * 100.0
        });
        self.grid(out, "I/O cost at real sizes, % of LRU's", |row, base| {
            row.cost_real_s / base.cost_real_s * 100.0
        });
        self.grid(out, "Flash written, MiB", |row, _| row.flash_written_bytes as f64 / 1048576.0);
        verdicts::list(out, &self.verdicts);
    }

    /// One figure as a table: a row a policy, a column a size.
    fn grid(&self, out: &mut String, title: &str, value: impl Fn(&Row, &Row) -> f64) {
        let mut sizes: Vec<&str> = Vec::new();
        let mut policies: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !sizes.contains(&row.size.as_str()) {
                sizes.push(&row.size);
            }
            if !policies.contains(&row.policy.as_str()) {
                policies.push(&row.policy);
            }
        }
        line(out, format_args!("| {title} | {} |", sizes.join(" | ")));
        line(out, format_args!("|---|{}", "---:|".repeat(sizes.len())));
        let find = |policy: &str, size: &str| {
            self.rows.iter().find(|row| row.policy == policy && row.size == size)
        };
        for policy in policies {
            let cells: Vec<String> = sizes
                .iter()
                .map(|size| match (find(policy, size), find(BASELINE, size)) {
                    (Some(row), Some(base)) => format!("{:.2}", value(row, base)),
                    (Some(row), None) => format!("{:.2}", value(row, row)),
                    _ => String::new(),
                })
                .collect();
            line(out, format_args!("| {policy} | {} |", cells.join(" | ")));
        }
        line(out, format_args!(""));
    }
}

/// Policy whose cost is 100 %.
const BASELINE: &str = "lru";
