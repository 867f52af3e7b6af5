//! Refusals: what an administrator asked for and did not get. Nothing has changed then.

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The image has no signature.
    #[error("the image `{0}` is not signed; sign it with a key that this pool trusts")]
    Unsigned(String),
    /// The signature does not fit the bytes, or its key is not trusted.
    #[error("the signature of the image `{0}` does not hold for these bytes and trusted keys")]
    BadSignature(String),
    /// No slot is large enough.
    #[error("the image `{name}` needs {room} LUTs, and the largest slot has {most}")]
    TooLarge {
        /// The image's function.
        name: String,
        /// Units of logic that it needs.
        room: u32,
        /// Those of the largest slot.
        most: u32,
    },
    /// A newer version is there.
    #[error("version {have} of `{name}` is there, and {given} is not newer")]
    NotNewer {
        /// The image's function.
        name: String,
        /// Version that the pool has.
        have: u32,
        /// Version of the image.
        given: u32,
    },
    /// A number in the image is out of range.
    #[error("the image `{0}` states no size, no room or no cost; each is above 0")]
    Empty(String),
    /// A chain or an image names a function that is not declared.
    #[error("there is no function number {0}; declare it first")]
    NoFunction(u16),
    /// A function of this name is there.
    #[error("a function `{0}` is there already")]
    KnownFunction(String),
    /// A chain has no function, too many, or one twice.
    #[error("a chain has 1 to {most} functions, each once")]
    Chain {
        /// Functions of a chain, at most.
        most: usize,
    },
    /// No such card or slot.
    #[error("there is no {0} with this number")]
    NoSuch(&'static str),
    /// The slot's state does not allow it.
    #[error("slot {slot} is {state}; {wanted}")]
    Busy {
        /// The slot.
        slot: u16,
        /// Its state.
        state: &'static str,
        /// State that would do.
        wanted: &'static str,
    },
}
