//! TLS on both sides, and HTTP/2 on both sides.

use super::servers::{field, ok, read_body, read_head};
use super::*;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use thermocline_admin::tls::{TlsFiles, tls};
use thermocline_proxy::config::UpstreamTls;

/// A certificate for localhost that signs itself, in files.
struct Certificate {
    _folder: tempfile::TempDir,
    files: TlsFiles,
}

impl Certificate {
    fn new() -> Certificate {
        let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| -> PathBuf { folder.path().join(name) };
        let files = TlsFiles {
            certificate: path("cert.pem"),
            key: path("key.pem"),
            client_authority: None,
        };
        std::fs::write(&files.certificate, made.cert.pem()).unwrap();
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        Certificate { _folder: folder, files }
    }

    /// Whoever believes this certificate.
    fn believer(&self, protocol: &[u8]) -> Arc<ClientConfig> {
        use rustls::pki_types::pem::PemObject;
        let mut roots = RootCertStore::empty();
        let path = &self.files.certificate;
        roots.add(rustls::pki_types::CertificateDer::from_pem_file(path).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        Arc::new(config)
    }
}

fn encrypted(mut config: Config, certificate: &Certificate) -> Proxy {
    config.listen[0].tls = Some(certificate.files.clone());
    Proxy::start(&config, 7, Vec::new()).unwrap()
}

/// Asks over TLS with HTTP/1.1; head and body.
fn ask_tls(address: SocketAddr, certificate: &Certificate) -> (String, String) {
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(certificate.believer(b"http/1.1"), name).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    stream.get_mut().write_all(b"GET /tls HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let head = read_head(&mut stream).unwrap();
    let body = read_body(&mut stream, &head).unwrap();
    (head, String::from_utf8(body).unwrap())
}

#[test]
fn clients_are_encrypted_and_servers_told_so() {
    let (server, certificate) = (Server::saying("hello"), Certificate::new());
    let proxy = encrypted(config(live(&[&server]), Mode::Http), &certificate);
    let (head, body) = ask_tls(proxy.addresses[0], &certificate);
    assert!(head.starts_with("HTTP/1.1 200") && body == "hello", "{head}");
    assert_eq!(field(&server.heads()[0], "x-forwarded-proto"), Some("https"));
    let mut plain = client(&proxy);
    plain.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(!String::from_utf8_lossy(&plain.rest()).contains("200"));
}

/// A server behind TLS that answers with the path.
fn tls_server(certificate: &Certificate) -> Server {
    let config = tls(&certificate.files).unwrap();
    Server::new(move |connection| {
        let stream = connection.reader.into_inner();
        let session = rustls::ServerConnection::new(config.clone()).unwrap();
        let mut stream = BufReader::new(StreamOwned::new(session, stream));
        while let Some(head) = read_head(&mut stream) {
            let answer = ok(head.split(' ').nth(1).unwrap());
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    })
}

#[test]
fn servers_are_spoken_to_over_tls_when_they_can_be_believed() {
    let certificate = Certificate::new();
    let server = tls_server(&certificate);
    let mut believing = live(&[&server]);
    let authority = Some(certificate.files.certificate.clone());
    let name = Some("localhost".to_string());
    believing.upstream.tls = Some(UpstreamTls { authority, name });
    let trusting = proxy(believing.clone());
    let mut asking = client(&trusting);
    assert_eq!(asking.get("/a"), (200, "/a".to_string()));
    assert_eq!(asking.get("/b"), (200, "/b".to_string()));
    let other = Certificate::new();
    let authority = Some(other.files.certificate.clone());
    believing.upstream.tls = Some(UpstreamTls { authority, name: Some("localhost".to_string()) });
    trusting.reload(&believing).unwrap();
    assert_eq!(asking.get("/c").0, 502, "nobody vouches for it any more");
}

#[test]
fn a_reload_takes_new_certificates() {
    let (server, certificate) = (Server::saying("x"), Certificate::new());
    let live = live(&[&server]);
    let proxy = encrypted(config(live.clone(), Mode::Http), &certificate);
    let renewed = Certificate::new();
    std::fs::copy(&renewed.files.certificate, &certificate.files.certificate).unwrap();
    std::fs::copy(&renewed.files.key, &certificate.files.key).unwrap();
    proxy.reload(&live).unwrap();
    assert_eq!(ask_tls(proxy.addresses[0], &renewed).1, "x");
}

#[test]
fn bytes_go_through_tls_in_tcp_mode() {
    let (server, certificate) = (Server::saying("raw"), Certificate::new());
    let proxy = encrypted(config(live(&[&server]), Mode::Tcp), &certificate);
    assert_eq!(ask_tls(proxy.addresses[0], &certificate).1, "raw");
}

/// Runs something in a runtime of its own.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

type Asker = http2::SendRequest<Full<Bytes>>;

async fn http2_client(address: SocketAddr) -> Asker {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let builder = http2::Builder::new(TokioExecutor::new());
    let (sender, driver) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(driver);
    sender
}

async fn ask_http2(asker: &mut Asker, path: &str, body: &[u8]) -> (u16, Bytes) {
    let uri = format!("http://shop.example{path}");
    let request = Request::post(uri).header("cookie", "a=1").header("cookie", "b=2");
    let request = request.body(Full::new(Bytes::copy_from_slice(body))).unwrap();
    let answer = asker.send_request(request).await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.into_body().collect().await.unwrap().to_bytes())
}

#[test]
fn http2_with_prior_knowledge_becomes_http1_for_servers() {
    let server = Server::answering(|_, body| ok(&body.len().to_string()));
    let proxy = proxy(live(&[&server]));
    block_on(async {
        let mut asker = http2_client(proxy.addresses[0]).await;
        let body = vec![7; 1_000_000];
        assert_eq!(ask_http2(&mut asker, "/x?y", &body).await, (200, "1000000".into()));
        let many = (0..50).map(|_| {
            let mut asker = asker.clone();
            tokio::spawn(async move { ask_http2(&mut asker, "/", b"abc").await })
        });
        for one in many.collect::<Vec<_>>() {
            assert_eq!(one.await.unwrap(), (200, "3".into()));
        }
    });
    let head = server.heads().remove(0);
    assert!(head.starts_with("POST /x?y HTTP/1.1"), "{head}");
    assert_eq!(field(&head, "host"), Some("shop.example"));
    assert_eq!(field(&head, "cookie"), Some("a=1; b=2"));
    assert_eq!(proxy.admin().status().backends[0].counters.served, 51);
}

#[test]
fn a_hanging_server_is_told_to_a_client_of_http2() {
    let server = Server::new(|mut connection| while connection.head().is_some() {});
    let mut live = live(&[&server]);
    live.timeouts.first_byte = Duration::from_millis(100);
    let proxy = proxy(live);
    let (status, text) = block_on(async {
        let mut asker = http2_client(proxy.addresses[0]).await;
        ask_http2(&mut asker, "/", b"").await
    });
    assert_eq!((status, text.as_ref()), (504, b"the server took too long to answer\n".as_ref()));
}

/// A server that speaks HTTP/2 only, on a runtime of its own; where it listens.
fn http2_server() -> SocketAddr {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let service = service_fn(|request: Request<hyper::body::Incoming>| async move {
                    let told = format!("{:?} {}", request.version(), request.uri());
                    Ok::<_, std::convert::Infallible>(hyper::Response::new(Full::new(Bytes::from(
                        told,
                    ))))
                });
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                tokio::spawn(builder.serve_connection(TokioIo::new(stream), service));
            }
        });
    });
    address
}

#[test]
fn servers_of_http2_share_one_connection() {
    let address = http2_server();
    let mut live = Live::new(vec![Backend::new(&address.to_string())]);
    live.upstream.http2 = true;
    let proxy = proxy(live);
    let mut client = client(&proxy);
    for path in ["/a", "/b?c=d"] {
        let told = format!("HTTP/2.0 http://a{path}");
        assert_eq!(client.get(path), (200, told));
    }
    assert_eq!(proxy.admin().status().backends[0].counters.served, 2);
}
