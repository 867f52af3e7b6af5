//! Replies as bytes: simple ones, and the chunks of structured ones.

use super::handshake::{ALLOCATION, Contexts, POOL};
use super::request::{Cookie, Extent};
use super::wire::{Put, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk};

/// Ranges in one block status reply.
const STATUS_RANGES_MAX: usize = 4096;

/// A simple reply's header; `error` is 0 where there is none.
pub(super) fn simple(cookie: &Cookie, error: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    out.put_u32(SIMPLE_REPLY_MAGIC);
    out.put_u32(error);
    out.put_u64(cookie.cookie);
    out
}

/// A chunk's header, before `length` bytes of its own.
pub(super) fn structured(cookie: &Cookie, flags: u16, kind: u16, length: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    append(&mut out, cookie, flags, kind, length);
    out
}

fn append(out: &mut Vec<u8>, cookie: &Cookie, flags: u16, kind: u16, length: u32) {
    out.put_u32(STRUCTURED_REPLY_MAGIC);
    out.put_u16(flags);
    out.put_u16(kind);
    out.put_u64(cookie.cookie);
    out.put_u32(length);
}

/// Chunks that tell, in each context that was chosen, what `extents` are; only the first of them
/// where the client wants `one`.
pub(super) fn status(
    cookie: &Cookie,
    contexts: Contexts,
    one: bool,
    extents: &[Extent],
) -> Vec<u8> {
    let Contexts { allocation, pool } = contexts;
    let mut out = Vec::new();
    for (wanted, id, last) in [(allocation, ALLOCATION.1, !pool), (pool, POOL.1, true)] {
        if !wanted {
            continue;
        }
        let code = |extent: &Extent| match (id == POOL.1, extent.pool) {
            (true, pool) => pool.map_or(0, |pool| u32::from(pool) + 1),
            (false, Some(_)) => 0,
            (false, None) => 3, // A hole, and it reads as zeroes.
        };
        let mut runs: Vec<(u64, u32)> = Vec::new();
        for extent in extents {
            match runs.last_mut() {
                Some((length, last)) if *last == code(extent) => *length += extent.length,
                _ => runs.push((extent.length, code(extent))),
            }
        }
        runs.truncate(if one { 1 } else { STATUS_RANGES_MAX });
        let flags = if last { chunk::DONE } else { 0 };
        append(&mut out, cookie, flags, chunk::BLOCK_STATUS, 4 + 8 * runs.len() as u32);
        out.put_u32(id);
        for (length, code) in runs {
            let Ok(length) = u32::try_from(length) else {
                unreachable!("requests are below 4 GiB")
            };
            out.put_u32(length);
            out.put_u32(code);
        }
    }
    out
}
