//! Writes: bytes are sent only of contents that the store does not know by number or hash.

use super::{Asker, Op, Server};
use crate::messages::{ToAgent, UNKNOWN, WriteItem};
use crate::store::{Content, StoreItem, StoreRequest};
use bytes::Bytes;
use thermocline_units::situations::met_if;

#[derive(Debug)]
pub(super) struct Write {
    pub(super) asker: Asker,
    place: (u32, u32),
    fua: bool,
    version: u64,
    /// Bytes of the blocks that were sent with them.
    data: Vec<Option<Bytes>>,
}

impl Server {
    pub(super) fn write(
        &mut self,
        asker: Asker,
        place: (u32, u32),
        fua: bool,
        items: Vec<WriteItem>,
    ) {
        let mut data = Vec::with_capacity(items.len());
        let mut stored = Vec::with_capacity(items.len());
        for item in items {
            let bytes = match &item {
                WriteItem::Data(bytes) => Some(bytes.clone()),
                _ => None,
            };
            data.push(bytes);
            stored.push(match item {
                WriteItem::Zero => StoreItem::Zero,
                WriteItem::Hash(hash) => StoreItem::Hash(hash),
                WriteItem::Id(id) => match self.names.place(id) {
                    Some(place) => StoreItem::Number(self.names.number(place)),
                    None => StoreItem::Unknown,
                },
                WriteItem::Data(bytes) => {
                    let hash = (self.settings.hash_of)(&bytes);
                    StoreItem::Data(bytes, hash)
                }
            });
        }
        // The version is the write's from now on: whoever looks later sees it.
        self.version += 1;
        let (volume, block) = place;
        let op = Op::Write(Write { asker, place, fua, version: self.version, data });
        self.begin(op, StoreRequest::Write { volume, block, items: stored });
    }

    pub(super) fn written(
        &mut self,
        now: thermocline_units::Nanos,
        write: Write,
        contents: &[Option<Option<Content>>],
    ) {
        let is_current = self.ended(write.asker);
        let (volume, block) = write.place;
        let keeps = self.protocol.tracker && self.lookup.admission().written;
        let mut ids = Vec::with_capacity(contents.len());
        for ((at, content), bytes) in (block..).zip(contents).zip(&write.data) {
            if content.is_some() {
                self.memory.forget_block((volume, at));
            }
            met_if(content.is_none() && bytes.is_none(), "a write's content was not known");
            ids.push(match content {
                None => UNKNOWN,
                Some(None) => 0,
                Some(Some(content)) => {
                    let id = self.name(*content);
                    if keeps && is_current {
                        self.note_holder(write.asker.host, id, true);
                    }
                    let place = self.place(content.number);
                    match bytes {
                        Some(bytes) => self.memory.put(place, (volume, at), bytes),
                        None => self.counts.known_writes += 1,
                    }
                    id.0
                }
            });
        }
        self.counts.written += write.data.iter().flatten().count() as u64;
        if !is_current {
            return;
        }
        let (request, version) = (write.asker.request, write.version);
        let message = ToAgent::Written { request, version, ids };
        if write.fua {
            let op = Op::Flush { asker: write.asker, written: Some(message) };
            return self.begin(op, StoreRequest::Flush { volume });
        }
        self.say(now, write.asker.host, message);
    }
}
