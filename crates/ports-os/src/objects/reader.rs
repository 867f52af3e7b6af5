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
use object_store::{GetOptions, GetRange, ObjectStore};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use tokio::runtime::Runtime;

/// Bytes of a part.
const PART: u64 = 8 << 20;
/// Parts on their way at once.
const PARTS: usize = 4;

/// An object of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: String,
    /// Its length.
    pub bytes: u64,
    /// Its version: the tag that the store gives it; empty where it gives none.
    pub version: String,
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

    /// The objects below a prefix of whole parts of keys, by key; empty: all of the bucket.
    ///
    /// # Errors
    /// When the store refuses, cannot be reached, or names what is no key.
    pub fn list(&self, prefix: &str) -> Result<Vec<Listed>, ReaderError> {
        let below = Path::from(prefix);
        let list = async {
            let mut listed = self.store.list(Some(&below));
            let mut objects = Vec::new();
            while let Some(object) = listed.next().await {
                let object = object.map_err(|error| told("(listing)", error))?;
                objects.push(Listed {
                    key: object.location.to_string(),
                    bytes: object.size,
                    version: object.e_tag.unwrap_or_default(),
                });
            }
            objects.sort_by(|one, other| one.key.cmp(&other.key));
            Ok(objects)
        };
        self.runtime.lock().expect("nothing panics with it held").block_on(list)
    }

    /// Copies an object into a file, from the file's beginning.
    ///
    /// # Errors
    /// When it is not there in this version and length, the store does not answer, or the file
    /// cannot be written; the file then holds some of it.
    pub fn copy(&self, object: &Listed, to: &File) -> Result<(), ReaderError> {
        let at = Path::from(object.key.as_str());
        let copy = async {
            let starts = (0..object.bytes.max(1)).step_by(PART as usize);
            let parts = starts.map(|start| self.part(object, &at, start));
            let mut parts = futures_util::stream::iter(parts).buffer_unordered(PARTS);
            while let Some(part) = parts.next().await {
                let (start, bytes) = part?;
                to.write_all_at(&bytes, start)?;
            }
            Ok(())
        };
        self.runtime.lock().expect("nothing panics with it held").block_on(copy)
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
            if_match: (!object.version.is_empty()).then(|| object.version.clone()),
            range: (object.bytes > 0).then_some(GetRange::Bounded(start..end)),
            ..GetOptions::default()
        };
        let changed = || ReaderError::Changed(object.key.clone());
        let answer = match self.store.get_opts(at, options).await {
            Err(object_store::Error::Precondition { .. }) => return Err(changed()),
            answer => answer.map_err(|error| told(&object.key, error))?,
        };
        if answer.meta.size != object.bytes {
            return Err(changed());
        }
        let bytes = answer.bytes().await.map_err(|error| told(&object.key, error))?;
        if bytes.len() as u64 != end - start.min(end) {
            return Err(BucketError::Damaged(object.key.clone()).into());
        }
        Ok((start, bytes))
    }
}
