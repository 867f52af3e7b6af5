//! Files of `/proc` are read as the kernel writes them, for this process too.

use super::{Process, Processes};
use std::time::{Duration, Instant};

#[test]
fn a_name_with_blanks_and_parentheses_does_not_shift_what_follows() {
    let stat = "42 (a (b) c) S 7 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 39 19 1 0 5 6 7 8 9 0 0 0 0 0 0 \
                0 0 0 0 0 17 1 0 5 0 0 0";
    let wanted = Process { name: "a (b) c".to_string(), parent: 7, nice: 19, policy: 5 };
    assert_eq!(Process::parse(stat), Some(wanted));
    assert_eq!(Process::parse("42 (cut"), None);
    assert_eq!(Process::parse(") ("), None);
}

#[test]
fn a_child_is_below_us_and_we_are_not_below_it() {
    let mut child = std::process::Command::new("cat")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let (us, it) = (std::process::id() as i32, child.id() as i32);
    let (mut processes, now) = (Processes::default(), Instant::now());
    assert!(processes.is_below(now, it, us));
    assert!(!processes.is_below(now, us, it));
    assert!(!processes.is_background(now, it));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(processes.is_below(now, it, us), "it is remembered for a while");
}

/// True if a command comes to be seen as one of the background.
fn is_background(command: &[&str]) -> bool {
    let mut child = std::process::Command::new(command[0])
        .args(&command[1..])
        .arg("cat")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let mut found = false;
    // It changes its own priority, a moment after it was started.
    while !found && start.elapsed() < Duration::from_secs(5) {
        found = Processes::default().is_background(Instant::now(), child.id() as i32);
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    found
}

#[test]
fn nice_and_idle_processes_are_of_the_background() {
    if std::process::Command::new("ionice").arg("--version").output().is_err() {
        eprintln!("SKIPPED: needs ionice");
        return;
    }
    assert!(is_background(&["nice", "-n", "19"]));
    assert!(is_background(&["ionice", "-c", "3"]));
}

#[test]
fn who_said_to_be_idle_is_and_so_are_its_children_until_it_says_otherwise() {
    let (us, now) = (std::process::id() as i32, Instant::now());
    let mut processes = Processes::default();
    assert!(!processes.has_said_idle(now, us));
    let parent = processes.get(now, us).unwrap().parent;
    processes.note_idle(parent, true);
    assert!(processes.has_said_idle(now, us) && processes.is_background(now, us));
    processes.note_idle(parent, false);
    assert!(!processes.has_said_idle(now, us));
}
