//! Hints: what programs, users and file systems know about data before it is used.
//!
//! 1. A hint says [`Facts`] about bytes of a volume: metadata, the file they belong to and its
//!    size, a stream and how it is used, how long it will live, who waits for it.
//! 2. [`rules`] make a *class* of facts, by a table in the grammar of Open CAS's I/O classes; a
//!    class names pools in order of preference.
//! 3. [`store`] keeps by source and range what was said, within bounds, until it expires; a chunk's
//!    hint is what holds for its bytes: the more specific level before the more general, in one
//!    level the class that comes first, so that of several files the smallest decides (HintStor, Ge
//!    et al. 2022 §3.4).
//! 4. [`director`] proposes moves from that, beside whatever placement decides, and keeps that from
//!    undoing them.
//! 5. A hint is a prediction. `accounts` says how much less, or longer, users waited because hints
//!    were followed, by chunk; [`store`] scores sources and classes by that. What makes users wait
//!    is not followed until it would not any more.
//!
//! Hints may cost speed, never data: nothing here moves or keeps anything by itself.
//!
//! Source: HintStor (Ge et al. 2022 §3, Ge 2017 ch. 2); classes as in Open CAS and DSS (Mesnier et
//! al., SOSP 2011); scoring and bounds are ours.

pub mod director;
pub mod rules;
pub mod store;

mod accounts;
mod ranges;
mod scoring;

pub use accounts::{Judged, PinScore, Waits};
pub use scoring::Score;

use thermocline_units::Bytes;

/// Use of data, as its stream's owner says (HintStor, Ge et al. 2022 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Usage {
    /// Nothing was said.
    #[default]
    Unknown,
    /// Read far more than written.
    ReadIntensive,
    /// Written far more than read.
    WriteIntensive,
    /// Written in small pieces all over.
    RandomWrite,
    /// Written once, from front to back.
    SequentialWrite,
    /// Read and written.
    Mixed,
    /// Kept, hardly used.
    Archival,
}

impl Usage {
    /// All of them, in the order of their numbers.
    pub const ALL: [Usage; 7] = [
        Usage::Unknown,
        Usage::ReadIntensive,
        Usage::WriteIntensive,
        Usage::RandomWrite,
        Usage::SequentialWrite,
        Usage::Mixed,
        Usage::Archival,
    ];

    /// Name as users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Usage::Unknown => "unknown",
            Usage::ReadIntensive => "read-intensive",
            Usage::WriteIntensive => "write-intensive",
            Usage::RandomWrite => "random-write",
            Usage::SequentialWrite => "sequential-write",
            Usage::Mixed => "mixed",
            Usage::Archival => "archival",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Usage> {
        Usage::ALL.into_iter().find(|usage| usage.name() == name)
    }
}

/// Lifetime of data: Linux's write-life hints, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Life {
    /// Nothing was said.
    #[default]
    NotSet,
    /// Said to be unknown.
    None,
    /// Soon gone.
    Short,
    /// Longer.
    Medium,
    /// Longer still.
    Long,
    /// Practically for ever.
    Extreme,
}

impl Life {
    /// All of them, in the order of their numbers.
    pub const ALL: [Life; 6] =
        [Life::NotSet, Life::None, Life::Short, Life::Medium, Life::Long, Life::Extreme];

    /// Name as users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Life::NotSet => "not-set",
            Life::None => "none",
            Life::Short => "short",
            Life::Medium => "medium",
            Life::Long => "long",
            Life::Extreme => "extreme",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Life> {
        Life::ALL.into_iter().find(|life| life.name() == name)
    }
}

/// Subject of a hint. The later in this list, the more specific: that one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Every volume.
    System,
    /// A volume.
    Volume,
    /// Files that a program touches.
    Process,
    /// A file.
    File,
    /// Bytes of a volume.
    #[default]
    Range,
}

/// Facts about bytes. Those that are not known stay at their default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// The file system's own structures.
    pub metadata: bool,
    /// Size of the file that the bytes belong to.
    pub file_size: Option<Bytes>,
    /// Its directory, from the file system's root, without a slash at the end.
    pub directory: Option<String>,
    /// Its name.
    pub file_name: Option<String>,
    /// The program that uses it.
    pub process: Option<String>,
    /// Bytes of a request.
    pub request_size: Option<Bytes>,
    /// True if requests write; `None`: both, or not known.
    pub writes: Option<bool>,
    /// True if they pass the page cache by.
    pub direct: bool,
    /// A number that its owner gives to what belongs together; 0: none.
    pub stream: u16,
    /// Its use.
    pub usage: Usage,
    /// Its lifetime.
    pub life: Life,
}

impl Facts {
    /// Ending of the file's name: what stands behind the last dot.
    pub fn extension(&self) -> Option<&str> {
        let (stem, extension) = self.file_name.as_deref()?.rsplit_once('.')?;
        (!stem.is_empty()).then_some(extension)
    }
}

/// Wishes beside a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wishes {
    /// Placements shall leave it where it is.
    pub pin: bool,
    /// Not needed soon: to the slowest pool.
    pub demote: bool,
    /// Background: requests may wait so many milliseconds, 1 to [`BACKGROUND_MS_MAX`].
    pub background_ms: Option<u32>,
}

/// A request of a background task waits no longer than this, whatever was wished.
pub const BACKGROUND_MS_MAX: u32 = 10_000;

#[cfg(test)]
mod tests;
