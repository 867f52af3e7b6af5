//! Jobs that workers get, and their answers.

use crate::nsh::Header;
use bytes::Bytes;
use thermocline_policy::accel::FunctionId;

/// Origin of packets, by which the classifier finds their chain: a tenant's port or a VLAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// Flow of a packet, equal for both directions: a hash of addresses and ports, made by the caller.
/// Two flows of one key share their slots, which costs balance and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey(pub u64);

/// Direction of a packet through its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// From the chain's first function to its last.
    Forth,
    /// From its last function to its first.
    Back,
}

/// Number of a slot, dense from 0 on over all cards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub u16);

impl SlotId {
    /// The number as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Number of a piece of work, never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A worker of one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A slot.
    Slot(SlotId),
    /// The processor, for this function.
    Processor(FunctionId),
}

/// A packet of a batch. On a wire or a bus it stands behind its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batched {
    /// Its tag, and the number of functions that are left.
    pub header: Header,
    /// Flow, for the function's state.
    pub flow: FlowKey,
    /// Origin.
    pub group: GroupId,
    /// Direction.
    pub way: Way,
    /// The packet.
    pub bytes: Bytes,
}

/// A piece of work. Each is answered once, with its ticket, by [`crate::Platform::complete`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Configure a slot. Answer: [`Answer::Loaded`].
    Load {
        /// Its number.
        ticket: Ticket,
        /// The slot.
        slot: SlotId,
        /// The function.
        function: FunctionId,
        /// Version of its image.
        version: u32,
    },
    /// Process packets, in order. Answer: [`Answer::Processed`].
    Process {
        /// Its number.
        ticket: Ticket,
        /// The worker.
        place: Place,
        /// The function that it runs.
        function: FunctionId,
        /// The packets.
        packets: Vec<Batched>,
    },
    /// Give up the state of flows. Answer: [`Answer::Exported`].
    Export {
        /// Its number.
        ticket: Ticket,
        /// The worker.
        place: Place,
        /// The function that it runs.
        function: FunctionId,
        /// The flows.
        flows: Vec<(GroupId, FlowKey)>,
    },
    /// Take over the state of flows. Answer: [`Answer::Imported`].
    Import {
        /// Its number.
        ticket: Ticket,
        /// The worker.
        place: Place,
        /// The function that it runs.
        function: FunctionId,
        /// State, as the export gave it.
        state: Bytes,
    },
}

impl Work {
    /// Its number.
    pub fn ticket(&self) -> Ticket {
        match self {
            Work::Load { ticket, .. }
            | Work::Process { ticket, .. }
            | Work::Export { ticket, .. }
            | Work::Import { ticket, .. } => *ticket,
        }
    }
}

/// A function's decision on a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Goes on as it is.
    Pass,
    /// Goes on as it is, and a rule with this number met.
    Alert(u32),
    /// This goes on in its stead; only from functions that alter packets.
    Replace(Bytes),
    /// Is dropped.
    Drop,
}

/// An answer of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The slot is configured.
    Loaded,
    /// A verdict for each packet of the batch, in order.
    Processed(Vec<Verdict>),
    /// State of the flows.
    Exported(Bytes),
    /// The state was taken over.
    Imported,
    /// The worker could not do it, or is gone.
    Failed,
}
