//! Planted dependencies on machine, day and chance are found in the laboratory, and only there.

use super::check;
use crate::tidy::Source;

fn complaints(path: &str, text: &str) -> usize {
    check(&Source::read(path, text)).len()
}

#[test]
fn what_differs_between_machines_days_and_runs_is_found() {
    for text in [
        "use std::collections::HashMap;\nfn f(map: HashMap<u32, u32>) {}",
        "let seen = HashSet::new();",
        "let now = std::time::SystemTime::now();",
        "let began = std::time::Instant::now();",
        "let state = RandomState::new();",
        "let cores = std::thread::available_parallelism();",
        "let threads = rayon::current_num_threads();",
        "let mut rng = rand::thread_rng();",
        "let id: ThreadId = std::thread::current().id();",
    ] {
        assert_eq!(complaints("crates/sim/src/replay/mod.rs", text), 1, "{text}");
        assert_eq!(complaints("crates/experiments/src/lib.rs", text), 1, "{text}");
        assert_eq!(complaints("crates/engine/src/lib.rs", text), 0, "{text}");
        assert_eq!(complaints("crates/sim/src/tests.rs", text), 0, "{text}");
    }
}

#[test]
fn costs_are_measured_where_they_are_told_and_fixed_hashers_are_fine() {
    let text = "let began = Instant::now();";
    assert_eq!(complaints("crates/sim/src/processor.rs", text), 0);
    assert_eq!(complaints("crates/sim/src/machine/run.rs", text), 1);
    let text = "fn f(map: &HashMap<u32, u32, FixedState>) {} // SystemTime";
    assert_eq!(complaints("crates/sim/src/lib.rs", text), 0);
}
