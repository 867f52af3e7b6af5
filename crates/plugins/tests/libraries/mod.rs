//! Libraries for the tests: compiled from C, and the examples in Rust.

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Compiles a library from C; `None`, and SKIPPED, without a compiler.
#[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
pub(crate) fn compiled(source: &Path, folder: &TempDir) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = folder.path().join("made.so");
    let words = ["-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"];
    let mut cc = Command::new("cc");
    cc.args(words).arg(here.join("include")).arg("-o").arg(&library).arg(source);
    let Ok(done) = cc.output() else {
        println!("SKIPPED: needs a C compiler, cc");
        return None;
    };
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(library)
}

/// The library of an example in Rust. Cargo builds examples as tests where all targets are tested,
/// so it is asked for here.
pub(crate) fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let target = tests.ancestors().nth(3).unwrap();
    let build = ["build", "--locked", "--offline", "--quiet", "--example", name];
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(build).current_dir(env!("CARGO_MANIFEST_DIR")).env("CARGO_TARGET_DIR", target);
    assert!(cargo.status().unwrap().success(), "the example builds");
    target.join(format!("debug/examples/lib{name}.so"))
}
