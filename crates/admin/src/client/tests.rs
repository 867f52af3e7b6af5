//! Whoever does not answer is given up; who may just be starting is waited for.

use super::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::time::Instant;

#[test]
fn hints_to_an_engine_that_does_not_answer_fail_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("http.sock");
    // Connections are taken by the kernel; nobody reads them.
    let _listener = UnixListener::bind(&socket).unwrap();
    let client = Client::new(&socket).within(Duration::from_millis(20));
    let document = serde_json::json!({ "version": 1, "source": "test", "hints": [] });
    let sent: Result<serde_json::Value, _> = client.send(Method::POST, "/v1/hints", &document);
    let error = sent.unwrap_err();
    assert!(matches!(error, CallError::Late { .. }), "{error}");
    assert!(error.to_string().contains("http.sock"), "{error}");
}

/// `thermocline store serve … &` and the next line: the socket was not there yet.
#[test]
fn a_storage_server_that_is_just_starting_is_waited_for_and_an_engine_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("store.sock");
    let engine: Result<(), _> = Client::new(&socket).get("/v1/status");
    assert!(matches!(engine.unwrap_err(), CallError::Connect { .. }));

    let client = Client::of_store(&socket);
    let asked = std::thread::spawn(move || client.get::<()>("/v1/status"));
    let listener = UnixListener::bind(&socket).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        request.extend(byte);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull").unwrap();
    asked.join().unwrap().unwrap();
    drop(listener);

    // One that was killed has left its socket; nobody comes any more.
    let patience = Duration::from_millis(120);
    let (client, start) = (Client::of_store(&socket), Instant::now());
    let error = Client { starting: patience, ..client }.get::<()>("/v1/status").unwrap_err();
    assert!(start.elapsed() >= patience, "{:?}", start.elapsed());
    assert!(error.to_string().contains("is a storage server running there?"), "{error}");
}
