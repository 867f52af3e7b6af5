//! The platform of a pool of accelerators for network functions (OpenANFV, Ge 2017 §4.5.1): a
//! machine between packets and slots.
//!
//! A packet comes with its group (a tenant's port, a VLAN) and the key of its flow. The
//! *classifier* finds the flow, and with it a *tag*. The *switch* maps tag and in-port to the
//! out-port, from slot to slot through the functions of the group's chain. Several tags stand for
//! one chain by different slots, so tags spread the load while a flow keeps its slots. Slots are
//! loaded, drained and moved while packets flow; `policy::accel` decides when.
//!
//! Event-driven: packets ([`Platform::offer`]), answers of workers ([`Platform::complete`]) and
//! time ([`Platform::tick`]) go in; work for slots, packets that are through, and events come out.
//! A slot is whatever answers work: a model, a thread, a process, a card.
//!
//! Invariants
//! - Packets of a flow leave in the order in which they came; those that are lost are counted.
//! - A flow changes its tag only while none of its packets is under way. Meanwhile they are held;
//!   the state of stateful functions goes over first.
//! - Only running and draining slots get packets, and a draining one gets no new flows.
//! - A slot holds one function; a card loads one slot at a time.
//! - A function that does not alter packets cannot: its verdicts apply to the packet that is kept
//!   here. A worker that answers anything else than it was asked for is taken to have failed.
//! - Every queue has a bound with a name ([`Settings`]).
//!
//! Not here: what functions do to packets, parsing of packets, signatures of images (a verdict
//! comes in), sockets, threads, time.

mod error;
mod flows;
mod image;
mod lane;
mod loader;
mod meter;
pub mod nsh;
mod platform;
mod settings;
mod shifts;
mod slot;
mod status;
mod switch;
#[cfg(test)]
mod tests;
mod work;

pub use error::Refusal;
pub use image::{FunctionSettings, Image, Signature};
pub use platform::{Passed, Platform};
pub use settings::{CardSettings, Settings, SlotSettings};
pub use status::{CardStatus, Counters, Event, FunctionStatus, SlotState, SlotStatus, Status};
pub use switch::Tag;
/// Number of a network function.
pub use thermocline_policy::accel::FunctionId;
pub use work::{Answer, Batched, FlowKey, GroupId, Place, SlotId, Ticket, Verdict, Way, Work};
