//! Objects of a bucket that somebody else has written: listed, and copied into files. Nothing is
//! written to the bucket.
//!
//! An object is read in parts, a few at a time, each only if the object is still of the version
//! that was listed: a copy is of one version or none.

use super::bucket::{BucketError, told};
use super::runtime;
use super::store::{BucketOptions, StoreError, store};
use super::traffic::Traffic;
use bytes::Bytes as Buffer;
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use tokio::runtime::Runtime;

/// Bytes of a part: small enough for a slow line and a deadline.
const PART: u64 = 4 << 20;
/// Parts on their way at once.
const PARTS: usize = 4;
/// Beginning of versions that are no tags.
const MODIFIED: &str = "modified ";

/// An object of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: String,
    /// Its length.
    pub bytes: u64,
    /// Its version: the tag that the store gives it; where it gives none, when it was changed last.
    pub version: String,
}

impl Listed {
    fn of(meta: &ObjectMeta) -> Listed {
        let modified = || format!("{MODIFIED}{}", meta.last_modified.to_rfc3339());
        Listed {
            key: meta.location.to_string(),
            bytes: meta.size,
            version: meta.e_tag.clone().unwrap_or_else(modified),
        }
    }
}

/// The place of a key, which is taken as it is.
fn path(key: &str) -> Result<Path, ReaderError> {
    Path::parse(key).map_err(|error| ReaderError::Key(key.to_string(), error.to_string()))
}

/// A reason that objects cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReaderError {
    /// There is no way to the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store refused, or has not what was asked for.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// This program cannot ask for such a key.
    #[error("`{0}` is no key that can be asked for: {1}")]
    Key(String, String),
    /// More objects than anybody wants.
    #[error("more than {1} objects are below `{0}`; name less of the bucket")]
    TooMany(String, usize),
    /// The object is of another version than was listed.
    #[error("the object {0} was changed since it was listed")]
    Changed(String),
    /// The file cannot be written, or the system gives no thread.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// A reader of the objects of a bucket. Its calls wait for the store; those of several threads come
/// one after the other.
#[derive(Debug)]
pub struct ObjectReader {
    store: Arc<dyn ObjectStore>,
    runtime: Mutex<Runtime>,
}

impl ObjectReader {
    /// A reader of the bucket that the options name; their prefix is not looked at. Nothing is
    /// asked yet.
    ///
    /// # Errors
    /// When there is no way to the store.
    pub fn new(options: &BucketOptions) -> Result<ObjectReader, ReaderError> {
        let traffic = Arc::new(Traffic::new(options.prices));
        let runtime = Mutex::new(runtime()?);
        Ok(ObjectReader { store: store(options, &traffic)?, runtime })
    }

    /// The object of a key; `None`: there is none.
    ///
    /// # Errors
    /// When the store refuses or cannot be reached, or this is no key.
    pub fn find(&self, key: &str) -> Result<Option<Listed>, ReaderError> {
        let at = path(key)?;
        self.wait(async {
            match self.store.head(&at).await {
                Ok(meta) => Ok(Some(Listed::of(&meta))),
                Err(error) => match told(key, error) {
                    BucketError::Missing(_) => Ok(None),
                    error => Err(error.into()),
                },
            }
        })
    }

    /// The folders, as whole prefixes, and objects right below a prefix of whole parts of keys;
    /// empty: of the bucket. Objects without bytes, which stand for folders, are left out.
    ///
    /// # Errors
    /// When the store refuses, cannot be reached, or names what is no key.
    pub fn folder(&self, prefix: &str) -> Result<(Vec<String>, Vec<Listed>), ReaderError> {
        let below = path(prefix)?;
        self.wait(async {
            let listed = self.store.list_with_delimiter(Some(&below)).await;
            let listed = listed.map_err(|error| told("(listing)", error))?;
            let folders = listed.common_prefixes.iter().map(ToString::to_string).collect();
            let objects = listed.objects.iter().filter(|meta| meta.size > 0).map(Listed::of);
            Ok((folders, objects.collect()))
        })
    }

    /// The objects anywhere below such a prefix, at most so many; those without bytes are left out.
    ///
    /// # Errors
    /// As [`ObjectReader::folder`], and when there are more.
    pub fn below(&self, prefix: &str, most: usize) -> Result<Vec<Listed>, ReaderError> {
        let below = path(prefix)?;
        self.wait(async {
            let mut listed = self.store.list(Some(&below));
            let mut objects = Vec::new();
            while let Some(meta) = listed.next().await {
                let meta = meta.map_err(|error| told("(listing)", error))?;
                if objects.len() == most {
                    return Err(ReaderError::TooMany(prefix.to_string(), most));
                }
                objects.extend((meta.size > 0).then(|| Listed::of(&meta)));
            }
            Ok(objects)
        })
    }

    fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        self.runtime.lock().expect("nothing panics with it held").block_on(answer)
    }

    /// Copies an object into a file, from the file's beginning.
    ///
    /// # Errors
    /// When it is not there in this version and length, the store does not answer, or the file
    /// cannot be written; the file then holds some of it.
    pub fn copy(&self, object: &Listed, to: &File) -> Result<(), ReaderError> {
        let at = path(&object.key)?;
        self.wait(async {
            let starts = (0..object.bytes.max(1)).step_by(PART as usize);
            let parts = starts.map(|start| self.part(object, &at, start));
            let mut parts = futures_util::stream::iter(parts).buffer_unordered(PARTS);
            while let Some(part) = parts.next().await {
                let (start, bytes) = part?;
                to.write_all_at(&bytes, start)?;
            }
            Ok(())
        })
    }

    /// The part of an object that begins at `start`, with its start.
    async fn part(
        &self,
        object: &Listed,
        at: &Path,
        start: u64,
    ) -> Result<(u64, Buffer), ReaderError> {
        let end = object.bytes.min(start + PART);
        let options = GetOptions {
            if_match: (!object.version.starts_with(MODIFIED)).then(|| object.version.clone()),
            range: (object.bytes > 0).then_some(GetRange::Bounded(start..end)),
            ..GetOptions::default()
        };
        let changed = || ReaderError::Changed(object.key.clone());
        let answer = match self.store.get_opts(at, options).await {
            Err(object_store::Error::Precondition { .. }) => return Err(changed()),
            answer => answer.map_err(|error| told(&object.key, error))?,
        };
        let found = Listed::of(&answer.meta);
        if (found.bytes, found.version) != (object.bytes, object.version.clone()) {
            return Err(changed());
        }
        let bytes = answer.bytes().await.map_err(|error| told(&object.key, error))?;
        if bytes.len() as u64 != end - start.min(end) {
            return Err(BucketError::Damaged(object.key.clone()).into());
        }
        Ok((start, bytes))
    }
}
