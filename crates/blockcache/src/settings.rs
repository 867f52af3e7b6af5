//! Decisions that whoever makes a block cache takes.

use thermocline_policy::cache::SetRule;
use thermocline_policy::tactics::CacheTactics;

/// Decisions of a block cache. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Requests of at least so many bytes go around the fast device where their lines are not
    /// cached: what is read or written in long runs, the slow device does well enough.
    pub around_from: u32,
    /// Dirty lines, in percent of all slots, above which lines are taken back.
    pub dirty_percent: u8,
    /// Lines or runs of lines being taken back at once, at most.
    pub writers_max: u32,
    /// The rule for which line of a full set leaves. It may change between starts: the table on the
    /// medium does not depend on it.
    pub policy: SetRule,
    /// Choice of the dirty lines that are taken back, and how many runs of them at once.
    pub tactics: CacheTactics,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            around_from: 64 << 10,
            dirty_percent: 10,
            writers_max: 16,
            policy: SetRule::S3Fifo,
            tactics: CacheTactics::default(),
        }
    }
}
