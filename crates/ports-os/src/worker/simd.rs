//! A job by this processor.

use thermocline_chunking::{BelowMin, CoreFunction, Sizes, Tests, UnderWay};
use thermocline_ports::accelerator::{Answer, Fingerprint, Job};

/// Computes a job with the room of chunking, by the fastest way this processor has.
///
/// # Panics
/// When the function's sizes are not in order; whoever offers jobs to others refuses those.
pub fn simd(job: &Job) -> Answer {
    let function = &job.function;
    let tests = Tests {
        engine: function.fingerprint.map(|fingerprint| match fingerprint {
            Fingerprint::RabinSource => CoreFunction::RabinSource,
            Fingerprint::Rabin16 => CoreFunction::Rabin16,
        }),
        loose: function.loose,
        strict: function.strict,
        equals: function.equals,
    };
    let sizes = Sizes { min: function.min, expected: function.expected, max: function.max };
    let below_min = if function.at_min { BelowMin::CutAtMin } else { BelowMin::Ignore };
    let before = UnderWay {
        tail: job.context.tail.clone(),
        length: u64::from(job.context.length),
        early: job.context.early,
    };
    let mut chunker = tests.chunker(sizes, below_min, &before);
    let mut cuts = Vec::new();
    match &job.data {
        thermocline_ports::Payload::Bytes(bytes) => chunker.push(bytes, &mut cuts),
        other => chunker.push(&other.to_vec(), &mut cuts),
    }
    Answer {
        positions: cuts.iter().map(|&cut| cut as u32).collect(),
        length: chunker.length() as u32,
        early: chunker.early(),
        cycles: 0,
    }
}
