//! Messages to a service manager, as it receives them.

use super::{State, send};
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

fn received(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 256];
    let length = socket.recv(&mut bytes).unwrap();
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}

#[test]
fn a_manager_at_a_path_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    send(path.as_os_str(), State::Ready { status: "2 volumes\nand more" }).unwrap();
    let pid = std::process::id();
    assert_eq!(received(&manager), format!("READY=1\nMAINPID={pid}\nSTATUS=2 volumes\n"));
    send(path.as_os_str(), State::Stopping).unwrap();
    assert_eq!(received(&manager), "STOPPING=1\n");
}

#[test]
fn a_manager_in_the_abstract_namespace_is_told() {
    let name = format!("thermocline-notify-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let manager = UnixDatagram::bind_addr(&address).unwrap();
    send(OsStr::new(&format!("@{name}")), State::Stopping).unwrap();
    assert_eq!(received(&manager), "STOPPING=1\n");
}

#[test]
fn what_is_no_socket_is_an_error() {
    assert!(send(OsStr::new("relative"), State::Stopping).is_err());
    assert!(send(OsStr::new("/nowhere/at/all"), State::Stopping).is_err());
}
