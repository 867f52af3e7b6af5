//! Sizes of metadata on the pools, and bounds that follow from them.

/// Unit of metadata I/O.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// Head of a block: magic 4, CRC 4, identity 8, generation 8, sequence 8, bytes used 2, place in
/// the commit 2, zero 4.
pub(crate) const HEADER_BYTES: usize = 40;
/// Bytes of records in a block.
pub(crate) const PAYLOAD_BYTES: usize = BLOCK_BYTES - HEADER_BYTES;
/// Bytes of the longest record there is: that of a redirected chunk of 16 MiB, or of a mirrored one
/// of 8.
pub(crate) const RECORD_BYTES_MAX: usize = 560;
/// The longest pool name, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 16;
/// Blocks of a checkpoint area for 2³² slots, and then some: 256 GiB.
pub(crate) const AREA_BLOCKS_MAX: u32 = 1 << 26;
/// Runs of slots in which a checkpoint area goes on, of all pools together.
pub(crate) const RUNS_MAX: usize = 128;
/// Journal blocks that one commit may write.
pub(crate) const COMMIT_BLOCKS_MAX: u64 = 32;
/// The largest chunk whose writes can be redirected: its bits fit into a record.
pub(crate) const REDIRECT_CHUNK_MAX: u32 = 16 << 20;
/// The largest chunk that can be mirrored: it has two bits a block.
pub(crate) const MIRROR_CHUNK_MAX: u32 = REDIRECT_CHUNK_MAX / 2;
