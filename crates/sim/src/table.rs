//! Results as named columns, for whoever wants all of them at once: Python takes them as Arrow.
//!
//! Each report makes one of its rows, with the names that its CSV uses.

/// Values of one column, a value a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Column {
    /// Names.
    Text(Vec<String>),
    /// Counts and bytes.
    Count(Vec<u64>),
    /// Ratios, times in seconds, means; `None` where there is none.
    Number(Vec<Option<f64>>),
    /// Facts that hold or do not.
    Flag(Vec<bool>),
}

impl Column {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Column::Text(values) => values.len(),
            Column::Count(values) => values.len(),
            Column::Number(values) => values.len(),
            Column::Flag(values) => values.len(),
        }
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Columns of the same length, each with its name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    columns: Vec<(String, Column)>,
}

impl Table {
    /// Adds a column.
    ///
    /// # Panics
    /// When it has another length than those before.
    pub fn add(&mut self, name: impl Into<String>, column: Column) {
        assert!(
            self.columns.is_empty() || column.len() == self.rows(),
            "columns of a table have the same length"
        );
        self.columns.push((name.into(), column));
    }

    /// Adds a column of counts: one of each of `rows`.
    pub fn count<T>(&mut self, name: &str, rows: &[T], of: impl Fn(&T) -> u64) {
        self.add(name, Column::Count(rows.iter().map(of).collect()));
    }

    /// Adds a column of numbers: one of each of `rows`. What is not finite is not known.
    pub fn number<T>(&mut self, name: &str, rows: &[T], of: impl Fn(&T) -> Option<f64>) {
        let known = |row| of(row).filter(|value| value.is_finite());
        self.add(name, Column::Number(rows.iter().map(known).collect()));
    }

    /// Adds a column of texts: one of each of `rows`.
    pub fn text<T>(&mut self, name: &str, rows: &[T], of: impl Fn(&T) -> String) {
        self.add(name, Column::Text(rows.iter().map(of).collect()));
    }

    /// Adds a column of facts: one of each of `rows`.
    pub fn flag<T>(&mut self, name: &str, rows: &[T], of: impl Fn(&T) -> bool) {
        self.add(name, Column::Flag(rows.iter().map(of).collect()));
    }

    /// The columns, in order.
    pub fn columns(&self) -> &[(String, Column)] {
        &self.columns
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }
}
