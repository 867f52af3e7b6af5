//! The sending half of a flow: bytes in, segments out.
//!
//! 1. Bytes of the flow wait until enough have come for a segment, or until the caller says that
//!    nothing more comes for now ([`Encoder::flush`]).
//! 2. A segment is cut into chunks. A chunk that the store holds, byte for byte, becomes a
//!    reference to its name; any other is a literal, which gets the next name of this end and goes
//!    into the store.
//! 3. Literals are compressed together when that pays; after a segment that did not get shorter,
//!    some go plain without a try.
//! 4. A segment with references is retained until the other end says that it has all its bytes, so
//!    a chunk that the other end lost can be sent after all. Retained bytes are bounded
//!    ([`Limits::retained_bytes_max`]); when they are used up, the flow waits. That is the back
//!    pressure.
//!
//! What makes a reference safe: names, not fingerprints. A name stands for the bytes that this end
//! sent as a literal (or received as one) in this run, over an authenticated connection that loses
//! nothing; the fingerprint only finds a candidate, whose bytes are compared with our own copy. The
//! check of the segment guards what lies in the other end's store.

use crate::format::{
    Codec, Expected, FormatError, SEGMENT_BYTES_MAX, SEGMENT_HEADER_BYTES, SegmentHeader,
    TOKENS_MAX, Token, value,
};
use crate::shared::Shared;
use crate::store::{Name, Owner};
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use thermocline_chunking::{Chunker, Chunking, Method};
use thermocline_units::mutants::mutant;

/// Bytes after which a segment is closed at the next cut.
const SEGMENT_BYTES: i64 = 64 * 1024;
/// Bytes that may wait for a segment: one that is full, and the longest chunk.
const PENDING_BYTES_MAX: usize = SEGMENT_BYTES as usize + SEGMENT_BYTES_MAX / 2;
/// Segments that go plain after one that did not get shorter.
const PLAIN_AFTER: u32 = 16;
/// Shorter literals are sent plain: a frame's header eats what is won.
const ZSTD_BYTES_MIN: usize = 64;

/// Bounds of one flow's sending half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the flow that may wait for the other end to have them.
    pub retained_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { retained_bytes_max: 16 << 20 }
    }
}

/// Totals of a segment; the controller's sample but for time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Encoded {
    /// Bytes of the flow.
    pub bytes: u64,
    /// Bytes of the segment, header included.
    pub sent: u64,
    /// Chunks that it was cut into; 0 without chunking.
    pub chunks: u64,
    /// Chunks that went as references.
    pub references: u64,
    /// Bytes of those.
    pub saved: u64,
    /// Bytes of literals that compression was tried on.
    pub tried: u64,
    /// Bytes that the literals took, compressed or not.
    pub stored: u64,
}

impl Encoded {
    /// Adds another's figures.
    pub fn add(&mut self, other: &Encoded) {
        self.bytes += other.bytes;
        self.sent += other.sent;
        self.chunks += other.chunks;
        self.references += other.references;
        self.saved += other.saved;
        self.tried += other.tried;
        self.stored += other.stored;
    }

    /// The figures less an earlier state of them.
    #[must_use]
    pub fn since(&self, earlier: &Encoded) -> Encoded {
        Encoded {
            bytes: self.bytes - earlier.bytes,
            sent: self.sent - earlier.sent,
            chunks: self.chunks - earlier.chunks,
            references: self.references - earlier.references,
            saved: self.saved - earlier.saved,
            tried: self.tried - earlier.tried,
            stored: self.stored - earlier.stored,
        }
    }

    /// The share of the flow's bytes that need not be sent, at most 1; below 0 when more was sent.
    /// `None` without bytes.
    pub fn re_ratio(&self) -> Option<f64> {
        (self.bytes > 0).then(|| 1.0 - self.sent as f64 / self.bytes as f64)
    }
}

/// A segment that the other end may still ask about.
struct Retained {
    segment: u64,
    bytes: Bytes,
    tokens: Vec<Token>,
    /// Tokens that were asked for and answered.
    answered: Vec<u16>,
}

/// The sending half of a flow.
pub(crate) struct Encoder {
    limits: Limits,
    /// Chunks are found again within this scope only.
    scope: u64,
    chunking: Chunking,
    chunker: Chunker,
    /// Bytes that no segment has yet; the chunker has seen all of them.
    pending: BytesMut,
    /// The chunker's position at the first of those; below 0 if it came later than they.
    origin: i64,
    /// Ends of chunks in `pending`, as positions of the chunker.
    cuts: VecDeque<i64>,
    expected: Expected,
    segments: u64,
    retained: VecDeque<Retained>,
    retained_bytes: usize,
    /// Segments that go plain before compression is tried again.
    plain_left: u32,
}

impl Encoder {
    pub(crate) fn new(limits: Limits, scope: u64, chunking: Chunking) -> Encoder {
        Encoder {
            limits,
            scope,
            chunking,
            chunker: chunking.chunker(),
            pending: BytesMut::new(),
            origin: 0,
            cuts: VecDeque::new(),
            expected: Expected::default(),
            segments: 0,
            retained: VecDeque::new(),
            retained_bytes: 0,
            plain_left: 0,
        }
    }

    /// Bytes that wait here or for the other end to have them.
    pub(crate) fn held(&self) -> usize {
        self.retained_bytes + self.pending.len()
    }

    /// Bytes that the flow may give now.
    pub(crate) fn room(&self) -> usize {
        self.limits.retained_bytes_max.saturating_sub(self.held())
    }

    /// Bytes that it may give now before a segment is made. More waits at its client: here it would
    /// only take memory.
    pub(crate) fn room_at_once(&self) -> usize {
        self.room().min(PENDING_BYTES_MAX.saturating_sub(self.pending.len()))
    }

    /// Bytes that no segment has yet.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The chunking in force.
    pub(crate) fn chunking(&self) -> Chunking {
        self.chunking
    }

    /// Takes the next bytes of the flow.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let mut cuts = Vec::new();
        self.chunker.push(bytes, &mut cuts);
        self.pending.extend_from_slice(bytes);
        self.cuts.extend(cuts.into_iter().map(|cut| cut as i64));
    }

    /// True if a segment is there: a chunk ends far enough in what waits.
    pub(crate) fn is_full(&self) -> bool {
        let far_enough = self.cuts.back().is_some_and(|&cut| cut - self.origin >= SEGMENT_BYTES);
        let is_relayed = self.chunking.method() == Method::None;
        far_enough || (is_relayed && self.pending.len() as i64 >= SEGMENT_BYTES)
    }

    /// Ends the chunk that is under way, so that the next segments have everything that came.
    pub(crate) fn flush(&mut self) {
        let end = self.origin + self.pending.len() as i64;
        if !self.pending.is_empty() && self.cuts.back() != Some(&end) {
            self.chunker.cut();
            if !mutant("the_last_chunk_is_not_flushed") {
                self.cuts.push_back(end);
            }
        }
    }

    /// Cuts what comes from now on in another way. What waits is cut where it ends.
    pub(crate) fn set_chunking(&mut self, chunking: Chunking) {
        if chunking == self.chunking {
            return;
        }
        self.flush();
        let moved = self.origin + self.pending.len() as i64;
        for cut in &mut self.cuts {
            *cut -= moved;
        }
        self.origin -= moved;
        self.chunking = chunking;
        self.chunker = chunking.chunker();
    }

    /// The next segment, if one is there: its bytes in one or two parts, and what came of it. Call
    /// [`Encoder::flush`] first when nothing more comes for now.
    pub(crate) fn next_segment(&mut self, shared: &mut Shared) -> Option<(Vec<Bytes>, Encoded)> {
        if self.is_full() && self.chunking.method() == Method::None {
            self.flush();
        }
        assert!(*self.cuts.front()? > self.origin, "a chunk has bytes");
        let mut lengths = Vec::new();
        let mut end = self.origin;
        while let Some(&cut) = self.cuts.front() {
            if end - self.origin >= SEGMENT_BYTES || lengths.len() == TOKENS_MAX {
                break;
            }
            // Only what is relayed whole can be longer than the longest chunk.
            let cut = cut.min(end + SEGMENT_BYTES_MAX as i64 / 2);
            lengths.push((cut - end) as u32);
            end = cut;
            if self.cuts.front() == Some(&cut) {
                self.cuts.pop_front();
            }
        }
        let bytes = self.pending.split_to((end - self.origin) as usize).freeze();
        self.origin = end;
        Some(self.encode(bytes, &lengths, shared))
    }

    fn encode(
        &mut self,
        bytes: Bytes,
        lengths: &[u32],
        shared: &mut Shared,
    ) -> (Vec<Bytes>, Encoded) {
        assert!(bytes.len() <= SEGMENT_BYTES_MAX, "a segment of {} bytes", bytes.len());
        let mut encoded = Encoded { bytes: bytes.len() as u64, ..Encoded::default() };
        let mut tokens = Vec::with_capacity(lengths.len());
        let mut literals = Vec::new();
        let fingerprints = self.fingerprints(&bytes, lengths, shared);
        let mut at = 0;
        for (number, &length) in lengths.iter().enumerate() {
            let chunk = &bytes[at..at + length as usize];
            at += length as usize;
            let token = self.token(chunk, fingerprints.get(number), shared);
            if let Token::Reference { .. } = token {
                encoded.references += 1;
                encoded.saved += u64::from(length);
            } else {
                literals.extend_from_slice(chunk);
            }
            tokens.push(token);
        }
        if self.chunking.method() != Method::None {
            encoded.chunks = tokens.len() as u64;
        }
        let (codec, stored) = self.compress(literals, &mut encoded, shared);
        let head = self.head(&bytes, &tokens, codec, stored.len());
        encoded.stored = stored.len() as u64;
        encoded.sent = (head.len() + stored.len()) as u64;
        if encoded.references > 0 && !mutant("retained_until_sent_only") {
            self.retained_bytes += bytes.len();
            let (segment, answered) = (self.segments, Vec::new());
            self.retained.push_back(Retained { segment, bytes, tokens, answered });
        }
        self.segments += 1;
        let parts = [head.into(), stored].into_iter().filter(|part: &Bytes| !part.is_empty());
        (parts.collect(), encoded)
    }

    /// Fingerprints of chunks, none without chunking; all of a segment before the first is looked
    /// for, so that memory can bring what belongs to them.
    fn fingerprints(&self, bytes: &[u8], lengths: &[u32], shared: &Shared) -> Vec<u64> {
        let mut rest = bytes;
        let mut fingerprint = |&length: &u32| {
            let (chunk, behind) = rest.split_at(length as usize);
            rest = behind;
            let fingerprint = shared.fingerprint(self.scope, chunk);
            shared.store.expect(fingerprint);
            fingerprint
        };
        match self.chunking.method() {
            Method::None => Vec::new(),
            _ => lengths.iter().map(&mut fingerprint).collect(),
        }
    }

    /// A reference if the store has these bytes, or else a literal, which the store gets. Bytes
    /// without a fingerprint go as they are.
    fn token(&mut self, chunk: &[u8], fingerprint: Option<&u64>, shared: &mut Shared) -> Token {
        let length = chunk.len() as u32;
        let Some(&fingerprint) = fingerprint else { return Token::Plain { length } };
        if let Some(name) = shared.store.find(fingerprint, chunk) {
            return Token::Reference { length, name };
        }
        let number = shared.name();
        shared.store.insert(Name { owner: Owner::Us, number }, fingerprint, chunk);
        Token::Literal { length, number }
    }

    fn compress(
        &mut self,
        literals: Vec<u8>,
        encoded: &mut Encoded,
        shared: &mut Shared,
    ) -> (Codec, Bytes) {
        if literals.len() < ZSTD_BYTES_MIN {
            return (Codec::Plain, literals.into());
        }
        if self.plain_left > 0 {
            self.plain_left -= 1;
            return (Codec::Plain, literals.into());
        }
        encoded.tried = literals.len() as u64;
        match shared.compress(&literals) {
            // It must win more than noise to be worth the other end's time.
            Some(short) if short.len() + literals.len() / 32 < literals.len() => {
                (Codec::Zstd, short.into())
            }
            _ => {
                self.plain_left = PLAIN_AFTER;
                (Codec::Plain, literals.into())
            }
        }
    }

    fn head(&mut self, bytes: &[u8], tokens: &[Token], codec: Codec, stored: usize) -> Vec<u8> {
        let mut packed = Vec::with_capacity(tokens.len() * 4);
        for token in tokens {
            self.expected.write(token, &mut packed);
        }
        let header = SegmentHeader {
            bytes: bytes.len() as u32,
            tokens_length: packed.len() as u32,
            literals_length: stored as u32,
            check: crc32c::crc32c(bytes),
            tokens: tokens.len() as u16,
            codec,
        };
        let mut head = Vec::with_capacity(SEGMENT_HEADER_BYTES + packed.len());
        header.write(&mut head);
        head.extend_from_slice(&packed);
        head
    }

    /// The other end has all bytes of the first `segments` segments.
    ///
    /// # Errors
    /// When it claims segments that were not sent.
    pub(crate) fn complete(&mut self, segments: u64) -> Result<(), FormatError> {
        if segments > self.segments {
            return Err(value("the count of complete segments", segments, "what was sent"));
        }
        while self.retained.front().is_some_and(|oldest| oldest.segment < segments) {
            let gone = self.retained.pop_front().expect("there is a front");
            self.retained_bytes -= gone.bytes.len();
        }
        Ok(())
    }

    /// The other end has everything that was sent.
    pub(crate) fn complete_all(&mut self) {
        self.complete(self.segments).expect("what was sent is no more than what was sent");
    }

    /// The bytes of chunks that the other end does not hold, with their indices.
    ///
    /// # Errors
    /// When it asks for what is not a reference, or has been answered, or is complete.
    pub(crate) fn missing(
        &mut self,
        segment: u64,
        tokens: &[u16],
    ) -> Result<Vec<(u16, Bytes)>, FormatError> {
        let retained = self.retained.iter_mut().find(|retained| retained.segment == segment);
        let refused = || value("the segment of missing chunks", segment, "one that is retained");
        let retained = retained.ok_or_else(refused)?;
        let mut fills = Vec::with_capacity(tokens.len());
        for &index in tokens {
            let of = &retained.tokens;
            let is_reference = matches!(of.get(usize::from(index)), Some(Token::Reference { .. }));
            if !is_reference || retained.answered.contains(&index) {
                let expected = "a reference that was not asked for before";
                return Err(value("a missing chunk's index", index.into(), expected));
            }
            let before = of[..usize::from(index)].iter().map(|t| t.length() as usize);
            let from: usize = before.sum();
            let length = of[usize::from(index)].length() as usize;
            fills.push((index, retained.bytes.slice(from..from + length)));
            retained.answered.push(index);
        }
        Ok(fills)
    }
}
