//! Tables of a report page: numbers right-aligned, columns sortable by a click.

use super::svg::Escaped;
use crate::format::Quantity;
use std::fmt::Write;

/// A table with one row of column heads.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    caption: String,
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

/// One cell of a [`Table`].
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    text: String,
    /// Number that the column is sorted by; `None` for words.
    sort_key: Option<f64>,
}

impl Cell {
    /// Words, left-aligned and sorted by letter.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), sort_key: None }
    }

    /// A number, right-aligned, printed as its quantity is and sorted by value.
    pub fn number(quantity: Quantity, value: f64) -> Cell {
        Cell { text: quantity.show(value), sort_key: Some(value) }
    }
}

impl Table {
    /// An empty table; `caption` may be empty.
    pub fn new<T: Into<String>>(
        caption: impl Into<String>,
        columns: impl IntoIterator<Item = T>,
    ) -> Table {
        let columns = columns.into_iter().map(Into::into).collect();
        Table { caption: caption.into(), columns, rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When it has not one cell a column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "a row has one cell a column");
        self.rows.push(cells);
    }

    pub(super) fn write_html(&self, out: &mut String) {
        let mut put = |text: std::fmt::Arguments<'_>| {
            out.write_fmt(text).expect("writing to a string does not fail");
        };
        put(format_args!("<div class=\"scroll\"><table>"));
        if !self.caption.is_empty() {
            put(format_args!("<caption>{}</caption>", Escaped(&self.caption)));
        }
        put(format_args!("<thead><tr>"));
        for (i, name) in self.columns.iter().enumerate() {
            let class = if self.is_numeric(i) { " class=\"n\"" } else { "" };
            let name = Escaped(name);
            // A single row has no order to change.
            if self.rows.len() > 1 {
                put(format_args!("<th{class} scope=\"col\"><button>{name}</button></th>"));
            } else {
                put(format_args!("<th{class} scope=\"col\">{name}</th>"));
            }
        }
        put(format_args!("</tr></thead><tbody>\n"));
        for row in &self.rows {
            put(format_args!("<tr>"));
            for cell in row {
                match cell.sort_key {
                    Some(key) if key.is_finite() => put(format_args!(
                        "<td class=\"n\" data-key=\"{key}\">{}</td>",
                        Escaped(&cell.text)
                    )),
                    Some(_) => put(format_args!("<td class=\"n\">{}</td>", Escaped(&cell.text))),
                    None => put(format_args!("<td>{}</td>", Escaped(&cell.text))),
                }
            }
            put(format_args!("</tr>\n"));
        }
        put(format_args!("</tbody></table></div>\n"));
    }

    fn is_numeric(&self, column: usize) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|row| row[column].sort_key.is_some())
    }
}
