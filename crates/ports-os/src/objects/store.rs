//! The way to a bucket on an S3-compatible store: address, certificates, credentials.
//!
//! Credentials come from where such programs look for them, in this order: the environment
//! (`AWS_ACCESS_KEY_ID` …), a web identity, a container's and an instance's own service, which the
//! library asks; and before the last of these the shared credentials file, which it does not read.
//! They are never part of an error, a status or a recording: only the library's signer sees them.

use super::http::{Wire, is_near};
use super::pace::{Limits, Pace};
use super::traffic::{Prices, Traffic};
use object_store::ObjectStore;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{BackoffConfig, RetryConfig};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use thermocline_ports::model::LinkProfile;

/// The region of stores that have none.
const REGION: &str = "us-east-1";
/// Between tries: from, to, and how it grows; the library adds jitter.
const BACKOFF: (Duration, Duration, f64) =
    (Duration::from_millis(100), Duration::from_secs(10), 2.0);

/// `s3://bucket/prefix`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketUrl {
    /// The bucket.
    pub bucket: String,
    /// Below which all objects are; not empty, without slashes at its ends.
    pub prefix: String,
}

/// A text that is no such address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected s3://BUCKET/PREFIX, of letters, digits and the signs . - _ and / in the prefix")]
pub struct NoBucketUrl;

impl FromStr for BucketUrl {
    type Err = NoBucketUrl;

    fn from_str(text: &str) -> Result<BucketUrl, NoBucketUrl> {
        let rest = text.strip_prefix("s3://").ok_or(NoBucketUrl)?;
        let (bucket, prefix) = rest.split_once('/').ok_or(NoBucketUrl)?;
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let plain = |part: &str| {
            let signs = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
            !part.is_empty() && part.bytes().all(signs) && part.bytes().any(|byte| byte != b'.')
        };
        let fits = plain(bucket) && prefix.split('/').all(plain) && prefix.len() <= 512;
        let url = || BucketUrl { bucket: bucket.to_string(), prefix: prefix.to_string() };
        fits.then(url).ok_or(NoBucketUrl)
    }
}

impl std::fmt::Display for BucketUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.prefix)
    }
}

/// A bucket, and how it is asked. Holds no secrets.
#[derive(Debug, Clone, PartialEq)]
pub struct BucketOptions {
    /// Its address.
    pub url: BucketUrl,
    /// `https://host:port` of the store; none: Amazon's in the region, or what `AWS_ENDPOINT_URL`
    /// says.
    pub endpoint: Option<String>,
    /// The region; none: what `AWS_REGION` says, else us-east-1.
    pub region: Option<String>,
    /// True if other machines may be asked without TLS.
    pub allow_http: bool,
    /// True if the bucket is part of the host's name rather than of the path.
    pub virtual_host: bool,
    /// Certificate authorities beside the system's, in PEM form.
    pub ca_file: Option<PathBuf>,
    /// Limits on requests.
    pub limits: Limits,
    /// A link in front, emulated.
    pub link: Option<LinkProfile>,
    /// The store's prices.
    pub prices: Prices,
}

impl BucketOptions {
    /// The bucket at Amazon's, or wherever the environment says.
    pub fn new(url: BucketUrl) -> BucketOptions {
        BucketOptions {
            url,
            endpoint: None,
            region: None,
            allow_http: false,
            virtual_host: false,
            ca_file: None,
            limits: Limits::default(),
            link: None,
            prices: Prices::default(),
        }
    }

    /// Checks that the address of the store can be used; the error says what is wrong with it.
    ///
    /// # Errors
    /// When it is none, or would be asked in the clear without leave.
    pub fn check_endpoint(&self) -> Result<(), String> {
        let Some(endpoint) = &self.endpoint else { return Ok(()) };
        let uri: Option<hyper::Uri> = endpoint.parse().ok();
        let uri = uri.filter(|uri| uri.host().is_some() && uri.path() == "/");
        let scheme = uri.as_ref().and_then(hyper::Uri::scheme_str);
        let authority = uri.as_ref().and_then(hyper::Uri::authority);
        if authority.is_some_and(|authority| authority.as_str().contains('@')) {
            // It is kept in files that others may read.
            return Err("an endpoint with a name or password; credentials belong into the \
                        environment or the credentials file"
                .to_string());
        }
        match (scheme, uri.as_ref().and_then(hyper::Uri::host)) {
            (Some("https"), Some(_)) => Ok(()),
            (Some("http"), Some(host)) if self.allow_http || is_near(host) => Ok(()),
            (Some("http"), _) => Err(format!(
                "`{endpoint}` would send data in the clear; use https, or set `allow-http = true`"
            )),
            _ => Err(format!("`{endpoint}` is not an address such as \"https://s3.example.com\"")),
        }
    }
}

/// A reason that there is no way to a bucket.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The address cannot be used.
    #[error("{0}")]
    Address(String),
    /// The file of authorities cannot be used.
    #[error("{path}: {problem}")]
    Authorities {
        /// Its path.
        path: PathBuf,
        /// The fault in it.
        problem: String,
    },
    /// The shared credentials file cannot be used.
    #[error("the credentials file: {0}")]
    Credentials(#[from] super::credentials::CredentialsError),
    /// The library refused the settings.
    #[error("the object store cannot be set up: {0}")]
    Settings(String),
}

/// The way to a bucket, with the credentials that are usual; nothing is asked yet. Requests are
/// counted in `traffic`.
pub(super) fn store(
    options: &BucketOptions,
    traffic: &Arc<Traffic>,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let mut builder = AmazonS3Builder::from_env();
    let has_credentials = [
        AmazonS3ConfigKey::AccessKeyId,
        AmazonS3ConfigKey::WebIdentityTokenFile,
        AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
        AmazonS3ConfigKey::ContainerCredentialsFullUri,
    ]
    .into_iter()
    .any(|key| builder.get_config_value(&key).is_some());
    if !has_credentials && let Some(keys) = super::credentials::from_shared_file()? {
        builder = builder.with_access_key_id(keys.id).with_secret_access_key(keys.secret);
        if let Some(token) = keys.token {
            builder = builder.with_token(token);
        }
    }
    finish(builder, options, traffic)
}

/// The way that `builder`, which has its credentials, and the options describe.
fn finish(
    builder: AmazonS3Builder,
    options: &BucketOptions,
    traffic: &Arc<Traffic>,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    options.check_endpoint().map_err(StoreError::Address)?;
    let set = |key: AmazonS3ConfigKey| builder.get_config_value(&key);
    let endpoint = options.endpoint.clone().or_else(|| set(AmazonS3ConfigKey::Endpoint));
    let region = options.region.clone().or_else(|| set(AmazonS3ConfigKey::Region));
    let authority = authority(endpoint.as_deref());
    let Limits { deadline, retries, retry_for, .. } = options.limits;
    let pace = Pace::new(&options.limits, options.link);
    let tls = Arc::new(tls(options.ca_file.as_deref())?);
    let way = (authority.as_str(), options.allow_http);
    let wire = Wire::new(tls, way, Duration::from_nanos(deadline.0), pace, traffic.clone());
    let (init_backoff, max_backoff, base) = BACKOFF;
    let mut builder = builder
        .with_bucket_name(&options.url.bucket)
        .with_region(region.unwrap_or_else(|| REGION.to_string()))
        .with_virtual_hosted_style_request(options.virtual_host)
        .with_allow_http(true) // The wire refuses what shall not go in the clear.
        .with_retry(RetryConfig {
            backoff: BackoffConfig { init_backoff, max_backoff, base },
            max_retries: retries as usize,
            retry_timeout: Duration::from_nanos(retry_for.0),
        })
        .with_http_connector(wire);
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    let store = builder.build().map_err(|error| StoreError::Settings(error.to_string()))?;
    Ok(Arc::new(store))
}

/// The end of every host that is the store's.
fn authority(endpoint: Option<&str>) -> String {
    let uri: Option<hyper::Uri> = endpoint.and_then(|endpoint| endpoint.parse().ok());
    let authority = uri.and_then(|uri| uri.authority().map(ToString::to_string));
    authority.unwrap_or_else(|| "amazonaws.com".to_string())
}

fn tls(ca_file: Option<&Path>) -> Result<ClientConfig, StoreError> {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // The system's may hold what rustls does not take; the others still count.
    roots.add_parsable_certificates(found.certs);
    if let Some(path) = ca_file {
        let wrong = |problem: String| StoreError::Authorities { path: path.to_path_buf(), problem };
        let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        for certificate in CertificateDer::pem_slice_iter(&text) {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring speaks the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

#[cfg(test)]
mod tests;
