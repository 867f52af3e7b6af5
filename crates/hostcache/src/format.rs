//! The layout of messages. Drawn in `docs/formats/hostcache.md`.
//!
//! All integers are little-endian. A message is its length (4 bytes), its kind (1 byte) and its
//! body. Everything read here was sent by another machine: every count has a limit with a name, and
//! a violation is a [`FormatError`].

#![deny(clippy::indexing_slicing, clippy::expect_used)]

use crate::messages::{
    ContentId, Hash, HostId, How, ReadItem, Shortage, ToAgent, ToPeer, ToServer, UNKNOWN, Why,
    WriteItem,
};
use crate::{BLOCK_BYTES, BLOCKS_MAX, IDS_MAX, MAP_BLOCKS_MAX, NAME_BYTES_MAX, PUSH_MAX};
use bytes::{Buf, Bytes};
use thermocline_units::fields::put_at;

/// Bytes before the body of a message: its length and kind.
pub(crate) const MESSAGE_HEADER_BYTES: usize = 5;
/// Bytes of a message's body at most: a full vector of blocks with their names, and some room.
pub const MESSAGE_BYTES_MAX: usize = BLOCKS_MAX * (BLOCK_BYTES + 48) + 64;

const _: () = assert!(IDS_MAX * 32 + 64 <= MESSAGE_BYTES_MAX, "lists fit into a message");
const _: () = assert!(MAP_BLOCKS_MAX * 14 + 64 <= MESSAGE_BYTES_MAX, "maps fit into a message");

/// Violation of the layout in a received message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The bytes end inside a field, or some are left over.
    #[error("{what} ends early, or has bytes left over")]
    Length {
        /// The message.
        what: &'static str,
    },
    /// A field has a value that is not allowed.
    #[error("{what} is {value}, which must be {expected}")]
    Value {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
        /// Description of the allowed values.
        expected: &'static str,
    },
}

fn wrong(what: &'static str, value: u64, expected: &'static str) -> FormatError {
    FormatError::Value { what, value, expected }
}

/// Reader of a message's body.
struct Body<'a> {
    bytes: &'a Bytes,
    at: usize,
    what: &'static str,
}

impl Body<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8], FormatError> {
        let bytes = self.bytes;
        let taken = self.at.checked_add(count).and_then(|end| bytes.get(self.at..end));
        let taken = taken.ok_or(FormatError::Length { what: self.what })?;
        self.at += count;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, FormatError> {
        Ok(self.take(1)?.get_u8())
    }

    fn u16(&mut self) -> Result<u16, FormatError> {
        Ok(self.take(2)?.get_u16_le())
    }

    fn u32(&mut self) -> Result<u32, FormatError> {
        Ok(self.take(4)?.get_u32_le())
    }

    fn u64(&mut self) -> Result<u64, FormatError> {
        Ok(self.take(8)?.get_u64_le())
    }

    fn flag(&mut self) -> Result<bool, FormatError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(wrong("a flag", other.into(), "0 or 1")),
        }
    }

    fn id(&mut self) -> Result<ContentId, FormatError> {
        match self.u64()? {
            value if value == 0 || value == UNKNOWN || Shortage::of(value).is_some() => {
                Err(wrong("a content's number", value, "a number in use"))
            }
            id => Ok(ContentId(id)),
        }
    }

    fn hash(&mut self) -> Result<Hash, FormatError> {
        let what = self.what;
        self.take(32)?.try_into().map_err(|_| FormatError::Length { what })
    }

    /// A block's bytes, shared with the message's.
    fn block(&mut self) -> Result<Bytes, FormatError> {
        let from = self.at;
        self.take(BLOCK_BYTES)?;
        Ok(self.bytes.slice(from..self.at))
    }

    /// A count of two bytes, from `least` to `most`.
    fn count(&mut self, least: usize, most: usize) -> Result<usize, FormatError> {
        let count = usize::from(self.u16()?);
        if (least..=most).contains(&count) {
            return Ok(count);
        }
        Err(wrong("a count", count as u64, "within the limits of its message"))
    }

    fn list<T>(
        &mut self,
        least: usize,
        most: usize,
        mut one: impl FnMut(&mut Self) -> Result<T, FormatError>,
    ) -> Result<Vec<T>, FormatError> {
        let count = self.count(least, most)?;
        (0..count).map(|_| one(self)).collect()
    }
}

#[expect(clippy::expect_used, reason = "what is sent is our own")]
fn put_list<T>(items: &[T], out: &mut Vec<u8>, mut one: impl FnMut(&T, &mut Vec<u8>)) {
    let count = u16::try_from(items.len()).expect("senders keep the limits of messages");
    out.extend(count.to_le_bytes());
    items.iter().for_each(|item| one(item, out));
}

/// A message that has a layout.
pub trait Message: Sized {
    /// Its name in errors.
    const NAME: &'static str;

    /// Appends the message: length, kind, body.
    fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0; MESSAGE_HEADER_BYTES]);
        let kind = self.put(out);
        put_at(out, start + 4, &[kind]);
        let length = (out.len() - start - MESSAGE_HEADER_BYTES) as u32;
        put_at(out, start, &length.to_le_bytes());
    }

    /// Appends the body, and returns the message's kind.
    fn put(&self, out: &mut Vec<u8>) -> u8;

    /// Reads a message of this kind from its whole body.
    ///
    /// # Errors
    /// It breaks a rule of the layout.
    fn read(kind: u8, body: &Bytes) -> Result<Self, FormatError>;

    /// Bytes that [`Message::write`] appends.
    fn length(&self) -> usize;
}

fn finish<T>(message: T, body: &Body<'_>) -> Result<T, FormatError> {
    let is_whole = body.at == body.bytes.len();
    if is_whole { Ok(message) } else { Err(FormatError::Length { what: body.what }) }
}

impl Message for ToServer {
    const NAME: &'static str = "a message of a host";

    fn put(&self, out: &mut Vec<u8>) -> u8 {
        match self {
            ToServer::Attach { request, volume, fence } => {
                out.extend(request.to_le_bytes());
                out.extend(fence.to_le_bytes());
                out.extend(volume.as_bytes());
                1
            }
            ToServer::Release { volume, fence, to } => {
                out.extend(volume.to_le_bytes());
                out.extend(fence.to_le_bytes());
                out.push(u8::from(to.is_some()));
                out.extend(to.map_or(0, |host| host.0).to_le_bytes());
                2
            }
            ToServer::Renew { request } => {
                out.extend(request.to_le_bytes());
                3
            }
            ToServer::Read { request, volume, block, count, how } => {
                for field in [request, volume, block] {
                    out.extend(field.to_le_bytes());
                }
                out.extend(count.to_le_bytes());
                out.push(*how as u8);
                4
            }
            ToServer::Write { request, volume, fence, block, fua, items } => {
                for field in [request, volume, block] {
                    out.extend(field.to_le_bytes());
                }
                out.extend(fence.to_le_bytes());
                out.push(u8::from(*fua));
                put_list(items, out, put_write_item);
                5
            }
            ToServer::Flush { request, volume, fence } => {
                out.extend(request.to_le_bytes());
                out.extend(volume.to_le_bytes());
                out.extend(fence.to_le_bytes());
                6
            }
            ToServer::Map { request, volume, base, block } => {
                for field in [request, volume, block] {
                    out.extend(field.to_le_bytes());
                }
                out.push(u8::from(*base));
                7
            }
            ToServer::Evicted { ids } => {
                put_list(ids, out, |id, out| out.extend(id.0.to_le_bytes()));
                8
            }
            ToServer::Held { hashes } => {
                put_list(hashes, out, |hash, out| out.extend(hash));
                9
            }
        }
    }

    fn read(kind: u8, body: &Bytes) -> Result<ToServer, FormatError> {
        let mut body = Body { bytes: body, at: 0, what: Self::NAME };
        let from = &mut body;
        let message = match kind {
            1 => read_attach(from)?,
            2 => {
                let (volume, fence) = (from.u32()?, from.u64()?);
                let (named, host) = (from.flag()?, from.u16()?);
                ToServer::Release { volume, fence, to: named.then_some(HostId(host)) }
            }
            3 => ToServer::Renew { request: from.u32()? },
            4 => {
                let (request, volume, block) = (from.u32()?, from.u32()?, from.u32()?);
                let count = from.count(1, BLOCKS_MAX)? as u16;
                let how = match from.u8()? {
                    0 => How::Usual,
                    1 => How::Hashes,
                    2 => How::Bytes,
                    other => return Err(wrong("how to read", other.into(), "0 to 2")),
                };
                ToServer::Read { request, volume, block, count, how }
            }
            5 => {
                let (request, volume, block) = (from.u32()?, from.u32()?, from.u32()?);
                let (fence, fua) = (from.u64()?, from.flag()?);
                let items = from.list(1, BLOCKS_MAX, read_write_item)?;
                ToServer::Write { request, volume, fence, block, fua, items }
            }
            6 => {
                let (request, volume) = (from.u32()?, from.u32()?);
                ToServer::Flush { request, volume, fence: from.u64()? }
            }
            7 => {
                let (request, volume, block) = (from.u32()?, from.u32()?, from.u32()?);
                ToServer::Map { request, volume, block, base: from.flag()? }
            }
            8 => ToServer::Evicted { ids: from.list(1, IDS_MAX, Body::id)? },
            9 => ToServer::Held { hashes: from.list(1, IDS_MAX, Body::hash)? },
            other => return Err(wrong("the kind of a host's message", other.into(), "1 to 9")),
        };
        finish(message, &body)
    }

    fn length(&self) -> usize {
        let body = match self {
            ToServer::Attach { volume, .. } => 12 + volume.len(),
            ToServer::Release { .. } => 15,
            ToServer::Renew { .. } => 4,
            ToServer::Read { .. } => 15,
            ToServer::Write { items, .. } => {
                let item = |item: &WriteItem| match item {
                    WriteItem::Zero => 1,
                    WriteItem::Id(_) => 9,
                    WriteItem::Hash(_) => 33,
                    WriteItem::Data(_) => 1 + BLOCK_BYTES,
                };
                23 + items.iter().map(item).sum::<usize>()
            }
            ToServer::Flush { .. } => 16,
            ToServer::Map { .. } => 13,
            ToServer::Evicted { ids } => 2 + 8 * ids.len(),
            ToServer::Held { hashes } => 2 + 32 * hashes.len(),
        };
        MESSAGE_HEADER_BYTES + body
    }
}

fn read_attach(from: &mut Body<'_>) -> Result<ToServer, FormatError> {
    let (request, fence) = (from.u32()?, from.u64()?);
    let left = from.bytes.len() - from.at;
    if !(1..=NAME_BYTES_MAX).contains(&left) {
        return Err(wrong("the length of a volume's name", left as u64, "1 to 255"));
    }
    let name = from.take(left)?;
    let is_plain = name.iter().all(u8::is_ascii_graphic);
    let name = std::str::from_utf8(name).ok().filter(|_| is_plain);
    let name = name.ok_or(wrong("a volume's name", 0, "printable ASCII without spaces"))?;
    Ok(ToServer::Attach { request, volume: name.to_string(), fence })
}

fn put_write_item(item: &WriteItem, out: &mut Vec<u8>) {
    match item {
        WriteItem::Zero => out.push(0),
        WriteItem::Id(id) => {
            out.push(1);
            out.extend(id.0.to_le_bytes());
        }
        WriteItem::Hash(hash) => {
            out.push(2);
            out.extend(hash);
        }
        WriteItem::Data(bytes) => {
            out.push(3);
            out.extend_from_slice(bytes);
        }
    }
}

fn read_write_item(from: &mut Body<'_>) -> Result<WriteItem, FormatError> {
    Ok(match from.u8()? {
        0 => WriteItem::Zero,
        1 => WriteItem::Id(from.id()?),
        2 => WriteItem::Hash(from.hash()?),
        3 => WriteItem::Data(from.block()?),
        other => return Err(wrong("the kind of a written block", other.into(), "0 to 3")),
    })
}

impl Message for ToAgent {
    const NAME: &'static str = "a message of the server";

    fn put(&self, out: &mut Vec<u8>) -> u8 {
        match self {
            ToAgent::Attached { request, volume, fence, blocks, base, lease } => {
                for field in [request, volume, blocks, base] {
                    out.extend(field.to_le_bytes());
                }
                out.extend(fence.to_le_bytes());
                out.extend(lease.to_le_bytes());
                1
            }
            ToAgent::Renewed { request } => {
                out.extend(request.to_le_bytes());
                2
            }
            ToAgent::Refused { request, why } => {
                out.extend(request.to_le_bytes());
                out.push(*why as u8);
                3
            }
            ToAgent::Lost { volume } => {
                out.extend(volume.to_le_bytes());
                4
            }
            ToAgent::Blocks { request, version, items } => {
                out.extend(request.to_le_bytes());
                out.extend(version.to_le_bytes());
                put_list(items, out, put_read_item);
                5
            }
            ToAgent::Written { request, version, ids } => {
                out.extend(request.to_le_bytes());
                out.extend(version.to_le_bytes());
                put_list(ids, out, |id, out| out.extend(id.to_le_bytes()));
                6
            }
            ToAgent::Flushed { request } => {
                out.extend(request.to_le_bytes());
                7
            }
            ToAgent::Entries { request, version, runs, next } => {
                out.extend(request.to_le_bytes());
                out.extend(version.to_le_bytes());
                out.push(u8::from(next.is_some()));
                out.extend(next.unwrap_or(0).to_le_bytes());
                put_list(runs, out, put_run);
                8
            }
            ToAgent::Push { id, version, blocks } => {
                out.extend(id.0.to_le_bytes());
                out.extend(version.to_le_bytes());
                put_list(blocks, out, |(volume, block), out| {
                    out.extend(volume.to_le_bytes());
                    out.extend(block.to_le_bytes());
                });
                9
            }
            ToAgent::Serve { token, id, to } => {
                out.extend(token.to_le_bytes());
                out.extend(id.0.to_le_bytes());
                out.extend(to.0.to_le_bytes());
                10
            }
            ToAgent::Named { ids } => {
                put_list(ids, out, |id, out| out.extend(id.to_le_bytes()));
                11
            }
        }
    }

    fn read(kind: u8, body: &Bytes) -> Result<ToAgent, FormatError> {
        let mut body = Body { bytes: body, at: 0, what: Self::NAME };
        let from = &mut body;
        let message = match kind {
            1 => {
                let (request, volume) = (from.u32()?, from.u32()?);
                let (blocks, base) = (from.u32()?, from.u32()?);
                let (fence, lease) = (from.u64()?, from.u64()?);
                ToAgent::Attached { request, volume, fence, blocks, base, lease }
            }
            2 => ToAgent::Renewed { request: from.u32()? },
            3 => {
                let (request, why) = (from.u32()?, from.u8()?);
                let known = Why::ALL.get(usize::from(why)).copied();
                let why = known.ok_or(wrong("a refusal's reason", why.into(), "0 to 6"))?;
                ToAgent::Refused { request, why }
            }
            4 => ToAgent::Lost { volume: from.u32()? },
            5 => {
                let (request, version) = (from.u32()?, from.u64()?);
                let items = from.list(1, BLOCKS_MAX, read_read_item)?;
                ToAgent::Blocks { request, version, items }
            }
            6 => {
                let (request, version) = (from.u32()?, from.u64()?);
                let ids = from.list(1, BLOCKS_MAX, Body::u64)?;
                ToAgent::Written { request, version, ids }
            }
            7 => ToAgent::Flushed { request: from.u32()? },
            8 => read_entries(from)?,
            9 => {
                let (id, version) = (from.id()?, from.u64()?);
                let blocks = from.list(1, PUSH_MAX, |from| Ok((from.u32()?, from.u32()?)))?;
                ToAgent::Push { id, version, blocks }
            }
            10 => {
                let (token, id) = (from.u64()?, from.id()?);
                ToAgent::Serve { token, id, to: HostId(from.u16()?) }
            }
            11 => ToAgent::Named { ids: from.list(1, IDS_MAX, Body::u64)? },
            other => {
                return Err(wrong("the kind of a server's message", other.into(), "1 to 11"));
            }
        };
        finish(message, &body)
    }

    fn length(&self) -> usize {
        let body = match self {
            ToAgent::Attached { .. } => 32,
            ToAgent::Refused { .. } => 5,
            ToAgent::Renewed { .. } | ToAgent::Lost { .. } | ToAgent::Flushed { .. } => 4,
            ToAgent::Blocks { items, .. } => {
                let item = |item: &ReadItem| match item {
                    ReadItem::Zero => 1,
                    ReadItem::Id(_) => 9,
                    ReadItem::Hash(..) => 41,
                    ReadItem::Data(..) => 41 + BLOCK_BYTES,
                    ReadItem::Plain(_) => 1 + BLOCK_BYTES,
                    ReadItem::Deferred(..) => 51,
                };
                14 + items.iter().map(item).sum::<usize>()
            }
            ToAgent::Written { ids, .. } => 14 + 8 * ids.len(),
            ToAgent::Entries { runs, .. } => {
                19 + runs.iter().map(|(_, ids)| 6 + 8 * ids.len()).sum::<usize>()
            }
            ToAgent::Push { blocks, .. } => 18 + 8 * blocks.len(),
            ToAgent::Serve { .. } => 18,
            ToAgent::Named { ids } => 2 + 8 * ids.len(),
        };
        MESSAGE_HEADER_BYTES + body
    }
}

fn put_run((block, ids): &(u32, Vec<u64>), out: &mut Vec<u8>) {
    out.extend(block.to_le_bytes());
    put_list(ids, out, |id, out| out.extend(id.to_le_bytes()));
}

fn read_entries(from: &mut Body<'_>) -> Result<ToAgent, FormatError> {
    let (request, version) = (from.u32()?, from.u64()?);
    let (more, next) = (from.flag()?, from.u32()?);
    let mut left = MAP_BLOCKS_MAX;
    let runs = from.list(0, MAP_BLOCKS_MAX, |from| {
        let block = from.u32()?;
        let ids = from.list(1, left, Body::u64)?;
        left -= ids.len();
        Ok((block, ids))
    })?;
    Ok(ToAgent::Entries { request, version, runs, next: more.then_some(next) })
}

fn put_read_item(item: &ReadItem, out: &mut Vec<u8>) {
    let kind = match item {
        ReadItem::Zero => 0,
        ReadItem::Id(_) => 1,
        ReadItem::Hash(..) => 2,
        ReadItem::Data(..) => 3,
        ReadItem::Plain(_) => 4,
        ReadItem::Deferred(..) => 5,
    };
    out.push(kind);
    match item {
        ReadItem::Zero => {}
        ReadItem::Id(id) => out.extend(id.0.to_le_bytes()),
        ReadItem::Plain(bytes) => out.extend_from_slice(bytes),
        ReadItem::Hash(id, hash)
        | ReadItem::Data(id, hash, _)
        | ReadItem::Deferred(id, hash, ..) => {
            out.extend(id.0.to_le_bytes());
            out.extend(hash);
        }
    }
    match item {
        ReadItem::Data(_, _, bytes) => out.extend_from_slice(bytes),
        ReadItem::Deferred(_, _, host, token) => {
            out.extend(host.0.to_le_bytes());
            out.extend(token.to_le_bytes());
        }
        _ => {}
    }
}

fn read_read_item(from: &mut Body<'_>) -> Result<ReadItem, FormatError> {
    Ok(match from.u8()? {
        0 => ReadItem::Zero,
        1 => ReadItem::Id(from.id()?),
        2 => ReadItem::Hash(from.id()?, from.hash()?),
        3 => ReadItem::Data(from.id()?, from.hash()?, from.block()?),
        4 => ReadItem::Plain(from.block()?),
        5 => {
            let (id, hash) = (from.id()?, from.hash()?);
            ReadItem::Deferred(id, hash, HostId(from.u16()?), from.u64()?)
        }
        other => return Err(wrong("the kind of a block that was read", other.into(), "0 to 5")),
    })
}

impl Message for ToPeer {
    const NAME: &'static str = "a message of another host";

    fn put(&self, out: &mut Vec<u8>) -> u8 {
        match self {
            ToPeer::Block { token, bytes } => {
                out.extend(token.to_le_bytes());
                out.extend_from_slice(bytes);
                1
            }
            ToPeer::Gone { token } => {
                out.extend(token.to_le_bytes());
                2
            }
        }
    }

    fn read(kind: u8, body: &Bytes) -> Result<ToPeer, FormatError> {
        let mut body = Body { bytes: body, at: 0, what: Self::NAME };
        let message = match kind {
            1 => ToPeer::Block { token: body.u64()?, bytes: body.block()? },
            2 => ToPeer::Gone { token: body.u64()? },
            other => return Err(wrong("the kind of a peer's message", other.into(), "1 or 2")),
        };
        finish(message, &body)
    }

    fn length(&self) -> usize {
        let block = if matches!(self, ToPeer::Block { .. }) { BLOCK_BYTES } else { 0 };
        MESSAGE_HEADER_BYTES + 8 + block
    }
}
