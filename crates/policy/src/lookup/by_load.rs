//! Looks up by load: peers relieve a busy server, and an idle server answers from its memory.
//!
//! 1. What is not in the server's memory comes from a peer, unless the least busy holder has
//!    `queue` reads outstanding: its devices are slower than a peer's memory.
//! 2. What is there comes from the server while its link is idle: two legs are faster than three.
//! 3. From `busy` on peers are asked (holder's queue allowing), until the link is below `idle`
//!    again: between the two the last answer stands, so that the answer does not flap.
//!
//! Ours. The source's order gives no relief when hosts read in step, since what the first one reads
//! is in the server's memory when the second asks. State: 56 B.

use super::{
    Admission, Asked, Common, FLASH_SHARES, FROM_PEERS, Lookup, PUSH, PUSH_CAP, Push, SHARES,
    Source, WRITTEN,
};
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::Nanos;

pub(crate) const ENTRY: Entry = Entry {
    name: "by-load",
    summary: "peers relieve a busy server; an idle one answers from its memory",
    source: "ours, after SeaCache, Li et al. 2012",
    settings: &[
        Setting {
            name: "busy",
            default: "0.5",
            unit: "share of the server's link",
            help: "from this on peers send what the server has in memory",
        },
        Setting {
            name: "idle",
            default: "0.25",
            unit: "share of the server's link",
            help: "below this the server does again",
        },
        Setting {
            name: "queue",
            default: "64",
            unit: "reads",
            help: "a peer with so many outstanding is not asked",
        },
        PUSH,
        PUSH_CAP,
        SHARES,
        FROM_PEERS,
        WRITTEN,
        FLASH_SHARES,
    ],
    build: Build::Lookup(|settings| Ok(Box::new(ByLoad::read(settings)?))),
};

struct ByLoad {
    busy: f64,
    idle: f64,
    queue: u32,
    relieving: bool,
    common: Common,
}

impl ByLoad {
    fn read(settings: &Settings) -> Result<ByLoad, SettingsError> {
        let busy = settings.number("busy", 0.0, 1.0)?;
        let idle = settings.number("idle", 0.0, 1.0)?;
        if idle > busy {
            return Err(settings.wrong("idle", format!("at most `busy`, {busy}")));
        }
        Ok(ByLoad {
            busy,
            idle,
            queue: settings.count("queue", 1, 1 << 20)? as u32,
            relieving: false,
            common: Common::read(settings)?,
        })
    }
}

impl Lookup for ByLoad {
    fn source(&mut self, _now: Nanos, asked: &Asked) -> Source {
        let limit = if self.relieving { self.idle } else { self.busy };
        self.relieving = asked.server_busy >= limit;
        let wanted = self.relieving || !asked.in_memory;
        if wanted && asked.holder_queue < self.queue { Source::Peer } else { Source::Server }
    }

    fn push(&self) -> Push {
        self.common.push
    }

    fn admission(&self) -> Admission {
        self.common.admission
    }
}
