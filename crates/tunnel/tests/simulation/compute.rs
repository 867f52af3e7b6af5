//! The work of a unit that cuts: jobs done right, by the room of chunking.

use thermocline_chunking::{BelowMin, CoreFunction, Sizes, Tests, UnderWay};
use thermocline_ports::accelerator::{Answer, Fingerprint, Job};

/// The answer of a unit without faults.
pub(crate) fn compute(job: &Job) -> Answer {
    let function = &job.function;
    let engine = function.fingerprint.map(|fingerprint| match fingerprint {
        Fingerprint::RabinSource => CoreFunction::RabinSource,
        Fingerprint::Rabin16 => CoreFunction::Rabin16,
    });
    let (loose, strict, equals) = (function.loose, function.strict, function.equals);
    let tests = Tests { engine, loose, strict, equals };
    let sizes = Sizes { min: function.min, expected: function.expected, max: function.max };
    let before = UnderWay {
        tail: job.context.tail.clone(),
        length: job.context.length.into(),
        early: job.context.early,
    };
    let mut chunker = tests.chunker(sizes, BelowMin::Ignore, &before);
    let mut cuts = Vec::new();
    chunker.push(&job.data.to_vec(), &mut cuts);
    let positions = cuts.iter().map(|&cut| cut as u32).collect();
    Answer { positions, length: chunker.length() as u32, early: chunker.early(), cycles: 0 }
}
