//! Text of a failure: the shortest plan that fails, and what was seen.

use crate::plan::Plan;
use crate::run::{Extras, Failure};
use crate::shrink;
use std::fmt::Write;

/// True if the environment asks for every device request of the shortest plan.
fn verbose() -> bool {
    std::env::var_os("THERMOCLINE_VERBOSE").is_some()
}

/// Shrinks a failing plan and shows what is left of it.
pub(crate) fn failure(plan: &Plan, failure: &Failure, extras: Extras) -> String {
    let (short, seen) = shrink::shrink(plan, failure, extras);
    let mut text = format!("{}\n\n", seen.what);
    writeln!(text, "shortest plan found, of seed {:#x}:", short.seed).expect("to a string");
    writeln!(text, "  {:?}", short.settings).expect("to a string");
    for (index, pool) in short.pools.iter().enumerate() {
        writeln!(text, "  p{index} {pool:?}").expect("to a string");
    }
    for (number, step) in short.steps.iter().enumerate() {
        let mark = if number == seen.step { '>' } else { ' ' };
        writeln!(text, "{mark} {number:>3}  {step:?}").expect("to a string");
    }
    if seen.step >= short.steps.len() {
        text.push_str(">      (closing checks)\n");
    }
    if verbose() {
        text.push_str("\ntime/ns      event\n");
        text.push_str(&crate::run::trace(&short, extras));
    }
    text
}
