//! Mounted file systems, as `/proc/self/mountinfo` lists them (proc_pid_mountinfo(5)).

use crate::HintError;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Folder in which it is seen.
    pub point: PathBuf,
    /// Part of it that is seen there: `/`, or a directory when it is a bind mount.
    root: PathBuf,
    /// Its kind: ext4, fuse.
    pub kind: String,
}

impl Mount {
    /// A path as seen from the file system's root; `None` when it is not below the mount.
    pub fn inside(&self, path: &Path) -> Option<PathBuf> {
        path.strip_prefix(&self.point).ok().map(|rest| self.root.join(rest))
    }
}

/// All of them.
#[derive(Debug)]
pub struct Mounts(Vec<Mount>);

impl Mounts {
    /// This process's.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn read() -> Result<Mounts, HintError> {
        let file = "/proc/self/mountinfo";
        let text = std::fs::read(file)
            .map_err(|error| HintError::Failed(format!("{file}: {error}; is /proc mounted?")))?;
        Ok(Mounts::parse(&text))
    }

    pub(crate) fn parse(text: &[u8]) -> Mounts {
        Mounts(text.split(|&byte| byte == b'\n').filter_map(mount).collect())
    }

    /// The one that a full path lies on: of the longest points the one mounted last.
    ///
    /// # Errors
    /// When there is none.
    pub fn holding(&self, path: &Path) -> Result<Mount, HintError> {
        let holds = self.0.iter().filter(|mount| path.starts_with(&mount.point));
        let deepest = holds.max_by_key(|mount| mount.point.components().count());
        deepest.cloned().ok_or_else(|| {
            HintError::Failed(format!("{}: no mounted file system holds it", path.display()))
        })
    }
}

/// A line: ID, parent, device, root, point, options, optional fields, `-`, kind, source, options.
fn mount(line: &[u8]) -> Option<Mount> {
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let dash = words.iter().position(|word| *word == b"-")?;
    let kind = String::from_utf8_lossy(words.get(dash + 1)?).into_owned();
    Some(Mount { root: plain(words.get(3)?), point: plain(words.get(4)?), kind })
}

/// A path without the escapes: `\040` is a blank.
fn plain(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, after)) = rest.split_first() {
        let octal = |digits: &[u8]| {
            digits.iter().try_fold(0_u32, |sum, digit| match digit {
                b'0'..=b'7' => Some(sum * 8 + u32::from(digit - b'0')),
                _ => None,
            })
        };
        let escaped = after.get(..3).filter(|_| first == b'\\').and_then(octal);
        match escaped.and_then(|code| u8::try_from(code).ok()) {
            Some(byte) => (bytes.push(byte), rest = &after[3..]).1,
            None => (bytes.push(first), rest = after).1,
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}
