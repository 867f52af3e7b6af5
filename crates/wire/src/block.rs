//! Bytes on their way out, as segments for a vectored write.
//!
//! Headers and short pieces are put together in small blocks; long pieces are passed on as they
//! are. So a frame costs no memory of its own, and its contents are not copied.

use crate::format::{Frame, FrameHeader, Hello, Kind};
use bytes::{BufMut, Bytes, BytesMut};
use std::collections::VecDeque;

/// Pieces up to this length are copied: a segment of their own costs more.
const COPIED_BYTES_MAX: usize = 256;
const BLOCK_BYTES: usize = 1 << 10;

/// Segments being written.
#[derive(Debug)]
pub(crate) struct Blocks<'a> {
    out: &'a mut VecDeque<Bytes>,
    block: BytesMut,
    written: usize,
}

impl<'a> Blocks<'a> {
    /// Appends to `out`.
    pub(crate) fn new(out: &'a mut VecDeque<Bytes>) -> Blocks<'a> {
        Blocks { out, block: BytesMut::new(), written: 0 }
    }

    /// Bytes appended.
    pub(crate) fn written(&self) -> usize {
        self.written
    }

    /// Appends HELLO.
    pub(crate) fn hello(&mut self, hello: &Hello) {
        let length = hello.encoded_bytes();
        hello.encode(self.room(length));
        self.written += length;
    }

    /// Appends the header of a frame.
    pub(crate) fn header(&mut self, kind: Kind, stream: u32, length: usize, end: bool) {
        let header = FrameHeader { kind, end, stream, length };
        header.encode(self.room(crate::FRAME_HEADER_BYTES));
        self.written += crate::FRAME_HEADER_BYTES;
    }

    /// Appends a piece of payload.
    pub(crate) fn piece(&mut self, piece: Bytes) {
        self.written += piece.len();
        if piece.len() <= COPIED_BYTES_MAX {
            self.room(piece.len()).put_slice(&piece);
        } else {
            self.flush();
            self.out.push_back(piece);
        }
    }

    /// Appends a whole frame.
    pub(crate) fn frame(&mut self, frame: &Frame) {
        match frame {
            Frame::Open { stream, header } => {
                self.header(Kind::Open, *stream, header.len(), false);
                self.piece(header.clone());
            }
            Frame::Data { stream, bytes, end } => {
                self.header(Kind::Data, *stream, bytes.len(), *end);
                self.piece(bytes.clone());
            }
            Frame::Credit { stream, bytes: number } => self.short(Kind::Credit, *stream, *number),
            Frame::Reset { stream, code: number } => self.short(Kind::Reset, *stream, *number),
            Frame::Closed { stream } => self.header(Kind::Closed, *stream, 0, false),
            Frame::Ping { value } => self.long(Kind::Ping, *value),
            Frame::Pong { value } => self.long(Kind::Pong, *value),
            Frame::Closing { code, reason } => {
                self.header(Kind::Closing, 0, 4 + reason.len(), false);
                self.room(4 + reason.len()).put_u32_le(*code);
                self.block.put_slice(reason.as_bytes());
                self.written += 4 + reason.len();
            }
            Frame::Abort { reason } => {
                self.header(Kind::Abort, 0, reason.len(), false);
                self.piece(Bytes::copy_from_slice(reason.as_bytes()));
            }
        }
    }

    fn short(&mut self, kind: Kind, stream: u32, number: u32) {
        self.header(kind, stream, 4, false);
        self.room(4).put_u32_le(number);
        self.written += 4;
    }

    fn long(&mut self, kind: Kind, value: u64) {
        self.header(kind, 0, 8, false);
        self.room(8).put_u64_le(value);
        self.written += 8;
    }

    /// The block, with room for `bytes` more.
    fn room(&mut self, bytes: usize) -> &mut BytesMut {
        if self.block.capacity() - self.block.len() < bytes {
            self.flush();
            self.block = BytesMut::with_capacity(BLOCK_BYTES.max(bytes));
        }
        &mut self.block
    }

    fn flush(&mut self) {
        if !self.block.is_empty() {
            self.out.push_back(self.block.split().freeze());
        }
    }

    /// Ends writing; how many bytes were appended.
    pub(crate) fn finish(mut self) -> usize {
        self.flush();
        self.written
    }
}
