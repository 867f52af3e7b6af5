//! Servers of raw bytes: a thread for each connection, and a closure that says what it does.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// A server; its socket is closed with it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Connections that it has accepted.
    pub(crate) accepted: Arc<AtomicUsize>,
    /// Heads of requests, as they came.
    pub(crate) heads: Arc<Mutex<Vec<String>>>,
    over: Arc<AtomicBool>,
}

/// A connection, as a server has it.
pub(crate) struct Connection {
    pub(crate) reader: BufReader<TcpStream>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// A server that does this with each connection.
    pub(crate) fn new(serve: impl Fn(Connection) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let server = Server {
            address: listener.local_addr().unwrap(),
            accepted: Arc::default(),
            heads: Arc::default(),
            over: Arc::default(),
        };
        let (accepted, over) = (server.accepted.clone(), server.over.clone());
        let (heads, serve) = (server.heads.clone(), Arc::new(serve));
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if over.load(SeqCst) {
                    return;
                }
                accepted.fetch_add(1, SeqCst);
                stream.set_nodelay(true).unwrap();
                let connection =
                    Connection { reader: BufReader::new(stream), heads: heads.clone() };
                let serve = serve.clone();
                std::thread::spawn(move || serve(connection));
            }
        });
        server
    }

    /// One that answers each request with what `answer` makes of its head and body.
    pub(crate) fn answering(
        answer: impl Fn(&str, &[u8]) -> String + Send + Sync + 'static,
    ) -> Server {
        Server::new(move |mut connection| {
            while let Some((head, body)) = connection.request() {
                connection.write(answer(&head, &body).as_bytes());
            }
        })
    }

    /// One that answers each request with this text.
    pub(crate) fn saying(text: &'static str) -> Server {
        Server::answering(move |_, _| ok(text))
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    pub(crate) fn name(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

/// An answer with this body.
pub(crate) fn ok(text: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())
}

impl Connection {
    /// The next request's head; `None` when the client has enough.
    pub(crate) fn head(&mut self) -> Option<String> {
        let head = read_head(&mut self.reader)?;
        self.heads.lock().unwrap().push(head.clone());
        Some(head)
    }

    /// The next request, with its body.
    pub(crate) fn request(&mut self) -> Option<(String, Vec<u8>)> {
        let head = self.head()?;
        let body = read_body(&mut self.reader, &head)?;
        Some((head, body))
    }

    /// Writes; a client that has gone away is not the server's trouble.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let _ = self.reader.get_mut().write_all(bytes);
    }

    pub(crate) fn close_writing(&mut self) {
        let _ = self.reader.get_ref().shutdown(Shutdown::Write);
    }
}

/// A head with the empty line behind it; `None` at the end.
pub(crate) fn read_head(reader: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
        if head[before..].trim_end().is_empty() {
            return Some(head);
        }
    }
}

/// A field of a head; names are told apart without regard to case.
pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (field, value) = line.split_once(':')?;
        field.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// A body by its length or in chunks; `None` when it is cut off.
pub(crate) fn read_body(reader: &mut impl BufRead, head: &str) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    if field(head, "transfer-encoding").is_some() {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let size = usize::from_str_radix(line.trim(), 16).ok()?;
            let start = body.len();
            body.resize(start + size, 0);
            reader.read_exact(&mut body[start..]).ok()?;
            if size == 0 {
                read_head(reader)?; // trailers
                return Some(body);
            }
            read_head(reader)?;
        }
    }
    let length = field(head, "content-length").map_or(0, |length| length.parse().unwrap());
    body.resize(length, 0);
    reader.read_exact(&mut body).ok()?;
    Some(body)
}
