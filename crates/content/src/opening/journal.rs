//! Reads the journal: its records, up to the first block that is not whole.

use crate::format::{BLOCK_BYTES, Head, Kind, Record, Superblock, decode_records, open_block};
use crate::open_error::OpenError;

/// Passes the records of the ring `bytes` to `each`, in their order. Returns the sequence of the
/// block after the journal's end.
///
/// # Errors
/// A block that was durable is damaged, or younger than all superblocks; or `each` refuses a
/// record.
pub(super) fn read(
    bytes: &[u8],
    superblock: &Superblock,
    mut each: impl FnMut(&Record) -> Result<(), OpenError>,
) -> Result<u64, OpenError> {
    let ring = (bytes.len() / BLOCK_BYTES) as u64;
    let whole = || bytes.chunks(BLOCK_BYTES).filter_map(|block| open_block(Kind::Journal, block));
    let ours = || whole().filter(|(head, _)| head.identity == superblock.identity);
    if ours().any(|(head, _)| head.generation > superblock.journal_generation) {
        return Err(OpenError::SuperblockLost);
    }
    // Everything before the first block of the last commit was durable.
    let durable = ours()
        .filter(|(head, _)| head.generation == superblock.journal_generation)
        .map(|(head, _)| head.sequence.saturating_sub(u64::from(head.part)))
        .max()
        .unwrap_or(0);
    let mut sequence = superblock.journal_start;
    while sequence < superblock.journal_start + ring {
        let at = (sequence % ring) as usize * BLOCK_BYTES;
        let block = open_block(Kind::Journal, &bytes[at..at + BLOCK_BYTES]);
        let is_it = |head: &Head| {
            head.identity == superblock.identity
                && head.generation == superblock.journal_generation
                && head.sequence == sequence
        };
        match block.filter(|(head, _)| is_it(head)) {
            Some((_, payload)) => {
                let records = decode_records(payload);
                for record in records.ok_or(OpenError::Journal { block: sequence })? {
                    each(&record)?;
                }
            }
            None if durable > sequence => {
                return Err(OpenError::Journal { block: sequence });
            }
            None => break,
        }
        sequence += 1;
    }
    Ok(sequence)
}
