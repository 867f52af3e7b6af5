//! Blocks of a chunk as bits, little-endian, one a block. Drawn in docs/formats/volume.md.

use crate::map::overlay::Blocks;
use crate::map::presence::Presence;
use crate::settings::BLOCK;

/// Bits of the blocks that are present.
pub(crate) fn encode_presence(presence: &Presence) -> Vec<u8> {
    let mut bytes: Vec<u8> = presence.words().iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(bits_bytes(presence.blocks()));
    bytes
}

/// Reads what [`encode_presence`] wrote; `None` when the length does not fit the chunk.
pub(crate) fn decode_presence(chunk_size: u32, bytes: &[u8]) -> Option<Presence> {
    let mut presence = Presence::none(chunk_size);
    if bytes.len() != bits_bytes(presence.blocks()) {
        return None;
    }
    for block in 0..presence.blocks() {
        if bytes.get((block / 8) as usize)? >> (block % 8) & 1 == 1 {
            presence.mark(&(block * BLOCK..(block + 1) * BLOCK));
        }
    }
    Some(presence)
}

/// Bits of the blocks above; of a mirrored chunk behind them those of the shared ones.
pub(super) fn encode_blocks(blocks: &Blocks) -> Vec<u8> {
    let (above, shared) = blocks.parts();
    let mut bytes = encode_presence(above);
    bytes.extend(shared.into_iter().flat_map(encode_presence));
    bytes
}

/// Reads what [`encode_blocks`] wrote; `None` when the length does not fit the chunk, or a block is
/// shared that is not above.
pub(super) fn decode_blocks(chunk_size: u32, bytes: &[u8]) -> Option<Blocks> {
    let (above, shared) = bytes.split_at_checked(bits_bytes(chunk_size / BLOCK))?;
    let above = decode_presence(chunk_size, above)?;
    let shared = match shared {
        [] => None,
        shared => Some(decode_presence(chunk_size, shared)?),
    };
    Blocks::of_parts(above, shared)
}

/// Bytes that have a bit for each of so many blocks.
fn bits_bytes(blocks: u32) -> usize {
    blocks.div_ceil(8) as usize
}
