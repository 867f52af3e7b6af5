//! A choice: the chunking that a flow gets, and the expected chunk size.
//!
//! Sizes are powers of two from 128 B to 64 KiB, kept as their logarithm, so that no other size can
//! be said. There are 21 choices; [`Choice::index`] numbers them without gaps, and [`Choices`] is a
//! set of them in one word.

use std::fmt;
use thermocline_units::Bytes;

const LOG_MIN: u8 = 7;
const LOG_MAX: u8 = 16;

/// An expected chunk size: a power of two from 128 B to 64 KiB.
///
/// ```
/// use thermocline_policy::tunnel::ChunkSize;
/// let size = ChunkSize::new(2048).unwrap();
/// assert_eq!((size.bytes(), size.to_string()), (2048, "2 KiB".to_string()));
/// assert_eq!(ChunkSize::new(2000), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkSize(u8);

impl ChunkSize {
    /// 128 B.
    pub const MIN: ChunkSize = ChunkSize(LOG_MIN);
    /// 64 KiB.
    pub const MAX: ChunkSize = ChunkSize(LOG_MAX);
    /// Number of sizes.
    pub const COUNT: usize = (LOG_MAX - LOG_MIN) as usize + 1;

    /// The size of `bytes`; `None` when that is no power of two from 128 B to 64 KiB.
    pub const fn new(bytes: u64) -> Option<ChunkSize> {
        if !bytes.is_power_of_two() {
            return None;
        }
        let log = bytes.trailing_zeros() as u8;
        if log < LOG_MIN || log > LOG_MAX { None } else { Some(ChunkSize(log)) }
    }

    /// Bytes.
    pub const fn bytes(self) -> u32 {
        1 << self.0
    }

    /// Half the size; `None` below 128 B.
    pub fn smaller(self) -> Option<ChunkSize> {
        (self > ChunkSize::MIN).then(|| ChunkSize(self.0 - 1))
    }

    /// Twice the size; `None` above 64 KiB.
    pub fn larger(self) -> Option<ChunkSize> {
        (self < ChunkSize::MAX).then(|| ChunkSize(self.0 + 1))
    }

    /// `steps` doublings (below 0: halvings) away, as far as sizes reach.
    pub fn moved(self, steps: i32) -> ChunkSize {
        let log = i32::from(self.0).saturating_add(steps);
        ChunkSize(log.clamp(i32::from(LOG_MIN), i32::from(LOG_MAX)) as u8)
    }

    /// Every size, from the smallest.
    pub fn all() -> impl DoubleEndedIterator<Item = ChunkSize> + Clone {
        (LOG_MIN..=LOG_MAX).map(ChunkSize)
    }

    /// Position among the sizes: 0 is 128 B.
    const fn position(self) -> usize {
        (self.0 - LOG_MIN) as usize
    }
}

impl fmt::Display for ChunkSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Bytes(self.bytes().into()).fmt(f)
    }
}

/// Ways to cut a flow into chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// No cutting: relayed as it is. Policy state "00" in the source.
    None,
    /// Every so many bytes. Policy state "01".
    Fixed,
    /// At places that its content gives (content-defined chunking). Policy state "11".
    Content,
}

/// Way to cut a flow, and the expected size of its chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Choice {
    /// Not at all: its bytes are relayed.
    None,
    /// Every so many bytes.
    Fixed(ChunkSize),
    /// At places that the content gives, so large on average.
    Content(ChunkSize),
}

impl Choice {
    /// Number of choices: [`Choice::index`] is below it.
    pub const COUNT: usize = 1 + 2 * ChunkSize::COUNT;

    /// Every choice, by index.
    pub fn all() -> impl Iterator<Item = Choice> + Clone {
        let fixed = ChunkSize::all().map(Choice::Fixed);
        let content = ChunkSize::all().map(Choice::Content);
        std::iter::once(Choice::None).chain(fixed).chain(content)
    }

    /// Its number: none is 0, then fixed, then content-defined, sizes upwards.
    pub const fn index(self) -> usize {
        match self {
            Choice::None => 0,
            Choice::Fixed(size) => 1 + size.position(),
            Choice::Content(size) => 1 + ChunkSize::COUNT + size.position(),
        }
    }

    /// Its way of cutting.
    pub const fn kind(self) -> Kind {
        match self {
            Choice::None => Kind::None,
            Choice::Fixed(_) => Kind::Fixed,
            Choice::Content(_) => Kind::Content,
        }
    }

    /// The expected chunk size; none cuts no chunks.
    pub const fn size(self) -> Option<ChunkSize> {
        match self {
            Choice::None => None,
            Choice::Fixed(size) | Choice::Content(size) => Some(size),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::None => f.pad("none"),
            Choice::Fixed(size) => write!(f, "fixed {size}"),
            Choice::Content(size) => write!(f, "content {size}"),
        }
    }
}

/// A set of choices.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Choices(u32);

const _: () = assert!(Choice::COUNT <= 32);

impl Choices {
    /// No choice.
    pub const EMPTY: Choices = Choices(0);

    /// Every choice that cuts chunks: all but none.
    pub const CUTTING: Choices = Choices((1 << Choice::COUNT) - 2);

    /// The set with `choice`.
    #[must_use]
    pub const fn with(self, choice: Choice) -> Choices {
        Choices(self.0 | 1 << choice.index())
    }

    /// True if `choice` is in it.
    pub const fn contains(self, choice: Choice) -> bool {
        self.0 & 1 << choice.index() != 0
    }

    /// True if it is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its choices, by index.
    pub fn iter(self) -> impl Iterator<Item = Choice> {
        Choice::all().filter(move |choice| self.contains(*choice))
    }
}

impl fmt::Debug for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
