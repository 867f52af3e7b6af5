//! An engine that does not answer is given up.

use super::*;
use std::os::unix::net::UnixListener;

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
