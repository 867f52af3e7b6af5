//! Settings of an end, and what ends tell each other of a flow. Plain data.

use crate::classes::Classes;
use crate::format::{FormatError, value};
use crate::offload::OffloadSettings;
use crate::shared::Shared;
use crate::store::{Owner, Store};
use bytes::Buf;
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, Nanos};
use thermocline_wire::Role;

/// The version of segments, control messages and headers that this end speaks.
pub(crate) const VERSION: u8 = 1;
/// Bytes of a flow's target at most: a name of 253 and a port.
pub const TARGET_BYTES_MAX: usize = 259;

/// Window of a flow that is alone: 1 Gbit/s over a round trip of 120 ms.
const WINDOW_BYTES_MAX: u32 = 16 << 20;
/// Bytes of a flow that may wait for the connection to take them.
const QUEUE_BYTES_MAX: u32 = 1 << 20;

/// Flows that may find each other's chunks.
///
/// Lengths of what is sent show what was found, even through encryption: whoever can put bytes of
/// their own into one flow, and see lengths, learns whether another flow that shares with it had
/// the same. `docs/guides/tunnel.md` has the threat model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// Nothing: a flow finds its own chunks only.
    Flow,
    /// Flows of one class (server port).
    #[default]
    Class,
    /// All flows of the tunnel.
    All,
}

/// The destination of a flow, and its treatment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Host and port, as the other end is to resolve them: 1 to [`TARGET_BYTES_MAX`] bytes.
    pub address: String,
    /// The class of the flow: the server's port, unless a rule says otherwise.
    pub class: u16,
    /// Flows that it shares chunks with.
    pub sharing: Sharing,
}

impl Target {
    /// The header that a flow is opened with.
    pub(crate) fn header(&self) -> Vec<u8> {
        let sharing = match self.sharing {
            Sharing::Flow => 0,
            Sharing::Class => 1,
            Sharing::All => 2,
        };
        let mut header = vec![VERSION, sharing];
        header.extend(self.class.to_le_bytes());
        header.extend(self.address.as_bytes());
        header
    }

    pub(crate) fn read(mut header: &[u8]) -> Result<Target, FormatError> {
        if header.len() < 4 {
            return Err(FormatError::Truncated { what: "a flow's header" });
        }
        let (version, sharing) = (header.get_u8(), header.get_u8());
        if version != VERSION {
            return Err(value("the version of a flow's header", version.into(), "1"));
        }
        let sharing = match sharing {
            0 => Sharing::Flow,
            1 => Sharing::Class,
            2 => Sharing::All,
            other => return Err(value("a flow's sharing", other.into(), "0, 1 or 2")),
        };
        let class = header.get_u16_le();
        let length = header.len();
        let is_plain = header.iter().all(|byte| byte.is_ascii_graphic());
        if length == 0 || length > TARGET_BYTES_MAX || !is_plain {
            return Err(value("a flow's target", length as u64, "1 to 259 printable characters"));
        }
        let address = String::from_utf8_lossy(header).into_owned();
        Ok(Target { address, class, sharing })
    }

    /// A number that keeps fingerprints of different scopes apart.
    pub(crate) fn scope(&self, flow: u32, run: u64) -> u64 {
        match self.sharing {
            Sharing::All => 0,
            Sharing::Class => 1 << 32 | u64::from(self.class),
            // A flow's number is used again by later connections; what is drawn for each is not.
            Sharing::Flow => run ^ (2 << 32 | u64::from(flow)),
        }
    }
}

/// Settings of an end.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The connection's settings; its `epoch` and `parameters` are the end's to set.
    pub wire: thermocline_wire::Config,
    /// Bytes of one flow that may wait for the other end to have them; 16 MiB.
    pub flow_bytes_max: usize,
    /// The same of all flows together; 256 MiB. Each flow may have a share of 64 KiB in any case.
    pub flows_bytes_max: usize,
    /// The controller of each class of flows, by its name in the registry: `goodput`.
    pub controller: String,
    /// Another unit that cuts content; `None`: this processor does.
    pub offload: Option<OffloadSettings>,
    /// Time that a flow waits for a chunk from the device of the cache's second tier, until the
    /// other end is asked for it; 2 s.
    pub disk_patience: Nanos,
    /// Draws what must not be guessed, anew for each connection.
    pub seed: u64,
}

impl Settings {
    /// The defaults for an end in this role.
    pub fn new(role: Role, seed: u64) -> Settings {
        let mut wire = thermocline_wire::Config::new(role, [0; 16]);
        wire.window_max_bytes = WINDOW_BYTES_MAX;
        wire.queue_max_bytes = QUEUE_BYTES_MAX;
        Settings {
            wire,
            flow_bytes_max: 16 << 20,
            flows_bytes_max: 256 << 20,
            controller: thermocline_policy::tunnel::DEFAULT.to_string(),
            offload: None,
            disk_patience: Nanos::from_secs(2),
            seed,
        }
    }
}

/// State that outlives an end's connections: chunks, and what its controllers learnt.
pub struct Cache {
    pub(crate) shared: Shared,
    /// The run in which this end's names were given.
    pub(crate) epoch: [u8; 16],
    /// The run of the other end whose names are in the store.
    pub(crate) peer_epoch: [u8; 16],
    /// State of the classes of flows; `None` before the first connection.
    pub(crate) classes: Option<Classes>,
}

impl Cache {
    /// An empty cache of this capacity. `epoch` must never have been used before: draw it. The
    /// other end is told it; `seed` it must not guess.
    ///
    /// # Panics
    /// If the capacity is 1 TiB or more.
    pub fn new(capacity: Bytes, epoch: [u8; 16], seed: u64) -> Cache {
        let shared = Shared::new(capacity, seed);
        Cache { shared, epoch, peer_epoch: [0; 16], classes: None }
    }

    /// The same with a second tier on a device: so many bytes of chunks that memory gives up. See
    /// [`End::next_disk_job`](crate::End::next_disk_job). It is not part of what is saved.
    ///
    /// # Panics
    /// If it is 1 TiB or more.
    #[must_use]
    pub fn with_disk(mut self, capacity: Bytes) -> Cache {
        let store = std::mem::replace(&mut self.shared.store, Store::new(Bytes(0), 0));
        self.shared.store = store.with_disk(capacity);
        self
    }

    /// Chunks in memory.
    pub fn chunks(&self) -> usize {
        self.shared.store.len()
    }

    /// Parameters that this end announces first: the version, the run of the other end whose names
    /// it knows, and how much it keeps.
    pub(crate) fn parameters(&self) -> Vec<u8> {
        let mut parameters = vec![VERSION];
        parameters.extend(self.peer_epoch);
        parameters.extend(self.shared.store.most().0.to_le_bytes());
        parameters
    }

    /// Makes the names of both ends agree with what the other end said first.
    pub(crate) fn meet(&mut self, epoch: [u8; 16], parameters: &[u8]) -> Result<(), FormatError> {
        let Some((&version, known)) = parameters.split_first() else {
            return Err(FormatError::Truncated { what: "the other end's parameters" });
        };
        if version != VERSION {
            return Err(value("the version of the other end's tunnel", version.into(), "1"));
        }
        let (known, keeps) = match known.len() {
            16 => (known, None),
            24 => {
                known.split_at_checked(16).map(|(known, keeps)| (known, Some(keeps))).expect("24")
            }
            length => {
                let expected = "16 bytes behind the version, or 24";
                return Err(value("the length of the parameters", length as u64, expected));
            }
        };
        if let Some(keeps) = keeps {
            let keeps = u64::from_le_bytes(keeps.try_into().expect("eight bytes are left"));
            self.shared.store.limit(Bytes(keeps));
        }
        if known != self.epoch {
            // They would be asked for one by one; nothing wrong would come of it.
            self.shared.store.forget(Owner::Us);
        }
        if epoch != self.peer_epoch {
            if !mutant("names_of_an_older_peer_are_kept") {
                self.shared.store.forget(Owner::Peer);
            }
            self.peer_epoch = epoch;
        }
        Ok(())
    }
}
