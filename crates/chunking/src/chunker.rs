//! A chunker: candidates and selection over a stream that comes in pieces of any size.

use crate::candidates::{BLOCK_BYTES, Candidates, Marks, WINDOW_MAX};
use crate::offload::UnderWay;
use crate::selection::{BelowMin, Selection, Sizes};

/// Cuts one stream into chunks.
///
/// ```
/// use thermocline_chunking::{Chunker, Chunking};
///
/// let chunking: Chunking = "gear:2KiB".parse()?;
/// let mut chunker = chunking.chunker();
/// let mut cuts = Vec::new();
/// for piece in [[7_u8; 3000], [9; 3000]] {
///     chunker.push(&piece, &mut cuts);
/// }
/// let length = chunker.finish();
/// assert!(cuts.is_sorted() && cuts.iter().all(|&cut| cut <= length));
/// # Ok::<(), thermocline_chunking::ChunkingError>(())
/// ```
pub struct Chunker {
    candidates: Box<dyn Candidates>,
    selection: Selection,
    marks: Marks,
    /// Marks of the bytes whose windows begin in an earlier piece.
    seam: Marks,
    /// The last bytes of the stream, the newest last.
    tail: Vec<u8>,
    /// Bytes that were passed in.
    position: u64,
}

impl Chunker {
    /// A chunker at the beginning of a stream.
    ///
    /// # Panics
    /// If `sizes` are not in order, or the candidates' window is not 1 to [`WINDOW_MAX`].
    pub fn new(candidates: Box<dyn Candidates>, sizes: Sizes, below_min: BelowMin) -> Chunker {
        assert!((1..=WINDOW_MAX).contains(&candidates.window()), "a window has 1 to 64 bytes");
        Chunker {
            candidates,
            selection: Selection::new(sizes, below_min),
            marks: Marks::none(),
            seam: Marks::none(),
            tail: Vec::with_capacity(WINDOW_MAX),
            position: 0,
        }
    }

    /// The same in a stream that goes on: positions count from here.
    ///
    /// # Panics
    /// If bytes were passed in already.
    pub fn resumed(mut self, under_way: &UnderWay) -> Chunker {
        assert_eq!(self.position, 0, "a chunker goes on before its first byte");
        let surplus = under_way.tail.len().saturating_sub(self.candidates.window() - 1);
        self.tail.extend_from_slice(&under_way.tail[surplus..]);
        self.selection.resume(under_way.length, under_way.early);
        self
    }

    /// The state of [`UnderWay::early`], now.
    pub fn early(&self) -> bool {
        self.selection.early()
    }

    /// Bytes that were passed in so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Length of the chunk that is under way, bytes.
    pub fn length(&self) -> u64 {
        self.selection.length()
    }

    /// Passes on the next bytes of the stream, and appends the ends of chunks among them to `cuts`,
    /// as positions in the stream.
    pub fn push(&mut self, bytes: &[u8], cuts: &mut Vec<u64>) {
        for block in bytes.chunks(BLOCK_BYTES) {
            self.mark(block);
            let position = self.position;
            self.selection.advance(block.len(), &self.marks, |end| {
                cuts.push(position + end as u64);
            });
            self.position += block.len() as u64;
        }
    }

    /// Ends the chunk that is under way here, as when a sender pauses; returns the position.
    /// Windows go on across the cut, so that content is found again wherever it was cut.
    pub fn cut(&mut self) -> u64 {
        self.selection.restart();
        self.position
    }

    /// Ends the stream: the last chunk ends at the position that is returned.
    pub fn finish(self) -> u64 {
        self.position
    }

    /// Fills `marks` for a block, with windows that begin in earlier ones.
    fn mark(&mut self, block: &[u8]) {
        self.candidates.mark(block, &mut self.marks);
        let before = self.candidates.window() - 1;
        let seam = before.min(block.len());
        // The first bytes of a block have their windows partly in the tail.
        let known = self.tail.len();
        self.tail.extend_from_slice(&block[..seam]);
        self.candidates.mark(&self.tail, &mut self.seam);
        // At the stream's beginning there is no whole window yet.
        self.seam.unmark(before.min(self.tail.len()));
        self.marks.graft(&self.seam, known, seam);
        if block.len() > seam {
            self.tail.clear();
            self.tail.extend_from_slice(&block[block.len() - before.min(block.len())..]);
        }
        let surplus = self.tail.len().saturating_sub(before);
        self.tail.drain(..surplus);
    }
}
