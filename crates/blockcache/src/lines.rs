//! The lines in the slots of the fast device: which they are, what is true of them, and which of
//! them the table must be told of.

use crate::format::{self, WAYS};
use std::ops::Deref;
use thermocline_policy::cache::{Placed, SetRule, Sets};
use thermocline_units::Bytes;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;

/// The marks of a slot.
pub(crate) mod mark {
    /// The slot holds its line's contents. Without it, the slot only waits until the table does not
    /// name it any more.
    pub(crate) const VALID: u8 = 1;
    /// The slow device does not have these contents.
    pub(crate) const DIRTY: u8 = 2;
    /// The table, as it is or may be on the medium, names the slot's line.
    pub(crate) const RECORDED: u8 = 4;
    /// The table is being written without the slot.
    pub(crate) const FREEING: u8 = 8;
    /// The table is being written with the slot for the first time.
    pub(crate) const RECORDING: u8 = 16;
    /// The line was written since it began to be taken back.
    pub(crate) const REWRITTEN: u8 = 32;

    /// True if marks agree with each other: only contents that are there are dirty or rewritten,
    /// and the table is told one thing of a slot that it names.
    pub(crate) fn agree(marks: u8) -> bool {
        let has = |mark: u8| marks & mark != 0;
        let is_there = has(VALID) || !has(DIRTY | REWRITTEN);
        let is_named = has(RECORDED) || !has(FREEING | RECORDING);
        is_there && is_named && !(has(FREEING) && has(RECORDING))
    }
}

/// All slots, with their lines and marks.
#[derive(Debug)]
pub(crate) struct Lines {
    index: Sets,
    /// Slots whose lines are cached, and of these those that the slow device does not have.
    cached: u32,
    dirty: u32,
    /// Slots that became dirty and are not named by the table, or are named and not dirty any more.
    /// Some may have changed again.
    noted: Vec<u32>,
}

impl Lines {
    /// Empty slots.
    pub(crate) fn new(slots: u32, policy: SetRule) -> Lines {
        Lines { index: Sets::new(slots, WAYS, policy), cached: 0, dirty: 0, noted: Vec::new() }
    }

    /// Slots whose lines are cached, and slots whose lines are dirty.
    pub(crate) fn counts(&self) -> (u32, u32) {
        (self.cached, self.dirty)
    }

    /// True if the slot has all of these marks.
    pub(crate) fn has(&self, slot: u32, marks: u8) -> bool {
        self.index.marks(slot) & marks == marks
    }

    /// Sets and clears marks of a slot; dirty ones are counted, and told to the table in time.
    pub(crate) fn remark(&mut self, slot: u32, set: u8, clear: u8) {
        let before = self.index.marks(slot);
        let after = before & !clear | set;
        assert!(mark::agree(after), "marks {after:#b} of slot {slot} contradict each other");
        assert!(self.index.line_in(slot).is_some(), "only a slot with a line has marks");
        self.index.set_marks(slot, after);
        let gained =
            |mark: u8| u32::from(after & mark != 0).wrapping_sub(u32::from(before & mark != 0));
        self.cached = self.cached.wrapping_add(gained(mark::VALID));
        self.dirty = self.dirty.wrapping_add(gained(mark::DIRTY));
        assert!(self.cached <= self.index.slots(), "no more lines are cached than there are slots");
        assert!(self.dirty <= self.cached, "a dirty line is cached");
        // The table names dirty lines; whoever became one, or is none any more, is looked at.
        let named = after & mark::RECORDED != 0;
        if gained(mark::DIRTY) != 0 && (after & mark::DIRTY != 0) != named {
            self.note(slot);
        }
    }

    /// The contents of a slot are nothing any more. Somebody may still be reading them: the slot
    /// stays its line's until another one takes it.
    pub(crate) fn forget(&mut self, slot: u32) {
        self.remark(slot, 0, mark::VALID | mark::DIRTY | mark::REWRITTEN);
        self.index.expect_last(slot);
    }

    /// A slot's line was asked for.
    pub(crate) fn hit(&mut self, slot: u32) {
        self.index.hit(slot);
    }

    /// Puts a line into the empty slot in which the table has it.
    pub(crate) fn restore(&mut self, line: u32, slot: u32) {
        self.index.restore(line, slot);
    }

    /// The slot that holds `line`'s contents.
    pub(crate) fn slot_of(&self, line: u32) -> Option<u32> {
        self.index.find(line).filter(|&slot| self.has(slot, mark::VALID))
    }

    /// Offset of a slot on the fast device.
    pub(crate) fn slot_offset(&self, slot: u32) -> Bytes {
        format::slot_offset(self.index.slots(), slot)
    }

    /// Gives a line a slot of its set, whose line leaves if it `may_leave`; `None`: none may.
    pub(crate) fn take_slot(
        &mut self,
        line: u32,
        may_leave: impl Fn(&Sets, u32) -> bool,
    ) -> Option<u32> {
        debug_assert!(self.index.find(line).is_none(), "a line is in one slot");
        let Placed { slot, marks, .. } = self.index.place(line, may_leave)?;
        met_if(marks & mark::VALID != 0, "a line leaves for another");
        if marks & mark::VALID != 0 && !mutant("line_that_left_stays_counted") {
            assert!(self.cached > 0, "what leaves was counted");
            self.cached -= 1;
        }
        assert!(marks & mark::DIRTY == 0, "the slow device has what leaves");
        assert!(self.index.line_in(slot) == Some(line), "the slot is the line's from now on");
        Some(slot)
    }

    /// The table is to be told of a slot.
    pub(crate) fn note(&mut self, slot: u32) {
        self.noted.push(slot);
    }

    /// True if the table is to be told of some slot.
    pub(crate) fn has_news(&self) -> bool {
        !self.noted.is_empty()
    }

    /// Slots that the table is to be told of, since this was last called.
    pub(crate) fn take_news(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.noted)
    }
}

/// Read only: marks are set by [`Lines::remark`], which counts them.
impl Deref for Lines {
    type Target = Sets;

    fn deref(&self) -> &Sets {
        &self.index
    }
}
