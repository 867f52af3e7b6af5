//! Advice of programs about their files, in datagrams of 64 bytes: from the library that is loaded
//! into them (`preload`) to whoever gives hints (`thermocline hint run`, `thermocline hint watch`).
//!
//! Words of programs and of the kernel's interface, not yet of hints: what follows from them is
//! decided where they arrive. The file itself goes along as a descriptor, beside the bytes, whose
//! layout `format` has.
//!
//! Invariants: encoding allocates nothing and cannot fail; a datagram that is decoded is encoded to
//! the same bytes again; no bytes make decoding panic. It does not send, and knows no socket.

mod format;

pub use format::{DATAGRAM_BYTES, VERSION};

/// The environment variable that names the socket to which datagrams go.
pub const SOCKET_VARIABLE: &str = "THERMOCLINE_HINTS_SOCKET";

/// Greatest number of a kind of use: 0 to this are the numbers of `policy::hints::Usage`.
pub const USAGE_MAX: u8 = 6;
/// Greatest number of a data lifetime: 0 to this are Linux's write-life hints.
pub const LIFE_MAX: u8 = 5;
/// Requests wait no longer than this for others, milliseconds.
pub const BACKGROUND_MS_MAX: u32 = 10_000;

const FLAGS: u32 = 0b1111;
const METADATA: u32 = 1;
const PIN: u32 = 2;
const DEMOTE: u32 = 4;
const PREFETCH: u32 = 8;

/// One message of one program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// From where on in the file, bytes.
    pub offset: u64,
    /// Length in bytes; 0 is to the file's end.
    pub length: u64,
    /// Datagrams that could not be sent since the last one that was; those are lost.
    pub unsent: u32,
    /// The advice.
    pub said: Said,
}

/// Advice of a program about a file, or about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// `posix_fadvise`.
    Advice(Advice),
    /// `readahead`: it is needed now.
    ReadAhead,
    /// `fcntl(F_SET_RW_HINT)`: how long the file lives, 0 to [`LIFE_MAX`].
    Life(u8),
    /// `ioprio_set` for the process itself or its group; of no file.
    Priority(Priority),
    /// `thermocline_hint_fd` and `thermocline_hint_path`: in hints' own words.
    Hint(Hint),
}

/// The advice of `posix_fadvise`, by its numbers on Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Nothing is known.
    Normal,
    /// Read here and there.
    Random,
    /// Read from front to back.
    Sequential,
    /// Needed soon.
    WillNeed,
    /// Not needed soon.
    DontNeed,
    /// Needed once.
    NoReuse,
}

impl Advice {
    const ALL: [Advice; 6] = [
        Advice::Normal,
        Advice::Random,
        Advice::Sequential,
        Advice::WillNeed,
        Advice::DontNeed,
        Advice::NoReuse,
    ];

    /// The one of this number (`POSIX_FADV_…` of Linux on all but s390); `None`: there is none.
    pub const fn numbered(number: u32) -> Option<Advice> {
        if number < 6 { Some(Advice::ALL[number as usize]) } else { None }
    }
}

/// The class of I/O priority, by its number on Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Whatever the nice value says.
    None,
    /// Before all others.
    RealTime,
    /// Its turn among others.
    BestEffort,
    /// Served when nobody else wants something.
    Idle,
}

impl Priority {
    const ALL: [Priority; 4] =
        [Priority::None, Priority::RealTime, Priority::BestEffort, Priority::Idle];

    /// The one of this number (`IOPRIO_CLASS_…`); `None`: there is none.
    pub const fn numbered(number: u32) -> Option<Priority> {
        if number < 4 { Some(Priority::ALL[number as usize]) } else { None }
    }
}

/// The hints of a program that knows of hints; what is not known stays 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hint {
    /// True for what a file system keeps for itself.
    pub metadata: bool,
    /// Placements shall leave it where it is.
    pub pin: bool,
    /// Not needed soon.
    pub demote: bool,
    /// Needed soon.
    pub prefetch: bool,
    /// A number for what belongs together; 0: none.
    pub stream: u16,
    /// Kind of use, 0 to [`USAGE_MAX`].
    pub usage: u8,
    /// Lifetime class, 0 to [`LIFE_MAX`].
    pub life: u8,
    /// Background: requests may wait so long, up to [`BACKGROUND_MS_MAX`]; 0: they do not.
    pub background_ms: u32,
    /// Milliseconds from now after which the hint is forgotten; 0: the receiver's choice.
    pub expires_ms: u64,
}

impl Hint {
    /// The wishes as bits: metadata 1, pin 2, demote 4, prefetch 8.
    pub const fn flags(&self) -> u32 {
        let mut flags = if self.metadata { METADATA } else { 0 };
        flags |= if self.pin { PIN } else { 0 };
        flags |= if self.demote { DEMOTE } else { 0 };
        flags | if self.prefetch { PREFETCH } else { 0 }
    }

    /// The same hint with these wishes; `None`: a bit means nothing.
    pub const fn with_flags(self, flags: u32) -> Option<Hint> {
        if flags & !FLAGS != 0 {
            return None;
        }
        let (metadata, pin) = (flags & METADATA != 0, flags & PIN != 0);
        let (demote, prefetch) = (flags & DEMOTE != 0, flags & PREFETCH != 0);
        Some(Hint { metadata, pin, demote, prefetch, ..self })
    }

    /// True if every number is within its bounds.
    pub const fn is_sound(&self) -> bool {
        self.usage <= USAGE_MAX && self.life <= LIFE_MAX && self.background_ms <= BACKGROUND_MS_MAX
    }
}

/// Bytes that are no datagram of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// Another length.
    #[error("a datagram of {0} bytes; {DATAGRAM_BYTES} were expected")]
    Length(usize),
    /// Something else altogether.
    #[error("bytes 0 to 3 are not THAD: this is no advice of a program")]
    Magic,
    /// Another version.
    #[error("version {0}; this program reads {VERSION}: use the library that came with it")]
    Version(u16),
    /// A field holds what this version does not know.
    #[error("byte {0} does not hold what version {VERSION} knows")]
    Field(usize),
}

#[cfg(test)]
mod tests;
