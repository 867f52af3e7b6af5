//! The checkout this program works on: where it is, what files and packages it has.
//!
//! Everything is asked of the file system and of `cargo metadata` at the moment of the call;
//! nothing is cached.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders that hold no source of ours, wherever they appear.
const NOT_OURS: [&str; 7] =
    ["target", "out", "corpus", "artifacts", "node_modules", "__pycache__", "venv"];

/// The workspace's root folder.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask lies one folder below the root").to_path_buf()
}

/// The folder that cargo builds into.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |target| root().join(target))
}

/// A `cargo` to start in the root, the same one that started us.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // Cargo tells a program that it starts about its package. Build scripts see that, too, and are
    // run anew where it differs: ring's, with all that depends on it, whenever a developer's own
    // `cargo` follows on `cargo xtask`.
    for (name, _) in std::env::vars_os() {
        let of_package =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(of_package) {
            command.env_remove(name);
        }
    }
    command
}

/// Builds all programs and libraries as the gate's tests do, so that nothing is built twice; the
/// folder that they are in.
///
/// # Errors
/// When something does not build.
pub(crate) fn built() -> Result<PathBuf, String> {
    let words = ["build", "-q", "--locked", "--workspace", "--lib", "--bins"];
    let status = cargo().args(words).status().map_err(|error| format!("cargo: {error}"))?;
    match status.success() {
        true => Ok(target().join("debug")),
        false => Err("the workspace does not build; cargo says why above".to_string()),
    }
}

/// A text file of the checkout.
pub(crate) struct TextFile {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Every file below the root whose name ends in one of `extensions`, in order of path; build output
/// and hidden folders are left out.
pub(crate) fn files(extensions: &[&str]) -> Result<Vec<TextFile>, String> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for entry in entries {
            let entry = entry.map_err(|e| format!("{}: {e}", folder.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().map_err(|e| format!("{name}: {e}"))?;
            if kind.is_dir() && !name.starts_with('.') && !NOT_OURS.contains(&name.as_str()) {
                folders.push(entry.path());
            } else if kind.is_file() && extensions.iter().any(|e| name.ends_with(e)) {
                found.push(read(&root, &entry.path())?);
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn read(root: &Path, path: &Path) -> Result<TextFile, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let relative = path.strip_prefix(root).expect("files are found below the root");
    Ok(TextFile { path: relative.to_string_lossy().replace('\\', "/"), text })
}

/// A workspace member and what it depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// The room: the package's name without `thermocline-`.
    pub(crate) room: String,
    /// Rooms it depends on, in any way.
    pub(crate) rooms: Vec<String>,
    /// Those of them that it is built on: not only its tests depend on them.
    pub(crate) rooms_built_on: Vec<String>,
    /// Crates from outside that it is built on; development dependencies are not among them.
    pub(crate) libraries: Vec<String>,
}

/// The workspace's members, from `cargo metadata`.
pub(crate) fn packages() -> Result<Vec<Package>, String> {
    let output = cargo()
        .args(["metadata", "--format-version=1", "--no-deps", "--locked"])
        .output()
        .map_err(|e| format!("cargo metadata does not start: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;
    packages.iter().map(package).collect::<Option<Vec<_>>>().ok_or_else(|| {
        "cargo metadata: a package has no name or dependencies; is this cargo too new?".to_string()
    })
}

fn package(json: &serde_json::Value) -> Option<Package> {
    let mut rooms = Vec::new();
    let mut rooms_built_on = Vec::new();
    let mut libraries = Vec::new();
    for dependency in json["dependencies"].as_array()? {
        let name = dependency["name"].as_str()?;
        let is_for_tests = dependency["kind"].as_str() == Some("dev");
        let is_room = dependency["path"].is_string();
        match (is_room, is_for_tests) {
            (true, true) => rooms.push(room(name)),
            (true, false) => {
                rooms.push(room(name));
                rooms_built_on.push(room(name));
            }
            (false, true) => {}
            (false, false) => libraries.push(name.to_string()),
        }
    }
    Some(Package { room: room(json["name"].as_str()?), rooms, rooms_built_on, libraries })
}

fn room(package: &str) -> String {
    package.strip_prefix("thermocline-").unwrap_or(package).to_string()
}
