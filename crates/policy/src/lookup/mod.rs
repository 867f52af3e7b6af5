//! Lookup policies of a cache that hosts and a storage server share: who sends a block, what is
//! told beforehand, and what is kept where.
//!
//! 1. A host asks the server for a block that it does not hold. The server knows its own memory,
//!    which hosts hold the content, and how busy it is ([`Asked`]).
//! 2. [`Lookup::source`] says who sends it. A peer's block costs three legs (to the server, to the
//!    peer, to the host) where the server's memory costs two; but it costs the server next to
//!    nothing.
//! 3. [`Lookup::push`] says which other blocks with that content the host is told of;
//!    [`Lookup::admission`] what enters which memory.
//!
//! Source: SeaCache, Li et al. 2012, III-C and III-E. Printed is "the server's memory first, then
//! other hosts" ([`server_first`](self)); with it all hosts that read the same in step load the
//! server as without peers. `peers-first` is what the printed growth needs; `by-load` is
//! ours. A store uses `server-first` unless its configuration says otherwise.
//!
//! Invariants: equal calls give equal answers; no call allocates; each is O(1). Not here: caches,
//! maps, which of several hosts is asked.

mod by_load;
mod fixed;
#[cfg(test)]
mod tests;

use crate::registry::{Setting, Settings, SettingsError};
use thermocline_units::Nanos;

/// Registry entries of this folder's policies: one line each.
pub(crate) const ENTRIES: &[crate::registry::Entry] =
    &[by_load::ENTRY, fixed::SERVER_FIRST, fixed::PEERS_FIRST];

/// The policy when nobody names one.
pub const DEFAULT: &str = "by-load";

/// The server's knowledge of a block that another host holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    /// True if its bytes are in the server's memory.
    pub in_memory: bool,
    /// Hosts, the asking one apart, that hold its content; 1 or more.
    pub holders: u32,
    /// Busy share of the server's link, 0 to 1, over the last while.
    pub server_busy: f64,
    /// Reads that the least busy of those hosts has been asked to serve and has not answered.
    pub holder_queue: u32,
}

/// Sender of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The server, from its memory or its devices.
    Server,
    /// A host that holds it.
    Peer,
}

/// Volumes whose blocks a host is told of beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// No volume.
    None,
    /// Those that are attached at the host.
    Host,
    /// All that the host may attach.
    All,
}

/// Entries told beforehand when content is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Push {
    /// Volumes whose blocks are told.
    pub scope: Scope,
    /// Entries for one block sent, at most.
    pub cap: u32,
}

/// Rules for what enters which memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// Least number of blocks that must share what the server reads from its devices, for that to
    /// enter its memory; 0 and 1: all of it does.
    pub server_shares_min: u32,
    /// A block that a peer sent enters the host's memory.
    pub from_peers: bool,
    /// A block that a guest wrote enters the host's memory.
    pub written: bool,
    /// Least number of a host's blocks that must share what its memory evicts, for that to enter
    /// its second level; 0 and 1: all of it does.
    pub flash_shares_min: u32,
}

/// Decides for one server, or for one host (which asks only for [`Lookup::admission`]).
///
/// The caller guarantees that times do not run backwards. The implementer must keep every call O(1)
/// and must not allocate; equal calls must give equal answers.
pub trait Lookup: Send {
    /// Chooses who sends a block that at least one other host holds.
    fn source(&mut self, now: Nanos, asked: &Asked) -> Source;

    /// Entries to tell beforehand.
    fn push(&self) -> Push;

    /// Rules for what is kept.
    fn admission(&self) -> Admission;
}

/// Settings that all have.
const PUSH: Setting = Setting {
    name: "push",
    default: "host",
    unit: "none, host or all",
    help: "volumes of whose equal blocks a host is told with a block",
};
const PUSH_CAP: Setting = Setting {
    name: "push-cap",
    default: "64",
    unit: "entries",
    help: "how many such blocks it is told of at most, a block sent",
};
const SHARES: Setting = Setting {
    name: "server-shares",
    default: "0",
    unit: "blocks",
    help: "what fewer blocks share does not enter the server's memory",
};
const FROM_PEERS: Setting = Setting {
    name: "from-peers",
    default: "keep",
    unit: "keep or pass",
    help: "what a peer sent enters the host's memory, or does not",
};
const WRITTEN: Setting = Setting {
    name: "written",
    default: "keep",
    unit: "keep or pass",
    help: "what a guest wrote enters the host's memory, or does not",
};

const FLASH_SHARES: Setting = Setting {
    name: "flash-shares",
    default: "0",
    unit: "blocks",
    help: "what fewer blocks of a host share does not enter the host's flash",
};

/// Settings that are the same whatever the source.
#[derive(Debug, Clone, Copy)]
struct Common {
    push: Push,
    admission: Admission,
}

impl Common {
    fn read(settings: &Settings) -> Result<Common, SettingsError> {
        let scope = match settings.choice("push", &["none", "host", "all"])? {
            0 => Scope::None,
            1 => Scope::Host,
            _ => Scope::All,
        };
        let push = Push { scope, cap: settings.count("push-cap", 0, 4096)? as u32 };
        let keeps = |key| Ok(settings.choice(key, &["keep", "pass"])? == 0);
        let admission = Admission {
            server_shares_min: settings.count("server-shares", 0, 1 << 20)? as u32,
            from_peers: keeps("from-peers")?,
            written: keeps("written")?,
            flash_shares_min: settings.count("flash-shares", 0, 1 << 20)? as u32,
        };
        Ok(Common { push, admission })
    }
}
