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

// Places in a hello.
const VERSION_AT: usize = 4;
const ONLY_AT: usize = 8;
const UNITS_AT: usize = 12;

// Places in an order and in an answer, of which both have the first.
const TICKET_AT: usize = 0;

// Places in an order.
const SLOT_AT: usize = 8;
const LENGTH_AT: usize = 12;
const LOOSE_AT: usize = 16;
const STRICT_AT: usize = 18;
const FINGERPRINT_AT: usize = 20;
const FLAGS_AT: usize = 21;
const KNOWN_AT: usize = 22;
const MIN_AT: usize = 24;
const EXPECTED_AT: usize = 28;
const MAX_AT: usize = 32;
const UNDER_WAY_AT: usize = 36;
/// First byte of the tail, whose last byte is the order's.
const TAIL_AT: usize = 40;

// Places in an answer.
const STATUS_AT: usize = 8;
const COUNT_AT: usize = 12;
const LEFT_AT: usize = 16;
const EARLY_AT: usize = 20;
const CYCLES_AT: usize = 24;

const _: () = {
    assert!(MAGIC.len() == VERSION_AT && VERSION_AT + 4 == ONLY_AT && ONLY_AT + 4 == UNITS_AT);
    assert!(UNITS_AT + 4 == HELLO_BYTES);
    assert!(TICKET_AT + 8 == SLOT_AT && SLOT_AT + 4 == LENGTH_AT && LENGTH_AT + 4 == LOOSE_AT);
    assert!(LOOSE_AT + 2 == STRICT_AT && STRICT_AT + 2 == FINGERPRINT_AT);
    assert!(FINGERPRINT_AT + 1 == FLAGS_AT && FLAGS_AT + 1 == KNOWN_AT && KNOWN_AT + 2 == MIN_AT);
    assert!(MIN_AT + 4 == EXPECTED_AT && EXPECTED_AT + 4 == MAX_AT && MAX_AT + 4 == UNDER_WAY_AT);
    assert!(UNDER_WAY_AT + 4 == TAIL_AT && TAIL_AT + TAIL_BYTES < ORDER_BYTES, "a tail has room");
    assert!(TICKET_AT + 8 == STATUS_AT && STATUS_AT + 4 == COUNT_AT && COUNT_AT + 4 == LEFT_AT);
    assert!(LEFT_AT + 4 == EARLY_AT && EARLY_AT + 4 == CYCLES_AT && CYCLES_AT + 8 == ANSWER_BYTES);
};

/// A worker's description of itself: its one fingerprint and its units; `None` for nonsense.
pub(super) fn hello(bytes: &[u8; HELLO_BYTES]) -> Option<(Option<Fingerprint>, u32)> {
    let only = match word(bytes, ONLY_AT) {
        0 => None,
        1 => Some(Fingerprint::RabinSource),
        2 => Some(Fingerprint::Rabin16),
        _ => return None,
    };
    let units = word(bytes, UNITS_AT);
    let is_ours = bytes.starts_with(MAGIC) && word(bytes, VERSION_AT) == VERSION;
    (is_ours && (1..=256).contains(&units)).then_some((only, units))
}

/// A worker's description of itself: it has this fingerprint, or all, and so many units.
pub(super) fn put_hello(only: Option<Fingerprint>, units: u32) -> [u8; HELLO_BYTES] {
    let mut bytes = [0; HELLO_BYTES];
    put_at(&mut bytes, 0, MAGIC);
    put_at(&mut bytes, VERSION_AT, &VERSION.to_le_bytes());
    let only = match only {
        None => 0_u32,
        Some(Fingerprint::RabinSource) => 1,
        Some(Fingerprint::Rabin16) => 2,
    };
    put_at(&mut bytes, ONLY_AT, &only.to_le_bytes());
    put_at(&mut bytes, UNITS_AT, &units.to_le_bytes());
    bytes
}

/// A job as its order says: ticket, slot, length of its bytes, and the job without them; `None` for
/// a fingerprint or a tail that cannot be.
pub(super) fn read_order(bytes: &[u8; ORDER_BYTES]) -> Option<(Ticket, u32, u32, Job)> {
    let [kind, flags, known] = [FINGERPRINT_AT, FLAGS_AT, KNOWN_AT].map(|at| byte(bytes, at));
    let fingerprint = match (kind, flags & 2) {
        (_, 2) => None,
        (1, _) => Some(Fingerprint::RabinSource),
        (2, _) => Some(Fingerprint::Rabin16),
        _ => return None,
    };
    let function = Function {
        fingerprint,
        loose: word(bytes, LOOSE_AT) as u16,
        strict: (word(bytes, LOOSE_AT) >> 16) as u16,
        equals: u16::from(flags & 1),
        min: word(bytes, MIN_AT),
        expected: word(bytes, EXPECTED_AT),
        max: word(bytes, MAX_AT),
        at_min: flags & 4 != 0,
    };
    let known = usize::from(known);
    if known > TAIL_BYTES {
        return None;
    }
    let tail = bytes.get(ORDER_BYTES - known..)?.to_vec();
    let context = Context { tail, length: word(bytes, UNDER_WAY_AT), early: flags & 16 != 0 };
    let ticket = ticket_of(bytes);
    let job = Job { data: Payload::EMPTY, context, function };
    Some((ticket, word(bytes, SLOT_AT), word(bytes, LENGTH_AT), job))
}

/// The ticket of an order.
pub(super) fn ticket_of(bytes: &[u8; ORDER_BYTES]) -> Ticket {
    Ticket(long(bytes, TICKET_AT))
}

/// The message for a job whose bytes lie in `slot`.
pub(super) fn order(ticket: Ticket, slot: u32, job: &Job) -> [u8; ORDER_BYTES] {
    let function = &job.function;
    let mut bytes = [0; ORDER_BYTES];
    let mut put = |at: usize, value: &[u8]| put_at(&mut bytes, at, value);
    put(TICKET_AT, &ticket.0.to_le_bytes());
    put(SLOT_AT, &slot.to_le_bytes());
    put(LENGTH_AT, &job.data.len().to_le_bytes());
    put(LOOSE_AT, &function.loose.to_le_bytes());
    put(STRICT_AT, &function.strict.to_le_bytes());
    put(
        FINGERPRINT_AT,
        &[function.fingerprint.map_or(0, |f| match f {
            Fingerprint::RabinSource => 1,
            Fingerprint::Rabin16 => 2,
        })],
    );
    let flags = [function.equals == 1, function.fingerprint.is_none(), function.at_min, false];
    let flags = flags.iter().enumerate().fold(0, |all, (bit, &set)| all | u8::from(set) << bit);
    put(FLAGS_AT, &[flags | u8::from(job.context.early) << 4]);
    let tail = &job.context.tail;
    put(KNOWN_AT, &[tail.len() as u8]);
    put(MIN_AT, &function.min.to_le_bytes());
    put(EXPECTED_AT, &function.expected.to_le_bytes());
    put(MAX_AT, &function.max.to_le_bytes());
    put(UNDER_WAY_AT, &job.context.length.to_le_bytes());
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
    Answered {
        ticket: Ticket(long(bytes, TICKET_AT)),
        status: word(bytes, STATUS_AT),
        count: word(bytes, COUNT_AT),
        length: word(bytes, LEFT_AT),
        early: word(bytes, EARLY_AT) != 0,
        cycles: long(bytes, CYCLES_AT),
    }
}

/// The message for the end of a job.
pub(super) fn put_answer(answered: &Answered) -> [u8; ANSWER_BYTES] {
    let mut bytes = [0; ANSWER_BYTES];
    let Answered { ticket, status, count, length, early, cycles } = answered;
    put_at(&mut bytes, TICKET_AT, &ticket.0.to_le_bytes());
    put_at(&mut bytes, STATUS_AT, &status.to_le_bytes());
    put_at(&mut bytes, COUNT_AT, &count.to_le_bytes());
    put_at(&mut bytes, LEFT_AT, &length.to_le_bytes());
    put_at(&mut bytes, EARLY_AT, &u32::from(*early).to_le_bytes());
    put_at(&mut bytes, CYCLES_AT, &cycles.to_le_bytes());
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

/// The number of eight bytes at `at`, as [`word`].
fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// The byte at `at`; 0 beyond the message.
fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}
