//! Mutants: bugs that stand in the code and are planted by a test, to see whether the tests notice.
//!
//! A place in the code asks [`mutant`] whether the bug of this name is planted, and does the wrong
//! thing if it is. So a bug moves with the code around it, one build holds all of them, and each is
//! chosen at run time, for one thread. Builds without debug assertions hold none: there
//! [`mutant`] is `false` at compile time.
//!
//! A crate that has mutants keeps the list of their names, and a test that plants each in turn.
//! docs/testing/simulation.md says what a surviving mutant means.

use std::cell::Cell;

thread_local! {
    static PLANTED: Cell<&'static str> = const { Cell::new("") };
}

/// True while the mutant `name` is planted on this thread; always false without debug assertions.
///
/// ```
/// use thermocline_units::mutants::{mutant, plant};
/// let slots_free = |slots: u32| slots - u32::from(!mutant("one_slot_too_many"));
/// assert_eq!(slots_free(8), 7);
/// # if cfg!(debug_assertions) {
/// let planted = plant("one_slot_too_many");
/// assert_eq!(slots_free(8), 8);
/// drop(planted);
/// assert_eq!(slots_free(8), 7);
/// # }
/// ```
#[inline(always)]
pub fn mutant(name: &str) -> bool {
    cfg!(debug_assertions) && PLANTED.with(|planted| planted.get() == name)
}

/// The mutant that is planted on this thread; for a thread that works for it, to plant it as well.
pub fn planted() -> Option<&'static str> {
    let name = if cfg!(debug_assertions) { PLANTED.with(Cell::get) } else { "" };
    Some(name).filter(|name| !name.is_empty())
}

/// Plants the mutant `name` on this thread until the guard is dropped; replaces one planted before.
///
/// # Panics
/// Without debug assertions: no mutant would be noticed there, because there is none.
pub fn plant(name: &'static str) -> Planted {
    if !cfg!(debug_assertions) {
        panic!("mutants exist in builds with debug assertions only");
    }
    assert!(!name.is_empty(), "a mutant has a name");
    PLANTED.with(|planted| planted.set(name));
    Planted(())
}

/// Keeps a mutant planted; dropped, the thread runs the right code again.
#[derive(Debug)]
#[must_use = "the mutant is gone as soon as this is dropped"]
pub struct Planted(());

impl Drop for Planted {
    fn drop(&mut self) {
        PLANTED.with(|planted| planted.set(""));
    }
}
