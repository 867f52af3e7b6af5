//! The monitor: sums the chunking log by flow class and period.
//!
//! 1. Each run of the chunker writes a line: time (GMT, at its start), server port, data size,
//!    processing time, size of what was sent (Fig. 4.8). Ours also has the number of chunks,
//!    because cost is per byte and per chunk.
//! 2. Throughput of a class in a period is Σ data / Σ processing time, its RE ratio
//!    1 − Σ sent / Σ data (§4.3.3).
//! 3. At the end of each period (10 minutes in the source) the sums of every class that had data
//!    are handed over, and start anew.
//!
//! Source: VNRE, Ge 2017 ch. 4.3.3. A flow class is the server's port by default
//! (the source's "srcPort": data comes from the server); a rule may name others.
//!
//! State: 56 B a class.

use std::collections::BTreeMap;
use std::fmt;
use thermocline_units::{Bytes, Nanos};

/// A line of the log that a run of the chunker writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLine {
    /// The start of chunking, since 1 January 1970, GMT (in the laboratory: since its time zero).
    pub time: Nanos,
    /// The server's port.
    pub server_port: u16,
    /// Bytes that were asked for.
    pub data: Bytes,
    /// Time that processing them took.
    pub processing: Nanos,
    /// Bytes that were sent instead.
    pub sent: Bytes,
    /// Chunks that were cut; the source has no such column.
    pub chunks: u64,
}

impl LogLine {
    /// The columns, as the source heads them, and ours.
    pub const HEADER: &str = "Time\tsrcPort\tData Size\tProcessing Time\tSending Data Size\tChunks";
}

/// Prints tabs between the columns of [`LogLine::HEADER`]: bytes, and nanoseconds of processing.
impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gmt { year, month, day, second } = Gmt::of(self.time);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} GMT\t")?;
        let LogLine { server_port, data, processing, sent, chunks, .. } = self;
        write!(f, "{server_port}\t{}\t{}\t{}\t{chunks}", data.0, processing.0, sent.0)
    }
}

struct Gmt {
    year: u64,
    month: u64,
    day: u64,
    second: u64,
}

impl Gmt {
    /// The date, counted in eras of 400 years that begin on 1 March (Hinnant, "chrono-compatible
    /// low-level date algorithms", 2013).
    fn of(since_1970: Nanos) -> Gmt {
        const DAY_S: u64 = 86_400;
        const ERA_DAYS: u64 = 146_097;
        let seconds = since_1970.0 / 1_000_000_000;
        let days = seconds / DAY_S + 719_468;
        let (era, day) = (days / ERA_DAYS, days % ERA_DAYS);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = era * 400 + year + u64::from(month <= 2);
        Gmt { year, month, day, second: seconds % DAY_S }
    }
}

/// Sums over lines of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Lines.
    pub lines: u64,
    /// Bytes that were asked for.
    pub data: Bytes,
    /// Time of processing.
    pub processing: Nanos,
    /// Bytes that were sent.
    pub sent: Bytes,
    /// Chunks.
    pub chunks: u64,
}

impl Totals {
    /// Adds a line.
    pub fn add(&mut self, line: &LogLine) {
        self.lines = self.lines.saturating_add(1);
        self.data.0 = self.data.0.saturating_add(line.data.0);
        self.processing.0 = self.processing.0.saturating_add(line.processing.0);
        self.sent.0 = self.sent.0.saturating_add(line.sent.0);
        self.chunks = self.chunks.saturating_add(line.chunks);
    }

    /// Bytes a second of processing; `None` when no time was spent.
    pub fn throughput(&self) -> Option<f64> {
        (self.processing.0 > 0).then(|| self.data.0 as f64 / self.processing.as_secs_f64())
    }

    /// RE ratio: the share of bytes that need not be sent, at most 1; below 0 when more was sent
    /// than was asked for; `None` without data.
    pub fn re_ratio(&self) -> Option<f64> {
        (self.data.0 > 0).then(|| 1.0 - self.sent.0 as f64 / self.data.0 as f64)
    }
}

/// Sums the log by class, period by period.
#[derive(Debug, Clone)]
pub struct Monitor<K = u16> {
    period: Nanos,
    ends: Option<Nanos>,
    classes: BTreeMap<K, Totals>,
    left_out: u64,
}

impl<K: Ord + Copy> Monitor<K> {
    /// Classes that it keeps apart; lines of further ones are only counted. As many as ports.
    pub const CLASSES_MAX: usize = 1 << 16;

    /// One that reports every `period`; the source's is ten minutes. The first period begins with
    /// the first line.
    ///
    /// # Panics
    /// When `period` is zero.
    pub fn new(period: Nanos) -> Monitor<K> {
        assert!(period.0 > 0, "a period takes time");
        Monitor { period, ends: None, classes: BTreeMap::new(), left_out: 0 }
    }

    /// Writes down a line of `class`. Ask [`Monitor::report`] first, so that it falls into its own
    /// period.
    pub fn record(&mut self, class: K, line: &LogLine) {
        self.ends.get_or_insert(Nanos(line.time.0.saturating_add(self.period.0)));
        if self.classes.len() >= Self::CLASSES_MAX && !self.classes.contains_key(&class) {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        self.classes.entry(class).or_default().add(line);
    }

    /// The sums by class, once the period is over; `None` before. Periods without any line are
    /// passed over.
    pub fn report(&mut self, now: Nanos) -> Option<BTreeMap<K, Totals>> {
        let ends = self.ends.filter(|ends| *ends <= now)?;
        let over = (now.0 - ends.0) / self.period.0;
        let next = ends.0.saturating_add(self.period.0.saturating_mul(over + 1));
        self.ends = Some(Nanos(next));
        Some(std::mem::take(&mut self.classes)).filter(|classes| !classes.is_empty())
    }

    /// Lines that were not summed, because there were too many classes.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}
