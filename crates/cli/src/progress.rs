//! Progress on long work: a bar on stderr when that is a terminal, nothing otherwise.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Duration;
use thermocline_sim::progress::{Amount, ProgressSink};

/// Time after which the bar is redrawn when nothing moves.
const TICK: Duration = Duration::from_millis(200);

/// A running job's progress; disappears when dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
}

/// Unit that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Bytes of input.
    Bytes,
    /// Requests, sizes, cells: things.
    Things,
}

impl Progress {
    /// A bar up to `total`, or a spinner with a count where the total is not known. `label` says
    /// what is going on: "reading web.csv".
    pub(crate) fn bar(total: Option<u64>, unit: Unit, label: &str) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress { bar: ProgressBar::hidden() };
        }
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        bar.set_style(style(total.is_some(), unit));
        bar.set_message(label.to_string());
        bar.enable_steady_tick(TICK);
        Progress { bar }
    }

    /// Says what is going on now.
    pub(crate) fn label(&self, label: String) {
        self.bar.set_message(label);
    }

    /// Says how far the work is.
    pub(crate) fn at(&self, position: u64) {
        self.bar.set_position(position);
    }

    /// Says that so much more is done; from any thread.
    pub(crate) fn more(&self, done: u64) {
        self.bar.inc(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar for each part of a run, one after the other.
#[derive(Default)]
pub(crate) struct Bars {
    now: Mutex<Option<Progress>>,
}

impl Bars {
    fn tell(&self, tell: impl FnOnce(&Progress)) {
        if let Some(bar) = self.now.lock().expect("telling a bar does not panic").as_ref() {
            tell(bar);
        }
    }
}

impl ProgressSink for Bars {
    fn begin(&self, what: &str, amount: Amount) {
        let (total, unit) = match amount {
            Amount::Bytes(total) => (total, Unit::Bytes),
            Amount::Things(total) => (total, Unit::Things),
        };
        let mut now = self.now.lock().expect("telling a bar does not panic");
        *now = None; // It disappears before the next one is drawn.
        *now = Some(Progress::bar(total, unit, what));
    }

    fn at(&self, done: u64) {
        self.tell(|bar| bar.at(done));
    }

    fn more(&self, done: u64) {
        self.tell(|bar| bar.more(done));
    }
}

fn style(bounded: bool, unit: Unit) -> ProgressStyle {
    let template = match (bounded, unit) {
        (true, Unit::Bytes) => {
            "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}"
        }
        (true, Unit::Things) => "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}",
        (false, Unit::Bytes) => "{spinner} {msg} {binary_bytes} {binary_bytes_per_sec}",
        (false, Unit::Things) => "{spinner} {msg} {human_pos} {per_sec}",
    };
    ProgressStyle::with_template(template).expect("the templates above are well formed")
}
