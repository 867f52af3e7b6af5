//! Regression: `--force` replaced devices, FIFOs and symbolic links by a file, so that
//! `-o /dev/null --force` as root destroyed the device.

use crate::program::{folder, run};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::Command;

const CONVERT: &str = "trace convert --synth web,requests=200,vms=1 --to csv --force";

fn made(command: &str, words: &[&str]) -> bool {
    Command::new(command).args(words).status().is_ok_and(|status| status.success())
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

#[test]
fn a_fifo_is_written_and_stays_a_fifo() {
    let folder = folder("output_fifo");
    let fifo = folder.join("pipe");
    assert!(made("mkfifo", &[fifo.to_str().unwrap()]));
    let reading = fifo.clone();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        std::fs::File::open(reading).unwrap().read_to_string(&mut text).unwrap();
        text
    });
    run(&folder, &format!("{CONVERT} --output pipe")).succeeded();
    assert!(std::fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    assert_eq!(reader.join().unwrap().lines().count(), 201, "a header and 200 requests");
}

#[test]
fn what_a_link_leads_to_is_written_and_the_link_stays() {
    let folder = folder("output_link");
    std::fs::write(folder.join("target.csv"), "old, and longer than nothing").unwrap();
    symlink("target.csv", folder.join("link.csv")).unwrap();
    symlink("made.csv", folder.join("dangling.csv")).unwrap();
    let without = CONVERT.trim_end_matches(" --force");
    run(&folder, &format!("{without} --output link.csv")).ended_with(2).says("--force");
    for (link, target) in [("link.csv", "target.csv"), ("dangling.csv", "made.csv")] {
        run(&folder, &format!("{CONVERT} --output {link}")).succeeded();
        assert!(folder.join(link).is_symlink(), "{link}");
        let text = std::fs::read_to_string(folder.join(target)).unwrap();
        assert_eq!(text.lines().count(), 201, "{target}");
    }
    let left = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(left, 4, "no part is left behind");
}

/// The input was cut off before it was read, and its first requests were reported as all of them.
#[test]
fn a_link_to_the_input_does_not_cut_the_input() {
    let folder = folder("output_onto_input");
    run(&folder, "trace convert --synth web,requests=20000,vms=1 --to csv -o big.csv").succeeded();
    let before = std::fs::read(folder.join("big.csv")).unwrap();
    symlink("big.csv", folder.join("latest.csv")).unwrap();
    run(&folder, "trace convert big.csv --to csv -o latest.csv --force").succeeded();
    assert!(std::fs::read(folder.join("big.csv")).unwrap() == before, "all of it, once more");
    std::fs::write(folder.join("wrong.csv"), [&before[..], b"not a request\n"].concat()).unwrap();
    let _ = run(&folder, "trace convert wrong.csv --to csv -o latest.csv --force").ended_with(2);
    assert!(std::fs::read(folder.join("big.csv")).unwrap() == before, "an error leaves the old");
}

#[test]
fn a_device_is_written_and_stays_a_device() {
    let folder = folder("output_device");
    let null = folder.join("null");
    if !made("mknod", &[null.to_str().unwrap(), "c", "1", "3"]) {
        eprintln!("SKIPPED: only root makes devices");
        return;
    }
    run(&folder, "lab cache --synth web,requests=200,vms=1 --policy lru --html null --force")
        .succeeded();
    assert!(std::fs::metadata(&null).unwrap().file_type().is_char_device());
    assert_eq!(size(&null), 0);
}

#[test]
fn a_directory_is_not_a_file() {
    let folder = folder("output_directory");
    std::fs::create_dir(folder.join("reports")).unwrap();
    run(&folder, &format!("{CONVERT} --output reports")).ended_with(2).says("is a directory");
}
