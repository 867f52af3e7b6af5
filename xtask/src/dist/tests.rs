//! Parts of a release, read by others' programs where they are there.

use super::deb::{architecture, archive, newest_glibc};
use super::{Options, sbom};
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(String::from).collect()
}

#[test]
fn options_are_read_and_others_refused() {
    let options = Options::parse(&words("--binary a --out b")).unwrap();
    assert_eq!(options, Options { binary: Some("a".into()), out: Some(PathBuf::from("b")) });
    assert!(Options::parse(&words("--binary")).is_err());
    assert!(Options::parse(&words("--fast")).is_err());
}

#[test]
fn versions_of_glibc_are_numbers_and_not_text() {
    assert_eq!(newest_glibc("GLIBC_2.9 GLIBC_2.34) GLIBC_2.4"), (2, 34));
    assert_eq!(newest_glibc(""), (2, 17));
}

/// GNU ar is the judge: names, lengths and contents, an odd one among them.
#[test]
fn a_package_is_for_the_processor_of_its_program() {
    let header = |machine: &str| format!("ELF Header:\n  Class: ELF64\n  Machine: {machine}\n");
    let x86 = header("                          Advanced Micro Devices X86-64");
    assert_eq!(architecture(&x86).unwrap(), "amd64");
    assert_eq!(architecture(&header("AArch64")).unwrap(), "arm64");
    assert!(architecture(&header("MIPS R3000")).is_err() && architecture("").is_err());
}

#[test]
fn an_archive_is_what_ar_reads() {
    let members = [("debian-binary", b"2.0\n".to_vec()), ("odd", b"abc".to_vec()), ("x", vec![7])];
    let path = std::env::temp_dir().join(format!("thermocline-ar-{}.deb", std::process::id()));
    std::fs::write(&path, archive(&members, 1_700_000_000)).unwrap();
    let ar = |how: &str, name: &str| {
        let mut command = Command::new("ar");
        command.arg(how).arg(&path);
        if !name.is_empty() {
            command.arg(name);
        }
        command.output()
    };
    let Ok(listed) = ar("t", "") else {
        return println!("SKIPPED: no ar to read the archive");
    };
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "debian-binary\nodd\nx\n");
    for (name, content) in &members {
        assert_eq!(ar("p", name).unwrap().stdout, *content, "{name}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_list_of_components_has_what_is_linked_and_nothing_else() {
    let package = |name: &str, source: Option<&str>| {
        json!({ "id": name, "name": name, "version": "1.0.0", "source": source,
            "license": "MIT/Apache-2.0" })
    };
    let dependency =
        |name: &str, kind: Option<&str>| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
    let metadata = json!({
        "packages": [package("thermocline-cli", None), package("a", Some("r")),
            package("b", Some("r")), package("t", Some("r")), package("other", None)],
        "resolve": { "nodes": [
            { "id": "thermocline-cli", "deps": [dependency("a", None), dependency("t", Some("dev"))] },
            { "id": "a", "deps": [dependency("b", None)] },
            { "id": "b", "deps": [] }, { "id": "t", "deps": [] }, { "id": "other", "deps": [] },
        ] },
    });
    let document = sbom::of(&metadata).unwrap();
    let names: Vec<_> =
        document["components"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(document["components"][0]["purl"], "pkg:cargo/a@1.0.0");
    assert_eq!(document["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
    assert_eq!(document["metadata"]["component"]["name"], "thermocline-cli");
}
