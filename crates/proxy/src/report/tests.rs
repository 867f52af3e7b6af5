//! Reports as servers write them, and what is none.

use super::*;

#[test]
fn a_field_tells_what_it_says_in_any_order() {
    let whole = LoadReport { queue: 3, arrivals: 1207, balancers: 2, age: Nanos(250_000_000) };
    assert_eq!(from_field("queue=3, arrivals=1207, balancers=2, age=0.25"), Ok(whole));
    assert_eq!(from_field("age=0.25,balancers=2,cpu=0.9,arrivals=1207,queue=3"), Ok(whole));
    assert_eq!(from_field("queue=0"), Ok(LoadReport::default()));
}

#[test]
fn json_tells_the_same() {
    let text = br#"{"queue": 3, "arrivals": 1207, "balancers": 2, "age_s": 0.25, "cpu": 0.9}"#;
    assert_eq!(from_json(text), from_field("queue=3, arrivals=1207, balancers=2, age=0.25"));
    assert_eq!(from_json(br#"{"queue": 0}"#), Ok(LoadReport::default()));
}

#[test]
fn what_is_no_report_is_refused_with_an_example() {
    for text in [
        "",
        "queue",
        "queue=",
        "queue=-1",
        "queue=3 arrivals=1",
        "arrivals=1",
        "queue=1,",
        "queue=99999999999999999999999",
        "queue=1, age=-1",
        "queue=1, age=NaN",
        "queue=1, age=inf",
        "queue=1, age=1e300",
        "queue=0x10",
        "\u{e9}=1",
        "queue=1.5",
    ] {
        let error = from_field(text).unwrap_err();
        assert!(!error.to_string().is_empty(), "{text}");
    }
    for text in ["", "{}", "[]", "{\"queue\": -1}", "{\"queue\": 1, \"age_s\": -1}", "null"] {
        assert!(from_json(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn a_latency_is_told_beside_a_report_or_not_at_all() {
    let fine = Ok(Some(Nanos(4_000_000)));
    assert_eq!(latency_from_field("queue=3, latency=0.004"), fine);
    assert_eq!(latency_from_json(br#"{"queue": 3, "latency_s": 0.004}"#), fine);
    assert_eq!(latency_from_field("queue=3"), Ok(None));
    assert_eq!(latency_from_json(br#"{"queue": 3}"#), Ok(None));
    for text in ["queue=1, latency=", "queue=1, latency=-1", "queue=1, latency=NaN", "latency=1e9"]
    {
        assert!(latency_from_field(text).is_err(), "{text}");
    }
    for text in ["{\"latency_s\": -1}", "{\"latency_s\": \"1\"}", "[", "{\"latency_s\": 1e300}"] {
        assert!(latency_from_json(text.as_bytes()).is_err(), "{text}");
    }
    assert_eq!(from_field("queue=3, latency=0.004"), from_field("queue=3"));
}
