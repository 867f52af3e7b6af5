//! The messages between host and worker, little-endian, of fixed size. Drawn in
//! docs/formats/accelerator.md.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

use thermocline_ports::accelerator::{Context, Fingerprint, Function, Job, TAIL_BYTES};
use thermocline_ports::{Payload, Ticket};
use thermocline_units::fields::{put_at, u32_at};

/// Length of a worker's first message.
pub(super) const HELLO_BYTES: usize = 16;
/// A job.
pub(super) const ORDER_BYTES: usize = 72;
/// An answer.
pub(super) const ANSWER_BYTES: usize = 32;
/// A position in a slot.
pub(super) const POSITION_BYTES: usize = 4;

const MAGIC: &[u8; 4] = b"TCW1";
const VERSION: u32 = 1;

/// A worker's description of itself: its one fingerprint and its units; `None` for nonsense.
pub(super) fn hello(bytes: &[u8; HELLO_BYTES]) -> Option<(Option<Fingerprint>, u32)> {
    let only = match word(bytes, 8) {
        0 => None,
        1 => Some(Fingerprint::RabinSource),
        2 => Some(Fingerprint::Rabin16),
        _ => return None,
    };
    let units = word(bytes, 12);
    let is_ours = bytes.starts_with(MAGIC) && word(bytes, 4) == VERSION;
    (is_ours && (1..=256).contains(&units)).then_some((only, units))
}

/// A worker's description of itself: it has this fingerprint, or all, and so many units.
pub(super) fn put_hello(only: Option<Fingerprint>, units: u32) -> [u8; HELLO_BYTES] {
    let mut bytes = [0; HELLO_BYTES];
    put_at(&mut bytes, 0, MAGIC);
    put_at(&mut bytes, 4, &VERSION.to_le_bytes());
    let only = match only {
        None => 0_u32,
        Some(Fingerprint::RabinSource) => 1,
        Some(Fingerprint::Rabin16) => 2,
    };
    put_at(&mut bytes, 8, &only.to_le_bytes());
    put_at(&mut bytes, 12, &units.to_le_bytes());
    bytes
}

/// A job as its order says: ticket, slot, length of its bytes, and the job without them; `None` for
/// a fingerprint or a tail that cannot be.
pub(super) fn read_order(bytes: &[u8; ORDER_BYTES]) -> Option<(Ticket, u32, u32, Job)> {
    let [kind, flags, known] = [byte(bytes, 20), byte(bytes, 21), byte(bytes, 22)];
    let fingerprint = match (kind, flags & 2) {
        (_, 2) => None,
        (1, _) => Some(Fingerprint::RabinSource),
        (2, _) => Some(Fingerprint::Rabin16),
        _ => return None,
    };
    let function = Function {
        fingerprint,
        loose: word(bytes, 16) as u16,
        strict: (word(bytes, 16) >> 16) as u16,
        equals: u16::from(flags & 1),
        min: word(bytes, 24),
        expected: word(bytes, 28),
        max: word(bytes, 32),
        at_min: flags & 4 != 0,
    };
    let known = usize::from(known);
    if known > TAIL_BYTES {
        return None;
    }
    let tail = bytes.get(ORDER_BYTES - known..)?.to_vec();
    let context = Context { tail, length: word(bytes, 36), early: flags & 16 != 0 };
    let ticket = ticket_of(bytes);
    let job = Job { data: Payload::EMPTY, context, function };
    Some((ticket, word(bytes, 8), word(bytes, 12), job))
}

/// The ticket of an order.
pub(super) fn ticket_of(bytes: &[u8; ORDER_BYTES]) -> Ticket {
    Ticket(u64::from(word(bytes, 0)) | u64::from(word(bytes, 4)) << 32)
}

/// The message for a job whose bytes lie in `slot`.
pub(super) fn order(ticket: Ticket, slot: u32, job: &Job) -> [u8; ORDER_BYTES] {
    let function = &job.function;
    let mut bytes = [0; ORDER_BYTES];
    let mut put = |at: usize, value: &[u8]| put_at(&mut bytes, at, value);
    put(0, &ticket.0.to_le_bytes());
    put(8, &slot.to_le_bytes());
    put(12, &job.data.len().to_le_bytes());
    put(16, &function.loose.to_le_bytes());
    put(18, &function.strict.to_le_bytes());
    put(
        20,
        &[function.fingerprint.map_or(0, |f| match f {
            Fingerprint::RabinSource => 1,
            Fingerprint::Rabin16 => 2,
        })],
    );
    let flags = [function.equals == 1, function.fingerprint.is_none(), function.at_min, false];
    let flags = flags.iter().enumerate().fold(0, |all, (bit, &set)| all | u8::from(set) << bit);
    put(21, &[flags | u8::from(job.context.early) << 4]);
    let tail = &job.context.tail;
    put(22, &[tail.len() as u8]);
    put(24, &function.min.to_le_bytes());
    put(28, &function.expected.to_le_bytes());
    put(32, &function.max.to_le_bytes());
    put(36, &job.context.length.to_le_bytes());
    put(ORDER_BYTES - tail.len(), tail);
    bytes
}

/// The end of a job, before its positions are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) ticket: Ticket,
    /// 0: done, 1: refused, anything else: failed.
    pub(super) status: u32,
    pub(super) count: u32,
    pub(super) length: u32,
    pub(super) early: bool,
    pub(super) cycles: u64,
}

pub(super) fn answer(bytes: &[u8; ANSWER_BYTES]) -> Answered {
    let long = |at: usize| u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32;
    Answered {
        ticket: Ticket(long(0)),
        status: word(bytes, 8),
        count: word(bytes, 12),
        length: word(bytes, 16),
        early: word(bytes, 20) != 0,
        cycles: long(24),
    }
}

/// The message for the end of a job.
pub(super) fn put_answer(answered: &Answered) -> [u8; ANSWER_BYTES] {
    let mut bytes = [0; ANSWER_BYTES];
    let Answered { ticket, status, count, length, early, cycles } = answered;
    put_at(&mut bytes, 0, &ticket.0.to_le_bytes());
    put_at(&mut bytes, 8, &status.to_le_bytes());
    put_at(&mut bytes, 12, &count.to_le_bytes());
    put_at(&mut bytes, 16, &length.to_le_bytes());
    put_at(&mut bytes, 20, &u32::from(*early).to_le_bytes());
    put_at(&mut bytes, 24, &cycles.to_le_bytes());
    bytes
}

/// Positions as they lie in a slot.
pub(super) fn put_positions(positions: &[u32]) -> Vec<u8> {
    positions.iter().flat_map(|position| position.to_le_bytes()).collect()
}

/// The positions that the worker left in a slot.
pub(super) fn positions(bytes: &[u8]) -> Vec<u32> {
    let (positions, _) = bytes.as_chunks::<POSITION_BYTES>();
    positions.iter().map(|&position| u32::from_le_bytes(position)).collect()
}

/// The number at `at`; 0 where it would lie beyond the message, which no field does.
fn word(bytes: &[u8], at: usize) -> u32 {
    let word = u32_at(bytes, at);
    debug_assert!(word.is_some(), "every field lies within its message");
    word.unwrap_or(0)
}

/// The byte at `at`; 0 beyond the message.
fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}
