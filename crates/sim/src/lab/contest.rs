//! A whole run of `lab cache`, from the traces to the report: the command and Python call this.
//!
//! Decides how often the traces are read: once where the run needs to know nothing beforehand,
//! twice where it needs totals and the traces can be read again, and into memory otherwise.

use super::curve::{CurveMethod, Curves, exact_curve};
use super::miniature::{Adjustment, sampled_curves};
use super::results::{Report, Seen};
use super::run::{Grid, LabError, LabOptions, Needs, Refusal, Tried};
use super::run::{read_totals, run_grid, run_grid_stream};
use super::selection::Selection;
use super::size::CacheSize;
use crate::progress::{Amount, ProgressSink};
use crate::replay::{ReplayOptions, Warmup};
use crate::source::Traces;
use crate::workload::{Cut, Sample, Stream, Unit, Workload, WorkloadError};
use thermocline_policy::registry::PolicySpec;
use thermocline_trace::TraceReader;
use thermocline_units::Bytes;
use thermocline_units::text::counted;

/// Traces, the way they are cut, and the options of the replays.
pub struct Contest {
    /// The traces.
    pub traces: Traces,
    /// Unit that is cached.
    pub unit: Unit,
    /// Bytes of a chunk that flash managers move.
    pub chunk: Bytes,
    /// Options that all replays share.
    pub options: LabOptions,
    /// Effect of a policy that cannot run, or fails.
    pub refusal: Refusal,
}

/// Sizes when none are asked for.
fn usual_sizes() -> Vec<CacheSize> {
    [0.01, 0.05, 0.2].map(CacheSize::Share).to_vec()
}

/// Epochs below which decisions once an epoch say little.
const EPOCHS_FEW: u64 = 24;

impl Contest {
    /// Every policy at every size, or at the usual ones.
    ///
    /// # Errors
    /// When a trace cannot be read, an option makes no sense, or a policy cannot run and that ends
    /// the run. Where it does not, its error is among the report's failures.
    pub fn run(
        &self,
        chosen: Selection,
        sizes: Option<&[CacheSize]>,
        sink: &dyn ProgressSink,
    ) -> Result<Report, LabError> {
        chosen.check_placements()?;
        let cut = self.cut(&chosen.specs)?;
        let usual = usual_sizes();
        let sizes = sizes.unwrap_or(&usual);
        let options = &self.options;
        let mut reader = self.traces.open().map_err(WorkloadError::from)?;
        let specs = &chosen.specs;
        let grid = Grid { specs, sizes, refusal: self.refusal };
        let (tried, seen) = match Needs::of(specs, sizes, &options.replay) {
            Needs::Nothing => self.stream(&mut *reader, cut, grid, None, sink)?,
            Needs::Totals if self.traces.can_be_read_again() => {
                sink.begin("counting", self.bytes());
                let mut stream = Stream::new(&mut *reader, cut);
                let seen = read_totals(&mut stream, cut, &|bytes| sink.at(bytes))?;
                let mut again = self.traces.open().map_err(WorkloadError::from)?;
                self.stream(&mut *again, cut, grid, Some(&seen), sink)?
            }
            _ => {
                sink.begin("reading", self.bytes());
                let workload = Workload::read(&mut *reader, cut, &|bytes| sink.at(bytes))?;
                let touches = workload.touches() * (specs.len() * sizes.len()) as u64;
                sink.begin("replaying lines", Amount::Things(Some(touches)));
                let tried = run_grid(&workload, grid, options, &|n| sink.more(n))?;
                (tried, Seen::of(&workload))
            }
        };
        let mut notes = self.notes(&*reader, specs, &seen);
        notes.extend(chosen.note);
        let report = Report::new(cut, &seen, self.traces.names(), options);
        Ok(report.with_notes(notes).with_tried(grid, tried))
    }

    /// Miss-ratio curves at `sizes`, or at the usual ones; of LRU, when the method is exact and no
    /// policy is chosen.
    ///
    /// # Errors
    /// As [`Contest::run`], and when a policy has no curve by this method.
    pub fn curves(
        &self,
        chosen: Option<Selection>,
        sizes: Option<&[CacheSize]>,
        method: CurveMethod,
        sink: &dyn ProgressSink,
    ) -> Result<Curves, LabError> {
        let cut = Cut { chunk: None, ..self.cut(&[])? };
        let objects = matches!(self.unit, Unit::Objects);
        let mut reader = self.traces.open().map_err(WorkloadError::from)?;
        sink.begin("reading", self.bytes());
        let progress = |bytes| sink.at(bytes);
        let Some(size) = method.sample() else {
            let only_lru = |spec: &PolicySpec| spec.is_plain_lru();
            if chosen.is_some_and(|chosen| !chosen.specs.iter().all(only_lru)) {
                return Err(LabError::OnlyLru);
            }
            let warmup = self.warmup_in_requests(cut, sink)?;
            let replay = ReplayOptions { warmup, ..self.options.replay };
            let options = LabOptions { replay, ..self.options.clone() };
            sink.begin("reading", self.bytes());
            return exact_curve(&mut *reader, cut, sizes, &options, &progress);
        };
        let usual = || {
            let mut usual = Selection::default();
            usual.add_usual(objects);
            usual
        };
        let caches = chosen.unwrap_or_else(usual).into_caches()?;
        let sample = Sample::read(&mut *reader, self.unit, size, self.options.seed, &progress)?;
        sink.begin("replaying sampled lines", Amount::Things(None));
        let how = (method, Adjustment::WhereItHelps);
        sampled_curves(&sample, self.unit, &caches, sizes, how, &self.options)
    }

    /// The warm-up, where it is a share of the requests as a number of them: that takes a pass of
    /// its own over the trace.
    fn warmup_in_requests(&self, cut: Cut, sink: &dyn ProgressSink) -> Result<Warmup, LabError> {
        let warmup = self.options.replay.warmup;
        if !matches!(warmup, Warmup::Fraction(part) if part > 0.0) {
            return Ok(warmup);
        }
        if !self.traces.can_be_read_again() {
            let problem = format!(
                "a warm-up of {warmup} needs the number of requests before the exact curve is \
                 counted, and this input can be read only once; write a number of requests or a \
                 time, or give a file"
            );
            return Err(LabError::Option(problem));
        }
        sink.begin("counting", self.bytes());
        let mut reader = self.traces.open().map_err(WorkloadError::from)?;
        let mut stream = Stream::new(&mut *reader, cut);
        let seen = read_totals(&mut stream, cut, &|bytes| sink.at(bytes))?;
        Ok(warmup.of(seen.requests))
    }

    /// Cutting of the trace: into chunks too when a flash manager runs.
    fn cut(&self, specs: &[PolicySpec]) -> Result<Cut, LabError> {
        if self.options.replay.epoch.0 == 0 {
            let problem = "--epoch 0s: an epoch lasts some time; the default is 5m";
            return Err(LabError::Option(problem.to_string()));
        }
        let line = self.unit.line_bytes();
        let objects = matches!(self.unit, Unit::Objects);
        for (option, size) in [("--line", line), ("--chunk", self.chunk)] {
            let counted = objects && option == "--line";
            if !counted && (size.0 < 512 || !size.0.is_power_of_two()) {
                let problem = format!("{option} {size}: use a power of two from 512 up");
                return Err(LabError::Option(problem));
            }
        }
        let chunk = self.chunk;
        if !objects && chunk < line {
            let problem = format!("--chunk {chunk} is smaller than --line {line}");
            return Err(LabError::Option(problem));
        }
        let needs_chunks = !objects && specs.iter().any(PolicySpec::is_placement);
        Ok(Cut { unit: self.unit, chunk: needs_chunks.then_some(self.chunk) })
    }

    fn bytes(&self) -> Amount {
        Amount::Bytes(self.traces.size_bytes())
    }

    /// Replays while reading, in memory that does not grow with the requests.
    fn stream(
        &self,
        reader: &mut dyn TraceReader,
        cut: Cut,
        grid: Grid<'_>,
        known: Option<&Seen>,
        sink: &dyn ProgressSink,
    ) -> Result<(Vec<Tried>, Seen), LabError> {
        sink.begin("replaying", self.bytes());
        let mut stream = Stream::new(reader, cut);
        let progress = |bytes| sink.at(bytes);
        run_grid_stream(&mut stream, cut, grid, &self.options, known, &progress)
    }

    /// Notes to read before trusting the figures.
    fn notes(&self, reader: &dyn TraceReader, specs: &[PolicySpec], seen: &Seen) -> Vec<String> {
        let mut notes = Vec::new();
        if let (Unit::Lines(line), true) = (self.unit, reader.names_objects()) {
            let ids = line.0 / 512;
            notes.push(format!(
                "this trace names objects, not addresses: {ids} neighbouring ids share a line of \
                 {line}; --objects caches each by itself"
            ));
        }
        let by_epoch = |spec: &&PolicySpec| spec.is_placement() || spec.needs_volumes();
        let slow: Vec<&str> = specs.iter().filter(by_epoch).map(|spec| spec.entry.name).collect();
        let epoch = self.options.replay.epoch;
        let epochs = seen.last.0 / epoch.0;
        if !slow.is_empty() && epochs < EPOCHS_FEW {
            notes.push(format!(
                "the trace lasts {} of {epoch}: too few to judge what decides once an \
                 epoch ({}); --epoch makes them shorter",
                counted(epochs, "epoch"),
                slow.join(", ")
            ));
        }
        notes
    }
}
