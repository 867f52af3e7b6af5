//! A pool whose device hangs under a running engine: its file is on a file system that is frozen.
//!
//! Needs root, a loop device and NBD clients; the test says SKIPPED without them.

use crate::engine::{json, over_socket};
use crate::mounted::shell;
use crate::program;
use crate::up::{URI, Up, clients_are_here};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file system of its own at `folder/frozen`; thawed and let go when dropped.
struct Freezer(PathBuf);

impl Freezer {
    #[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
    fn new(folder: &Path) -> Option<Freezer> {
        let freezer = Freezer(folder.to_path_buf());
        let make = "truncate -s 64M image; mkfs.ext4 -q -F image; mkdir frozen; \
                    mount -o loop image frozen; fsfreeze -f frozen; fsfreeze -u frozen";
        let made = shell(folder, make);
        if let Err(error) = &made {
            println!("SKIPPED: no file system can be frozen here ({error})");
        }
        made.ok().map(|_| freezer)
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = shell(&self.0, "fsfreeze -u frozen; umount -l frozen");
    }
}

const CONFIG: &str = r#"
data = "pools"
[[pool]]
name = "hangs"
path = "../frozen/hangs.pool"
size = "16MiB"
suspect-after = "1s"
fail-after = "4s"
[[pool]]
name = "well"
size = "64MiB"
[[volume]]
size = "32MiB"
"#;

/// The state of the first pool, once it is `wanted`; states that came before must be in `before`.
fn wait_for(up: &Up, wanted: &str, before: &[&str]) -> serde_json::Value {
    loop {
        let pool = json(up, "status")["pools"][0].clone();
        let state = pool["state"].as_str().unwrap().to_string();
        if state == wanted {
            return pool;
        }
        assert!(before.contains(&state.as_str()), "{state} on the way to {wanted}");
    }
}

#[test]
fn a_pool_that_hangs_is_suspect_then_failed_and_the_others_serve_on() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("hanging");
    let Some(freezer) = Freezer::new(&folder) else { return };
    std::fs::write(folder.join("engine.toml"), CONFIG).unwrap();
    let (up, _) = Up::start_config(&folder, "engine.toml");
    let freezer = freezer; // Dropped before the engine: one that is killed waits for its thaw.
    let io = |command: &str| up.run("qemu-io", &["-f", "raw", "-c", command, URI]);
    io("write -P 7 0 1M").unwrap();
    io("write -P 8 24M 1M").unwrap();
    shell(&folder, "fsfreeze -f frozen").unwrap();
    let mut client = Command::new("qemu-io")
        .args(["-f", "raw", "-c", "write -P 9 0 1M", URI])
        .current_dir(&folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pool = wait_for(&up, "suspect", &["active"]);
    assert!(pool["unanswered_seconds"].as_f64().unwrap() >= 1.0, "{pool}");
    let metrics = over_socket(&folder, "/metrics").1;
    assert!(metrics.contains("thermocline_pool_unanswered_seconds{pool=\"hangs\"} "), "{metrics}");
    wait_for(&up, "dead", &["suspect", "active"]);
    client.wait().unwrap(); // With an error, or from elsewhere: it has its answer.
    io("write -P 5 28M 1M").unwrap();
    assert!(!io("read -P 5 28M 1M").unwrap().contains("verification failed"));
    let events = || over_socket(&folder, "/v1/events?from=1").1;
    for told in ["hangs is suspect", "hangs.pool has not answered a request", "is given up"] {
        // Events of pools come once a second.
        while !events().contains(told) {
            std::thread::yield_now();
        }
    }
    drop(freezer); // What the kernel still had ends now, and is nobody's.
    assert!(!io("read -P 5 28M 1M").unwrap().contains("verification failed"));
    assert_eq!(up.stop("-TERM"), Some(0));
}
