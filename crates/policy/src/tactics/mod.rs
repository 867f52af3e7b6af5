//! Tactics: the small policies inside a machine, one for each question that the machine asks often.
//!
//! A placement says which chunks should move; a tactic says which pool takes a new chunk, or
//! whether a copy yields to clients. All are pure: the machine keeps the state, and a tactic
//! answers from what it is told. So each can be chosen by name, compared with others of its
//! [`Kind`], and follow as a *shadow*: it is asked whatever the one in force is asked, and
//! [`Disagreement`] says how often it would have answered otherwise.
//!
//! | kind | question | file |
//! |---|---|---|
//! | allocation | Which pool takes a chunk that is written for the first time? | `allocation.rs` |
//! | replica | Which of several copies answers a read? | `replica.rs` |
//! | redirection | When is a pool too busy for a hinted write? | `redirection.rs` |
//! | full-pool probe | When is a full device asked again if it has room? | `probing.rs` |
//! | yielding | When does a copy that clients hold back go on? | `yielding.rs` |
//! | copy rate | How fast may copies go while volumes have SLAs? | `copy_rate.rs` |
//! | trial | Does a move go on, after a part of it has come? | `trial.rs` |
//! | retention | How much room does a pool keep free rather than old copies? | `retention.rs` |
//! | ejection | Is a server that fails requests left alone, and for how long? | `ejection.rs` |
//! | retry budget | May a failed request be tried again? | `retry_budget.rs` |
//! | slow start | What share of requests does a returning server get? | `slow_start.rs` |
//! | cleaning | Which segment of a store is cleaned next? | `cleaning.rs` |
//! | write-back | How many runs of a block cache's dirty lines go back? | `write_back.rs` |
//!
//! `thermocline_volume` asks the first eight, `thermocline_balancer` the next three,
//! `thermocline_content` and `thermocline_blockcache` one each.

mod allocation;
mod cleaning;
mod copy_rate;
mod ejection;
mod probing;
mod redirection;
mod replica;
mod retention;
mod retry_budget;
mod set;
mod slow_start;
#[cfg(test)]
mod tests;
mod trial;
mod write_back;
mod yielding;

pub use allocation::{Allocation, Room};
pub use cleaning::{Cleaning, SegmentUse};
pub use copy_rate::{CopyRate, Pace};
pub use ejection::{Ejection, Failures};
pub use probing::Probing;
pub use redirection::Redirection;
pub use replica::{Replica, Waiting};
pub use retention::Retention;
pub use retry_budget::RetryRule;
pub use set::{
    BalancerTactics, CacheTactics, Chosen, Disagreement, StoreTactics, TacticError, VolumeTactics,
};
pub use slow_start::ShareRule;
pub use trial::{TrialRule, Verdict};
pub use write_back::{DirtyLines, WriteBack};
pub use yielding::{HeldBack, Yielding};

use crate::registry::Entry;
use std::sync::Arc;

/// Question that a tactic answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// [`Allocation`].
    Allocation,
    /// [`Replica`].
    Replica,
    /// [`Redirection`].
    Redirection,
    /// [`Probing`].
    Probing,
    /// [`Yielding`].
    Yielding,
    /// [`CopyRate`].
    CopyRate,
    /// [`TrialRule`].
    Trial,
    /// [`Retention`].
    Retention,
    /// [`Ejection`].
    Ejection,
    /// [`RetryRule`].
    Retries,
    /// [`ShareRule`].
    SlowStart,
    /// [`Cleaning`].
    Cleaning,
    /// [`WriteBack`].
    WriteBack,
}

impl Kind {
    /// Returns the kind's name, as tables and messages call it.
    pub fn name(self) -> &'static str {
        self.tactic().trim_end_matches(" tactic")
    }

    /// Returns the name of a tactic of this kind, as lists of policies call it.
    pub fn tactic(self) -> &'static str {
        match self {
            Kind::Allocation => "allocation tactic",
            Kind::Replica => "replica tactic",
            Kind::Redirection => "redirection tactic",
            Kind::Probing => "full-pool probe tactic",
            Kind::Yielding => "yielding tactic",
            Kind::CopyRate => "copy rate tactic",
            Kind::Trial => "trial tactic",
            Kind::Retention => "retention tactic",
            Kind::Ejection => "ejection tactic",
            Kind::Retries => "retry budget tactic",
            Kind::SlowStart => "slow start tactic",
            Kind::Cleaning => "cleaning tactic",
            Kind::WriteBack => "write-back tactic",
        }
    }

    /// True if shadows of it can be asked. What a trial asks, and when, depends on the answers and
    /// settings of the tactic in force.
    pub(crate) fn has_shadows(self) -> bool {
        self != Kind::Trial
    }
}

/// A tactic that was built.
#[derive(Clone)]
pub enum Tactic {
    /// Tactic of [`Kind::Allocation`].
    Allocation(Arc<dyn Allocation>),
    /// Tactic of [`Kind::Replica`].
    Replica(Arc<dyn Replica>),
    /// Tactic of [`Kind::Redirection`].
    Redirection(Arc<dyn Redirection>),
    /// Tactic of [`Kind::Probing`].
    Probing(Arc<dyn Probing>),
    /// Tactic of [`Kind::Yielding`].
    Yielding(Arc<dyn Yielding>),
    /// Tactic of [`Kind::CopyRate`].
    CopyRate(Arc<dyn CopyRate>),
    /// Tactic of [`Kind::Trial`].
    Trial(Arc<dyn TrialRule>),
    /// Tactic of [`Kind::Retention`].
    Retention(Arc<dyn Retention>),
    /// Tactic of [`Kind::Ejection`].
    Ejection(Arc<dyn Ejection>),
    /// Tactic of [`Kind::Retries`].
    Retries(Arc<dyn RetryRule>),
    /// Tactic of [`Kind::SlowStart`].
    SlowStart(Arc<dyn ShareRule>),
    /// Tactic of [`Kind::Cleaning`].
    Cleaning(Arc<dyn Cleaning>),
    /// Tactic of [`Kind::WriteBack`].
    WriteBack(Arc<dyn WriteBack>),
}

/// The tactics, by kind; the first of each is the default.
pub(crate) const ENTRIES: &[Entry] = &[
    allocation::FASTEST_FIRST,
    allocation::SLOWEST_FIRST,
    allocation::MOST_FREE,
    replica::SHORTEST_WAIT,
    replica::FASTEST_COPY,
    redirection::QUEUE_DEPTH,
    redirection::NO_REDIRECTION,
    probing::EVERY,
    probing::BACK_OFF,
    yielding::PATIENT,
    yielding::NO_YIELDING,
    copy_rate::FIXED_RATE,
    copy_rate::AQUEDUCT,
    trial::NO_TRIAL,
    trial::FIRST_PART,
    retention::KEEP_OLD,
    retention::DROP_OLD,
    ejection::OUTLIERS,
    ejection::NO_EJECTION,
    retry_budget::TOKEN_BUCKET,
    retry_budget::NO_RETRIES,
    slow_start::LINEAR,
    slow_start::AT_ONCE,
    cleaning::COST_BENEFIT,
    cleaning::GREEDY,
    cleaning::OLDEST,
    write_back::GRADED,
    write_back::ALL_AT_ONCE,
];
