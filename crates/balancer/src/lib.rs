//! The dispatcher: a machine in front of servers. It says which backend gets a request, which
//! backends are fit to get any, which requests wait, and which may be tried again.
//!
//! Event-driven: arrivals, outcomes, load reports and results of health checks go in; placements,
//! grants to requests that waited, and health checks that are due come out. It opens no socket and
//! has no clock: the proxy drives it by the real one, tests by virtual time. Which of the fit
//! backends is picked is for `policy::balance` alone.
//!
//! Invariants
//! - What is placed is outstanding until its outcome is told, exactly once.
//! - A request that waits gets exactly one [`Grant`], unless it is
//!   [withdrawn][Dispatcher::withdraw].
//! - No backend has more requests than its limit; no more wait than the queue has places for; a
//!   retry is allowed only within the budget.
//! - Passive detection never takes out more than its share of the backends ([`Outliers`]).
//! - When no backend is fit, all that an administrator has not taken out are tried (panic mode, as
//!   in Envoy with a threshold of nothing left), unless that is switched off.
//!
//! Not here: connections, protocols, timers, which requests are safe to repeat.

mod backend;
mod dispatcher;
mod event;
mod memory;
mod queue;
mod reports;
mod settings;
mod status;
#[cfg(test)]
mod tests;

pub use backend::State;
pub use dispatcher::{Asked, Decision, Dispatcher, Outcome};
pub use event::Event;
pub use memory::Memory;
pub use queue::{Grant, Ticket};
pub use reports::{LoadReport, ReportError};
pub use settings::{BACKENDS_MAX, BackendSettings, Settings};
pub use status::{BackendStatus, Counters, Status};
/// The probing that a rule wants; the machine's driver sends the probes.
pub use thermocline_policy::balance::Probing;
/// Settings of the rules that say which backend is fit.
pub use thermocline_policy::balance::fitness::{Checks, Outliers};
