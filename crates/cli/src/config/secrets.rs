//! Certificates, keys and tokens: that they are there, are what they should be and go together, and
//! that secrets are readable by their owner only.

use super::keys::ConfigError;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use thermocline_admin::tls::{TlsFiles, tls as listening_tls};

/// Tokens shorter than this can be guessed.
const TOKEN_CHARACTERS_MIN: usize = 16;
/// No certificate, key or token is larger.
const SECRET_BYTES_MAX: u64 = 1 << 20;
/// Permission bits of the group to write, and of everybody else to do anything.
const TOO_OPEN: u32 = 0o027;

/// Checks all files of a listener, and says of all what is wrong, a line each.
pub(super) fn check_tls(tls: &TlsFiles) -> Result<(), ConfigError> {
    let certificates = std::iter::once(&tls.certificate).chain(&tls.client_authority);
    let key = check_pem(&tls.key, "PRIVATE KEY-----").and_then(|()| check_private(&tls.key));
    all(certificates.map(|path| check_authority(path)).chain(std::iter::once(key)))?;
    // What the listeners will be given, so that a start finds now what it would find behind the
    // making of pools.
    let together = listening_tls(tls).map(drop);
    together.map_err(|error| ConfigError::new(error.to_string()))
}

/// Checks a file of certificates.
pub(super) fn check_authority(path: &Path) -> Result<(), ConfigError> {
    check_pem(path, "CERTIFICATE-----")
}

/// The errors of all checks in one, a line each: whoever copies an example learns at once which
/// files it wants.
pub(super) fn all(
    checks: impl IntoIterator<Item = Result<(), ConfigError>>,
) -> Result<(), ConfigError> {
    let wrong: Vec<String> =
        checks.into_iter().filter_map(|check| Some(check.err()?.to_string())).collect();
    if wrong.is_empty() { Ok(()) } else { Err(ConfigError::new(wrong.join("\n"))) }
}

/// The token in a file: its first line.
///
/// # Errors
/// When the file cannot be read, its first line is no token, or others can read it.
pub(crate) fn token(path: &Path) -> Result<String, ConfigError> {
    let text = read(path)?;
    let token = text.lines().next().unwrap_or_default().trim();
    let plain = token.chars().all(|character| character.is_ascii_graphic());
    if !plain || token.len() < TOKEN_CHARACTERS_MIN {
        return Err(problem(
            path,
            "the first line is the token: at least 16 letters, digits and signs without spaces; \
             make one with `openssl rand -hex 16`",
        ));
    }
    check_private(path)?;
    Ok(token.to_string())
}

fn check_pem(path: &Path, kind: &str) -> Result<(), ConfigError> {
    let text = read(path)?;
    let mut lines = text.lines().map(str::trim_end);
    match lines.any(|line| line.starts_with("-----BEGIN ") && line.ends_with(kind)) {
        true => Ok(()),
        false => Err(problem(path, format!("expected PEM with a line `-----BEGIN … {kind}`"))),
    }
}

fn check_private(path: &Path) -> Result<(), ConfigError> {
    let metadata = std::fs::metadata(path).map_err(|error| problem(path, error))?;
    if metadata.mode() & TOO_OPEN == 0 {
        return Ok(());
    }
    Err(problem(path, "others can read or change this secret; run `chmod 600` on it"))
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let metadata = std::fs::metadata(path).map_err(|error| problem(path, error))?;
    if !metadata.is_file() || metadata.len() > SECRET_BYTES_MAX {
        return Err(problem(path, "expected a text file of at most 1 MiB"));
    }
    std::fs::read_to_string(path).map_err(|error| problem(path, error))
}

fn problem(path: &Path, problem: impl std::fmt::Display) -> ConfigError {
    ConfigError::new(format!("{}: {problem}", path.display()))
}
