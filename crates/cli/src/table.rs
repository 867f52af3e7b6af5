//! Tables for people to read: one rule under the heading and one at the end, numbers to the right.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, presets};

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
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}
