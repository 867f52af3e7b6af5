//! The way of a sweep to traces in buckets: the client of S3 that pools have, too.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Mutex;
use thermocline_ports_os::objects::{BucketOptions, BucketUrl, Limits, Listed, ObjectReader};
use thermocline_sim::sweep::{Bucket, Buckets, Object};
use thermocline_units::Nanos;

/// Longest time for a part of an object: many jobs may share a slow line.
const DEADLINE: Nanos = Nanos::from_secs(120);
/// Longest time that a part is tried again.
const RETRY_FOR: Nanos = Nanos::from_secs(600);

/// Readers of the buckets that were asked for and that nobody uses now, by bucket as it is written.
#[derive(Debug, Default)]
pub(super) struct S3(Mutex<BTreeMap<String, Vec<ObjectReader>>>);

impl S3 {
    /// A reader of its own for each thread that reads at the same time: a reader answers one after
    /// the other. Those that are back are used again.
    fn with_reader<T>(
        &self,
        bucket: &Bucket,
        read: impl FnOnce(&ObjectReader) -> Result<T, String>,
    ) -> Result<T, String> {
        let name = serde_json::to_string(bucket).expect("a bucket is plain");
        let held = || self.0.lock().expect("nothing panics with it held");
        let idle = held().get_mut(&name).and_then(Vec::pop);
        let reader = match idle {
            Some(reader) => reader,
            None => ObjectReader::new(&options(bucket)).map_err(|error| error.to_string())?,
        };
        let answer = read(&reader);
        held().entry(name).or_default().push(reader);
        answer
    }
}

fn options(bucket: &Bucket) -> BucketOptions {
    let url = BucketUrl { bucket: bucket.name.clone(), prefix: String::new() };
    BucketOptions {
        endpoint: bucket.endpoint.clone(),
        region: bucket.region.clone(),
        allow_http: bucket.allow_http,
        virtual_host: bucket.virtual_host,
        ca_file: bucket.ca_file.clone(),
        limits: Limits { deadline: DEADLINE, retry_for: RETRY_FOR, ..Limits::default() },
        ..BucketOptions::new(url)
    }
}

fn object(Listed { key, bytes, version }: Listed) -> Object {
    Object { key, bytes, version }
}

impl Buckets for S3 {
    fn check(&self, bucket: &Bucket) -> Result<(), String> {
        options(bucket).check_endpoint()
    }

    fn find(&self, bucket: &Bucket, key: &str) -> Result<Option<Object>, String> {
        self.with_reader(bucket, |reader| {
            let found = reader.find(key).map_err(|error| error.to_string())?;
            Ok(found.map(object))
        })
    }

    fn folder(&self, bucket: &Bucket, prefix: &str) -> Result<(Vec<String>, Vec<Object>), String> {
        self.with_reader(bucket, |reader| {
            let (folders, objects) = reader.folder(prefix).map_err(|error| error.to_string())?;
            Ok((folders, objects.into_iter().map(object).collect()))
        })
    }

    fn below(&self, bucket: &Bucket, prefix: &str, most: usize) -> Result<Vec<Object>, String> {
        self.with_reader(bucket, |reader| {
            let listed = reader.below(prefix, most).map_err(|error| error.to_string())?;
            Ok(listed.into_iter().map(object).collect())
        })
    }

    fn copy(&self, bucket: &Bucket, object: &Object, to: &File) -> Result<(), String> {
        let Object { key, bytes, version } = object.clone();
        let listed = Listed { key, bytes, version };
        self.with_reader(bucket, |reader| {
            reader.copy(&listed, to).map_err(|error| error.to_string())
        })
    }
}
