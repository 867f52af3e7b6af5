//! An accelerator, as a machine sees one: buffers go in, cut points come out.
//!
//! The contract, which the models, the faults and real workers share:
//! - Every ticket is answered exactly once, in any order. A unit that dies answers what it had with
//!   [`AcceleratorError::Gone`], and everything that is submitted later too.
//! - An answer depends on its job only: whoever has several buffers of a flow gives each the
//!   context that the one before it left, so jobs of one flow go one after the other.
//! - A job outside [`Abilities`] is answered with [`AcceleratorError::Refused`].
//! - Nothing is promised about positions. They are an outsider's word until they were checked
//!   against the function (the room of chunking does that); an accelerator that lies is one that
//!   failed.

use crate::{Payload, Ticket};
use thermocline_units::{Bytes, Nanos};

/// Bytes before a buffer that decide on candidates in it.
pub const TAIL_BYTES: usize = 31;

/// A fingerprint that cores compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fingerprint {
    /// VNRE's Rabin fingerprint modulo 2^64 − 59.
    RabinSource,
    /// Rabin's over GF(2), in 16 bits.
    Rabin16,
}

/// A function of a buffer: the tests of a candidate, and the rules of selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// The fingerprint; `None`: there are no candidates.
    pub fingerprint: Option<Fingerprint>,
    /// Mask of the loose test: a byte is a candidate where fingerprint AND mask is `equals`.
    pub loose: u16,
    /// Mask of the strict test.
    pub strict: u16,
    /// 0 or 1.
    pub equals: u16,
    /// Least size of a chunk, bytes: 1 or more.
    pub min: u32,
    /// From this size on the loose test decides.
    pub expected: u32,
    /// Greatest size; `min <= expected <= max <=` [`Function::SIZE_MAX`].
    pub max: u32,
    /// A candidate below `min` cuts at `min`, instead of being ignored.
    pub at_min: bool,
}

impl Function {
    /// The greatest size of a chunk that can be asked for: 256 KiB.
    pub const SIZE_MAX: u32 = 256 * 1024;

    /// True if the numbers are in order.
    pub fn is_sound(&self) -> bool {
        let ordered = self.min <= self.expected && self.expected <= self.max;
        1 <= self.min && ordered && self.max <= Function::SIZE_MAX && self.equals <= 1
    }
}

/// A flow between two buffers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Context {
    /// Its last bytes, the newest last: at most [`TAIL_BYTES`], fewer at its beginning.
    pub tail: Vec<u8>,
    /// Length of the chunk under way, bytes; below the function's `max`.
    pub length: u32,
    /// The chunk under way, which is shorter than that, will be cut at the least size; only with
    /// [`Function::at_min`].
    pub early: bool,
}

/// A piece of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The bytes.
    pub data: Payload,
    /// The stream before them.
    pub context: Context,
    /// The function to compute.
    pub function: Function,
}

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// Ends of chunks, as positions behind their last byte in the buffer.
    pub positions: Vec<u32>,
    /// Length of the chunk under way behind the buffer.
    pub length: u32,
    /// The state of [`Context::early`], behind the buffer.
    pub early: bool,
    /// Cycles of the unit's clock that it took, transfers not counted; 0 where there is no clock.
    pub cycles: u64,
}

/// A failure of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AcceleratorError {
    /// The job is outside what the accelerator can do.
    #[error("the accelerator does not do such jobs")]
    Refused,
    /// The job failed; another try may do.
    #[error("the accelerator reports that the job failed")]
    Failed,
    /// No answer in time.
    #[error("the accelerator did not answer in time")]
    TimedOut,
    /// The unit is gone and will not come back by itself.
    #[error("the accelerator is gone")]
    Gone,
}

/// A job that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The job.
    pub ticket: Ticket,
    /// Its result.
    pub result: Result<Answer, AcceleratorError>,
}

/// Abilities of an accelerator; constant while it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// The longest buffer.
    pub buffer_max: Bytes,
    /// Jobs that it takes before the first is answered, without making the later ones wait
    /// outside.
    pub queue_depth: u32,
    /// Jobs that it works on at the same time.
    pub units: u32,
    /// The only fingerprint it has; `None`: all of them.
    pub only: Option<Fingerprint>,
}

impl Abilities {
    /// True if such a job is done and not refused.
    pub fn include(&self, job: &Job) -> bool {
        let Job { data, context, function } = job;
        let known = match (self.only, function.fingerprint) {
            (Some(only), Some(asked)) => only == asked,
            _ => true,
        };
        known
            && function.is_sound()
            && u64::from(data.len()) <= self.buffer_max.0
            && context.tail.len() <= TAIL_BYTES
            && context.length < function.max
            && (!context.early || (function.at_min && context.length < function.min))
    }
}

/// An accelerator. Completion style, like [`crate::Device`]: `submit` never blocks and never fails.
///
/// The caller guarantees that tickets are unique while in flight and that time does not run
/// backwards.
pub trait Accelerator {
    /// Its abilities.
    fn abilities(&self) -> Abilities;

    /// Starts a job at `now`.
    fn submit(&mut self, now: Nanos, ticket: Ticket, job: Job);

    /// Appends what is done by `now`.
    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>);

    /// Virtual time at which `poll` will next have something; `None` when nothing is in flight, or
    /// when only the world knows (a worker in another process).
    fn next_event(&self) -> Option<Nanos>;
}
