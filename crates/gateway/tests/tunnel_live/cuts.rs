//! Flows that are cut while their clients do nothing.

use super::*;

/// More than all buffers on the way hold.
const FLOOD: usize = 64;

/// A server that floods whoever connects.
fn flood() -> SocketAddr {
    let piece = noise(9, MIB);
    server(move |mut stream| (0..FLOOD).try_for_each(|_| stream.write_all(&piece)))
}

/// True if as much waits for an enter's client as may: it takes nothing.
fn is_stuck(enter: &Gateway) -> bool {
    let status = enter.status();
    let flows = status.links.iter().flat_map(|link| &link.busiest);
    flows.map(|flow| flow.waiting_bytes).max().is_some_and(|waiting| waiting >= MIB)
}

#[test]
fn a_broken_link_frees_the_place_of_a_client_that_takes_nothing() {
    let scene = Scene::new();
    let (enter, exit) = scene.pair(flood());
    let mut stream = connect(enter.addresses[0]);
    wait_until("nothing more goes to the client", || is_stuck(&enter));
    drop(exit);
    wait_until("its place is free", || enter.status().clients == 0);
    let mut got = Vec::new();
    let error = stream.read_to_end(&mut got).expect_err("an end would look like the last byte");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn a_reset_frees_the_place_of_a_client_that_takes_nothing() {
    let (scene, piece) = (Scene::new(), noise(9, MIB));
    let (breaks_off, must_break_off) = std::sync::mpsc::channel::<()>();
    let must_break_off = Mutex::new(must_break_off);
    let (enter, exit) = scene.pair(server(move |mut stream| {
        stream.set_nonblocking(true)?;
        while must_break_off.lock().unwrap().try_recv().is_err() {
            let _ = stream.write(&piece);
            std::thread::yield_now();
        }
        // Its connection is reset when it is closed.
        Ok(rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?)
    }));
    let stream = connect(enter.addresses[0]);
    wait_until("nothing more goes to the client", || is_stuck(&enter));
    breaks_off.send(()).unwrap();
    wait_until("the exit knows", || {
        // It finds out when it has something for the server.
        let _ = (&stream).write(b".");
        exit.status().clients == 0
    });
    wait_until("the enter's place is free", || enter.status().clients == 0);
}

/// Its server has said its last byte, and the client may still speak but does not.
#[test]
fn a_broken_link_frees_the_place_of_a_client_that_says_nothing() {
    let scene = Scene::new();
    let (enter, exit) = scene.pair(server(|mut stream| {
        stream.write_all(b"that is all")?;
        stream.shutdown(Shutdown::Write)?;
        read_all(&mut stream).map(drop)
    }));
    let mut stream = connect(enter.addresses[0]);
    assert_eq!(read_all(&mut stream).unwrap(), b"that is all");
    drop(exit);
    wait_until("its place is free", || enter.status().clients == 0);
}
