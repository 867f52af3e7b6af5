//! Numbers that cite are found; numbers that count are not.

use super::check;

#[test]
fn a_citation_by_number_is_found_with_its_line() {
    let number = "004";
    for place in [" §4.2", " ch. 3", ", eq. 21", ", Table 3.3", ", Fig. 22"] {
        let found = check("docs/a.md", &format!("fine\nas in {number}{place} says"));
        assert_eq!(found.len(), 1, "{place}");
        assert_eq!(found[0].line, 2);
    }
}

#[test]
fn counts_and_authors_are_no_citations_by_number() {
    for text in ["10.004 § 3", "1000 § 3", "Tai 2015 §4.2", "seed 004", "a loop of 8 000 lines"]
    {
        assert_eq!(check("docs/a.md", text), [], "{text}");
    }
}
