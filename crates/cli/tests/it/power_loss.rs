//! Power fails under the engine on block devices of a guest's kernel: the short form of
//! `cargo xtask powerloss`, whose documentation is docs/testing/powerloss.md.
//!
//! Needs user-mode-linux, busybox-static and nbd-client, and the program `xtask` beside ours, as a
//! build of the workspace leaves it; the test says SKIPPED without them.

use crate::program;
use std::path::Path;
use std::process::Command;

#[test]
#[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
fn what_was_flushed_is_there_after_a_loss_of_power() {
    let binary = Path::new(env!("CARGO_BIN_EXE_thermocline"));
    let xtask = binary.with_file_name("xtask");
    if !xtask.is_file() {
        println!("SKIPPED: loss of power: no xtask beside the program; `cargo build -p xtask`");
        return;
    }
    let folder = program::folder("power-loss");
    let words = "powerloss --seed 3 --requests 300 --points 40 --binary";
    let mut command = Command::new(xtask);
    command.args(words.split(' ')).arg(binary).arg("--folder").arg(folder);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("SKIPPED") || said.contains("wrong at 0 points"), "{said}");
}
