//! A trial: what a tunnel would send of some flows, by its own sending half and without a link.
//!
//! The other end is taken to get everything and to keep as much as this one. So the figures are
//! those of a tunnel whose ends have equal caches.

use crate::encoder::{Encoded, Encoder, Limits};
use crate::shared::Shared;
use thermocline_chunking::Chunking;
use thermocline_units::Bytes;

/// The sending half of a tunnel, tried on flows one after the other.
///
/// ```
/// use thermocline_tunnel::Trial;
/// use thermocline_units::Bytes;
///
/// let mut trial = Trial::new(Bytes::from_mib(1), "gear:512B".parse()?);
/// for _ in 0..2 {
///     trial.push(b"the same bytes on two flows, which are sent once");
///     trial.end_flow();
/// }
/// assert_eq!(trial.totals().saved, 48);
/// # Ok::<(), thermocline_chunking::ChunkingError>(())
/// ```
pub struct Trial {
    shared: Shared,
    chunking: Chunking,
    encoder: Encoder,
    totals: Encoded,
}

impl Trial {
    /// A trial with an empty cache of this capacity.
    pub fn new(cache: Bytes, chunking: Chunking) -> Trial {
        let encoder = Encoder::new(Limits::default(), 0, chunking);
        Trial { shared: Shared::new(cache, 0), chunking, encoder, totals: Encoded::default() }
    }

    /// The next bytes of the flow that is under way.
    pub fn push(&mut self, bytes: &[u8]) {
        self.encoder.push(bytes);
        self.encode();
    }

    /// Ends the flow; the next bytes are another's.
    pub fn end_flow(&mut self) {
        self.encoder.flush();
        self.encode();
        self.encoder = Encoder::new(Limits::default(), 0, self.chunking);
    }

    /// Cuts the flows that come from now on in another way; what they share stays.
    ///
    /// # Panics
    /// If a flow is under way.
    pub fn cut_by(&mut self, chunking: Chunking) {
        assert_eq!(self.encoder.pending(), 0, "a flow is under way");
        self.chunking = chunking;
        self.encoder = Encoder::new(Limits::default(), 0, chunking);
    }

    /// Totals of all flows so far.
    pub fn totals(&self) -> Encoded {
        self.totals
    }

    fn encode(&mut self) {
        self.encoder.cut();
        while let Some((_, encoded)) = self.encoder.next_segment(&mut self.shared) {
            self.totals.add(&encoded);
        }
        self.encoder.complete_all();
    }
}
