//! A planted public function that nobody outside names is found, and nothing else.

use super::excesses;
use crate::tidy::Source;

fn places(files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<Source<'_>> = files.iter().map(|(p, text)| Source::read(p, text)).collect();
    excesses(&sources).into_iter().map(|excess| excess.place).collect()
}

const PLANTED: (&str, &str) = (
    "crates/sim/src/run.rs",
    "//! Runs.\n\npub fn survey() {}\npub const LINES_MAX: u64 = 4;\npub(crate) fn own() {}\n\
     pub struct Run;\nimpl Run {\n    pub fn start() {}\n}\n",
);

#[test]
fn a_public_function_or_constant_that_only_its_own_crate_names_is_found() {
    let own = ("crates/sim/src/lab.rs", "fn lab() { crate::run::survey(); own(LINES_MAX) }\n");
    let test = ("crates/sim/src/run/tests.rs", "fn test() { survey() }\n");
    let comment = ("crates/cli/src/lab.rs", "// Not `survey`.\nfn lab(resurvey: u8) {}\n");
    let found = places(&[PLANTED, own, test, comment]);
    assert_eq!(found, ["crates/sim/src/run.rs::survey", "crates/sim/src/run.rs::LINES_MAX"]);
}

#[test]
fn a_name_in_another_crate_or_in_a_program_beside_the_crate_is_enough() {
    let caller = ("crates/cli/src/lab.rs", "fn lab() { thermocline_sim::run::survey() }\n");
    let bench = ("crates/sim/benches/run.rs", "fn main() { lines(LINES_MAX) }\n");
    assert_eq!(places(&[PLANTED, caller, bench]), [""; 0]);
}

#[test]
fn other_crates_are_not_judged() {
    assert_eq!(places(&[("crates/units/src/lib.rs", "pub fn nobody() {}\n")]), [""; 0]);
}
