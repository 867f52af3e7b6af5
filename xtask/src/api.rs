//! `cargo xtask api check|record`: what the programs' APIs promised, and what they are now.
//!
//! 1. `docs/formats/api/` has the OpenAPI document of each program as the last release had it.
//! 2. `check` asks the program for its present documents and compares. Whatever a client of the
//!    release could rely on and cannot any more is a break (`compare`).
//! 3. A break is refused, unless the version says that there may be one: another major version, or
//!    before 1.0 another minor one.
//! 4. `record` writes the present documents. It is a step of a release. Before the first one it is
//!    also how a break is accepted: the difference is then in the commit for all to see.

mod compare;
#[cfg(test)]
mod tests;

use crate::{Failure, workspace};
use compare::breaks;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folder of the documents of the last release.
const RECORDED: &str = "docs/formats/api";
/// Programs with an API, as `thermocline openapi` names them.
const PROGRAMS: [&str; 6] = ["accel", "balance", "engine", "host", "store", "tunnel"];

/// The subcommand.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    match arguments {
        [word] if word == "check" => {
            println!("{}", check()?);
            Ok(())
        }
        [word] if word == "record" => record(),
        _ => Err(Failure::Usage("api takes check or record".to_string())),
    }
}

/// Compares all programs; what was compared.
pub(crate) fn check() -> Result<String, Failure> {
    let program = workspace::built()?.join("thermocline");
    let (mut routes, mut allowed, mut refused) = (0, 0, 0);
    for name in PROGRAMS {
        let now = present(&program, name)?;
        let then = read(&file(name))?;
        routes += compare::operations(&then).len();
        let found = breaks(&then, &now);
        if found.is_empty() {
            continue;
        }
        let (old, new) = (version(&then), version(&now));
        let may = may_break(old, new);
        for found in &found {
            println!("{name}: {found}");
        }
        match may {
            true => allowed += found.len(),
            false => refused += found.len(),
        }
    }
    if refused > 0 {
        return Err(Failure::Failed(format!(
            "{refused} breaks of what the APIs promise (docs/guides/stability.md): keep the old \
             form beside the new one, or raise the version and say so in the change note; before \
             the first release, `cargo xtask api record` accepts them"
        )));
    }
    let breaks =
        if allowed > 0 { format!(", {allowed} breaks as the version says") } else { "".into() };
    Ok(format!("{} APIs with {routes} requests{breaks}", PROGRAMS.len()))
}

/// Writes the present documents as those that are promised.
fn record() -> Result<(), Failure> {
    let program = workspace::built()?.join("thermocline");
    for name in PROGRAMS {
        let text = serde_json::to_string_pretty(&present(&program, name)?).expect("JSON") + "\n";
        let path = file(name);
        std::fs::create_dir_all(path.parent().expect("a folder"))
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    println!("{RECORDED}: {}", PROGRAMS.join(", "));
    Ok(())
}

fn file(program: &str) -> PathBuf {
    workspace::root().join(RECORDED).join(format!("{program}.json"))
}

fn read(path: &Path) -> Result<Value, Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        format!("{}: {error}; `cargo xtask api record` writes it", path.display())
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    Ok(serde_json::from_str(&text).map_err(|error| wrong(&error))?)
}

fn present(program: &Path, name: &str) -> Result<Value, Failure> {
    let done = Command::new(program).args(["openapi", name]).output();
    let done = done.map_err(|error| format!("{}: {error}", program.display()))?;
    if !done.status.success() {
        let why = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(Failure::Failed(format!("thermocline openapi {name}: {why}")));
    }
    let document = serde_json::from_slice(&done.stdout);
    Ok(document.map_err(|error| format!("thermocline openapi {name}: {error}"))?)
}

fn version(document: &Value) -> &str {
    document["info"]["version"].as_str().unwrap_or_default()
}

/// True if a program of version `new` may break what `old` promised.
fn may_break(old: &str, new: &str) -> bool {
    let part = |version: &str, at: usize| {
        version.split('.').nth(at).and_then(|number| number.parse::<u64>().ok())
    };
    let higher = |at| part(new, at) > part(old, at);
    match part(old, 0) {
        Some(0) => higher(0) || (part(new, 0) == Some(0) && higher(1)),
        _ => higher(0),
    }
}
