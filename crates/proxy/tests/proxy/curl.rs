//! The proxy as curl sees it. Without curl these tests say so and pass.

use super::servers::ok;
use super::*;
use std::process::Command;

/// Answer that curl shows, head and body, with these arguments; `None`: it is not there, or too
/// old.
#[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
fn curl(proxy: &Proxy, arguments: &[&str]) -> Option<String> {
    let version = Command::new("curl").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if !version.is_ok_and(|text| text.contains("HTTP2")) {
        println!("SKIPPED: no curl that speaks HTTP/2");
        return None;
    }
    let address = format!("http://{}/x", proxy.addresses[0]);
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--include", "--max-time", "60"])
        .args(arguments)
        .arg(address)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().to_ascii_lowercase())
}

const VERSIONS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

#[test]
fn curl_sees_early_hints_and_then_the_answer() {
    let server = Server::answering(|_, _| {
        let hint = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
        format!("{hint}{}", ok("hello"))
    });
    let proxy = proxy(live(&[&server]));
    for version in VERSIONS {
        let Some(said) = curl(&proxy, &[version]) else { return };
        let (hint, answer) = (said.find(" 103").unwrap(), said.find(" 200").unwrap());
        assert!(hint < answer && said[hint..answer].contains("link: </a.css>"), "{said}");
        assert!(said.ends_with("hello"), "{said}");
    }
}

#[test]
fn curl_sees_trailers_that_nobody_announced() {
    let server = Server::answering(|_, _| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        format!("{head}5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n")
    });
    let proxy = proxy(live(&[&server]));
    for version in VERSIONS {
        let wanted = ["--header", "TE: trailers", "--header", "Connection: TE"];
        let wanted = if version == VERSIONS[0] { &wanted[..] } else { &[] };
        let Some(said) = curl(&proxy, &[&[version], wanted].concat()) else { return };
        let body = said.find("hello").unwrap();
        assert!(said[body..].contains("x-sum: 7"), "{version}: {said}");
    }
}
