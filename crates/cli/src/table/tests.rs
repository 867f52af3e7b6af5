//! Tables on narrow terminals.

use super::{align_numbers, fitted_to, plain};

/// `status` is 106 columns wide; terminals broke each of its lines in two.
#[test]
fn a_narrow_terminal_gets_fewer_columns_and_a_pipe_gets_all() {
    let mut table = plain(["pool", "state", "reads", "writes", "read p99"]);
    table.add_row(["archive", "draining", "1,234,567", "7,654,321", "12.5 ms"]);
    align_numbers(&mut table);
    let whole = table.to_string();
    let width = whole.lines().map(|line| line.chars().count()).max().unwrap();
    for columns in [None, Some(width), Some(500)] {
        assert_eq!(fitted_to(&table, &[2, 3], columns), whole);
    }
    let narrow = fitted_to(&table, &[3, 2], Some(width - 1));
    assert!(narrow.contains("1,234,567") && narrow.contains("12.5 ms"), "{narrow}");
    assert!(!narrow.contains("7,654,321"), "{narrow}");
    assert!(narrow.ends_with("\nthe terminal is too narrow for: writes"), "{narrow}");
    // Never all of them: what is not spare stays, however narrow it is.
    let least = fitted_to(&table, &[3, 2], Some(1));
    assert!(least.contains("archive") && least.contains("12.5 ms"), "{least}");
    assert!(least.ends_with("too narrow for: writes, reads"), "{least}");
}
