//! The source's controller, as printed: throughput and RE ratio of a period against expectations.
//!
//! 1. Its samples are summed for a period of ten minutes, as the monitor does. At the period's end:
//! 2. *Warm-up* (§4.3.1: "decrease the chunk size until arriving at a certain RE ratio"): from a
//!    start "in the kilobyte range" the expected size is halved at the end of each period, until
//!    the RE ratio is the expectation, or halving brought less than `pays`, or 128 B are reached. A
//!    halving that did not pay is taken back.
//! 3. Afterwards (§4.3.3): RE ratio near zero → no chunking; else throughput below the expectation
//!    → twice the size; else RE ratio below the expectation → half the size.
//!
//! Source: VNRE, Ge 2017 ch. 4.3.1 and 4.3.3. Printed are the period and the three rules. Not
//! printed, and ours: both expectations, how near zero is, the start, what pays, and the order of
//! the rules in 3 where several hold. Printed is no way back from "no chunking", so there is none.
//!
//! What it cannot know: the link. Throughput is that of processing, so equal samples give equal
//! choices at 10 Mbit/s and at 10 Gbit/s. Where both expectations cannot hold at once, it
//! alternates between two sizes. State: 128 B.

#[cfg(test)]
mod tests;

use super::{Choice, ChunkSize, Controller, Sample, Why, steady};
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::Nanos;

pub(crate) const ENTRY: Entry = Entry {
    name: "vnre",
    summary: "too slow: larger chunks; saves too little: smaller ones; nothing: none",
    source: "VNRE, Ge 2017 ch. 4.3",
    settings: &[
        Setting {
            name: "period",
            default: "10m",
            unit: "duration",
            help: "how often it decides; printed",
        },
        Setting {
            name: "kind",
            default: "content",
            unit: "content or fixed",
            help: "how flows are cut; the source sets it by port",
        },
        Setting {
            name: "start",
            default: "8KiB",
            unit: "size",
            help: "expected chunk size that warm-up begins with; ours",
        },
        Setting {
            name: "throughput",
            default: "64MiB",
            unit: "bytes a second",
            help: "throughput of processing that is expected; ours",
        },
        Setting {
            name: "re",
            default: "0.3",
            unit: "share of bytes",
            help: "RE ratio that is expected; ours",
        },
        Setting {
            name: "zero",
            default: "0.01",
            unit: "share of bytes",
            help: "an RE ratio below this is near zero; ours",
        },
        Setting {
            name: "pays",
            default: "0.01",
            unit: "share of bytes",
            help: "what a halving must add to the RE ratio in warm-up; ours",
        },
    ],
    build: Build::Tunnel(|settings| Ok(Box::new(Vnre::read(settings)?))),
};

struct Vnre {
    period: Nanos,
    content: bool,
    throughput: f64,
    re: f64,
    zero: f64,
    pays: f64,
    size: ChunkSize,
    off: bool,
    /// RE ratio at twice the size, while warming up.
    warming: Option<Option<f64>>,
    ends: Option<Nanos>,
    sums: Sums,
    why: Why,
}

#[derive(Default)]
struct Sums {
    bytes: f64,
    sent: f64,
    seconds: f64,
}

impl Vnre {
    fn read(settings: &Settings) -> Result<Vnre, SettingsError> {
        let period = settings.duration("period")?;
        if period.0 == 0 {
            return Err(settings.wrong("period", "a duration above 0".to_string()));
        }
        Ok(Vnre {
            period,
            content: settings.choice("kind", &["content", "fixed"])? == 0,
            throughput: settings.bytes("throughput")?.0 as f64,
            re: settings.number("re", 0.0, 1.0)?,
            zero: settings.number("zero", 0.0, 1.0)?,
            pays: settings.number("pays", 0.0, 1.0)?,
            size: steady::size(settings, "start")?,
            off: false,
            warming: Some(None),
            ends: None,
            sums: Sums::default(),
            why: Why::WarmUp { re: None },
        })
    }

    fn chosen(&self) -> Choice {
        match (self.off, self.content) {
            (true, _) => Choice::None,
            (false, true) => Choice::Content(self.size),
            (false, false) => Choice::Fixed(self.size),
        }
    }

    fn decide(&mut self, sums: &Sums) {
        if sums.bytes <= 0.0 || self.off {
            return;
        }
        let re = 1.0 - sums.sent / sums.bytes;
        let throughput = (sums.seconds > 0.0).then(|| sums.bytes / sums.seconds);
        if let Some(before) = self.warming {
            return self.warm(re, before, throughput);
        }
        self.why = if re < self.zero {
            self.off = true;
            Why::NoGain { re }
        } else if let Some(throughput) = throughput.filter(|rate| *rate < self.throughput) {
            self.size = self.size.moved(1);
            Why::TooSlow { throughput, expected: self.throughput }
        } else if re < self.re {
            self.size = self.size.moved(-1);
            Why::TooLittle { re, expected: self.re }
        } else {
            Why::AsExpected { throughput, re }
        };
    }

    fn warm(&mut self, re: f64, before: Option<f64>, throughput: Option<f64>) {
        let in_vain = before.is_some_and(|before| re - before < self.pays);
        match self.size.smaller() {
            Some(smaller) if re < self.re && !in_vain => {
                self.size = smaller;
                self.warming = Some(Some(re));
                self.why = Why::WarmUp { re: Some(re) };
            }
            _ => {
                self.size = if in_vain { self.size.moved(1) } else { self.size };
                self.warming = None;
                self.why = Why::AsExpected { throughput, re };
            }
        }
    }
}

impl Controller for Vnre {
    fn choose(&mut self, now: Nanos) -> Choice {
        let ends = *self.ends.get_or_insert(Nanos(now.0.saturating_add(self.period.0)));
        if now >= ends {
            let sums = std::mem::take(&mut self.sums);
            self.decide(&sums);
            self.ends = Some(Nanos(now.0.saturating_add(self.period.0)));
        }
        self.chosen()
    }

    fn observe(&mut self, _now: Nanos, sample: &Sample) {
        self.sums.bytes += sample.bytes.0 as f64;
        self.sums.sent += sample.sent.0 as f64;
        self.sums.seconds += sample.processing.as_secs_f64();
    }

    fn why(&self) -> Why {
        self.why
    }
}
