//! A client of the network block device protocol, just large enough to torture an engine: the old
//! EXPORT_NAME handshake on a unix socket, simple replies, many requests under way at once.
//!
//! It stands on nothing of ours, so a mistake in the product's own reading of the protocol cannot
//! hide in it.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
/// Fixed newstyle, and no zeroes after the export's flags.
const CLIENT_FLAGS: u32 = 3;
const EXPORT_NAME: u32 = 1;
/// The error of a full device.
pub(crate) const NO_SPACE: u32 = 28;
/// A request that takes longer than this has hung: a finding of its own.
const HANG: Duration = Duration::from_secs(60);

/// A request; offsets and lengths in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Read,
    Write,
    /// Answered only when durable.
    WriteForced,
    Flush,
    Discard,
    Zero,
    /// Zeroes, answered only when durable.
    ZeroForced,
}

impl Ask {
    /// Command flags and type.
    fn code(self) -> (u16, u16) {
        match self {
            Ask::Read => (0, 0),
            Ask::Write => (0, 1),
            Ask::WriteForced => (1, 1),
            Ask::Flush => (0, 3),
            Ask::Discard => (0, 4),
            Ask::Zero => (0, 6),
            Ask::ZeroForced => (1, 6),
        }
    }
}

/// A connection to one export.
pub(crate) struct Client {
    stream: UnixStream,
    /// Bytes of the export.
    pub(crate) size: u64,
}

impl Client {
    pub(crate) fn connect(socket: &Path, export: &str) -> io::Result<Client> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(HANG))?;
        stream.set_write_timeout(Some(HANG))?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        if greeting[..8] != *b"NBDMAGIC" || greeting[8..16] != OPTION_MAGIC.to_be_bytes() {
            return Err(io::Error::other("this is no newstyle server"));
        }
        let mut words = CLIENT_FLAGS.to_be_bytes().to_vec();
        words.extend(OPTION_MAGIC.to_be_bytes());
        words.extend(EXPORT_NAME.to_be_bytes());
        words.extend((export.len() as u32).to_be_bytes());
        words.extend(export.as_bytes());
        stream.write_all(&words)?;
        let mut answer = [0; 10];
        stream.read_exact(&mut answer)?;
        let size = u64::from_be_bytes(answer[..8].try_into().expect("eight bytes"));
        Ok(Client { stream, size })
    }

    /// Sends a request; its answer comes whenever it comes. `contents` are those of a write.
    pub(crate) fn send(
        &mut self,
        cookie: u64,
        ask: Ask,
        (offset, length): (u64, u32),
        contents: &[u8],
    ) -> io::Result<()> {
        let (flags, kind) = ask.code();
        let mut words = REQUEST_MAGIC.to_be_bytes().to_vec();
        words.extend(flags.to_be_bytes());
        words.extend(kind.to_be_bytes());
        words.extend(cookie.to_be_bytes());
        words.extend(offset.to_be_bytes());
        words.extend(length.to_be_bytes());
        self.stream.write_all(&words)?;
        self.stream.write_all(contents)
    }

    /// The next answer: its cookie and its error, 0 for none. What a read answers with is still to
    /// be taken by [`Client::contents`].
    pub(crate) fn answer(&mut self) -> io::Result<(u64, u32)> {
        let mut words = [0; 16];
        self.stream.read_exact(&mut words)?;
        if words[..4] != REPLY_MAGIC.to_be_bytes() {
            return Err(io::Error::other("an answer does not begin as one"));
        }
        let error = u32::from_be_bytes(words[4..8].try_into().expect("four bytes"));
        let cookie = u64::from_be_bytes(words[8..].try_into().expect("eight bytes"));
        Ok((cookie, error))
    }

    /// The bytes read.
    pub(crate) fn contents(&mut self, length: u32) -> io::Result<Vec<u8>> {
        let mut contents = vec![0; length as usize];
        self.stream.read_exact(&mut contents)?;
        Ok(contents)
    }

    /// One request from beginning to end: what was read, or the error's number.
    pub(crate) fn one(
        &mut self,
        ask: Ask,
        at: (u64, u32),
        contents: &[u8],
    ) -> io::Result<Result<Vec<u8>, u32>> {
        self.send(0, ask, at, contents)?;
        match self.answer()? {
            (_, 0) if ask == Ask::Read => self.contents(at.1).map(Ok),
            (_, 0) => Ok(Ok(Vec::new())),
            (_, error) => Ok(Err(error)),
        }
    }
}
