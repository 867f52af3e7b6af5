//! An outcome as Markdown: readable on a terminal and kept beside the experiment.

use super::{Line, Measure, Outcome, Panel, Table};
use crate::verdicts;
use std::fmt::Write;

impl Outcome {
    /// The whole outcome as Markdown.
    pub fn to_markdown(&self) -> String {
        let mut out = String::new();
        self.write(&mut out).expect("a String takes every text");
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "# {}\n\nSource: {}.\n\n{}", self.title, self.source, self.about.trim())?;
        self.panels.iter().try_for_each(|panel| panel.write(out))?;
        verdicts::sum(out, self.verdicts());
        Ok(())
    }
}

impl Panel {
    fn write(&self, out: &mut String) -> std::fmt::Result {
        let seeds = match self.seeds {
            1 => "One run of each: no intervals.".to_string(),
            seeds => format!("{seeds} seeds."),
        };
        let about = format!("{} {seeds}", self.note);
        writeln!(out, "\n## {}\n\n{}", self.title, about.trim_start())?;
        for table in &self.tables {
            table.write(&self.columns, out)?;
        }
        if !self.verdicts.is_empty() {
            writeln!(out)?;
        }
        verdicts::list(out, &self.verdicts);
        Ok(())
    }
}

impl Table {
    fn write(&self, columns: &[String], out: &mut String) -> std::fmt::Result {
        writeln!(out, "\n| {} | {} |", self.measure.heading(), columns.join(" | "))?;
        writeln!(out, "|---|{}", "---:|".repeat(columns.len()))?;
        for line in &self.lines {
            writeln!(out, "| {} | {} |", line.name, self.cells(line).join(" | "))?;
        }
        Ok(())
    }

    /// Our figures, with the share of the first row's, and the source's share in brackets.
    pub(super) fn cells(&self, line: &Line) -> Vec<String> {
        let first = &self.lines[0];
        let cell = |at: usize| {
            let value = line.values[at];
            let share = value.mean / first.values[at].mean;
            let spread = if value.ci95.is_finite() {
                format!(" ±{}", self.measure.figure(value.ci95))
            } else {
                String::new()
            };
            let own = format!("{}{spread}", self.measure.figure(value.mean));
            let published = line.published[at]
                .map_or(String::new(), |figure| format!(" ({:.0} %)", figure * 100.0));
            if line.name == first.name || first.values[at].mean == 0.0 {
                own
            } else {
                format!("{own}: {:.0} %{published}", share * 100.0)
            }
        };
        (0..line.values.len()).map(cell).collect()
    }
}

impl Measure {
    /// Its name in claims.
    pub(super) fn name(self) -> &'static str {
        match self {
            Measure::Latency => "mean latency",
            Measure::P99 => "99th percentile",
            Measure::FrontLatency => "mean latency in front",
            Measure::Throughput => "throughput",
            Measure::Elapsed => "time",
            Measure::Moved => "migrated data",
            Measure::MovedBefore => "migrated before the load",
            Measure::MovedInAll => "migrated in all",
            Measure::SlowestRead => "read from the slowest pool",
            Measure::OnFastest => "served by the fastest pool",
            Measure::WritesOnFastest => "writes on the fastest pool",
            Measure::WritesOnSecond => "writes on the second pool",
            Measure::Programmed => "programmed on flash",
            Measure::Sent => "sent",
            Measure::SentPacked => "sent, compressed",
            Measure::ServerBytes => "bytes from and to the server",
            Measure::OtherBytes => "of those, not bytes of blocks",
            Measure::PeerBytes => "bytes between hosts",
            Measure::DiskReads => "blocks read from the server's devices",
            Measure::Local => "blocks found at the host",
        }
    }

    /// Heading of a table.
    pub(super) fn heading(self) -> String {
        let unit = match self {
            Measure::Latency | Measure::P99 | Measure::FrontLatency => "ms",
            Measure::Throughput => "MiB/s",
            Measure::Elapsed => "s",
            Measure::OnFastest
            | Measure::WritesOnFastest
            | Measure::WritesOnSecond
            | Measure::Local => "%",
            Measure::ServerBytes | Measure::OtherBytes | Measure::PeerBytes => "MiB",
            Measure::DiskReads => "thousand",
            Measure::Moved
            | Measure::MovedBefore
            | Measure::MovedInAll
            | Measure::SlowestRead
            | Measure::Programmed => "GiB",
            Measure::Sent | Measure::SentPacked => "MiB",
        };
        let mut name = self.name().to_string();
        name[..1].make_ascii_uppercase();
        format!("{name}, {unit}")
    }

    /// A value in the heading's unit.
    pub(super) fn scaled(self, value: f64) -> f64 {
        match self {
            Measure::Latency | Measure::P99 | Measure::FrontLatency => value * 1e3,
            Measure::Throughput
            | Measure::Sent
            | Measure::SentPacked
            | Measure::ServerBytes
            | Measure::OtherBytes
            | Measure::PeerBytes => value / f64::from(1 << 20),
            Measure::Elapsed => value,
            Measure::OnFastest
            | Measure::WritesOnFastest
            | Measure::WritesOnSecond
            | Measure::Local => value * 100.0,
            Measure::DiskReads => value / 1e3,
            Measure::Moved
            | Measure::MovedBefore
            | Measure::MovedInAll
            | Measure::SlowestRead
            | Measure::Programmed => value / f64::from(1 << 30),
        }
    }

    /// A value in the heading's unit, as text.
    pub(super) fn figure(self, value: f64) -> String {
        let scaled = self.scaled(value);
        if scaled >= 100.0 {
            format!("{scaled:.0}")
        } else if scaled >= 1.0 {
            format!("{scaled:.1}")
        } else {
            format!("{scaled:.3}")
        }
    }

    /// True if a higher figure is the better one.
    pub(super) fn more_is_better(self) -> bool {
        matches!(
            self,
            Measure::Throughput | Measure::OnFastest | Measure::WritesOnFastest | Measure::Local
        )
    }
}
