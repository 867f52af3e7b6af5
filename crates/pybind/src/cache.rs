//! `thermocline.cache`: the runs of `lab cache`.

use crate::job;
use crate::options::{read, read_all, read_or, refused, seed, traces};
use crate::policies::{Chosen, failed};
use crate::table::{Table, about};
use pyo3::prelude::*;
use std::path::PathBuf;
use thermocline_policy::placement::{CHUNK, EPOCH};
use thermocline_sim::lab::{CacheSize, Contest, CurveMethod, LabOptions, Refusal, Selection};
use thermocline_sim::replay::cost::Profile;
use thermocline_sim::replay::{ReplayOptions, Warmup, WriteMode};
use thermocline_sim::workload::Unit;
use thermocline_units::Bytes;

/// Arguments that all runs of caches share, named as the command's options.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Model<'py> {
    line: Option<Bound<'py, PyAny>>,
    objects: bool,
    chunk: Option<Bound<'py, PyAny>>,
    epoch: Option<Bound<'py, PyAny>>,
    write: Option<Bound<'py, PyAny>>,
    warmup: Option<Bound<'py, PyAny>>,
    profile: Option<PathBuf>,
    seed: Bound<'py, PyAny>,
}

impl Model<'_> {
    fn contest(&self, trace: &Bound<'_, PyAny>) -> PyResult<Contest> {
        let line = read_or("line", self.line.as_ref(), Bytes::from_kib(4))?;
        let profile = match &self.profile {
            None => Profile::source(),
            Some(path) => {
                let name = path.display().to_string();
                let text = std::fs::read_to_string(path)
                    .map_err(|error| refused(format!("{name}: {error}")))?;
                Profile::parse(&text, &name).map_err(refused)?
            }
        };
        let replay = ReplayOptions {
            write_mode: read_or("write", self.write.as_ref(), WriteMode::Back)?,
            warmup: read_or("warmup", self.warmup.as_ref(), Warmup::Requests(0))?,
            epoch: read_or("epoch", self.epoch.as_ref(), EPOCH)?,
        };
        Ok(Contest {
            traces: traces(trace)?,
            unit: if self.objects { Unit::Objects } else { Unit::Lines(line) },
            chunk: read_or("chunk", self.chunk.as_ref(), CHUNK)?,
            options: LabOptions { replay, profile, seed: seed(&self.seed)? },
            refusal: Refusal::EndsRun,
        })
    }
}

fn sizes(sizes: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<CacheSize>>> {
    let sizes = read_all("sizes", sizes)?;
    Ok((!sizes.is_empty()).then_some(sizes))
}

/// Every policy at every size: a table, a row a policy and size.
#[pyfunction]
#[pyo3(signature = (trace, policies, sizes_wanted, model, progress))]
pub(crate) fn cache_simulate(
    py: Python<'_>,
    trace: &Bound<'_, PyAny>,
    policies: Option<&Bound<'_, PyAny>>,
    sizes_wanted: Option<&Bound<'_, PyAny>>,
    model: Model<'_>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Table> {
    let contest = model.contest(trace)?;
    let sizes = sizes(sizes_wanted)?;
    let Chosen { selection, raised } = Chosen::of(policies, model.objects)?;
    let chosen = selection.unwrap_or_else(|| {
        let mut usual = Selection::default();
        usual.add_usual(model.objects);
        usual
    });
    let report = job::run(py, progress, move |told| contest.run(chosen, sizes.as_deref(), told))?;
    let report = report.map_err(|error| failed(&raised, error))?;
    Ok(Table::new(report.to_table(), about(&report, "rows")))
}

/// Miss-ratio curves: a table, a row a policy and size.
#[pyfunction]
#[pyo3(signature = (trace, policies, sizes_wanted, method, model, progress))]
pub(crate) fn cache_mrc(
    py: Python<'_>,
    trace: &Bound<'_, PyAny>,
    policies: Option<&Bound<'_, PyAny>>,
    sizes_wanted: Option<&Bound<'_, PyAny>>,
    method: &Bound<'_, PyAny>,
    model: Model<'_>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Table> {
    let contest = model.contest(trace)?;
    let sizes = sizes(sizes_wanted)?;
    let method: CurveMethod = read("method", method)?;
    let Chosen { selection, raised } = Chosen::of(policies, model.objects)?;
    let curves = job::run(py, progress, move |told| {
        contest.curves(selection, sizes.as_deref(), method, told)
    })?;
    let curves = curves.map_err(|error| failed(&raised, error))?;
    Ok(Table::new(curves.to_table(), about(&curves, "curves")))
}
