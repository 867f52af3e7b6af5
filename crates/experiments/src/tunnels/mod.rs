//! Savings of a tunnel on requests for public files, and what those are worth on a link.
//!
//! 1. Clients ask for files of several kinds, popular by Zipf's law; which files are popular is
//!    another draw with each seed. All rows of a seed get the same requests.
//! 2. The sending half of a tunnel ([`Trial`]) cuts what is asked for, and keeps chunks in a cache
//!    that is a small share of all files. What it sends is counted without compression, as the
//!    source counts, and with it, as ours sends.
//! 3. Processor time is counted: so much a byte, so much a chunk. What that is on some machine is
//!    measured elsewhere and written down in the description, so a run is the same everywhere.
//! 4. A *day* lets requests come over a link, more by day than by night: each waits for the
//!    processor, then for the link. The hours are pressed together until the link is as loaded as
//!    the description says.
//!
//! Source: S3, VNRE (Ge 2017 §4.2 to 4.4).

mod config;

pub use config::Config;

use self::config::{CostConfig, DayConfig, PanelConfig, RowConfig};
use super::grid::{Measure, Measured, Outcome, Panel};
use super::{ExperimentError, Folders};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thermocline_chunking::Method;
use thermocline_tunnel::{Encoded, Trial};
use thermocline_units::{Bytes, Rng};

/// Measures of these experiments.
const MEASURES: [Measure; 3] = [Measure::Sent, Measure::SentPacked, Measure::Throughput];

/// Files of one kind.
struct Kind {
    name: String,
    share: f64,
    files: Vec<PathBuf>,
    /// Bytes of all of them.
    bytes: u64,
}

/// A request for a file.
struct Request {
    /// Number of its kind, among those in play.
    kind: usize,
    path: PathBuf,
}

/// A request that was answered.
struct Answer {
    kind: usize,
    encoded: Encoded,
    /// Processor time, seconds.
    processing: f64,
}

impl Answer {
    /// Bytes sent if literals go as they are.
    fn sent(&self) -> u64 {
        unpacked(&self.encoded)
    }
}

fn unpacked(encoded: &Encoded) -> u64 {
    encoded.sent - encoded.stored + (encoded.bytes - encoded.saved)
}

/// Runs the experiment on the files below a folder of `folders`. `note` is told what is going on.
///
/// # Errors
/// When the files are not there, or cannot be read.
pub fn run(
    config: &Config,
    folders: &Folders,
    note: &mut dyn FnMut(&str),
) -> Result<Outcome, ExperimentError> {
    let kinds = kinds(config, folders)?;
    let mut about = config.about.trim().to_string();
    for kind in &kinds {
        let bytes = Bytes(kind.bytes);
        about += &format!("\n\n{}: {} files, {bytes}.", kind.name, kind.files.len());
    }
    Outcome::of((&config.title, &config.source, &about), &config.panels, |panel| {
        note(&panel.title);
        run_panel(config, panel, &kinds)
    })
}

fn kinds(config: &Config, folders: &Folders) -> Result<Vec<Kind>, ExperimentError> {
    let places: Vec<&PathBuf> = folders.published.iter().chain(&folders.stand_ins).collect();
    let has_all = |place: &&&PathBuf| config.flows.iter().all(|f| place.join(&f.name).is_dir());
    let names: Vec<&str> = config.flows.iter().map(|flow| flow.name.as_str()).collect();
    let place = places.iter().find(has_all).ok_or_else(|| ExperimentError::NoTraces {
        published: "the source's flows".to_string(),
        stand_ins: format!(
            "folders {} (data.py beside the experiment makes them)",
            names.join(", ")
        ),
    })?;
    let kind = |flow: &config::FlowConfig| {
        let folder = place.join(&flow.name);
        let (files, bytes) = files(&folder).map_err(|error| unreadable(&folder, error))?;
        Ok(Kind { name: flow.name.clone(), share: flow.share, files, bytes })
    };
    config.flows.iter().map(kind).collect()
}

fn files(folder: &Path) -> std::io::Result<(Vec<PathBuf>, u64)> {
    let (mut files, mut bytes) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let length = entry.metadata()?.len();
        if entry.file_type()?.is_file() && length > 0 {
            files.push(entry.path());
            bytes += length;
        }
    }
    if files.is_empty() {
        return Err(std::io::Error::other("it has no files"));
    }
    files.sort();
    Ok((files, bytes))
}

fn unreadable(path: &Path, error: std::io::Error) -> ExperimentError {
    let (origin, problem) = (path.display().to_string(), error.to_string());
    ExperimentError::Config(super::ConfigError { origin, problem })
}

fn run_panel(
    config: &Config,
    panel: &PanelConfig,
    kinds: &[Kind],
) -> Result<Panel, ExperimentError> {
    let is_in_play = |kind: &&Kind| panel.flows.is_empty() || panel.flows.contains(&kind.name);
    let kinds: Vec<&Kind> = kinds.iter().filter(is_in_play).collect();
    panel.sheet().run_rows(&config.seeds, |row, seed| {
        let requests = requests(config, panel, &kinds, seed);
        let answers = answers(config, panel, &panel.rows[row], &kinds, &requests)?;
        Ok(match panel.day {
            Some(day) => over_a_day(&answers, day, config.link.0 as f64, seed),
            None => counted(panel, &kinds, &answers),
        })
    })
}

/// The requests of a seed, by kind and file.
fn requests(config: &Config, panel: &PanelConfig, kinds: &[&Kind], seed: u64) -> Vec<Request> {
    let requested = panel.requested.unwrap_or(config.requested).0;
    let mut rng = Rng::seeded(seed);
    let popular: Vec<Vec<&PathBuf>> = kinds.iter().map(|kind| shuffled(kind, &mut rng)).collect();
    let weights: Vec<Vec<f64>> =
        kinds.iter().map(|kind| sums(config.zipf, kind.files.len())).collect();
    // By requests, so that each kind gets its share of bytes.
    let mean = |kind: &&Kind| kind.bytes as f64 / kind.files.len() as f64;
    let shares: Vec<f64> = kinds.iter().map(|kind| kind.share / mean(kind)).collect();
    let total: f64 = shares.iter().sum();
    let (mut requests, mut bytes) = (Vec::new(), 0);
    while bytes < requested {
        let mut draw = rng.unit_f64() * total;
        let kind = shares.iter().position(|share| {
            draw -= share;
            draw < 0.0
        });
        let kind = kind.unwrap_or(kinds.len() - 1);
        let sums = &weights[kind];
        let draw = rng.unit_f64() * sums[sums.len() - 1];
        let rank = sums.partition_point(|&sum| sum <= draw).min(sums.len() - 1);
        let path = popular[kind][rank].clone();
        bytes += std::fs::metadata(&path).map_or(0, |file| file.len()).max(1);
        requests.push(Request { kind, path });
    }
    requests
}

/// A kind's files, the most popular first.
fn shuffled<'a>(kind: &'a Kind, rng: &mut Rng) -> Vec<&'a PathBuf> {
    let mut files: Vec<&PathBuf> = kind.files.iter().collect();
    rng.shuffle(&mut files);
    files
}

/// Sums of the weights of ranks from 1 on.
fn sums(zipf: f64, ranks: usize) -> Vec<f64> {
    let mut sum = 0.0;
    let weight = |rank: usize| {
        sum += (rank as f64).powf(-zipf);
        sum
    };
    (1..=ranks).map(weight).collect()
}

fn answers(
    config: &Config,
    panel: &PanelConfig,
    row: &RowConfig,
    kinds: &[&Kind],
    requests: &[Request],
) -> Result<Vec<Answer>, ExperimentError> {
    let bytes: u64 = kinds.iter().map(|kind| kind.bytes).sum();
    let share = panel.cache_share.unwrap_or(config.cache_share);
    let share = if row.unlimited { 2.0 } else { share };
    let chunkings: Vec<_> = kinds.iter().map(|kind| row.chunking(&kind.name)).collect();
    let mut trial = Trial::new(Bytes((bytes as f64 * share) as u64), chunkings[0]);
    let costs = &config.costs[row.costs.as_deref().unwrap_or("ours")];
    let mut answers = Vec::with_capacity(requests.len());
    for Request { kind, path } in requests {
        trial.cut_by(chunkings[*kind]);
        let file = std::fs::read(path).map_err(|error| unreadable(path, error))?;
        let before = trial.totals();
        trial.push(&file);
        trial.end_flow();
        let encoded = trial.totals().since(&before);
        let processing = seconds(costs, chunkings[*kind].method(), &encoded);
        answers.push(Answer { kind: *kind, encoded, processing });
    }
    Ok(answers)
}

fn seconds(costs: &CostConfig, method: Method, encoded: &Encoded) -> f64 {
    let (byte, chunk) = match method {
        Method::None => (costs.relay_byte, 0.0),
        Method::Fixed => (costs.fixed_byte, costs.fixed_chunk),
        Method::ModP | Method::MaxP => (costs.packet_byte, costs.packet_chunk),
        Method::Gear | Method::Rabin16 | Method::RabinSource => {
            (costs.content_byte, costs.content_chunk)
        }
    };
    (byte * encoded.bytes as f64 + chunk * encoded.chunks as f64) * 1e-9
}

/// Figures of a run, by column.
fn counted(panel: &PanelConfig, kinds: &[&Kind], answers: &[Answer]) -> Vec<Measured> {
    let column = |flows: &Vec<String>| {
        let counts =
            |answer: &&Answer| flows.is_empty() || flows.contains(&kinds[answer.kind].name);
        let (mut totals, mut processing) = (Encoded::default(), 0.0);
        for answer in answers.iter().filter(counts) {
            totals.add(&answer.encoded);
            processing += answer.processing;
        }
        BTreeMap::from([
            (Measure::Sent, unpacked(&totals) as f64),
            (Measure::SentPacked, totals.sent as f64),
            (Measure::Throughput, totals.bytes as f64 / f64::max(processing, 1e-12)),
        ])
    };
    panel.columns.iter().map(|of| column(&of.flows)).collect()
}

/// Bytes a second that clients get of their requests, by hours.
fn over_a_day(answers: &[Answer], day: DayConfig, link: f64, seed: u64) -> Vec<Measured> {
    let bytes: u64 = answers.iter().map(|answer| answer.encoded.bytes).sum();
    let lasts = bytes as f64 / (link * day.load);
    let times = arrivals(answers.len(), day, seed);
    let columns = (day.hours / day.every) as usize;
    let mut sums = vec![(0.0, 0_u64, 0_u64, 0_u64); columns];
    let (mut processor, mut free) = (0.0_f64, 0.0_f64);
    for (answer, part) in answers.iter().zip(times) {
        let came = part * lasts;
        processor = processor.max(came) + answer.processing;
        free = free.max(processor) + answer.sent() as f64 / link;
        let (rates, count, sent, packed) =
            &mut sums[((part * columns as f64) as usize).min(columns - 1)];
        *rates += answer.encoded.bytes as f64 / (free - came);
        *count += 1;
        *sent += answer.sent();
        *packed += answer.encoded.sent;
    }
    let measured = |(rates, count, sent, packed): (f64, u64, u64, u64)| {
        BTreeMap::from([
            (Measure::Throughput, rates / count.max(1) as f64),
            (Measure::Sent, sent as f64),
            (Measure::SentPacked, packed as f64),
        ])
    };
    sums.into_iter().map(measured).collect()
}

/// Times of so many requests as parts of the whole, ascending: most at each day's middle.
fn arrivals(count: usize, day: DayConfig, seed: u64) -> Vec<f64> {
    let mut rng = Rng::seeded(seed ^ 0xDA7);
    let days = f64::from(day.hours) / 24.0;
    let mut times = Vec::with_capacity(count);
    while times.len() < count {
        let part = rng.unit_f64();
        let rate = 1.0 - day.swing * (part * days * std::f64::consts::TAU).cos();
        if rng.unit_f64() * (1.0 + day.swing) < rate {
            times.push(part);
        }
    }
    times.sort_by(f64::total_cmp);
    times
}
