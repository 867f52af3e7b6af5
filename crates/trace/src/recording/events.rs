//! Reading a recording: blocks one after the other, and what to think of one that is not whole.
//!
//! 1. A block's head says how long it is; the frame is read, held against its checksum, unpacked.
//! 2. Where a head or a frame is cut off or wrong, the rest of the input is searched for another
//!    block. There is none: this is where the recorder was killed or its disk ran full, and the
//!    recording ends here. There is one: the file is damaged, and that is an error, since what a
//!    placement did afterwards cannot be told without what is missing.
//!
//! Holds one block.

use super::Event;
use super::decode::{Decoder, Records};
use super::format::{BLOCK_HEAD, BLOCK_MAX, BlockHead, FILE_HEAD, check_file_head, checksum};
use crate::error::{Place, TraceError};
use crate::formats::FAILED_BEFORE;
use crate::input::Source;
use std::io::Read;
use thermocline_units::Bytes;

/// Bytes that the frame of a block may have: zstd's bound for what it cannot compress.
const FRAME_MAX: usize = BLOCK_MAX + (BLOCK_MAX >> 8) + 64;

/// Gives the events of a recording, in order.
pub struct EventReader {
    source: Source,
    decoder: Decoder,
    plain: Vec<u8>,
    at: usize,
    frame: Vec<u8>,
    /// Bytes of the input read, and whether those were all.
    position: u64,
    at_end: bool,
    /// Beginning of the block at hand, and the number of the next.
    begins: u64,
    number: u32,
    over: Over,
    failed: bool,
}

/// End of the blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Over {
    /// Not yet.
    No,
    /// Over, with an end mark.
    Closed,
    /// Without.
    Open,
    /// Over in the middle of a block that begins at this byte.
    Torn(u64),
}

impl EventReader {
    /// Opens a recording called `name` in messages, packed with gzip, zstd or xz if need be.
    ///
    /// # Errors
    /// When it is none, of another version, or cannot be read.
    pub fn open(input: Box<dyn Read + Send>, name: &str) -> Result<EventReader, TraceError> {
        EventReader::new(Source::new(input, name)?)
    }

    pub(crate) fn new(source: Source) -> Result<EventReader, TraceError> {
        let mut reader = EventReader {
            source,
            decoder: Decoder::default(),
            plain: Vec::new(),
            at: 0,
            frame: Vec::new(),
            position: 0,
            at_end: false,
            begins: 0,
            number: 0,
            over: Over::No,
            failed: false,
        };
        let mut head = [0; FILE_HEAD];
        let count = reader.fill(&mut head)?;
        let version = match count {
            FILE_HEAD => check_file_head(&head),
            _ => Err(format!("{count} bytes; a recording has at least {FILE_HEAD}")),
        };
        reader.decoder.version =
            version.map_err(|problem| reader.source.malformed(Place::Byte(0), problem))?;
        if reader.read_block()? {
            let mut records = Records { bytes: &reader.plain, at: 0 };
            let decoded = reader.decoder.next(&mut records);
            reader.at = records.at;
            decoded.map_err(|problem| reader.malformed(problem))?;
        }
        Ok(reader)
    }

    /// Bytes of a chunk of the machine that was recorded; `None` when the recording was cut off
    /// before it could say so.
    pub fn chunk(&self) -> Option<Bytes> {
        (self.decoder.chunk > 0).then_some(Bytes(self.decoder.chunk))
    }

    /// Facts that the recorder wanted to be known, as pairs of key and value.
    pub fn about(&self) -> &[(String, String)] {
        &self.decoder.about
    }

    /// Damage at the end of a recording without an end mark, in words; `None` before the last
    /// event.
    pub fn torn(&self) -> Option<String> {
        match self.over {
            Over::No | Over::Closed => None,
            Over::Open => Some(
                "the recording was not closed: the recorder was killed, or stopped recording"
                    .to_string(),
            ),
            Over::Torn(at) => Some(format!(
                "the recording is cut off in the block at byte {at}, which was left out: the \
                 recorder was killed, or its disk was full"
            )),
        }
    }

    /// Bytes of the input as it lies there, for progress.
    pub fn bytes_read(&self) -> u64 {
        self.source.raw_bytes()
    }

    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// When a block is damaged, or the input cannot be read.
    pub fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        if self.failed {
            return Err(self.malformed(FAILED_BEFORE.to_string()));
        }
        let event = self.event();
        self.failed = event.is_err();
        event
    }

    fn event(&mut self) -> Result<Option<Event>, TraceError> {
        loop {
            if self.at == self.plain.len() && !self.decoder.has_seen() && !self.read_block()? {
                return Ok(None);
            }
            let mut records = Records { bytes: &self.plain, at: self.at };
            let decoded = self.decoder.next(&mut records);
            let at = std::mem::replace(&mut self.at, records.at);
            match decoded {
                Ok(Some(Event::Ended)) => {
                    self.end()?;
                    return Ok(Some(Event::Ended));
                }
                Ok(Some(event)) => return Ok(Some(event)),
                Ok(None) => {}
                Err(problem) => {
                    return Err(self.malformed(format!("{problem} (byte {at} of its records)")));
                }
            }
        }
    }

    /// The end mark was read: nothing may follow.
    fn end(&mut self) -> Result<(), TraceError> {
        self.over = Over::Closed;
        let more = self.at < self.plain.len() || self.fill(&mut [0])? > 0;
        match more {
            true => Err(self.malformed("something follows the end of the recording".to_string())),
            false => Ok(()),
        }
    }

    /// Makes the next block the one at hand; false at the end of the recording.
    fn read_block(&mut self) -> Result<bool, TraceError> {
        if self.over != Over::No {
            return Ok(false);
        }
        self.plain.clear();
        self.at = 0;
        self.begins = self.position;
        let mut head = [0; BLOCK_HEAD];
        let count = self.fill(&mut head)?;
        if count == 0 {
            self.over = Over::Open;
            return Ok(false);
        }
        let Some(block) = (count == BLOCK_HEAD).then(|| BlockHead::of(&head)).flatten() else {
            return self.tear(head.get(1..count).unwrap_or_default());
        };
        let (stored, plain) = (block.stored as usize, block.plain as usize);
        let sound = (1..=FRAME_MAX).contains(&stored) && (1..=BLOCK_MAX).contains(&plain);
        if !sound || block.number != self.number {
            return Err(self.malformed(format!(
                "block {} of {stored} bytes, {plain} unpacked, where block {} should be",
                block.number, self.number
            )));
        }
        let mut frame = std::mem::take(&mut self.frame);
        frame.resize(stored, 0);
        let count = self.fill(&mut frame);
        self.frame = frame;
        if count? < stored || checksum(&self.frame) != block.sum {
            let frame = std::mem::take(&mut self.frame);
            return self.tear(&frame);
        }
        self.unpack(plain)?;
        self.number += 1;
        Ok(true)
    }

    fn unpack(&mut self, plain: usize) -> Result<(), TraceError> {
        self.plain.reserve(plain);
        let unpacked = zstd::bulk::Decompressor::new()
            .and_then(|mut unpacker| unpacker.decompress_to_buffer(&self.frame, &mut self.plain));
        match unpacked {
            Ok(bytes) if bytes == plain => Ok(()),
            Ok(bytes) => Err(self.malformed(format!("a block of {bytes} bytes that says {plain}"))),
            Err(error) => Err(self.malformed(format!("the block cannot be unpacked: {error}"))),
        }
    }

    /// The block that begins at `begins` is not whole: an error if another follows. `rest` is what
    /// has been read of it beyond its first byte.
    fn tear(&mut self, rest: &[u8]) -> Result<bool, TraceError> {
        let torn = self.begins;
        let mut window = rest.to_vec();
        loop {
            if window.windows(BLOCK_HEAD).any(is_block_head) {
                return Err(self.malformed(
                    "a damaged block, with whole ones behind it; copy the file again".to_string(),
                ));
            }
            let keep = window.len().saturating_sub(BLOCK_HEAD - 1);
            window.drain(..keep);
            let held = window.len();
            window.resize(held + (64 << 10), 0);
            let count = self.fill(window.get_mut(held..).unwrap_or_default())?;
            if count == 0 {
                self.over = Over::Torn(torn);
                return Ok(false);
            }
            window.truncate(held + count);
        }
    }

    /// Reads until `buffer` is full or the input ends. The end, once seen, stays: a recording may
    /// be written on meanwhile, and what comes then would seem to stand behind a damaged block.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, TraceError> {
        let mut filled = 0;
        while filled < buffer.len() && !self.at_end {
            let place = Place::Byte(self.position);
            let room = buffer.get_mut(filled..).unwrap_or_default();
            match self.source.read_at(room, place)? {
                0 => self.at_end = true,
                count => (filled, self.position) = (filled + count, self.position + count as u64),
            }
        }
        Ok(filled)
    }

    /// An error in the block at hand.
    #[cold]
    pub(super) fn malformed(&self, problem: String) -> TraceError {
        self.source.malformed(Place::Byte(self.begins), problem)
    }
}

fn is_block_head(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|head| BlockHead::of(head).is_some())
}
