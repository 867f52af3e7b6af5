//! An outcome as Markdown and as a page.

use super::expect::figure;
use super::{Line, Outcome, Table};
use crate::{Verdict, verdicts};
use std::fmt::Write;
use thermocline_charts::{Cell, Page};

impl Outcome {
    /// Verdicts of all tables.
    pub fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        self.tables.iter().flat_map(|table| &table.verdicts)
    }

    /// The whole outcome as Markdown.
    pub fn to_markdown(&self) -> String {
        let mut out = format!("# {}\n\nSource: {}.\n\n{}\n", self.title, self.source, self.about);
        for table in &self.tables {
            table.write(&mut out).expect("a String takes every text");
            verdicts::list(&mut out, &table.verdicts);
        }
        verdicts::sum(&mut out, self.verdicts());
        out
    }

    /// The outcome as one self-contained HTML page; `command` made it.
    pub fn to_html(&self, version: &str, command: &str) -> String {
        let mut page = Page::new(&self.title).lede(format!("{}. {}", self.source, self.about));
        for table in &self.tables {
            page = page.section(&table.title).paragraph(&table.note).table(&table.picture());
        }
        let verdicts = verdicts::table("", self.verdicts());
        page.section("Expected features").table(&verdicts).made_by(version, command).to_html()
    }
}

impl Table {
    fn write(&self, out: &mut String) -> std::fmt::Result {
        write!(out, "\n## {}\n\n", self.title)?;
        if !self.note.is_empty() {
            write!(out, "{}\n\n", self.note)?;
        }
        let heads: Vec<String> = self.characters.iter().map(|one| one.heading()).collect();
        writeln!(out, "| | {} |", heads.join(" | "))?;
        writeln!(out, "|---|{}", "---:|".repeat(heads.len()))?;
        for line in &self.lines {
            writeln!(out, "| {} | {} |", line.name, line.cells().join(" | "))?;
        }
        out.push('\n');
        Ok(())
    }

    fn picture(&self) -> thermocline_charts::Table {
        let heads = self.characters.iter().map(|one| one.heading());
        let mut table =
            thermocline_charts::Table::new("", std::iter::once(String::new()).chain(heads));
        for line in &self.lines {
            let name = std::iter::once(Cell::text(&line.name));
            table.row(name.chain(line.cells().into_iter().map(Cell::text)));
        }
        table
    }
}

impl Line {
    /// Ours, and in brackets the source's.
    fn cells(&self) -> Vec<String> {
        let cell = |(ours, printed): (_, &Option<f64>)| match printed {
            Some(printed) => format!("{} ({printed})", figure(ours)),
            None => figure(ours),
        };
        self.values.iter().zip(&self.printed).map(cell).collect()
    }
}
