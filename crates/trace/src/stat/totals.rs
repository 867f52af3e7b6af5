//! Sums over volumes, and the characteristics that follow from them.

use super::arrivals::Arrivals;
use super::characteristics::{
    Amount, Characteristics, Concentration, Reaccess, Sequentiality, Timing, ratio,
};
use super::histogram::Histogram;
use super::places::PAGE;
use super::ranking::Ranking;
use super::volume::{ActiveChunks, Volume};
use thermocline_units::Bytes;

/// Accesses a day below which a chunk is rare, and from which it is frequent (Tai 2015 §4.2.1).
const RARE_PER_DAY: f64 = 10.0;
const FREQUENT_PER_DAY: f64 = 1000.0;

/// The frame that the times of a volume are measured against.
pub(super) struct Frame {
    /// True if the trace has times.
    pub(super) timed: bool,
    /// Days that the workload spans, at least one.
    pub(super) days: f64,
    /// Intervals of [`CHUNKS_COUNTED_IN`](super::CHUNKS_COUNTED_IN) that the workload spans.
    pub(super) intervals: u64,
}

/// Sums over volumes.
#[derive(Default)]
pub(super) struct Totals {
    volumes: u64,
    amounts: [Amount; 4],
    size: u64,
    pages: u64,
    pages_read: u64,
    pages_written: u64,
    page_accesses: u64,
    pages_soon: u64,
    by_page: Ranking,
    chunks: u64,
    chunk_accesses: u64,
    chunks_soon: u64,
    by_chunk: Ranking,
    by_chunk_bytes: Ranking,
    pairs: u64,
    near: u64,
    contiguous: u64,
    read_sizes: Histogram,
    write_sizes: Histogram,
    responses: Histogram,
}

impl Totals {
    /// One volume's.
    pub(super) fn of(volume: &Volume) -> Totals {
        Totals {
            volumes: u64::from(volume.amounts.iter().any(|amount| amount.requests > 0)),
            amounts: volume.amounts,
            size: volume.size,
            pages: volume.pages.distinct(),
            pages_read: volume.pages.read,
            pages_written: volume.pages.written,
            page_accesses: volume.pages.accesses,
            pages_soon: volume.pages.soon,
            by_page: volume.pages.each_accesses().collect(),
            chunks: volume.chunks.distinct(),
            chunk_accesses: volume.chunks.accesses,
            chunks_soon: volume.chunks.soon,
            by_chunk: volume.chunks.each_accesses().collect(),
            by_chunk_bytes: volume.chunks.each_bytes().collect(),
            pairs: volume.order.pairs,
            near: volume.order.near,
            contiguous: volume.order.contiguous,
            read_sizes: volume.read_sizes.clone(),
            write_sizes: volume.write_sizes.clone(),
            responses: volume.responses.clone(),
        }
    }

    /// Adds another volume's.
    pub(super) fn merge(&mut self, other: Totals) {
        for (mine, theirs) in self.amounts.iter_mut().zip(other.amounts) {
            mine.requests += theirs.requests;
            mine.bytes += theirs.bytes;
        }
        self.volumes += other.volumes;
        self.size += other.size;
        self.pages += other.pages;
        self.pages_read += other.pages_read;
        self.pages_written += other.pages_written;
        self.page_accesses += other.page_accesses;
        self.pages_soon += other.pages_soon;
        self.by_page.merge(&other.by_page);
        self.chunks += other.chunks;
        self.chunk_accesses += other.chunk_accesses;
        self.chunks_soon += other.chunks_soon;
        self.by_chunk.merge(&other.by_chunk);
        self.by_chunk_bytes.merge(&other.by_chunk_bytes);
        self.pairs += other.pairs;
        self.near += other.near;
        self.contiguous += other.contiguous;
        self.read_sizes.merge(&other.read_sizes);
        self.write_sizes.merge(&other.write_sizes);
        self.responses.merge(&other.responses);
    }

    /// The characteristics; arrivals and active chunks do not add up and are given.
    pub(super) fn characteristics(
        &self,
        arrivals: &Arrivals,
        active: &ActiveChunks,
        frame: &Frame,
    ) -> Characteristics {
        let [reads, writes, flushes, trims] = self.amounts;
        let bytes = |pages: u64| Bytes(pages * PAGE.0);
        Characteristics {
            volumes: self.volumes,
            reads,
            writes,
            flushes,
            trims,
            size: Bytes(self.size),
            footprint: bytes(self.pages),
            footprint_read: bytes(self.pages_read),
            footprint_written: bytes(self.pages_written),
            page_accesses: concentration(&self.by_page),
            chunk_accesses: concentration(&self.by_chunk),
            chunk_bytes: concentration(&self.by_chunk_bytes),
            chunks: self.chunks,
            sequentiality: Sequentiality {
                near: ratio(self.near, self.pairs),
                contiguous: ratio(self.contiguous, self.pairs),
            },
            read_sizes: self.read_sizes.clone(),
            write_sizes: self.write_sizes.clone(),
            timing: frame.timed.then(|| self.timing(arrivals, active, frame)),
            responses: self.responses.clone(),
        }
    }

    fn timing(&self, arrivals: &Arrivals, active: &ActiveChunks, frame: &Frame) -> Timing {
        let frequent = self.by_chunk.share_below(FREQUENT_PER_DAY * frame.days);
        Timing {
            span: arrivals.last.saturating_sub(arrivals.first),
            gaps: arrivals.gaps.clone(),
            index_of_dispersion: arrivals.index_of_dispersion(),
            per_second_variance_over_mean: arrivals.variance_over_mean(),
            per_second_max: arrivals.most_in_a_second(),
            page_reaccess: Reaccess {
                of_accesses: ratio(self.pages_soon, self.page_accesses),
                of_returns: ratio(self.pages_soon, self.page_accesses - self.pages),
            },
            chunk_reaccess: Reaccess {
                of_accesses: ratio(self.chunks_soon, self.chunk_accesses),
                of_returns: ratio(self.chunks_soon, self.chunk_accesses - self.chunks),
            },
            rare_chunks: self.by_chunk.share_below(RARE_PER_DAY * frame.days),
            frequent_chunks: frequent.map(|share| 1.0 - share),
            active_chunks_mean: active.sum as f64 / frame.intervals as f64,
            active_chunks_max: active.most(),
        }
    }
}

fn concentration(ranking: &Ranking) -> Concentration {
    Concentration { top_5: ranking.share_of_top(5), top_20: ranking.share_of_top(20) }
}
