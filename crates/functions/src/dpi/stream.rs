//! State of the inspection of one direction of a flow: 64 bytes.

use super::ruleset::Ruleset;

/// Bits of [`Direction::flags`].
pub(super) mod flag {
    /// A packet was seen.
    pub(in super::super) const STARTED: u32 = 1;
    /// The stream has ended.
    pub(in super::super) const ENDED: u32 = 2;
    /// Bytes behind a gap are buffered.
    pub(in super::super) const BUFFERED: u32 = 4;
    /// More rules are partly matched than there is room for here.
    pub(in super::super) const SPILLED: u32 = 8;
    /// Mark in exported state only: inspection begins anew.
    pub(in super::super) const RESTARTED: u32 = 16;
    /// The inspection did not see the stream from its beginning: bytes may have passed elsewhere.
    /// Not in exported state: each direction that is read has it.
    pub(in super::super) const RESUMED: u32 = 32;
}

/// A rule of which some elements were found. `seen` is 0: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Partial {
    pub(super) rule: u16,
    pub(super) seen: u16,
    /// End of the last element of its chain, the low 32 bits of the position.
    pub(super) end: u32,
}

/// One direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Direction {
    /// Cases of the last bytes, the last one lowest: 1 for a letter in upper case. As many of them
    /// count as the rules need; what is above is left from earlier.
    pub(super) cases: u128,
    /// Bytes that were inspected.
    pub(super) position: u64,
    /// States of the automata.
    pub(super) states: [u32; 4],
    pub(super) partial: [Partial; 2],
    /// Sequence number of the next byte.
    pub(super) next: u32,
    pub(super) flags: u32,
}

const _: () = assert!(size_of::<Direction>() == 64);

impl Direction {
    /// A direction of which nothing was seen.
    pub(super) fn new(rules: &Ruleset) -> Direction {
        let mut states = [0; 4];
        for (state, table) in states.iter_mut().zip(&rules.tables) {
            *state = table.start();
        }
        Direction {
            cases: 0,
            position: 0,
            states,
            partial: [Partial::default(); 2],
            next: 0,
            flags: 0,
        }
    }

    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Forgets what was matched in part: inspection begins anew at the next byte.
    pub(super) fn restart(&mut self, rules: &Ruleset) {
        let Direction { position, next, flags, .. } = *self;
        *self = Direction { position, next, flags, ..Direction::new(rules) };
    }

    /// Notes the cases of bytes that were inspected, of the last `kept` ones at most.
    pub(super) fn note_cases(&mut self, bytes: &[u8], kept: usize) {
        for byte in &bytes[bytes.len().saturating_sub(kept)..] {
            self.cases = self.cases << 1 | u128::from(byte.is_ascii_uppercase());
        }
    }

    /// Cases of the `length` bytes, 1 to 128, before `end` of a piece that follows the stream.
    pub(super) fn cases_before(&self, piece: &[u8], end: usize, length: usize) -> u128 {
        let start = end.saturating_sub(length);
        let within = piece[start..end].iter();
        let within = within.fold(0, |all, byte| all << 1 | u128::from(byte.is_ascii_uppercase()));
        let before = length - (end - start);
        if before == 0 {
            return within;
        }
        let earlier = self.cases & (u128::MAX >> (128 - before));
        // `before` is at least 1, so fewer than 128 bits are shifted.
        earlier << (end - start) | within
    }
}
