//! Lists beside a plain reading of their definition, for lists that are drawn.

use super::*;
use proptest::prelude::*;

/// A range, or a list of what may be excepted.
#[derive(Debug, Clone)]
enum Drawn {
    Range(u16, u16),
    List(Vec<(bool, Drawn)>),
}

impl Drawn {
    fn text(&self) -> String {
        match self {
            Drawn::Range(first, last) => format!("{first}:{last}"),
            Drawn::List(parts) => {
                let part = |(no, part): &(bool, Drawn)| {
                    format!("{}{}", ["", "!"][usize::from(*no)], part.text())
                };
                format!("[{}]", parts.iter().map(part).collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn includes(&self, port: u16) -> bool {
        match self {
            Drawn::Range(first, last) => (*first..=*last).contains(&port),
            Drawn::List(parts) => {
                let has_members = parts.iter().any(|(no, _)| !no);
                let within = |wanted: bool| {
                    parts.iter().any(|(no, part)| *no == wanted && part.includes(port))
                };
                (!has_members || within(false)) && !within(true)
            }
        }
    }
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let range = (0..20u16, 0..6u16).prop_map(|(first, more)| Drawn::Range(first, first + more));
    range.prop_recursive(5, 30, 4, |inner| {
        prop::collection::vec((any::<bool>(), inner), 1..4).prop_map(Drawn::List)
    })
}

proptest! {
    #[test]
    fn a_list_includes_what_its_definition_says(drawn in drawn(), no: bool) {
        let text = format!("{}{}", ["", "!"][usize::from(no)], drawn.text());
        let ports = Ports::parse(&text).unwrap();
        for port in 0..30 {
            let expected = drawn.includes(port) != no;
            prop_assert_eq!(ports.includes(port), expected, "{} of {}", port, text);
        }
    }
}

/// The parts of inner lists counted as those of the outer one, and rules that drop did not apply.
#[test]
fn exceptions_of_an_inner_list_are_its_own() {
    for (text, address, expected) in [
        ("![10.0.0.0/8, !10.1.0.0/16]", "10.1.2.3", true),
        ("![10.0.0.0/8, !10.1.0.0/16]", "10.2.2.3", false),
        ("![10.0.0.0/8, !10.1.0.0/16]", "192.0.2.1", true),
        ("[[10.0.0.0/8, !10.1.0.0/16], 10.1.2.0/24]", "10.1.2.3", true),
        ("[[10.0.0.0/8, !10.1.0.0/16], 10.1.2.0/24]", "10.1.3.3", false),
        ("[10.0.0.0/8, ![10.1.0.0/16, !10.1.2.0/24]]", "10.1.2.3", true),
        ("[10.0.0.0/8, ![10.1.0.0/16, !10.1.2.0/24]]", "10.1.3.3", false),
        ("[[!10.0.0.0/8], 10.0.0.1]", "10.0.0.1", true),
        ("[[!10.0.0.0/8], 10.0.0.1]", "10.0.0.2", false),
    ] {
        let addresses = Addresses::parse(text).unwrap();
        assert_eq!(
            addresses.includes(bits(address.parse().unwrap())),
            expected,
            "{address} {text}"
        );
    }
}

#[test]
fn lists_are_bounded() {
    let nested = |depth| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Ports::parse(&nested(DEPTH_MAX)).is_ok());
    assert!(Ports::parse(&nested(DEPTH_MAX + 1)).unwrap_err().contains("lists within lists"));
    let many =
        |each: usize| format!("[[{}], [{}]]", ["1"; 4000].join(","), vec!["!2"; each].join(","));
    assert!(Ports::parse(&many(96)).is_ok());
    assert!(Ports::parse(&many(97)).unwrap_err().contains("members"));
}
