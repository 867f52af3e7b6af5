//! Connections whose other end is the test, over pipes in memory.

#![allow(clippy::unwrap_used)]

use super::*;
use std::time::Instant;
use thermocline_hostcache::{Protocol, ToAgent, ToServer};
use thermocline_wire::{Config, Role};
use tokio::io::{DuplexStream, duplex};
use tokio::task::{LocalSet, yield_now};

/// Bytes that are under way at most: writers wait soon.
const PIPE_BYTES: usize = 4096;

fn link(role: Role, host: u16) -> Link {
    let protocol = Protocol::named("manifest").unwrap();
    Link::new(Config::new(role, [host as u8 + 1; 16]), protocol, HostId(host), Nanos(0)).unwrap()
}

/// Sends what a link has to say.
async fn say(link: &mut Link, stream: &mut DuplexStream) {
    let mut out = VecDeque::new();
    link.transmit(Nanos(1), &mut out, usize::MAX);
    for bytes in out {
        stream.write_all(&bytes).await.unwrap();
    }
}

/// The other end says hello and hears it.
async fn meet(link: &mut Link, stream: &mut DuplexStream) {
    while link.peer().is_none() {
        say(link, stream).await;
        let mut input = vec![0; PIPE_BYTES];
        let count = stream.read(&mut input).await.unwrap();
        link.receive(Nanos(1), &input[..count]).unwrap();
    }
    say(link, stream).await;
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

/// A host came in anew while the store was writing to its earlier connection, whose other end took
/// nothing. For up to 20 s, messages of the earlier connection were carried out in the new session.
#[test]
fn a_connection_that_is_ended_while_it_writes_ends_at_once_and_is_not_heard() {
    run(async {
        let (ours, mut theirs) = duplex(PIPE_BYTES);
        let line = Line::new(link(Role::Acceptor, 0));
        let heard = Rc::new(Cell::new(0));
        let (of, count) = (line.clone(), heard.clone());
        let carried = tokio::task::spawn_local(async move {
            let clock = Clock(Instant::now());
            let hear = || {
                while let Some(message) = of.next_message::<ToServer>().unwrap() {
                    assert!(matches!(message, ToServer::Renew { .. }));
                    count.set(count.get() + 1);
                }
                Ok(())
            };
            carry(ours, &of, clock, hear).await
        });
        let mut other = link(Role::Connector, 7);
        meet(&mut other, &mut theirs).await;
        other.send(&ToServer::Renew { request: 1 }).unwrap();
        say(&mut other, &mut theirs).await;
        while heard.get() == 0 {
            yield_now().await;
        }
        // More than the pipe has room for, and the other end takes nothing.
        let id = thermocline_hostcache::ContentId(1 << 32);
        let push = ToAgent::Push { id, version: 1, blocks: vec![(1, 1); 4096] };
        (0..20).for_each(|_| line.send(&push));
        for _ in 0..100 {
            yield_now().await;
        }
        line.end("it came in anew".to_string());
        other.send(&ToServer::Renew { request: 2 }).unwrap();
        say(&mut other, &mut theirs).await;
        let why = timeout(TAKEN_WITHIN / 2, carried).await.expect("it does not wait").unwrap();
        assert_eq!((why.as_str(), heard.get()), ("it came in anew", 1));
    });
}

#[test]
fn an_owner_that_waits_for_room_is_called_when_there_is_some() {
    run(async {
        let line = Line::new(link(Role::Acceptor, 0));
        let is_called = async || timeout(Duration::ZERO, line.room.notified()).await.is_ok();
        line.look_for_room(|_| true);
        assert!(!is_called().await, "nobody waits");
        assert!(!line.has_room(|_| false));
        line.look_for_room(|_| false);
        assert!(!is_called().await, "there is none");
        line.look_for_room(|_| true);
        assert!(is_called().await);
        assert!(line.has_room(|queued| queued == 0));
        line.look_for_room(|_| true);
        assert!(!is_called().await, "nobody waits any more");
    });
}
