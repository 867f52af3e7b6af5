//! Arguments of Python functions as the types of the laboratory: texts and numbers as the command
//! line writes them, read by the same code.

use crate::traces::Trace;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use thermocline_sim::source::{Source, Traces};
use thermocline_trace::ReadOptions;

/// An exception for a value that makes no sense.
pub(crate) fn refused(problem: impl Display) -> PyErr {
    PyValueError::new_err(problem.to_string())
}

/// Text of an argument that may be a text or a number: `"4KiB"`, `4096`, `0.1`.
fn text_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(value.str()?.to_string())
}

/// The value of argument `name`, as the command line would read it.
pub(crate) fn read<T>(name: &str, value: &Bound<'_, PyAny>) -> PyResult<T>
where
    T: FromStr,
    T::Err: Display,
{
    let text = text_of(value)?;
    text.parse().map_err(|error| refused(format!("{name}: {error}")))
}

/// Reads as [`read`] does, and gives the default where the argument is left out.
pub(crate) fn read_or<T>(name: &str, value: Option<&Bound<'_, PyAny>>, default: T) -> PyResult<T>
where
    T: FromStr,
    T::Err: Display,
{
    value.map_or(Ok(default), |value| read(name, value))
}

/// A value as a message shows it.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "it".to_string(), |text| text.to_string())
}

/// The value of argument `name`, a whole number up to `most`; NumPy's will do, a float will not.
pub(crate) fn whole(name: &str, value: &Bound<'_, PyAny>, most: u64) -> PyResult<u64> {
    let number = value.extract::<u64>().ok().filter(|number| *number <= most);
    number.ok_or_else(|| {
        let given = shown(value);
        refused(format!("{name}: {given} is no whole number from 0 to {most}"))
    })
}

/// A seed.
pub(crate) fn seed(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    whole("seed", value, u64::MAX)
}

/// Items of an argument that may be one value or several: `"lru"`, `["lru", "arc"]`.
pub(crate) fn items<'py>(value: Option<&Bound<'py, PyAny>>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    if value.is_instance_of::<PyString>() || value.try_iter().is_err() {
        return Ok(vec![value.clone()]);
    }
    let all: Vec<Bound<'py, PyAny>> = value.try_iter()?.collect::<PyResult<_>>()?;
    if all.is_empty() {
        // A filter that matched nothing would run for long with something else.
        return Err(refused(
            "an empty list names nothing; leave the argument out for the defaults",
        ));
    }
    Ok(all)
}

/// Reads all of [`items`], each as the command line would; a text may hold several, with commas.
pub(crate) fn read_all<T>(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<T>>
where
    T: FromStr,
    T::Err: Display,
{
    let mut all = Vec::new();
    for item in items(value)? {
        for word in text_of(&item)?.split(',') {
            all.push(word.parse().map_err(|error| refused(format!("{name}: {error}")))?);
        }
    }
    Ok(all)
}

/// One trace: a path or a [`Trace`]; `None` for anything else.
fn one_trace(value: &Bound<'_, PyAny>) -> Option<Traces> {
    if let Ok(trace) = value.cast::<Trace>() {
        return Some(trace.get().traces.clone());
    }
    let path = value.extract::<PathBuf>().ok()?;
    Some(Traces { sources: vec![Source::File(path)], options: ReadOptions::default() })
}

/// The traces of an argument: a path, a [`Trace`], or several of these, merged as one workload. A
/// list in a list is refused: it could hold itself.
pub(crate) fn traces(value: &Bound<'_, PyAny>) -> PyResult<Traces> {
    if let Some(one) = one_trace(value) {
        return Ok(one);
    }
    let mut all = Traces { sources: Vec::new(), options: ReadOptions::default() };
    let mut of_files: Option<ReadOptions> = None;
    let no_trace = || {
        PyTypeError::new_err("a trace is a path, or what thermocline.open and trace.synth return")
    };
    for item in value.try_iter().map_err(|_| no_trace())? {
        let one = one_trace(&item?).ok_or_else(no_trace)?;
        let has_files = one.sources.iter().any(|source| matches!(source, Source::File(_)));
        all.sources.extend(one.sources);
        if !has_files {
            continue;
        }
        if of_files.as_ref().is_some_and(|before| *before != one.options) {
            return Err(refused(
                "traces that are read as one workload have the same format and columns; open each \
                 with the same options",
            ));
        }
        of_files = Some(one.options);
    }
    all.options = of_files.unwrap_or_default();
    Ok(all)
}
