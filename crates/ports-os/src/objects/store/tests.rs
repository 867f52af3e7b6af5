//! The way to a store, against servers that say what a test wants.

use super::super::bucket::{Bucket, BucketError};
use super::super::traffic::BucketStatus;
use super::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use thermocline_units::{Bytes, Nanos};

const SECRET: &str = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY";

/// The answers of a server to every request.
#[derive(Clone, Copy)]
enum Manner {
    /// Answers with this status and body.
    Says(&'static str, &'static str),
    /// Not at all.
    Hangs,
    /// Answers with a tenth of what it announces.
    CutsOff,
}

/// Requests that a server got: their first lines.
type Heard = Arc<Mutex<Vec<String>>>;

fn server(manner: Manner) -> (String, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("it is bound"));
    let heard = Heard::default();
    let shared = heard.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let heard = shared.clone();
            std::thread::spawn(move || serve(&stream, manner, &heard));
        }
    });
    (address, heard)
}

fn serve(stream: &TcpStream, manner: Manner, heard: &Heard) {
    let mut reader = BufReader::new(stream);
    let mut stream = stream;
    loop {
        let (mut first, mut length) = (String::new(), 0);
        if reader.read_line(&mut first).is_err() || first.is_empty() {
            return;
        }
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).is_err() || line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let _ = reader.by_ref().take(length).read_to_end(&mut Vec::new());
        heard.lock().expect("ours").push(first);
        let sent = match manner {
            Manner::Says(status, body) => {
                let length = body.len();
                write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}")
            }
            Manner::Hangs => continue,
            Manner::CutsOff => {
                let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n0123456789");
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// A bucket behind `endpoint`, patient for a moment only.
fn options(endpoint: &str) -> BucketOptions {
    let limits = Limits {
        deadline: Nanos::from_micros(200_000),
        retries: 2,
        retry_for: Nanos::from_secs(20),
        ..Limits::default()
    };
    let url = "s3://cold/pools/a".parse().expect("an address");
    BucketOptions { endpoint: Some(endpoint.to_string()), limits, ..BucketOptions::new(url) }
}

/// Asks for an object; what came of it, and the requests that were counted.
fn ask(options: &BucketOptions) -> (Result<bytes::Bytes, BucketError>, BucketStatus) {
    let traffic = Arc::new(Traffic::default());
    let store = finish(with_credentials(options), options, &traffic).expect("a way");
    let bucket = Bucket::new(store, &options.url.prefix);
    let runtime = super::super::runtime().expect("a runtime");
    let answer = runtime.block_on(bucket.get("log/1"));
    (answer, traffic.status(0, 1 << 20, Bytes(0)))
}

/// Credentials as a user has them, without the environment of whoever runs the tests.
fn with_credentials(options: &BucketOptions) -> AmazonS3Builder {
    AmazonS3Builder::new()
        .with_access_key_id("AKIAIOSFODNN7EXAMPLE")
        .with_secret_access_key(SECRET)
        .with_bucket_name(&options.url.bucket)
}

#[test]
fn addresses_of_buckets_are_read_and_printed_alike() {
    for text in ["s3://cold/pool", "s3://a.b-c/x/y_z/0.1"] {
        assert_eq!(text.parse::<BucketUrl>().expect(text).to_string(), text);
    }
    for text in [
        "s3://cold",
        "s3://cold/",
        "s3:///p",
        "s3://cold//p",
        "s3://cold/../p",
        "s3://co ld/p",
        "https://cold/p",
        "s3://cold/p?x=1",
    ] {
        assert!(text.parse::<BucketUrl>().is_err(), "{text}");
    }
}

#[test]
fn nothing_goes_to_another_machine_in_the_clear_unless_allowed() {
    let check = |endpoint: &str, allow_http| {
        BucketOptions { allow_http, ..options(endpoint) }.check_endpoint().is_ok()
    };
    assert!(check("https://s3.example.com", false) && check("http://127.0.0.1:9000", false));
    assert!(check("http://localhost:9000", false) && check("http://[::1]:9000", false));
    assert!(!check("http://192.0.2.7:9000", false) && check("http://192.0.2.7:9000", true));
    assert!(!check("ftp://192.0.2.7", true) && !check("s3.example.com", true));
    assert!(!check("https://s3.example.com/bucket", true));
}

#[test]
fn retries_stop_at_their_bound_and_every_try_is_counted() {
    let (endpoint, heard) =
        server(Manner::Says("503 Slow Down", "<Error><Code>SlowDown</Code></Error>"));
    let (answer, status) = ask(&options(&endpoint));
    let error = answer.expect_err("nobody is served");
    assert!(matches!(error, BucketError::Refused(_)), "{error}");
    assert_eq!(heard.lock().expect("ours").len(), 3, "once, and two tries more");
    assert_eq!((status.gets, status.failed), (3, 3));
}

#[test]
fn a_server_that_hangs_becomes_a_request_that_timed_out() {
    let (endpoint, _) = server(Manner::Hangs);
    let (answer, status) = ask(&options(&endpoint));
    let error = answer.expect_err("nobody answers");
    assert!(matches!(error, BucketError::TimedOut(_)), "{error}");
    assert_eq!(status.failed, 3);
}

#[test]
fn an_answer_that_is_cut_off_is_none() {
    let (endpoint, _) = server(Manner::CutsOff);
    let (answer, status) = ask(&options(&endpoint));
    answer.expect_err("ten bytes are not a hundred");
    assert_eq!((status.failed, status.received), (3, Bytes(0)));
}

#[test]
fn a_server_that_is_not_there_is_refused_and_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let (answer, _) = ask(&options(&format!("http://{address}")));
    let said = answer.expect_err("nobody listens").to_string();
    assert!(said.contains(&address.to_string()), "{said}");
}

#[test]
fn what_a_store_says_about_signatures_is_not_repeated() {
    const SAID: &str = "<Error><Code>SignatureDoesNotMatch</Code><Message>it is wrong</Message>\
        <AWSAccessKeyId>AKIAIOSFODNN7EXAMPLE</AWSAccessKeyId>\
        <CanonicalRequest>x-amz-security-token:FQoGZXIvYXdz</CanonicalRequest></Error>";
    let (endpoint, heard) = server(Manner::Says("403 Forbidden", SAID));
    // On a busy machine 200 ms may be over before the answer, and then it is asked again.
    let limits = Limits { deadline: Nanos::from_secs(600), ..options(&endpoint).limits };
    let (answer, _) = ask(&BucketOptions { limits, ..options(&endpoint) });
    let error = answer.expect_err("forbidden");
    for said in [error.to_string(), format!("{error:?}")] {
        assert!(said.contains("SignatureDoesNotMatch"), "{said}");
        for secret in ["AKIA", "FQoG", SECRET] {
            assert!(!said.contains(secret), "{said}");
        }
    }
    assert_eq!(heard.lock().expect("ours").len(), 1, "what is forbidden stays so");
}

#[test]
fn bytes_are_counted_in_both_directions_and_priced() {
    let (endpoint, _) = server(Manner::Says("200 OK", "0123456789"));
    let prices = Prices { gets_1000: 0.4, puts_1000: 5.0, download_gib: 0.0, month_gib: 0.02 };
    let options = BucketOptions { prices, ..options(&endpoint) };
    let traffic = Arc::new(Traffic::new(prices));
    let store = finish(with_credentials(&options), &options, &traffic).expect("a way");
    let bucket = Bucket::new(store, "p");
    super::super::runtime().expect("a runtime").block_on(async {
        // This server does not answer as S3 does, so what comes of it does not matter.
        let _ = bucket.put("lock", vec![0; 1000]).await;
        let _ = bucket.get("lock").await;
    });
    let status = traffic.status(1024, 1 << 20, Bytes(0));
    assert_eq!((status.puts, status.gets), (1, 1));
    assert_eq!((status.sent, status.received), (Bytes(1000), Bytes(20)));
    assert!((status.cost.expect("priced") - 0.0054).abs() < 1e-9);
    assert!((status.cost_month.expect("priced") - 0.02).abs() < 1e-3);
}
