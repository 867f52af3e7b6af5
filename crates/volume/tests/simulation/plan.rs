//! A run as data: the pools, the settings, and every step, settled before anything happens.
//!
//! Steps name volumes, pools, operations and sectors by plain numbers that are taken modulo what
//! there is, so that a list stays meaningful when the shrinker takes steps out of it. Sizes are in
//! sectors of 512 bytes, times in virtual microseconds.

use thermocline_policy::tactics::VolumeTactics;
use thermocline_ports::faulty::Survival;
use thermocline_volume::{OperationKind, Settings};

/// One run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Feeds the disks, the crashes and the contents; everything else is below.
    pub(crate) seed: u64,
    pub(crate) settings: Settings,
    /// Fastest first.
    pub(crate) pools: Vec<PoolPlan>,
    pub(crate) steps: Vec<Step>,
}

/// The tactics of these texts, and else the defaults.
pub(crate) fn tactics(texts: &[&str]) -> VolumeTactics {
    VolumeTactics::of(texts).expect("plans name tactics that there are")
}

/// One pool and its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolPlan {
    pub(crate) chunks: u32,
    /// True if journal and checkpoints fit beside the chunks.
    pub(crate) roomy: bool,
    pub(crate) reserve: u32,
    pub(crate) latency_us: u32,
    pub(crate) zeroed: bool,
    pub(crate) discard_zeroes: bool,
    /// True if it is said to lie across a network.
    pub(crate) far: bool,
    /// True if a flush that fails forgets what it was to make durable, as Linux does.
    pub(crate) forgets: bool,
}

/// Part of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) volume: u8,
    pub(crate) sector: u32,
    pub(crate) sectors: u32,
}

/// Kinds of steps.
pub(crate) const KINDS: usize = 36;

/// Something done at one moment. What takes time goes on while the next steps are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Read(Span),
    /// A background request if it has a `patience`: it must start within so many µs.
    Write {
        span: Span,
        fua: bool,
        patience: Option<u32>,
    },
    WriteZeroes {
        span: Span,
        fua: bool,
    },
    Discard(Span),
    Flush {
        volume: u8,
    },
    /// On the `nth` chunk that is mapped.
    Operate {
        kind: OperationKind,
        nth: u32,
        to: u8,
    },
    /// On this chunk of the volume.
    OperateOn {
        kind: OperationKind,
        volume: u8,
        chunk: u32,
        to: u8,
    },
    /// Writes a few sectors into each of so many chunks.
    Populate {
        volume: u8,
        first: u32,
        chunks: u32,
    },
    /// Cancels one of the operations under way.
    Cancel {
        nth: u8,
    },
    CreateVolume {
        sectors: u32,
    },
    GrowVolume {
        volume: u8,
        sectors: u32,
    },
    DeleteVolume {
        volume: u8,
    },
    AddPool(PoolPlan),
    /// Like `AddPool`, for a pool that counts as faster than another one.
    AddPoolBefore {
        pool: PoolPlan,
        before: u8,
    },
    /// The pool's disk becomes larger, and the pool with it.
    GrowPool {
        pool: u8,
        chunks: u32,
    },
    DrainPool {
        pool: u8,
    },
    /// The pool takes chunks again.
    UndrainPool {
        pool: u8,
    },
    RemovePool {
        pool: u8,
    },
    /// A placement that moves chunks at random; `None` takes it away.
    Place {
        seed: Option<u32>,
    },
    /// A few hints, right, wrong and malformed, and a prefetch; what they say follows from the
    /// seed.
    Hint {
        volume: u8,
        seed: u32,
    },
    Scrub,
    /// This percentage of the fastest pool is lent to lines from now on.
    Lend {
        percent: u8,
    },
    /// One pool misbehaves from now on: errors, silence and delays, per thousand requests.
    Trouble {
        pool: u8,
        fail: u16,
        time_out: u16,
        delay: u16,
    },
    /// The `nth` request to the pool from now fails.
    FailNth {
        pool: u8,
        nth: u16,
    },
    /// The `nth` request from now fails on the pool of one of the chunk's copies, or parts.
    FailCopy {
        volume: u8,
        chunk: u32,
        copy: u8,
        nth: u16,
    },
    /// The pool's disk has no room for writes.
    FillUp {
        pool: u8,
    },
    /// Ends every fault but death and damage.
    Calm,
    /// The pool's disk dies for good.
    Kill {
        pool: u8,
    },
    /// The pool's disk is gone until the power fails, and comes back with what it had.
    Unplug {
        pool: u8,
    },
    /// A bit of a copy of the `nth` chunk with checksums flips.
    Flip {
        nth: u32,
        copy: u8,
        bit: u32,
    },
    /// Virtual time passes.
    Wait {
        us: u32,
    },
    /// This many events happen, however long that takes.
    Events {
        count: u16,
    },
    /// Everything under way comes to its end.
    Settle,
    /// The power fails, or the program is killed; the group is opened again, and recovers while
    /// the next steps are done.
    Crash {
        survival: Survival,
    },
    /// An orderly end, after which the group is opened again; with `cut`, the power fails after so
    /// many events of it.
    Close {
        cut: Option<u16>,
    },
    /// Recovery ends; the machine checks itself, and of eight chunks so many are read back.
    Verify {
        eighths: u8,
    },
}
