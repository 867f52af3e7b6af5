//! The newstyle handshake: options until the client chooses an export.
//!
//! Driven by bytes: `receive` is given what has arrived, says how much of it is used up, and
//! appends what to answer. It opens and reads nothing.

use super::wire::{
    FIXED_NEWSTYLE, MAGIC, NO_ZEROES, OPTION_MAGIC, OPTION_REPLY_MAGIC, Put, Reader, info, option,
    option_reply, transmission,
};

/// Bytes of data that one option may carry.
const OPTION_BYTES_MAX: u32 = 64 << 10;
/// Bytes of one read or write.
pub(crate) const REQUEST_BYTES_MAX: u32 = 32 << 20;
/// Multiple that reads and writes should be of.
const BLOCK_PREFERRED: u32 = 4096;

/// A volume that clients may attach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Its name; the empty name stands for the first export.
    pub name: String,
    /// The volume's number: what it is known by once a client has chosen it.
    pub volume: u32,
    /// Bytes.
    pub size: u64,
}

/// Offer of the server to a client at this moment.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'a> {
    /// The volumes.
    pub exports: &'a [Export],
    /// Words that may follow a volume's name, after an `@`: the stream of the connection's writes.
    pub streams: &'a [&'a str],
    /// The reason why the client may not attach one of them now, for people; none: it may.
    pub refusal: Option<&'a str>,
}

/// Metadata contexts that the client wants told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Contexts {
    pub(crate) allocation: bool,
    pub(crate) pool: bool,
}

/// `base:allocation`, as the protocol defines it.
pub(crate) const ALLOCATION: (&str, u32) = ("base:allocation", 1);
/// Pool of a range: 0 for none, else the pool's id and one.
pub(crate) const POOL: (&str, u32) = ("thermocline:pool", 2);

/// Terms that were agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agreement {
    /// The volume.
    pub(crate) volume: u32,
    /// Place of the stream among those that were offered.
    pub(crate) stream: Option<u8>,
    pub(crate) structured: bool,
    pub(crate) contexts: Contexts,
}

/// State of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More bytes are needed.
    Going,
    /// Transmission begins with the next byte.
    Agreed(Agreement),
    /// Encryption begins with the next byte, and the handshake anew.
    Encrypting,
    /// The client left, or speaks something else.
    Over,
}

/// Conditions of a connection before it is told anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Security {
    /// Nothing: the socket's own permissions guard it, or it is encrypted already.
    #[default]
    Given,
    /// Encryption: all else is refused until then.
    Wanted,
}

/// The handshake of NBD, driven by bytes.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    security: Security,
    greeted: bool,
    /// The client asked for the short answer to EXPORT_NAME.
    no_zeroes: bool,
    structured: bool,
    /// The volume that contexts were chosen for, and which.
    contexts: Option<(u32, Contexts)>,
    /// The client was refused an export that there is.
    refused: bool,
}

impl Handshake {
    pub(crate) fn new(security: Security) -> Handshake {
        Handshake { security, ..Handshake::default() }
    }

    /// The handshake that goes on inside of the encryption.
    pub(crate) fn encrypted(&self) -> Handshake {
        Handshake { greeted: true, no_zeroes: self.no_zeroes, ..Handshake::default() }
    }

    /// True if the client was refused an export since this was last asked.
    pub(crate) fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.refused)
    }

    /// The server's first message.
    pub(crate) fn greeting(out: &mut Vec<u8>) {
        out.put_u64(MAGIC);
        out.put_u64(OPTION_MAGIC);
        out.put_u16(FIXED_NEWSTYLE | NO_ZEROES);
    }

    /// Takes one step: (bytes used up, where it stands). Zero bytes: more are needed.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        offer: &Offer<'_>,
        out: &mut Vec<u8>,
    ) -> (usize, Progress) {
        let mut reader = Reader(bytes);
        if !self.greeted {
            let Some(flags) = reader.u32() else { return (0, Progress::Going) };
            if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
                return (4, Progress::Over);
            }
            self.greeted = true;
            self.no_zeroes = flags & u32::from(NO_ZEROES) != 0;
            return (4, Progress::Going);
        }
        let (Some(magic), Some(option), Some(length)) = (reader.u64(), reader.u32(), reader.u32())
        else {
            return (0, Progress::Going);
        };
        if magic != OPTION_MAGIC || length > OPTION_BYTES_MAX {
            if magic == OPTION_MAGIC {
                reply(out, option, option_reply::TOO_BIG, &[]);
            }
            return (bytes.len(), Progress::Over);
        }
        match reader.take(length as usize) {
            Some(data) => (16 + length as usize, self.answer(option, data, offer, out)),
            None => (0, Progress::Going),
        }
    }

    fn answer(
        &mut self,
        asked: u32,
        data: &[u8],
        offer: &Offer<'_>,
        out: &mut Vec<u8>,
    ) -> Progress {
        let exports = offer.exports;
        match asked {
            option::ABORT => {
                reply(out, asked, option_reply::ACK, &[]);
                Progress::Over
            }
            option::STARTTLS => self.start_tls(data, out),
            option::EXPORT_NAME if self.security == Security::Wanted => Progress::Over,
            _ if self.security == Security::Wanted => {
                reply(out, asked, option_reply::TLS_REQUIRED, b"encryption comes first");
                Progress::Going
            }
            option::EXPORT_NAME => self.export_name(data, offer, out),
            option::LIST if data.is_empty() => {
                for export in exports {
                    let mut text = Vec::new();
                    text.put_u32(export.name.len() as u32);
                    text.extend_from_slice(export.name.as_bytes());
                    reply(out, asked, option_reply::SERVER, &text);
                }
                reply(out, asked, option_reply::ACK, &[]);
                Progress::Going
            }
            option::INFO | option::GO => self.info(asked, data, offer, out),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                reply(out, asked, option_reply::ACK, &[]);
                Progress::Going
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                let done = self.meta_contexts(asked, data, offer, out);
                if done.is_none() {
                    reply(out, asked, option_reply::INVALID, b"the option is malformed");
                }
                Progress::Going
            }
            option::LIST | option::STRUCTURED_REPLY => {
                reply(out, asked, option_reply::INVALID, b"the option takes no data");
                Progress::Going
            }
            _ => {
                reply(out, asked, option_reply::UNSUPPORTED, &[]);
                Progress::Going
            }
        }
    }

    fn start_tls(&self, data: &[u8], out: &mut Vec<u8>) -> Progress {
        let refusal = match self.security {
            Security::Given => option_reply::UNSUPPORTED,
            Security::Wanted if !data.is_empty() => option_reply::INVALID,
            Security::Wanted => {
                reply(out, option::STARTTLS, option_reply::ACK, &[]);
                return Progress::Encrypting;
            }
        };
        reply(out, option::STARTTLS, refusal, &[]);
        Progress::Going
    }

    fn agree(&self, (export, stream): (&Export, Option<u8>)) -> Progress {
        // Contexts that were chosen for another export do not count.
        let contexts = self.contexts.filter(|&(volume, _)| volume == export.volume);
        let contexts = contexts.map_or(Contexts::default(), |(_, contexts)| contexts);
        let (volume, structured) = (export.volume, self.structured);
        Progress::Agreed(Agreement { volume, stream, structured, contexts })
    }

    /// The old way to choose: no way to refuse but to hang up.
    fn export_name(&mut self, data: &[u8], offer: &Offer<'_>, out: &mut Vec<u8>) -> Progress {
        let name = std::str::from_utf8(data).ok();
        let Some(found) = name.and_then(|name| find(offer, name)) else {
            return Progress::Over;
        };
        if offer.refusal.is_some() {
            self.refused = true;
            return Progress::Over;
        }
        out.put_u64(found.0.size);
        out.put_u16(flags(self.structured));
        if !self.no_zeroes {
            out.extend_from_slice(&[0; 124]);
        }
        self.agree(found)
    }

    fn info(&mut self, asked: u32, data: &[u8], offer: &Offer<'_>, out: &mut Vec<u8>) -> Progress {
        let mut reader = Reader(data);
        let parsed = reader.text().and_then(|name| {
            let count = reader.u16()?;
            let whole = reader.0.len() == usize::from(count) * 2;
            whole.then_some(name)
        });
        let Some(name) = parsed else {
            reply(out, asked, option_reply::INVALID, b"the option is malformed");
            return Progress::Going;
        };
        let Some(found) = find(offer, name) else {
            reply(out, asked, option_reply::UNKNOWN, unknown(offer, name).as_bytes());
            return Progress::Going;
        };
        if let Some(refusal) = offer.refusal.filter(|_| asked == option::GO) {
            self.refused = true;
            reply(out, asked, option_reply::POLICY, refusal.as_bytes());
            return Progress::Going;
        }
        let mut block = Vec::new();
        block.put_u16(info::EXPORT);
        block.put_u64(found.0.size);
        block.put_u16(flags(self.structured));
        reply(out, asked, option_reply::INFO, &block);
        block.clear();
        block.put_u16(info::BLOCK_SIZE);
        block.put_u32(512);
        block.put_u32(BLOCK_PREFERRED);
        block.put_u32(REQUEST_BYTES_MAX);
        reply(out, asked, option_reply::INFO, &block);
        reply(out, asked, option_reply::ACK, &[]);
        if asked == option::GO { self.agree(found) } else { Progress::Going }
    }

    fn meta_contexts(
        &mut self,
        asked: u32,
        data: &[u8],
        offer: &Offer<'_>,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let lists = asked == option::LIST_META_CONTEXT;
        if !lists {
            self.contexts = None; // Also when this attempt fails.
        }
        let mut reader = Reader(data);
        let name = reader.text()?;
        let count = reader.u32()?;
        let mut queries = Vec::new();
        for _ in 0..count {
            queries.push(reader.text()?);
        }
        if !reader.0.is_empty() || !lists && !self.structured {
            return None;
        }
        let Some((export, _)) = find(offer, name) else {
            reply(out, asked, option_reply::UNKNOWN, unknown(offer, name).as_bytes());
            return Some(());
        };
        let wants = |context: &str| {
            let namespace = context.split_inclusive(':').next();
            let asks = |&query: &&str| query == context || lists && Some(query) == namespace;
            lists && queries.is_empty() || queries.iter().any(asks)
        };
        let contexts = Contexts { allocation: wants(ALLOCATION.0), pool: wants(POOL.0) };
        for (wanted, (name, id)) in [(contexts.allocation, ALLOCATION), (contexts.pool, POOL)] {
            if wanted {
                let mut text = Vec::new();
                text.put_u32(if lists { 0 } else { id });
                text.extend_from_slice(name.as_bytes());
                reply(out, asked, option_reply::META_CONTEXT, &text);
            }
        }
        if !lists {
            self.contexts = Some((export.volume, contexts));
        }
        reply(out, asked, option_reply::ACK, &[]);
        Some(())
    }
}

/// Flags of every export.
fn flags(structured: bool) -> u16 {
    let df = if structured { transmission::SEND_DF } else { 0 };
    transmission::HAS_FLAGS
        | transmission::SEND_FLUSH
        | transmission::SEND_FUA
        | transmission::SEND_TRIM
        | transmission::SEND_WRITE_ZEROES
        | transmission::CAN_MULTI_CONN
        | transmission::SEND_CACHE
        | df
}

/// The export of this name, and the place of the stream that follows it, if one does.
fn find<'a>(offer: &Offer<'a>, name: &str) -> Option<(&'a Export, Option<u8>)> {
    let (name, stream) = match name.split_once('@') {
        None => (name, None),
        Some((name, word)) => {
            let place = offer.streams.iter().position(|stream| *stream == word)?;
            (name, Some(u8::try_from(place).ok()?))
        }
    };
    let export = match name {
        "" => offer.exports.first(),
        name => offer.exports.iter().find(|export| export.name == name),
    };
    Some((export?, stream))
}

/// Message about a name of which there is no export.
fn unknown(offer: &Offer<'_>, name: &str) -> String {
    match name.split_once('@') {
        Some((_, word)) if !offer.streams.is_empty() && !offer.streams.contains(&word) => {
            format!("no such stream; there are: {}", offer.streams.join(", "))
        }
        _ => "no such export".to_string(),
    }
}

fn reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.put_u64(OPTION_REPLY_MAGIC);
    out.put_u32(option);
    out.put_u32(kind);
    out.put_u32(data.len() as u32);
    out.extend_from_slice(data);
}
