//! Packet sockets on a veth pair keep the contract of `Packets`; headers before frames are read and
//! written as the kernel means them.
//!
//! The pair is made in a network namespace of its own. SKIPPED without root and `ip`.

use super::{HEADER_BYTES, Interface, Trouble, completed, sum, with_header};
use std::process::Command;
use std::time::{Duration, Instant};
use thermocline_ports::contract::check_packets;
use thermocline_ports::{Medium, Packets};
use thermocline_units::Nanos;

/// Set in the process that runs within the namespace.
const WITHIN: &str = "THERMOCLINE_WITHIN_NAMESPACE";
/// Patience with the system.
const PATIENCE: Duration = Duration::from_secs(20);

fn ip(words: &str) -> bool {
    let done = Command::new("ip").args(words.split(' ')).output();
    done.is_ok_and(|output| output.status.success())
}

/// A TCP segment in an Ethernet frame, with `payload` bytes.
fn frame(payload: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(((40 + payload) as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 16, 1, 1, 0, 0, 0, 0]);
    frame.extend((0..payload).map(|at| at as u8));
    frame
}

#[test]
fn a_long_frame_comes_back_with_its_checksum() {
    let long = with_header(&frame(4000), 1500).expect("it can be cut");
    assert_eq!(long[..2], [1, 1]);
    let mut long = long;
    let whole = completed(&mut long).expect("a frame").to_vec();
    let pseudo = 6 + 4020;
    let covered: Vec<u8> = [&whole[26..34], &whole[34..]].concat();
    assert_eq!(sum(pseudo, &covered), 0xffff, "the checksum holds");
    let short = with_header(&frame(100), 1500).expect("it is short");
    assert_eq!((&short[..HEADER_BYTES], &short[HEADER_BYTES..]), (&[0; 10][..], &frame(100)[..]));
}

#[test]
fn headers_that_cannot_be_are_refused() {
    let mut other = frame(4000);
    other[23] = 17;
    assert!(with_header(&other, 1500).is_none(), "only TCP can be cut");
    for (start, offset) in [(9000_u16, 0_u16), (34, 9000), (65_535, 65_535), (10_000, 1)] {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[0] = 1;
        bytes[6..8].copy_from_slice(&start.to_ne_bytes());
        bytes[8..10].copy_from_slice(&offset.to_ne_bytes());
        bytes.extend(frame(60));
        assert!(completed(&mut bytes).is_none(), "{start} {offset}");
    }
    assert!(completed(&mut [0; 5]).is_none() && completed(&mut [0; 20]).is_none());
}

#[test]
fn a_veth_pair_keeps_the_contract() {
    if std::env::var_os(WITHIN).is_some() {
        return within();
    }
    let name = format!("tc-contract-{}", std::process::id());
    if !ip(&format!("netns add {name}")) {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("SKIPPED: network namespaces need root and `ip`");
        }
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let run = Command::new("ip")
        .args(["netns", "exec", &name])
        .arg(program)
        .args(["--exact", "interface::tests::a_veth_pair_keeps_the_contract", "--nocapture"])
        .env(WITHIN, "1")
        .output();
    ip(&format!("netns delete {name}"));
    let output = run.expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn within() {
    assert!(ip("link add left type veth peer name right"), "a veth pair");
    assert!(ip("link set left up") && ip("link set right up"), "both are up");
    let mut a = Interface::open("packet:left").expect("a socket");
    let mut b = Interface::open("packet:right").expect("a socket");
    assert!(matches!(a.medium(), Medium::Ethernet { .. }) && a.mtu() == 1500);
    let begun = Instant::now();
    // The kernel passes frames a moment later, and drops them until then.
    let is_up = |name: &str| {
        let state = std::fs::read_to_string(format!("/sys/class/net/{name}/operstate"));
        state.is_ok_and(|state| state.trim() == "up")
    };
    while !(is_up("left") && is_up("right")) {
        assert!(begun.elapsed() < PATIENCE, "the pair is down");
        std::thread::yield_now();
    }
    let mut wait = |_: &Interface, _: &Interface, _: Nanos| {
        assert!(begun.elapsed() < PATIENCE, "packets are missing");
        std::thread::yield_now();
        Nanos(begun.elapsed().as_nanos() as u64)
    };
    check_packets((&mut a, &mut b), &mut wait, 1, 2000);
    assert!(Interface::open("packet:nothing").is_err() && Interface::open("a").is_err());
    troubles(a, b);
}

/// A packet socket was deaf, and reads of a TUN device failed for ever, when the interface was
/// gone.
fn troubles(mut down: Interface, mut gone: Interface) {
    let mut arrived = Vec::new();
    assert!(down.trouble().is_none() && ip("link set left down"));
    down.receive(Nanos(0), 32, &mut arrived);
    assert_eq!((down.trouble(), down.trouble()), (Some(Trouble::Down), None));
    gone.look();
    assert!(gone.trouble().is_none() && ip("link delete right"));
    gone.look();
    assert_eq!(gone.trouble(), Some(Trouble::Gone));
    let Ok(mut tun) = Interface::open("tun:middle") else {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("SKIPPED: there is no /dev/net/tun");
        }
        return;
    };
    tun.receive(Nanos(0), 32, &mut arrived);
    assert!(tun.trouble().is_none() && ip("link delete middle"));
    tun.receive(Nanos(0), 32, &mut arrived);
    assert_eq!(tun.trouble(), Some(Trouble::Gone));
}
