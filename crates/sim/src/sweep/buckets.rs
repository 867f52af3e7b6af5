//! Traces in buckets: how a sweep asks for them, and where a job puts the one that it reads.
//!
//! A sweep knows no object store. Whoever runs one gives it a [`Buckets`]; the command has one over
//! its client of S3. A job copies its trace into a file that has no name, so that nothing is left
//! of it however the job ends, and reads that.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Beginning of the patterns of traces in buckets.
pub(super) const SCHEME: &str = "s3://";

/// A bucket, and how it is asked: plain data, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Bucket {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// `https://host:port` of the store; `None`: Amazon's, or what the environment says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Its region; `None`: what the environment says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Certificate authorities beside the system's, a PEM file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// True if other machines may be asked without TLS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_http: bool,
    /// True if the bucket is part of the host's name rather than of the path.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub virtual_host: bool,
}

/// An object of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// Its length.
    pub bytes: u64,
    /// Its version when the list was made: a tag of the store; empty where that gives none.
    pub version: String,
}

/// The way to the objects of buckets.
pub trait Buckets: std::fmt::Debug + Send + Sync {
    /// Checks a bucket as a plan names it; the error says what is wrong. Nothing is asked.
    ///
    /// # Errors
    /// When it cannot be asked as written.
    fn check(&self, bucket: &Bucket) -> Result<(), String>;

    /// The object of a key; `None`: there is none.
    ///
    /// # Errors
    /// When the store refuses or cannot be reached, in words.
    fn find(&self, bucket: &Bucket, key: &str) -> Result<Option<Object>, String>;

    /// The folders and objects right below a prefix of whole parts of keys: names of folders as
    /// whole prefixes. Objects without bytes, which stand for folders, are left out.
    ///
    /// # Errors
    /// As [`Buckets::find`].
    fn folder(&self, bucket: &Bucket, prefix: &str) -> Result<(Vec<String>, Vec<Object>), String>;

    /// The objects anywhere below such a prefix, at most so many; those without bytes are left out.
    ///
    /// # Errors
    /// As [`Buckets::find`], and when there are more.
    fn below(&self, bucket: &Bucket, prefix: &str, most: usize) -> Result<Vec<Object>, String>;

    /// Copies an object of this version into a file.
    ///
    /// # Errors
    /// When it is not there, or the store or the file fails, in words.
    fn copy(&self, bucket: &Bucket, object: &Object, to: &File) -> Result<(), String>;
}

/// No way to any bucket.
#[derive(Debug, Clone, Copy)]
pub struct NoBuckets;

const NO_WAY: &str = "this program reads no buckets; run the sweep by `thermocline lab sweep`";

impl Buckets for NoBuckets {
    fn check(&self, _: &Bucket) -> Result<(), String> {
        Err(NO_WAY.to_string())
    }

    fn find(&self, _: &Bucket, _: &str) -> Result<Option<Object>, String> {
        Err(NO_WAY.to_string())
    }

    fn folder(&self, _: &Bucket, _: &str) -> Result<(Vec<String>, Vec<Object>), String> {
        Err(NO_WAY.to_string())
    }

    fn below(&self, _: &Bucket, _: &str, _: usize) -> Result<Vec<Object>, String> {
        Err(NO_WAY.to_string())
    }

    fn copy(&self, _: &Bucket, _: &Object, _: &File) -> Result<(), String> {
        Err(NO_WAY.to_string())
    }
}

/// A copy of an object, as long as it is held.
pub(super) struct Scratch {
    /// Holds the file, which has no name.
    _file: File,
    path: PathBuf,
}

impl Scratch {
    /// Copies an object into the folder for temporary files.
    ///
    /// # Errors
    /// When it cannot be copied, in words.
    pub(super) fn copy(
        buckets: &dyn Buckets,
        bucket: &Bucket,
        object: &Object,
    ) -> Result<Scratch, String> {
        let folder = std::env::temp_dir();
        let unnamed = tempfile::tempfile_in(&folder);
        let file = unnamed.map_err(|error| {
            format!("{}: {error}; TMPDIR names another folder", folder.display())
        })?;
        buckets.copy(bucket, object, &file)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        Ok(Scratch { _file: file, path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// The bucket of a pattern, and the pattern of its keys; `None`: it names files.
///
/// # Errors
/// When it names no bucket, or no object in it.
pub(super) fn parts_of(pattern: &str) -> Option<Result<(&str, &str), String>> {
    let (name, keys) = pattern.strip_prefix(SCHEME)?.split_once('/').unwrap_or_default();
    let is_name = |name: &str| {
        let signs = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        !name.is_empty() && name.bytes().all(signs)
    };
    if is_name(name) && !keys.is_empty() && !keys.starts_with('/') {
        return Some(Ok((name, keys)));
    }
    Some(Err(format!("`{pattern}` names no objects; write s3://BUCKET/PATTERN")))
}
