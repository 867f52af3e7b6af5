//! Traces in Python: opened by name or made from parameters, read as a stream of record batches.

use crate::arrow::{Batches, Bits, Field, Filled, Kind, Stream, Texts, Values};
use crate::options::{read, refused};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::path::PathBuf;
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use thermocline_sim::source::{Source, Traces};
use thermocline_sim::synth;
use thermocline_trace::{Batch, Op, ReadOptions, TraceReader};

/// Requests of a record batch: 2 MiB of columns, which a core's cache holds.
const BATCH_REQUESTS: usize = 1 << 16;

/// Time between two looks at signals while a stream is read.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One trace or several merged ones. Reading it again begins anew.
#[pyclass(frozen, module = "thermocline")]
pub(crate) struct Trace {
    pub(crate) traces: Traces,
}

#[pymethods]
impl Trace {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema; // What it asks for is best effort; a trace has one form.
        let reader = py.detach(|| self.traces.open()).map_err(refused)?;
        let records = Records {
            reader,
            batch: Batch::default(),
            asked_by: std::thread::current().id(),
            looked: Instant::now(),
        };
        PyCapsule::new_with_value(py, Stream::new(Box::new(records)), Stream::CAPSULE)
    }

    /// The traces' names.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.traces.names()
    }

    fn __repr__(&self) -> String {
        format!("<thermocline.Trace: {}>", self.traces.names().join(", "))
    }
}

/// Opens traces; what cannot be read is refused now, not at the first batch.
#[pyfunction]
#[pyo3(signature = (paths, format = None, columns = None, blkparse_event = None))]
pub(crate) fn open(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    format: Option<&Bound<'_, PyAny>>,
    columns: Option<&Bound<'_, PyAny>>,
    blkparse_event: Option<char>,
) -> PyResult<Trace> {
    let options = ReadOptions {
        format: format.map(|format| read("format", format)).transpose()?,
        columns: columns.map(|columns| read("columns", columns)).transpose()?,
        blkparse_event,
    };
    let sources = paths.into_iter().map(Source::File).collect();
    let traces = Traces { sources, options };
    py.detach(|| traces.open()).map_err(refused)?;
    Ok(Trace { traces })
}

/// A workload from a preset, its short form (`mixed,vms=4`), or a description in TOML, which
/// excludes `preset` and `vms` as in the command.
#[pyfunction]
#[pyo3(signature = (preset = None, spec = None, vms = None, requests = None, seed = None))]
pub(crate) fn synth_trace(
    preset: Option<&str>,
    spec: Option<&str>,
    vms: Option<usize>,
    requests: Option<&Bound<'_, PyAny>>,
    seed: Option<&Bound<'_, PyAny>>,
) -> PyResult<Trace> {
    let seed = seed.map(crate::options::seed).transpose()?;
    let requests = requests.map(|given| read::<synth::Count>("requests", given)).transpose()?;
    let mut made = match (spec, preset, vms) {
        (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
            return Err(refused(
                "spec describes the whole workload and conflicts with preset and vms; give spec \
                 alone, or leave it out",
            ));
        }
        (Some(spec), None, None) => synth::from_toml(spec),
        (None, preset, Some(vms)) => synth::from_preset(
            preset.unwrap_or("mixed"),
            vms,
            synth::REQUESTS_DEFAULT,
            synth::SEED_DEFAULT,
        ),
        (None, preset, None) => synth::from_words(preset.unwrap_or("mixed")),
    }
    .map_err(refused)?;
    made.requests = requests.map_or(made.requests, |requests| requests.0);
    made.seed = seed.unwrap_or(made.seed);
    made.check().map_err(refused)?;
    let sources = vec![Source::Synth(Box::new(made))];
    Ok(Trace { traces: Traces { sources, options: ReadOptions::default() } })
}

/// A reader's requests as record batches.
struct Records {
    reader: Box<dyn TraceReader>,
    batch: Batch,
    /// Thread that asked for the stream: it may look at signals.
    asked_by: ThreadId,
    looked: Instant,
}

impl Batches for Records {
    fn fields(&self) -> Vec<Field> {
        let field = |name: &str, kind| Field { name: name.to_string(), kind, nullable: false };
        vec![
            field("time_ns", Kind::Integer),
            field("volume", Kind::Text),
            field("op", Kind::Text),
            field("offset_bytes", Kind::Integer),
            field("length_bytes", Kind::Integer),
            Field { nullable: true, ..field("response_ns", Kind::Integer) },
        ]
    }

    fn next_batch(&mut self) -> Result<Option<Vec<Filled>>, String> {
        self.look_at_signals()?;
        let mut columns = Columns::default();
        while columns.times.len() < BATCH_REQUESTS {
            self.reader.read_batch(&mut self.batch).map_err(|error| error.to_string())?;
            if self.batch.requests.is_empty() {
                break;
            }
            columns
                .add(&self.batch, self.reader.volumes())
                .ok_or("a batch's names exceed 2 GiB")?;
        }
        Ok((!columns.times.is_empty()).then(|| columns.into_filled()))
    }
}

impl Records {
    /// Ctrl-C ends the stream with an error. Only in the thread that asked for the stream: another
    /// might wait for the interpreter's lock that this one holds.
    fn look_at_signals(&mut self) -> Result<(), String> {
        let here = std::thread::current().id() == self.asked_by;
        if !here || self.looked.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        self.looked = Instant::now();
        Python::attach(|py| py.check_signals()).map_err(|_| "interrupted".to_string())
    }
}

#[derive(Default)]
struct Columns {
    times: Vec<i64>,
    volumes: Texts,
    ops: Texts,
    offsets: Vec<i64>,
    lengths: Vec<i64>,
    responses: Vec<i64>,
    answered: Bits,
}

impl Columns {
    fn add(&mut self, batch: &Batch, volumes: &[String]) -> Option<()> {
        for request in &batch.requests {
            self.times.push(integer(request.time.0));
            self.volumes.push(&volumes[request.volume.0 as usize])?;
            self.ops.push(match request.op {
                Op::Read => "read",
                Op::Write => "write",
                Op::Flush => "flush",
                Op::Trim => "trim",
            })?;
            self.offsets.push(integer(request.offset.0));
            self.lengths.push(integer(request.length.0));
            self.responses.push(integer(request.response.map_or(0, |time| time.0)));
            self.answered.push(request.response.is_some());
        }
        Some(())
    }

    fn into_filled(self) -> Vec<Filled> {
        vec![
            Filled::all(Values::Integers(self.times)),
            Filled::all(Values::Texts(self.volumes)),
            Filled::all(Values::Texts(self.ops)),
            Filled::all(Values::Integers(self.offsets)),
            Filled::all(Values::Integers(self.lengths)),
            Filled { values: Values::Integers(self.responses), known: Some(self.answered) },
        ]
    }
}

/// Times and addresses stay below 2⁶³.
fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
