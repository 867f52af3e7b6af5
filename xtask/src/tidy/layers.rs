//! The layer table of ARCHITECTURE.md against what `cargo metadata` says.
//!
//! The table is the truth: a crate without a row, a row without a crate, a dependency that the row
//! does not name, and a row that contradicts its own layers are all findings. Development
//! dependencies between workspace crates obey the same arrows (tests stand where code stands);
//! libraries that only tests use are free. Crates for tests ([`FOR_TESTS`]) are development
//! dependencies only, and may do what tests may.

use super::Finding;
use crate::workspace::Package;

pub(super) const PATH: &str = "ARCHITECTURE.md";

const RULE: &str = "layers";

/// Paths that the shared list of bans must have, whatever else stands there.
const BANNED: [&str; 6] = [
    "std::time::Instant",
    "std::time::SystemTime",
    "std::hash::RandomState",
    "std::collections::HashMap::new",
    "std::collections::HashSet::new",
    "std::println",
];
const HEADER: [&str; 5] = ["layer", "crate", "may depend on", "outside libraries", "unsafe"];

/// The highest layer whose crates are sealed (no clock, file, socket, thread, environment): what
/// decides, and the machines that carry it out.
const SEALED_LAYER_MAX: u32 = 2;

/// Crates that only tests depend on.
const FOR_TESTS: [&str; 1] = ["seeds"];

/// Whoever links this library calls the system, and is not sealed.
const SYSTEM_LIBRARY: &str = "libc";

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Room {
    /// Line in ARCHITECTURE.md, from 1.
    line: usize,
    layer: u32,
    name: String,
    depends_on: Vec<String>,
    /// `None` where any library may be used.
    libraries: Option<Vec<String>>,
    /// Files below the crate's folder that may hold `unsafe`.
    unsafe_files: Vec<String>,
}

impl Room {
    fn is_sealed(&self) -> bool {
        let calls_system =
            self.libraries.as_ref().is_none_or(|l| l.iter().any(|l| l == SYSTEM_LIBRARY));
        let is_for_tests = FOR_TESTS.contains(&self.name.as_str());
        self.layer <= SEALED_LAYER_MAX && !calls_system && !is_for_tests
    }
}

/// The table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LayerTable {
    rooms: Vec<Room>,
}

impl LayerTable {
    /// Reads the one table that has the expected header.
    pub(super) fn parse(text: &str) -> Result<LayerTable, String> {
        let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
        lines.find(|(_, line)| cells(line) == HEADER).ok_or_else(|| {
            format!("{PATH}: no table with the header | {} |", HEADER.join(" | "))
        })?;
        let rows = lines.skip(1).take_while(|(_, line)| line.trim_start().starts_with('|'));
        let rooms = rows.map(|(number, line)| room(number, line)).collect::<Result<_, _>>()?;
        Ok(LayerTable { rooms })
    }

    /// True if `room` is a crate that reaches the world only through its arguments.
    pub(super) fn is_sealed(&self, room: &str) -> bool {
        self.rooms.iter().any(|r| r.name == room && r.is_sealed())
    }

    /// True if the file at `path` may hold `unsafe`.
    pub(super) fn may_be_unsafe(&self, path: &str) -> bool {
        self.rooms.iter().any(|room| {
            room.unsafe_files.iter().any(|file| path == format!("crates/{}/{file}", room.name))
        })
    }

    /// True if `room` is a machine.
    pub(super) fn is_machine(&self, room: &str) -> bool {
        self.machines().contains(&room)
    }

    /// Crates that are machines: sealed, and told events.
    pub(super) fn machines(&self) -> Vec<&str> {
        let is_machine = |r: &&Room| r.is_sealed() && r.layer == SEALED_LAYER_MAX;
        self.rooms.iter().filter(is_machine).map(|r| r.name.as_str()).collect()
    }

    /// The table against itself and against the workspace.
    pub(super) fn compare(&self, packages: &[Package]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for room in &self.rooms {
            let mut found = |message| findings.push(Finding::new(PATH, room.line, RULE, message));
            if !packages.iter().any(|p| p.room == room.name) {
                found(format!("there is no crate `{}`: delete the row", room.name));
            }
            for below in &room.depends_on {
                if self.room(below).is_none_or(|b| b.layer >= room.layer) {
                    found(format!(
                        "`{}` may not depend on `{below}`: not a lower layer",
                        room.name
                    ));
                }
            }
        }
        findings.extend(packages.iter().flat_map(|package| self.judge(package)));
        findings
    }

    fn judge(&self, package: &Package) -> Vec<Finding> {
        let Package { room: name, rooms, rooms_built_on, libraries } = package;
        let Some(room) = self.room(name) else {
            let message = format!("crate `{name}` has no row in the layer table: add one");
            return vec![Finding::new(PATH, 0, RULE, message)];
        };
        let manifest = if name == "xtask" {
            "xtask/Cargo.toml".to_string()
        } else {
            format!("crates/{name}/Cargo.toml")
        };
        let up = rooms
            .iter()
            .filter(|r| !room.depends_on.contains(r))
            .map(|r| format!("`{name}` depends on `{r}`, which its row in {PATH} does not allow"));
        let allowed = |library: &str| match &room.libraries {
            None => true,
            Some(listed) => listed.iter().any(|l| l == library),
        };
        let foreign = libraries.iter().filter(|l| !allowed(l)).map(|l| {
            format!("`{name}` depends on the library `{l}`, which its row in {PATH} does not name")
        });
        let tests = rooms_built_on.iter().filter(|r| FOR_TESTS.contains(&r.as_str())).map(|r| {
            format!("`{name}` is built on `{r}`, which is for tests: make it a dev-dependency")
        });
        up.chain(foreign)
            .chain(tests)
            .map(|message| Finding::new(&manifest, 0, RULE, message))
            .collect()
    }

    /// Sealed crates all carry the same `clippy.toml`, the list of what is banned there.
    pub(super) fn sealed_crates_share_bans<'a>(
        &self,
        text_of: impl Fn(&str) -> Option<&'a str>,
    ) -> Vec<Finding> {
        let sealed = self.rooms.iter().filter(|r| r.is_sealed());
        let paths: Vec<_> = sealed.map(|r| format!("crates/{}/clippy.toml", r.name)).collect();
        let reference = paths.first().and_then(|path| text_of(path));
        let differs = |path: &&String| reference.is_none() || text_of(path) != reference;
        let differing = paths.iter().filter(differs).map(|path| {
            let message = format!("must be the same list as {}: copy it", paths[0]);
            Finding::new(path, 0, RULE, message)
        });
        let list = reference.unwrap_or_default();
        let missing = BANNED.iter().filter(|path| !list.contains(&format!("\"{path}\"")));
        let missing = missing.map(|path| {
            let message = format!("`{path}` must be banned: it makes runs unlike each other");
            Finding::new(paths.first().map_or(PATH, String::as_str), 0, RULE, message)
        });
        differing.chain(missing).collect()
    }

    fn room(&self, name: &str) -> Option<&Room> {
        self.rooms.iter().find(|r| r.name == name)
    }
}

fn room(line: usize, text: &str) -> Result<Room, String> {
    let wrong = |what: &str| format!("{PATH}:{line}: {what}: `{text}`");
    let [layer, name, depends_on, libraries, unsafe_files] = cells(text)[..] else {
        return Err(wrong("a row of the layer table has five cells"));
    };
    Ok(Room {
        line,
        layer: layer.parse().map_err(|_| wrong("the layer is not a number"))?,
        name: name.to_string(),
        depends_on: list(depends_on, "nothing"),
        libraries: (libraries != "any").then(|| list(libraries, "none")),
        unsafe_files: list(unsafe_files, "none"),
    })
}

fn cells(line: &str) -> Vec<&str> {
    let inner = line.trim().strip_prefix('|').and_then(|l| l.strip_suffix('|'));
    inner.map(|l| l.split('|').map(str::trim).collect()).unwrap_or_default()
}

fn list(cell: &str, empty: &str) -> Vec<String> {
    if cell == empty {
        return Vec::new();
    }
    cell.split(',').map(|item| item.trim().to_string()).collect()
}

#[cfg(test)]
mod tests;
