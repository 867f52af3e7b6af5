//! Shared libraries whose policies a sweep runs.
//!
//! 1. A plan names `./mine.so:name`, relative to its own folder. Reading the plan opens nothing.
//! 2. When a sweep begins, each library is read once. Its bytes go to `DIR/libraries/HASH.so`,
//!    named by their hash (BLAKE3), and the hash goes to `sweep.json` and to every file of results.
//! 3. Whoever runs jobs, here or elsewhere, checks the hash of that copy and loads it.
//! 4. When the plan is given again, its libraries must have the hashes that the sweep began with.
//!
//! Invariant: all results of a sweep come from the same bytes of a library. The loader takes a name
//! that it knows for the library that it has loaded, so a library that was compiled anew in its
//! place would not be loaded at all; a copy that is named by its hash cannot be confused.
//!
//! Not here: loading, and the interface (`thermocline_plugins`). A library that needs others beside
//! it (`$ORIGIN`) does not find them, because the copy lies elsewhere.

use super::folder::{FolderError, hash, io_error, other};
use super::worker::put;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use thermocline_policy::registry::PolicySpec;

/// Bytes of a library, at most: it is read into memory to be copied.
const LIBRARY_BYTES_MAX: u64 = 256 << 20;

/// Folder of the copies in the folder of a sweep.
pub(super) const FOLDER: &str = "libraries";

/// Hexadecimal digits of a hash.
const HASH_DIGITS: usize = 64;

/// A library, as `sweep.json` and files of results name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LibraryHash {
    /// Its name in the plan.
    name: String,
    /// Hash of its bytes, hexadecimal.
    blake3: String,
}

/// Files of the libraries of a contest, by their names in the plan.
#[derive(Debug, Clone, Default)]
pub(super) struct Libraries(BTreeMap<String, PathBuf>);

impl Libraries {
    /// The libraries that `policies` name, relative to `folder`.
    pub(super) fn beside(folder: &Path, policies: &[String]) -> Libraries {
        let names = policies.iter().filter_map(|text| thermocline_plugins::split(text));
        Libraries(names.map(|(name, _)| (name.to_string(), folder.join(name))).collect())
    }

    /// The copies in the folder of a sweep.
    ///
    /// # Errors
    /// When one cannot be read, or is not the one that the sweep began with.
    pub(super) fn copied(sweep: &Path, hashes: &[LibraryHash]) -> Result<Libraries, FolderError> {
        let mut copies = BTreeMap::new();
        for LibraryHash { name, blake3 } in hashes {
            let path = place(sweep, blake3);
            if hash(&bytes_of(&path)?) != *blake3 {
                let problem = format!(
                    "not the copy of {name} that this sweep began with; restore it, or begin anew"
                );
                return Err(other(&path, problem));
            }
            copies.insert(name.clone(), path);
        }
        Ok(Libraries(copies))
    }

    /// Copies the libraries into the folder of a sweep; their hashes, by name.
    ///
    /// # Errors
    /// When one cannot be read or written.
    pub(super) fn copy_to(&self, sweep: &Path) -> Result<Vec<LibraryHash>, FolderError> {
        let mut hashes = Vec::new();
        for (name, path) in &self.0 {
            let bytes = bytes_of(path)?;
            let blake3 = hash(&bytes);
            put(&place(sweep, &blake3), |file| file.write_all(&bytes))?;
            hashes.push(LibraryHash { name: name.clone(), blake3 });
        }
        Ok(hashes)
    }

    /// Files that [`Libraries::copy_to`] writes. A library that cannot be read has none.
    pub(super) fn places(&self, sweep: &Path) -> Vec<PathBuf> {
        let bytes = self.0.values().filter_map(|path| bytes_of(path).ok());
        bytes.map(|bytes| place(sweep, &hash(&bytes))).collect()
    }

    /// Checks that these are the libraries that a sweep began with.
    ///
    /// # Errors
    /// When one cannot be read, or was changed.
    pub(super) fn check(&self, hashes: &[LibraryHash]) -> Result<(), FolderError> {
        for (name, path) in &self.0 {
            let known = hashes.iter().find(|library| library.name == *name);
            let now = hash(&bytes_of(path)?);
            if known.is_none_or(|known| known.blake3 != now) {
                let problem = "not the library that this sweep began with: results of two are not \
                               mixed; restore it, or choose another folder for the results";
                return Err(other(path, problem));
            }
        }
        Ok(())
    }

    /// The policy that `text` names; `None` when it names none of a library.
    ///
    /// # Errors
    /// When the library cannot be loaded, or has no such policy.
    pub(super) fn policy(&self, text: &str) -> Option<Result<PolicySpec, String>> {
        let (name, _) = thermocline_plugins::split(text)?;
        match self.0.get(name) {
            Some(path) => thermocline_plugins::policy_in(path, text),
            None => Some(Err(format!("{name}: the sweep has no such library"))),
        }
    }
}

/// True for a folder that holds nothing but copies of libraries, whole or half written.
pub(super) fn is_own_folder(path: &Path) -> bool {
    let is_own = |name: &str| {
        let hash = name.strip_suffix(".so").unwrap_or_default();
        let is_hash = hash.len() == HASH_DIGITS && hash.bytes().all(|b| b.is_ascii_hexdigit());
        is_hash || name.ends_with(".part")
    };
    let Ok(mut listed) = path.read_dir() else { return false };
    listed.all(|entry| entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(is_own)))
}

fn place(sweep: &Path, blake3: &str) -> PathBuf {
    sweep.join(FOLDER).join(format!("{blake3}.so"))
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, FolderError> {
    let file = File::open(path).map_err(io_error(path))?;
    let mut bytes = Vec::new();
    file.take(LIBRARY_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io_error(path))?;
    if bytes.len() as u64 > LIBRARY_BYTES_MAX {
        return Err(other(path, format!("a library has at most {LIBRARY_BYTES_MAX} B")));
    }
    Ok(bytes)
}
