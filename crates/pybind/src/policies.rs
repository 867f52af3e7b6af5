//! Policies of an argument: names of the registry, `./mine.so:name`, and Python classes.
//!
//! A class is called with the geometry of each cache and makes an object; its `access` takes the
//! lines of a batch, a list of ints, and returns the outcome of each: a list of ints, or anything
//! with a buffer of as many 32-bit numbers. With `arrays = True` the lines come as a memoryview of
//! unsigned 32-bit numbers, which NumPy takes without a copy. Answers are checked like those of
//! every policy from outside. An exception of the class ends the run, and is raised again.

use crate::job::check_interpreter;
use crate::options::{items, refused, shown};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use std::sync::{Arc, Mutex};
use thermocline_policy::Footprint;
use thermocline_policy::cache::{ForeignCache, ForeignPolicy, Outcome, Tag};
use thermocline_policy::registry::{Geometry, PolicySpec};
use thermocline_sim::lab::Selection;
use thermocline_units::{LineId, Nanos};

/// The first exception that a class of a run raised.
pub(crate) type Raised = Arc<Mutex<Option<PyErr>>>;

/// The chosen function, and where exceptions of its classes go.
pub(crate) struct Chosen {
    /// `None` when no policy is named.
    pub(crate) selection: Option<Selection>,
    pub(crate) raised: Raised,
}

impl Chosen {
    /// The policies of an argument.
    pub(crate) fn of(policies: Option<&Bound<'_, PyAny>>, objects: bool) -> PyResult<Chosen> {
        let raised = Raised::default();
        let named = named(policies)?;
        if named.is_empty() {
            return Ok(Chosen { selection: None, raised });
        }
        let mut chosen = Selection::default();
        for policy in named {
            match policy {
                Named::Word(word) => chosen.add(&word, objects, parse).map_err(refused)?,
                Named::Class(policy) => chosen.add_one(class(&policy, &raised)?),
            }
        }
        Ok(Chosen { selection: Some(chosen), raised })
    }
}

/// An item of an argument that names policies.
pub(crate) enum Named<'py> {
    /// A name of the registry, or `./mine.so:name`.
    Word(String),
    /// A class, or what else is called without one's knowing its name.
    Class(Bound<'py, PyAny>),
}

/// The items of an argument, in their order; a text may name several, separated by commas.
pub(crate) fn named<'py>(policies: Option<&Bound<'py, PyAny>>) -> PyResult<Vec<Named<'py>>> {
    let mut named = Vec::new();
    for policy in items(policies)? {
        if policy.is_instance_of::<PyString>() {
            let text: String = policy.extract()?;
            named.extend(text.split(',').map(|word| Named::Word(word.to_string())));
        } else {
            named.push(Named::Class(policy));
        }
    }
    Ok(named)
}

/// The exception of a failed run: the one that a class raised, or a `ValueError`.
pub(crate) fn failed(raised: &Raised, problem: impl std::fmt::Display) -> PyErr {
    let exception = raised.lock().expect("nothing panics with it held").take();
    exception.unwrap_or_else(|| refused(problem))
}

/// The policy that a text names.
pub(crate) fn parse(text: &str) -> Result<PolicySpec, String> {
    thermocline_plugins::policy(text)
        .unwrap_or_else(|| PolicySpec::parse(text).map_err(|error| error.to_string()))
}

fn class(class: &Bound<'_, PyAny>, raised: &Raised) -> PyResult<PolicySpec> {
    let name = name_of(class)?;
    let policy = Class { class: class.clone().unbind(), raised: Arc::clone(raised) };
    Ok(PolicySpec::foreign(name, Arc::new(policy)))
}

/// The name of a class in tables.
///
/// # Errors
/// When it cannot be called.
pub(crate) fn name_of(class: &Bound<'_, PyAny>) -> PyResult<String> {
    if !class.is_callable() {
        return Err(refused(format!("{} is neither a policy's name nor a class", class.repr()?)));
    }
    let name = ["name", "__name__"]
        .iter()
        .find_map(|name| class.getattr(*name).ok().and_then(|name| name.extract::<String>().ok()));
    Ok(name.unwrap_or_else(|| "a class".to_string()))
}

/// A class, or whatever makes objects like one.
struct Class {
    class: Py<PyAny>,
    raised: Raised,
}

impl ForeignPolicy for Class {
    fn create(&self, geometry: &Geometry) -> Result<Box<dyn ForeignCache>, String> {
        check_interpreter()?;
        let made = Python::attach(|py| {
            let arguments = PyDict::new(py);
            arguments.set_item("lines", geometry.lines)?;
            arguments.set_item("line_bytes", geometry.line_bytes.0)?;
            arguments.set_item("volumes", geometry.volumes)?;
            arguments.set_item("seed", geometry.seed)?;
            let object = self.class.bind(py).call1((arguments,))?;
            let arrays = match object.getattr_opt("arrays")? {
                Some(arrays) => arrays.is_truthy()?,
                None => false,
            };
            let access = object.getattr("access")?.unbind();
            Ok(Object { object: object.unbind(), access, arrays, raised: Arc::clone(&self.raised) })
        });
        made.map(|object| Box::new(object) as Box<dyn ForeignCache>)
            .map_err(|error| raise(&self.raised, error))
    }
}

/// Keeps an exception for the end of the run, unless there is one already; the exception in words.
pub(crate) fn raise(raised: &Raised, error: PyErr) -> String {
    let text = error.to_string();
    raised.lock().expect("nothing panics with it held").get_or_insert(error);
    text
}

/// A cache made by a class.
struct Object {
    object: Py<PyAny>,
    access: Py<PyAny>,
    arrays: bool,
    raised: Raised,
}

impl Object {
    fn try_access(&self, py: Python<'_>, lines: &[LineId], out: &mut [Outcome]) -> PyResult<()> {
        let numbers = lines.iter().map(|line| line.0);
        let given = if self.arrays {
            let bytes: Vec<u8> = numbers.flat_map(u32::to_ne_bytes).collect();
            let view =
                py.import("builtins")?.call_method1("memoryview", (PyBytes::new(py, &bytes),))?;
            view.call_method1("cast", ("I",))?
        } else {
            PyList::new(py, numbers)?.into_any()
        };
        let answers = self.access.bind(py).call1((given,))?;
        match answers.cast::<PyList>() {
            Ok(answers) => {
                check_length(answers.len(), out.len())?;
                for (answer, outcome) in answers.iter().zip(out) {
                    *outcome = Outcome::from_code(answer.extract()?);
                }
            }
            Err(_) => {
                let bytes = bytes_of(&answers, out.len())?;
                let (numbers, _) = bytes.as_bytes().as_chunks::<4>();
                for (number, outcome) in numbers.iter().zip(out) {
                    *outcome = Outcome::from_code(u32::from_ne_bytes(*number));
                }
            }
        }
        Ok(())
    }
}

/// Bytes of an answer that is a buffer. `bytes()` itself would take a number for a length, and a
/// tuple for bytes.
///
/// # Errors
/// When it has no buffer, or one that is not a 32-bit number for each of `asked` lines.
fn bytes_of<'py>(answers: &Bound<'py, PyAny>, asked: usize) -> PyResult<Bound<'py, PyBytes>> {
    let py = answers.py();
    let view = py.import("builtins")?.call_method1("memoryview", (answers,)).map_err(|error| {
        if !error.is_instance_of::<PyTypeError>(py) {
            return error;
        }
        let kind = answers.get_type();
        refused(format!(
            "`access` returned {}, which is neither a list nor a buffer; return one unsigned \
             32-bit number a line, in a list or a buffer",
            shown(kind.as_any())
        ))
    })?;
    let length: usize = view.getattr("nbytes")?.extract()?;
    if Some(length) != asked.checked_mul(4) {
        return Err(refused(format!(
            "`access` was given {asked} lines and answered with a buffer of {length} bytes; \
             return one unsigned 32-bit number a line, in a list or a buffer"
        )));
    }
    Ok(view.call_method0("tobytes")?.cast_into::<PyBytes>()?)
}

fn check_length(answered: usize, asked: usize) -> PyResult<()> {
    if answered == asked {
        return Ok(());
    }
    Err(refused(format!(
        "`access` was given {asked} lines and answered {answered}; return one unsigned 32-bit \
         number a line, in a list or a buffer"
    )))
}

impl ForeignCache for Object {
    fn reserve(&mut self, _universe: u32) -> Result<(), String> {
        Ok(())
    }

    fn access_batch(
        &mut self,
        lines: &[LineId],
        _tags: &[Tag],
        out: &mut [Outcome],
    ) -> Result<(), String> {
        check_interpreter()?;
        let done = Python::attach(|py| self.try_access(py, lines, out));
        done.map_err(|error| raise(&self.raised, error))
    }

    fn invalidate(&mut self, line: LineId) -> Result<(), String> {
        check_interpreter()?;
        let done = Python::attach(|py| {
            let object = self.object.bind(py);
            match object.getattr_opt("invalidate")? {
                Some(invalidate) => invalidate.call1((line.0,)).map(|_| ()),
                None => Err(refused(format!(
                    "the trace discards line {}, which is resident; write a method \
                     `invalidate(self, line)` that drops it",
                    line.0
                ))),
            }
        });
        done.map_err(|error| raise(&self.raised, error))
    }

    fn end_epoch(&mut self, _now: Nanos) -> Result<(), String> {
        Ok(())
    }

    fn footprint(&self) -> Footprint {
        Footprint::default() // Python does not say.
    }
}
