//! Completions and manual pages: bash itself completes, and every command has a page.

use crate::program::{folder, run};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Words that bash offers behind these, the last of them unfinished.
fn offered(script: &Path, words: &[&str]) -> Vec<String> {
    let list = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let (last, at) = (words[words.len() - 1], words.len() - 1);
    let before = words[words.len() - 2];
    let text = format!(
        "source '{}' || exit 1; COMP_WORDS=({list}); COMP_CWORD={at}; \
         _thermocline thermocline '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display()
    );
    let output = Command::new("bash").args(["--norc", "-c", &text]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_string).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let folder = folder("completions");
    let script = folder.join("thermocline.bash");
    std::fs::write(&script, run(&folder, "completions bash").succeeded().stdout()).unwrap();
    assert_eq!(offered(&script, &["thermocline", "tu"]), ["tunnel"]);
    assert_eq!(offered(&script, &["thermocline", "lab", "tun"]), ["tunnel"]);
    assert_eq!(offered(&script, &["thermocline", "lab", "tunnel", "--cong"]), ["--congestion"]);
    assert_eq!(offered(&script, &["thermocline", "completions", "z"]), ["zsh"]);
    for shell in ["zsh", "fish"] {
        let text = run(&folder, &format!("completions {shell}")).succeeded().stdout();
        assert!(text.contains("congestion"), "{shell}: options of commands are in it");
    }
    run(&folder, "completions csh").ended_with(2);
}

#[test]
fn every_command_has_a_page() {
    let folder = folder("man");
    run(&folder, "man --to .").succeeded();
    let pages: BTreeSet<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for name in ["thermocline", "thermocline-up", "thermocline-lab-cache", "thermocline-pool-add"] {
        assert!(pages.contains(&format!("{name}.1")), "{name} is not among {pages:?}");
    }
    for page in &pages {
        let text = std::fs::read_to_string(folder.join(page)).unwrap();
        let name = page.strip_suffix(".1").unwrap();
        assert!(text.contains(&format!(".TH {name} 1")), "{page} begins with its name");
        assert!(text.contains(".SH SYNOPSIS"), "{page} says how the command is written");
    }
    let one = run(&folder, "man lab cache").succeeded().stdout();
    assert_eq!(one, std::fs::read_to_string(folder.join("thermocline-lab-cache.1")).unwrap());
    run(&folder, "man --to .").ended_with(2).says("--force");
    run(&folder, "man --to . --force").succeeded();
    run(&folder, "man lab cash").ended_with(2).says("`lab` has no command `cash`");
    run(&folder, "man --to new/folder").succeeded();
    assert!(folder.join("new/folder/thermocline.1").exists(), "the folder is made");
    run(&folder, "man --to thermocline.1").ended_with(2).says("thermocline.1: ");
}
