//! Order of the loads of a calibration: all reads first, then what changes the device.

use super::Access;
use crate::pattern::{Order, Pattern};
use std::fmt;
use thermocline_units::{Bytes, Nanos};

/// Small blocks, bytes.
const SMALL: u32 = 4 << 10;
/// Large blocks, bytes.
pub(super) const LARGE: u32 = 128 << 10;
/// Queue depths at which small random reads are measured.
pub(super) const READ_DEPTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Queue depths at which small random writes are measured.
pub(super) const WRITE_DEPTHS: [u32; 4] = [1, 4, 16, 32];
/// Parts of the size over which small reads are random, as divisors: a head's seek curve.
pub(super) const NARROW: [u32; 3] = [64, 16, 4];
/// Depth at which the weights of patterns are measured.
const WEIGHT_DEPTH: u32 = 8;
/// Bytes that are written over and over for the weight of overwriting.
const OVERWRITTEN: Bytes = Bytes::from_mib(16);

/// A load of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadName {
    /// Random reads of 4 KiB at this depth.
    RandomRead(u32),
    /// Random reads of 4 KiB, one at a time, over this part of the device, a divisor.
    NarrowRead(u32),
    /// Random reads of 128 KiB at this depth.
    LargeRead(u32),
    /// Sequential reads of 128 KiB at this depth, from the device's start.
    SequentialRead(u32),
    /// The same, at its end.
    InnerRead,
    /// Sequential reads of 4 KiB.
    SmallSequentialRead,
    /// Random writes of 4 KiB at this depth.
    RandomWrite(u32),
    /// Random writes of 128 KiB at this depth.
    LargeWrite(u32),
    /// Sequential writes of 128 KiB at this depth.
    SequentialWrite(u32),
    /// Sequential writes of 4 KiB.
    SmallSequentialWrite,
    /// Random writes of 4 KiB to the same few MiB.
    Overwrite,
    /// Random reads and writes of 4 KiB, 70 to 30.
    Mixed,
}

/// A load that is to be run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    pub(super) name: LoadName,
    pub(super) pattern: Pattern,
    /// Offset of its range.
    pub(super) from: Bytes,
}

pub(super) fn steps(size: Bytes, access: Access) -> Vec<Step> {
    use LoadName::*;
    let mut names: Vec<LoadName> = READ_DEPTHS.map(RandomRead).to_vec();
    names.extend(NARROW.map(NarrowRead));
    names.extend([LargeRead(1), LargeRead(32), SequentialRead(1), SequentialRead(32)]);
    names.extend([InnerRead, SmallSequentialRead]);
    if access == Access::Destructive {
        names.extend(WRITE_DEPTHS.map(RandomWrite));
        names.extend([LargeWrite(1), LargeWrite(32), SequentialWrite(1), SequentialWrite(32)]);
        names.extend([SmallSequentialWrite, Overwrite, Mixed]);
    }
    names.into_iter().map(|name| step(name, size)).collect()
}

fn step(name: LoadName, size: Bytes) -> Step {
    use LoadName::*;
    let (order, block, reads, depth) = match name {
        RandomRead(depth) => (Order::Random, SMALL, 1.0, depth),
        NarrowRead(_) => (Order::Random, SMALL, 1.0, 1),
        LargeRead(depth) => (Order::Random, LARGE, 1.0, depth),
        SequentialRead(depth) => (Order::Sequential, LARGE, 1.0, depth),
        InnerRead => (Order::Sequential, LARGE, 1.0, 32),
        SmallSequentialRead => (Order::Sequential, SMALL, 1.0, WEIGHT_DEPTH),
        RandomWrite(depth) => (Order::Random, SMALL, 0.0, depth),
        LargeWrite(depth) => (Order::Random, LARGE, 0.0, depth),
        SequentialWrite(depth) => (Order::Sequential, LARGE, 0.0, depth),
        SmallSequentialWrite => (Order::Sequential, SMALL, 0.0, WEIGHT_DEPTH),
        Overwrite => (Order::Random, SMALL, 0.0, WEIGHT_DEPTH),
        Mixed => (Order::Random, SMALL, 0.7, 32),
    };
    // Ranges that follow on each other read what no load before has brought into some cache.
    let aligned = |bytes: u64| Bytes(bytes / u64::from(LARGE) * u64::from(LARGE));
    let (from, range) = match name {
        NarrowRead(part) => {
            let range = aligned(size.0 / u64::from(part));
            (aligned((size.0 - range.0) / 2), range)
        }
        SequentialRead(1) => (aligned(size.0 / 4), aligned(size.0 / 4)),
        InnerRead => (aligned(size.0 - size.0 / 8), aligned(size.0 / 8)),
        SmallSequentialRead => (aligned(size.0 / 2), aligned(size.0 / 4)),
        SequentialWrite(1) => (aligned(size.0 / 4), aligned(size.0 / 4)),
        SmallSequentialWrite => (aligned(size.0 / 2), aligned(size.0 / 4)),
        Overwrite => (Bytes(0), OVERWRITTEN.min(aligned(size.0))),
        _ => (Bytes(0), aligned(size.0)),
    };
    Step { name, pattern: Pattern { order, block, reads, depth, range }, from }
}

/// Time that a request takes of a closed loop: the inverse of the rate.
pub(super) fn time_of(iops: f64) -> Nanos {
    Nanos((1e9 / iops) as u64)
}

impl fmt::Display for LoadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use LoadName::*;
        let text = match self {
            RandomRead(depth) => format!("4 KiB random read, QD{depth}"),
            NarrowRead(part) => format!("4 KiB random read, QD1, over 1/{part}"),
            LargeRead(depth) => format!("128 KiB random read, QD{depth}"),
            SequentialRead(depth) => format!("128 KiB sequential read, QD{depth}"),
            InnerRead => "128 KiB sequential read, QD32, at the end".to_string(),
            SmallSequentialRead => format!("4 KiB sequential read, QD{WEIGHT_DEPTH}"),
            RandomWrite(depth) => format!("4 KiB random write, QD{depth}"),
            LargeWrite(depth) => format!("128 KiB random write, QD{depth}"),
            SequentialWrite(depth) => format!("128 KiB sequential write, QD{depth}"),
            SmallSequentialWrite => format!("4 KiB sequential write, QD{WEIGHT_DEPTH}"),
            Overwrite => format!("4 KiB overwriting 16 MiB, QD{WEIGHT_DEPTH}"),
            Mixed => "4 KiB random, 70 % reads, QD32".to_string(),
        };
        f.pad(&text)
    }
}
