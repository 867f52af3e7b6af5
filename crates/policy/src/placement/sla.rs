//! SLA of a volume: a latency, and how strictly it is kept.
//!
//! Plain numbers, the same in the laboratory, live, and in a recording. The machine counts how far
//! an SLA was kept; a placement decides by it.

use std::fmt;
use thermocline_units::Nanos;

/// Rank of an SLA among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum SlaClass {
    /// Requests go first, and chunks keep their place on fast pools when they are cold.
    Strict,
    /// Requests take their turn, and cold chunks may leave fast pools.
    #[default]
    Loose,
}

impl SlaClass {
    /// All of them, the strictest first.
    pub const ALL: [SlaClass; 2] = [SlaClass::Strict, SlaClass::Loose];

    /// Name as it is written: `strict`, `loose`.
    pub fn name(self) -> &'static str {
        match self {
            SlaClass::Strict => "strict",
            SlaClass::Loose => "loose",
        }
    }

    /// The class that has this [`SlaClass::name`].
    pub fn named(name: &str) -> Option<SlaClass> {
        SlaClass::ALL.into_iter().find(|class| class.name() == name)
    }
}

impl fmt::Display for SlaClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The SLA of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sla {
    /// A request that takes longer, from its arrival to its answer, is a violation; above 0.
    pub latency: Nanos,
    /// Its strictness.
    pub class: SlaClass,
}

impl Sla {
    /// All of it as numbers, for a recording.
    pub fn figures(&self) -> [u64; 2] {
        [self.latency.0, self.class as u64]
    }

    /// Reads the numbers of [`Sla::figures`]; `None` when these are none, too few, or unknown.
    /// Numbers behind them are left out.
    pub fn from_figures(figures: &[u64]) -> Option<Sla> {
        let &[latency, class] = figures.first_chunk()?;
        let class = *SlaClass::ALL.get(usize::try_from(class).ok()?)?;
        (latency > 0).then_some(Sla { latency: Nanos(latency), class })
    }
}

#[cfg(test)]
mod tests;
