//! Clients, servers and ends that do not do as they should; and what careless people do.

use super::*;
use rustix::net::sockopt;
use std::os::fd::AsFd;

/// A listener that answers nobody: connections to it neither come about nor fail.
fn mute() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind(any()).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        waiting.push(stream);
        assert!(waiting.len() < 16, "the queue has an end");
    }
    (listener, waiting)
}

fn vanish(stream: TcpStream) {
    sockopt::set_socket_linger(stream.as_fd(), Some(Duration::ZERO)).unwrap();
    drop(stream);
}

#[test]
fn a_client_that_vanishes_frees_its_place_though_its_server_is_still_looked_for() {
    let (mute, _waiting) = mute();
    let scene = Scene::new();
    let mut config = scene.exit_config(any(), "127.0.0.1:*");
    config.common.limits.connect_within = 10 * FOR_EVER;
    let exit = Gateway::exit(config).unwrap();
    let enter = scene.enter(exit.addresses[0], mute.local_addr().unwrap());
    let forward = connect(enter.addresses[0]);
    let mut socks = connect(enter.addresses[1]);
    let mut request = vec![5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1];
    request.extend(mute.local_addr().unwrap().port().to_be_bytes());
    socks.write_all(&request).unwrap();
    wait_until("the exit looks for both servers", || exit.status().clients == 2);
    vanish(forward);
    vanish(socks);
    wait_until("their places are free", || {
        exit.status().clients == 0 && enter.status().clients == 0
    });
}

#[test]
fn requests_and_answers_wait_for_no_timer() {
    let scene = Scene::new();
    let (enter, exit) = scene.pair(server(echo));
    let mut stream = connect(enter.addresses[0]);
    stream.set_nodelay(true).unwrap();
    for round in 0..100_u32 {
        stream.write_all(format!("{round:05}").as_bytes()).unwrap();
        stream.read_exact(&mut [0; 5]).unwrap();
    }
    assert_eq!((enter.status().lingered, exit.status().lingered), (0, 0));
}

#[test]
fn a_key_at_two_sites_is_told_to_the_one_that_is_displaced() {
    let scene = Scene::new();
    let exit = scene.exit("127.0.0.1:*");
    let first = scene.enter(exit.addresses[0], nowhere());
    let _second = Gateway::enter(scene.enter_config(exit.addresses[0], nowhere())).unwrap();
    wait_until(&format!("the first one hears why; {:?}", first.status().last_error), || {
        let error = first.status().last_error;
        error.is_some_and(|error| error.contains("give each site a key of its own"))
    });
}

#[test]
fn one_key_cannot_take_the_places_of_another() {
    let scene = Scene::new();
    make_keys(&scene.path().join("second")).unwrap();
    let mut config = scene.exit_config(any(), "127.0.0.1:*");
    config.common.limits.clients_max = 4;
    config.common.keys.peers.push(scene.path().join("second.pub"));
    let exit = Gateway::exit(config).unwrap();
    let target = server(|mut stream| read_all(&mut stream).map(drop));
    let greedy = scene.enter(exit.addresses[0], target);
    let mut config = scene.enter_config(exit.addresses[0], target);
    config.common.keys.key = scene.path().join("second.key");
    let modest = Gateway::enter(config).unwrap();
    wait_until("both are up", || is_up(&modest) && exit.status().links.len() == 2);
    let taken: Vec<_> = (0..4).map(|_| connect(greedy.addresses[0])).collect();
    wait_until("it gets what is not kept for the other", || {
        let status = exit.status();
        status.clients == 2 && status.refused == 2
    });
    let others = [connect(modest.addresses[0]), connect(modest.addresses[0])];
    wait_until("the other has its own", || exit.status().clients == 4);
    drop((taken, others));
}

#[test]
fn a_flow_is_told_with_what_it_saved_and_why() {
    let data = noise(7, MIB);
    let served = data.clone();
    let scene = Scene::new();
    let (enter, exit) = scene.pair(server(move |mut stream| {
        for _ in 0..2 {
            stream.write_all(&served)?;
        }
        read_all(&mut stream).map(drop)
    }));
    let mut stream = connect(enter.addresses[0]);
    let mut got = vec![0; 2 * MIB];
    stream.read_exact(&mut got).unwrap();
    assert!(got == data.repeat(2), "other bytes came");
    let told = || exit.status().links[0].busiest.first().cloned();
    wait_until("it is all counted", || told().is_some_and(|flow| flow.bytes > 2 * MIB as u64));
    let flow = told().unwrap();
    assert!((0.45..0.51).contains(&flow.re_ratio.unwrap()), "{flow:?}");
    assert_eq!((flow.choice.as_str(), flow.chunk_bytes), ("content 2 KiB", Some(2048)));
    assert!(!flow.why.is_empty() && flow.class != 0, "{flow:?}");
    let received = || enter.status().links[0].busiest[0].received;
    wait_until("the enter counts what its client got", || received() == 2 * MIB as u64 + 1);
}

#[test]
fn an_end_does_not_meet_itself_and_a_lost_public_key_comes_back() {
    let scene = Scene::new();
    let mut config = scene.exit_config(any(), "");
    config.common.keys.peers.push(scene.path().join("exit.pub"));
    let error = Gateway::exit(config).err().unwrap().to_string();
    assert!(error.contains("own key"), "{error}");
    let public = scene.path().join("exit.pub");
    let before = std::fs::read(&public).unwrap();
    std::fs::remove_file(&public).unwrap();
    assert!(make_keys(&scene.path().join("exit")).unwrap().was_there);
    let error = make_keys(&scene.path().join("exit")).unwrap_err().to_string();
    assert!(error.contains("exit.key and") && error.contains("are there already"), "{error}");
    assert_eq!(std::fs::read(&public).unwrap(), before);
    std::fs::remove_file(scene.path().join("exit.key")).unwrap();
    let error = make_keys(&scene.path().join("exit")).unwrap_err().to_string();
    assert!(error.contains("a lost key cannot be made again"), "{error}");
}
