//! Fields behind bodies, and those that may not stand there.

use super::*;

fn fields(these: &[(&'static str, &'static str)]) -> HeaderMap {
    let field = |(name, value): &(&'static str, &'static str)| {
        (HeaderName::from_static(name), value.parse().unwrap())
    };
    these.iter().map(field).collect()
}

#[test]
fn fields_of_the_head_never_stand_behind_a_body() {
    let all = [
        ("content-length", "5"),
        ("transfer-encoding", "chunked"),
        ("host", "evil"),
        ("connection", "close"),
        ("upgrade", "x"),
        ("te", "trailers"),
        ("trailer", "x"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-host", "evil"),
        ("forwarded", "for=127.0.0.1"),
        ("authorization", "Basic eA=="),
        ("proxy-connection", "keep-alive"),
        ("thermocline-load", "queue=0"),
    ];
    let mut these = fields(&all);
    these.insert("x-sum", "7".parse().unwrap());
    these.append("x-sum", "8".parse().unwrap());
    strip(&mut these);
    let kept: Vec<_> =
        these.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    assert_eq!(kept, [("x-sum", &b"7"[..]), ("x-sum", b"8")]);
}

#[test]
fn what_is_left_for_one_message_is_not_for_the_next() {
    let outgoing = Outgoing::default();
    outgoing.leave(&HeaderMap::new());
    assert!(!outgoing.is_left(), "nothing is not left");
    outgoing.leave(&fields(&[("x-sum", "7")]));
    assert!(outgoing.is_left());
    outgoing.begin();
    assert!(!outgoing.is_left());
    assert_eq!(outgoing.take(), b"");
    outgoing.leave(&fields(&[("x-sum", "7"), ("x-more", "8")]));
    assert_eq!(outgoing.take(), b"x-sum: 7\r\nx-more: 8\r\n");
}
