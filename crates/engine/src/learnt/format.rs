//! The file of what the policy has learnt. Drawn in `docs/formats/learnt.md`.
//!
//! An envelope around a policy's own bytes: whose they are, and a checksum. It is no part of the
//! group: without it the policy learns anew.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

use thermocline_units::Bytes;
use thermocline_units::fields::{u32_at, u64_at};

const MAGIC: &[u8; 8] = b"TCLEARNT";
/// Version of the layout that is written. Version 1 is read, too: it does not say which pools the
/// policy knew.
const VERSION: u32 = 2;
const WITHOUT_POOLS: u32 = 1;
const VERSION_AT: usize = 8;
const SUM_AT: usize = 12;
/// First byte that the checksum is of.
const BODY_AT: usize = 16;
const IDENTITY_AT: usize = BODY_AT;
const CHUNK_SIZE_AT: usize = 24;
const NAME_LENGTH_AT: usize = 32;
/// Bytes in front of the policy's name, in version 1; then the number of pools.
const HEADER_BYTES: usize = 36;
const POOLS_LENGTH_BYTES: usize = 4;
/// Bytes of a file that is read at most.
pub(super) const FILE_BYTES_MAX: u64 = 64 << 20;

const _: () = {
    assert!(MAGIC.len() == VERSION_AT && VERSION_AT + 4 == SUM_AT && SUM_AT + 4 == BODY_AT);
    assert!(IDENTITY_AT + 8 == CHUNK_SIZE_AT && CHUNK_SIZE_AT + 8 == NAME_LENGTH_AT);
    assert!(NAME_LENGTH_AT + 4 == HEADER_BYTES, "the name stands behind its length");
};

/// Learnt state of a policy, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Learnt {
    /// The group's identity.
    pub(crate) identity: u64,
    /// Its chunks.
    pub(crate) chunk_size: Bytes,
    /// The policy with all its settings.
    pub(crate) policy: String,
    /// Ids of the pools as the policy knew them, fastest first; `None`: the file does not say.
    pub(crate) pools: Option<Vec<u16>>,
    /// Its own bytes.
    pub(crate) bytes: Vec<u8>,
}

impl Learnt {
    /// The file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.bytes.len() + 64);
        body.extend(self.identity.to_le_bytes());
        body.extend(self.chunk_size.0.to_le_bytes());
        body.extend((self.policy.len() as u32).to_le_bytes());
        let pools = self.pools.as_deref().unwrap_or_default();
        body.extend((pools.len() as u32).to_le_bytes());
        body.extend(self.policy.as_bytes());
        body.extend(pools.iter().flat_map(|id| id.to_le_bytes()));
        body.extend(&self.bytes);
        let mut file = Vec::with_capacity(BODY_AT + body.len());
        file.extend(MAGIC);
        file.extend(VERSION.to_le_bytes());
        file.extend(crc32c::crc32c(&body).to_le_bytes());
        file.extend(&body);
        file
    }

    /// Reads a file; the error says what is wrong with it.
    pub(crate) fn decode(file: &[u8]) -> Result<Learnt, String> {
        let cut = || format!("it ends within its header, after {} bytes", file.len());
        let magic = file.first_chunk::<8>().ok_or_else(cut)?;
        if magic != MAGIC {
            return Err("it is no such file".to_string());
        }
        let version = u32_at(file, VERSION_AT).ok_or_else(cut)?;
        if !(WITHOUT_POOLS..=VERSION).contains(&version) {
            return Err(format!(
                "it has version {version}; this program reads {WITHOUT_POOLS} and {VERSION}"
            ));
        }
        let checksum = u32_at(file, SUM_AT).ok_or_else(cut)?;
        let body = file.get(BODY_AT..).ok_or_else(cut)?;
        if crc32c::crc32c(body) != checksum {
            return Err("its checksum is wrong".to_string());
        }
        let identity = u64_at(file, IDENTITY_AT).ok_or_else(cut)?;
        let chunk_size = Bytes(u64_at(file, CHUNK_SIZE_AT).ok_or_else(cut)?);
        let length = u32_at(file, NAME_LENGTH_AT).ok_or_else(cut)? as usize;
        let (count, header) = match version {
            WITHOUT_POOLS => (None, HEADER_BYTES),
            _ => {
                let count = u32_at(file, HEADER_BYTES).ok_or_else(cut)?;
                (Some(count as usize), HEADER_BYTES + POOLS_LENGTH_BYTES)
            }
        };
        let rest = file.get(header..).ok_or_else(cut)?;
        let (policy, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
        let policy = String::from_utf8(policy.to_vec())
            .map_err(|_| "the policy's name is no text".to_string())?;
        let ids = count.unwrap_or(0).checked_mul(2).ok_or_else(cut)?;
        let (ids, bytes) = rest.split_at_checked(ids).ok_or_else(cut)?;
        let ids = ids.as_chunks::<2>().0.iter().map(|id| u16::from_le_bytes(*id)).collect();
        let pools = count.map(|_| ids);
        Ok(Learnt { identity, chunk_size, policy, pools, bytes: bytes.to_vec() })
    }
}
