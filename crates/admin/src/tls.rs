//! Encryption of what listens on a network: certificates, and whom to let in.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities whose certificates let a client in; none: any client may come.
    pub client_authority: Option<PathBuf>,
}

/// A reason that TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds something else.
    #[error("{path}: {text}; expected {expected} in PEM")]
    File {
        /// Its path.
        path: PathBuf,
        /// The fault in it.
        text: String,
        /// Contents that should be in it.
        expected: &'static str,
    },
    /// Certificate and key do not go together, or the like.
    #[error("{path}: {text}")]
    Certificate {
        /// The certificate's file.
        path: PathBuf,
        /// The fault.
        text: String,
    },
}

/// Reads the files: TLS 1.2 and 1.3 with the defaults of rustls.
///
/// # Errors
/// When a file cannot be read or does not hold what it should.
pub fn tls(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let refused =
        |path: &Path, text: String| TlsError::Certificate { path: path.to_path_buf(), text };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(&files.certificate, error.to_string()))?;
    let builder = match &files.client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| refused(path, error.to_string()))?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            let verifier = verifier.map_err(|error| refused(path, error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| file_error(&files.key, &error, "a private key"))?;
    let config = builder
        .with_single_cert(certificates(&files.certificate)?, key)
        .map_err(|error| refused(&files.certificate, mismatch(&error, &files.key)))?;
    Ok(Arc::new(config))
}

/// The certificates of a file, of which there is at least one.
///
/// # Errors
/// When the file cannot be read, or holds none.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |error| file_error(path, &error, "a certificate");
    let found = CertificateDer::pem_file_iter(path).map_err(failed)?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    if found.is_empty() {
        let (path, text) = (path.to_path_buf(), "it holds none".to_string());
        return Err(TlsError::File { path, text, expected: "a certificate" });
    }
    Ok(found)
}

/// A certificate that cannot be used with its key, in words.
fn mismatch(error: &rustls::Error, key: &Path) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            format!("the key in {} is another certificate's", key.display())
        }
        other => other.to_string(),
    }
}

fn file_error(
    path: &Path,
    error: &rustls::pki_types::pem::Error,
    expected: &'static str,
) -> TlsError {
    // The library's words for a missing file hide the system's.
    let text = match error {
        rustls::pki_types::pem::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    };
    TlsError::File { path: path.to_path_buf(), text, expected }
}
