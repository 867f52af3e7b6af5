//! Certificate authorities that a proxy trusts when it connects to servers over TLS.

use super::config::UpstreamTls;
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thermocline_admin::tls::{TlsError, certificates};

/// Authorities for servers' certificates: these, or the system's.
///
/// # Errors
/// When a file cannot be read, or there is no authority at all.
pub(super) fn client(tls: &UpstreamTls, http2: bool) -> Result<Arc<ClientConfig>, TlsError> {
    let refused =
        |path: &Path, text: String| TlsError::Certificate { path: path.to_path_buf(), text };
    let mut roots = RootCertStore::empty();
    match &tls.authority {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| refused(path, error.to_string()))?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            let (added, _) = roots.add_parsable_certificates(found.certs);
            if added == 0 {
                let path = PathBuf::from("the system's authorities");
                return Err(refused(&path, "there are none; name a file".to_string()));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider knows the default versions");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    let version: &[u8] = if http2 { b"h2" } else { b"http/1.1" };
    config.alpn_protocols = vec![version.to_vec()];
    Ok(Arc::new(config))
}
