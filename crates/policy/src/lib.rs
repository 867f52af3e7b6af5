//! Every decision of the project, pure: which line a cache keeps, what a filter admits, which chunk
//! lives on flash, which site a request is sent to, how a tunnel cuts a flow, who sends a block,
//! which function an accelerator's slot holds.
//!
//! Seven shapes of policy and one registry that names them all:
//! - *per access* ([`cache::CachePolicy`]): told each access, says hit or miss, what was admitted
//!   and evicted;
//! - *per epoch* ([`placement::Placement`]): observes accesses, then proposes moves from a
//!   read-only view; the machine validates and acts;
//! - *per request* ([`balance::Balancer`]): told what it may know of its sites, picks one;
//! - *per segment* ([`tunnel::Controller`]): told what cutting a flow cost and saved, chooses the
//!   next segment's chunking;
//! - *per block* ([`lookup::Lookup`]): told who holds a block and who is busy, says who sends it;
//! - *per period* ([`accel::Scheduler`]): told demand, slots and costs, plans what slots hold;
//! - *per question* ([`tactics`]): small ones inside a machine, each with one question: which pool
//!   takes a new chunk, which copy answers a read, is a server that fails left alone.
//!
//! Beside them [`hints`]: what users of data say of it, and the moves that follow; [`migration`]:
//! how fast moves copy beside clients.
//!
//! Never here: a clock, a file, a thread, a logger, an unordered map that iterates at random.
//! `now`, randomness and budgets are arguments; everything random is seeded.

pub mod accel;
pub mod balance;
pub mod cache;
pub mod hints;
pub mod lookup;
pub mod migration;
pub mod mrc;
pub mod placement;
pub mod registry;
pub mod tactics;
pub mod tunnel;

/// Bytes of memory a policy needs, said apart because they grow with different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Footprint {
    /// Grows with the capacity (resident entries, ghosts, sketches).
    pub resident: u64,
    /// Grows with the distinct lines or chunks seen (the dense index, counters of all bins).
    pub index: u64,
}
