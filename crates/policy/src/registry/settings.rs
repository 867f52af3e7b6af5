//! Settings of a policy: plain text values, checked against what the policy declares.

use super::{Entry, nearest};
use std::collections::BTreeMap;
use thermocline_units::{Bytes, Nanos};

/// One declared setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its key.
    pub name: &'static str,
    /// The default, as text.
    pub default: &'static str,
    /// Its unit or kind: "fraction of the cache", "epochs", "duration".
    pub unit: &'static str,
    /// Summary in one line.
    pub help: &'static str,
}

/// A setting that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The policy has no such setting.
    #[error("policy `{policy}` has no setting `{key}`{hint}")]
    Unknown {
        /// The policy.
        policy: String,
        /// The key that was written.
        key: String,
        /// Text to write instead.
        hint: String,
    },
    /// The value does not fit.
    #[error("setting `{key}={value}`: expected {expected}")]
    Value {
        /// The key.
        key: String,
        /// The value as written.
        value: String,
        /// The values that would have been right.
        expected: String,
    },
    /// A policy from outside could not be made, in its own words.
    #[error("{0}")]
    Foreign(String),
    /// The cache is larger than the policy's numbers reach.
    #[error(
        "policy `{policy}` with these settings takes at most {lines_max} lines, not {lines}; use a \
         larger --line or a smaller cache"
    )]
    Capacity {
        /// The policy.
        policy: String,
        /// Lines that were asked for.
        lines: u32,
        /// Lines that are possible.
        lines_max: u32,
    },
}

/// Values of every declared setting of one policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    values: BTreeMap<&'static str, String>,
}

impl Settings {
    /// Every setting at its default.
    pub fn defaults(entry: &Entry) -> Settings {
        Settings {
            values: entry.settings.iter().map(|s| (s.name, s.default.to_string())).collect(),
        }
    }

    /// Sets `key`.
    ///
    /// # Errors
    /// When `entry` declares no such key; the message names the nearest one.
    pub fn set(&mut self, entry: &Entry, key: &str, value: &str) -> Result<(), SettingsError> {
        let Some(setting) = entry.settings.iter().find(|s| s.name == key) else {
            let names = || entry.settings.iter().map(|s| s.name);
            let hint = match nearest(key, names()) {
                Some(name) => format!("; did you mean `{name}`?"),
                None if entry.settings.is_empty() => "; it has none".to_string(),
                None => format!("; it has: {}", names().collect::<Vec<_>>().join(", ")),
            };
            return Err(SettingsError::Unknown {
                policy: entry.name.to_string(),
                key: key.to_string(),
                hint,
            });
        };
        self.values.insert(setting.name, value.to_string());
        Ok(())
    }

    /// Every key and value, in order of key.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(k, v)| (*k, v.as_str()))
    }

    /// The text of a declared setting.
    ///
    /// # Panics
    /// When the policy did not declare `key`: a bug of the policy.
    pub fn text(&self, key: &str) -> &str {
        self.values.get(key).expect("a policy reads only the settings it declares")
    }

    /// A number between `low` and `high`, inclusive.
    ///
    /// # Errors
    /// When the value is not a number in the range.
    pub fn number(&self, key: &str, low: f64, high: f64) -> Result<f64, SettingsError> {
        let parsed = self.text(key).parse().ok().filter(|v: &f64| (low..=high).contains(v));
        parsed.ok_or_else(|| self.wrong(key, format!("a number from {low} to {high}")))
    }

    /// Numbers between `low` and `high`, inclusive, separated by `/`; at least one.
    ///
    /// # Errors
    /// When one is not a number in the range.
    pub fn numbers(&self, key: &str, low: f64, high: f64) -> Result<Vec<f64>, SettingsError> {
        let parsed: Option<Vec<f64>> = self
            .text(key)
            .split('/')
            .map(|text| text.trim().parse().ok().filter(|v: &f64| (low..=high).contains(v)))
            .collect();
        parsed
            .ok_or_else(|| self.wrong(key, format!("numbers from {low} to {high}, separated by /")))
    }

    /// A whole number between `low` and `high`, inclusive.
    ///
    /// # Errors
    /// When the value is not a whole number in the range.
    pub fn count(&self, key: &str, low: u64, high: u64) -> Result<u64, SettingsError> {
        let parsed = self.text(key).parse().ok().filter(|v: &u64| (low..=high).contains(v));
        parsed.ok_or_else(|| self.wrong(key, format!("a whole number from {low} to {high}")))
    }

    /// A size.
    ///
    /// # Errors
    /// When the value is not a size.
    pub fn bytes(&self, key: &str) -> Result<Bytes, SettingsError> {
        self.text(key).parse().map_err(|_| self.wrong(key, "a size such as 64KiB".to_string()))
    }

    /// A duration.
    ///
    /// # Errors
    /// When the value is not a duration.
    pub fn duration(&self, key: &str) -> Result<Nanos, SettingsError> {
        self.text(key).parse().map_err(|_| self.wrong(key, "a duration such as 5m".to_string()))
    }

    /// Durations, separated by `/`; at least one.
    ///
    /// # Errors
    /// When one is not a duration.
    pub(crate) fn durations(&self, key: &str) -> Result<Vec<Nanos>, SettingsError> {
        let parsed: Result<_, _> =
            self.text(key).split('/').map(|text| text.trim().parse()).collect();
        parsed.map_err(|_| self.wrong(key, "durations such as 1ms/20ms".to_string()))
    }

    /// One of `choices`, as its index.
    ///
    /// # Errors
    /// When the value is none of them.
    pub fn choice(&self, key: &str, choices: &[&str]) -> Result<usize, SettingsError> {
        let found = choices.iter().position(|c| *c == self.text(key));
        found.ok_or_else(|| self.wrong(key, format!("one of {}", choices.join(", "))))
    }

    /// That a declared setting has a value that does not fit; `expected` says what would.
    pub(crate) fn wrong(&self, key: &str, expected: String) -> SettingsError {
        SettingsError::Value { key: key.to_string(), value: self.text(key).to_string(), expected }
    }
}
