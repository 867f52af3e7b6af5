//! The shared credentials file: `~/.aws/credentials`, or where `AWS_SHARED_CREDENTIALS_FILE` says.
//!
//! Sections in brackets, `key = value` in them, comments after `#` and `;`. The section is the one
//! that `AWS_PROFILE` names, else `default`. Nothing of a value is ever part of an error.

use std::path::PathBuf;

/// Keys of a section. Shows none of them.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

/// A reason that the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A profile was asked for that is not there, or has only half of the keys.
    #[error("{path} has no aws_access_key_id and aws_secret_access_key in section [{section}]")]
    Section {
        /// Its path.
        path: PathBuf,
        /// Name of the section.
        section: String,
    },
}

/// The keys in the shared file; none when there is no file, and nobody asked for one.
pub(super) fn from_shared_file() -> Result<Option<Keys>, CredentialsError> {
    let named = std::env::var_os("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
    let profile = std::env::var("AWS_PROFILE").ok();
    let asked = named.is_some() || profile.is_some();
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".aws/credentials"));
    let Some(path) = named.or_else(home) else { return Ok(None) };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !asked => return Ok(None),
        Err(source) => return Err(CredentialsError::File { path, source }),
    };
    let section = profile.unwrap_or_else(|| "default".to_string());
    match keys_in(&text, &section) {
        None if asked => Err(CredentialsError::Section { path, section }),
        keys => Ok(keys),
    }
}

/// The keys of a section.
fn keys_in(text: &str, section: &str) -> Option<Keys> {
    let (mut inside, mut id, mut secret, mut token) = (false, None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = name.trim() == section;
        } else if inside
            && !line.starts_with(['#', ';'])
            && let Some((key, value)) = line.split_once('=')
        {
            let value = value.trim().to_string();
            match key.trim() {
                "aws_access_key_id" => id = Some(value),
                "aws_secret_access_key" => secret = Some(value),
                "aws_session_token" => token = Some(value),
                _ => {}
            }
        }
    }
    Some(Keys { id: id?, secret: secret?, token })
}

#[cfg(test)]
mod tests;
