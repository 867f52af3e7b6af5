//! Identity of the ends: a key of one's own, and the exact certificates of those that may be met.
//!
//! 1. `NAME.key` holds a private key and its certificate, `NAME.pub` the certificate alone, all
//!    PEM.
//! 2. An end accepts a certificate if it is, byte for byte, one of those that it was told, and if
//!    the other end proves to have its key. There is no authority, no name and no date to look at.
//! 3. Files are read at each connection. Nothing of a TLS session is resumed, so a key that is
//!    taken away lets nobody in from the next connection on.

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, OtherError,
    ServerConfig, SignatureScheme,
};
use std::fmt::{self, Write as _};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The protocol that ends of a tunnel ask for (ALPN): strangers are told apart early.
pub(crate) const PROTOCOL: &[u8] = b"thermocline-tunnel";
/// The name in a handshake, which nobody looks at.
pub const SERVER_NAME: &str = "thermocline.tunnel";
/// Bits of a key file's mode by which others could read it.
const OTHERS: u32 = 0o077;

/// Files of one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFiles {
    /// This end's `NAME.key`.
    pub key: PathBuf,
    /// `NAME.pub` of each end that may be met.
    pub peers: Vec<PathBuf>,
}

/// Keys that cannot be used or made.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's word.
        error: io::Error,
    },
    /// A file holds something else.
    #[error("{}: {text}; make keys with `thermocline tunnel keys NAME`", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The fault in it.
        text: String,
    },
    /// A private key that others can read.
    #[error("{}: others can read it (mode {mode:03o}); chmod 600 it", path.display())]
    Readable {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// An end that would meet itself.
    #[error("{}: this is the end's own key; name the other end's .pub with --peer", path.display())]
    Own {
        /// The file.
        path: PathBuf,
    },
    /// Both parts of a key are there.
    #[error(
        "{} and {} are there already; keys are not made anew over them: take another name, or \
         remove both if no end uses them",
        private.display(), public.display()
    )]
    There {
        /// The key.
        private: PathBuf,
        /// The certificate that belongs to it.
        public: PathBuf,
    },
    /// The public part of a key that is not there.
    #[error(
        "{}: it exists, and {} does not: a lost key cannot be made again; remove it, or take another name",
        public.display(), private.display()
    )]
    Lost {
        /// The certificate.
        public: PathBuf,
        /// The key that belongs to it.
        private: PathBuf,
    },
    /// No key could be made.
    #[error("no key could be made: {0}")]
    Make(String),
}

/// SHA-256 of a certificate, by which people compare keys.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Fingerprint {
        let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
        let suite = suite.tls13().expect("a suite of TLS 1.3");
        let hash = suite.common.hash_provider.hash(certificate);
        Fingerprint(hash.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = "sha256:".to_string();
        for byte in &self.0[..16] {
            write!(text, "{byte:02x}")?;
        }
        f.write_str(&text)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Files of a key that was made, or found.
#[derive(Debug)]
pub struct Made {
    /// `NAME.key`.
    pub private: PathBuf,
    /// `NAME.pub`.
    pub public: PathBuf,
    /// Fingerprint by which people compare keys.
    pub fingerprint: Fingerprint,
    /// The key was there, and only `NAME.pub` was written, from it.
    pub was_there: bool,
}

/// Makes `NAME.key`, for its owner alone, and `NAME.pub`. If only the latter was lost, it is
/// written again from the former.
///
/// # Errors
/// Both files exist already, or only `NAME.pub` does, or a file cannot be read or written.
pub fn make(name: &Path) -> Result<Made, KeyError> {
    let wrong = |error: rcgen::Error| KeyError::Make(error.to_string());
    let with = |ending: &str| {
        let mut path = name.as_os_str().to_owned();
        path.push(ending);
        PathBuf::from(path)
    };
    let (private, public) = (with(".key"), with(".pub"));
    match (private.exists(), public.exists()) {
        (true, true) => return Err(KeyError::There { private, public }),
        (true, false) => return write_public(private, public),
        (false, true) => return Err(KeyError::Lost { public, private }),
        (false, false) => {}
    }
    let pair = rcgen::KeyPair::generate().map_err(wrong)?;
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).map_err(wrong)?;
    let subject = name.file_name().unwrap_or_default().to_string_lossy();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, subject.as_ref());
    let certificate = parameters.self_signed(&pair).map_err(wrong)?;
    let secret = format!("{}{}", pair.serialize_pem(), certificate.pem());
    write_new(&private, 0o600, &secret)?;
    write_new(&public, 0o644, &certificate.pem())?;
    let fingerprint = Fingerprint::of(certificate.der());
    Ok(Made { private, public, fingerprint, was_there: false })
}

/// Writes the certificate in a private key's file once more.
fn write_public(private: PathBuf, public: PathBuf) -> Result<Made, KeyError> {
    let certificate = certificates(&private)?.swap_remove(0);
    let text = std::fs::read_to_string(&private)
        .map_err(|error| KeyError::File { path: private.clone(), error })?;
    let begin = "-----BEGIN CERTIFICATE-----";
    let end = "-----END CERTIFICATE-----";
    let from = text.find(begin).unwrap_or_default();
    let until = text[from..].find(end).map_or(text.len(), |at| from + at + end.len());
    write_new(&public, 0o644, &format!("{}\n", &text[from..until]))?;
    let fingerprint = Fingerprint::of(&certificate);
    Ok(Made { private, public, fingerprint, was_there: true })
}

fn write_new(path: &Path, mode: u32, text: &str) -> Result<(), KeyError> {
    let failed = |error| KeyError::File { path: path.to_path_buf(), error };
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = file.map_err(failed)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        // Half a key would be taken for one that is there.
        let _ = std::fs::remove_file(path);
    }
    written.map_err(failed)
}

/// The certificate that an end shows, and those that it accepts.
pub struct Keys {
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    pinned: Arc<Pinned>,
    provider: Arc<CryptoProvider>,
}

impl Keys {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read, holds something else, or can be read by others.
    pub fn read(files: &KeyFiles) -> Result<Keys, KeyError> {
        let path = &files.key;
        let metadata = std::fs::metadata(path)
            .map_err(|error| KeyError::File { path: path.clone(), error })?;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & OTHERS != 0 {
            return Err(KeyError::Readable { path: path.clone(), mode });
        }
        let key = PrivateKeyDer::from_pem_file(path).map_err(|error| unread(path, error))?;
        let mut peers = Vec::new();
        let own = certificates(path)?;
        for path in &files.peers {
            let named = certificates(path)?;
            if named.contains(&own[0]) {
                return Err(KeyError::Own { path: path.clone() });
            }
            peers.extend(named);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let pinned = Arc::new(Pinned { peers, algorithms });
        Ok(Keys { certificates: own, key, pinned, provider })
    }

    /// The key of this end.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificates[0])
    }

    /// The keys that are accepted.
    pub fn peers(&self) -> Vec<Fingerprint> {
        self.pinned.peers.iter().map(Fingerprint::of).collect()
    }

    /// TLS 1.3 of the end that connects, for this protocol (ALPN).
    ///
    /// # Errors
    /// Key and certificate do not go together.
    pub fn client(self, protocol: &[u8]) -> Result<Arc<ClientConfig>, rustls::Error> {
        let mut config = ClientConfig::builder_with_provider(self.provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(self.pinned)
            .with_client_auth_cert(self.certificates, self.key)?;
        config.alpn_protocols = vec![protocol.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(Arc::new(config))
    }

    /// TLS 1.3 of the end that accepts, for this protocol (ALPN).
    ///
    /// # Errors
    /// Key and certificate do not go together.
    pub fn server(self, protocol: &[u8]) -> Result<Arc<ServerConfig>, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(self.provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(self.pinned)
            .with_single_cert(self.certificates, self.key)?;
        config.alpn_protocols = vec![protocol.to_vec()];
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

/// The fingerprint of whom a handshake met.
pub fn met(certificates: Option<&[CertificateDer<'_>]>) -> Option<Fingerprint> {
    certificates.and_then(|all| all.first()).map(Fingerprint::of)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, KeyError> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| unread(path, error))?;
    let found: Result<Vec<_>, _> = found.collect();
    let found = found.map_err(|error| unread(path, error))?;
    if found.is_empty() {
        let text = "it holds no certificate".to_string();
        return Err(KeyError::Content { path: path.to_path_buf(), text });
    }
    Ok(found)
}

fn unread(path: &Path, error: rustls::pki_types::pem::Error) -> KeyError {
    let path = path.to_path_buf();
    match error {
        rustls::pki_types::pem::Error::Io(error) => KeyError::File { path, error },
        other => KeyError::Content { path, text: other.to_string() },
    }
}

/// A key that is none of those that are accepted.
#[derive(Debug, thiserror::Error)]
#[error("its key {found} is none of those that --peer names; get its .pub file and name it there")]
struct Unknown {
    found: Fingerprint,
}

/// The reason that a handshake failed, for people.
pub fn explain(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(other))) => {
            other.0.to_string()
        }
        Some(rustls::Error::NoCertificatesPresented) => "it showed no key".to_string(),
        _ => error.to_string(),
    }
}

/// Accepts exactly these certificates.
#[derive(Debug)]
struct Pinned {
    peers: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        if self.peers.iter().any(|peer| peer == shown) {
            return Ok(());
        }
        let unknown = OtherError(Arc::new(Unknown { found: Fingerprint::of(shown) }));
        Err(rustls::Error::InvalidCertificate(CertificateError::Other(unknown)))
    }

    fn check_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }
}

fn only_13() -> rustls::Error {
    rustls::Error::General("ends speak TLS 1.3 only".to_string())
}

/// The verification of a signature, which is the same for either side.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _certificate: &CertificateDer<'_>,
            _signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(only_13())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.check_signature(message, certificate, signed)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    signatures!();
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    signatures!();
}
