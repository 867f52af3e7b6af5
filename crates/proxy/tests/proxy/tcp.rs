//! Bytes both ways, connection by connection.

use super::*;
use std::io::Read;
use std::sync::atomic::Ordering::SeqCst;

fn tcp(live: Live) -> Proxy {
    Proxy::start(&config(live, Mode::Tcp), 7, Vec::new()).unwrap()
}

/// A server that says hello, reads to the end, and says it all backwards.
fn backwards() -> Server {
    Server::new(|mut connection| {
        connection.write(b"hello ");
        let mut all = Vec::new();
        connection.reader.read_to_end(&mut all).unwrap();
        all.reverse();
        connection.write(&all);
    })
}

#[test]
fn one_side_may_end_while_the_other_goes_on() {
    let server = backwards();
    let proxy = tcp(live(&[&server]));
    let mut client = client(&proxy);
    let mut hello = [0; 6];
    client.reader.read_exact(&mut hello).unwrap();
    let sent: Vec<u8> = (0..3_000_000).map(|at: u32| (at % 251) as u8).collect();
    client.write(&sent);
    client.close_writing();
    let mut back = client.rest();
    back.reverse();
    assert!(back == sent);
    wait_until("it is over", || proxy.admin().status().backends[0].counters.served == 1);
}

#[test]
fn a_server_that_ends_first_leaves_the_client_its_say() {
    let (tell, told) = std::sync::mpsc::channel();
    let server = Server::new(move |mut connection| {
        connection.write(b"bye");
        connection.close_writing();
        let mut all = Vec::new();
        connection.reader.read_to_end(&mut all).unwrap();
        tell.send(all).unwrap();
    });
    let proxy = tcp(live(&[&server]));
    let mut client = client(&proxy);
    assert_eq!(client.rest(), b"bye");
    client.write("still here");
    client.close_writing();
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), b"still here");
}

#[test]
fn a_server_that_is_not_there_is_passed_over() {
    let server = backwards();
    let dead = backwards().address; // closed at once
    let mut live = live(&[&server]);
    live.backends.push(Backend::new(&dead.to_string()));
    wait_until("nobody listens there", || std::net::TcpStream::connect(dead).is_err());
    let proxy = tcp(live);
    for _ in 0..20 {
        let mut client = client(&proxy);
        client.write("ab");
        client.close_writing();
        assert_eq!(client.rest(), b"hello ba");
    }
    assert_eq!(server.accepted.load(SeqCst), 20);
}

#[test]
fn a_stream_that_does_not_move_is_closed() {
    let server = backwards();
    let mut live = live(&[&server]);
    live.timeouts.idle = Duration::from_millis(100);
    let proxy = tcp(live);
    assert_eq!(client(&proxy).rest(), b"hello ");
    wait_until("it is given back", || proxy.admin().status().backends[0].outstanding == 0);
}
