//! A table of results in Python: columns by the Arrow interface, rows as dictionaries, and what
//! else the report says.

use crate::arrow::{Once, Stream};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyString};
use thermocline_sim::table::{self, Column};

/// A table of results. `pyarrow.table`, `polars.DataFrame`, `pandas` and DuckDB take it as it is.
#[pyclass(frozen, module = "thermocline")]
pub(crate) struct Table {
    table: table::Table,
    /// The rest of the report, as JSON.
    about: String,
}

impl Table {
    /// A table, with the rest of its report as JSON text.
    pub(crate) fn new(table: table::Table, about: String) -> Table {
        Table { table, about }
    }
}

#[pymethods]
impl Table {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema; // What it asks for is best effort; ours has one form.
        let stream = Stream::new(Box::new(Once::new(self.table.columns())));
        PyCapsule::new_with_value(py, stream, Stream::CAPSULE)
    }

    fn __len__(&self) -> usize {
        self.table.rows()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let mut columns = self.table.columns().iter();
        let found = columns.find(|(column, _)| column == name);
        let (_, column) = found.ok_or_else(|| {
            let names: Vec<&str> = self.table.columns().iter().map(|(n, _)| n.as_str()).collect();
            PyKeyError::new_err(format!("no column `{name}`; there are {}", names.join(", ")))
        })?;
        (0..column.len())
            .map(|row| value(py, column, row))
            .collect::<PyResult<Vec<_>>>()
            .and_then(|values| PyList::new(py, values))
    }

    fn __repr__(&self) -> String {
        let (rows, columns) = (self.table.rows(), self.table.columns().len());
        format!("<thermocline.Table: {rows} rows, {columns} columns>")
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.table.columns().iter().map(|(name, _)| name.clone()).collect()
    }

    /// Facts of the report besides the rows: the traces, notes, repairs, totals.
    #[getter]
    fn about<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        parsed(py, &self.about)
    }

    /// The rows, a dictionary each.
    fn to_dicts<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let row = |row: usize| {
            let dict = PyDict::new(py);
            for (name, column) in self.table.columns() {
                dict.set_item(PyString::intern(py, name), value(py, column, row)?)?;
            }
            Ok(dict)
        };
        (0..self.table.rows()).map(row).collect()
    }
}

fn value<'py>(py: Python<'py>, column: &Column, row: usize) -> PyResult<Bound<'py, PyAny>> {
    Ok(match column {
        Column::Text(values) => values[row].as_str().into_pyobject(py)?.into_any(),
        Column::Count(values) => values[row].into_pyobject(py)?.into_any(),
        Column::Number(values) => values[row].into_pyobject(py)?.into_any(),
        Column::Flag(values) => values[row].into_pyobject(py)?.to_owned().into_any(),
    })
}

/// JSON as Python's own values.
pub(crate) fn parsed<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (json,))
}

/// A report's JSON without the rows that a table holds.
pub(crate) fn about(report: &impl serde::Serialize, rows: &str) -> String {
    let mut value = serde_json::to_value(report).expect("reports are plain data");
    if let Some(object) = value.as_object_mut() {
        object.remove(rows);
    }
    value.to_string()
}
