//! `cargo xtask dist --binary FILE` over one program, twice: the same bytes, whatever the folder,
//! the umask, the language, the time zone and the times of files are. A little program in C stands
//! in for the real one, so that nothing is compiled a second time; without a compiler: SKIPPED.

#![allow(clippy::unwrap_used)] // A test that cannot go on stops where it is.
#![allow(clippy::print_stdout)] // The gate repeats what is skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Says what it is asked for, and writes man pages.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
int main(int count, char **words) {
    if (count > 3 && !strcmp(words[1], "man")) {
        const char *names[] = {"thermocline.1", "thermocline-up.1", "thermocline-lab-sweep.1"};
        for (int i = 0; i < 3; i++) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", words[3], names[i]);
            FILE *page = fopen(path, "w");
            if (!page || fprintf(page, ".TH %s 1\n", names[i]) < 0 || fclose(page)) return 1;
        }
        return 0;
    }
    for (int i = 1; i < count; i++) puts(words[i]);
    return 0;
}
"#;

/// An empty folder of this test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Packs a copy of the program in these surroundings; the sums of all files.
fn packed(program: &Path, out: &Path, umask: &str, at: &str, language: &str, zone: &str) -> String {
    let copy = out.join("built");
    std::fs::copy(program, &copy).unwrap();
    let touched = Command::new("touch").args(["-d", at]).arg(&copy).status();
    assert!(touched.unwrap().success());
    let script = "umask \"$1\"; exec \"$2\" dist --binary \"$3\" --out \"$4\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh", umask, env!("CARGO_BIN_EXE_xtask")]).arg(&copy);
    shell.arg(out.join("dist")).env("SOURCE_DATE_EPOCH", "1700000000");
    shell.env("LC_ALL", language).env("TZ", zone);
    let ran = shell.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    std::fs::read_to_string(out.join("dist/SHA256SUMS")).unwrap()
}

/// Compiles the program into a folder; `None`, and SKIPPED, without a compiler.
fn compiled(folder: &Path) -> Option<PathBuf> {
    let source = folder.join("program.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let program = folder.join("program");
    let Ok(status) = Command::new("cc").arg("-g").arg("-o").args([&program, &source]).status()
    else {
        println!("SKIPPED: needs a C compiler, cc");
        return None;
    };
    assert!(status.success());
    Some(program)
}

#[test]
fn one_program_is_packed_twice_into_the_same_bytes() {
    let folder = folder("dist-twice");
    let Some(program) = compiled(&folder) else { return };
    let long = folder.join("a-folder-whose-name-is-longer-than-that-of-the-other-one/and/deeper");
    std::fs::create_dir_all(&long).unwrap();
    let one = packed(&program, &folder, "022", "2020-02-02 02:02:02", "C", "UTC");
    let other = packed(&program, &long, "077", "2031-03-03 03:03:03", "C.UTF-8", "Asia/Tokyo");
    assert_eq!(one, other);
    let names: Vec<&str> = one.lines().filter_map(|line| line.split("  ").nth(1)).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    for ending in [".deb", ".tar.xz", ".cdx.json", ".debug", "thermocline"] {
        assert!(names.iter().any(|name| name.ends_with(ending)), "{ending} not in {names:?}");
    }

    let tar = names.iter().find(|name| name.ends_with(".tar.xz")).unwrap();
    let mut list = Command::new("tar");
    let listed = list.arg("-tvf").arg(folder.join("dist").join(tar)).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for line in [
        "drwxr-xr-x root/root",
        "./usr/include/thermocline/thermocline_policy.h",
        "./usr/include/thermocline/thermocline_placement.h",
        "./usr/share/man/man1/thermocline-up.1.gz",
        "./usr/share/bash-completion/completions/thermocline",
    ] {
        assert!(listed.contains(line), "{line} not in\n{listed}");
    }
}

/// dpkg is the judge, over an empty root. Scripts are not run: the root has no shell, and is no
/// place for users. `cargo xtask dist upgrade` runs them in a whole Debian.
#[test]
fn dpkg_unpacks_the_package_into_an_empty_root() {
    let folder = folder("dist-dpkg");
    let Some(program) = compiled(&folder) else { return };
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|said| said.stdout == b"0\n");
    if !is_root || Command::new("dpkg").arg("--version").output().is_err() {
        return println!("SKIPPED: needs dpkg, and root");
    }
    packed(&program, &folder, "027", "2020-02-02 02:02:02", "C", "UTC");
    let root = folder.join("root");
    for part in ["info", "updates", "triggers"] {
        std::fs::create_dir_all(root.join("var/lib/dpkg").join(part)).unwrap();
    }
    std::fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let dpkg = |words: &[&str]| {
        let mut command = Command::new("dpkg");
        let ran = command.arg(format!("--root={}", root.display())).args(words).output().unwrap();
        assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };
    let mut files = std::fs::read_dir(folder.join("dist")).unwrap();
    let is_package = |path: &PathBuf| path.extension() == Some("deb".as_ref());
    let package = files.find_map(|file| Some(file.unwrap().path()).filter(is_package)).unwrap();
    dpkg(&["--force-depends", "--unpack", &package.display().to_string()]);
    let listed = dpkg(&["-L", "thermocline"]);
    for path in [
        "/usr/bin/thermocline",
        "/usr/include/thermocline/thermocline_policy.h",
        "/usr/include/thermocline/thermocline_placement.h",
        "/usr/lib/systemd/system/thermocline.socket",
        "/usr/share/doc/thermocline/examples/lru.c",
        "/usr/share/doc/thermocline/examples/baseline.c",
    ] {
        assert!(listed.lines().any(|line| line == path), "{path} not in\n{listed}");
    }
    let mode = |path: &str| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o7777
    };
    assert_eq!((mode("usr/bin/thermocline"), mode("usr/include")), (0o755, 0o755));
    assert_eq!(mode("usr/include/thermocline/thermocline_policy.h"), 0o644);
    for script in ["postinst", "prerm", "postrm"] {
        let path = root.join(format!("var/lib/dpkg/info/thermocline.{script}"));
        assert!(Command::new("sh").arg("-n").arg(path).status().unwrap().success(), "{script}");
    }
    let mut cc = Command::new("cc");
    cc.args(["-fsyntax-only", "-Wall", "-Werror", "-I"]).arg(root.join("usr/include/thermocline"));
    for example in ["lru.c", "baseline.c"] {
        cc.arg(root.join("usr/share/doc/thermocline/examples").join(example));
    }
    assert!(cc.status().unwrap().success(), "the example compiles with the header beside it");
    assert!(dpkg(&["-s", "thermocline"]).contains("Status: install ok unpacked"));
}
