//! From blocks of records to the bytes of a file.

use super::format::{BLOCK_HEAD, BLOCK_MAX, BlockHead, checksum, file_head};

/// zstd's level: records are differences already, and the machine has better things to do.
const LEVEL: i32 = 1;

/// Packs blocks one after the other.
#[derive(Debug, Default)]
pub struct Packer {
    blocks: u32,
}

impl Packer {
    /// First bytes of a file.
    pub fn head(&self) -> Vec<u8> {
        file_head().to_vec()
    }

    /// The bytes of the next block.
    ///
    /// # Panics
    /// When it is no block of an [`super::Encoder`]: empty, or too large.
    pub fn pack(&mut self, plain: &[u8]) -> Vec<u8> {
        assert!((1..=BLOCK_MAX).contains(&plain.len()), "a block of {} bytes", plain.len());
        let frame =
            zstd::bulk::compress(plain, LEVEL).expect("zstd compresses what fits in memory");
        let head = BlockHead {
            number: self.blocks,
            stored: frame.len() as u32,
            plain: plain.len() as u32,
            sum: checksum(&frame),
        };
        self.blocks += 1;
        let mut bytes = Vec::with_capacity(BLOCK_HEAD + frame.len());
        bytes.extend_from_slice(&head.to_bytes());
        bytes.extend_from_slice(&frame);
        bytes
    }
}
