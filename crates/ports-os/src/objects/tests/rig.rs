//! A bucket in memory that misbehaves on request, and a device on it that is driven by hand.

use super::super::format::Shape;
use super::super::traffic::Traffic;
use super::super::{Beats, ObjectDevice, ObjectError, ObjectSettings, Purpose, Way, runtime};
use async_trait::async_trait;
use bytes::Bytes as Buffer;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thermocline_ports::{Completion, Device, DeviceError, Io, Payload, Ticket};
use thermocline_units::{Bytes, Nanos};

/// The fate of a request.
#[derive(Debug, Clone)]
pub(crate) enum Fate {
    Pass,
    /// Fails, and nothing happens.
    Fail,
    /// Happens, and its answer is lost.
    LoseAnswer,
    /// Is never answered.
    Hang,
    /// Shows this function of the bytes read.
    Show(fn(&[u8]) -> Vec<u8>),
    /// Leaves names with this in them out of lists.
    Hide(&'static str),
}

/// Decides about a request: its verb, and its key.
type Script = Box<dyn FnMut(&'static str, &str) -> Fate + Send>;

/// A bucket in memory that misbehaves as its script says. Clones are the same bucket.
#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) store: Arc<InMemory>,
    script: Arc<Mutex<Script>>,
    /// Bytes that reads brought.
    pub(crate) read_bytes: Arc<AtomicU64>,
}

impl Default for Rig {
    fn default() -> Rig {
        Rig {
            store: Arc::default(),
            script: Arc::new(Mutex::new(Box::new(|_, _| Fate::Pass))),
            read_bytes: Arc::default(),
        }
    }
}

impl Rig {
    pub(crate) fn script(&self, script: impl FnMut(&'static str, &str) -> Fate + Send + 'static) {
        *self.script.lock().expect("ours") = Box::new(script);
    }

    fn fate(&self, verb: &'static str, key: &Path) -> Fate {
        (self.script.lock().expect("ours"))(verb, key.as_ref())
    }

    /// The keys that there are, below the prefix.
    pub(crate) fn keys(&self) -> Vec<String> {
        let store = self.store.clone();
        runtime().expect("a runtime").block_on(async move {
            let listed = store.list(None).map(|object| object.expect("in memory").location);
            let cut = |key: Path| key.as_ref().trim_start_matches("p/").to_string();
            listed.map(cut).collect().await
        })
    }

    /// Keys of extents' objects.
    pub(crate) fn extents(&self) -> Vec<String> {
        self.keys().into_iter().filter(|key| key.starts_with('x')).collect()
    }

    pub(crate) fn remove(&self, key: &str) {
        use object_store::ObjectStoreExt;
        let (store, path) = (self.store.clone(), Path::from(format!("p/{key}")));
        runtime()
            .expect("a runtime")
            .block_on(async move { store.delete(&path).await.expect(key) });
    }

    /// The contents of an object.
    pub(crate) fn bytes(&self, key: &str) -> Vec<u8> {
        use object_store::ObjectStoreExt;
        let (store, path) = (self.store.clone(), Path::from(format!("p/{key}")));
        let get = async move { store.get(&path).await.expect("it is there").bytes().await };
        runtime().expect("a runtime").block_on(get).expect(key).to_vec()
    }

    pub(crate) fn put(&self, key: &str, bytes: &'static [u8]) {
        use object_store::ObjectStoreExt;
        let (store, path) = (self.store.clone(), Path::from(format!("p/{key}")));
        let put = async move { store.put(&path, PutPayload::from_static(bytes)).await };
        runtime().expect("a runtime").block_on(put).expect(key);
    }

    pub(crate) fn open(&self, settings: &ObjectSettings, purpose: Purpose) -> Opening {
        let way = Way {
            store: Arc::new(self.clone()),
            prefix: "p".to_string(),
            path: PathBuf::from("s3://memory/p"),
            traffic: Arc::new(Traffic::default()),
            runtime: runtime().expect("a runtime"),
        };
        way.open(settings, purpose).map(|device| Driver { device, tickets: 0 })
    }
}

pub(crate) type Opening = std::result::Result<Driver, ObjectError>;

/// Settings without a memory, and with a lock that is watched for a moment.
pub(crate) fn settings(owner: u64) -> ObjectSettings {
    let beats = Beats { every: Duration::from_millis(20), watch: Duration::from_millis(150) };
    let (buffer, patience) = (Bytes::from_mib(1), Nanos(0));
    let read_ahead = Bytes(0);
    ObjectSettings { buffer, read_ahead, memory: None, patience, beats, owner, map_records: 512 }
}

/// Small extents; the first one shorter, the last one, too.
pub(crate) const SHAPE: Shape =
    Shape { size: Bytes((20 << 10) + 12 * (64 << 10) + 1536), extent: 64 << 10, lead: 20 << 10 };

/// A device that is asked and waited for.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) device: ObjectDevice,
    tickets: u64,
}

impl Driver {
    pub(crate) fn submit(&mut self, io: Io) -> Ticket {
        self.tickets += 1;
        self.device.submit(Nanos(0), Ticket(self.tickets), io);
        Ticket(self.tickets)
    }

    /// Waits until something is answered.
    pub(crate) fn answers(&mut self) -> Vec<Completion> {
        let mut done = Vec::new();
        self.device.poll(Nanos(0), &mut done);
        while done.is_empty() {
            self.device.wait().expect("the kernel waits");
            self.device.poll(Nanos(0), &mut done);
        }
        done
    }

    /// Asks, and waits for the answer; nothing else may be under way.
    pub(crate) fn ask(&mut self, io: Io) -> std::result::Result<Payload, DeviceError> {
        let ticket = self.submit(io);
        let mut done = self.answers();
        assert_eq!((done.len(), done[0].ticket), (1, ticket));
        done.remove(0).result
    }

    pub(crate) fn write(&mut self, offset: u64, length: usize, stamp: u8) {
        let data = Payload::from(vec![stamp; length]);
        let io = Io::Write { offset: Bytes(offset), data, fua: false };
        self.ask(io).expect("memory takes it");
    }

    pub(crate) fn flush(&mut self) -> std::result::Result<Payload, DeviceError> {
        self.ask(Io::Flush)
    }

    pub(crate) fn read(&mut self, offset: u64, length: u32) -> Result1<Vec<u8>> {
        self.ask(Io::Read { offset: Bytes(offset), length }).map(|payload| payload.to_vec())
    }

    /// A power failure.
    pub(crate) fn crash(mut self) {
        self.device.worker.kill();
    }
}

pub(crate) type Result1<T> = std::result::Result<T, DeviceError>;

impl std::fmt::Debug for Rig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rig")
    }
}

impl std::fmt::Display for Rig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a bucket in memory")
    }
}

fn broken() -> Error {
    Error::Generic { store: "rig", source: "broken on request".into() }
}

#[async_trait]
impl ObjectStore for Rig {
    async fn put_opts(&self, key: &Path, data: PutPayload, how: PutOptions) -> Result<PutResult> {
        match self.fate("put", key) {
            Fate::Fail => Err(broken()),
            Fate::Hang => std::future::pending().await,
            Fate::LoseAnswer => {
                self.store.put_opts(key, data, how).await?;
                Err(broken())
            }
            _ => self.store.put_opts(key, data, how).await,
        }
    }

    async fn put_multipart_opts(
        &self,
        key: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        match self.fate("parts", key) {
            Fate::Fail => Err(broken()),
            _ => self.store.put_multipart_opts(key, how).await,
        }
    }

    async fn get_opts(&self, key: &Path, how: GetOptions) -> Result<GetResult> {
        let fate = self.fate("get", key);
        match fate {
            Fate::Fail => return Err(broken()),
            Fate::Hang => return std::future::pending().await,
            _ => {}
        }
        let mut result = self.store.get_opts(key, how).await?;
        let range = result.range.clone();
        let meta = result.meta.clone();
        let attributes = std::mem::take(&mut result.attributes);
        let mut bytes = result.bytes().await?;
        self.read_bytes.fetch_add(bytes.len() as u64, Relaxed);
        if let Fate::Show(change) = fate {
            bytes = Buffer::from(change(&bytes));
        }
        let payload =
            GetResultPayload::Stream(futures_util::stream::once(async move { Ok(bytes) }).boxed());
        Ok(GetResult { payload, meta, range, attributes, extensions: Default::default() })
    }

    fn delete_stream(
        &self,
        keys: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (rig, store) = (self.clone(), self.store.clone());
        let keys = keys.filter(move |key| {
            let fate = key.as_ref().map(|key| rig.fate("delete", key));
            std::future::ready(!matches!(fate, Ok(Fate::Fail)))
        });
        store.delete_stream(keys.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.fate("list", prefix.unwrap_or(&Path::default())) {
            Fate::Fail => futures_util::stream::once(async { Err(broken()) }).boxed(),
            Fate::Hide(part) => {
                let shown = move |object: &Result<ObjectMeta>| {
                    let hidden = object.as_ref().is_ok_and(|o| o.location.as_ref().contains(part));
                    std::future::ready(!hidden)
                };
                self.store.list(prefix).filter(shown).boxed()
            }
            _ => self.store.list(prefix),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, how).await
    }
}
