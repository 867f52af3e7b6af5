//! The one list of policies: name, one line, source, settings with units and defaults.
//!
//! The command line, the engine and Python build policies only from here. A new policy is one file
//! plus one line in its folder's `ENTRIES`.

mod settings;
mod spec;

pub use settings::{Setting, Settings, SettingsError};
pub use spec::{Built, FilterSpec, PolicySpec, SpecError};
pub use thermocline_units::nearest;

use crate::accel::{self, Coming, Scheduler};
use crate::balance::{self, Rule};
use crate::cache::admission::{self, Admission};
use crate::cache::{self, CachePolicy};
use crate::lookup::{self, Lookup};
use crate::placement::{self, Foresight, Placement};
use crate::tactics::{self, Kind, Tactic};
use crate::tunnel::{self, Controller};
use std::sync::Arc;
use thermocline_units::Bytes;

/// Properties of the cache that a policy is built for.
#[derive(Debug, Clone, Copy)]
pub struct Geometry {
    /// Capacity in lines, ≥ 1.
    pub lines: u32,
    /// Bytes a line.
    pub line_bytes: Bytes,
    /// Volumes that share the cache, ≥ 1.
    pub volumes: u32,
    /// Seed of everything random.
    pub seed: u64,
}

#[cfg(test)]
impl Geometry {
    pub(crate) fn for_tests() -> Geometry {
        Geometry { lines: 64, line_bytes: Bytes::from_kib(4), volumes: 1, seed: 1 }
    }
}

/// A cache policy, or which setting is wrong.
pub type BuiltCache = Result<Box<dyn CachePolicy>, SettingsError>;

/// A placement, or which setting is wrong.
pub type BuiltPlacement = Result<Box<dyn Placement>, SettingsError>;

/// An admission filter, or which setting is wrong.
pub type BuiltAdmission = Result<Box<dyn Admission>, SettingsError>;

/// A balancer's rule, or which setting is wrong.
pub type BuiltRule = Result<Box<dyn Rule>, SettingsError>;

/// A tunnel's controller, or which setting is wrong.
pub type BuiltController = Result<Box<dyn Controller>, SettingsError>;

/// A lookup policy of a shared host cache, or which setting is wrong.
pub type BuiltLookup = Result<Box<dyn Lookup>, SettingsError>;

/// A scheduler of accelerators, or which setting is wrong.
pub type BuiltScheduler = Result<Box<dyn Scheduler>, SettingsError>;

/// A tactic, or which setting is wrong.
pub type BuiltTactic = Result<Tactic, SettingsError>;

/// Builds a policy of one family from plain settings.
#[derive(Clone, Copy)]
pub enum Build {
    /// A per-access cache policy.
    Cache(fn(&Geometry, &Settings) -> BuiltCache),
    /// A cache policy that is told the future: `next[i]` is the position of the next access to the
    /// line of access `i`, `u32::MAX` for none; accesses must then be made in exactly that order.
    Clairvoyant(fn(&Geometry, &Settings, Arc<[u32]>) -> BuiltCache),
    /// A per-epoch placement.
    Placement(fn(&Settings) -> BuiltPlacement),
    /// A per-epoch placement that is told the future: a bound, in the laboratory only.
    Foreseeing(fn(&Settings, Box<dyn Foresight>) -> BuiltPlacement),
    /// An admission filter, which stands in front of a [`Build::Cache`].
    Admission(fn(&Geometry, &Settings) -> BuiltAdmission),
    /// A balancer's rule.
    Balancer(fn(&Settings) -> BuiltRule),
    /// A balancer's rule that is told the truth: a bound, in the laboratory only.
    Oracle(fn(&Settings) -> BuiltRule),
    /// A controller of a tunnel.
    Tunnel(fn(&Settings) -> BuiltController),
    /// A lookup policy of a shared host cache.
    Lookup(fn(&Settings) -> BuiltLookup),
    /// A scheduler of a pool of accelerators.
    Accel(fn(&Settings) -> BuiltScheduler),
    /// A scheduler that is told the demand to come: a bound, in the laboratory only.
    AccelBound(fn(&Settings, Box<dyn Coming>) -> BuiltScheduler),
    /// A tactic of a volume or a balancer, of this kind.
    Tactic(Kind, fn(&Settings) -> BuiltTactic),
}

impl Build {
    /// Returns the family's name, as tables and messages call it.
    pub fn kind(&self) -> &'static str {
        match self {
            Build::Cache(_) => "cache",
            Build::Clairvoyant(_)
            | Build::Oracle(_)
            | Build::Foreseeing(_)
            | Build::AccelBound(_) => "bound",
            Build::Placement(_) => "placement",
            Build::Admission(_) => "filter",
            Build::Balancer(_) => "balancer",
            Build::Tunnel(_) => "tunnel controller",
            Build::Lookup(_) => "lookup policy",
            Build::Accel(_) => "accelerator scheduler",
            Build::Tactic(kind, _) => kind.tactic(),
        }
    }
}

/// One policy in the registry.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The name on the command line, lower case with hyphens.
    pub name: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Its source.
    pub source: &'static str,
    /// Its settings, with units and defaults.
    pub settings: &'static [Setting],
    /// The function that builds it.
    pub build: Build,
}

impl Entry {
    /// The question that it answers, where it is a tactic.
    pub fn tactic_kind(&self) -> Option<Kind> {
        match self.build {
            Build::Tactic(kind, _) => Some(kind),
            _ => None,
        }
    }
}

/// Every cache policy and placement that can run by itself, in the order of the folders.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    cache::ENTRIES.iter().chain(cache::SHARED).chain(placement::ENTRIES)
}

/// Every placement that the engine can run.
pub fn placements() -> impl Iterator<Item = &'static Entry> {
    entries().filter(|entry| matches!(entry.build, Build::Placement(_)))
}

/// Every balancer, the laboratory's bounds included.
pub fn balancers() -> impl Iterator<Item = &'static Entry> {
    balance::ENTRIES.iter()
}

/// Every controller of a tunnel.
pub(crate) fn controllers() -> impl Iterator<Item = &'static Entry> {
    tunnel::ENTRIES.iter()
}

/// Placements that are told the future: bounds of the laboratory.
pub fn bounds() -> impl Iterator<Item = &'static Entry> {
    placement::BOUNDS.iter()
}

/// Every lookup policy of a shared host cache.
pub fn lookups() -> impl Iterator<Item = &'static Entry> {
    lookup::ENTRIES.iter()
}

/// Every scheduler of a pool of accelerators, the laboratory's bound included.
pub(crate) fn schedulers() -> impl Iterator<Item = &'static Entry> {
    accel::ENTRIES.iter().chain(accel::BOUNDS)
}

/// Every tactic, by kind; the first of each kind is the default.
pub fn tactics() -> impl Iterator<Item = &'static Entry> {
    tactics::ENTRIES.iter()
}

/// Every admission filter.
pub fn filters() -> impl Iterator<Item = &'static Entry> {
    admission::ENTRIES.iter()
}

/// Everything there is: caches, placements and their bounds, balancers, controllers, lookups,
/// schedulers, tactics, filters.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    let placed = entries().chain(bounds());
    let machines = balancers().chain(controllers()).chain(lookups()).chain(schedulers());
    placed.chain(machines).chain(tactics()).chain(filters())
}

/// The policy or filter called `name`; no two share one.
pub fn find(name: &str) -> Option<&'static Entry> {
    all().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests;
