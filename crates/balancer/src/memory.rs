//! Knowledge that outlives a process: what one dispatcher tells another that takes over from it.
//!
//! Only what a new one would learn by hurting requests, or never: who is taken out, who is ejected
//! and for how long, what checks say, how far a slow start has come. Times are told as lengths,
//! because clocks differ. Counters, latencies and what rules have learned begin anew.

use thermocline_units::Nanos;

/// State of one backend, as checks and requests showed it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// Its name.
    pub name: String,
    /// True if an administrator has taken it out.
    pub draining: bool,
    /// The verdict of the checks; `None`: there is none yet.
    pub fit: Option<bool>,
    /// Time that it stays ejected; `None`: it is not.
    pub out_for: Option<Nanos>,
    /// Ejections that are not forgiven: the next is longer by as many doublings.
    pub ejections: u32,
    /// Time since the beginning of its slow start; `None`: it is at its full weight.
    pub ramped_for: Option<Nanos>,
}

impl Memory {
    /// Returns true if a backend of which nothing is known behaves otherwise.
    pub fn tells(&self) -> bool {
        *self != Memory { name: self.name.clone(), ..Memory::default() }
    }
}
