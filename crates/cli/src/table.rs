//! Tables for people to read: one rule under the heading and one at the end, numbers to the right.
//! On a terminal, the least important columns are left out of a table that does not fit; what goes
//! into a pipe or a file is whole.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, presets};
use rustix::termios::tcgetwinsize;
use std::io::IsTerminal;
use std::ops::Range;

/// A table with this heading and no rows.
pub(crate) fn plain<T: Into<String>>(heading: impl IntoIterator<Item = T>) -> Table {
    let mut table = Table::new();
    let rule = LineStyle::none().fill('─').junction('─');
    table.load_style(presets::NOTHING.header_separator(rule).bottom_border(rule));
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heading.into_iter().map(Into::into).collect::<Vec<String>>());
    table
}

/// Moves every column but the first to the right.
pub(crate) fn align_numbers(table: &mut Table) {
    let columns = table.column_count();
    align(table, 1..columns);
}

/// Moves these columns to the right.
pub(crate) fn align(table: &mut Table, columns: Range<usize>) {
    for column in table.column_iter_mut().skip(columns.start).take(columns.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// Columns of the terminal that is the standard output; `None`: it is none, or does not say.
pub(crate) fn terminal_columns() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| tcgetwinsize(&stdout).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}

/// The table as text. Where the terminal is too narrow for it, columns are left out, those first
/// that `spare` names first, and a line says which.
pub(crate) fn fitted(table: &Table, spare: &[usize]) -> String {
    fitted_to(table, spare, terminal_columns())
}

fn fitted_to(table: &Table, spare: &[usize], columns: Option<usize>) -> String {
    let (mut table, Some(columns)) = (table.clone(), columns) else { return table.to_string() };
    let mut left_out = Vec::new();
    for &index in spare {
        if table.lines().all(|line| line.chars().count() <= columns) {
            break;
        }
        let column = table.column_mut(index).expect("the caller's tables have their columns");
        column.set_constraint(ColumnConstraint::Hidden);
        left_out.push(heading_of(&table, index));
    }
    match left_out.is_empty() {
        true => table.to_string(),
        false => format!("{table}\nthe terminal is too narrow for: {}", left_out.join(", ")),
    }
}

fn heading_of(table: &Table, column: usize) -> String {
    let cell = table.header().and_then(|row| row.cell_iter().nth(column));
    cell.map(comfy_table::Cell::content).unwrap_or_default().replace('\n', " ")
}

#[cfg(test)]
mod tests;
