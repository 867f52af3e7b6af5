//! Verdicts about other machines.

use super::look::{clock, is_listed, kernel, memlock, memory, open_files};
use super::{Report, Verdict};

#[test]
fn an_old_kernel_is_noted_and_a_new_one_is_not() {
    assert_eq!(kernel("6.1.0-13-amd64").verdict, Verdict::Ok);
    assert_eq!(kernel("5.11.0").verdict, Verdict::Ok);
    assert_eq!(kernel("5.10.0-28-amd64").verdict, Verdict::Note);
    assert_eq!(kernel("4.19").verdict, Verdict::Note);
    assert_eq!(kernel("").verdict, Verdict::Note);
}

#[test]
fn locked_memory_matters_only_to_old_kernels() {
    let few = Some(65_536);
    assert_eq!(memlock(few, "5.10.0").verdict, Verdict::Note);
    assert_eq!(memlock(few, "6.1.0").verdict, Verdict::Ok);
    assert_eq!(memlock(None, "5.10.0").verdict, Verdict::Ok);
}

#[test]
fn limits_and_clocks_are_judged() {
    assert_eq!(open_files(Some(1024)).verdict, Verdict::Note);
    assert_eq!(open_files(None).verdict, Verdict::Ok);
    assert_eq!(clock("tsc", 25.0).verdict, Verdict::Ok);
    assert_eq!(clock("hpet", 1500.0).verdict, Verdict::Note);
    let small = memory("MemTotal: 500000 kB\nMemAvailable:  100000 kB\n");
    assert_eq!(small.verdict, Verdict::Note);
    assert!(small.found.contains("MiB"), "{}", small.found);
}

#[test]
fn modules_are_found_by_their_whole_name() {
    let list = "kernel/drivers/block/nbd.ko.xz:\nkernel/net/xnbd.ko: kernel/nbd.ko\n";
    assert!(is_listed(list, "nbd"));
    assert!(is_listed(list, "xnbd"));
    assert!(!is_listed("kernel/net/xnbd.ko: kernel/nbd.ko\n", "nbd"), "a dependency of another");
}

#[test]
fn what_is_missing_says_what_it_is_for_and_what_to_do() {
    let checks = vec![kernel("6.1.0"), open_files(Some(64)).missing("raise it")];
    let text = Report { version: "1", fit: false, checks }.text();
    assert!(text.starts_with("ok       kernel      Linux 6.1.0\n"), "{text}");
    assert!(text.contains("MISSING  open files  at most 64\n"), "{text}");
    assert!(text.contains("needed for many clients\n"), "{text}");
    assert!(text.ends_with("The engine cannot run: 1 thing missing.\n"), "{text}");
}
