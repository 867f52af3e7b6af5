//! A tunnel as the tests model it: what flows would save, what cutting costs, what the cache has.
//!
//! 1. A flow is segments of 256 KiB. Its *nature* says what each choice saves in the long run.
//! 2. A repeated byte was first seen a distance before that is exponential with mean `reuse`. It is
//!    saved if that earlier byte was cut by the same choice: each choice has a *coverage*, the
//!    share of the flow's past that it has cut, weighted by that distance. So the first pass after
//!    a switch saves nothing, and an experiment leaves a hole.
//! 3. A segment's saving varies by ±60 % of 1 − saving or saving, whichever is smaller: mostly as
//!    its content does, equally for all choices, a third of it by choice.
//! 4. Cost is a · bytes + b · chunks, with a by kind, ±20 %; one segment in 200 takes ten times as
//!    long. Content's chunks are 1.25 times the expected size, ±10 %.
//! 5. A segment takes as long as the slower of link and processor.
//! 6. Shadows see every segment while they run, sampled: their estimates vary by another ±20 % and
//!    take 0.1 ns a byte together. What passes while they rest is a hole in all their coverages.

use crate::tunnel::{Choice, Conditions, Controller, Estimate, Kind, Sample};
use thermocline_units::{Bytes, Nanos, Rng};

pub(crate) const SEGMENT: u64 = 256 << 10;
/// Seconds a byte: none, fixed, content; and a chunk.
const BYTE_S: [f64; 3] = [0.4e-9, 0.5e-9, 0.8e-9];
const CHUNK_S: f64 = 0.6e-6;
const SHADOW_S: f64 = 0.1e-9;

/// Shares saved in the long run, by size from 128 B.
pub(crate) struct Nature {
    pub(crate) name: &'static str,
    content: [f64; 10],
    fixed: [f64; 10],
}

pub(crate) const TEXT: Nature = Nature {
    name: "text",
    content: [0.82, 0.80, 0.78, 0.75, 0.715, 0.67, 0.61, 0.52, 0.42, 0.33],
    fixed: [0.21, 0.20, 0.19, 0.14, 0.10, 0.05, 0.01, 0.0, 0.0, 0.0],
};
pub(crate) const VIDEO: Nature = Nature { name: "video", content: [0.002; 10], fixed: [0.001; 10] };
/// Bytes that never return.
pub(crate) const ENCRYPTED: Nature =
    Nature { name: "encrypted", content: [0.0; 10], fixed: [0.0; 10] };
pub(crate) const IMAGES: Nature = Nature { name: "images", content: [0.55; 10], fixed: [0.55; 10] };
pub(crate) const MAIL: Nature = Nature {
    name: "mail",
    content: [0.48, 0.47, 0.455, 0.44, 0.42, 0.40, 0.36, 0.30, 0.22, 0.15],
    fixed: [0.10, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01, 0.0, 0.0],
};

/// Logs, with many short repetitions; not used in tuning.
pub(crate) const LOGS: Nature = Nature {
    name: "logs",
    content: [0.66, 0.58, 0.49, 0.38, 0.27, 0.18, 0.11, 0.06, 0.03, 0.02],
    fixed: [0.05, 0.03, 0.02, 0.01, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
};
/// Snapshots of databases, whose pages stay in place; not used in tuning.
pub(crate) const SNAPSHOTS: Nature = Nature {
    name: "snapshots",
    content: [0.93, 0.925, 0.92, 0.91, 0.90, 0.87, 0.83, 0.76, 0.66, 0.55],
    fixed: [0.93, 0.928, 0.925, 0.92, 0.91, 0.90, 0.885, 0.80, 0.71, 0.60],
};

impl Nature {
    pub(crate) fn saves(&self, choice: Choice) -> f64 {
        let Some(size) = choice.size() else { return 0.0 };
        let position = (size.bytes().trailing_zeros() - 7) as usize;
        match choice.kind() {
            Kind::Fixed => self.fixed[position],
            _ => self.content[position],
        }
    }
}

/// A link and a processor; and the flow between.
pub(crate) struct World {
    /// Bytes a second.
    pub(crate) link: f64,
    pub(crate) cores: f64,
    /// Seconds a byte that every choice costs besides, as sockets and TLS do.
    pub(crate) relay: f64,
    /// Mean bytes from a byte to its repetition.
    pub(crate) reuse: f64,
    pub(crate) shadows: bool,
    /// The shadows' answer, and nothing else, when they lie.
    pub(crate) lie: Option<f64>,
    rng: Rng,
    real: [f64; Choice::COUNT],
    shadow: [f64; Choice::COUNT],
    pub(crate) now_s: f64,
    pub(crate) bytes: u64,
    pub(crate) chosen: [u64; Choice::COUNT],
    /// Choices that cut 16 MiB running, and were not the last to do so.
    pub(crate) put_in_force: u32,
    running: (Choice, u64),
    lasting: Option<Choice>,
}

pub(crate) const LINKS: [(&str, f64); 4] =
    [("10 Mbit/s", 1.25e6), ("100 Mbit/s", 1.25e7), ("1 Gbit/s", 1.25e8), ("10 Gbit/s", 1.25e9)];

impl World {
    pub(crate) fn new(link: f64, shadows: bool, seed: u64) -> World {
        World {
            link,
            cores: 1.0,
            relay: 0.0,
            reuse: 48.0 * 1048576.0,
            shadows,
            lie: None,
            rng: Rng::seeded(seed),
            real: [0.0; Choice::COUNT],
            shadow: [0.0; Choice::COUNT],
            now_s: 0.0,
            bytes: 0,
            chosen: [0; Choice::COUNT],
            put_in_force: 0,
            running: (Choice::None, 0),
            lasting: None,
        }
    }

    pub(crate) fn now(&self) -> Nanos {
        Nanos((self.now_s * 1e9) as u64)
    }

    /// Tells the controller what the world is.
    pub(crate) fn tell(&self, controller: &mut dyn Controller) {
        let link = Some(Bytes(self.link as u64));
        controller.conditions(self.now(), &Conditions { link, processor: self.cores });
    }

    /// Sends `bytes` of a flow.
    pub(crate) fn run(&mut self, controller: &mut dyn Controller, nature: &Nature, bytes: u64) {
        for _ in 0..bytes / SEGMENT {
            self.segment(controller, nature);
        }
    }

    fn segment(&mut self, controller: &mut dyn Controller, nature: &Nature) {
        let choice = controller.choose(self.now());
        self.keep_count(choice);
        let wanted = controller.wanted();
        let common = self.rng.unit_f64() * 2.0 - 1.0;
        let saved = self.saving(nature.saves(choice), common, 0.2) * self.real[choice.index()];
        let bytes = SEGMENT as f64;
        let (chunks, processing) = self.cut(choice);
        let mut spent = processing;
        let estimated = self.shadows && !wanted.is_empty();
        if estimated {
            spent += SHADOW_S * bytes;
            let count = wanted.iter().count() as f64;
            for rival in wanted.iter() {
                let part = self.saving(nature.saves(rival), common, 0.4);
                let part = self.lie.unwrap_or(part * self.shadow[rival.index()]);
                let would_save = part * bytes;
                controller.estimate(
                    self.now(),
                    &Estimate {
                        choice: rival,
                        bytes: Bytes(SEGMENT),
                        would_save: Bytes(would_save as u64),
                        processing: Nanos((SHADOW_S * bytes / count * 1e9) as u64),
                    },
                );
            }
        }
        let passed = (-bytes / self.reuse).exp();
        self.real.iter_mut().chain(&mut self.shadow).for_each(|coverage| *coverage *= passed);
        self.real[choice.index()] += 1.0 - passed;
        if estimated {
            wanted.iter().for_each(|rival| self.shadow[rival.index()] += 1.0 - passed);
        }
        let sent = bytes * (1.0 - saved);
        self.now_s += (sent / self.link).max(spent / self.cores);
        self.bytes += SEGMENT;
        self.chosen[choice.index()] += SEGMENT;
        let sample = Sample {
            choice,
            bytes: Bytes(SEGMENT),
            sent: Bytes(sent as u64),
            chunks,
            processing: Nanos((processing * 1e9) as u64),
        };
        controller.observe(self.now(), &sample);
    }

    fn keep_count(&mut self, choice: Choice) {
        let (running, bytes) = self.running;
        self.running =
            if running == choice { (choice, bytes + SEGMENT) } else { (choice, SEGMENT) };
        if self.running.1 >= 16 << 20 && self.lasting != Some(choice) {
            self.lasting = Some(choice);
            self.put_in_force += 1;
        }
    }

    /// Goodput of a choice in the long run, in bytes a second: what the controller cannot know.
    pub(crate) fn in_the_long_run(&self, choice: Choice, nature: &Nature) -> f64 {
        let chunks = choice.size().map_or(0.0, |size| 1.0 / f64::from(size.bytes()));
        let cost = match choice.kind() {
            Kind::None => BYTE_S[0],
            Kind::Fixed => BYTE_S[1] + CHUNK_S * chunks,
            Kind::Content => BYTE_S[2] + CHUNK_S * chunks / 1.25,
        };
        (self.link / (1.0 - nature.saves(choice))).min(self.cores / cost)
    }

    /// A saving that varies: as the content, which all choices share, and by itself.
    fn saving(&mut self, mean: f64, common: f64, own: f64) -> f64 {
        let reach = mean.min(1.0 - mean);
        let alone = self.rng.unit_f64() * 2.0 - 1.0;
        (mean + reach * (0.4 * common + own * alone)).clamp(0.0, 1.0)
    }

    /// Chunks, and seconds.
    fn cut(&mut self, choice: Choice) -> (u64, f64) {
        let bytes = SEGMENT as f64;
        let kind = match choice.kind() {
            Kind::None => 0,
            Kind::Fixed => 1,
            Kind::Content => 2,
        };
        let even = |rng: &mut Rng, reach: f64| 1.0 + reach * (rng.unit_f64() * 2.0 - 1.0);
        let count = choice.size().map_or(0.0, |size| bytes / f64::from(size.bytes()));
        let length = if kind == 2 { 1.25 * even(&mut self.rng, 0.1) } else { 1.0 };
        let chunks = (count / length).round();
        let hiccup = if self.rng.below(200) == 0 { 10.0 } else { 1.0 };
        let seconds = (BYTE_S[kind] + self.relay) * bytes + CHUNK_S * chunks;
        (chunks as u64, seconds * even(&mut self.rng, 0.2) * hiccup)
    }

    /// Bytes a second, over the whole run.
    pub(crate) fn goodput(&self) -> f64 {
        self.bytes as f64 / self.now_s
    }

    /// The choice that cut most, and its share of bytes.
    pub(crate) fn mostly(&self) -> (Choice, f64) {
        let most = Choice::all().max_by_key(|choice| self.chosen[choice.index()]);
        let most = most.expect("there are choices");
        (most, self.chosen[most.index()] as f64 / self.bytes as f64)
    }
}
