//! Names behind the dense numbers of a workload.
//!
//! Names follow the blocks: [`Names::learn`] takes over what a block touched for the first time.
//! State: 10 B a distinct line, about 60 B a distinct chunk.

use super::dense::Address;
use super::{Block, Cut, Unit};
use std::collections::BTreeMap;
use thermocline_policy::cache::Tag;
use thermocline_units::{Bytes, ChunkId, LineId, VolumeId};

const _: () = assert!(Tag::VOLUME_MAX <= u16::MAX as u32, "volumes of lines are 16 bits");

/// Addresses of lines and chunks by number, and names of volumes. Grows while a trace is read.
#[derive(Debug)]
pub struct Names {
    cut: Cut,
    /// Volume names by id.
    pub volumes: Vec<String>,
    /// Numbers of lines in their volumes.
    units: Vec<u64>,
    /// Volumes of lines.
    volumes_of: Vec<u16>,
    chunks: Vec<ChunkId>,
    ids_of_chunks: BTreeMap<ChunkId, LineId>,
}

impl Names {
    /// Names of nothing yet.
    pub fn new(cut: Cut) -> Names {
        Names {
            cut,
            volumes: Vec::new(),
            units: Vec::new(),
            volumes_of: Vec::new(),
            chunks: Vec::new(),
            ids_of_chunks: BTreeMap::new(),
        }
    }

    /// Takes over the names that `block`, which comes next, brings.
    pub fn learn(&mut self, block: &mut Block) {
        self.volumes.append(&mut block.new_volumes);
        let new = &mut block.lines.new;
        self.units.extend(new.iter().map(|address| address.unit));
        self.volumes_of.extend(new.drain(..).map(|address| address.volume as u16));
        for address in block.chunks.iter_mut().flat_map(|chunks| chunks.new.drain(..)) {
            let volume = VolumeId(address.volume);
            let chunk = ChunkId { volume, index: address.unit as u32 };
            self.ids_of_chunks.insert(chunk, LineId(self.chunks.len() as u32));
            self.chunks.push(chunk);
        }
    }

    /// Kind of a line.
    pub fn unit(&self) -> Unit {
        self.cut.unit
    }

    /// Bytes of one line; objects count as one byte each.
    pub fn line_bytes(&self) -> Bytes {
        self.cut.unit.line_bytes()
    }

    /// Bytes of one chunk, when the workload is cut into chunks too.
    pub fn chunk_bytes(&self) -> Option<Bytes> {
        self.cut.chunk
    }

    /// Distinct lines so far.
    pub fn distinct_lines(&self) -> u32 {
        self.units.len() as u32
    }

    /// Distinct chunks so far; 0 without chunks.
    pub(crate) fn distinct_chunks(&self) -> u32 {
        self.chunks.len() as u32
    }

    /// Volume and number of a line; for objects, their offset.
    pub fn line(&self, id: LineId) -> (VolumeId, u64) {
        let Address { volume, unit } = self.address(id);
        (VolumeId(volume), unit)
    }

    pub(super) fn address(&self, id: LineId) -> Address {
        let volume = u32::from(self.volumes_of[id.index()]);
        Address { volume, unit: self.units[id.index()] }
    }

    /// The chunk with this number.
    ///
    /// # Panics
    /// When no chunk has it.
    pub fn chunk(&self, id: LineId) -> ChunkId {
        self.chunks[id.index()]
    }

    /// The number of a chunk, if the trace has touched it.
    pub(crate) fn find_chunk(&self, chunk: ChunkId) -> Option<LineId> {
        self.ids_of_chunks.get(&chunk).copied()
    }

    /// Bytes of memory in use.
    pub fn bytes(&self) -> u64 {
        // A node of the map is at least half full.
        let chunk = size_of::<ChunkId>() + 2 * size_of::<(ChunkId, LineId)>();
        let lines = self.units.capacity() * 8 + self.volumes_of.capacity() * 2;
        (lines + self.chunks.len() * chunk) as u64
    }
}
