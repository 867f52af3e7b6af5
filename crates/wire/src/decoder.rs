//! From bytes in pieces of any size to HELLO and whole frames.
//!
//! Holds at most one HELLO or one frame. Payloads are copied once, into memory of their own, so
//! that a few bytes that somebody keeps do not keep a large buffer.

use crate::WireError;
use crate::format::{FRAME_HEADER_BYTES, Frame, FrameHeader, HELLO_BYTES, Hello};
use bytes::Bytes;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;

/// Next whole thing that arrived.
#[derive(Debug)]
pub(crate) enum Incoming {
    Hello(Hello),
    Frame(Frame),
}

/// State: first HELLO, then frame after frame, each first its header and then its payload.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    greeted: bool,
    /// Header of the frame whose payload is being gathered.
    header: Option<FrameHeader>,
    /// Bytes of what is not whole yet.
    part: Vec<u8>,
}

impl Decoder {
    /// The next whole thing in what came before and `input`, from which it takes what it uses;
    /// `None`: everything is used, and more is needed.
    ///
    /// # Errors
    /// The bytes are no HELLO or no frame.
    pub(crate) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Incoming>, WireError> {
        if !self.greeted {
            return Ok(self.hello(input)?.map(Incoming::Hello));
        }
        let header = match self.header {
            Some(header) => header,
            None => {
                let Some(bytes) = self.gather(input, FRAME_HEADER_BYTES) else { return Ok(None) };
                let bytes = bytes.as_ref().try_into().expect("gathered as many");
                *self.header.insert(FrameHeader::decode(bytes)?)
            }
        };
        let Some(payload) = self.gather(input, header.length) else { return Ok(None) };
        self.header = None;
        Ok(Some(Incoming::Frame(Frame::decode(header, payload)?)))
    }

    fn hello(&mut self, input: &mut &[u8]) -> Result<Option<Hello>, WireError> {
        loop {
            // The first four bytes one by one, so that a stranger is known as soon as it can be.
            let want = match Hello::length_of(&self.part)? {
                Some(length) => length,
                None => {
                    if self.part.len() < 4 {
                        self.part.len() + 1
                    } else {
                        HELLO_BYTES
                    }
                }
            };
            if self.part.len() == want {
                self.greeted = true;
                return Hello::decode(Bytes::from(std::mem::take(&mut self.part))).map(Some);
            }
            let missing = want - self.part.len();
            let (taken, rest) = input.split_at(missing.min(input.len()));
            self.part.extend_from_slice(taken);
            *input = rest;
            if taken.len() < missing {
                return Hello::length_of(&self.part).map(|_| None);
            }
        }
    }

    /// `want` bytes, as soon as they are there.
    fn gather(&mut self, input: &mut &[u8], want: usize) -> Option<Bytes> {
        if self.part.is_empty() && input.len() >= want {
            let (whole, rest) = input.split_at(want);
            *input = rest;
            return Some(Bytes::copy_from_slice(whole));
        }
        met_if(!self.part.is_empty(), "a frame came in pieces");
        if mutant("piece_lost_at_a_split") && !self.part.is_empty() && want > FRAME_HEADER_BYTES {
            self.part.pop();
        }
        self.part.reserve_exact(want - self.part.len());
        let (taken, rest) = input.split_at((want - self.part.len()).min(input.len()));
        self.part.extend_from_slice(taken);
        *input = rest;
        if self.part.len() < want {
            met_if(self.header.is_some(), "a payload came in pieces");
            return None;
        }
        Some(Bytes::from(std::mem::take(&mut self.part)))
    }
}
