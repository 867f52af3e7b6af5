//! The Verilated worker of a core, for the tests that need one.
//!
//! `cargo xtask hdl build` makes them. A worker is used only if none of its sources is newer: a
//! core of other sources would pass or fail for what is not there any more. The gateway's live
//! tests have this file as a module, too.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Set where the workers were just built (`cargo xtask ci`): a test that finds none fails.
const REQUIRED: &str = "THERMOCLINE_HDL_WORKERS";

/// The worker of core `core` (function and width, such as `0-8`). Without one that is up to date,
/// a test says SKIPPED, or fails where workers are required.
pub(super) fn verilated(core: &str) -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let binary = root.join(format!("target/hdl/worker-{core}/worker"));
    match up_to_date(&binary, &root.join("hdl")) {
        Ok(()) => Some(binary),
        Err(why) => {
            let advice = format!("{why}; `cargo xtask hdl build --cores {core}` makes one");
            assert!(std::env::var_os(REQUIRED).is_none(), "{advice}");
            println!("SKIPPED: {advice}");
            None
        }
    }
}

/// Looks whether `binary` is there and none of its sources in `hdl` is newer; says why if not.
pub(super) fn up_to_date(binary: &Path, hdl: &Path) -> Result<(), String> {
    let Ok(built) = modified(binary) else {
        return Err(format!("no Verilated core at {}", binary.display()));
    };
    let mut sources = vec![hdl.join("sim/worker.cpp")];
    for entry in hdl.join("rtl").read_dir().expect("the cores' sources") {
        sources.push(entry.expect("an entry of a folder").path());
    }
    match sources.iter().find(|source| modified(source).expect("a source's time") > built) {
        Some(newer) => Err(format!("{} is older than {}", binary.display(), newer.display())),
        None => Ok(()),
    }
}

fn modified(path: &Path) -> std::io::Result<SystemTime> {
    path.metadata()?.modified()
}
