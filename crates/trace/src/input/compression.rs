//! The bytes of a trace, decompressed on the way, with a look at their beginning.
//!
//! gzip may have several members, zstd several frames, xz several streams; each is told by its
//! magic bytes. A stream that ends early or is damaged is an error that says after how many
//! compressed bytes; the system's own errors stay apart. Decoders may use [`DECODER_BYTES_MAX`]
//! of memory.

use crate::error::{Place, TraceError};
use std::io::{self, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of the decompressed beginning that format detection may see.
pub(crate) const SAMPLE_BYTES: usize = 64 << 10;

/// Memory a decoder may take; enough for the largest window that zstd and xz use by default.
pub(crate) const DECODER_BYTES_MAX: usize = 128 << 20;

/// Compressed bytes read at once.
const RAW_BYTES: usize = 64 << 10;

/// Compression of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Zstd,
    Xz,
    /// Told, but not read.
    Bzip2,
}

impl Compression {
    /// Bytes that [`Compression::of`] wants to see.
    pub(crate) const MAGIC_BYTES: usize = 6;

    /// Tells the packing by the first bytes.
    pub(crate) fn of(first: &[u8]) -> Option<Compression> {
        match first {
            [0x1f, 0x8b, ..] => Some(Compression::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Compression::Zstd),
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Compression::Zstd),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Compression::Xz),
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, ..] => Some(Compression::Bzip2),
            _ => None,
        }
    }

    /// The name people call it by.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Xz => "xz",
            Compression::Bzip2 => "bzip2",
        }
    }
}

/// State of a decoder's raw side.
#[derive(Debug, Default)]
struct RawState {
    bytes: AtomicU64,
    failed: AtomicBool,
}

/// Counts what is read and remembers whether the system refused.
struct Raw {
    inner: Box<dyn Read + Send>,
    state: Arc<RawState>,
}

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.inner.read(buffer) {
            Ok(count) => {
                self.state.bytes.fetch_add(count as u64, Ordering::Relaxed);
                Ok(count)
            }
            Err(error) => {
                if error.kind() != io::ErrorKind::Interrupted {
                    self.state.failed.store(true, Ordering::Relaxed);
                }
                Err(error)
            }
        }
    }
}

/// The decompressed bytes of one named input.
pub(crate) struct Source {
    /// Name of the input in messages.
    pub(crate) name: String,
    reader: Box<dyn Read + Send>,
    compression: Option<Compression>,
    raw: Arc<RawState>,
    sample: Cursor<Vec<u8>>,
    sample_error: Option<io::Error>,
}

impl Source {
    /// Tells the packing of `input` and unpacks its beginning.
    pub(crate) fn new(input: Box<dyn Read + Send>, name: &str) -> Result<Source, TraceError> {
        let state = Arc::new(RawState::default());
        let mut raw = Raw { inner: input, state: state.clone() };
        let mut magic = Vec::new();
        read_up_to(&mut raw, Compression::MAGIC_BYTES, &mut magic)
            .map_err(|source| TraceError::Io { input: name.to_string(), source })?;
        let compression = Compression::of(&magic);
        let whole = BufReader::with_capacity(RAW_BYTES, Cursor::new(magic).chain(raw));
        let malformed = |problem: String| TraceError::Malformed {
            input: name.to_string(),
            place: Place::Whole,
            problem,
        };
        let reader: Box<dyn Read + Send> = match compression {
            None => Box::new(whole),
            Some(Compression::Gzip) => Box::new(flate2::bufread::MultiGzDecoder::new(whole)),
            Some(Compression::Zstd) => {
                let cannot_start = |error| malformed(format!("zstd cannot start: {error}"));
                let mut decoder =
                    zstd::stream::read::Decoder::with_buffer(whole).map_err(cannot_start)?;
                decoder.window_log_max(DECODER_BYTES_MAX.ilog2()).map_err(cannot_start)?;
                Box::new(decoder)
            }
            Some(Compression::Xz) => {
                let kib_max = (DECODER_BYTES_MAX >> 10) as u32;
                Box::new(lzma_rust2::XzReader::new_mem_limit(whole, true, kib_max))
            }
            Some(Compression::Bzip2) => {
                return Err(malformed(
                    "bzip2 is not read here; unpack it first: bunzip2 -c FILE | thermocline … -"
                        .to_string(),
                ));
            }
        };
        let mut source = Source {
            name: name.to_string(),
            reader,
            compression,
            raw: state,
            sample: Cursor::new(Vec::new()),
            sample_error: None,
        };
        source.take_sample();
        Ok(source)
    }

    /// Reads the beginning; an error on the way is kept for whoever reads up to it.
    fn take_sample(&mut self) {
        let mut sample = Vec::new();
        self.sample_error = read_up_to(&mut self.reader, SAMPLE_BYTES, &mut sample).err();
        self.sample = Cursor::new(sample);
    }

    /// The beginning, at most [`SAMPLE_BYTES`]; empty only when the input is, or fails at once.
    pub(crate) fn sample(&self) -> &[u8] {
        self.sample.get_ref()
    }

    /// The packing it was told to have.
    pub(crate) fn compression(&self) -> Option<Compression> {
        self.compression
    }

    /// Bytes taken from the input as it lies there, before decompression.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.raw.bytes.load(Ordering::Relaxed)
    }

    /// Reads the next bytes, which stand at `place`; 0 means the end.
    ///
    /// # Errors
    /// When the packing is damaged or the system cannot read.
    pub(crate) fn read_at(&mut self, buffer: &mut [u8], place: Place) -> Result<usize, TraceError> {
        if (self.sample.position() as usize) < self.sample.get_ref().len() {
            let read = self.sample.read(buffer);
            return read.map_err(|error| self.explain(error, place));
        }
        if let Some(error) = self.sample_error.take() {
            return Err(self.explain(error, place));
        }
        loop {
            match self.reader.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.explain(error, place)),
                Ok(count) => return Ok(count),
            }
        }
    }

    /// An error about the content at `place`.
    #[cold]
    pub(crate) fn malformed(&self, place: Place, problem: String) -> TraceError {
        TraceError::Malformed { input: self.name.clone(), place, problem }
    }

    #[cold]
    fn explain(&self, error: io::Error, place: Place) -> TraceError {
        match self.compression {
            Some(packing) if !self.raw.failed.load(Ordering::Relaxed) => {
                let fate = if error.kind() == io::ErrorKind::UnexpectedEof {
                    "is cut off".to_string()
                } else {
                    format!("is damaged, or needs too much memory ({error})")
                };
                self.malformed(
                    place,
                    format!(
                        "the {} data {fate} near its byte {}; fetch or copy the file again",
                        packing.name(),
                        self.raw_bytes()
                    ),
                )
            }
            _ => TraceError::Io { input: self.name.clone(), source: error },
        }
    }
}

impl Read for Source {
    /// The same bytes for readers that know no places.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_at(buffer, Place::Whole).map_err(|error| match error {
            TraceError::Io { source, .. } => source,
            TraceError::Malformed { problem, .. } => {
                io::Error::new(io::ErrorKind::InvalidData, problem)
            }
        })
    }
}

/// Reads until `bytes` has `limit` bytes or the end.
fn read_up_to(reader: &mut impl Read, limit: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
    bytes.resize(limit, 0);
    let mut filled = 0;
    let result = loop {
        if filled == limit {
            break Ok(());
        }
        match reader.read(bytes.get_mut(filled..).unwrap_or_default()) {
            Ok(0) => break Ok(()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    bytes.truncate(filled);
    result
}
