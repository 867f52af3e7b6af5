//! Operations on the objects of a device, one request or a few: asynchronous, without state.
//!
//! Every answer of the store is looked at before it is believed. Nothing here decides what an
//! error means for the device.

use super::format::{Generation, Name, Record, object_bytes, parse_sequence, shard};
use super::layer::{Layer, fill_from, missing_in, span_of};
use bytes::Bytes as Buffer;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use std::ops::Range;
use std::sync::Arc;

/// Objects from this size on are sent in parts: what one part loses is not all of it.
const MULTIPART_FROM: usize = 32 << 20;
/// Bytes of a part; S3 wants at least 5 MiB.
const PART: usize = 8 << 20;
/// Parts on their way at once.
const PARTS: usize = 4;
/// Names of a page of a listing.
pub(super) const PAGE: usize = 1000;

/// A reason that an operation came to nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BucketError {
    /// The object is not there.
    #[error("the bucket has no object {0}")]
    Missing(String),
    /// Something is there already.
    #[error("the bucket has an object {0} already")]
    Exists(String),
    /// The object is not what was written: cut off, exchanged, rotten, or of another version.
    #[error("the object {0} is not what was written there")]
    Damaged(String),
    /// No answer came in time.
    #[error("the object store did not answer in time: {0}")]
    TimedOut(String),
    /// There is no bucket of that name.
    #[error("the bucket does not exist; make it first, or name another ({0})")]
    NoBucket(String),
    /// The store refused, or cannot be reached.
    #[error("{0}")]
    Refused(String),
}

/// The objects below a prefix.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

/// A page of a listing.
pub(super) struct Page {
    /// Extents' objects.
    pub(super) objects: Vec<(u32, Generation)>,
    /// Beginning of the next one; none: this was the last.
    pub(super) next: Option<Path>,
}

impl Bucket {
    pub(super) fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Bucket {
        Bucket { store, prefix: Path::from(prefix) }
    }

    fn at(&self, key: &str) -> Path {
        key.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// The contents of some blocks of an extent of `length` bytes.
    pub(super) async fn read(
        &self,
        name: Name,
        blocks: &Range<u32>,
        length: u32,
    ) -> Result<Vec<u8>, BucketError> {
        let key = name.key();
        let range = Name::range(blocks, length);
        let answer = self.store.get_range(&self.at(&key), range).await;
        let bytes = answer.map_err(|error| told(&key, error))?;
        name.decode(blocks, length, &bytes).ok_or(BucketError::Damaged(key))
    }

    /// Writes a generation: `layer` over `base`.
    pub(super) async fn write(
        &self,
        name: Name,
        layer: &Layer,
        base: Generation,
        length: u32,
    ) -> Result<(), BucketError> {
        let whole = 0..length;
        let mut contents = vec![0; length as usize];
        let mut missing = missing_in(&whole);
        layer.fill(&whole, &mut contents, &mut missing);
        if base == Generation::NONE {
            missing.fill(0);
        }
        if let Some(blocks) = span_of(&missing, 0) {
            let below = self.read(Name { generation: base, ..name }, &blocks, length).await?;
            fill_from(&below, blocks.start, &whole, &mut contents, &missing);
        }
        let object = Buffer::from(name.encode(&contents));
        debug_assert_eq!(object.len() as u64, object_bytes(length));
        let key = name.key();
        if object.len() >= MULTIPART_FROM {
            return self.write_in_parts(&key, object).await;
        }
        let sent = self.store.put(&self.at(&key), PutPayload::from(object)).await;
        sent.map(drop).map_err(|error| told(&key, error))
    }

    /// Nothing is there before all of it is.
    async fn write_in_parts(&self, key: &str, object: Buffer) -> Result<(), BucketError> {
        let failed = |error| told(key, error);
        let mut upload = self.store.put_multipart(&self.at(key)).await.map_err(failed)?;
        let parts: Vec<_> = (0..object.len())
            .step_by(PART)
            .map(|at| object.slice(at..object.len().min(at + PART)))
            .map(|part| upload.put_part(PutPayload::from(part)))
            .collect();
        let sent = futures_util::stream::iter(parts).buffer_unordered(PARTS);
        let sent: Result<(), _> = sent.try_collect().await;
        let done = match sent {
            Ok(()) => upload.complete().await.map(drop),
            Err(error) => Err(error),
        };
        if done.is_err() {
            // What was sent takes room until the bucket's rules clean it up, if this fails too.
            let _ = upload.abort().await;
        }
        done.map_err(failed)
    }

    /// Removes objects; those that are not there count as removed.
    pub(super) async fn delete(&self, keys: Vec<String>) -> Result<(), BucketError> {
        let paths: Vec<_> = keys.iter().map(|key| Ok(self.at(key))).collect();
        let mut removed = self.store.delete_stream(futures_util::stream::iter(paths).boxed());
        while let Some(one) = removed.next().await {
            match one {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(told("to be deleted", error)),
            }
        }
        Ok(())
    }

    /// Reads a record.
    pub(super) async fn record(&self, key: &str) -> Result<Record, BucketError> {
        let bytes = self.get(key).await?;
        let record = Record::decode(&bytes).filter(|record| record.key() == key);
        record.ok_or_else(|| BucketError::Damaged(key.to_string()))
    }

    /// Writes a record where none is.
    ///
    /// # Errors
    /// [`BucketError::Exists`] when there is one, perhaps this one, whose answer was lost.
    pub(super) async fn append(&self, record: &Record) -> Result<(), BucketError> {
        self.create(&record.key(), record.encode()).await
    }

    /// Writes an object where none is.
    pub(super) async fn create(&self, key: &str, bytes: Vec<u8>) -> Result<(), BucketError> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let sent = self.store.put_opts(&self.at(key), PutPayload::from(bytes), options).await;
        sent.map(drop).map_err(|error| told(key, error))
    }

    /// Writes an object, whatever is there.
    pub(super) async fn put(&self, key: &str, bytes: Vec<u8>) -> Result<(), BucketError> {
        let sent = self.store.put(&self.at(key), PutPayload::from(bytes)).await;
        sent.map(drop).map_err(|error| told(key, error))
    }

    /// Reads an object.
    pub(super) async fn get(&self, key: &str) -> Result<Buffer, BucketError> {
        let failed = |error| told(key, error);
        let found = self.store.get(&self.at(key)).await.map_err(failed)?;
        found.bytes().await.map_err(failed)
    }

    /// The sequences of the records in a folder, ascending.
    pub(super) async fn sequences(&self, folder: &str) -> Result<Vec<u64>, BucketError> {
        let mut listed = self.store.list(Some(&self.at(folder)));
        let mut sequences = Vec::new();
        while let Some(object) = listed.next().await {
            let object = object.map_err(|error| told(folder, error))?;
            sequences.extend(object.location.filename().and_then(parse_sequence));
        }
        sequences.sort_unstable();
        Ok(sequences)
    }

    /// True if there is anything below the prefix.
    pub(super) async fn holds_anything(&self) -> Result<bool, BucketError> {
        match self.store.list(Some(&self.prefix)).next().await {
            None => Ok(false),
            Some(Ok(_)) => Ok(true),
            Some(Err(error)) => Err(told("(listing)", error)),
        }
    }

    /// A page of the objects of extents whose number ends in `digit`.
    pub(super) async fn page(&self, digit: u32, after: Option<Path>) -> Result<Page, BucketError> {
        let folder = self.at(&shard(digit));
        let mut listed = match &after {
            Some(after) => self.store.list_with_offset(Some(&folder), after),
            None => self.store.list(Some(&folder)),
        };
        let (mut objects, mut last, mut count) = (Vec::new(), None, 0);
        while count < PAGE
            && let Some(object) = listed.next().await
        {
            let object = object.map_err(|error| told("(listing)", error))?;
            objects.extend(object.location.filename().and_then(Name::parse_key));
            (last, count) = (Some(object.location), count + 1);
        }
        Ok(Page { objects, next: last.filter(|_| count == PAGE) })
    }
}

/// Our error for the store's. Its words name the bucket and the object, and no secrets.
pub(super) fn told(key: &str, error: object_store::Error) -> BucketError {
    use object_store::Error;
    let key = key.to_string();
    match error {
        Error::NotFound { .. } => BucketError::Missing(key),
        Error::AlreadyExists { .. } | Error::Precondition { .. } => BucketError::Exists(key),
        error => {
            let text = in_one_line(&error);
            // Told in the body of the answer only, which stands in the message only.
            if text.contains("<Code>NoSuchBucket</Code>") {
                return BucketError::NoBucket(text);
            }
            match text.contains("deadline") || text.contains("timed out") {
                true => BucketError::TimedOut(text),
                false => BucketError::Refused(text),
            }
        }
    }
}

/// An error with its causes, where they say more.
fn in_one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
