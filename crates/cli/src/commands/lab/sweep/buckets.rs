//! The way of a sweep to traces in buckets: the client of S3 that pools have, too.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Mutex;
use thermocline_ports_os::objects::{BucketOptions, BucketUrl, Listed, ObjectReader};
use thermocline_sim::sweep::{Bucket, Buckets, Object};

/// Readers of the buckets that were asked for, by bucket as it is written.
#[derive(Debug, Default)]
pub(super) struct S3(Mutex<BTreeMap<String, ObjectReader>>);

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
        let idle = held().remove(&name);
        let reader = match idle {
            Some(reader) => reader,
            None => ObjectReader::new(&options(bucket)).map_err(|error| error.to_string())?,
        };
        let answer = read(&reader);
        held().insert(name, reader);
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
        ..BucketOptions::new(url)
    }
}

impl Buckets for S3 {
    fn check(&self, bucket: &Bucket) -> Result<(), String> {
        options(bucket).check_endpoint()
    }

    fn list(&self, bucket: &Bucket, prefix: &str) -> Result<Vec<Object>, String> {
        self.with_reader(bucket, |reader| {
            let listed = reader.list(prefix).map_err(|error| error.to_string())?;
            let object = |Listed { key, bytes, version }| Object { key, bytes, version };
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
