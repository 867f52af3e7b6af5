//! Numbers that cite are found, numbers that count are not; what is cited is listed.

use super::check;

/// The list. No RFC is cited in one piece here: tidy reads this file as well.
const LISTED: &str = concat!(
    "| Dahlin 1999 | M. Dahlin: Interpreting stale load information. ICDCS 1999 |\n",
    "| RFC",
    " 793 | J. Postel: Transmission Control Protocol. 1981 |\n"
);

#[test]
fn a_citation_by_number_is_found_with_its_line() {
    let number = "004";
    for place in [" §4.2", " ch. 3", ", eq. 21", ", Table 3.3", ", Fig. 22"] {
        let found = check("docs/a.md", &format!("fine\nas in {number}{place} says"), LISTED);
        assert_eq!(found.len(), 1, "{place}");
        assert_eq!(found[0].line, 2);
    }
}

#[test]
fn counts_and_authors_are_no_citations_by_number() {
    for text in ["10.004 § 3", "1000 § 3", "Tai 2015 §4.2", "seed 004", "a loop of 8 000 lines"]
    {
        assert_eq!(check("docs/a.md", text, LISTED), [], "{text}");
    }
}

#[test]
fn an_rfc_without_a_row_is_found() {
    let text = "// RFC_793 §3.1, and an RFC\n// (RFC_79, or RFC_7931)\n".replace('_', " ");
    let found = check("crates/functions/src/a.rs", &text, LISTED);
    assert_eq!(found.len(), 1);
    assert!(found[0].message.contains(" 7931 is not in docs/sources.md"));
}

#[test]
fn a_policys_source_without_a_row_is_found() {
    let of = |path, source: &str| {
        let found = check(path, &format!("const A: Entry = Entry {{\n    {source}\n"), LISTED);
        found.iter().map(|finding| finding.message.clone()).collect::<Vec<_>>()
    };
    let policy = "crates/policy/src/balance/a.rs";
    for listed in ["Dahlin, ICDCS 1999", "ours, after Dahlin et al. 1999", "ours", "10000 seeds"] {
        assert!(of(policy, &format!("source: \"{listed}\",")).is_empty(), "{listed}");
    }
    let text = "source: \"Dahlin 1999, 2000; Winston 1977\",";
    let missing = ["Dahlin 2000 is not in docs", "Winston 1977 is not in docs"];
    for (found, expected) in of(policy, text).iter().zip(missing) {
        assert!(found.starts_with(expected), "{found}");
    }
    assert_eq!(of(policy, text).len(), 2);
    assert!(of("crates/volume/src/a.rs", text).is_empty());
}
