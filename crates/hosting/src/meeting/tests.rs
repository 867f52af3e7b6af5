//! Machines that meet by their keys, over loopback.

#![allow(clippy::unwrap_used)]

use super::*;
use thermocline_gateway::make_keys;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    /// A folder with the keys of these machines.
    fn new(test: &str, names: &[&str]) -> Folder {
        let name = format!("thermocline-{}-{test}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&folder.0).unwrap();
        for name in names {
            make_keys(&folder.0.join(name)).unwrap();
        }
        folder
    }

    fn keys(&self, own: &str, peers: &[(u16, &str)]) -> Keyed {
        let public = |name: &str| self.0.join(format!("{name}.pub"));
        let peers = peers.iter().map(|(host, name)| (HostId(*host), public(name))).collect();
        Keyed { key: self.0.join(format!("{own}.key")), peers }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Outcome of a connection: who came in, or why nobody did.
type Came = Result<Met, String>;

/// A listener with these keys; what becomes of each connection.
fn open(keys: Keyed, limits: Limits) -> (SocketAddr, mpsc::UnboundedReceiver<Came>) {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let (told, came) = mpsc::unbounded_channel();
    let (met, refused) = (told.clone(), told);
    let listener = TcpListener::from_std(listener).unwrap();
    tokio::task::spawn_local(accept(
        listener,
        Some(keys),
        limits,
        move |one| met.send(Ok(one)).unwrap_or_default(),
        move |_, why| refused.send(Err(why)).unwrap_or_default(),
    ));
    (address, came)
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

/// A file that was removed refused all hosts: the file was read for each of them.
#[test]
fn a_key_that_was_removed_shuts_out_nobody_else() {
    let folder = Folder::new("removed", &["store", "one", "two"]);
    let of_store = folder.keys("store", &[(1, "one"), (2, "two")]);
    run(async {
        let (address, mut came) = open(of_store.clone(), Limits::default());
        let one = folder.keys("one", &[(0, "store")]);
        let two = folder.keys("two", &[(0, "store")]);
        let to = (HostId(0), address);
        let _two = connect(to, Some(&two), Limits::default()).await.unwrap();
        assert_eq!(came.recv().await.unwrap().ok().unwrap().host, Some(HostId(2)));
        std::fs::remove_file(folder.0.join("two.pub")).unwrap();
        let _one = connect(to, Some(&one), Limits::default()).await.unwrap();
        assert_eq!(came.recv().await.unwrap().ok().unwrap().host, Some(HostId(1)));
        // Whoever connects sees that it is refused when it reads.
        let _again = connect(to, Some(&two), Limits::default()).await;
        assert!(came.recv().await.unwrap().is_err(), "host 2 cannot come in again");
    });
    let address = "127.0.0.1:1".parse().unwrap();
    let missing = check(Some(&of_store), address).unwrap();
    assert_eq!(missing, [folder.0.join("two.pub")]);
    std::fs::remove_file(folder.0.join("one.pub")).unwrap();
    check(Some(&of_store), address).unwrap_err();
}

/// A host that keys of other hosts were named to took each of them for the store.
#[test]
fn a_host_is_not_taken_for_the_store() {
    let folder = Folder::new("liar", &["store", "one", "two"]);
    let one = folder.keys("one", &[(0, "store"), (2, "two")]);
    run(async {
        let (address, _came) = open(folder.keys("two", &[(1, "one")]), Limits::default());
        let to_two = connect((HostId(2), address), Some(&one), Limits::default()).await;
        assert!(to_two.is_ok());
        let to_store = connect((HostId(0), address), Some(&one), Limits::default()).await;
        assert!(to_store.is_err(), "{}", address);
    });
}

/// One key took all places.
#[test]
fn one_host_has_a_few_connections() {
    let folder = Folder::new("places", &["store", "one", "two"]);
    let of_store = folder.keys("store", &[(1, "one"), (2, "two")]);
    let limits = Limits { connections_max: 4, of_host_max: 2, ..Limits::default() };
    run(async {
        let (address, mut came) = open(of_store, limits);
        let to = (HostId(0), address);
        let one = folder.keys("one", &[(0, "store")]);
        let mut kept = Vec::new();
        for _ in 0..2 {
            let stream = connect(to, Some(&one), limits).await.unwrap();
            kept.push((stream, came.recv().await.unwrap().ok().unwrap()));
        }
        let _more = connect(to, Some(&one), limits).await;
        let why = came.recv().await.unwrap().err().unwrap();
        assert_eq!(why, "host 1 has 2 connections already");
        let two = folder.keys("two", &[(0, "store")]);
        let _two = connect(to, Some(&two), limits).await.unwrap();
        assert_eq!(came.recv().await.unwrap().ok().unwrap().host, Some(HostId(2)));
        kept.pop();
        let _again = connect(to, Some(&one), limits).await.unwrap();
        assert_eq!(came.recv().await.unwrap().ok().unwrap().host, Some(HostId(1)));
    });
}

/// Whoever said hello and no more kept its place for ever.
#[test]
fn who_does_not_join_is_given_up() {
    use thermocline_hostcache::{Link, Protocol};
    use thermocline_wire::{Config, Role};
    run(async {
        let config = Config::new(Role::Acceptor, [1; 16]);
        let protocol = Protocol::named("manifest").unwrap();
        let clock = crate::Clock(Instant::now());
        let link = Link::new(config, protocol, HostId(0), clock.now()).unwrap();
        let line = crate::line::Line::new(link);
        let (ours, _theirs) = tokio::io::duplex(1 << 16);
        let within = (clock, Duration::from_millis(1));
        let why = crate::line::carry_joining(ours, &line, within, || Ok(())).await;
        assert_eq!(why, "it did not say within 0.001 s which machine it is");
    });
}
