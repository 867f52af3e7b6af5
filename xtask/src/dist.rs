//! `cargo xtask dist [--binary FILE] [--out FOLDER]`: what a release consists of. `cargo xtask dist
//! try [--binary FILE]` tries its package in a clean Debian (`trial`); so does the gate.
//!
//! 1. The program is built for `x86_64-unknown-linux-musl`, as one static file; without that target
//!    or without musl-gcc for the host, which is said. `--binary` packs one that is there.
//! 2. Debug symbols go into a file of their own, and the rest is stripped.
//! 3. The program itself writes its man pages and completions.
//! 4. A Debian package, the same files as an archive, a list of components (CycloneDX) and
//!    SHA256SUMS are made.
//!
//! Equal inputs give equal bytes: files are packed in the order of their names, owned by root, with
//! the time of `SOURCE_DATE_EPOCH`, or else of the last commit. `tests/dist.rs` packs one program
//! twice, in surroundings that differ.

mod deb;
mod sbom;
#[cfg(test)]
mod tests;
mod trial;

use crate::{Failure, workspace};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-musl";
/// Profile of Cargo.toml that the program is built with.
const PROFILE: &str = "dist";
/// The stripped program is to stay below this.
const SIZE_MAX: u64 = 25_000_000;
const USAGE: &str =
    "usage: cargo xtask dist [--binary FILE] [--out FOLDER], or dist try [--binary FILE]";

/// Choices of the command line.
#[derive(Debug, Default, PartialEq)]
struct Options {
    binary: Option<PathBuf>,
    out: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options, Failure> {
        let mut options = Options::default();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let value = match word.as_str() {
                "--binary" => &mut options.binary,
                "--out" => &mut options.out,
                _ => return Err(Failure::Usage(format!("`{word}` is no option of it; {USAGE}"))),
            };
            let path = words.next().ok_or_else(|| Failure::Usage(USAGE.to_string()))?;
            *value = Some(PathBuf::from(path));
        }
        Ok(options)
    }
}

/// The subcommand.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if let Some((word, rest)) = arguments.split_first()
        && word == "try"
    {
        return try_out(Options::parse(rest)?);
    }
    let options = Options::parse(arguments)?;
    let out = options.out.unwrap_or_else(|| workspace::root().join("target/dist"));
    let epoch = epoch()?;
    let built = match options.binary {
        Some(binary) => binary,
        None => build(epoch)?,
    };
    make_folder(&out)?;
    make_folder(&out.join("empty"))?; // The container file copies it, to own a folder.
    let program = out.join("thermocline");
    split(&built, &program, &out.join("thermocline.debug"))?;
    let package = deb::Package::new(&program, version()?, epoch)?;
    let names = package.write(&out)?;
    write(&out.join("thermocline.cdx.json"), sbom::document()?.as_bytes())?;
    let mut files = ["thermocline", "thermocline.cdx.json", "thermocline.debug"].to_vec();
    files.extend(names.iter().map(String::as_str));
    files.sort_unstable();
    let sums = output(Command::new("sha256sum").args(&files).current_dir(&out))?;
    write(&out.join("SHA256SUMS"), &sums)?;
    let size = fs::metadata(&program).map_err(|e| format!("{}: {e}", program.display()))?.len();
    println!("{}\nthe program: {size} bytes, {}", out.display(), package.linking());
    print!("{}", String::from_utf8_lossy(&sums));
    if size > SIZE_MAX {
        println!("LARGE: the program has more than the {SIZE_MAX} bytes aimed at");
    }
    Ok(())
}

fn try_out(options: Options) -> Result<(), Failure> {
    if options.out.is_some() {
        return Err(Failure::Usage(USAGE.to_string()));
    }
    let built = match options.binary {
        Some(binary) => binary,
        None => build(epoch()?)?,
    };
    if let Some(untried) = trial::run(&built)? {
        println!("SKIPPED: {untried}");
    }
    Ok(())
}

/// The gate's share: the package of the program that the gate has built; `Some` says what was
/// skipped.
pub(crate) fn gate() -> Result<Option<String>, Failure> {
    trial::gate()
}

/// Time that all files get, seconds since 1970.
fn epoch() -> Result<u64, Failure> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => {
            let mut git = Command::new("git");
            git.args(["log", "-1", "--format=%ct"]).current_dir(workspace::root());
            String::from_utf8_lossy(&output(&mut git)?).into_owned()
        }
    };
    let wrong = || Failure::Failed(format!("SOURCE_DATE_EPOCH={}: not seconds", text.trim()));
    text.trim().parse().map_err(|_| wrong())
}

/// Version of the workspace.
fn version() -> Result<String, Failure> {
    let path = workspace::root().join("Cargo.toml");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let table: toml::Table = text.parse().map_err(|e| format!("{}: {e}", path.display()))?;
    let version = table["workspace"]["package"]["version"].as_str();
    Ok(version.ok_or("Cargo.toml names no version of the workspace")?.to_string())
}

/// Builds the program; where it is.
fn build(epoch: u64) -> Result<PathBuf, Failure> {
    let installed =
        output(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]));
    let has_target =
        installed.is_ok_and(|path| Path::new(String::from_utf8_lossy(&path).trim()).is_dir());
    let has_compiler = output(Command::new("musl-gcc").arg("--version")).is_ok();
    let is_static = has_target && has_compiler;
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--profile", PROFILE, "--locked", "-p", "thermocline-cli"]);
    cargo.env("SOURCE_DATE_EPOCH", epoch.to_string());
    let home =
        std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|h| h + "/.cargo"));
    // Folders of this machine are no part of what is built, neither from Rust nor from C.
    // Of several that fit the last one counts, and one may be within another.
    let names = [
        (home.unwrap_or_default(), "/cargo"),
        (workspace::root().display().to_string(), "/thermocline"),
        (workspace::target().display().to_string(), "/target"),
    ];
    let renamed = |option: &str| {
        let each = names.iter().map(|(folder, name)| format!("{option}={folder}={name}"));
        each.collect::<Vec<_>>().join(" ")
    };
    cargo.env("CFLAGS", renamed("-ffile-prefix-map"));
    let mut flags = renamed("--remap-path-prefix");
    if is_static {
        // A program that may be loaded anywhere has its own addresses to correct: two million
        // bytes of them, one by one.
        flags.push_str(" -Clink-arg=-Wl,-z,pack-relative-relocs");
        cargo.args(["--target", TARGET]).env("CC_x86_64_unknown_linux_musl", "musl-gcc");
    } else {
        println!(
            "NOT STATIC: the target {TARGET} is {}, musl-gcc is {}; building for this machine's C \
             library. `rustup target add {TARGET}` and `apt install musl-tools` give them.",
            if has_target { "there" } else { "not installed" },
            if has_compiler { "there" } else { "not installed" },
        );
    }
    let status =
        cargo.env("RUSTFLAGS", flags).status().map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err(Failure::Failed(format!("cargo build ended with {status}")));
    }
    let target = workspace::target();
    let folder = if is_static { target.join(TARGET) } else { target };
    Ok(folder.join(PROFILE).join("thermocline"))
}

/// Splits a program into what runs and what debuggers read.
fn split(built: &Path, program: &Path, debug: &Path) -> Result<(), Failure> {
    let objcopy = || Command::new("objcopy");
    output(objcopy().arg("--only-keep-debug").arg(built).arg(debug))?;
    output(objcopy().arg("--strip-all").arg(built).arg(program))?;
    let name = debug.file_name().expect("a file");
    let link = format!("--add-gnu-debuglink={}", Path::new(name).display());
    let folder = debug.parent().expect("a folder");
    output(objcopy().arg(link).arg(program).current_dir(folder))?;
    Ok(())
}

/// Runs a command and returns what it printed.
fn output(command: &mut Command) -> Result<Vec<u8>, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let ran = command.output().map_err(|error| format!("{name} does not start: {error}"))?;
    if ran.status.success() {
        return Ok(ran.stdout);
    }
    let why = String::from_utf8_lossy(&ran.stderr).into_owned();
    Err(Failure::Failed(format!("{name} ended with {}: {why}", ran.status)))
}

fn make_folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|e| Failure::Failed(format!("{}: {e}", path.display())))
}

/// Writes a file, and the folders above it.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    make_folder(path.parent().expect("a file is in a folder"))?;
    fs::write(path, bytes).map_err(|e| Failure::Failed(format!("{}: {e}", path.display())))
}
