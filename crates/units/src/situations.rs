//! Situations: named places in the code that tell a test that a run came through them.
//!
//! A random test proves nothing about what it never reaches. Where something rare happens the code
//! calls [`met`] with its name; the test takes the names after each run and counts the runs that
//! met each (coverage marks: cov-mark, A. Kladov). Builds without debug assertions note nothing:
//! there [`met`] does nothing.

use std::cell::RefCell;
use std::collections::BTreeSet;

thread_local! {
    static MET: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
}

/// Notes that this thread came through the situation `name`.
#[inline(always)]
pub fn met(name: &'static str) {
    if cfg!(debug_assertions) {
        MET.with(|met| met.borrow_mut().insert(name));
    }
}

/// Notes the situation `name` if `condition` holds.
#[inline(always)]
pub fn met_if(condition: bool, name: &'static str) {
    if condition {
        met(name);
    }
}

/// Takes the situations that this thread met since they were last taken, by name.
pub fn take() -> BTreeSet<&'static str> {
    MET.with(RefCell::take)
}
