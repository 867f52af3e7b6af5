//! A trace as a load for a volume machine: requests in memory, in whole sectors, with the extent of
//! each volume.
//!
//! What a trace has in excess is left out and counted: requests of no length, and requests beyond
//! the largest volume that a machine can have. Ranges grow outward to whole sectors of 512 bytes.
//!
//! State: 24 B a request.

use thermocline_trace::{Batch, Op, TraceError, TraceReader};
use thermocline_units::{Bytes, ChunkId, Latencies, Nanos, VolumeId};
use thermocline_volume::settings::VOLUMES_MAX;

/// Bytes of a sector.
const SECTOR: u64 = 512;
/// The largest address that a load may touch, 64 TiB: the map of such a volume still fits into
/// memory.
const EXTENT_MAX: u64 = 1 << 46;
/// Longest read or write, in sectors: 1 GiB. What is longer (no trace has it) is cut.
const LENGTH_MAX: u64 = (1 << 30) / SECTOR;

/// A load that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The trace is not what its format promises.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The machine has no room for so many.
    #[error(
        "the trace has more than {VOLUMES_MAX} volumes; choose some of them with `trace convert`"
    )]
    Volumes,
    /// There is nothing to do.
    #[error("the trace holds no read and no write")]
    Empty,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// Time of arrival, since the first request.
    pub at: Nanos,
    first_sector: u64,
    sectors: u32,
    volume: u16,
    /// Its kind.
    pub op: Op,
}

const _: () = assert!(size_of::<Demand>() <= 24, "a load states 24 bytes a request");

impl Demand {
    /// Its volume.
    pub fn volume(&self) -> VolumeId {
        VolumeId(u32::from(self.volume))
    }

    /// First byte; a multiple of 512.
    pub fn offset(&self) -> Bytes {
        Bytes(self.first_sector * SECTOR)
    }

    /// Bytes; a multiple of 512, 0 for a flush.
    pub fn length(&self) -> Bytes {
        Bytes(u64::from(self.sectors) * SECTOR)
    }

    /// Indices of the chunks of `chunk_size` that it touches; none for a flush.
    pub fn chunks(&self, chunk_size: Bytes) -> std::ops::Range<u32> {
        let (start, length) = (self.offset().0, self.length().0);
        let end = (start + length).div_ceil(chunk_size.0);
        if length == 0 { 0..0 } else { (start / chunk_size.0) as u32..end as u32 }
    }
}

/// A whole load.
#[derive(Debug, Clone, Default)]
pub struct Load {
    /// The requests, in the order of the trace.
    pub demands: Vec<Demand>,
    /// End of each volume: one past the last byte addressed; 0 for one that is never addressed.
    pub extents: Vec<Bytes>,
    /// Names of the volumes.
    pub volumes: Vec<String>,
    /// Requests that were left out, because they have no length or lie too far out.
    pub left_out: u64,
    /// Times that reads and writes took where the trace was taken, as far as it tells.
    pub responses: Latencies,
    /// Repairs by the reader.
    pub repairs: Vec<String>,
}

impl Load {
    /// Reads a trace to its end. `progress` is told bytes of input.
    ///
    /// # Errors
    /// When the trace cannot be read, has too many volumes, or nothing to do.
    pub fn read(reader: &mut dyn TraceReader, progress: &dyn Fn(u64)) -> Result<Load, LoadError> {
        let mut load = Load::default();
        let mut batch = Batch::default();
        loop {
            reader.read_batch(&mut batch)?;
            if batch.requests.is_empty() {
                break;
            }
            for request in &batch.requests {
                load.take(request)?;
            }
            progress(reader.bytes_read());
        }
        load.volumes = reader.volumes().to_vec();
        load.extents.resize(load.volumes.len().max(load.extents.len()), Bytes(0));
        load.repairs = reader.repairs();
        let some = |demand: &Demand| matches!(demand.op, Op::Read | Op::Write);
        if load.demands.iter().any(some) { Ok(load) } else { Err(LoadError::Empty) }
    }

    fn take(&mut self, request: &thermocline_trace::Request) -> Result<(), LoadError> {
        let volume = request.volume.0 as usize;
        if volume >= VOLUMES_MAX {
            return Err(LoadError::Volumes);
        }
        let flush = request.op == Op::Flush;
        let end = request.offset.0.saturating_add(request.length.0);
        if end > EXTENT_MAX || request.length.0 == 0 && !flush {
            self.left_out += 1;
            return Ok(());
        }
        let first_sector = request.offset.0 / SECTOR;
        let mut sectors = end.div_ceil(SECTOR) - first_sector;
        if flush {
            sectors = 0;
        } else if request.op != Op::Trim {
            sectors = sectors.min(LENGTH_MAX);
        }
        let sectors = u32::try_from(sectors).unwrap_or(u32::MAX);
        if self.extents.len() <= volume {
            self.extents.resize(volume + 1, Bytes(0));
        }
        let end = Bytes((first_sector + u64::from(sectors)) * SECTOR);
        if !flush {
            self.extents[volume] = self.extents[volume].max(end);
        }
        if let Some(took) = request.response.filter(|_| matches!(request.op, Op::Read | Op::Write))
        {
            self.responses.record(took);
        }
        // A trace that runs backwards does so by the jitter of its recording.
        let at = request.time.max(self.demands.last().map_or(Nanos(0), |last| last.at));
        let volume = volume as u16;
        self.demands.push(Demand { at, first_sector, sectors, volume, op: request.op });
        Ok(())
    }

    /// Every chunk of a volume of `size`, by ascending id.
    pub(super) fn all_of(size: Bytes, chunk_size: Bytes) -> Vec<ChunkId> {
        let count = size.0.div_ceil(chunk_size.0) as u32;
        (0..count).map(|index| ChunkId { volume: VolumeId(0), index }).collect()
    }

    /// From the first request to the last.
    pub fn span(&self) -> Nanos {
        let first = self.demands.first().map_or(Nanos(0), |demand| demand.at);
        self.demands.last().map_or(Nanos(0), |demand| demand.at.saturating_sub(first))
    }

    /// Every chunk that is read or written, by ascending id.
    pub fn touched(&self, chunk_size: Bytes) -> Vec<ChunkId> {
        let of_volume = |extent: &Bytes| vec![0u64; extent.0.div_ceil(64 * chunk_size.0) as usize];
        let mut touched: Vec<Vec<u64>> = self.extents.iter().map(of_volume).collect();
        for demand in self.demands.iter().filter(|d| matches!(d.op, Op::Read | Op::Write)) {
            for index in demand.chunks(chunk_size) {
                touched[usize::from(demand.volume)][index as usize / 64] |= 1 << (index % 64);
            }
        }
        let mut chunks = Vec::new();
        for (volume, words) in touched.iter().enumerate() {
            let volume = VolumeId(volume as u32);
            for (word, &bits) in words.iter().enumerate() {
                let indices = (0..64).filter(|bit| bits >> bit & 1 == 1);
                let id = |bit| ChunkId { volume, index: word as u32 * 64 + bit };
                chunks.extend(indices.map(id));
            }
        }
        chunks
    }
}

#[cfg(test)]
mod tests;
