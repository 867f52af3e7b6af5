//! Mappings as bytes: docs/formats/accel.md.
#![deny(clippy::indexing_slicing, clippy::expect_used)]

use super::{Saved, SavedError};
use crate::config::NAME_BYTES_MAX;

/// First bytes of the file.
const MAGIC: &[u8; 8] = b"TCACCEL1";

const _: () = assert!(NAME_BYTES_MAX <= u8::MAX as usize, "a byte counts those of a tenant's name");

/// The bytes of all states.
pub(crate) fn encode(saved: &Saved) -> Vec<u8> {
    let mut body = Vec::new();
    for ((tenant, share), state) in saved {
        body.push(tenant.len() as u8);
        body.extend(tenant.as_bytes());
        body.extend(share.to_be_bytes());
        body.extend((state.len() as u32).to_be_bytes());
        body.extend(state);
    }
    [&MAGIC[..], &crc32c::crc32c(&body).to_be_bytes(), &body].concat()
}

/// Reads what [`encode`] made; the states themselves are judged by whoever imports them.
///
/// # Errors
/// The bytes are something else, or damaged.
pub fn decode(bytes: &[u8]) -> Result<Saved, SavedError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(SavedError::Magic)?;
    let (sum, mut body) = rest.split_first_chunk::<4>().ok_or(SavedError::Parts)?;
    if crc32c::crc32c(body) != u32::from_be_bytes(*sum) {
        return Err(SavedError::Checksum);
    }
    let mut saved = Saved::new();
    while !body.is_empty() {
        let (entry, rest) = next(body).ok_or(SavedError::Parts)?;
        saved.insert((entry.0, entry.1), entry.2);
        body = rest;
    }
    Ok(saved)
}

/// Tenant, share and state.
type Entry = (String, u64, Vec<u8>);

/// The first state, and the bytes behind it.
fn next(body: &[u8]) -> Option<(Entry, &[u8])> {
    let (length, body) = body.split_first()?;
    let (tenant, body) = body.split_at_checked(usize::from(*length))?;
    let tenant = String::from_utf8(tenant.to_vec()).ok()?;
    let (share, body) = body.split_first_chunk::<8>()?;
    let (length, body) = body.split_first_chunk::<4>()?;
    let (state, body) = body.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some(((tenant, u64::from_be_bytes(*share), state.to_vec()), body))
}
