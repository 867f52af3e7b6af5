//! One connection: the handshake, then requests in and replies out.
//!
//! Driven by bytes and by answers; opens, reads and writes nothing. Replies may leave in any order,
//! as the protocol allows. Bounds: [`IN_FLIGHT_MAX`] requests, [`HELD_BYTES_MAX`] bytes held by
//! them ([`mod@super::holding`]) and [`HEADER_BYTES_MAX`] of replies' headers; beyond them the
//! connection is not read from, and the client feels it. A request that needs shared memory is not
//! taken before [`Session::grant`].

use super::handshake::REQUEST_BYTES_MAX;
use super::handshake::{Agreement, Handshake, Offer, Progress, Security};
use super::holding::Holding;
use super::outbox::Outbox;
use super::reply::{simple, status, structured};
use super::request::{Ask, Cookie, Extent, ask};
use super::wire::{Errno, Put, REQUEST_BYTES, RequestHeader, chunk, command, command_flag};
use std::io::{IoSlice, IoSliceMut};
use thermocline_ports::Payload;
use thermocline_ports_os::Aligned;
use thermocline_volume::Fragment;

/// Requests of one connection under way.
pub(crate) const IN_FLIGHT_MAX: usize = 256;
/// Bytes that requests of one connection hold, above which no other is taken.
const HELD_BYTES_MAX: u64 = 64 << 20;
/// Bytes of replies' headers that wait for a client, above which it is not listened to.
const HEADER_BYTES_MAX: u64 = 256 << 10;
/// Bytes of a client that can wait to be understood; more than any option of the handshake has.
const INBOX_BYTES: usize = 256 << 10;
/// Bytes of a write from which on it is large: what arrives of it in the inbox is copied once more,
/// which costs more than another call to the kernel.
const LARGE_WRITE: u32 = 64 << 10;
/// Bytes taken into the inbox while large writes arrive: the next header, and little behind it.
const BEHIND_LARGE: usize = 4 << 10;

#[derive(Debug)]
enum Stage {
    Handshake(Handshake),
    /// All that is to be sent leaves as it is; what comes after that is encrypted.
    Encrypting(Handshake),
    Transmission(Agreement),
    Over,
}

/// A connection of NBD, driven by bytes.
#[derive(Debug)]
pub struct Session {
    stage: Stage,
    /// True if replies are structured; also of those that leave after the client said goodbye.
    structured: bool,
    inbox: Vec<u8>,
    /// Bytes of the inbox that have arrived, and of these, that are used up.
    filled: usize,
    used: usize,
    /// A write whose contents are arriving, and how many have.
    write: Option<(RequestHeader, Aligned, usize)>,
    /// True if the last request was a large write: another one may follow.
    large_writes: bool,
    out: Outbox,
    in_flight: usize,
    holding: Holding,
    /// Bytes that the next request holds, when shared memory must be granted for it; 0: none waits.
    postponed: u64,
    /// Bytes of contents that have arrived or left since the connection was made.
    moved: u64,
    refused: bool,
    cut_off: bool,
}

impl Session {
    /// A connection that has just been accepted.
    pub fn new(security: Security) -> Session {
        let mut greeting = Vec::new();
        Handshake::greeting(&mut greeting);
        let mut out = Outbox::default();
        out.header(greeting);
        Session {
            stage: Stage::Handshake(Handshake::new(security)),
            structured: false,
            inbox: vec![0; INBOX_BYTES],
            filled: 0,
            used: 0,
            write: None,
            large_writes: false,
            out,
            in_flight: 0,
            holding: Holding::default(),
            postponed: 0,
            moved: 0,
            refused: false,
            cut_off: false,
        }
    }

    /// True if more may be read from the connection: the rest of a write that has begun, or another
    /// request where the bounds allow one.
    pub fn wants_bytes(&self) -> bool {
        let takes_more = self.in_flight < IN_FLIGHT_MAX
            && self.holding.held() < HELD_BYTES_MAX
            && self.out.header_bytes() < HEADER_BYTES_MAX
            && self.lacks() == 0;
        !matches!(self.stage, Stage::Over | Stage::Encrypting(_))
            && (takes_more || self.write.is_some())
    }

    /// Bytes of shared memory that the next request waits for; 0: none waits.
    pub fn lacks(&self) -> u64 {
        if self.postponed == 0 { 0 } else { self.holding.lacks(self.postponed) }
    }

    /// Takes shared memory: the request that waited for it can be taken.
    pub fn grant(&mut self, bytes: u64) {
        self.holding.grant(bytes);
    }

    /// Gives back what was granted and is not needed any more; no request waits meanwhile.
    pub fn surplus(&mut self) -> u64 {
        self.holding.surplus()
    }

    /// Bytes of shared memory that were granted and not given back.
    pub fn granted(&self) -> u64 {
        self.holding.granted()
    }

    /// True if the client was refused an export since this was last asked.
    pub fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.refused)
    }

    /// Bytes that requests hold.
    pub fn held(&self) -> u64 {
        self.holding.held()
    }

    /// Bytes that only the client can move: contents that it has announced and not sent, and
    /// replies that it has not taken.
    pub fn owed(&self) -> u64 {
        let write = self.write.as_ref();
        let missing = write.map_or(0, |(header, _, have)| header.length as usize - have);
        missing as u64 + self.out.content_bytes()
    }

    /// Bytes of contents that the client has moved so far.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// True if the connection can be closed: the client left and all replies are out.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over) && self.in_flight == 0 && self.out.is_empty()
    }

    /// The connection is gone: nothing more comes in or goes out.
    pub fn hang_up(&mut self) {
        self.stage = Stage::Over;
        self.holding.let_go(self.out.content_bytes());
        self.out.clear();
        if let Some((header, ..)) = self.write.take() {
            self.holding.let_go(u64::from(header.length));
        }
        self.postponed = 0;
        self.cut_off = true;
    }

    /// True if replies wait to be sent.
    pub fn has_unsent(&self) -> bool {
        !self.out.is_empty()
    }

    /// Fills `slices` with what is to be sent next; the number of slices used.
    pub fn unsent<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.out.slices(slices)
    }

    /// Takes note that `count` bytes of [`Session::unsent`] have left.
    pub fn sent(&mut self, count: usize) {
        let contents = self.out.left(count);
        self.moved += contents;
        self.holding.let_go(contents);
    }

    /// True if the connection is gone: replies need not be waited for.
    pub fn is_cut_off(&self) -> bool {
        self.cut_off
    }

    /// Place of the stream chosen with the volume, among those that were offered; `None`: it was
    /// attached by its name alone.
    pub fn stream(&self) -> Option<u8> {
        match &self.stage {
            Stage::Transmission(agreement) => agreement.stream,
            Stage::Handshake(_) | Stage::Encrypting(_) | Stage::Over => None,
        }
    }

    /// The volume chosen.
    pub fn volume(&self) -> Option<u32> {
        match &self.stage {
            Stage::Transmission(agreement) => Some(agreement.volume),
            Stage::Handshake(_) | Stage::Encrypting(_) | Stage::Over => None,
        }
    }

    /// True if everything was sent that goes out before the encryption: the connection is to be
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

    /// Room for the client's next bytes: the contents of a write that is arriving, then what comes
    /// behind it. Empty slices where nothing is wanted.
    pub fn space(&mut self) -> [IoSliceMut<'_>; 2] {
        if self.used == self.filled {
            (self.used, self.filled) = (0, 0);
        } else if self.filled == self.inbox.len() {
            self.inbox.copy_within(self.used..self.filled, 0);
            (self.used, self.filled) = (0, self.filled - self.used);
        }
        let contents: &mut [u8] = match &mut self.write {
            Some((_, contents, have)) => {
                contents.as_mut_slice().get_mut(*have..).unwrap_or_default()
            }
            None => &mut [],
        };
        let most = if self.large_writes { BEHIND_LARGE } else { INBOX_BYTES };
        let end = self.inbox.len().min(self.filled + most);
        let behind = self.inbox.get_mut(self.filled..end).unwrap_or_default();
        [IoSliceMut::new(contents), IoSliceMut::new(behind)]
    }

    /// Takes note that the first `count` bytes of [`Session::space`] were filled.
    ///
    /// # Panics
    /// When there was not so much space.
    pub fn received(&mut self, mut count: usize) {
        if let Some((header, _, have)) = &mut self.write {
            let contents = count.min(header.length as usize - *have);
            *have += contents;
            self.moved += contents as u64;
            count -= contents;
        }
        self.filled += count;
        assert!(self.filled <= self.inbox.len(), "no more was received than there was space for");
    }

    /// Takes as many of the client's bytes as there is space for: how many.
    pub fn feed(&mut self, bytes: &[u8]) -> usize {
        let [mut contents, mut behind] = self.space();
        let (first, rest) = copy(bytes, &mut contents);
        let (second, _) = copy(rest, &mut behind);
        self.received(first + second);
        first + second
    }

    /// The next request, when one has arrived whole.
    pub fn next(&mut self, offer: &Offer<'_>) -> Option<(Cookie, Ask)> {
        loop {
            if !self.wants_bytes() {
                return None;
            }
            match &mut self.stage {
                Stage::Over | Stage::Encrypting(_) => return None,
                Stage::Handshake(handshake) => {
                    let mut out = Vec::new();
                    let bytes = self.inbox.get(self.used..self.filled).unwrap_or_default();
                    let (used, progress) = handshake.receive(bytes, offer, &mut out);
                    self.used += used;
                    self.refused |= handshake.take_refused();
                    if !out.is_empty() {
                        self.out.header(out);
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
                    if let Some(request) = self.next_request(agreement, offer)? {
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
        offer: &Offer<'_>,
    ) -> Option<Option<(Cookie, Ask)>> {
        if self.write.is_none() {
            let bytes = self.inbox.get(self.used..self.filled)?.first_chunk()?;
            let Some(header) = RequestHeader::decode(bytes) else {
                // Out of step: nothing that follows can be trusted.
                self.stage = Stage::Over;
                return Some(None);
            };
            self.postponed = u64::from(header.held());
            if self.lacks() > 0 {
                // A write asks for memory when its contents come: who announces one and sends
                // nothing keeps nobody else waiting.
                let has_contents = self.filled > self.used + REQUEST_BYTES;
                if header.command == command::WRITE && !has_contents {
                    self.postponed = 0;
                }
                return None;
            }
            self.postponed = 0;
            self.large_writes = header.command == command::WRITE && header.length >= LARGE_WRITE;
            self.used += REQUEST_BYTES;
            self.holding.hold(u64::from(header.held()));
            if header.command != command::WRITE {
                return Some(self.judge(header, None, agreement, offer));
            }
            if header.length > REQUEST_BYTES_MAX {
                // Its contents cannot be skipped at leisure: they might be anything.
                self.stage = Stage::Over;
                return Some(None);
            }
            let mut contents = Aligned::used(header.length as usize);
            let arrived = self.inbox.get(self.used..self.filled).unwrap_or_default();
            let (have, _) = copy(arrived, contents.as_mut_slice());
            self.used += have;
            self.moved += have as u64;
            self.write = Some((header, contents, have));
        }
        let whole = |(header, _, have): &mut (RequestHeader, Aligned, usize)| {
            *have >= header.length as usize
        };
        let (header, contents, _) = self.write.take_if(whole)?;
        let payload = Payload::Bytes(contents.freeze());
        Some(self.judge(header, Some(payload), agreement, offer))
    }

    /// Turns a header into what is to be done; refuses what makes no sense.
    fn judge(
        &mut self,
        header: RequestHeader,
        payload: Option<Payload>,
        agreement: Agreement,
        offer: &Offer<'_>,
    ) -> Option<(Cookie, Ask)> {
        let cookie = Cookie::of(&header);
        self.in_flight += 1;
        if header.command == command::DISCONNECT {
            self.ended(&cookie);
            self.stage = Stage::Over;
            return None;
        }
        let export = offer.exports.iter().find(|export| export.volume == agreement.volume);
        let asked = match export {
            Some(export) => ask(&header, payload, export.size, agreement.contexts),
            // The volume was deleted while it was attached.
            None => Err(Errno::Shutdown),
        };
        match asked {
            Ok(ask) => Some((cookie, ask)),
            Err(errno) => {
                self.fail(&cookie, errno);
                None
            }
        }
    }

    fn ended(&mut self, cookie: &Cookie) {
        self.in_flight -= 1;
        self.holding.let_go(u64::from(cookie.held));
    }

    /// Answers a request that has nothing to say but that it is done.
    pub fn done(&mut self, cookie: &Cookie) {
        self.ended(cookie);
        self.out.header(match self.structured {
            true => structured(cookie, chunk::DONE, chunk::NONE, 0),
            false => simple(cookie, 0),
        });
    }

    /// Answers that a request failed.
    pub fn fail(&mut self, cookie: &Cookie, errno: Errno) {
        self.ended(cookie);
        if !self.structured {
            return self.out.header(simple(cookie, errno as u32));
        }
        let mut out = structured(cookie, chunk::DONE, chunk::ERROR, 6);
        out.put_u32(errno as u32);
        out.put_u16(0);
        self.out.header(out);
    }

    /// Answers a read.
    pub fn data(&mut self, cookie: &Cookie, pieces: Vec<Fragment>) {
        self.ended(cookie);
        if !self.structured || cookie.flags & command_flag::DF != 0 {
            return self.data_in_one(cookie, pieces);
        }
        let last = pieces.len() - 1;
        for (index, piece) in pieces.into_iter().enumerate() {
            let done = if index == last { chunk::DONE } else { 0 };
            let (at, length) = (cookie.offset + u64::from(piece.at), piece.payload.len());
            if let Payload::Zeroes(_) = piece.payload {
                let mut out = structured(cookie, done, chunk::OFFSET_HOLE, 12);
                out.put_u64(at);
                out.put_u32(length);
                self.out.header(out);
            } else {
                let mut out = structured(cookie, done, chunk::OFFSET_DATA, 8 + length);
                out.put_u64(at);
                self.out.header(out);
                self.contents(piece.payload);
            }
        }
    }

    fn data_in_one(&mut self, cookie: &Cookie, pieces: Vec<Fragment>) {
        let out = if self.structured {
            let length = 8 + cookie.length;
            let mut out = structured(cookie, chunk::DONE, chunk::OFFSET_DATA, length);
            out.put_u64(cookie.offset);
            out
        } else {
            simple(cookie, 0)
        };
        self.out.header(out);
        pieces.into_iter().for_each(|piece| self.contents(piece.payload));
    }

    /// Appends contents, which are held until they have left.
    fn contents(&mut self, payload: Payload) {
        self.holding.hold(u64::from(payload.len()));
        self.out.contents(payload);
    }

    /// Answers a block status request with extents from its offset on.
    pub fn status(&mut self, cookie: &Cookie, extents: &[Extent]) {
        self.ended(cookie);
        let Stage::Transmission(agreement) = &self.stage else { return };
        let one = cookie.flags & command_flag::REQ_ONE != 0;
        self.out.header(status(cookie, agreement.contexts, one, extents));
    }
}

/// Copies as much of `from` as there is room for: how much, and what is left of it.
fn copy<'a>(from: &'a [u8], room: &mut [u8]) -> (usize, &'a [u8]) {
    let count = from.len().min(room.len());
    match (from.split_at_checked(count), room.get_mut(..count)) {
        (Some((now, later)), Some(place)) => {
            place.copy_from_slice(now);
            (count, later)
        }
        _ => (0, from),
    }
}
