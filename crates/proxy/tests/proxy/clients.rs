//! A client of raw bytes, which sees what a socket sees; it knows no more of HTTP than tests need.

use super::PATIENCE;
use super::servers::{read_body, read_head};
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

/// A connection to the proxy.
pub(crate) struct Client {
    pub(crate) reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client { reader: BufReader::new(stream) }
    }

    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.reader.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    pub(crate) fn close_writing(&mut self) {
        self.reader.get_ref().shutdown(Shutdown::Write).unwrap();
    }

    /// An answer's head.
    pub(crate) fn head(&mut self) -> String {
        read_head(&mut self.reader).expect("an answer's head")
    }

    /// An answer with its body.
    pub(crate) fn answer(&mut self) -> (String, String) {
        let head = self.head();
        let body = read_body(&mut self.reader, &head).expect("the whole body");
        (head, String::from_utf8(body).unwrap())
    }

    /// Sends a request and takes the answer; its status and body.
    pub(crate) fn ask(&mut self, request: &str) -> (u16, String) {
        self.write(request);
        let (head, body) = self.answer();
        (status(&head), body)
    }

    /// Asks for a path.
    pub(crate) fn get(&mut self, path: &str) -> (u16, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
    }

    /// Bytes that come until the proxy closes.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset is an end too.
        let _ = self.reader.read_to_end(&mut rest);
        rest
    }
}

/// The status of an answer's head.
pub(crate) fn status(head: &str) -> u16 {
    head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect(head)
}
