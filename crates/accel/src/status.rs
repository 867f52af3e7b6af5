//! A platform at a glance, and what happened, for people.

use crate::work::{GroupId, SlotId};
use thermocline_policy::accel::FunctionId;
use thermocline_units::Nanos;

/// State of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// Ready to be loaded.
    Empty,
    /// Waiting for the configuration port, or is being loaded.
    Loading,
    /// Taking flows.
    Running,
    /// Its flows are leaving.
    Draining,
    /// Failed: it does not work.
    Failed,
}

/// Packets and more, since the start. Every packet that was offered is in flight, held, or in one
/// of `passed` and those that begin with `dropped`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came.
    pub offered: u64,
    /// Packets that left.
    pub passed: u64,
    /// Packets that a function dropped.
    pub dropped_by_functions: u64,
    /// Packets of groups without a chain, or for which no worker was there.
    pub dropped_unserved: u64,
    /// Packets before a full queue.
    pub dropped_queue: u64,
    /// Packets of flows that moved while too many were held.
    pub dropped_held: u64,
    /// Packets of new flows before a full flow table, or without a free tag.
    pub dropped_table: u64,
    /// Packets that were at a worker which failed.
    pub dropped_failed: u64,
    /// Packets that a rule of a function met, and that went on.
    pub alerts: u64,
    /// Flows that moved.
    pub moved: u64,
    /// Idle flows that were forgotten.
    pub forgotten: u64,
    /// Flows of which a function's state was lost, once a function.
    pub states_lost: u64,
    /// Loads that ended well.
    pub loads: u64,
    /// Failures of slots.
    pub failures: u64,
    /// Answers that contradicted the work, each a failure.
    pub lies: u64,
    /// Answers that nobody waited for.
    pub strays: u64,
    /// Acts of plans that were not possible.
    pub acts_refused: u64,
}

impl Counters {
    /// Packets that were lost for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.dropped_by_functions + self.lost()
    }

    /// Packets that were lost for another reason than a function's verdict.
    pub fn lost(&self) -> u64 {
        self.dropped_unserved
            + self.dropped_queue
            + self.dropped_held
            + self.dropped_table
            + self.dropped_failed
    }
}

/// A slot.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotStatus {
    /// Its state.
    pub state: SlotState,
    /// Its function, or the one that it will have.
    pub function: Option<FunctionId>,
    /// Number of its card.
    pub card: u16,
    /// Group to which it belongs; `None`: to all.
    pub reserved: Option<GroupId>,
    /// Flows that go through it.
    pub flows: u32,
    /// Packets that wait for it.
    pub waiting: usize,
    /// Version of its image.
    pub version: u32,
    /// Nanoseconds a packet, measured; `None` if it has not run this function.
    pub cost: Option<f64>,
    /// Packets that it has processed since the start, whatever it held.
    pub processed: u64,
}

/// A card: the source's ⟨accelerator, number of running ones⟩.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardStatus {
    /// Its name.
    pub name: String,
    /// Slots that run.
    pub running: u32,
    /// Slots.
    pub slots: u32,
    /// True if it is being emptied.
    pub closed: bool,
    /// Slot that is being loaded.
    pub loading: Option<SlotId>,
}

/// A function.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionStatus {
    /// Its name.
    pub name: String,
    /// Slots that run it.
    pub running: u32,
    /// Packets a second that came for it in the last period.
    pub offered: f64,
    /// Flows that go through the processor for it.
    pub on_processor: u32,
    /// Packets that the processor has processed for it since the start.
    pub processor_processed: u64,
    /// Nanoseconds a packet on the processor, measured; `None` if it has not run there.
    pub processor_cost: Option<f64>,
}

/// The whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Cards, by number.
    pub cards: Vec<CardStatus>,
    /// Slots, by number.
    pub slots: Vec<SlotStatus>,
    /// Functions, by number.
    pub functions: Vec<FunctionStatus>,
    /// Flows in the table.
    pub flows: usize,
    /// Packets that are held.
    pub held: usize,
    /// Tags in use.
    pub tags: usize,
    /// Counters.
    pub counters: Counters,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A slot runs a function, so long after it was asked for.
    Running(SlotId, FunctionId, Nanos),
    /// A slot was asked to load a function.
    Loading(SlotId, FunctionId),
    /// The flows of a slot leave.
    Draining(SlotId, FunctionId),
    /// A slot is empty.
    Empty(SlotId),
    /// A slot failed; why.
    Failed(SlotId, &'static str),
    /// The processor failed to do a function's work.
    ProcessorFailed(FunctionId),
    /// A rule of a function met.
    Alert(GroupId, FunctionId, u32),
}
