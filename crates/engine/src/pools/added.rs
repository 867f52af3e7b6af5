//! The record of pools that were added to a running engine: `added-pools.toml` in the data folder.
//!
//! Tables `[[pool]]` with the keys of a configuration, so that they can be copied into one. The
//! file is replaced whole, and durably: after a power failure it is the old one or the new one.

use super::added_pools_path;
use crate::api::NewPool;
use crate::joining::PoolLedger;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use thermocline_admin::files;

/// Text above the tables.
const HEAD: &str =
    "# Pools that were added while the engine ran; thermocline writes this file.\n\n";

/// The record of pools that were added to a running engine.
pub struct AddedPools {
    /// The file; whoever changes it holds the lock.
    path: Mutex<PathBuf>,
}

/// The file's contents.
#[derive(Default, Serialize, Deserialize)]
struct Record {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pool: Vec<Entry>,
}

/// A pool. It is there, so no size is needed to make it.
#[derive(Serialize, Deserialize)]
struct Entry {
    name: String,
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    emulate: Option<String>,
    #[serde(default)]
    buffered: bool,
    /// Keys that somebody has added: they stay.
    #[serde(flatten)]
    others: toml::Table,
}

impl AddedPools {
    /// The record of the engine whose data folder this is.
    pub fn of(data: &Path) -> AddedPools {
        let path = added_pools_path(data);
        AddedPools { path: Mutex::new(std::path::absolute(&path).unwrap_or(path)) }
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Entry>)) -> io::Result<()> {
        let path = self.path.lock().unwrap_or_else(PoisonError::into_inner);
        let mut record = match std::fs::read_to_string(&*path) {
            Ok(text) => toml::from_str(&text).map_err(io::Error::other)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Record::default(),
            Err(error) => return Err(error),
        };
        change(&mut record.pool);
        let text = toml::to_string(&record).map_err(io::Error::other)?;
        let text = format!("{HEAD}{text}");
        files::replace(&path, files::EVERYBODY_READS, |mut file| file.write_all(text.as_bytes()))
    }
}

impl PoolLedger for AddedPools {
    fn note(&self, pool: &NewPool) -> io::Result<()> {
        self.change(|pools| {
            pools.retain(|other| other.name != pool.name && other.path != pool.path);
            pools.push(Entry {
                name: pool.name.clone(),
                path: pool.path.clone(),
                emulate: pool.emulate.clone(),
                buffered: pool.buffered,
                others: toml::Table::new(),
            });
        })
    }

    fn check_path(&self, path: &Path) -> Result<(), String> {
        let own = self.path.lock().unwrap_or_else(PoisonError::into_inner);
        super::own_files::refuse_any_own_file(own.parent().unwrap_or(Path::new("")), path)
    }

    fn strike(&self, name: &str) {
        // What stays in is looked for at the next start, and not missed.
        let _ = self.change(|pools| pools.retain(|pool| pool.name != name));
    }
}
