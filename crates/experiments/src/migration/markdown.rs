//! An outcome as Markdown: readable on a terminal and kept beside the experiment.

use super::Outcome;
use super::config::Peaks;
use super::sheets::Sheet;
use crate::verdicts;
use std::fmt::Write;

impl Outcome {
    /// The whole outcome as Markdown.
    pub fn to_markdown(&self) -> String {
        let mut out = format!("# {}\n\nSource: {}.\n\n{}\n", self.title, self.source, self.setup());
        for sheet in self.sheets() {
            sheet.write(&mut out);
        }
        out.push('\n');
        verdicts::list(&mut out, &self.verdicts);
        verdicts::sum(&mut out, &self.verdicts);
        out
    }

    /// Setup of the experiment, in a sentence or two.
    pub(super) fn setup(&self) -> String {
        let config = &self.config;
        let (burst, copy) = (&config.burst, &config.copy);
        let peaks = |peaks: &Peaks| {
            format!(
                "{} times its mean rate for {} of the time, {} ms at once, {:.2} times otherwise",
                peaks.rate,
                peaks.share,
                peaks.ms,
                peaks.lull()
            )
        };
        format!(
            "{} slots of {} in units of {}, both divided by {}; means and standard deviations over \
             seeds {:?}. A bursty slot is an MMPP(2). Loose applications: {}. Strict ones: {}. A unit \
             keeps its state from slot to slot with probability {} beyond chance. Copying asks for {} of what is left of both disks, in \
             pieces of {} KiB. LMsT is `{}`.",
            config.slots,
            config.slot,
            config.unit,
            config.squeeze,
            config.seeds,
            peaks(&burst.loose),
            peaks(&burst.strict),
            burst.persistence,
            copy.pace,
            copy.piece,
            config.lmst,
        )
    }
}

impl Sheet {
    fn write(&self, out: &mut String) {
        line(out, format_args!("\n## {}\n", self.title));
        line(out, format_args!("| {} |", self.head.join(" | ")));
        line(out, format_args!("|---|{}", "---:|".repeat(self.head.len() - 1)));
        for row in &self.rows {
            line(out, format_args!("| {} |", row.join(" | ")));
        }
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a String takes every text");
}
