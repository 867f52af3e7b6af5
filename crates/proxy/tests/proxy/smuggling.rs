//! Requests that two readers might read in two ways: each is refused, or reaches the server in one
//! way only.

use super::clients::status;
use super::servers::{field, ok};
use super::*;

/// A server that answers with how many bytes of body it found.
fn counting() -> Server {
    Server::answering(|head, body| {
        ok(&format!("{} {}", head.split(' ').nth(1).unwrap(), body.len()))
    })
}

#[test]
fn what_is_ambiguous_is_refused_before_any_server_sees_it() {
    for request in [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 6\r\n\r\nhello!",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX\0: 1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET / HTTP/9.1\r\nHost: a\r\n\r\n",
        "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01",
    ] {
        let server = counting();
        let proxy = proxy(live(&[&server]));
        let mut client = client(&proxy);
        client.write(request);
        client.close_writing();
        let answer = String::from_utf8_lossy(&client.rest()).into_owned();
        assert!(answer.is_empty() || status(&answer) == 400, "{request:?}: {answer}");
        assert_eq!(server.heads(), [""; 0], "{request:?}");
    }
}

#[test]
fn a_body_with_two_lengths_has_one_behind_the_proxy() {
    let server = counting();
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    client.write(
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n\
         0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(client.answer().1, "/a 0");
    // What stood behind the last chunk is a request of this client's own, or nothing.
    client.close_writing();
    client.rest();
    let heads = server.heads();
    assert_eq!(field(&heads[0], "content-length"), None, "{}", heads[0]);
    assert_eq!(field(&heads[0], "transfer-encoding"), Some("chunked"));
}

#[test]
fn chunk_extensions_and_trailers_do_not_move_the_end() {
    let server = counting();
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    client.write(
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         5;x=\"y\"\r\nhello\r\n0\r\nContent-Length: 40\r\nX-Trailer: 1\r\n\r\n",
    );
    assert_eq!(client.answer().1, "/a 5");
    assert_eq!(client.get("/b").1, "/b 0");
    assert_eq!(server.heads().len(), 2);
}

#[test]
fn a_server_cannot_smuggle_an_answer_into_the_next() {
    let server = Server::answering(|head, _| match head.contains("/first") {
        true => format!("{}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", ok("fine")),
        false => ok("good"),
    });
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    assert_eq!(client.get("/first").1, "fine");
    for _ in 0..3 {
        assert_eq!(client.get("/second").1, "good", "the connection was not used again");
    }
}
