//! `thermocline lab sweep`: many traces, policies, sizes and seeds; a stopped run can be continued.

mod buckets;
mod ray;

use self::buckets::S3;
use crate::error::CliError;
use crate::output;
use crate::progress::{Progress, Unit};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use thermocline_sim::sweep::{self, Drive, Estimate, Folder, Job, Plan, PlanFile, Ran, Summary};

const EXAMPLES: &str = "\
Examples:
  thermocline lab sweep caches.toml --dry-run            jobs, rows, memory
  thermocline lab sweep caches.toml --out results        run it, or go on after a stop
  thermocline lab sweep --out results --job 17           one job of a sweep that began
  thermocline lab sweep caches.toml --out results --on ray    on a cluster of machines
  thermocline lab report results --html report.html

docs/guides/sweep.md explains plans. Exit status 130: stopped by Ctrl-C; nothing that is done is
lost. Exit status 1: some traces could not be read now; the same command tries them again.";

/// Exit status after SIGINT, as shells have it.
const EXIT_INTERRUPTED: i32 = 130;

/// Options of a sweep: the plan, the folder, and what to do.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The plan, a TOML file; not needed with --job.
    #[arg(value_name = "PLAN", required_unless_present = "job")]
    plan: Option<PathBuf>,
    /// The folder of the results: a new one, or one in which this plan was begun.
    #[arg(long, short, value_name = "DIR", required_unless_present = "dry_run")]
    out: Option<PathBuf>,
    /// Place where jobs run: in this process, or on a Ray cluster (RAY_ADDRESS, or the one of this
    /// machine), for which the Python package thermocline[ray] is needed.
    #[arg(long, value_name = "WHERE", default_value = "here")]
    on: On,
    /// Jobs at the same time; one a core when not given, on Ray twice as many, half of which wait.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Say what would be run and what it needs, and run nothing.
    #[arg(long, conflicts_with_all = ["out", "job", "workers", "on"])]
    dry_run: bool,
    /// Run this one job of a sweep that began, and write its file; others may do so at the same
    /// time.
    #[arg(long, value_name = "N", conflicts_with_all = ["plan", "workers", "on"])]
    job: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Place where jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum On {
    Here,
    Ray,
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    match (&args.out, args.job, &args.plan) {
        (Some(out), Some(job), _) => one(out, job, args.json),
        (None, _, Some(plan)) => dry_run(plan, args.json),
        (Some(out), None, Some(plan)) if args.on == On::Ray => {
            Err(ray::become_driver(plan, out, args.workers, args.json))
        }
        (Some(out), None, Some(plan)) => whole(plan, out, &args),
        _ => Err(CliError::input("name a PLAN, or a folder with --out and a job with --job")),
    }
}

/// A plan, with the way to buckets.
fn plan_file(path: &Path) -> Result<PlanFile, CliError> {
    let file = PlanFile::read(path).map_err(CliError::input)?;
    Ok(file.with_buckets(Arc::new(S3::default())))
}

fn dry_run(path: &Path, json: bool) -> Result<(), CliError> {
    let file = plan_file(path)?;
    let jobs = file.jobs().map_err(CliError::input)?;
    let estimate = file.estimate(&jobs).map_err(CliError::input)?;
    output::answer(json, &estimate, |estimate| described(estimate, &file.plan, &jobs))
}

/// The estimate for people.
fn described(estimate: &Estimate, plan: &Plan, jobs: &[Job]) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let contest = &plan.contest;
    let mut text = format!(
        "{} jobs: {} traces with {} seeds; {} policies at {} sizes in each\n{} rows of results, {} \
         of input\n",
        estimate.jobs,
        jobs.len() / plan.seeds.len(),
        plan.seeds.len(),
        contest.policies.len(),
        contest.sizes.len(),
        estimate.rows,
        rounded(estimate.input_bytes),
    );
    if let Some((job, bytes)) = estimate.largest {
        let mut largest = estimate.memory_bytes.clone();
        largest.sort_unstable_by(|a, b| b.cmp(a));
        let together: u64 = largest.iter().take(cores).sum();
        let name = jobs.get(job as usize - 1).map_or("", |job| job.name.as_str());
        text.push_str(&format!(
            "memory, estimated: at most {} a job ({name}), {} with {cores} jobs at the same time\n",
            rounded(bytes),
            rounded(together),
        ));
    }
    for note in &estimate.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    text
}

fn rounded(bytes: u64) -> String {
    thermocline_charts::format::bytes(bytes as f64)
}

fn one(out: &Path, number: u64, json: bool) -> Result<(), CliError> {
    let folder = Folder::open_shared(out).map_err(CliError::input)?;
    let folder = folder.with_buckets(Arc::new(S3::default()));
    let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    let job = index.and_then(|index| folder.jobs().get(index)).ok_or_else(|| {
        CliError::input(format!("--job {number}: the jobs are 1 to {}", folder.jobs().len()))
    })?;
    let errors = match folder.run(job, &|_| {}).map_err(CliError::failed)? {
        Ran::Done { errors } => errors,
        Ran::Unread { problem } => return Err(CliError::failed(problem)),
    };
    if !json {
        output::print(&format!("job {number}: {}, {errors} rows are errors\n", job.name))?;
        return Ok(());
    }
    let value = serde_json::json!({ "job": number, "trace": job.name, "errors": errors });
    output::print(&format!("{value}\n"))
}

#[allow(clippy::print_stderr)]
fn whole(plan_path: &Path, out: &Path, args: &Args) -> Result<(), CliError> {
    let file = plan_file(plan_path)?;
    let folder = file.begin(out, &output::command_line()).map_err(CliError::input)?;
    let missing = folder.missing().map_err(CliError::failed)?.len();
    let before = folder.jobs().len() - missing;
    if before > 0 {
        eprintln!("{before} of {} jobs were done before", folder.jobs().len());
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = args.workers.map_or(cores, usize::from);
    let (done, errors) = (Arc::new(AtomicUsize::new(before)), AtomicUsize::new(0));
    let unread = Mutex::new(Vec::new());
    let stop = AtomicBool::new(false);
    leave_on_signals(Arc::clone(&done), folder.jobs().len())?;
    let bar = Progress::bar(Some(missing as u64), Unit::Things, "jobs");
    let told = |job: &Job, ran: &Ran| {
        match ran {
            Ran::Done { errors: wrong } => {
                done.fetch_add(1, Ordering::Relaxed);
                errors.fetch_add(*wrong, Ordering::Relaxed);
            }
            Ran::Unread { problem } => {
                let mut unread = unread.lock().expect("nothing panics with it held");
                unread.push((job.number, problem.clone()));
            }
        }
        bar.label(format!("jobs (last: {})", job.name));
        bar.more(1);
    };
    let finished = sweep::drive(&folder, Drive { workers }, &stop, &told);
    drop(bar);
    let finished = finished.map_err(CliError::failed)?;
    let mut unread = unread.into_inner().expect("nothing panics with it held");
    unread.sort_unstable();
    let summary = Summary {
        jobs: folder.jobs().len(),
        done_before: before,
        done_now: finished,
        errors_now: errors.into_inner(),
        unread_now: unread.len(),
    };
    output::answer(args.json, &summary, |summary| summary.text(out))?;
    if unread.is_empty() { Ok(()) } else { Err(CliError::failed(sweep::unread_text(&unread))) }
}

impl From<sweep::FolderError> for CliError {
    fn from(error: sweep::FolderError) -> CliError {
        CliError::input(error)
    }
}

/// Ends the process at the first SIGINT or SIGTERM: what is done is on disk, and what is under way
/// begins anew the next time.
#[allow(clippy::print_stderr)]
fn leave_on_signals(done: Arc<AtomicUsize>, jobs: usize) -> Result<(), CliError> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| CliError::failed(format!("signals: {error}")))?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            let done = done.load(Ordering::Relaxed);
            eprintln!("\nstopped after {done} of {jobs} jobs; the same command goes on from there");
            std::process::exit(EXIT_INTERRUPTED);
        }
    });
    Ok(())
}

/// Options of a report.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// The folder of a sweep; it may still be running.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The policy that others are compared with; the plan's when not given.
    #[arg(long, value_name = "POLICY")]
    baseline: Option<String>,
    /// The measure: request-misses, line-misses, byte-misses, cost, disk-head or flash-writes.
    #[arg(long, value_name = "NAME", default_value = "request-misses")]
    measure: sweep::report::Measure,
    /// Flash writes at which costs are compared: a part of the baseline's.
    #[arg(long, value_name = "PART", default_value_t = 1.0, value_parser = part)]
    flash_writes: f64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Also write a self-contained HTML page with pictures.
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// Write over a file that exists.
    #[arg(long)]
    force: bool,
}

fn part(text: &str) -> Result<f64, String> {
    let good = text.parse::<f64>().ok().filter(|part| part.is_finite() && *part > 0.0);
    good.ok_or_else(|| format!("`{text}` is not a part; write 0.5 for half"))
}

pub(crate) fn report(args: &ReportArgs) -> Result<(), CliError> {
    let options = sweep::report::ReportOptions {
        measure: args.measure,
        baseline: args.baseline.clone(),
        flash_writes: args.flash_writes,
    };
    let report = sweep::report::report(&args.folder, &options)?;
    if let Some(path) = &args.html {
        let page = report.to_html(&output::command_line());
        output::write_text(path, &page, args.force)?;
    }
    output::answer(args.json, &report, sweep::report::SweepReport::to_markdown)
}
