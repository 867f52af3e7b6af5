//! Memory that a connection's requests hold: the contents of writes until they are answered, those
//! of reads until they have left.
//!
//! The first [`OWN_BYTES`] are the connection's own, so that small requests never wait for other
//! clients. What goes beyond must be granted first, out of a budget that all connections share; who
//! owns the budget asks for [`Holding::surplus`] when requests have ended.

/// Bytes that a connection may hold without asking.
pub(crate) const OWN_BYTES: u64 = 256 << 10;

/// Bytes that a session holds for a client.
#[derive(Debug, Default)]
pub(super) struct Holding {
    held: u64,
    /// Bytes of the shared budget.
    granted: u64,
}

impl Holding {
    /// Bytes held.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Bytes granted and not given back.
    pub(super) fn granted(&self) -> u64 {
        self.granted
    }

    /// Bytes that must be granted before `more` can be held.
    pub(super) fn lacks(&self, more: u64) -> u64 {
        (self.held + more).saturating_sub(OWN_BYTES + self.granted)
    }

    /// The budget gave so much.
    pub(super) fn grant(&mut self, bytes: u64) {
        self.granted += bytes;
    }

    pub(super) fn hold(&mut self, bytes: u64) {
        self.held += bytes;
    }

    pub(super) fn let_go(&mut self, bytes: u64) {
        assert!(bytes <= self.held, "nobody lets go of more than is held");
        self.held -= bytes;
    }

    /// Takes back what was granted and is not needed any more.
    pub(super) fn surplus(&mut self) -> u64 {
        let needed = self.held.saturating_sub(OWN_BYTES).min(self.granted);
        let surplus = self.granted - needed;
        self.granted = needed;
        surplus
    }
}
