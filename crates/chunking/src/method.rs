//! The methods by name, with an expected size: `gear:2KiB`.

use crate::candidates::{Candidates, NoCandidates};
use crate::chunker::Chunker;
use crate::gear::Gear;
use crate::rabin_source::RabinSource;
use crate::rabin16::Rabin16;
use crate::sampling::{MaxP, ModP, SAMPLING_PERIOD};
use crate::selection::{BelowMin, Sizes};
use std::fmt;
use std::str::FromStr;
use thermocline_units::{Bytes, nearest};

/// The least expected size, bytes.
pub const EXPECTED_MIN: u32 = 64;
/// The greatest expected size, bytes.
pub const EXPECTED_MAX: u32 = 64 * 1024;

/// The greatest chunk of the packet methods, bytes: what an Ethernet frame carries of TCP.
const PACKET_BYTES: u32 = 1460;

/// A way to find cut points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// No cut points.
    None,
    /// Chunks of one size.
    Fixed,
    /// [`Gear`], normalized.
    Gear,
    /// [`Rabin16`], normalized.
    Rabin16,
    /// [`RabinSource`]: VNRE's function, one strength.
    RabinSource,
    /// [`ModP`]: packet-level sampling.
    ModP,
    /// [`MaxP`]: packet-level local maxima.
    MaxP,
}

/// Every method with its name and one line.
pub const METHODS: [(Method, &str, &str); 7] = [
    (Method::None, "none", "no chunks"),
    (Method::Fixed, "fixed", "chunks of one size"),
    (Method::Gear, "gear", "gear hash, normalized (FastCDC, 2016)"),
    (Method::Rabin16, "rabin16", "Rabin over GF(2), degree 16, normalized; by SIMD"),
    (Method::RabinSource, "rabin-source", "Rabin modulo a prime as in VNRE, R = 16, M = 32"),
    (Method::ModP, "modp", "windows whose fingerprint is 0 modulo 32 (Spring, Wetherall, 2000)"),
    (Method::MaxP, "maxp", "windows whose fingerprint is the greatest around (EndRE, 2010)"),
];

/// A method with its expected size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunking {
    method: Method,
    /// Bytes; 0 where the method has no size.
    expected: u32,
    below_min: BelowMin,
}

/// A chunking in text that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChunkingError {
    /// The name is unknown.
    #[error("there is no chunking method `{name}`{}; write one of {}", suggestion(name), names())]
    Unknown {
        /// The name as written.
        name: String,
    },
    /// The size cannot be read.
    #[error("`{size}` is no size of chunks; write it like gear:2KiB")]
    Size {
        /// The size as written.
        size: String,
    },
    /// The size is out of range.
    #[error(
        "chunks of {given} bytes cannot be expected: give a power of two from {EXPECTED_MIN} to \
         {EXPECTED_MAX} bytes (for fixed, any number in that range)"
    )]
    Range {
        /// The size in bytes.
        given: u64,
    },
    /// The method has a size and none was given, or the reverse.
    #[error("`{name}` {}", if *.wants { "needs a size, like gear:2KiB" } else { "takes no size" })]
    Arity {
        /// The method.
        name: &'static str,
        /// True if a size is needed.
        wants: bool,
    },
}

impl Method {
    /// The name, lower case with hyphens.
    pub fn name(self) -> &'static str {
        METHODS.iter().find(|entry| entry.0 == self).expect("every method has an entry").1
    }

    /// True if an expected size belongs to the method.
    pub fn has_size(self) -> bool {
        !matches!(self, Method::None | Method::ModP | Method::MaxP)
    }
}

impl Chunking {
    /// No chunks.
    pub const NONE: Chunking =
        Chunking { method: Method::None, expected: 0, below_min: BelowMin::Ignore };

    /// A method that has a size, with chunks of about `expected` bytes.
    ///
    /// # Errors
    /// When the method has no size, or the size is out of range: 64 B to 64 KiB, a power of two but
    /// for [`Method::Fixed`].
    pub fn new(method: Method, expected: Bytes) -> Result<Chunking, ChunkingError> {
        if !method.has_size() {
            return Err(ChunkingError::Arity { name: method.name(), wants: false });
        }
        let given = expected.0;
        let range = u64::from(EXPECTED_MIN)..=u64::from(EXPECTED_MAX);
        if !range.contains(&given) || (method != Method::Fixed && !given.is_power_of_two()) {
            return Err(ChunkingError::Range { given });
        }
        Ok(Chunking { method, expected: given as u32, below_min: BelowMin::Ignore })
    }

    /// A method that has no size.
    ///
    /// # Errors
    /// When the method needs one.
    pub fn without_size(method: Method) -> Result<Chunking, ChunkingError> {
        if method.has_size() {
            return Err(ChunkingError::Arity { name: method.name(), wants: true });
        }
        Ok(Chunking { method, ..Chunking::NONE })
    }

    /// The same with another treatment of candidates below the least size.
    pub fn with(self, below_min: BelowMin) -> Chunking {
        Chunking { below_min, ..self }
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The expected size; `None` where the method has none.
    pub fn expected(&self) -> Option<Bytes> {
        self.method.has_size().then_some(Bytes(u64::from(self.expected)))
    }

    /// The least, expected and greatest size of its chunks.
    pub fn sizes(&self) -> Sizes {
        match self.method {
            Method::None => Sizes { min: u32::MAX, expected: u32::MAX, max: u32::MAX },
            Method::Fixed => {
                Sizes { min: self.expected, expected: self.expected, max: self.expected }
            }
            Method::ModP | Method::MaxP => {
                Sizes { min: 1, expected: SAMPLING_PERIOD, max: PACKET_BYTES }
            }
            Method::Gear | Method::Rabin16 | Method::RabinSource => Sizes::around(self.expected),
        }
    }

    /// The method's candidates, computed the fastest way this processor has.
    pub fn candidates(&self) -> Box<dyn Candidates> {
        match self.method {
            Method::None | Method::Fixed => Box::new(NoCandidates),
            Method::Gear => Box::new(Gear::new(self.expected)),
            Method::Rabin16 => Box::new(Rabin16::new(self.expected)),
            Method::RabinSource => Box::new(RabinSource::new(self.expected)),
            Method::ModP => Box::new(ModP),
            Method::MaxP => Box::new(MaxP),
        }
    }

    /// A chunker at the beginning of a stream.
    pub fn chunker(&self) -> Chunker {
        Chunker::new(self.candidates(), self.sizes(), self.below_min)
    }
}

impl FromStr for Chunking {
    type Err = ChunkingError;

    fn from_str(text: &str) -> Result<Chunking, ChunkingError> {
        let (name, size) = match text.trim().split_once(':') {
            Some((name, size)) => (name, Some(size)),
            None => (text.trim(), None),
        };
        let entry = METHODS.iter().find(|entry| entry.1 == name);
        let Some(&(method, ..)) = entry else {
            return Err(ChunkingError::Unknown { name: name.to_string() });
        };
        let Some(size) = size else { return Chunking::without_size(method) };
        let bytes: Bytes =
            size.parse().map_err(|_| ChunkingError::Size { size: size.to_string() })?;
        Chunking::new(method, bytes)
    }
}

impl fmt::Display for Chunking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.expected() {
            Some(expected) => write!(f, "{}:{}", self.method.name(), compact(expected)),
            None => f.write_str(self.method.name()),
        }
    }
}

/// A size without a space, so that it can be given back on a command line.
fn compact(bytes: Bytes) -> String {
    let kib = bytes.0 / 1024;
    if kib * 1024 == bytes.0 { format!("{kib}KiB") } else { format!("{}B", bytes.0) }
}

fn names() -> String {
    METHODS.map(|entry| entry.1).join(", ")
}

fn suggestion(name: &str) -> String {
    let near = nearest(name, METHODS.iter().map(|entry| entry.1));
    near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}

/// Bits that the two tests of a normalized method look at: one fewer and one more than the expected
/// size has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strengths {
    pub(crate) loose: u32,
    pub(crate) strict: u32,
}

impl Strengths {
    /// Strengths around an expected size, a power of two, at most 16 bits: at 64 KiB the strict
    /// test is as strong as the plain one would be.
    pub(crate) fn around(expected: u32) -> Strengths {
        assert!(expected.is_power_of_two(), "an expected size is a power of two");
        let bits = expected.trailing_zeros();
        Strengths { loose: bits - 1, strict: (bits + 1).min(16) }
    }
}
