//! The receiving half of a flow: segments in, bytes out.
//!
//! 1. Bytes of segments come in any pieces; a segment is read when it is all there.
//! 2. Its bytes are put together from literals, which the store gets, and from chunks that the
//!    store holds. Chunks that it does not hold are asked for ([`Decoder::take_missing`]) and
//!    filled in later.
//! 3. When nothing is missing, the bytes are held against the segment's check. If they differ and
//!    chunks came from the store, those are asked for again; if they differ after that, the flow
//!    ends with an error. Nothing else is ever handed out.
//! 4. Segments are handed out in order. While more than a limit wait, because a segment is
//!    incomplete or because nobody takes them, no further segment is read: whatever a few bytes may
//!    stand for, memory is bounded.

use crate::format::{
    Codec, Expected, FormatError, SEGMENT_HEADER_BYTES, SegmentHeader, Token, value,
};
use crate::shared::Shared;
use crate::store::{Name, Owner, Ticket};
use bytes::{Buf, Bytes, BytesMut};
use std::collections::{BTreeMap, VecDeque};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;

/// Bytes of one flow that may wait before further segments stay unread.
pub(crate) const WAITING_BYTES_MAX: usize = 1 << 20;

/// Bytes of segments that were not read from which on their buffer grows by little.
const UNREAD_BYTES: usize = 64 << 10;

/// Situation: chunks of the store are not those that the sender meant.
const SPOILT: &str = "a chunk of the store went bad";

/// A chunk that is not there yet.
#[derive(Debug, Clone, Copy)]
struct Gap {
    at: usize,
    length: usize,
    name: Name,
}

/// A segment that was read.
struct Assembled {
    segment: u64,
    bytes: BytesMut,
    check: u32,
    /// Chunks that came from the store, by index.
    from_store: BTreeMap<u16, Gap>,
    gaps: BTreeMap<u16, Gap>,
    /// The chunks from the store were asked for again.
    is_asked_again: bool,
    /// Nothing is missing and the check is right.
    is_sound: bool,
    /// References among its chunks.
    references: usize,
}

impl Assembled {
    /// Memory that it takes beside its bytes.
    fn overhead(&self) -> usize {
        SEGMENT_BYTES + self.references * GAP_BYTES
    }
}

/// Memory of a segment, here or handed out: its entry in queues, and what its bytes lie in.
const SEGMENT_BYTES: usize = 256;

/// Memory of a reference: its entry in one of two maps, and in a list of what is asked for.
const GAP_BYTES: usize = 96;

/// A segment that was handed out and not taken.
struct HandedOut {
    /// Bytes that were not taken.
    bytes: usize,
    overhead: usize,
}

/// Chunks of a segment that the other end is to be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) segment: u64,
    pub(crate) tokens: Vec<u16>,
}

/// A chunk of a segment that the device was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fetch {
    pub(crate) ticket: Ticket,
    pub(crate) segment: u64,
    pub(crate) token: u16,
}

/// The receiving half of a flow.
pub(crate) struct Decoder {
    scope: u64,
    input: BytesMut,
    expected: Expected,
    segments: u64,
    waiting: VecDeque<Assembled>,
    /// Bytes in `waiting`, and those that were handed out and not taken.
    waiting_bytes: usize,
    /// Memory of what waits beside its bytes: chunks of ten bytes cost ten times their bytes.
    waiting_overhead: usize,
    handed_out: VecDeque<HandedOut>,
    missing: Vec<Missing>,
    fetches: Vec<Fetch>,
    /// Bytes of segments that were read.
    read: u64,
    /// Bytes for which the other end has its credit back.
    credited: u64,
    /// Segments whose bytes were handed out.
    complete: u64,
}

impl Decoder {
    pub(crate) fn new(scope: u64) -> Decoder {
        Decoder {
            scope,
            input: BytesMut::new(),
            expected: Expected::default(),
            segments: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            waiting_overhead: 0,
            handed_out: VecDeque::new(),
            missing: Vec::new(),
            fetches: Vec::new(),
            read: 0,
            credited: 0,
            complete: 0,
        }
    }

    /// Takes bytes of segments, and reads as many as may wait.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        waiting_max: usize,
        shared: &mut Shared,
    ) -> Result<(), FormatError> {
        self.make_room(bytes.len());
        self.input.extend_from_slice(bytes);
        self.read(waiting_max, shared)
    }

    /// Room for bytes that nobody takes, by an eighth more than they need: doubling would leave
    /// half of the memory unused, of every flow that nobody reads.
    fn make_room(&mut self, more: usize) {
        let needed = self.input.len() + more;
        if needed > self.input.capacity() && self.input.len() >= UNREAD_BYTES {
            let mut larger = BytesMut::with_capacity(needed + needed / 8);
            larger.extend_from_slice(&self.input);
            self.input = larger;
        }
    }

    /// The caller is done with `bytes` bytes that it got; reads as many more as may wait.
    pub(crate) fn taken(
        &mut self,
        bytes: usize,
        waiting_max: usize,
        shared: &mut Shared,
    ) -> Result<(), FormatError> {
        assert!(bytes <= self.waiting_bytes, "more is taken than was handed out");
        self.waiting_bytes -= bytes;
        let mut left = bytes;
        while let Some(first) = self.handed_out.front_mut() {
            let now = left.min(first.bytes);
            (first.bytes, left) = (first.bytes - now, left - now);
            if first.bytes > 0 {
                break;
            }
            self.waiting_overhead -= first.overhead;
            self.handed_out.pop_front();
        }
        self.read(waiting_max, shared)
    }

    /// Memory of what waits here, or was handed out and not taken, bytes.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting_bytes + self.waiting_overhead
    }

    /// Fills in a chunk that was missing.
    ///
    /// # Errors
    /// When it was not missing, or has another length.
    pub(crate) fn fill(
        &mut self,
        segment: u64,
        token: u16,
        bytes: &[u8],
        shared: &mut Shared,
    ) -> Result<(), FormatError> {
        let waiting = self.waiting_at(segment);
        let gap = waiting.and_then(|waiting| Some((waiting.gaps.remove(&token)?, waiting)));
        let Some((gap, waiting)) = gap else {
            return Err(value("the index of a fill", token.into(), "a chunk that is missing"));
        };
        if bytes.len() != gap.length {
            let expected = "what the reference said";
            return Err(value("the length of a fill", bytes.len() as u64, expected));
        }
        waiting.bytes[gap.at..gap.at + gap.length].copy_from_slice(bytes);
        let fingerprint = shared.fingerprint(self.scope, bytes);
        shared.store.restore(gap.name, fingerprint, bytes);
        self.check(segment)
    }

    /// The device has read a chunk, or lost it (`None`): then the other end is asked for it.
    ///
    /// # Errors
    /// The segment is complete, and is not what the other end sent.
    pub(crate) fn fetched(
        &mut self,
        fetch: Fetch,
        bytes: Option<&[u8]>,
        shared: &mut Shared,
    ) -> Result<(), FormatError> {
        let waiting = self.waiting_at(fetch.segment);
        // The other end may have sent it unasked.
        let Some(waiting) = waiting else { return Ok(()) };
        let Some(&gap) = waiting.gaps.get(&fetch.token) else { return Ok(()) };
        let Some(bytes) = bytes.filter(|bytes| bytes.len() == gap.length) else {
            if !mutant("a_chunk_that_the_device_lost_is_not_asked_for") {
                self.missing.push(Missing { segment: fetch.segment, tokens: vec![fetch.token] });
            }
            return Ok(());
        };
        waiting.gaps.remove(&fetch.token);
        waiting.bytes[gap.at..gap.at + gap.length].copy_from_slice(bytes);
        waiting.from_store.insert(fetch.token, gap);
        let fingerprint = shared.fingerprint(self.scope, bytes);
        shared.store.restore(gap.name, fingerprint, bytes);
        self.check(fetch.segment)
    }

    /// A segment that was read and not handed out.
    fn waiting_at(&mut self, segment: u64) -> Option<&mut Assembled> {
        // They are numbered one by one.
        let index = segment.checked_sub(self.waiting.front()?.segment)?;
        self.waiting.get_mut(usize::try_from(index).ok()?)
    }

    /// The next bytes of the flow, in order.
    pub(crate) fn next_bytes(&mut self) -> Option<Bytes> {
        if !self.waiting.front()?.is_sound {
            return None;
        }
        self.complete += 1;
        let segment = self.waiting.pop_front()?;
        let (bytes, overhead) = (segment.bytes.len(), segment.overhead());
        self.handed_out.push_back(HandedOut { bytes, overhead });
        Some(segment.bytes.freeze())
    }

    /// Chunks to ask the other end for.
    pub(crate) fn take_missing(&mut self) -> Vec<Missing> {
        std::mem::take(&mut self.missing)
    }

    /// Chunks that the device was asked for, since the last call.
    pub(crate) fn take_fetches(&mut self) -> Vec<Fetch> {
        std::mem::take(&mut self.fetches)
    }

    /// Segments whose bytes were handed out.
    pub(crate) fn complete(&self) -> u64 {
        self.complete
    }

    /// Bytes of segments that the other end may send anew in place of what was read, or is needed
    /// to read the next segment.
    pub(crate) fn take_credit(&mut self) -> u64 {
        let needed = match SegmentHeader::read(&self.input) {
            Ok(header) => SEGMENT_HEADER_BYTES + header.body_length(),
            Err(_) => SEGMENT_HEADER_BYTES,
        };
        let is_stuck = self.input.len() < needed && !mutant("no_credit_for_a_long_segment");
        let used = self.read + if is_stuck { self.input.len() as u64 } else { 0 };
        // What was needed for a segment stays credited while that segment waits to be read.
        let credit = used.saturating_sub(self.credited);
        self.credited += credit;
        credit
    }

    /// True if everything that came was handed out.
    pub(crate) fn is_done(&self) -> bool {
        self.input.is_empty() && self.waiting.is_empty()
    }

    /// True if bytes are left of a segment whose rest did not come.
    pub(crate) fn is_broken_off(&self) -> bool {
        let header = SegmentHeader::read(&self.input);
        let is_whole = header
            .is_ok_and(|header| self.input.len() >= SEGMENT_HEADER_BYTES + header.body_length());
        !self.input.is_empty() && !is_whole
    }

    /// True if nothing has to be asked for.
    #[cfg(test)]
    pub(crate) fn missing_is_empty(&self) -> bool {
        self.missing.is_empty()
    }

    fn read(&mut self, waiting_max: usize, shared: &mut Shared) -> Result<(), FormatError> {
        while self.waiting() < waiting_max && self.input.len() >= SEGMENT_HEADER_BYTES {
            let header = SegmentHeader::read(&self.input)?;
            let length = SEGMENT_HEADER_BYTES + header.body_length();
            if self.input.len() < length {
                break;
            }
            let mut segment = self.input.split_to(length).freeze();
            self.read += length as u64;
            segment.advance(SEGMENT_HEADER_BYTES);
            let assembled = self.assemble(&header, segment, shared)?;
            self.segments += 1;
            self.waiting_bytes += assembled.bytes.len();
            self.waiting_overhead += assembled.overhead();
            let segment = assembled.segment;
            self.waiting.push_back(assembled);
            self.check(segment)?;
        }
        Ok(())
    }

    fn assemble(
        &mut self,
        header: &SegmentHeader,
        body: Bytes,
        shared: &mut Shared,
    ) -> Result<Assembled, FormatError> {
        let (mut packed, stored) = body.split_at(header.tokens_length as usize);
        let mut tokens = Vec::with_capacity(usize::from(header.tokens).min(packed.len()));
        for _ in 0..header.tokens {
            tokens.push(self.expected.read(&mut packed)?);
        }
        if !packed.is_empty() {
            return Err(value("bytes behind a segment's tokens", packed.len() as u64, "0"));
        }
        let ours = tokens.iter().filter_map(Token::name).filter(|name| name.owner == Owner::Us);
        if let Some(name) = ours.into_iter().find(|name| name.number >= shared.next_name()) {
            return Err(value("the name of a reference", name.number, "one that was given"));
        }
        let sum: u64 = tokens.iter().map(|token| u64::from(token.length())).sum();
        if sum != u64::from(header.bytes) {
            return Err(value("the sum of a segment's chunks", sum, "the segment's length"));
        }
        let literals = literals(header.codec, stored, &tokens, shared)?;
        let mut assembled = Assembled {
            segment: self.segments,
            bytes: BytesMut::with_capacity(header.bytes as usize),
            check: header.check,
            from_store: BTreeMap::new(),
            gaps: BTreeMap::new(),
            is_asked_again: false,
            is_sound: false,
            references: tokens.iter().filter(|token| token.name().is_some()).count(),
        };
        self.fill_in(&tokens, &literals, &mut assembled, shared);
        let mut tokens = Vec::new();
        for (&token, gap) in &assembled.gaps {
            let segment = assembled.segment;
            match shared.store.fetch(gap.name, gap.length) {
                Some(ticket) => self.fetches.push(Fetch { ticket, segment, token }),
                None => tokens.push(token),
            }
        }
        if !tokens.is_empty() {
            self.missing.push(Missing { segment: assembled.segment, tokens });
        }
        Ok(assembled)
    }

    /// Fingerprints of a segment's literals, all before the first is kept, so that memory can bring
    /// what belongs to them and to the references.
    fn fingerprints(&self, tokens: &[Token], mut literals: &[u8], shared: &Shared) -> Vec<u64> {
        let mut fingerprints = Vec::new();
        for token in tokens {
            if let Token::Reference { name, .. } = *token {
                shared.store.expect_name(name);
                continue;
            }
            let (chunk, rest) = literals.split_at(token.length() as usize);
            literals = rest;
            if let Token::Literal { .. } = token {
                let fingerprint = shared.fingerprint(self.scope, chunk);
                shared.store.expect(fingerprint);
                fingerprints.push(fingerprint);
            }
        }
        fingerprints
    }

    fn fill_in(
        &self,
        tokens: &[Token],
        mut literals: &[u8],
        assembled: &mut Assembled,
        shared: &mut Shared,
    ) {
        let mut fingerprints = self.fingerprints(tokens, literals, shared).into_iter();
        for (index, token) in tokens.iter().enumerate() {
            let length = token.length() as usize;
            let at = assembled.bytes.len();
            match *token {
                Token::Plain { .. } | Token::Literal { .. } => {
                    let (chunk, rest) = literals.split_at(length);
                    literals = rest;
                    assembled.bytes.extend_from_slice(chunk);
                    if let Token::Literal { number, .. } = *token {
                        let fingerprint = fingerprints.next().expect("each literal has one");
                        let name = Name { owner: Owner::Peer, number };
                        shared.store.insert(name, fingerprint, chunk);
                    }
                }
                Token::Reference { name, .. } => {
                    let gap = Gap { at, length, name };
                    match shared.store.get(name).filter(|chunk| chunk.len() == length) {
                        Some(chunk) => {
                            assembled.bytes.extend_from_slice(chunk);
                            assembled.from_store.insert(index as u16, gap);
                        }
                        None => {
                            assembled.bytes.resize(at + length, 0);
                            assembled.gaps.insert(index as u16, gap);
                        }
                    }
                }
            }
        }
    }

    /// Holds a segment against its check, when nothing of it is missing.
    fn check(&mut self, segment: u64) -> Result<(), FormatError> {
        let Some(waiting) = self.waiting_at(segment) else { return Ok(()) };
        if waiting.is_sound || !waiting.gaps.is_empty() {
            return Ok(());
        }
        if crc32c::crc32c(&waiting.bytes) == waiting.check {
            waiting.is_sound = true;
            return Ok(());
        }
        if waiting.is_asked_again || waiting.from_store.is_empty() {
            let check = u64::from(waiting.check);
            return Err(value("the check of a segment", check, "that of its bytes"));
        }
        met(SPOILT);
        // A chunk of ours went bad: none of those that were used is trusted.
        waiting.is_asked_again = true;
        waiting.gaps = std::mem::take(&mut waiting.from_store);
        let tokens = waiting.gaps.keys().copied().collect();
        self.missing.push(Missing { segment, tokens });
        Ok(())
    }
}

/// The literals of a segment, exactly as long as its tokens say.
fn literals(
    codec: Codec,
    stored: &[u8],
    tokens: &[Token],
    shared: &mut Shared,
) -> Result<Vec<u8>, FormatError> {
    let is_reference = |token: &&Token| matches!(token, Token::Reference { .. });
    let of_literals = tokens.iter().filter(|token| !is_reference(token));
    let expected: usize = of_literals.map(|token| token.length() as usize).sum();
    let literals = match codec {
        Codec::Plain => Some(stored.to_vec()),
        Codec::Zstd => shared.decompress(stored, expected),
    };
    literals
        .filter(|literals| literals.len() == expected)
        .ok_or(FormatError::Literals { stored: stored.len(), expected })
}

#[cfg(test)]
mod tests;
