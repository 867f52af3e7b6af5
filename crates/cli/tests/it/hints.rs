//! Hints given to a running engine: by command, by document, by the file system on the volume.

use crate::engine::{ask, json, over_socket};
use crate::program;
use crate::up::{URI, Up, clients_are_here};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The schema as it is published.
const SCHEMA: &str = include_str!("../../../../docs/formats/hints.schema.json");
/// The example of the guide.
const EXAMPLE: &str = include_str!("../../../../docs/formats/hints.json");

/// The pool on which the first chunk at `mib` lives.
fn pool_at(up: &Up, mib: u64) -> u64 {
    json(up, &format!("policy explain v0 {mib}MiB"))["chunk"]["pools"][0].as_u64().unwrap()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not come to that: {what}");
    }
}

#[test]
fn hints_decide_where_first_writes_go_and_what_moves_and_are_told_and_forgotten() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("hints");
    let up = Up::start_with(&folder, "--size 64MiB --no-emulation --policy none --epoch 500ms");
    ask(&up, "hint give v0 --offset 8MiB --length 4MiB --usage archival").unwrap();
    up.run("qemu-io", &["-f", "raw", URI, "-c", "write -P 7 0 40M"]).unwrap();
    assert_eq!([0, 8, 11].map(|mib| pool_at(&up, mib)), [0, 2, 2]);
    assert!(pool_at(&up, 38) > 0, "scm is too small for that");
    let told = ask(&up, "hint give v0 --offset 38MiB --length 1MiB --metadata --source meta");
    assert_eq!(told.unwrap(), "1 hint taken\n");
    until("metadata rises", || pool_at(&up, 38) == 0);
    let status = json(&up, "hint list");
    assert_eq!(status["done"]["placed_chunks"], 4, "{status:#}");
    assert_eq!(status["done"]["claimed_chunks"], 5);
    let names = status["sources"].as_array().unwrap().iter().map(|source| &source["name"]);
    assert_eq!(names.collect::<Vec<_>>(), ["cli", "meta"]);
    for (wrong, why) in [
        ("hint give v0 --usage often", "`often` is no usage; write unknown, read-intensive"),
        (
            "hint give v0 --offset 64MiB --metadata",
            "at 64 MiB, beyond the end of a volume of 64 MiB",
        ),
        ("hint give v9 --metadata", "there is no volume v9; there are: v0"),
        ("hint give v0 --background 99999", "requests may wait 1 to 10000 ms, not 99999"),
        ("hint forget nobody", "no hints came from nobody; sources are: cli, meta"),
        ("hint send missing.json", "missing.json: No such file"),
    ] {
        let said = ask(&up, wrong).unwrap_err();
        assert!(said.contains(why), "{wrong}: {said}");
    }
    ask(&up, "hint forget meta").unwrap();
    assert_eq!(json(&up, "hint list")["ranges"], 1);
    up.run("qemu-io", &["-f", "raw", URI, "-c", "read -P 7 0 40M"]).unwrap();
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn a_stream_says_where_its_first_writes_go_before_them() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("hints-streams");
    let up = Up::start_with(&folder, "--size 64MiB --no-emulation --policy none --epoch 500ms");
    let at = |stream: &str| format!("nbd+unix:///v0@{stream}?socket=pools/nbd.sock");
    up.run("qemu-io", &["-f", "raw", &at("archival"), "-c", "write -P 7 0 4M"]).unwrap();
    up.run("qemu-io", &["-f", "raw", URI, "-c", "write -P 8 2M 4M"]).unwrap();
    assert_eq!([0, 3, 4, 5].map(|mib| pool_at(&up, mib)), [2, 2, 0, 0]);
    // What is there is not hinted anew by another stream.
    up.run("qemu-io", &["-f", "raw", &at("random-write"), "-c", "write -P 9 3M 1M"]).unwrap();
    let status = json(&up, "hint list");
    let names = status["sources"].as_array().unwrap().iter().map(|source| &source["name"]);
    assert_eq!(names.collect::<Vec<_>>(), ["stream archival"]);
    assert_eq!((&status["ranges"], &status["done"]["placed_chunks"]), (&1.into(), &4.into()));
    let unknown = up.run("nbdinfo", &[&at("often")]).unwrap_err();
    assert!(unknown.contains("for export: v0@often"), "{unknown}");
    assert_eq!(up.run("nbdinfo", &["--size", &at("mixed")]).unwrap().trim(), "67108864");
    let checks = ["read -P 7 0 2M", "read -P 8 2M 1M", "read -P 9 3M 1M", "read -P 8 4M 2M"];
    for check in checks {
        let said = up.run("qemu-io", &["-f", "raw", URI, "-c", check]).unwrap();
        assert!(!said.contains("failed"), "{check}: {said}");
    }
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn pins_by_name_are_told_and_refused_beyond_their_budget() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("hints-pins");
    let config = "data = \"pools\"\n[[pool]]\nname = \"all\"\nsize = \"32MiB\"\n\
                  [[volume]]\nname = \"v0\"\nsize = \"16MiB\"\n[hints]\npins = 0.1\n";
    std::fs::write(folder.join("pins.toml"), config).unwrap();
    let up = Up::start_on(&folder, &["pins.toml"]);
    up.run("qemu-io", &["-f", "raw", URI, "-c", "write -P 7 0 8M"]).unwrap();
    let job = json(&up, "migrate v0 --do pin --length 8MiB");
    let (done, skipped) = (job["done"].as_u64().unwrap(), &job["skipped"]);
    assert!((1..=3).contains(&done), "a tenth of some 24 chunks: {job}");
    let (reason, count) = skipped.as_object().unwrap().iter().next().unwrap();
    assert!(reason.contains("[hints] pins"), "{reason}");
    assert_eq!(count.as_u64().unwrap() + done, 8);
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn the_published_example_is_taken_and_its_schema_is_the_programs() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("hints-document");
    let up = Up::start_with(&folder, "--size 64MiB --no-emulation --policy none");
    assert_eq!(ask(&up, "hint schema").unwrap(), SCHEMA);
    std::fs::write(folder.join("hints.json"), EXAMPLE).unwrap();
    let file = folder.join("hints.json");
    let taken = json(&up, &format!("hint send {}", file.display()));
    let document: Value = serde_json::from_str(EXAMPLE).unwrap();
    assert_eq!(taken["taken"].as_u64(), Some(document["hints"].as_array().unwrap().len() as u64));
    let known = &serde_json::from_str::<Value>(SCHEMA).unwrap()["$defs"]["NewHint"]["properties"];
    for hint in document["hints"].as_array().unwrap() {
        for key in hint.as_object().unwrap().keys() {
            assert!(known.get(key).is_some(), "{key} is not in the schema");
        }
    }
    for (text, why) in [
        (EXAMPLE.replace("\"version\": 1", "\"version\": 2"), "the document's version is 2"),
        (EXAMPLE.replace("\"usage\"", "\"use\""), "unknown field `use`"),
        ("{".to_string(), "EOF while parsing"),
    ] {
        std::fs::write(&file, text).unwrap();
        let said = ask(&up, &format!("hint send {}", file.display())).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(over_socket(&folder, "/v1/hints").0, 200);
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// Small files and a large one, as ext4 or btrfs.
#[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
fn image(folder: &Path, kind: &str) -> Option<()> {
    let tree = folder.join("tree");
    std::fs::create_dir_all(tree.join("small")).unwrap();
    for number in 0..50 {
        std::fs::write(tree.join(format!("small/{number}.txt")), vec![b'x'; 9000]).unwrap();
    }
    std::fs::write(tree.join("large.bin"), vec![b'y'; 24 << 20]).unwrap();
    let image = std::fs::File::create(folder.join("image")).unwrap();
    image.set_len(128 << 20).unwrap();
    let (program, arguments) = match kind {
        "ext4" => ("mkfs.ext4", vec!["-q", "-d", "tree", "image"]),
        _ => ("mkfs.btrfs", vec!["-q", "--rootdir", "tree", "--shrink", "image"]),
    };
    let made = Command::new(program).args(arguments).current_dir(folder).output();
    if !made.is_ok_and(|made| made.status.success()) {
        println!("SKIPPED: {program} makes no file system here");
        return None;
    }
    Some(())
}

#[test]
fn a_file_system_on_the_volume_tells_what_is_metadata_and_what_a_small_file() {
    if !clients_are_here() {
        return;
    }
    for kind in ["ext4", "btrfs"] {
        let folder = program::folder(&format!("hints-{kind}"));
        let Some(()) = image(&folder, kind) else { continue };
        let config = "data = \"pools\"\n[[pool]]\nname = \"fast\"\nsize = \"32MiB\"\n\
                      [[pool]]\nname = \"slow\"\nsize = \"192MiB\"\n[[volume]]\nsize = \"128MiB\"\n\
                      [policy]\nname = \"static\"\nepoch = \"1s\"\n[hints]\nsurvey = \"1s\"\n";
        std::fs::write(
            folder.join("engine.toml"),
            format!("tactics = [\"slowest-first\"]\n{config}"),
        )
        .unwrap();
        let (up, _) = Up::start_config(&folder, "engine.toml");
        up.run("nbdcopy", &["--flush", "image", URI]).unwrap();
        let mut status = Value::Null;
        until("the file system is surveyed and its hints are followed", || {
            status = json(&up, "hint list");
            let source = &status["sources"][0];
            source["ranges"].as_u64() > Some(0) && status["done"]["moves"].as_u64() > Some(0)
        });
        assert_eq!(status["sources"][0]["name"], "fs/v0", "{kind}: {status:#}");
        // Byte 0 of ext4, and what stands at 64 KiB of btrfs, are superblocks.
        until("the superblock's chunk rises", || pool_at(&up, 0) == 0);
        up.run("nbdcopy", &[URI, "back"]).unwrap();
        let [put, back] = ["image", "back"].map(|name| std::fs::read(folder.join(name)).unwrap());
        assert!(back[..put.len()] == put, "{kind}: hints change no data");
        assert_eq!(up.stop("-TERM"), Some(0));
    }
}

#[test]
fn a_document_that_is_too_long_is_refused_with_how_much_goes_together() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("hints-long");
    let up = Up::start_with(&folder, "--size 64MiB --no-emulation --policy none");
    let document = |count: usize, directory: usize| {
        let directory = "d".repeat(directory);
        let hint =
            format!(r#"{{"volume": "v0", "length_bytes": 4096, "directory": "{directory}"}}"#);
        let hints = vec![hint; count].join(",");
        format!(r#"{{"version": 1, "source": "long", "hints": [{hints}]}}"#)
    };
    let refused = |count, directory| {
        std::fs::write(folder.join("long.json"), document(count, directory)).unwrap();
        ask(&up, "hint send long.json").unwrap_err()
    };
    let said = refused(3000, 4000);
    assert!(said.contains("more than 8 MiB; give at most 10000 hints at once"), "{said}");
    let said = refused(10_001, 1);
    assert!(said.contains("10001 hints are too many; give at most 10000"), "{said}");
    // As many as are sent at once, with the longest of paths.
    std::fs::write(folder.join("full.json"), document(1600, 4096)).unwrap();
    assert_eq!(ask(&up, "hint send full.json").unwrap(), "1,600 hints taken\n");
    assert_eq!(up.stop("-TERM"), Some(0));
}
