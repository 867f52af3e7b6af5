//! One end of a tunnel as a small program, for measurements: `ends exit LISTEN FOLDER POLICY` or
//! `ends enter TO LISTENER TARGET FOLDER POLICY`.
//!
//! The folder holds keys of both ends, made when they are not there. Each line on standard input is
//! answered by what was sent and received on the link so far.
#![allow(clippy::print_stdout)]

use std::path::Path;
use thermocline_gateway::{
    Common, EnterConfig, ExitConfig, Gateway, KeyFiles, WhenDown, make_keys,
};
use thermocline_tunnel::Sharing;

fn common(folder: &str, own: &str, peer: &str, policy: &str) -> Common {
    let folder = Path::new(folder);
    for name in ["enter", "exit"] {
        if !folder.join(format!("{name}.pub")).exists() {
            make_keys(&folder.join(name)).expect("a measurement stops at what does not work");
        }
    }
    let file = |name: &str, ending: &str| folder.join(format!("{name}.{ending}"));
    let keys = KeyFiles { key: file(own, "key"), peers: vec![file(peer, "pub")] };
    let mut common = Common::new(keys);
    common.policy = policy.to_string();
    common
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let gateway = match words[..] {
        ["exit", listen, folder, policy] => Gateway::exit(ExitConfig {
            common: common(folder, "exit", "enter", policy),
            listen: listen.parse().expect("a measurement stops at what does not work"),
            allow: vec!["*:*".parse().expect("a measurement stops at what does not work")],
        }),
        ["enter", to, listener, target, folder, policy] => Gateway::enter(EnterConfig {
            common: common(folder, "enter", "exit", policy),
            to: to.parse().expect("a measurement stops at what does not work"),
            forward: vec![(
                listener.parse().expect("a measurement stops at what does not work"),
                target.parse().expect("a measurement stops at what does not work"),
            )],
            socks5: Vec::new(),
            transparent: Vec::new(),
            when_down: WhenDown::Refuse,
            sharing: Sharing::All,
        }),
        _ => panic!("see the first lines of this file"),
    };
    let gateway = gateway.expect("a measurement stops at what does not work");
    println!("{}", gateway.addresses[0]);
    for _ in std::io::stdin().lines() {
        let status = gateway.status();
        let link = status.links.first();
        println!(
            "{} {} {:?}",
            link.map_or(0, |link| link.sent_bytes),
            link.map_or(0, |link| link.received_bytes),
            link.and_then(|link| link.link_bytes_per_s)
        );
    }
}
