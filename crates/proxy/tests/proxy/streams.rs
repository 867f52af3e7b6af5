//! HTTP/2 in front: interim answers, trailers, bodies both ways, and clients that break off.

use super::servers::{field, ok, read_body, read_head};
use super::*;
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use hyper::{HeaderMap, Request, Response};
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::channel;

/// A client of HTTP/2.
struct Http2(SendRequest<Bytes>);

impl Http2 {
    async fn new(proxy: &Proxy) -> Http2 {
        let stream = tokio::net::TcpStream::connect(proxy.addresses[0]).await.unwrap();
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Http2(sender)
    }

    /// Sends a head; `is_whole` when no body follows.
    async fn send(&mut self, method: &str, is_whole: bool) -> (ResponseFuture, SendStream<Bytes>) {
        let request = Request::builder().method(method).uri("http://a/x").body(()).unwrap();
        self.send_head(request, is_whole).await
    }

    async fn send_head(
        &mut self,
        request: Request<()>,
        is_whole: bool,
    ) -> (ResponseFuture, SendStream<Bytes>) {
        let mut sender = self.0.clone().ready().await.unwrap();
        sender.send_request(request, is_whole).unwrap()
    }

    async fn get(&mut self) -> (u16, Vec<u8>) {
        let (answer, _) = self.send("GET", true).await;
        let answer = answer.await.unwrap();
        (answer.status().as_u16(), body(answer).await.0)
    }
}

/// The body of an answer and the fields behind it; panics where it is cut off.
async fn body(answer: Response<RecvStream>) -> (Vec<u8>, Option<HeaderMap>) {
    let (mut bytes, mut frames) = (Vec::new(), answer.into_body());
    while let Some(piece) = frames.data().await {
        let piece = piece.unwrap();
        frames.flow_control().release_capacity(piece.len()).unwrap();
        bytes.extend(piece);
    }
    (bytes, frames.trailers().await.unwrap())
}

/// The next interim answer.
async fn hint(answer: &mut ResponseFuture) -> Response<()> {
    std::future::poll_fn(|cx| answer.poll_informational(cx)).await.unwrap().unwrap()
}

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await.expect("it hangs") });
}

/// They were swallowed: hyper's server of HTTP/2 has no way to send them.
#[test]
fn early_hints_reach_clients_of_http2_before_the_answer() {
    let (told, tell) = channel::<()>();
    let tell = Mutex::new(tell);
    let server = Server::new(move |mut connection| {
        while connection.head().is_some() {
            let hint = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: x\r\nX: 1\r\n\
                        Content-Length: 7\r\n\r\n";
            connection.write(hint.as_bytes());
            // The rest comes when the client has seen the first.
            if tell.lock().unwrap().recv().is_err() {
                return;
            }
            let coded = "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: gzip\r\n\r\n";
            let other = "HTTP/1.1 102 Processing\r\n\r\n";
            connection.write(format!("{coded}{other}{}", ok("ok")).as_bytes());
        }
    });
    let proxy = proxy(live(&[&server]));
    run(async {
        let mut client = Http2::new(&proxy).await;
        for _ in 0..3 {
            let (mut answer, _) = client.send("GET", true).await;
            let early = hint(&mut answer).await;
            assert_eq!((early.status().as_u16(), early.headers().len()), (103, 1), "{early:?}");
            assert_eq!(early.headers()["link"], "</a.css>");
            told.send(()).unwrap();
            assert_eq!(hint(&mut answer).await.status().as_u16(), 102);
            let answer = answer.await.unwrap();
            assert_eq!(answer.status().as_u16(), 200);
            assert_eq!(body(answer).await.0, b"ok");
        }
    });
    assert_eq!(proxy.admin().status().backends[0].counters.served, 3);
}

/// Heads are not counted by a client's windows: whoever sends no end of them fills the memory.
#[test]
fn a_server_cannot_send_interim_answers_without_end() {
    const HINTS: usize = 20_000;
    let server = Server::new(|mut connection| {
        connection.head();
        let hint = format!("HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n", "x".repeat(100));
        (0..HINTS).for_each(|_| connection.write(hint.as_bytes()));
        connection.write(ok("ok").as_bytes());
    });
    let proxy = proxy(live(&[&server]));
    run(async {
        let mut client = Http2::new(&proxy).await;
        let (mut answer, _) = client.send("GET", true).await;
        let mut hints = 0;
        while let Some(hint) = std::future::poll_fn(|cx| answer.poll_informational(cx)).await {
            hint.unwrap();
            hints += 1;
        }
        assert!((1..1000).contains(&hints), "{hints} came");
        assert_eq!(body(answer.await.unwrap()).await.0, b"ok");
    });
}

#[test]
fn trailers_pass_between_http2_and_http1_unannounced() {
    let seen = std::sync::Arc::new(Mutex::new(String::new()));
    let of = seen.clone();
    let server = Server::new(move |mut connection| {
        while let Some(head) = connection.head() {
            assert_eq!(field(&head, "transfer-encoding"), Some("chunked"));
            let mut lines = String::new();
            while !lines.ends_with("0\r\n") {
                std::io::BufRead::read_line(&mut connection.reader, &mut lines).unwrap();
            }
            *of.lock().unwrap() = read_head(&mut connection.reader).unwrap();
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n";
            let behind = "Grpc-Status: 0\r\nConnection: close\r\nContent-Length: 9\r\n\r\n";
            connection.write(format!("{head}{behind}").as_bytes());
        }
    });
    let proxy = proxy(live(&[&server]));
    run(async {
        let mut client = Http2::new(&proxy).await;
        for _ in 0..3 {
            let (answer, mut sender) = client.send("POST", false).await;
            sender.send_data("hello".into(), false).unwrap();
            let mut fields = HeaderMap::new();
            fields.insert("x-t", "v".parse().unwrap());
            fields.insert("x-forwarded-for", "6.6.6.6".parse().unwrap());
            sender.send_trailers(fields).unwrap();
            let (bytes, behind) = body(answer.await.unwrap()).await;
            let behind = behind.expect("trailers");
            assert_eq!((bytes, behind.len()), (b"ok".to_vec(), 1), "{behind:?}");
            assert_eq!(behind["grpc-status"], "0");
            assert_eq!(*seen.lock().unwrap(), "x-t: v\r\n\r\n");
        }
    });
    assert_eq!(server.accepted.load(SeqCst), 1);
    assert_eq!(proxy.admin().status().backends[0].counters.served, 3);
}

/// Behind a body with a length is the next message: fields there would begin it.
#[test]
fn nothing_stands_behind_a_body_with_a_length() {
    let server = Server::answering(|_, body| ok(std::str::from_utf8(body).unwrap()));
    let proxy = proxy(live(&[&server]));
    run(async {
        let mut client = Http2::new(&proxy).await;
        for _ in 0..3 {
            let request = Request::post("http://a/x").header("content-length", "10");
            let (answer, mut sender) = client.send_head(request.body(()).unwrap(), false).await;
            // It ends as a body in chunks would.
            sender.send_data("hello0\r\n\r\n".into(), false).unwrap();
            let mut fields = HeaderMap::new();
            fields.insert("get", "/smuggled".parse().unwrap());
            sender.send_trailers(fields).unwrap();
            assert_eq!(body(answer.await.unwrap()).await.0, b"hello0\r\n\r\n");
        }
    });
    assert_eq!(server.accepted.load(SeqCst), 1);
    let heads = server.heads();
    assert!(heads.len() == 3 && heads.iter().all(|head| head.starts_with("POST /x")), "{heads:?}");
}

#[test]
fn big_bodies_stream_both_ways_over_http2() {
    const SIZE: usize = 5 << 20;
    let server = Server::new(|mut connection| {
        while let Some((_, body)) = connection.request() {
            connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            for piece in body.chunks(77_777) {
                connection.write(format!("{:x}\r\n", piece.len()).as_bytes());
                connection.write(piece);
                connection.write(b"\r\n");
            }
            connection.write(b"0\r\n\r\n");
        }
    });
    let proxy = proxy(live(&[&server]));
    let wanted: Vec<u8> = (0..SIZE).map(|at| (at / 7) as u8).collect();
    run(async {
        let mut client = Http2::new(&proxy).await;
        let streams = (0..4).map(|_| client.0.clone()).map(|sender| {
            let wanted = wanted.clone();
            tokio::spawn(async move {
                let (answer, mut sender) = Http2(sender).send("POST", false).await;
                let mut rest = Bytes::from(wanted.clone());
                while !rest.is_empty() {
                    sender.reserve_capacity(rest.len());
                    let room = std::future::poll_fn(|cx| sender.poll_capacity(cx)).await;
                    let room = room.unwrap().unwrap().min(rest.len());
                    sender.send_data(rest.split_to(room), rest.is_empty()).unwrap();
                }
                assert!(body(answer.await.unwrap()).await.0 == wanted);
            })
        });
        for stream in streams.collect::<Vec<_>>() {
            stream.await.unwrap();
        }
        assert_eq!(client.get().await, (200, Vec::new()));
    });
}

/// Its time was counted from its head on, however much of it came.
#[test]
fn an_upload_that_keeps_moving_has_the_time_that_it_takes() {
    let server = Server::answering(|_, body| ok(&body.len().to_string()));
    let mut live = live(&[&server]);
    live.timeouts.first_byte = Duration::from_millis(700);
    let proxy = proxy(live);
    run(async {
        let mut client = Http2::new(&proxy).await;
        let (answer, mut sender) = client.send("POST", false).await;
        let mut pace = tokio::time::interval(Duration::from_millis(100));
        for piece in 0..20 {
            pace.tick().await;
            sender.send_data("x".into(), piece == 19).unwrap();
        }
        let answer = answer.await.unwrap();
        assert_eq!((answer.status().as_u16(), body(answer).await.0), (200, b"20".to_vec()));
    });
}

/// A body in chunks has an end, and a server acts on one that has come to it.
#[test]
fn an_upload_that_is_reset_does_not_come_to_an_end() {
    let (told, tell) = channel();
    let server = Server::new(move |mut connection| {
        let head = connection.head().unwrap();
        told.send(read_body(&mut connection.reader, &head)).unwrap();
    });
    let proxy = proxy(live(&[&server]));
    for reason in [h2::Reason::NO_ERROR, h2::Reason::CANCEL] {
        run(async {
            let mut client = Http2::new(&proxy).await;
            let (_answer, mut sender) = client.send("POST", false).await;
            sender.send_data("hello".into(), false).unwrap();
            while server.heads().is_empty() {
                tokio::task::yield_now().await;
            }
            sender.send_reset(reason);
            while proxy.admin().status().backends[0].outstanding > 0 {
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(tell.recv_timeout(PATIENCE).unwrap(), None, "{reason:?}");
        server.heads.lock().unwrap().clear();
    }
    let counters = proxy.admin().status().backends[0].counters;
    assert_eq!((counters.abandoned, counters.broken), (2, 0), "{counters:?}");
}

#[test]
fn an_answer_that_breaks_off_resets_its_stream_and_no_other() {
    let server = Server::new(|mut connection| {
        while let Some(head) = connection.head() {
            if head.starts_with("POST") {
                connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
                return;
            }
            connection.write(ok("fine").as_bytes());
        }
    });
    let proxy = proxy(live(&[&server]));
    run(async {
        let mut client = Http2::new(&proxy).await;
        let (answer, mut sender) = client.send("POST", false).await;
        sender.send_data("x".into(), true).unwrap();
        let mut frames = answer.await.unwrap().into_body();
        let mut end = Ok(());
        while let Some(piece) = frames.data().await {
            if let Err(error) = piece {
                end = Err(error.reason());
                break;
            }
        }
        assert_eq!(end, Err(Some(h2::Reason::INTERNAL_ERROR)));
        assert_eq!(client.get().await, (200, b"fine".to_vec()));
    });
}

#[test]
fn an_answer_to_head_has_its_length_and_no_body() {
    let server =
        Server::answering(|_, _| "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".to_string());
    let proxy = proxy(live(&[&server]));
    run(async {
        let mut client = Http2::new(&proxy).await;
        let (answer, _) = client.send("HEAD", true).await;
        let answer = answer.await.unwrap();
        assert_eq!(answer.headers()["content-length"], "1000");
        assert!(answer.into_body().is_end_stream());
    });
    assert_eq!(proxy.admin().status().backends[0].counters.served, 1);
}
