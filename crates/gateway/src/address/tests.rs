//! Texts that are read as addresses, and addresses that rules let through.

use super::{Host, HostPort, Rule, is_listener, is_named, is_reached};
use std::net::{IpAddr, SocketAddr};

fn rules(text: &str) -> Vec<Rule> {
    text.split(',').map(|rule| rule.parse().unwrap()).collect()
}

fn allows(of: &str, target: &str) -> bool {
    let target: HostPort = target.parse().unwrap();
    match target.host {
        Host::Ip(address) => is_reached(&rules(of), address, target.port),
        Host::Name(_) => is_named(&rules(of), &target),
    }
}

#[test]
fn addresses_are_read_and_told_alike() {
    for text in ["web.internal:80", "10.0.0.7:1", "[fd00::7]:65535", "a_b-c:80"] {
        assert_eq!(text.parse::<HostPort>().unwrap().to_string(), text);
    }
    let mapped: HostPort = "[::ffff:10.0.0.7]:80".parse().unwrap();
    assert_eq!(mapped.to_string(), "10.0.0.7:80");
    assert_eq!("WEB.Internal.:80".parse::<HostPort>().unwrap().to_string(), "web.internal:80");
    let long = format!("{}:80", "a".repeat(254));
    let wrong = ["", "web", ":80", "web:0", "web:65536", "fd00::7:80", "a b:80", "[web]:80", &long];
    // Found by fuzzing: told and read again, these were other hosts.
    let empty_labels = ["web..:80", "a..web:80", ".web:80", ".:80", "10.0.0.7.:80"];
    for wrong in wrong.into_iter().chain(empty_labels) {
        let error = wrong.parse::<HostPort>().unwrap_err().to_string();
        assert!(error.contains("HOST:PORT"), "{error}");
    }
}

#[test]
fn rules_let_through_what_they_say_and_nothing_else() {
    let of = "10.0.0.0/8:80,[fd00::]/8:*,*.internal:8000-8099,db:5432,192.0.2.1:22";
    for target in [
        "10.255.0.1:80",
        "[fd12::1]:9",
        "a.b.internal:8099",
        "db:5432",
        "192.0.2.1:22",
        "[::ffff:10.1.1.1]:80",
        "DB:5432",
    ] {
        assert!(allows(of, target), "{target} is allowed");
    }
    for target in [
        "11.0.0.1:80",
        "10.0.0.1:81",
        "[fe00::1]:9",
        "internal:8000",
        "ainternal:8000",
        "a.internal:7999",
        "db.evil:5432",
        "db:5433",
        "192.0.2.2:22",
        "10.0.0.1.evil:80",
    ] {
        assert!(!allows(of, target), "{target} is not allowed");
    }
    assert!(allows("*:443", "anything:443") && allows("*:443", "[::1]:443"));
    assert!(!allows("*:443", "anything:80"));
    assert!(allows("0.0.0.0/0:*", "1.2.3.4:5") && !allows("0.0.0.0/0:*", "[::1]:5"));
    let name_only = "localhost:80";
    assert!(!is_reached(&rules(name_only), IpAddr::from([127, 0, 0, 1]), 80));
}

#[test]
fn what_is_no_rule_is_refused_with_an_example() {
    for wrong in [
        "",
        "*",
        "10.0.0.0/33:80",
        "10.0.0.0/8",
        "a/8:80",
        "db:0",
        "db:9-8",
        "db:1-",
        "*.:80",
        "*.10.0.0.1:80",
        "fd00::/8:80",
        "[fd00::]/129:80",
        "d b:80",
    ] {
        let error = wrong.parse::<Rule>().unwrap_err().to_string();
        assert!(error.contains("such as 10.0.0.0/8:80"), "{wrong}: {error}");
    }
}

#[test]
fn a_connection_to_the_listener_itself_is_told_from_one_that_was_brought_there() {
    let is_own = |to: &str, own: &str| {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        is_listener(address(to), address(own))
    };
    assert!(is_own("127.0.0.1:7401", "127.0.0.1:7401"));
    assert!(!is_own("127.0.0.2:7401", "127.0.0.1:7401"));
    assert!(!is_own("127.0.0.1:80", "127.0.0.1:7401"));
    for own in ["0.0.0.0:7401", "[::]:7401"] {
        assert!(is_own("10.0.0.7:7401", own) && is_own("[::ffff:10.0.0.7]:7401", own));
        assert!(is_own("[fd00::7]:7401", own) && !is_own("10.0.0.7:80", own));
    }
    assert!(is_own("[::ffff:10.0.0.7]:7401", "10.0.0.7:7401"));
}
