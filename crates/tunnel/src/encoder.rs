//! The sending half of a flow: bytes in, segments out.
//!
//! 1. Bytes of the flow wait until enough have come for a segment, or until the caller says that
//!    nothing more comes for now ([`Encoder::flush`]). Meanwhile they are cut, here
//!    ([`Encoder::cut`]) or by a unit ([`Encoder::ask`]); see the cutter.
//! 2. A segment has whole chunks. A chunk that the store holds, byte for byte, becomes a
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

use crate::cutter::Cutter;
use crate::format::{
    Codec, Expected, FormatError, SEGMENT_BYTES_MAX, SEGMENT_HEADER_BYTES, SegmentHeader,
    TOKENS_MAX, Token, value,
};
use crate::shared::Shared;
use crate::store::{Name, Owner};
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use thermocline_chunking::{Chunking, Lie, Method};
use thermocline_ports::accelerator::{Answer, Job};
use thermocline_units::Rng;
use thermocline_units::mutants::mutant;

/// Bytes after which a segment is closed at the next cut.
const SEGMENT_BYTES: u64 = 64 * 1024;
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
    /// The chunking of what comes next.
    chunking: Chunking,
    cutter: Cutter,
    /// Bytes that no segment has yet.
    pending: BytesMut,
    /// Position in the flow of the first of those.
    origin: u64,
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
            cutter: Cutter::new(chunking),
            pending: BytesMut::new(),
            origin: 0,
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

    /// The chunking of what comes next.
    pub(crate) fn chunking(&self) -> Chunking {
        self.chunking
    }

    /// Takes the next bytes of the flow. They are to be cut next.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        self.cutter.came(bytes.len());
    }

    /// Cuts everything that came on this processor, unless a unit is cutting.
    pub(crate) fn cut(&mut self) {
        if !self.cutter.is_asked() {
            self.cutter.cut(&self.pending[(self.cutter.cut_to() - self.origin) as usize..]);
        }
    }

    /// True if everything that came is cut, but for the chunk under way.
    pub(crate) fn is_cut(&self) -> bool {
        self.cutter.cut_to() == self.origin + self.pending.len() as u64
    }

    /// True while a unit cuts.
    pub(crate) fn is_asked(&self) -> bool {
        self.cutter.is_asked()
    }

    /// Bytes that a unit could be asked to cut now, up to the next pause; 0 where none has the
    /// method.
    pub(crate) fn piece(&self) -> u64 {
        self.cutter.piece_for_units()
    }

    /// True if that will not become more by waiting.
    pub(crate) fn piece_is_whole(&self) -> bool {
        self.cutter.piece_is_whole() || self.room_at_once() == 0
    }

    /// The next piece, `most` bytes of it at most, as a job for a unit; `None` if there is none, or
    /// no unit has the method. Until [`Encoder::answered`] or [`Encoder::withdraw`], what comes is
    /// not cut.
    pub(crate) fn ask(&mut self, most: u64) -> Option<Job> {
        self.cutter.ask(&self.pending[(self.cutter.cut_to() - self.origin) as usize..], most)
    }

    /// A unit's answer, which is checked, one chunk in `one_in` by content.
    ///
    /// # Errors
    /// It is false; nothing of it counts, and the piece is to be cut again.
    pub(crate) fn answered(
        &mut self,
        answer: &Answer,
        one_in: u64,
        rng: &mut Rng,
    ) -> Result<(), Lie> {
        let uncut = &self.pending[(self.cutter.cut_to() - self.origin) as usize..];
        self.cutter.answered(uncut, answer, one_in, rng)
    }

    /// Takes back what a unit was asked to cut.
    pub(crate) fn withdraw(&mut self) {
        self.cutter.withdraw();
    }

    /// True if a segment is there: a chunk ends far enough in what waits.
    pub(crate) fn is_full(&self) -> bool {
        let far_enough = |cut: u64| cut - self.origin >= SEGMENT_BYTES;
        let is_relayed = self.cutter.chunking().method() == Method::None;
        self.cutter.last_cut().is_some_and(far_enough)
            || (is_relayed && far_enough(self.cutter.cut_to()))
    }

    /// True if a segment is to be sent: one that is full, or the rest before a flush.
    pub(crate) fn is_ready(&mut self) -> bool {
        self.is_full() || self.cutter.sends_to(self.origin).is_some()
    }

    /// Ends the chunk that is under way, and has everything that came sent as soon as it is cut.
    pub(crate) fn flush(&mut self) {
        if !self.pending.is_empty() {
            self.cutter.pause(true, None);
        }
    }

    /// Cuts what comes from now on in another way. What waits is cut where it ends.
    pub(crate) fn set_chunking(&mut self, chunking: Chunking) {
        if chunking != self.chunking {
            self.chunking = chunking;
            self.cutter.pause(false, Some(chunking));
        }
    }

    /// The next segment, if a chunk has ended: its bytes in one or two parts, and what came of it.
    /// No segment reaches over a flush.
    pub(crate) fn next_segment(&mut self, shared: &mut Shared) -> Option<(Vec<Bytes>, Encoded)> {
        if self.is_full() && self.cutter.chunking().method() == Method::None {
            self.cutter.pause(false, None);
        }
        assert!(self.cutter.first_cut()? > self.origin, "a chunk has bytes");
        let sends_to = self.cutter.sends_to(self.origin);
        let mut lengths = Vec::new();
        let mut end = self.origin;
        while let Some(next) = self.cutter.first_cut() {
            let is_long = end - self.origin >= SEGMENT_BYTES || lengths.len() == TOKENS_MAX;
            if is_long || Some(end) == sends_to {
                break;
            }
            // Only what is relayed whole can be longer than the longest chunk.
            let cut = next.min(end + SEGMENT_BYTES_MAX as u64 / 2);
            lengths.push((cut - end) as u32);
            end = cut;
            if next == cut {
                self.cutter.take_cut();
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
