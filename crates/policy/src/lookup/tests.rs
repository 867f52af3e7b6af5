//! Each order as it is described, and settings that do not fit.

use super::{Asked, DEFAULT, Lookup, Scope, Source};
use crate::registry::{PolicySpec, lookups};
use thermocline_units::Nanos;

fn build(text: &str) -> Box<dyn Lookup> {
    PolicySpec::parse(text).unwrap().build_lookup().unwrap()
}

fn asked(in_memory: bool, server_busy: f64) -> Asked {
    Asked { in_memory, holders: 1, server_busy, holder_queue: 0 }
}

#[test]
fn fixed_orders_do_not_look_at_load() {
    for busy in [0.0, 1.0] {
        let of = |text: &str, in_memory| build(text).source(Nanos(0), &asked(in_memory, busy));
        assert_eq!(of("server-first", true), Source::Server);
        assert_eq!(of("server-first", false), Source::Peer);
        assert_eq!(of("peers-first", true), Source::Peer);
        assert_eq!(of("peers-first", false), Source::Peer);
    }
}

#[test]
fn peers_relieve_a_busy_server_until_it_is_idle() {
    let mut lookup = build("by-load:busy=0.5:idle=0.25");
    let mut of = |busy| lookup.source(Nanos(0), &asked(true, busy));
    assert_eq!([0.4, 0.5, 0.4, 0.25, 0.2, 0.4].map(&mut of), {
        use Source::{Peer, Server};
        [Server, Peer, Peer, Peer, Server, Server]
    });
    let mut lookup = build("by-load:queue=3");
    let mut of =
        |holder_queue| lookup.source(Nanos(0), &Asked { holder_queue, ..asked(false, 0.0) });
    assert_eq!([2, 3].map(&mut of), [Source::Peer, Source::Server]);
}

#[test]
fn what_is_pushed_and_kept_is_set() {
    let lookup = build("peers-first:push=all:push-cap=4:from-peers=pass:server-shares=2");
    assert_eq!((lookup.push().scope, lookup.push().cap), (Scope::All, 4));
    let admission = lookup.admission();
    assert_eq!((admission.from_peers, admission.written), (false, true));
    assert_eq!(admission.server_shares_min, 2);
    assert_eq!(build(DEFAULT).push().scope, Scope::Host);
}

#[test]
fn what_does_not_fit_is_refused() {
    let error =
        |text: &str| PolicySpec::parse(text).unwrap().build_lookup().err().expect(text).to_string();
    assert!(error("lru").contains("those are by-load, server-first"), "{}", error("lru"));
    assert!(error("by-load:busy=0.1").contains("at most `busy`, 0.1"));
    assert!(error("by-load:push=some").contains("one of none, host, all"));
    assert!(PolicySpec::parse("larc+by-load").unwrap_err().to_string().contains("read from"));
    assert_eq!(lookups().count(), 3);
}
