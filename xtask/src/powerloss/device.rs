//! Block devices for the guest's kernel, served over NBD: they do what they are asked and log it.
//!
//! Invariants:
//! - the log has what was done in the order in which it was done, of all devices together; a
//!   request is in it before it is answered;
//! - of every few writes one is held back until other requests have been done, or none comes: a
//!   flush that was sent before the write was answered does not cover it.
//!
//! The oldest handshake of the protocol and simple replies, which is all that the kernel needs.

use super::log::{Entry, Kind, SECTOR, Writer};
use crate::torture::ledger::Dice;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const EXPORT_NAME: u32 = 1;
const UNSUPPORTED: u32 = 1 << 31 | 1;
/// Fixed newstyle, no zeroes.
const SERVER_FLAGS: u16 = 3;
/// TRIM may be sent.
const EXPORT_FLAGS: u16 = 1 | 1 << 5;
/// And FLUSH and FUA.
const CACHE_FLAGS: u16 = 1 << 2 | 1 << 3;
/// One of so many writes is held back.
const HELD: u64 = 4;
/// A write is held back no longer than this when nothing else is asked.
const WAIT: Duration = Duration::from_millis(1);
/// The kernel asks for no more at once.
const LARGEST: u32 = 1 << 25;

/// A log that devices and marks share.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Writer>>);

impl Shared {
    pub(super) fn new(writer: Writer) -> Shared {
        Shared(Arc::new(Mutex::new(writer)))
    }

    fn writer(&self) -> std::sync::MutexGuard<'_, Writer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn mark(&self, number: u64) -> std::io::Result<()> {
        let mark = Entry { kind: Kind::Mark, device: 0, sector: number, sectors: 0 };
        self.writer().push(&mark, &[])
    }

    pub(super) fn end(&self) -> std::io::Result<()> {
        self.writer().end()
    }
}

/// A request of the kernel.
struct Request {
    flags: u16,
    kind: u16,
    cookie: u64,
    at: u64,
    length: u32,
    contents: Vec<u8>,
}

/// One device with one client.
pub(super) struct Device {
    number: u8,
    image: Vec<u8>,
    log: Shared,
    dice: Dice,
    flags: u16,
}

impl Device {
    pub(super) fn new(number: u8, bytes: u64, log: Shared, seed: u64) -> Device {
        let dice = Dice::new(seed ^ u64::from(number));
        let flags = EXPORT_FLAGS | CACHE_FLAGS;
        Device { number, image: vec![0; bytes as usize], log, dice, flags }
    }

    /// One that hides its cache: no kernel flushes it.
    pub(super) fn without_flush(self) -> Device {
        Device { flags: EXPORT_FLAGS, ..self }
    }

    /// Serves the next client of this socket until it leaves.
    pub(super) fn serve(mut self, listener: &UnixListener) -> std::io::Result<()> {
        let (stream, _) = listener.accept()?;
        let mut input = BufReader::with_capacity(1 << 20, stream.try_clone()?);
        self.greet(&mut input, &stream)?;
        stream.set_read_timeout(Some(WAIT))?;
        let mut held: Option<Request> = None;
        loop {
            match input.fill_buf() {
                Ok([]) => return Ok(()),
                Ok(_) => {}
                // A signal's, of a child that ended.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    if let Some(request) = held.take() {
                        self.do_one(&request, &stream)?;
                    }
                    continue;
                }
                Err(error) => return Err(error),
            }
            let request = read_request(&mut Patient(&mut input))?;
            if held.is_none() && request.kind == 1 && self.dice.below(HELD) == 0 {
                held = Some(request);
                continue;
            }
            self.do_one(&request, &stream)?;
            if self.dice.below(2) == 0
                && let Some(request) = held.take()
            {
                self.do_one(&request, &stream)?;
            }
        }
    }

    fn greet(&self, input: &mut impl Read, mut output: &UnixStream) -> std::io::Result<()> {
        let mut words = b"NBDMAGIC".to_vec();
        words.extend(OPTION_MAGIC.to_be_bytes());
        words.extend(SERVER_FLAGS.to_be_bytes());
        output.write_all(&words)?;
        let client_flags = u32::from_be_bytes(take(input)?);
        loop {
            let magic = u64::from_be_bytes(take(input)?);
            let option = u32::from_be_bytes(take(input)?);
            let length = u32::from_be_bytes(take(input)?).min(LARGEST);
            if magic != OPTION_MAGIC {
                return Err(std::io::Error::other("an option does not begin as one"));
            }
            input.read_exact(&mut vec![0; length as usize])?;
            if option != EXPORT_NAME {
                let mut words = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
                words.extend(option.to_be_bytes());
                words.extend(UNSUPPORTED.to_be_bytes());
                words.extend([0; 4]);
                output.write_all(&words)?;
                continue;
            }
            let mut words = (self.image.len() as u64).to_be_bytes().to_vec();
            words.extend(self.flags.to_be_bytes());
            if client_flags & 2 == 0 {
                words.extend([0; 124]);
            }
            return output.write_all(&words);
        }
    }

    /// Does, logs and answers.
    fn do_one(&mut self, request: &Request, mut output: &UnixStream) -> std::io::Result<()> {
        let Request { flags, kind, cookie, at, length, contents } = request;
        let range = *at as usize..*at as usize + *length as usize;
        let kind = match (kind, flags & 1) {
            (0, _) => None,
            (1, 0) => Some(Kind::Write),
            (1, _) => Some(Kind::WriteForced),
            (3, _) => Some(Kind::Flush),
            (4, _) => Some(Kind::Discard),
            _ => return Err(std::io::Error::other(format!("a request of kind {kind}"))),
        };
        let sound = range.end <= self.image.len()
            && range.start.is_multiple_of(SECTOR as usize)
            && range.len().is_multiple_of(SECTOR as usize);
        if !sound {
            return Err(std::io::Error::other(format!("a request at {at} of {length}")));
        }
        let mut reply = REPLY_MAGIC.to_be_bytes().to_vec();
        reply.extend([0; 4]);
        reply.extend(cookie.to_be_bytes());
        match kind {
            None => reply.extend(&self.image[range]),
            Some(kind) => {
                if matches!(kind, Kind::Write | Kind::WriteForced) {
                    self.image[range].copy_from_slice(contents);
                }
                let (sector, sectors) = (at / SECTOR, u64::from(*length) / SECTOR);
                let entry = Entry { kind, device: self.number, sector, sectors };
                self.log.writer().push(&entry, contents)?;
            }
        }
        output.write_all(&reply)
    }
}

/// Reads on where a socket's patience has ended: the rest of a request comes.
struct Patient<'a, R>(&'a mut R);

impl<R: Read> Read for Patient<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.0.read(bytes) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                other => return other,
            }
        }
    }
}

fn read_request(input: &mut impl Read) -> std::io::Result<Request> {
    if u32::from_be_bytes(take(input)?) != REQUEST_MAGIC {
        return Err(std::io::Error::other("a request does not begin as one"));
    }
    let flags = u16::from_be_bytes(take(input)?);
    let kind = u16::from_be_bytes(take(input)?);
    let cookie = u64::from_be_bytes(take(input)?);
    let at = u64::from_be_bytes(take(input)?);
    let length = u32::from_be_bytes(take(input)?);
    let carried = if kind == 1 { length.min(LARGEST) } else { 0 };
    let mut contents = vec![0; carried as usize];
    input.read_exact(&mut contents)?;
    // The kernel leaves by a request that nobody answers.
    match kind {
        2 => Err(std::io::Error::new(ErrorKind::UnexpectedEof, "the kernel has left")),
        _ => Ok(Request { flags, kind, cookie, at, length, contents }),
    }
}

fn take<const N: usize>(input: &mut impl Read) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
