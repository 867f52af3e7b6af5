//! A socket that is left over makes room for a new one; one that is in use does not.

use super::{OWNER_ONLY, listen, take_datagrams};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

/// `--socket notes.txt` deleted notes.txt: whatever refused a connection was removed.
#[test]
fn only_a_socket_that_is_left_over_gives_way() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("file"), "dear to somebody").unwrap();
    std::fs::create_dir(at("folder")).unwrap();
    symlink("file", at("link")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    for (name, what) in
        [("file", "a file"), ("folder", "a folder"), ("link", "a link"), ("dangling", "a link")]
    {
        for said in [
            listen(&at(name)).unwrap_err().to_string(),
            take_datagrams(&at(name), OWNER_ONLY).unwrap_err().to_string(),
        ] {
            assert!(said.starts_with(what) && said.contains("no socket"), "{name}: {said}");
        }
    }
    assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "dear to somebody");
    assert!(at("folder").is_dir() && at("dangling").is_symlink());

    drop(UnixListener::bind(at("left")).unwrap());
    assert!(at("left").exists(), "dropping a listener leaves its name");
    let (listener, name) = listen(&at("left")).unwrap();
    UnixStream::connect(at("left")).unwrap();
    let mode = at("left").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "for its owner alone");
    drop((listener, name));
    assert!(!at("left").exists());
}

#[test]
fn a_socket_that_somebody_listens_on_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let streams = UnixListener::bind(at("streams")).unwrap();
    let datagrams = UnixDatagram::bind(at("datagrams")).unwrap();
    for name in ["streams", "datagrams"] {
        let said = listen(&at(name)).unwrap_err().to_string();
        assert!(said.contains("somebody listens there already"), "{name}: {said}");
        let said = take_datagrams(&at(name), OWNER_ONLY).unwrap_err().to_string();
        assert!(said.contains("somebody listens there already"), "{name}: {said}");
    }
    UnixStream::connect(at("streams")).unwrap();
    drop((streams, datagrams));
}

#[test]
fn a_name_is_not_taken_away_from_whoever_has_it_now() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let (listener, name) = listen(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    drop((listener, name));
    UnixStream::connect(&path).unwrap();
    drop(other);
}
