//! The protocols that can be compared, by name: the source's seven and an eighth.
//!
//! Source: SeaCache, Li et al. 2012, section V-A. `manifest` is ours: it transfers the map when a
//! volume is attached, once a host and image, and then the differences, instead of pushing entries.

/// Techniques by which two machines send less. Plain data; both ends must have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Protocol {
    /// Hosts cache blocks by their content.
    pub names: bool,
    /// A host asks for hashes first, and then for what it does not hold.
    pub ask_hashes: bool,
    /// The server tracks the contents that hosts hold, and answers with a number alone.
    pub tracker: bool,
    /// The server names other blocks with the content that it sends.
    pub push: bool,
    /// Hosts send blocks to each other.
    pub peers: bool,
    /// Writes name their content before its bytes are sent.
    pub hash_first: bool,
    /// Hosts get the map of a volume when they attach it.
    pub manifest: bool,
}

const NOTHING: Protocol = Protocol {
    names: false,
    ask_hashes: false,
    tracker: false,
    push: false,
    peers: false,
    hash_first: false,
    manifest: false,
};
const DEDUP_READ: Protocol = Protocol { names: true, ask_hashes: true, ..NOTHING };
const TRACKER: Protocol = Protocol { names: true, tracker: true, ..NOTHING };
const PUSH: Protocol = Protocol { push: true, ..TRACKER };
const COOP: Protocol = Protocol { peers: true, ..PUSH };
const SEACACHE: Protocol = Protocol { hash_first: true, ..COOP };

impl Protocol {
    /// All, by name, in the source's order.
    pub const ALL: [(&'static str, Protocol); 8] = [
        ("baseline", NOTHING),
        ("dedup-read", DEDUP_READ),
        ("w-tracker", TRACKER),
        ("ss-push", PUSH),
        ("coop-cache", COOP),
        ("dedup-rw", Protocol { hash_first: true, ..DEDUP_READ }),
        ("seacache", SEACACHE),
        ("manifest", Protocol { push: false, manifest: true, ..SEACACHE }),
    ];

    /// The protocol of this name.
    pub fn named(name: &str) -> Option<Protocol> {
        Protocol::ALL.iter().find(|(known, _)| *known == name).map(|(_, protocol)| *protocol)
    }

    /// One bit for each part, as in HELLO.
    pub(crate) fn bits(self) -> u8 {
        let parts = [
            self.names,
            self.ask_hashes,
            self.tracker,
            self.push,
            self.peers,
            self.hash_first,
            self.manifest,
        ];
        parts.iter().enumerate().map(|(at, &part)| u8::from(part) << at).sum()
    }
}
