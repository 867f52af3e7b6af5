//! What the dense numbers of a workload stand for.

use super::Unit;
use super::dense::{Address, DenseIds};
use thermocline_units::{Bytes, ChunkId, LineId, VolumeId};

/// Addresses of lines and chunks by number, and names of volumes. Grows while a trace is read.
#[derive(Debug)]
pub struct Names {
    /// What a line is.
    pub unit: Unit,
    /// Volume names by id.
    pub volumes: Vec<String>,
    pub(super) lines: DenseIds,
    pub(super) chunks: Option<(Bytes, DenseIds)>,
}

impl Names {
    pub(super) fn new(unit: Unit, chunk: Option<Bytes>) -> Names {
        let chunks = chunk.map(|bytes| (bytes, DenseIds::new()));
        Names { unit, volumes: Vec::new(), lines: DenseIds::new(), chunks }
    }

    /// Bytes of one line; objects count as one byte each.
    pub fn line_bytes(&self) -> Bytes {
        match self.unit {
            Unit::Lines(bytes) => bytes,
            Unit::Objects => Bytes(1),
        }
    }

    /// Bytes of one chunk, when the workload is cut into chunks too.
    pub fn chunk_bytes(&self) -> Option<Bytes> {
        self.chunks.as_ref().map(|(bytes, _)| *bytes)
    }

    /// Distinct lines so far.
    pub fn distinct_lines(&self) -> u32 {
        self.lines.len()
    }

    /// Distinct chunks so far; 0 without chunks.
    pub fn distinct_chunks(&self) -> u32 {
        self.chunks.as_ref().map_or(0, |(_, ids)| ids.len())
    }

    /// Volume and number of a line; for objects, their offset.
    pub fn line(&self, id: LineId) -> (VolumeId, u64) {
        let address = self.lines.address(id);
        (VolumeId(address.volume), address.unit)
    }

    /// The chunk with this number.
    ///
    /// # Panics
    /// Without chunks.
    pub fn chunk(&self, id: LineId) -> ChunkId {
        let (_, ids) = self.chunks.as_ref().expect("only workloads with chunks name them");
        let address = ids.address(id);
        ChunkId { volume: VolumeId(address.volume), index: address.unit as u32 }
    }

    /// The number of a chunk, if the trace has touched it.
    pub fn find_chunk(&self, chunk: ChunkId) -> Option<LineId> {
        let (_, ids) = self.chunks.as_ref()?;
        ids.get(Address { volume: chunk.volume.0, unit: chunk.index.into() })
    }

    /// Bytes of memory in use.
    pub fn bytes(&self) -> u64 {
        self.lines.bytes() + self.chunks.as_ref().map_or(0, |(_, ids)| ids.bytes())
    }
}
