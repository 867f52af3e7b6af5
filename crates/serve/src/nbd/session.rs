//! One connection: the handshake, then requests in and replies out.
//!
//! Driven by bytes and by answers; opens, reads and writes nothing. Replies may leave in any order,
//! as the protocol allows. Bounds: [`IN_FLIGHT_MAX`] requests and [`BYTES_IN_FLIGHT_MAX`] bytes
//! under way; beyond them the connection is not read from, and the client feels it.

use super::handshake::REQUEST_BYTES_MAX;
use super::handshake::{
    ALLOCATION, Agreement, Contexts, Export, Handshake, POOL, Progress, Security,
};
use super::wire::{
    Errno, Put, REQUEST_BYTES, RequestHeader, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk,
    command, command_flag,
};
use std::collections::VecDeque;
use std::io::IoSliceMut;
use thermocline_ports::Payload;
use thermocline_ports_os::Aligned;
use thermocline_units::Bytes;
use thermocline_volume::{Action, Piece};

/// Requests of one connection under way.
pub(crate) const IN_FLIGHT_MAX: usize = 256;
/// Bytes of reads and writes of one connection under way.
const BYTES_IN_FLIGHT_MAX: u64 = 64 << 20;
/// Bytes of a client that can wait to be understood; more than any option of the handshake has.
const INBOX_BYTES: usize = 256 << 10;
/// Ranges in one block status reply.
const STATUS_RANGES_MAX: usize = 4096;

/// A request, as far as the volume is concerned.
#[derive(Debug)]
pub enum Ask {
    /// For the volume machine.
    Volume(Action),
    /// Which ranges hold what.
    Status {
        /// Bytes from the volume's start.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Nothing to be done; answer at once.
    Nothing,
}

/// A request under way, as its reply needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cookie {
    cookie: u64,
    command: u16,
    flags: u16,
    offset: u64,
    length: u32,
}

/// A run of the volume with one answer to a block status request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub length: u64,
    /// The pool of its first copy; none: it reads as zeroes.
    pub pool: Option<u16>,
}

/// Bytes on their way out.
#[derive(Debug)]
pub enum Out {
    /// Headers.
    Bytes(Vec<u8>),
    /// Contents.
    Payload(Payload),
}

#[derive(Debug)]
enum Stage {
    Handshake(Handshake),
    /// All that is to be sent leaves as it is; what comes after that is encrypted.
    Encrypting(Handshake),
    Transmission(Agreement),
    Over,
}

/// See the module.
#[derive(Debug)]
pub struct Session {
    stage: Stage,
    /// Whether replies are structured; also of those that leave after the client said goodbye.
    structured: bool,
    inbox: Vec<u8>,
    /// Bytes of the inbox that have arrived, and of these, that are used up.
    filled: usize,
    used: usize,
    /// A write whose contents are arriving, and how many have.
    write: Option<(RequestHeader, Aligned, usize)>,
    /// What is to be sent, in order; whoever sends it takes it off.
    pub out: VecDeque<Out>,
    in_flight: usize,
    bytes_in_flight: u64,
    cut_off: bool,
}

impl Session {
    /// A connection that has just been accepted.
    pub fn new(security: Security) -> Session {
        let mut greeting = Vec::new();
        Handshake::greeting(&mut greeting);
        Session {
            stage: Stage::Handshake(Handshake::new(security)),
            structured: false,
            inbox: vec![0; INBOX_BYTES],
            filled: 0,
            used: 0,
            write: None,
            out: VecDeque::from([Out::Bytes(greeting)]),
            in_flight: 0,
            bytes_in_flight: 0,
            cut_off: false,
        }
    }

    /// Whether more may be read from the connection.
    pub fn wants_bytes(&self) -> bool {
        !matches!(self.stage, Stage::Over | Stage::Encrypting(_))
            && self.in_flight < IN_FLIGHT_MAX
            && self.bytes_in_flight < BYTES_IN_FLIGHT_MAX
    }

    /// Whether the connection can be closed: the client left and all replies are out.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over) && self.in_flight == 0 && self.out.is_empty()
    }

    /// The connection is gone: nothing more comes in or goes out.
    pub fn hang_up(&mut self) {
        self.stage = Stage::Over;
        self.out.clear();
        self.write = None;
        self.cut_off = true;
    }

    /// Whether the connection is gone: replies need not be waited for.
    pub fn is_cut_off(&self) -> bool {
        self.cut_off
    }

    /// Which volume was chosen.
    pub fn volume(&self) -> Option<u32> {
        match &self.stage {
            Stage::Transmission(agreement) => Some(agreement.volume),
            Stage::Handshake(_) | Stage::Encrypting(_) | Stage::Over => None,
        }
    }

    /// Whether everything was sent that goes out before the encryption: the connection is to be
    /// encrypted now, and [`Session::encrypted`] called.
    pub fn starts_encryption(&self) -> bool {
        matches!(self.stage, Stage::Encrypting(_)) && self.out.is_empty()
    }

    /// The connection is encrypted from here on.
    pub fn encrypted(&mut self) {
        if let Stage::Encrypting(handshake) = &self.stage {
            self.stage = Stage::Handshake(handshake.encrypted());
        }
    }

    /// Where the client's next bytes go: the contents of a write that is arriving, then what comes
    /// behind it. Empty slices where nothing is wanted.
    pub fn space(&mut self) -> [IoSliceMut<'_>; 2] {
        if self.used == self.filled {
            (self.used, self.filled) = (0, 0);
        } else if self.filled == self.inbox.len() {
            self.inbox.copy_within(self.used..self.filled, 0);
            (self.used, self.filled) = (0, self.filled - self.used);
        }
        let contents: &mut [u8] = match &mut self.write {
            Some((_, contents, have)) => &mut contents.as_mut_slice()[*have..],
            None => &mut [],
        };
        [IoSliceMut::new(contents), IoSliceMut::new(&mut self.inbox[self.filled..])]
    }

    /// Takes note that the first `count` bytes of [`Session::space`] were filled.
    ///
    /// # Panics
    /// When there was not so much space.
    pub fn received(&mut self, mut count: usize) {
        if let Some((header, _, have)) = &mut self.write {
            let contents = count.min(header.length as usize - *have);
            *have += contents;
            count -= contents;
        }
        self.filled += count;
        assert!(self.filled <= self.inbox.len(), "no more was received than there was space for");
    }

    /// Takes as many of the client's bytes as there is space for: how many.
    pub fn feed(&mut self, bytes: &[u8]) -> usize {
        let [mut contents, mut behind] = self.space();
        let first = bytes.len().min(contents.len());
        contents[..first].copy_from_slice(&bytes[..first]);
        let rest = &bytes[first..];
        let second = rest.len().min(behind.len());
        behind[..second].copy_from_slice(&rest[..second]);
        self.received(first + second);
        first + second
    }

    /// The next request, when one has arrived whole.
    pub fn next(&mut self, exports: &[Export]) -> Option<(Cookie, Ask)> {
        loop {
            match &mut self.stage {
                Stage::Over | Stage::Encrypting(_) => return None,
                Stage::Handshake(handshake) => {
                    let mut out = Vec::new();
                    let bytes = &self.inbox[self.used..self.filled];
                    let (used, progress) = handshake.receive(bytes, exports, &mut out);
                    self.used += used;
                    if !out.is_empty() {
                        self.out.push_back(Out::Bytes(out));
                    }
                    match progress {
                        Progress::Going if used == 0 => return None,
                        Progress::Going => {}
                        Progress::Agreed(agreement) => {
                            self.structured = agreement.structured;
                            self.stage = Stage::Transmission(agreement);
                        }
                        // Nobody may slip in words before the encryption that count after it.
                        Progress::Encrypting if self.used < self.filled => {
                            self.stage = Stage::Over;
                        }
                        Progress::Encrypting => {
                            let handshake = std::mem::take(handshake);
                            self.stage = Stage::Encrypting(handshake);
                        }
                        Progress::Over => self.stage = Stage::Over,
                    }
                }
                Stage::Transmission(agreement) => {
                    let agreement = *agreement;
                    if let Some(request) = self.next_request(agreement, exports)? {
                        return Some(request);
                    }
                }
            }
        }
    }

    /// `None`: more bytes are needed. `Some(None)`: a request was dealt with here.
    fn next_request(
        &mut self,
        agreement: Agreement,
        exports: &[Export],
    ) -> Option<Option<(Cookie, Ask)>> {
        if !self.wants_bytes() {
            return None;
        }
        if self.write.is_none() {
            let bytes = self.inbox[self.used..self.filled].get(..REQUEST_BYTES)?;
            let bytes: &[u8; REQUEST_BYTES] = bytes.try_into().expect("just that many");
            self.used += REQUEST_BYTES;
            let Some(header) = RequestHeader::decode(bytes) else {
                // Out of step: nothing that follows can be trusted.
                self.stage = Stage::Over;
                return Some(None);
            };
            if header.command != command::WRITE {
                return Some(self.judge(header, None, agreement, exports));
            }
            if header.length > REQUEST_BYTES_MAX {
                // Its contents cannot be skipped at leisure: they might be anything.
                self.stage = Stage::Over;
                return Some(None);
            }
            let mut contents = Aligned::used(header.length as usize);
            let have = (self.filled - self.used).min(header.length as usize);
            let arrived = &self.inbox[self.used..self.used + have];
            contents.as_mut_slice()[..have].copy_from_slice(arrived);
            self.used += have;
            self.write = Some((header, contents, have));
        }
        let (header, _, have) = self.write.as_ref().expect("just put there");
        if *have < header.length as usize {
            return None;
        }
        let (header, contents, _) = self.write.take().expect("it is there");
        let payload = Payload::Bytes(contents.freeze());
        Some(self.judge(header, Some(payload), agreement, exports))
    }

    /// Turns a header into what is to be done; refuses what makes no sense.
    fn judge(
        &mut self,
        header: RequestHeader,
        payload: Option<Payload>,
        agreement: Agreement,
        exports: &[Export],
    ) -> Option<(Cookie, Ask)> {
        let RequestHeader { flags, command: asked, cookie, offset, length } = header;
        let cookie = Cookie { cookie, command: asked, flags, offset, length };
        self.in_flight += 1;
        self.bytes_in_flight += cookie.bytes();
        let export = exports.iter().find(|export| export.volume == agreement.volume);
        let Some(Export { size, .. }) = export.cloned() else {
            // The volume was deleted while it was attached.
            self.fail(&cookie, Errno::Shutdown);
            return None;
        };
        let allowed = match asked {
            command::READ => command_flag::FUA | command_flag::DF,
            command::WRITE_ZEROES => command_flag::FUA | command_flag::NO_HOLE,
            command::BLOCK_STATUS => command_flag::FUA | command_flag::REQ_ONE,
            _ => command_flag::FUA,
        };
        let fits = offset.checked_add(u64::from(length)).is_some_and(|end| end <= size);
        let whole = (offset | u64::from(length)).is_multiple_of(512) && length > 0;
        let ranged = asked != command::FLUSH && asked != command::DISCONNECT;
        let (offset, span) = (Bytes(offset), Bytes(u64::from(length)));
        let fua = flags & command_flag::FUA != 0;
        let action = match asked {
            command::DISCONNECT => {
                self.ended(&cookie);
                self.stage = Stage::Over;
                return None;
            }
            _ if flags & !allowed != 0 => Err(Errno::Invalid),
            _ if ranged && !fits && asked == command::WRITE => Err(Errno::NoSpace),
            _ if ranged && (!fits || !whole) => Err(Errno::Invalid),
            command::READ if length > REQUEST_BYTES_MAX => Err(Errno::Overflow),
            command::READ => Ok(Ask::Volume(Action::Read { offset, length })),
            command::WRITE => {
                let payload = payload.expect("a write has contents");
                Ok(Ask::Volume(Action::Write { offset, payload, fua }))
            }
            command::FLUSH => Ok(Ask::Volume(Action::Flush)),
            command::TRIM => Ok(Ask::Volume(Action::Discard { offset, length: span })),
            command::WRITE_ZEROES => {
                Ok(Ask::Volume(Action::WriteZeroes { offset, length: span, fua }))
            }
            command::CACHE => Ok(Ask::Nothing),
            command::BLOCK_STATUS if agreement.contexts != Contexts::default() => {
                Ok(Ask::Status { offset: offset.0, length: span.0 })
            }
            _ => Err(Errno::Invalid),
        };
        match action {
            Ok(ask) => Some((cookie, ask)),
            Err(errno) => {
                self.fail(&cookie, errno);
                None
            }
        }
    }

    fn ended(&mut self, cookie: &Cookie) {
        self.in_flight -= 1;
        self.bytes_in_flight -= cookie.bytes();
    }

    /// Answers a request that has nothing to say but that it is done.
    pub fn done(&mut self, cookie: &Cookie) {
        self.ended(cookie);
        let mut out = Vec::new();
        if self.structured {
            structured(&mut out, cookie, chunk::DONE, chunk::NONE, 0);
        } else {
            simple(&mut out, cookie, 0);
        }
        self.out.push_back(Out::Bytes(out));
    }

    /// Answers that a request failed.
    pub fn fail(&mut self, cookie: &Cookie, errno: Errno) {
        self.ended(cookie);
        let mut out = Vec::new();
        if self.structured {
            structured(&mut out, cookie, chunk::DONE, chunk::ERROR, 6);
            out.put_u32(errno as u32);
            out.put_u16(0);
        } else {
            simple(&mut out, cookie, errno as u32);
        }
        self.out.push_back(Out::Bytes(out));
    }

    /// Answers a read.
    pub fn data(&mut self, cookie: &Cookie, pieces: Vec<Piece>) {
        self.ended(cookie);
        if !self.structured || cookie.flags & command_flag::DF != 0 {
            return self.data_in_one(cookie, pieces);
        }
        let last = pieces.len() - 1;
        for (index, piece) in pieces.into_iter().enumerate() {
            let done = if index == last { chunk::DONE } else { 0 };
            let (at, length) = (cookie.offset + u64::from(piece.at), piece.payload.len());
            let mut out = Vec::new();
            if let Payload::Zeroes(_) = piece.payload {
                structured(&mut out, cookie, done, chunk::OFFSET_HOLE, 12);
                out.put_u64(at);
                out.put_u32(length);
                self.out.push_back(Out::Bytes(out));
            } else {
                structured(&mut out, cookie, done, chunk::OFFSET_DATA, 8 + length);
                out.put_u64(at);
                self.out.push_back(Out::Bytes(out));
                self.out.push_back(Out::Payload(piece.payload));
            }
        }
    }

    fn data_in_one(&mut self, cookie: &Cookie, pieces: Vec<Piece>) {
        let mut out = Vec::new();
        if self.structured {
            let length = 8 + cookie.length;
            structured(&mut out, cookie, chunk::DONE, chunk::OFFSET_DATA, length);
            out.put_u64(cookie.offset);
        } else {
            simple(&mut out, cookie, 0);
        }
        self.out.push_back(Out::Bytes(out));
        self.out.extend(pieces.into_iter().map(|piece| Out::Payload(piece.payload)));
    }

    /// Answers a block status request with extents from its offset on.
    pub fn status(&mut self, cookie: &Cookie, extents: &[Extent]) {
        self.ended(cookie);
        let Stage::Transmission(agreement) = &self.stage else { return };
        let one = cookie.flags & command_flag::REQ_ONE != 0;
        let Contexts { allocation, pool } = agreement.contexts;
        let mut out = Vec::new();
        for (wanted, id, last) in [(allocation, ALLOCATION.1, !pool), (pool, POOL.1, true)] {
            if !wanted {
                continue;
            }
            let code = |extent: &Extent| match (id == POOL.1, extent.pool) {
                (true, pool) => pool.map_or(0, |pool| u32::from(pool) + 1),
                (false, Some(_)) => 0,
                (false, None) => 3, // A hole, and it reads as zeroes.
            };
            let mut runs: Vec<(u64, u32)> = Vec::new();
            for extent in extents {
                match runs.last_mut() {
                    Some((length, last)) if *last == code(extent) => *length += extent.length,
                    _ => runs.push((extent.length, code(extent))),
                }
            }
            runs.truncate(if one { 1 } else { STATUS_RANGES_MAX });
            let flags = if last { chunk::DONE } else { 0 };
            let length = 4 + 8 * runs.len() as u32;
            structured(&mut out, cookie, flags, chunk::BLOCK_STATUS, length);
            out.put_u32(id);
            for (length, code) in runs {
                out.put_u32(u32::try_from(length).expect("requests are below 4 GiB"));
                out.put_u32(code);
            }
        }
        self.out.push_back(Out::Bytes(out));
    }
}

impl Cookie {
    /// Bytes that the request moves.
    fn bytes(&self) -> u64 {
        match self.command {
            command::READ | command::WRITE => u64::from(self.length),
            _ => 0,
        }
    }
}

fn simple(out: &mut Vec<u8>, cookie: &Cookie, error: u32) {
    out.put_u32(SIMPLE_REPLY_MAGIC);
    out.put_u32(error);
    out.put_u64(cookie.cookie);
}

fn structured(out: &mut Vec<u8>, cookie: &Cookie, flags: u16, kind: u16, length: u32) {
    out.put_u32(STRUCTURED_REPLY_MAGIC);
    out.put_u16(flags);
    out.put_u16(kind);
    out.put_u64(cookie.cookie);
    out.put_u32(length);
}
