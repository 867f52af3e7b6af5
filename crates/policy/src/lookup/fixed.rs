//! The two fixed orders: who sends a block whatever the load.
//!
//! `server-first`: the server sends what is in its memory, and asks a peer before it reads its
//! devices (SeaCache, Li et al. 2012, III-E, as printed). `peers-first`: a peer sends whatever one
//! holds (the order that the printed figures need). State: 24 B.

use super::{
    Admission, Asked, Common, FLASH_SHARES, FROM_PEERS, Lookup, PUSH, PUSH_CAP, Push, SHARES,
    Source, WRITTEN,
};
use crate::registry::{Build, Entry, Setting};
use thermocline_units::Nanos;

const SETTINGS: &[Setting] = &[PUSH, PUSH_CAP, SHARES, FROM_PEERS, WRITTEN, FLASH_SHARES];

pub(crate) const SERVER_FIRST: Entry = Entry {
    name: "server-first",
    summary: "the server sends what is in its memory; peers the rest that they hold",
    source: "SeaCache, Li et al. 2012, III-E",
    settings: SETTINGS,
    build: Build::Lookup(|settings| {
        Ok(Box::new(Fixed { memory_first: true, common: Common::read(settings)? }))
    }),
};

pub(crate) const PEERS_FIRST: Entry = Entry {
    name: "peers-first",
    summary: "peers send whatever they hold; the server the rest",
    source: "SeaCache, Li et al. 2012, Fig. 6 (its growth needs this order)",
    settings: SETTINGS,
    build: Build::Lookup(|settings| {
        Ok(Box::new(Fixed { memory_first: false, common: Common::read(settings)? }))
    }),
};

struct Fixed {
    memory_first: bool,
    common: Common,
}

impl Lookup for Fixed {
    fn source(&mut self, _now: Nanos, asked: &Asked) -> Source {
        if self.memory_first && asked.in_memory { Source::Server } else { Source::Peer }
    }

    fn push(&self) -> Push {
        self.common.push
    }

    fn admission(&self) -> Admission {
        self.common.admission
    }
}
