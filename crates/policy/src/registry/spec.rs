//! A policy as a user writes it: `name[:key=value…]`, with an optional filter in front,
//! `filter+name`: `lru`, `lirs:hir=0.02`, `larc+arc`.

use super::{Build, Entry, Settings, SettingsError, entries, find, nearest};
use std::fmt;

/// A policy description that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No policy has this name.
    #[error("there is no policy `{name}`{hint}; `thermocline policies` lists them")]
    Unknown {
        /// What was written.
        name: String,
        /// What was probably meant.
        hint: String,
    },
    /// The text is not `name[:key=value…]`.
    #[error("`{text}` is not `name:key=value`")]
    Form {
        /// What was written.
        text: String,
    },
    /// The parts do not compose.
    #[error("`{text}`: {reason}")]
    Compose {
        /// What was written.
        text: String,
        /// Why not.
        reason: String,
    },
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// One policy with its settings.
#[derive(Clone)]
pub struct PolicySpec {
    /// As the user wrote it; the name in tables.
    pub label: String,
    /// The policy.
    pub entry: &'static Entry,
    /// Its settings, defaults filled in.
    pub settings: Settings,
}

impl fmt::Debug for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

impl PolicySpec {
    /// Reads `name[:key=value…]`.
    ///
    /// # Errors
    /// When the name, a key or a value is unknown; the message says what would do.
    pub fn parse(text: &str) -> Result<PolicySpec, SpecError> {
        let text = text.trim();
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let entry = find(name).ok_or_else(|| unknown(name))?;
        let mut settings = Settings::defaults(entry);
        for part in parts {
            let (key, value) =
                part.split_once('=').ok_or_else(|| SpecError::Form { text: part.to_string() })?;
            settings.set(entry, key.trim(), value.trim())?;
        }
        Ok(PolicySpec { label: text.to_string(), entry, settings })
    }

    /// Whether this is a per-epoch placement.
    pub fn is_placement(&self) -> bool {
        matches!(self.entry.build, Build::Placement(_))
    }
}

fn unknown(name: &str) -> SpecError {
    let hint = nearest(name, entries().map(|e| e.name))
        .map(|n| format!("; did you mean `{n}`?"))
        .unwrap_or_default();
    SpecError::Unknown { name: name.to_string(), hint }
}
