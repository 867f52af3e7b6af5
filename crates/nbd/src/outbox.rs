//! Bytes on their way to a client: replies in their order, and how much of them is still here.
//!
//! Headers and contents are counted apart. Contents are requests' buffers, which the session
//! accounts for; headers are small, and a client that lets many pile up is not read from.

use std::collections::VecDeque;
use std::io::IoSlice;
use thermocline_ports::Payload;

/// Bytes on their way out.
#[derive(Debug)]
enum Out {
    /// Headers.
    Bytes(Vec<u8>),
    /// Contents.
    Payload(Payload),
}

impl Out {
    fn length(&self) -> usize {
        match self {
            Out::Bytes(bytes) => bytes.len(),
            Out::Payload(payload) => payload.len() as usize,
        }
    }

    /// Splits off and drops the first `count` bytes.
    fn rest(self, count: usize) -> Out {
        match self {
            Out::Bytes(mut bytes) => Out::Bytes(bytes.split_off(count)),
            Out::Payload(payload) => Out::Payload(payload.slice(count as u32..payload.len())),
        }
    }
}

/// Replies that have not left yet.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    parts: VecDeque<Out>,
    header_bytes: u64,
    content_bytes: u64,
}

impl Outbox {
    /// Appends a header.
    ///
    /// # Panics
    /// When it is empty.
    pub(super) fn header(&mut self, bytes: Vec<u8>) {
        assert!(!bytes.is_empty(), "an empty header says nothing");
        self.header_bytes += bytes.len() as u64;
        self.parts.push_back(Out::Bytes(bytes));
    }

    /// Appends contents.
    pub(super) fn contents(&mut self, payload: Payload) {
        self.content_bytes += u64::from(payload.len());
        self.parts.push_back(Out::Payload(payload));
    }

    /// True if everything has left.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes of headers that have not left.
    pub(super) fn header_bytes(&self) -> u64 {
        self.header_bytes
    }

    /// Bytes of contents that have not left.
    pub(super) fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Fills `slices` with the first parts; the number of slices used.
    pub(super) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        static ZEROES: [u8; 64 << 10] = [0; 64 << 10];
        let mut count = 0;
        for (slice, part) in slices.iter_mut().zip(&self.parts) {
            count += 1;
            match part {
                Out::Bytes(bytes) => *slice = IoSlice::new(bytes),
                Out::Payload(Payload::Bytes(bytes)) => *slice = IoSlice::new(bytes),
                Out::Payload(Payload::Zeroes(length)) => {
                    let zeroes = ZEROES.get(..*length as usize).unwrap_or(&ZEROES);
                    *slice = IoSlice::new(zeroes);
                    if zeroes.len() < *length as usize {
                        break; // More zeroes come before the next part.
                    }
                }
            }
        }
        count
    }

    /// Takes the first `count` bytes off, which have left; the bytes of contents among them.
    pub(super) fn left(&mut self, mut count: usize) -> u64 {
        let mut contents = 0;
        while let Some(front) = self.parts.pop_front() {
            let length = front.length();
            let gone = count.min(length);
            match front {
                Out::Bytes(_) => self.header_bytes -= gone as u64,
                Out::Payload(_) => contents += gone as u64,
            }
            if gone < length {
                self.parts.push_front(front.rest(gone));
                break;
            }
            count -= gone;
            if count == 0 {
                break;
            }
        }
        self.content_bytes -= contents;
        contents
    }

    /// Drops everything unsent.
    pub(super) fn clear(&mut self) {
        *self = Outbox::default();
    }
}
