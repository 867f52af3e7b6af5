//! Classes of flows: the controller of each, and what came of it.

use crate::encoder::Encoded;
use crate::shadow::Finding;
use std::collections::BTreeMap;
use thermocline_policy::registry::{PolicySpec, SpecError};
use thermocline_policy::tunnel::{Choice, Choices, Conditions, Controller, Estimate, Sample, Why};
use thermocline_units::{Bytes, Nanos};

/// Processor time by work done: a model of it, for virtual time. Nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// For each byte, in whatever way it goes.
    pub relay_per_byte: f64,
    /// For each byte that is cut into chunks.
    pub cut_per_byte: f64,
    /// For each chunk: fingerprint, index, token.
    pub per_chunk: f64,
    /// For each byte of literals that compression is tried on.
    pub compress_per_byte: f64,
    /// For each byte that passes while shadows run.
    pub shadow_per_byte: f64,
}

impl Costs {
    /// Processor time of a segment.
    pub fn of(&self, encoded: &Encoded) -> Nanos {
        let cut = if encoded.chunks > 0 { encoded.bytes } else { 0 };
        let spent = self.relay_per_byte * encoded.bytes as f64
            + self.cut_per_byte * cut as f64
            + self.per_chunk * encoded.chunks as f64
            + self.compress_per_byte * encoded.tried as f64;
        Nanos(spent.max(0.0) as u64)
    }

    /// Processor time of shadows while so many bytes pass.
    pub(crate) fn of_shadows(&self, bytes: usize) -> Nanos {
        Nanos((self.shadow_per_byte * bytes as f64).max(0.0) as u64)
    }
}

/// A class of flows: totals, and the choice in force.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassReport {
    /// The class: the server's port, unless a rule says otherwise.
    pub class: u16,
    /// Totals that this end sent for its flows.
    pub sent: Encoded,
    /// Processor time that took.
    pub processing: Nanos,
    /// The choice by which the next segment is cut.
    pub choice: Choice,
    /// The reason for that.
    pub why: Why,
}

/// Bytes sent lately for those that were not found: shadows do not see them.
#[derive(Default)]
struct Remainder {
    literals: f64,
    stored: f64,
    chunks: f64,
    heads: f64,
}

impl Remainder {
    /// Literals that are remembered, bytes.
    const MEMORY: f64 = (16 << 20) as f64;
    /// Bytes of a token while nothing was cut.
    const TOKEN: f64 = 4.0;

    fn add(&mut self, encoded: &Encoded) {
        self.literals += (encoded.bytes - encoded.saved) as f64;
        self.stored += encoded.stored as f64;
        self.chunks += encoded.chunks as f64;
        self.heads += if encoded.chunks > 0 { (encoded.sent - encoded.stored) as f64 } else { 0.0 };
        if self.literals > Self::MEMORY {
            for sum in [&mut self.literals, &mut self.stored, &mut self.chunks, &mut self.heads] {
                *sum *= 0.5;
            }
        }
    }

    /// Bytes that would be sent for a byte of which `found` is found, in so many chunks.
    fn sent(&self, found: f64, chunks: f64) -> f64 {
        let ratio = if self.literals > 0.0 { self.stored / self.literals } else { 1.0 };
        let token = if self.chunks > 0.0 { self.heads / self.chunks } else { Self::TOKEN };
        (1.0 - found) * ratio + chunks * token
    }
}

/// Shadows of a class since their last estimate.
#[derive(Default)]
struct Passed {
    bytes: u64,
    processing: Nanos,
}

/// Classes that an end tells apart at most. Flows of further ones go as class 0, whoever asks for
/// however many ports.
pub const CLASSES_MAX: usize = 256;
/// The class of flows whose own would be one too many.
const OTHERS: u16 = 0;

struct Class {
    controller: Box<dyn Controller>,
    remainder: Remainder,
    passed: Passed,
    sent: Encoded,
    processing: Nanos,
    choice: Choice,
}

/// The classes that this end has seen.
pub(crate) struct Classes {
    /// The controller, as it was named.
    controller: String,
    spec: PolicySpec,
    conditions: Conditions,
    classes: BTreeMap<u16, Class>,
}

impl Classes {
    /// No classes yet; each gets a controller of this name.
    pub(crate) fn new(controller: &str) -> Result<Classes, SpecError> {
        let spec = PolicySpec::parse(controller)?;
        spec.build_controller()?;
        let (controller, conditions) = (controller.to_string(), Conditions::default());
        Ok(Classes { controller, spec, conditions, classes: BTreeMap::new() })
    }

    /// True if they are decided on by the controller of this name.
    pub(crate) fn are_by(&self, controller: &str) -> bool {
        self.controller == controller
    }

    /// Sets the link and processor time that the flows can have from now on.
    pub(crate) fn set_conditions(&mut self, now: Nanos, conditions: Conditions) {
        self.conditions = conditions;
        for class in self.classes.values_mut() {
            class.controller.conditions(now, &conditions);
        }
    }

    /// The class that flows of `class` are decided on and counted in.
    pub(crate) fn admit(&self, class: u16) -> u16 {
        let is_full = self.classes.len() >= CLASSES_MAX;
        if is_full && !self.classes.contains_key(&class) { OTHERS } else { class }
    }

    /// Chooses how the next segment of a class is cut.
    pub(crate) fn choose(&mut self, now: Nanos, class: u16) -> Choice {
        let Classes { spec, conditions, classes, .. } = self;
        let class = classes.entry(class).or_insert_with(|| {
            let mut controller = spec.build_controller().expect("it was built before");
            controller.conditions(now, conditions);
            let (sent, processing) = (Encoded::default(), Nanos(0));
            let (remainder, passed) = (Remainder::default(), Passed::default());
            Class { controller, remainder, passed, sent, processing, choice: Choice::None }
        });
        class.choice = class.controller.choose(now);
        class.choice
    }

    /// A segment of a class was cut by `choice`.
    pub(crate) fn observe(
        &mut self,
        now: Nanos,
        class: u16,
        choice: Choice,
        encoded: &Encoded,
        processing: Nanos,
    ) {
        let class = self.classes.get_mut(&class).expect("a segment was chosen for");
        class.sent.add(encoded);
        class.remainder.add(encoded);
        class.processing.0 += processing.0;
        let (bytes, sent) = (Bytes(encoded.bytes), Bytes(encoded.sent));
        let sample = Sample { choice, bytes, sent, chunks: encoded.chunks, processing };
        class.controller.observe(now, &sample);
    }

    /// Choices of which a class wants estimates; none of a class that is not known.
    pub(crate) fn wanted(&self, class: u16) -> Choices {
        self.classes.get(&class).map_or(Choices::EMPTY, |class| class.controller.wanted())
    }

    /// Bytes of a class passed under the eyes of shadows, which found this.
    pub(crate) fn shadowed(
        &mut self,
        now: Nanos,
        class: u16,
        (bytes, processing): (usize, Nanos),
        findings: &[Finding],
    ) {
        let class = self.classes.get_mut(&class).expect("estimates were wanted");
        class.passed.bytes += bytes as u64;
        class.passed.processing.0 += processing.0;
        if findings.is_empty() {
            return;
        }
        let passed = std::mem::take(&mut class.passed);
        let none = Finding { choice: Choice::None, found: 0.0, density: 0.0 };
        let count = findings.len() as u64 + 1;
        for Finding { choice, found, density } in findings.iter().chain([&none]) {
            let saved = 1.0 - class.remainder.sent(*found, *density);
            let estimate = Estimate {
                choice: *choice,
                bytes: Bytes(passed.bytes),
                would_save: Bytes((saved.max(0.0) * passed.bytes as f64) as u64),
                processing: Nanos(passed.processing.0 / count),
            };
            class.controller.estimate(now, &estimate);
        }
    }

    pub(crate) fn reports(&self) -> impl Iterator<Item = ClassReport> {
        self.classes.iter().map(|(&number, class)| ClassReport {
            class: number,
            sent: class.sent,
            processing: class.processing,
            choice: class.choice,
            why: class.controller.why(),
        })
    }
}
