//! Verdicts as people read them: lines of Markdown, and a table of a page.

use super::Verdict;
use std::fmt::Write;
use thermocline_charts::{Cell, Table};

/// A line of a list for each.
pub(super) fn list<'a>(out: &mut String, verdicts: impl IntoIterator<Item = &'a Verdict>) {
    for verdict in verdicts {
        let word = if verdict.holds { "holds" } else { "DOES NOT HOLD" };
        writeln!(out, "- {word}: {}", verdict.claim).expect("a String takes every text");
    }
}

/// Writes the number of verdicts that hold.
pub(super) fn sum<'a>(out: &mut String, verdicts: impl IntoIterator<Item = &'a Verdict>) {
    let (mut held, mut all) = (0, 0);
    for verdict in verdicts {
        (held, all) = (held + u32::from(verdict.holds), all + 1);
    }
    writeln!(out, "\n**{held} of {all} expected features hold.**")
        .expect("a String takes every text");
}

/// A row for each.
pub(super) fn table<'a>(title: &str, verdicts: impl IntoIterator<Item = &'a Verdict>) -> Table {
    let mut table = Table::new(title, ["verdict", "feature"]);
    for verdict in verdicts {
        let word = if verdict.holds { "holds" } else { "does not hold" };
        table.row([Cell::text(word), Cell::text(&verdict.claim)]);
    }
    table
}
